"""What a report says, before it is a page or a PDF: sections of paragraphs, tables and charts. Zone: RELEASED."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from privcube.released.artifact.manifest import manifest
from privcube.released.artifact.statements import account, in_words, mechanism, not_promised, post_processing
from privcube.released.exports.notes import about, notes, title_of
from privcube.released.labels import MEANS
from privcube.released.presentation.codebook import codebook_rows
from privcube.released.presentation.numbers import RELIABILITY, percent_of_error
from privcube.released.presentation.tables import PublishedTable
from privcube.released.presentation.texts import cross_tab, long_rows, number_text
from privcube.released.release import Release

MOST_TABLES: Final = 200  # of a report, so that it can be printed
_MOST_ROWS: Final = 120  # of a table in a report
_MOST_BARS: Final = 60  # of a chart
_WIDEST_CROSS: Final = 7  # columns of a table by rows and columns
_MOST_CODES: Final = 400  # lines of the codebook in a report

_GLOSSARY: Final = {
    "Cell": "one combination of values, such as women under 18, and the number that belongs to it.",
    "Differential privacy": "a promise about how a release is made: what is published would have been almost as likely "
    "if the records of one protected unit had not been used.",
    "Epsilon, delta, rho": "how much the promise allows a release to reveal; smaller is stricter.",
    "Estimate": "the published number. It is right on average, and may be negative or fractional.",
    "Holds zero": "zero lies in the interval: the true number may well be zero.",
    "Interval": "from a lower to an upper end; it contains the true number with the stated probability.",
    "Mean": "the sum of a measure over the number of records; not determined where there may be none.",
    "Interval for all at once": "wider; with the stated probability, all of a table contain their true numbers.",
    "Noise": "random numbers that were added to counts before anything was published, and never removed.",
    "Plan": "what was counted and how much noise was added, fixed before any record was read.",
    "Protected unit": "whom the promise is about: a person, or a row of the data.",
    "Reliability": "how far to trust a number: ok, uncertain, or holds zero.",
    "Standard error": "the typical size of the noise in a number. It is known exactly.",
    "Uncertain": "the standard error is above {most} of the number.",
}


@dataclass(frozen=True)
class Grid:
    """A table of texts: a header, rows, how many columns hold labels, and how far to trust each field (or None)."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int
    trust: tuple[tuple[str | None, ...], ...] = ()


@dataclass(frozen=True)
class Bar:
    """A bar of a chart: label, estimate, both ends of its interval, how far to trust it, and how it is written."""

    label: str
    estimate: float
    low: float
    high: float
    trust: str
    text: str


@dataclass(frozen=True)
class Chart:
    """Bars with intervals."""

    title: str
    bars: tuple[Bar, ...]


Block = str | Grid | Chart


@dataclass(frozen=True)
class Section:
    """A heading, and what stands below it; `page`: it begins a new one."""

    heading: str
    blocks: tuple[Block, ...]
    page: bool = False


@dataclass(frozen=True)
class Report:
    """A title, what it is about, and the sections."""

    title: str
    about: dict[str, str]
    guarantee: str
    sections: tuple[Section, ...]


def report_of(release: Release, tables: Sequence[PublishedTable], left_out: int) -> Report:
    """The report of some tables of a release, of which so many more were left out."""
    plan = release.plan
    listed = [f"{number}. {own.title}" for number, own in enumerate(tables, start=1)]
    more = [f"{left_out:,} more tables are not in this report. Name those you want."] if left_out else []
    most = percent_of_error(release.words)
    sections = [
        Section("How to read the numbers", tuple(notes(release)[:2])),
        Section("Tables", (*more, *listed)),
        *(_table(number, own) for number, own in enumerate(tables, start=1)),
        Section("How they were made", (*mechanism(plan), post_processing(plan)), page=True),
        Section("What is promised", (*notes(release)[2:4], *in_words(plan.guarantee), _paid(release))),
        Section("What is not promised", not_promised(plan)),
        _codebook(release),
        Section("Glossary", tuple(f"{term}: {meaning.format(most=most)}" for term, meaning in _GLOSSARY.items())),
        Section("Identity", (f"Plan {plan.digest}.",)),
    ]
    return Report(title_of(release), about(release), str(plan.guarantee), tuple(sections))


