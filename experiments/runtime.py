"""Running time per strategy, workload and stage on NLTCS and Adult: the running-time figure of the paper's section 5.

From a table in memory to tables that agree: plan, count, noise (with the checks of the gate and the answers from exact
counts), recover and, for the paper's strategies, its consistency step by least squares. Then how it grows with the
number of binary attributes d, with k (all k-way tables) and with the number of records. Of some runs
the fastest counts. Writes runtime.csv, runtime-growth.csv, runtime.svg, runtime-growth.svg.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

import privcube as pc
from experiments import claims, plots
from experiments.data import DATASETS, WORKLOADS, dataset, workload
from experiments.results import Row, chosen, read_rows, write_rows
from experiments.simulate import AUTO, PAPER, C, Choice, F, Q
from experiments.stages import STAGES, Laps, cores, power_law, released
from privcube.released.consistency import consistent_tables

NAME: Final = "runtime"
PARTS: Final = (*STAGES, "consistency")
_AXES: Final = {
    "d": "binary attributes d (all 2-way tables)",
    "k": "k (all k-way tables of 16 binary attributes)",
    "records": "records (all 2-way tables of NLTCS)",
}
_OTHERS: Final = ("I", "Q", "Q+", "F", "F+")
Rows = Sequence[dict[str, str]]


def run(folder: Path, quick: bool) -> None:
    """Write the files."""
    _once(dataset("NLTCS").schema, "Q1", dataset("NLTCS").codes, Q)  # what is loaded once is not timed
    names = ("Q1",) if quick else WORKLOADS
    rows = [row for each in DATASETS for name in names for row in _strategies(each, name, quick)]
    write_rows(folder / "runtime.csv", rows)
    write_rows(folder / "runtime-growth.csv", list(_growth(quick)))
    plots.save(_figure(read_rows(folder / "runtime.csv")), folder, "runtime")
    plots.save(_growth_figure(read_rows(folder / "runtime-growth.csv")), folder, "runtime-growth")


def _strategies(each: str, name: str, quick: bool) -> Iterator[Row]:
    data = dataset(each)
    asked = workload(data.schema, name)
    for choice in (Q, F, C) if quick and each == "Adult" else (*PAPER, AUTO):
        yield {
            "dataset": each, "data": data.data, "records": data.records, "workload": name,
            "tables": len(asked), "cells": sum(asked.sizes), "strategy": choice.symbol, "cores": cores(),
            **_seconds(data.schema, name, data.codes, choice, quick),
        }  # fmt: skip


def _growth(quick: bool) -> Iterator[Row]:
    """The same with one of d, k and the number of records growing."""
    records = dataset("NLTCS")
    generator = np.random.default_rng(2013)
    for d in (4, 6) if quick else (4, 8, 12, 16, 20):
        codes = pd.DataFrame({f"a{n}": generator.integers(0, 2, records.records, np.uint8) for n in range(d)})
        schema = pc.Schema.from_sizes(dict.fromkeys(codes, 2))
        yield from _grown("d", d, schema, "Q2", codes, quick)
    for k in (1, 2) if quick else (1, 2, 3, 4):
        yield from _grown("k", k, records.schema, f"Q{k}", records.codes, quick)
    for count in (1000, 2000) if quick else (1_000, 10_000, 100_000, 1_000_000):
        drawn = records.codes.astype(np.uint8).iloc[generator.integers(0, records.records, count)]
        yield from _grown("records", count, records.schema, "Q1" if quick else "Q2", drawn, quick)


def _grown(grows: str, value: int, schema: pc.Schema, name: str, codes: pd.DataFrame, quick: bool) -> Iterator[Row]:
    asked = workload(schema, name)
    for choice in (C,) if quick else (*PAPER, AUTO):
        yield {
            "grows": grows, "value": value, "records": len(codes), "attributes": len(schema), "tables": len(asked),
            "cells": sum(asked.sizes), "strategy": choice.symbol,
            **_seconds(schema, name, codes, choice, quick),
        }  # fmt: skip


def _seconds(schema: pc.Schema, name: str, codes: pd.DataFrame, choice: Choice, quick: bool) -> dict[str, float]:
    """The seconds of each part in the fastest of some whole releases; what takes a second is not done again."""
    runs = [_once(schema, name, codes, choice)]
    while not quick and len(runs) < 3 and sum(run["total"] for run in runs) < 1:
        runs.append(_once(schema, name, codes, choice))
    return {"runs": len(runs), **min(runs, key=lambda run: run["total"])}


def _once(schema: pc.Schema, name: str, codes: pd.DataFrame, choice: Choice) -> dict[str, float]:
    def make_plan() -> pc.Plan:
        options: Any = {"budgets": choice.budgets, "recovery": choice.recovery}
        return pc.plan(workload(schema, name), pc.PureDP(1), choice.strategy, **options)

    began, laps = time.perf_counter(), Laps()
    plan, tables = released(make_plan, codes, laps)
    if plan.options.recovery == "direct":
        consistent_tables(schema, tables)
        laps.end("consistency")
    total = time.perf_counter() - began
    return {**{part: laps.seconds.get(part, 0.0) for part in PARTS}, "total": total}


# Plots


def _figure(rows: Rows) -> Any:
    """As in the paper: seconds on a logarithmic scale, workloads side by side, a bar for every strategy."""
    names = ("NLTCS", "Adult")
    made, axes = plots.panels(len(names), 1, shared=False, width=8.5)
    for name, panel in zip(names, axes[:, 0], strict=True):
        own = chosen(rows, dataset=name)
        workloads = list(dict.fromkeys(row["workload"] for row in own))
        symbols = list(dict.fromkeys(row["strategy"] for row in own))
        for at, symbol in enumerate(symbols):
            places = np.arange(len(workloads)) + (at - (len(symbols) - 1) / 2) * 0.1
            totals = [float(row["total"]) for row in chosen(own, strategy=symbol)]
            panel.bar(places, totals, width=0.08, **plots.bar_style(symbol))
        sizes = [chosen(own, workload=each)[0] for each in workloads]
        labels = [f"{row['workload'].replace('*', '$^*$')}\n{row['tables']} tables" for row in sizes]
        panel.set_xticks(range(len(workloads)), labels)
        panel.grid(axis="x", visible=False)
        panel.set_ylabel("seconds, end to end")
        plots.seconds_axis(panel, [float(row["total"]) for row in rows])
        panel.set_title(dataset(name).title, fontsize=9)
    made.suptitle("Running time by strategy, from records to tables that agree (pure guarantee)", fontsize=10)
    plots.legend_below(made, axes[0, 0], 8)
    return made


def _growth_figure(rows: Rows) -> Any:
    made, axes = plots.panels(1, len(_AXES), shared=False)
    for grows, panel in zip(_AXES, axes[0], strict=True):
        own = chosen(rows, grows=grows)
        for symbol in dict.fromkeys(row["strategy"] for row in own):
            line = chosen(own, strategy=symbol)
            x, y = ([float(row[column]) for row in line] for column in ("value", "total"))
            panel.plot(x, y, **plots.style(symbol))
        panel.set_xlabel(_AXES[grows])
        plots.seconds_axis(panel, [float(row["total"]) for row in rows])
        if grows == "records":
            panel.set_xscale("log")
        else:
            panel.set_xticks(sorted({int(row["value"]) for row in own}))
    axes[0, 0].set_ylabel("seconds, end to end")
    made.suptitle("How running time grows (pure guarantee)", fontsize=10)
    plots.legend_below(made, axes[0, 0], 8)
    return made


# Page


def section(folder: Path) -> str:
    """For the page: what the paper found, whether it holds, where the time goes, how it grows."""
    rows, growth = (read_rows(folder / f"{name}.csv") for name in ("runtime", "runtime-growth"))
    auto = [float(row["total"]) for row in chosen(rows, strategy="auto")]
    searched = [float(row["plan"]) / float(row["total"]) for row in chosen(rows, strategy="auto")]
    return "\n".join(
        [
            f"Seconds on {rows[0]['cores']} cores, from a table in memory to tables that agree. **auto takes "
            f"{_span(auto)}**, of which its search for a plan is {100 * np.median(searched):.0f} % (median), "
            "whose length its `effort` sets.",
            "",
            "![Running time by strategy](runtime.svg)",
            "",
            "| the paper (section 5) | found | verdict | why |",
            "|---|---|---|---|",
            *[
                f"| {words} | {found} | {verdict} | {'' if verdict == claims.REPRODUCES else why} |"
                for words, found, verdict, why in _claims(rows, growth)
            ],
            "",
            *_where_it_goes(rows),
            "",
            *_how_it_grows(growth),
            "",
            "![How running time grows](runtime-growth.svg)",
            "",
            "Numbers: [runtime.csv](runtime.csv), [runtime-growth.csv](runtime-growth.csv).",
        ]
    )


def _claims(rows: Rows, growth: Rows) -> Iterator[tuple[str, str, str, str]]:
    """What the paper says, what is so here, the verdict, and why it differs."""
    nltcs, adult = (chosen(rows, dataset=name) for name in ("NLTCS", "Adult"))
    clusters, others = _column(nltcs, "total", "C", "C+"), _column(nltcs, "total", *_OTHERS)
    finding = _column(nltcs, "plan", "C", "C+")
    yield (
        "Clustering takes up to several hours on NLTCS",
        f"{_span(clusters)}; finding clusters at most {_short(max(finding))} s",
        claims.REPRODUCES if max(clusters) > 3600 else claims.FAILS,
        "The costs of all merges are kept in one matrix, of which a merge changes one row.",
    )
    middle = float(np.median(others))
    holds = (max(others) < 1, middle < 0.1)
    counting = float(np.median(np.array(_column(nltcs, "count", *_OTHERS)) / others))
    few = min(chosen(growth, grows="records"), key=lambda row: int(row["value"]))
    yield (
        "All others always take less than a second, typically less than a tenth",
        f"{_span(others)}, median {_short(middle)} s",
        claims.REPRODUCES if all(holds) else "in part" if any(holds) else claims.OTHER_SIZE,
        f"{100 * counting:.0f} % of it (median) is counting, most of which has nothing to do with the records: "
        f"{int(few['value']):,} of them take {_short(float(few['count']))} s, too.",
    )
    ratio = float(np.median(clusters)) / middle
    yield (
        "Clustering is dramatically slower than the others",
        f"{ratio:.1f} times the others' median",
        claims.REPRODUCES if ratio >= 10 else claims.OTHER_SIZE if ratio >= 2 else claims.FAILS,
        f"Finding clusters is {100 * float(np.median(np.array(finding) / clusters)):.0f} % of its time (median).",
    )
    optimized = [row for row in nltcs if row["strategy"] in ("Q+", "F+")]
    shares = [100 * (float(row["plan"]) + float(row["consistency"])) / float(row["total"]) for row in optimized]
    yield (
        "Optimization and consistency take essentially no time compared with handling the data",
        f"{min(shares):.0f} to {max(shares):.0f} % of the time of Q+ and F+",
        claims.REPRODUCES if max(shares) < 10 else claims.OTHER_SIZE if max(shares) < 50 else claims.FAILS,
        f"Handling {int(nltcs[0]['records']):,} records takes little time itself.",
    )
    yield _claim_about_dimension(growth)
    yield _claim_about_records(growth)
    slowest = {family: max(_column(adult, "total", family, f"{family}+")) for family in "QFC"}
    yield (
        "F and Q take at most tens of seconds on Adult",
        f"Q at most {_short(slowest['Q'])} s, F {_short(slowest['F'])} s",
        claims.REPRODUCES if max(slowest["Q"], slowest["F"]) < 100 else claims.FAILS,
        "",
    )
    yield (
        "C takes longer than F and Q on Adult",
        f"C at most {_short(slowest['C'])} s",
        claims.REPRODUCES if slowest["C"] == max(slowest.values()) else claims.FAILS,
        "C measures few tables; F has thousands of coefficients, each with noise of its own.",
    )


def _claim_about_dimension(growth: Rows) -> tuple[str, str, str, str]:
    """Whether the planning time of C grows faster than the square of the number of tables, which is about d^2 / 2."""
    own = chosen(growth, grows="d", strategy="C")
    d, seconds = ([float(row[column]) for row in own] for column in ("value", "plan"))
    exponent, _ = power_law(d, seconds)
    most = max(chosen(growth, strategy="C"), key=lambda row: int(row["tables"]))
    return (
        "With more attributes clustering becomes exponentially worse",
        f"finding clusters takes {_short(seconds[0])} s at d = {d[0]:.0f}, {_short(seconds[-1])} s at d = {d[-1]:.0f}: "
        f"about d^{exponent:.1f}; for {int(most['tables']):,} tables "
        f"{_short(float(most['plan']))} s",
        claims.REPRODUCES if exponent > 4 else claims.FAILS,
        "Tables are compared in pairs; what counts is how many there are, a power of d.",
    )


def _claim_about_records(growth: Rows) -> tuple[str, str, str, str]:
    symbols = dict.fromkeys(row["strategy"] for row in growth if row["strategy"] != "auto")
    lines = [_line(growth, "records", symbol) for symbol in symbols]
    ratios = [seconds[-1] / seconds[0] for _, seconds in lines]
    first, last = (lines[0][0][at] for at in (0, -1))
    worst = max(power_law(*line)[0] for line in lines)
    return (
        "Time is virtually constant in the number of records",
        f"{last / first:,.0f} times the records take {min(ratios):.1f} to {max(ratios):.1f} times as long",
        claims.REPRODUCES if worst < 0.1 else claims.OTHER_SIZE if worst < 0.5 else claims.FAILS,
        "All but counting is constant; counting is not, see [how large can it get](../guide/scale.md).",
    )


def _where_it_goes(rows: Rows) -> list[str]:
    largest = max(chosen(rows, dataset="NLTCS"), key=lambda row: int(row["cells"]))
    own = chosen(rows, dataset="NLTCS", workload=largest["workload"])
    name = largest["workload"].replace("*", "\\*")
    return [
        f"Where the time goes, NLTCS {name} ({largest['tables']} tables), in seconds (*noise* is what the gate does: "
        "it checks the plan, works out the answers and draws):",
        "",
        f"| strategy | {' | '.join(PARTS)} | total |",
        "|---|" + "---|" * (len(PARTS) + 1),
        *[
            f"| {row['strategy']} | {' | '.join(_short(float(row[part])) for part in (*PARTS, 'total'))} |"
            for row in own
        ],
    ]


def _how_it_grows(growth: Rows) -> list[str]:
    body = []
    for symbol in dict.fromkeys(row["strategy"] for row in growth):
        cells = []
        for grows in _AXES:
            x, y = _line(growth, grows, symbol)
            cells.append(f"{_short(y[0])} s at {x[0]:,.0f}, {_short(y[-1])} s at {x[-1]:,.0f}")
        body.append(f"| {symbol} | {' | '.join(cells)} |")
    return [
        "How it grows, from the smallest to the largest size:",
        "",
        f"| strategy | {' | '.join(_AXES.values())} |",
        "|---|" + "---|" * len(_AXES),
        *body,
    ]


def _line(growth: Rows, grows: str, symbol: str) -> tuple[list[float], list[float]]:
    own = chosen(growth, grows=grows, strategy=symbol)
    return [float(row["value"]) for row in own], [float(row["total"]) for row in own]


def _column(rows: Rows, column: str, *symbols: str) -> list[float]:
    return [float(row[column]) for row in rows if row["strategy"] in symbols]


def _span(seconds: Sequence[float]) -> str:
    return f"{_short(min(seconds))} to {_short(max(seconds))} s"


def _short(seconds: float) -> str:
    return f"{seconds:.2g}" if seconds < 10 else f"{seconds:,.0f}"
