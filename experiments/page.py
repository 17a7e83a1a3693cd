"""Three pages from the CSV files of the other studies, every number read or computed from these files.

"How accurate is it?" is for those who decide about a release, "The paper reproduced" (`paper_words`) for those who know
the paper, "Other systems" (`peer_words`) for those who choose one. Sections of studies that were not run are left out.
A study may bring its own section as `section(folder) -> str`, in Markdown with links relative to the results; else its
plots and files are listed. Written to ../guide beside the results, or among them where there is no such folder; and so
is the page "How large can it get?", scale.md (`experiments.scale`).
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from experiments import scale
from experiments.data import DATASETS, STAND_IN
from experiments.paper_words import best_of_paper, cases, claims, figures, gaussian, table1, when_delta_pays
from experiments.results import chosen, escaped, number, read_rows, short
from experiments.simulate import NORMAL

NAME: Final = "page"
PAGES: Final = ("accuracy.md", "paper.md", "other-systems.md", "scale.md")
Rows = Sequence[dict[str, str]]


def run(folder: Path, quick: bool) -> None:
    """Write the pages."""
    made = (_accuracy(folder, quick), _paper(folder, quick), _systems(folder, quick), scale.parts(folder, quick))
    for name, parts in zip(PAGES, made, strict=True):
        path = page_path(folder, name)
        text = "\n\n".join(part for part in parts if part) + "\n"
        to_results = os.path.relpath(folder, path.parent)
        if parts:
            path.write_text(re.sub(r"\]\(results:", f"]({to_results}/", text), encoding="utf-8")


def page_path(folder: Path, name: str = "accuracy.md") -> Path:
    """Where a page of these results goes."""
    guide = folder.resolve().parent / "guide"
    return (guide if guide.is_dir() else folder) / name


def _made(study: str, quick: bool) -> str:
    return (
        "This page is written by `make experiments` from the files in [results](results:), down to every number; what "
        f"a study does is in its `--help`: `python -m experiments {study} --help`."
        + (" **It was made by a quick run: few releases, few workloads.**" if quick else "")
    )


def _accuracy(folder: Path, quick: bool) -> list[str]:
    """For a custodian: two screens."""
    accuracy = read_rows(folder / "accuracy.csv")
    delta = read_rows(folder / "gaussian.csv")
    return [
        "# How accurate is it?",
        _data_note(accuracy),
        _in_short(accuracy),
        _expect(accuracy),
        _with_delta(accuracy, delta),
        _other(folder, "scaling", "How large can it get?"),
        _method(accuracy),
        _made("accuracy", quick),
    ]


def _paper(folder: Path, quick: bool) -> list[str]:
    """For a reader of the paper."""
    accuracy = read_rows(folder / "accuracy.csv")
    return [
        "# The paper reproduced",
        'Cormode, Procopiuc, Srivastava and Yaroslavtsev, "Accurate and Efficient Private Release of Datacubes and '
        'Contingency Tables", section 5: its figures with ours beside them, and which of its claims hold.',
        _data_note(accuracy),
        figures(accuracy),
        claims(read_rows(folder / "claims.csv")),
        gaussian(
            accuracy,
            *(read_rows(folder / f"{name}.csv") for name in ("gaussian", "calibration", "prices")),
        ),
        table1(read_rows(folder / "table1.csv")),
        _other(folder, "runtime", "How long does it take?"),
        _made("accuracy", quick),
    ]


def _systems(folder: Path, quick: bool) -> list[str]:
    """For those who choose a system; nothing if the study was not run."""
    words = _other(folder, "peers", "Compared with other systems")
    sums = _other(folder, "measures", "Sums and means")
    return ["# Other systems", words, sums, _made("peers", quick)] if words or sums else []


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
        best = best_of_paper(of_workload)
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
    for name, asked in cases(accuracy):
        one = chosen(accuracy, dataset=name, workload=asked, epsilon="1")
        ours, even, best = chosen(one, strategy="auto")[0], chosen(one, strategy="Q")[0], best_of_paper(one)
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


def _with_delta(accuracy: Rows, delta: Rows) -> str:
    """In one paragraph, for those who decide."""
    words = when_delta_pays(accuracy, delta)
    return f"## With a delta\n\n{words} [The paper reproduced](paper.md#with-a-delta) has the figures." if words else ""


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
    unsure = [
        float(row["scaled error stddev"]) / float(row["scaled error"]) / float(row["releases"]) ** 0.5
        for row in accuracy
        if row["epsilon"] == "1"
    ]
    return "\n".join(
        [
            "## How it was measured",
            "",
            "- The error of a count is how far it is from the truth; scaled, it is divided by the mean count of its "
            "table, as "
            "in the paper. Means are over all counts of all tables of a workload, unbiased answers, as published.",
            f"- {ours['releases']} independent releases for every point, with the noise of the gate: exact, in whole "
            "numbers. Neighbors: one person more or less. A mean of so few is itself uncertain: its standard error at "
            f"epsilon 1 is {_percent(median(unsure))} of it for half of the points, and up to {_percent(max(unsure))} "
            "where many counts share few noisy numbers.",
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


def _percent(value: float) -> str:
    return f"{100 * value:,.0f} %" if value >= 1 else f"{100 * value:.2g} %"
