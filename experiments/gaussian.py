"""Accuracy under (epsilon, delta): the figures that the paper omits, with Gaussian noise and delta one in a million.

The paper's strategies with the Gaussian budgets of its appendix, and "residual", the optimum for Gaussian noise, on the
same data and workloads as `accuracy`. Noise has its exact price; accounted for through zCDP, or by the paper's classic
constant, the same plans have noise of another size, shown beside it, and so is "auto" under the pure guarantee. Writes
gaussian.csv, prices.csv (the variance by each account), calibration.csv, gaussian-adult.svg, gaussian-nltcs.svg,
calibration.svg.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from typing import Any, Final

import numpy as np

import privcube as pc
from experiments import accuracy, plots
from experiments.data import DATASETS, WORKLOADS, dataset, workload
from experiments.results import Row, chosen, read_rows, write_rows
from experiments.simulate import PAPER, RESIDUAL, unit_variance
from privcube.accuracy.predictor import drawn_table_variances
from privcube.model.groups import row_weights
from privcube.model.options import PlanOptions
from privcube.planning.planner import plan_under

NAME: Final = "gaussian"
DELTA: Final = "1e-6"
EPSILONS: Final = ("0.01", "0.1", "1", "10")
PRICED: Final = (("1", "1e-6"), ("0.1", "1e-9"))  # epsilon and delta of prices.csv
TABLES: Final = (1, 3, 10, 30, 100, 300, 1000)


def run(folder: Path, quick: bool) -> None:
    """Write the files."""
    epsilons = ("0.1", "1") if quick else EPSILONS
    names = ("Q1",) if quick else WORKLOADS
    guarantees = [pc.ApproxDP(epsilon, DELTA) for epsilon in epsilons]
    choices = (*PAPER, RESIDUAL)
    rows = accuracy.simulated(
        names, choices, guarantees, "fast", repetitions=2 if quick else 3, workers=1 if quick else 2
    )
    write_rows(folder / "gaussian.csv", rows)
    write_rows(folder / "prices.csv", prices(names))
    write_rows(folder / "calibration.csv", calibration(epsilons))
    written = read_rows(folder / "gaussian.csv")
    for data in map(dataset, DATASETS):
        title = f"{data.title}: error of released tables under (ε, δ)-differential privacy, δ = {DELTA}"
        made = accuracy.figure(chosen(written, dataset=data.name), title)
        plots.save(made, folder, f"gaussian-{data.name.lower()}")
    plots.save(_figure(read_rows(folder / "calibration.csv")), folder, "calibration")


def prices(names: Sequence[str]) -> list[Row]:
    """The mean variance of a count, as drawn, by what auto plans under each account of the same epsilon and delta.

    "continuous" is the least variance that any linear strategy has with Gaussian noise at its exact price, before it is
    rounded to whole numbers; "narrowest row" the variance of the narrowest noise that is rounded.
    """
    rows: list[Row] = []
    for data, name in ((dataset(each), name) for each in DATASETS for name in names):
        asked = workload(data.schema, name)
        for epsilon, delta in PRICED:
            exact = pc.ApproxDP(epsilon, delta)
            gaussian = plan_under(asked, exact, PlanOptions())
            zcdp = pc.plan(asked, pc.ApproxDP(epsilon, delta, calibration="zcdp"))
            pure, auto = pc.plan(asked, pc.PureDP(epsilon)), pc.plan(asked, exact)
            weights = [min(row_weights(gaussian.frame, group)) for group in gaussian.groups]
            rows.append(
                {"dataset": data.name, "workload": name, "epsilon": epsilon, "delta": delta}
                | {"zcdp": _drawn(zcdp), "exact": _drawn(gaussian), "pure": _drawn(pure), "auto": _drawn(auto)}
                | {"continuous": gaussian.mean_cell_variance, "auto is pure": isinstance(auto.guarantee, pc.PureDP)}
                | {"exact over zcdp": _drawn(gaussian) / _drawn(zcdp), "auto over zcdp": _drawn(auto) / _drawn(zcdp)}
                | {"exact over continuous": _drawn(gaussian) / gaussian.mean_cell_variance}
                | {"narrowest row": float(np.min(gaussian.noise_variances() * np.array(weights)))}
            )
    return rows


def _drawn(plan: pc.Plan) -> float:
    """The mean variance of a count."""
    sizes = np.array(plan.workload.sizes)
    return float(sizes @ drawn_table_variances(plan) / sizes.sum())


def calibration(epsilons: tuple[str, ...]) -> list[Row]:
    """The standard deviation of the noise on each of some tables with equal budgets, for each account.

    A record is in one cell of every table: noise of the pure guarantee grows with the number of tables, Gaussian noise
    with its root.
    """
    rows: list[Row] = []
    for epsilon in epsilons:
        pure = sqrt(unit_variance(pc.PureDP(epsilon)))
        exact, zcdp, classic = (
            sqrt(unit_variance(pc.ApproxDP(epsilon, DELTA, calibration=how))) for how in ("exact", "zcdp", "classic")
        )
        for tables in TABLES:
            rows.append(
                {"epsilon": epsilon, "delta": DELTA, "tables": tables, "pure": pure * tables}
                | {"exact": exact * sqrt(tables), "zcdp": zcdp * sqrt(tables), "classic": classic * sqrt(tables)}
                | {"classic over exact": classic / exact, "zcdp over exact": zcdp / exact}
            )
    return rows


def _figure(rows: list[dict[str, str]]) -> Any:
    made, axes = plots.panels(1, 2, shared=False)
    left, right = axes[0]
    single = chosen(rows, tables="1")
    for column, color, label in (("classic", "#9467bd", "classic constant"), ("zcdp", "#d62728", "zCDP")):
        ratios = [float(row[f"{column} over exact"]) for row in single]
        left.plot([float(row["epsilon"]) for row in single], ratios, marker="o", color=color, label=label)
    left.legend(frameon=False, fontsize=8)
    left.axhline(1, color="black", linewidth=0.6, linestyle=":")
    plots.epsilon_axis(left, [float(row["epsilon"]) for row in rows])
    left.set(xlabel="privacy budget ε", ylabel="noise over that at its exact price (standard deviation)")
    left.set_title("any number of tables", fontsize=9)
    own = chosen(rows, epsilon="1")
    for column, label, line in (
        ("pure", "pure (Laplace)", "k-"),
        ("classic", "(ε, δ), classic constant", "C4--"),
        ("zcdp", "(ε, δ), zCDP", "C3-"),
        ("exact", "(ε, δ), exact price", "C0-"),
    ):
        right.plot([float(r["tables"]) for r in own], [float(r[column]) for r in own], line, marker=".", label=label)
    right.set(xscale="log", yscale="log", xlabel="number of tables", ylabel="standard deviation of a count (records)")
    right.set_title("ε = 1, equal budgets", fontsize=9)
    right.legend(frameon=False, fontsize=8)
    made.suptitle(f"Size of the noise, δ = {DELTA}", fontsize=10)
    return made
