"""Accuracy over epsilon on Adult and NLTCS: the figures of the paper's section 5, with our plans beside them.

Per data set, six workloads, the paper's seven strategies and "auto". Plotted is the paper's measure: the mean over all
cells of the absolute error, each divided by the mean true answer of its table. Every point is the mean of independent
releases; bars are one standard deviation of a release. Writes accuracy.csv, gains.csv (optimal over uniform budgets),
degrees.csv (all k-way tables), claims.csv (what the paper says about it), accuracy-adult.svg, accuracy-nltcs.svg.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import numpy as np

import privcube as pc
from experiments import claims, plots
from experiments.data import DATASETS, WORKLOADS, Dataset, dataset, workload
from experiments.results import Row, chosen, read_rows, write_rows
from experiments.simulate import AUTO, PAPER, Choice, bound, planned, predicted, releases, rescaled
from privcube.accuracy.predictor import drawn_table_variances
from privcube.model.options import Effort
from privcube.model.privacy.guarantee import Guarantee

NAME: Final = "accuracy"
EPSILONS: Final = ("0.01", "0.1", "0.2", "0.5", "1", "3", "10")


def run(folder: Path, quick: bool) -> None:
    """Write the files."""
    names = ("Q1", "Q1*") if quick else WORKLOADS
    epsilons = ("0.1", "1") if quick else EPSILONS
    effort: Effort = "fast" if quick else "normal"
    guarantees = [pc.PureDP(epsilon) for epsilon in epsilons]
    rows = simulated(
        names, (*PAPER, AUTO), guarantees, effort, repetitions=2 if quick else 5, workers=1 if quick else 2
    )
    write_rows(folder / "accuracy.csv", rows)
    summarize(folder, names, (1, 2) if quick else (1, 2, 3, 4))


def simulated(
    names: Sequence[str],
    choices: Sequence[Choice],
    guarantees: Sequence[Guarantee],
    effort: Effort,
    repetitions: int,
    workers: int,
) -> list[Row]:
    """The points of all data sets, workloads and strategies; processes, one per core, share the workloads."""
    cases = [(each, name) for name in reversed(names) for each in DATASETS]  # the longest first
    work = partial(_of_case, choices=choices, guarantees=guarantees, effort=effort, repetitions=repetitions)
    workers = min(workers, len(os.sched_getaffinity(0)))
    if workers == 1:
        found = dict(zip(cases, map(work, cases), strict=True))
    else:
        with ProcessPoolExecutor(workers) as pool:
            found = dict(zip(cases, pool.map(work, cases), strict=True))
    return [row for each in DATASETS for name in names for row in found[each, name]]


def _of_case(
    case: tuple[str, str], choices: Sequence[Choice], guarantees: Sequence[Guarantee], effort: Effort, repetitions: int
) -> list[Row]:
    start, (each, name) = time.perf_counter(), case
    rows = [row for choice in choices for row in points(dataset(each), name, choice, guarantees, effort, repetitions)]
    click.echo(f"  {each} {name}: {time.perf_counter() - start:.0f} s", err=True)
    return rows


def summarize(folder: Path, names: Sequence[str], ways: Sequence[int]) -> None:
    """Gains, claims and plots from accuracy.csv."""
    accuracy = read_rows(folder / "accuracy.csv")
    pairs = [(each, name) for each in DATASETS for name in names]
    write_rows(folder / "gains.csv", claims.simulated_gains(accuracy) + claims.predicted_gains(pairs))
    write_rows(folder / "degrees.csv", claims.degrees(ways))
    gains, degrees = (read_rows(folder / f"{name}.csv") for name in ("gains", "degrees"))
    write_rows(folder / "claims.csv", claims.judged(gains) + claims.judged_orders(accuracy, degrees))
    for data in map(dataset, DATASETS):
        own = chosen(accuracy, dataset=data.name)
        made = figure(own, f"{data.title}: error of released tables under pure differential privacy")
        plots.save(made, folder, f"accuracy-{data.name.lower()}")


def points(
    data: Dataset, name: str, choice: Choice, guarantees: Sequence[Guarantee], effort: Effort, repetitions: int
) -> Iterator[Row]:
    """Simulated and predicted errors of one strategy, planned once: shares do not depend on the amount.

    But "auto" compares strategies by the noise that is drawn, and narrow noise is less than predicted: from epsilon 2
    on another one may be better than the search, whose plan is still the same.
    """
    asked = workload(data.schema, name)
    first = planned(asked, guarantees[0], choice, effort)
    for guarantee in guarantees:
        plan = rescaled(first, guarantee)
        if choice == AUTO and isinstance(guarantee, pc.PureDP) and guarantee.epsilon >= 2:
            plan = min(plan, planned(asked, guarantee, choice, "fast"), key=_drawn_error)
        made = releases(plan, data.records, repetitions)
        scaled = np.array([errors.scaled for errors in made])
        foreseen, most = predicted(plan, data.records), bound(plan, data.records)
        yield {
            "dataset": data.name,
            "data": data.data,
            "records": data.records,
            "workload": name,
            "tables": len(asked),
            "cells": sum(asked.sizes),
            **{amount: f"{float(value):g}" for amount, value in guarantee.amounts.items()},
            "strategy": choice.symbol,
            "plan": plan.options.strategy + (f", effort {plan.options.effort}" if choice == AUTO else ""),
            "releases": repetitions,
            "scaled error": float(scaled.mean()),
            "scaled error stddev": float(scaled.std(ddof=1)),
            "scaled error predicted": foreseen.scaled,
            "scaled error bound": most.scaled,
            "error in records": float(np.mean([errors.absolute for errors in made])),
            "error in records predicted": foreseen.absolute,
            "error in records bound": most.absolute,
            "total variance predicted": plan.total_variance,
        }


def _drawn_error(plan: pc.Plan) -> float:
    return float(np.array(plan.workload.sizes) @ drawn_table_variances(plan))


def figure(rows: list[dict[str, str]], title: str) -> Any:
    """Panels as in the paper: Q1, Q1*, Q1a over Q2, Q2*, Q2a."""
    names = list(dict.fromkeys(row["workload"] for row in rows))
    across = min(3, len(names))
    made, axes = plots.panels(-(-len(names) // across), across)
    for name, panel in zip(names, axes.flat, strict=True):
        own = chosen(rows, workload=name)
        for symbol in dict.fromkeys(row["strategy"] for row in own):
            line = chosen(own, strategy=symbol)
            columns = ("epsilon", "scaled error", "scaled error stddev")
            x, y, bar = ([float(row[column]) for row in line] for column in columns)
            panel.errorbar(x, y, yerr=bar, capsize=2, **plots.style(symbol))
        panel.axhline(1, color="black", linewidth=0.6, linestyle=":")
        size = f"{own[0]['tables']} tables, {int(own[0]['cells']):,} cells"
        panel.set_title(f"{name.replace('*', '$^*$')}: {size}", fontsize=9)
        panel.set_yscale("log")
        plots.epsilon_axis(panel, [float(row["epsilon"]) for row in own])
    for panel in axes[-1]:
        panel.set_xlabel("privacy budget ε")
    for panel in axes[:, 0]:
        panel.set_ylabel("error / mean count of its table")
    key = "(dotted: error as large as the mean count; bars: one standard deviation of a release)"
    made.suptitle(f"{title}\n{key}", fontsize=10)
    plots.legend_below(made, axes.flat[0], 8)
    return made
