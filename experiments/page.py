"""The page "How accurate is it?", from the CSV files of the other studies: for those who decide about a release.

Every number on it is read or computed from these files. Sections of studies that were not run are left out. A study
may bring its own section as `section(folder) -> str`, in Markdown with links relative to the results; else its plots
and files are listed. Written to ../guide/accuracy.md beside the results, or among them where there is no such folder;
and so is the page "How large can it get?", scale.md (`experiments.scale`).
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from experiments import scale
from experiments.data import DATASETS, STAND_IN, WORKLOADS
from experiments.results import chosen, escaped, number, read_rows, short
from experiments.simulate import NORMAL, PAPER

NAME: Final = "page"
OTHERS: Final = {
    "runtime": "How long does it take?",
    "scaling": "How large can it get?",
    "peers": "Compared with other systems",
}
_PAPER: Final = tuple(choice.symbol for choice in PAPER)
_MEANING: Final = {
    "I": "noise on every cell of the table of all attributes",
    "Q": "noise on every wanted table",
    "F": "noise on Fourier coefficients",
    "C": "noise on fewer, larger tables (clusters)",
}
Rows = Sequence[dict[str, str]]


def run(folder: Path, quick: bool) -> None:
    """Write the pages."""
    for path, parts in (
        (page_path(folder), _parts(folder, quick)),
        (page_path(folder, "scale.md"), scale.parts(folder, quick)),
    ):
        text = "\n\n".join(part for part in parts if part) + "\n"
        to_results = os.path.relpath(folder, path.parent)
        if parts:
            path.write_text(re.sub(r"\]\(results:", f"]({to_results}/", text), encoding="utf-8")


def page_path(folder: Path, name: str = "accuracy.md") -> Path:
    """Where a page of these results goes."""
    guide = folder.resolve().parent / "guide"
    return (guide if guide.is_dir() else folder) / name


def _parts(folder: Path, quick: bool) -> list[str]:
    accuracy = read_rows(folder / "accuracy.csv")
    return [
        "# How accurate is it?",
        "This page is written by `make experiments` from the files in [results](results:), down to every number; "
        "what a "
        "study does is in its `--help`: `python -m experiments accuracy --help`."
        + (" **It was made by a quick run: few releases, few workloads.**" if quick else ""),
        _data_note(accuracy),
        _in_short(accuracy),
        _expect(accuracy),
        _figures(accuracy),
        _claims(read_rows(folder / "claims.csv")),
        _gaussian(
            accuracy,
            *(read_rows(folder / f"{name}.csv") for name in ("gaussian", "calibration", "prices")),
        ),
        _table1(read_rows(folder / "table1.csv")),
        *[_other(folder, study, title) for study, title in OTHERS.items()],
        _method(accuracy),
    ]


def _data_note(accuracy: Rows) -> str:
    made_up = sorted({row["dataset"] for row in accuracy if row["data"] == STAND_IN})
    if not made_up:
        return ""
    names = " and ".join(made_up)
    return f"**The records of {names} were not at hand: the figures are for a {STAND_IN} of the same shape.**"


def _in_short(accuracy: Rows) -> str:
    lines = ["## In short"]
    for name in DATASETS:
        own = chosen(accuracy, dataset=name, epsilon="1")
        asked = [each for each in ("Q2", "Q1") if chosen(own, workload=each)]
        if not asked:
            continue
        of_workload = chosen(own, workload=asked[0])
        ours, even = (chosen(of_workload, strategy=symbol)[0] for symbol in ("auto", "Q"))
        best = _best(of_workload)
        error, scaled = (float(ours[f"{measure}"]) for measure in ("error in records", "scaled error"))
        lines.append(
            f"- **{name}**, {int(ours['records']):,} people, all {asked[0][1]}-way tables ({ours['tables']} tables, "
            f"{int(ours['cells']):,} counts), epsilon 1: a published count is off by **{short(error)} people on "
            f"average**, "
            f"{_percent(scaled)} of the mean count of its table. With noise split evenly over the tables it is "
            f"{short(float(even['error in records']))} people, with the best of the paper's strategies "
            f"({best['strategy']}) "
            f"{short(float(best['error in records']))}."
        )
    lines.append(
        "- The error of a count does not depend on how large the count is, nor on how many people are in the data: "
        "twice the "
        "people, half the relative error. Half the epsilon, twice the error."
    )
    lines.append(
        "- The error is known before any record is read: `privcube plan` tells it for your own tables, at no cost "
        "in privacy "
        "(see [planning](planning.md)). Ask for what is needed only: every further table takes from the budget of "
        "the others."
    )
    return "\n".join([lines[0], "", *lines[1:]])


def _expect(accuracy: Rows) -> str:
    if not accuracy:
        return ""
    body = []
    for name, asked in _cases(accuracy):
        one = chosen(accuracy, dataset=name, workload=asked, epsilon="1")
        ours, even, best = chosen(one, strategy="auto")[0], chosen(one, strategy="Q")[0], _best(one)
        tenth = number(accuracy, "error in records", dataset=name, workload=asked, epsilon="0.1", strategy="auto")
        error, scaled = float(ours["error in records"]), float(ours["scaled error"])
        body.append(
            f"| {name} {escaped(asked)} | {ours['tables']} | {int(ours['cells']):,} | {short(tenth)} | {short(error)} "
            f"| {_percent(scaled)} | {short(float(ours['scaled error predicted']) / 0.1)} "
            f"| {float(even['error in records']) / error:.1f} "
            f"| {float(best['error in records']) / error:.1f} ({best['strategy']}) |"
        )
    return "\n".join(
        [
            "## What to expect of a release",
            "",
            "Qk are all tables of k attributes, Qk\\* also half of those of k + 1, Qka also those of k + 1 with the "
            "first "
            'attribute. Errors are means over all counts of a workload, for the plan that `strategy = "auto"` '
            "makes; 'times "
            "less' compares with noise split evenly over the tables (Q), and with the best of the paper's "
            "strategies.",
            "",
            "| workload | tables | counts | error at ε = 0.1 (people) | error at ε = 1 (people) | of the mean "
            "count, ε = 1 "
            "| ε for 10 % of the mean count | times less than Q | times less than the paper's best |",
            "|---|---|---|---|---|---|---|---|---|",
            *body,
        ]
    )


def _figures(accuracy: Rows) -> str:
    if not accuracy:
        return ""
    names = [name for name in DATASETS if chosen(accuracy, dataset=name)]
    meaning = "; ".join(f"**{symbol}** {words}" for symbol, words in _MEANING.items())
    return "\n\n".join(
        [
            "## The figures of the paper, with ours beside them",
            f"Strategies: {meaning}. A **+** stands for budgets that are optimal instead of equal, **auto** for the "
            f"plan that "
            "privcube makes by itself. Both axes are logarithmic; lower is better.",
            *[f"![Error over epsilon, {name}](results:accuracy-{name.lower()}.svg)" for name in names],
            _where_beaten(accuracy),
            "Numbers: [accuracy.csv](results:accuracy.csv).",
        ]
    )


def _where_beaten(accuracy: Rows) -> str:
    """Where a strategy of the paper was clearly better than ours: by three standard deviations of a release."""
    beaten = []
    for row in accuracy:
        case = {key: row[key] for key in ("dataset", "workload", "epsilon")}
        (ours,) = chosen(accuracy, strategy="auto", **case)
        spread = 3 * (float(row["scaled error stddev"]) + float(ours["scaled error stddev"]))
        if row["strategy"] in _PAPER and float(row["scaled error"]) + spread < float(ours["scaled error"]):
            beaten.append(
                f"{row['strategy']} on {escaped(row['dataset'] + ' ' + row['workload'])} at ε = {row['epsilon']}"
            )
    points = len({(row["dataset"], row["workload"], row["epsilon"]) for row in accuracy})
    if not beaten:
        return f"At none of the {points} points is a strategy of the paper clearly better than auto."
    return (
        f"Of {points} points, a strategy of the paper is clearly better than auto at these: {'; '.join(beaten)}. "
        "Plans are made with the variance of continuous noise. Where a group gets an epsilon well above 1, "
        "whole-number noise is mostly 0, and to measure few groups with much budget each is better than predicted."
    )


def _claims(claims: Rows) -> str:
    if not claims:
        return ""
    return "\n".join(
        [
            "## Does what the paper says hold?",
            "",
            "The gain of S+ over S is by how much the scaled error falls: as predicted from the variances, and over "
            "the simulated releases with epsilon 0.1 to 1 (± one standard error). The prediction decides.",
            "",
            "| the paper (section 5) | found | verdict | why |",
            "|---|---|---|---|",
            *[
                "| " + " | ".join(escaped(row[column]) for column in ("claim", "found", "verdict", "why")) + " |"
                for row in claims
            ],
            "",
            "All readings: [gains.csv](results:gains.csv); all k-way tables: [degrees.csv](results:degrees.csv).",
        ]
    )


def _gaussian(accuracy: Rows, gaussian: Rows, calibration: Rows, prices: Rows) -> str:
    if not gaussian or not calibration:
        return ""
    body = []
    for name, asked in _cases(gaussian):
        one = chosen(gaussian, dataset=name, workload=asked, epsilon="1")
        pure = chosen(accuracy, dataset=name, workload=asked, epsilon="1", strategy="auto")
        ours, best = chosen(one, strategy="residual")[0], _best(one)
        error = float(ours["error in records predicted"])
        beside = short(float(pure[0]["error in records predicted"])) if pure else ""
        body.append(
            f"| {name} {escaped(asked)} | {short(error)} | {short(float(best['error in records predicted']))} "
            f"({best['strategy']}) "
            f"| {beside} |"
        )
    single = chosen(calibration, tables="1")
    small, large = single[0], chosen(single, epsilon="1")[0]
    names = [name for name in DATASETS if chosen(gaussian, dataset=name)]
    return "\n".join(
        [
            "## With a delta",
            "",
            f"(ε, δ)-differential privacy with δ = {calibration[0]['delta']}, Gaussian noise at its exact price. "
            "`residual` has the least total variance of all linear strategies with such noise; auto takes it, or a "
            "pure plan with the same ε where that is better. Accounted for through zCDP, noise is "
            f"{float(small['zcdp over exact']):.2f} times as large at ε = {small['epsilon']}, "
            f"{float(large['zcdp over exact']):.2f} times at ε = 1; by the paper's classic constant "
            f"{float(small['classic over exact']):.2f} and {float(large['classic over exact']):.2f} times, and beyond "
            "1 that is not proven. Predicted mean error of a count at ε = 1, in people:",
            "",
            "| workload | residual | best of the paper's | pure guarantee, auto |",
            "|---|---|---|---|",
            *body,
            "",
            _when_delta_pays(accuracy, gaussian),
            "",
            *_prices(prices),
            *[f"![Error over epsilon with delta, {name}](results:gaussian-{name.lower()}.svg)\n" for name in names],
            "![Size of the noise by guarantee](results:calibration.svg)",
            "",
            "Numbers: [gaussian.csv](results:gaussian.csv), [prices.csv](results:prices.csv), "
            "[calibration.csv](results:calibration.csv).",
        ]
    )


def _prices(prices: Rows) -> list[str]:
    """Variances by account, and how close they are to the best."""
    if not prices:
        return []
    pairs = list(dict.fromkeys((row["epsilon"], row["delta"]) for row in prices))
    body = []
    for name, asked in _cases(prices):
        own = chosen(prices, dataset=name, workload=asked)
        cells = [
            f"{short(float(row['zcdp']))} | {short(float(row['pure']))} | {short(float(row['auto']))} "
            f"({'pure' if row['auto is pure'] == 'True' else 'Gaussian'}) | {float(row['auto over zcdp']):.2f}"
            for row in own
        ]
        body.append(f"| {name} {escaped(asked)} | {' | '.join(cells)} |")
    most = {pair: max(float(row["exact over zcdp"]) for row in prices if _pair(row) == pair) for pair in pairs}
    wide = [float(row["exact over continuous"]) for row in prices if float(row["narrowest row"]) >= 10]
    return [
        f"The variance of a count, as drawn, for (ε, δ) = {' and '.join(f'({e}, {d})' for e, d in pairs)}: discrete "
        "Gaussian noise accounted for through zCDP, the pure guarantee, and what auto takes:",
        "",
        f"| workload | {' | '.join(f'zCDP, ε = {e} | pure | auto | auto over zCDP' for e, _ in pairs)} |",
        f"|---|{'---|' * 4 * len(pairs)}",
        *body,
        "",
        f"Gaussian noise alone has at most {' and '.join(f'{most[pair]:.3f}' for pair in pairs)} of the variance that "
        f"it has through zCDP. To round it to whole numbers adds at most {100 * (max(wide) - 1):.2f} % wherever no row "
        "has noise of a variance below 10.",
        "",
    ]


def _pair(row: dict[str, str]) -> tuple[str, str]:
    return row["epsilon"], row["delta"]


def _when_delta_pays(accuracy: Rows, gaussian: Rows) -> str:
    """In how many workloads the pure guarantee, which is the stronger one, is the more accurate one as well."""
    pure, approximate = (
        {
            (row["dataset"], row["workload"]): float(row["error in records predicted"])
            for row in chosen(rows, epsilon="1", strategy=symbol)
        }
        for rows, symbol in ((accuracy, "auto"), (gaussian, "residual"))
    )
    both = [case for case in _cases(gaussian) if case in pure]
    better = [f"{name} {asked}" for name, asked in both if pure[name, asked] < approximate[name, asked]]
    if not both:
        return ""
    named = f": {escaped(', '.join(better))}" if better else ""
    return (
        f"The pure guarantee is the stronger one. It is the more accurate one as well on {len(better)} of these "
        f"{len(both)} workloads{named}. "
        "The more tables, the more a delta helps: Laplace noise grows with their number, Gaussian noise with its "
        "root."
    )


def _table1(rows: Rows) -> str:
    if not rows:
        return ""
    body = []
    for guarantee in dict.fromkeys(row["guarantee"] for row in rows):
        for symbol in ("I", "Q", "F", "F+"):
            own = chosen(rows, guarantee=guarantee, strategy=symbol)
            constants = [float(row["constant"]) for row in own]
            slack = [float(row["bound over error"]) for row in own]
            body.append(
                f"| {guarantee} | {symbol} | {min(constants):.2f} to {max(constants):.2f} "
                f"| {min(slack):.2f} to {max(slack):.2f} |"
            )
    largest = max(int(row["d"]) for row in rows)
    return "\n".join(
        [
            "## Against the theory: Table 1 with its constants",
            "",
            "Table 1 of the paper bounds the expected error of a table of all k-way tables of d binary attributes, "
            "up to a "
            f"constant. Over all d up to {largest} and k up to {max(int(row['k']) for row in rows)}, k < d/2:",
            "",
            "| guarantee | strategy | error over formula (the constant) | bound with its constants over error |",
            "|---|---|---|---|",
            *body,
            "",
            "![Errors and constants of Table 1](results:table1.svg)",
            "",
            "Numbers: [table1.csv](results:table1.csv).",
        ]
    )


def _other(folder: Path, study: str, title: str) -> str:
    """The section of a study that others wrote: their own words, or else its plots and files."""
    files = sorted(folder.glob(f"{study}*.csv"))
    if not files:
        return ""
    module = None
    if importlib.util.find_spec(f"experiments.{study}") is not None:
        module = importlib.import_module(f"experiments.{study}")
    if module is not None and hasattr(module, "section"):
        words = re.sub(r"\]\((?!\w+:|\.\./|#)", "](results:", str(module.section(folder)).strip())
        return words if words.startswith("## ") else f"## {title}\n\n{words}"
    summary = (getattr(module, "__doc__", None) or "").strip().partition("\n")[0]
    plots = [f"![{title}](results:{plot.name})" for plot in sorted(folder.glob(f"{study}*.svg"))]
    numbers = "Numbers: " + ", ".join(f"[{file.name}](results:{file.name})" for file in files) + "."
    return "\n\n".join(part for part in (f"## {title}", summary, *plots, numbers) if part)


def _method(accuracy: Rows) -> str:
    if not accuracy:
        return ""
    ratios = [
        float(row["scaled error"]) / float(row["scaled error predicted"])
        for row in accuracy
        if 0.1 <= float(row["epsilon"]) <= 1
    ]
    ours = chosen(accuracy, strategy="auto")[0]
    return "\n".join(
        [
            "## How it was measured",
            "",
            "- The error of a count is how far it is from the truth; scaled, it is divided by the mean count of its "
            "table, as "
            "in the paper. Means are over all counts of all tables of a workload, unbiased answers, as published.",
            f"- {ours['releases']} independent releases for every point, with the noise of the gate: exact, in whole "
            "numbers. Neighbors: one person more or less.",
            "- The paper's strategies are recovered as in its step 2 (`recovery=\"direct\"`), auto by least "
            "squares. The plans of "
            f"auto were made with {ours['plan'].partition(', ')[2]}; from epsilon 2 on with effort fast as well, where "
            "narrow noise may favor another strategy, and the better one was taken.",
            f"- Predictions take errors to be normal. Over all points with epsilon 0.1 to 1 the simulated error is "
            f"{min(ratios):.2f} to {max(ratios):.2f} times the predicted one, {sum(ratios) / len(ratios):.2f} times "
            f"in the mean "
            f"(Laplace noise on a single count is {0.5**0.5 / NORMAL:.2f} times by its shape).",
        ]
    )  # fmt: skip


def _cases(rows: Rows) -> list[tuple[str, str]]:
    found = {(row["dataset"], row["workload"]) for row in rows}
    return [(name, asked) for name in DATASETS for asked in WORKLOADS if (name, asked) in found]


def _best(rows: Rows) -> dict[str, str]:
    """The paper's strategy with the least predicted error in records."""
    return min(
        (row for row in rows if row["strategy"] in _PAPER), key=lambda row: float(row["error in records predicted"])
    )


def _percent(value: float) -> str:
    return f"{100 * value:,.0f} %" if value >= 1 else f"{100 * value:.2g} %"