def _paid(release: Release) -> str:
    return account(manifest(release.plan, release.provenance, []))


def _table(number: int, table: PublishedTable) -> Section:
    return Section(f"{number}. {table.title}", (*_chart(table), *_grid(table)))


def _chart(table: PublishedTable) -> list[Block]:
    if not 2 <= table.cells <= _MOST_BARS:
        return []
    words = table.reliability()
    bars = []
    for labels, cell in long_rows(table, _MOST_BARS):
        estimate, low, high = (float(table.numbers[name][cell]) for name in ("estimate", "low", "high"))
        bars.append(Bar(" · ".join(labels), estimate, low, high, words[cell], _with_margin(table, cell)))
    return [Chart(table.title, tuple(bars))]


def _with_margin(table: PublishedTable, cell: int) -> str:
    estimate = number_text(float(table.numbers["estimate"][cell]), table.decimals)
    return f"{estimate} ± {number_text(float(table.margins[cell]), table.decimals)}"


def _grid(table: PublishedTable) -> list[Block]:
    cross = cross_tab(table)
    averaged = "mean" in table.numbers  # a table of sums has means, which need columns of their own
    if (
        cross is not None
        and not averaged
        and len(cross.across.codes) <= _WIDEST_CROSS
        and len(cross.cells) <= _MOST_ROWS
    ):
        corner = f"{cross.down.title} / {cross.across.title}"
        rows = [
            (label, *(_with_margin(table, cell) for cell in cells))
            for label, cells in zip(cross.down.labels, cross.cells, strict=True)
        ]
        trust = [(None, *(RELIABILITY[table.trust[cell]] for cell in cells)) for cells in cross.cells]
        return [Grid((corner, *cross.across.labels), tuple(rows), 1, tuple(trust))]
    shown = long_rows(table, _MOST_ROWS)
    counted = "count" in table.numbers
    means = ["Mean", "Its interval, 95 %"] if averaged else []
    header = [*(column.title for column in table.columns), "Estimate", "Interval, 95 %", *means, "Reliability"]
    if counted:
        header.insert(len(table.columns), "Count")
    rows = [tuple(_line(table, labels, cell, counted)) for labels, cell in shown]
    words = table.reliability()
    trust = [(*(None,) * len(labels), *(words[cell],) * (len(header) - len(labels))) for labels, cell in shown]
    found: list[Block] = [Grid(tuple(header), tuple(rows), len(table.columns), tuple(trust))]
    if len(shown) < table.cells:
        found.append(f"These are the first {len(shown):,} of {table.cells:,} numbers.")
    return found


def _line(table: PublishedTable, labels: list[str], cell: int, counted: bool) -> list[str]:
    numbers: dict[str, Any] = table.numbers
    ends = [number_text(float(numbers[name][cell]), table.decimals) for name in ("estimate", "low", "high")]
    whole = [f"{int(numbers['count'][cell]):,}"] if counted else []
    mean = _mean(table, cell) if "mean" in numbers else []
    return [*labels, *whole, ends[0], f"{ends[1]} to {ends[2]}", *mean, RELIABILITY[table.trust[cell]]]


def _mean(table: PublishedTable, cell: int) -> list[str]:
    """A mean and its interval; it is not determined where there may be no records."""
    found = [float(table.numbers[name][cell]) for name in MEANS]
    if not all(map(math.isfinite, found)):
        return ["not determined", ""]
    estimate, low, high = (number_text(one, table.places["mean"]) for one in found)
    return [estimate, f"{low} to {high}"]


def _codebook(release: Release) -> Section:
    rows = list(codebook_rows(release.workload.schema, release.words))
    shown = tuple(
        (name, level, code, title or description) for name, level, code, title, description in rows[:_MOST_CODES]
    )
    grid = Grid(("Attribute", "Level", "Code", "What it reads like"), shown, 4)
    said = [f"{title}: {text}" for _, _, code, title, text in rows if text and not code]
    more = [f"These are the first {len(shown):,} of {len(rows):,} lines."] if len(shown) < len(rows) else []
    return Section("Codebook", (*said, grid, *more), page=True)
