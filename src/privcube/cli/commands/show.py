"""`privcube show`: list the tables of a release, or show one with its error bars."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from privcube.cli import completion
from privcube.cli.output import count_of, say, say_columns, say_json, say_prose, terminal_width

if TYPE_CHECKING:
    from privcube.released.presentation.tables import PublishedTable
    from privcube.released.ratios import Ratios
    from privcube.released.release import Release, TableValues

_SHORTEST_BAR: Final = 10  # characters that bars need, to tell anything
_MARKS: Final = ("", " *", " #")  # behind numbers that are uncertain, or whose interval holds zero
_MEANING: Final = ("", "uncertain: the standard error is above 30% of the number", "zero lies in the interval")
_MOST_CELLS: Final = 20_000_000  # of a table to show, so that it fits in memory


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path())
@click.argument("table", nargs=-1, shell_complete=completion.tables)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="The probability that each margin holds.",
)
@click.option(
    "--rows",
    type=click.IntRange(min=0),
    default=40,
    show_default=True,
    metavar="N",
    help="How many lines to show (0: all).",
)
@click.option("--columns", "across", metavar="NAME", help="The attribute whose values go across, of a table of two.")
@click.option("--long", "is_long", is_flag=True, help="One line for each number, also of a table of two attributes.")
@click.option(
    "--shares",
    multiple=True,
    metavar="OF",
    help="Percentages as well: of the total, the row, the column, or adding up over an attribute (repeatable).",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def show(
    folder: str,
    table: tuple[str, ...],
    confidence: float,
    rows: int,
    across: str | None,
    is_long: bool,
    shares: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show the tables of a release, or one with error bars.

    Without TABLE, lists the tables in DIR. A table is named by its attributes, in any order; a level is age.stage
    or "age by stage". It need not be in the list: any table that the measurements determine can be shown, at no
    further privacy cost.

    A table of two attributes is shown by rows and columns if that fits on the terminal, a table of one with bars: the
    dark part ends where the interval begins, the light part where it ends.

    \b
    Example:
      privcube show out
      privcube show out sex
      privcube show out sex age.stage
      privcube show out sex age --columns sex
      privcube show out "sex x age by stage" --long --confidence 0.99
      privcube show out sex ward --shares row
    """
    from privcube.released.release import Release

    release = Release.open(folder)
    if not table and shares:
        raise click.UsageError("--shares needs a table, such as: privcube show out sex --shares total")
    if not table:
        _list(release, rows, as_json)
        return
    values = _values(release, table, confidence, shares)
    if as_json:
        say_json(table_document(release, values, confidence))
    else:
        show_table(release, values, confidence, rows, across=across, is_long=is_long)


def _list(release: Release, rows: int, as_json: bool) -> None:
    from privcube.model.amounts import error_text
    from privcube.model.workload import table_cells, table_name
    from privcube.planning.targets import std_errors

    schema, tables = release.workload.schema, list(release.workload)
    shown = tables if as_json else tables[: rows or None]
    found: list[dict[str, Any]] = [
        {
            "table": table_name(table),
            "title": release.words.table_title(table),
            "cells": table_cells(schema, table),
            "std_error": error,
        }
        for table, error in zip(shown, std_errors(release.plan, shown), strict=True)
    ]
    if as_json:
        say_json({"guarantee": str(release.plan.guarantee), "attributes": list(schema.names), "tables": found})
        return
    words = release.words
    if words.title is not None:
        say_prose(words.title)
        say()
    say_prose(f"Guarantee   {release.plan.guarantee}")
    say(f"Tables      {count_of(len(tables), 'table')}, {count_of(release.workload.cells, 'cell')}")
    say()
    named = ["table"] if all(line["table"] == line["title"] for line in found) else ["table", "title"]
    lines = [[*(line[name] for name in named), f"{line['cells']:,}", error_text(line["std_error"])] for line in found]
    say_columns([*named, "cells", "std. error of a cell"], lines, left=len(named), within=terminal_width())
    if len(found) < len(tables):
        say(f"... and {count_of(len(tables) - len(found), 'more table')} (--rows 0 lists all)")


def _values(release: Release, words: tuple[str, ...], confidence: float, shares: tuple[str, ...]) -> TableValues:
    from privcube.errors import Plain, QueryError
    from privcube.model.workload import canonical, table_cells, table_name

    schema = release.workload.schema
    table = canonical(schema, words)
    cells = table_cells(schema, table)
    if cells > _MOST_CELLS:
        expected = f"a table of at most {_MOST_CELLS:,} cells"
        raise QueryError(table_name(table), expected=expected, given=Plain(count_of(cells, "cell")))
    asked = shares[0] if len(shares) == 1 else shares or None
    return release.values(table, confidence, asked)


def show_table(
    release: Release,
    values: TableValues,
    confidence: float,
    rows: int,
    *,
    across: str | None = None,
    is_long: bool = False,
) -> None:
    """Print a table by rows and columns if it has two attributes and fits, else one line per number."""
    from privcube.model.measures.measure import measure_of
    from privcube.released.presentation.numbers import confidence_text
    from privcube.released.presentation.tables import published
    from privcube.released.presentation.texts import number_text

    table, sure = published(release, values), confidence_text(confidence)
    _require_across(table, across)
    say_prose(f"{table.title}: {count_of(table.cells, 'cell')}; each margin holds with {sure} confidence")
    say()
    if is_long or values.shares is not None or not _shown_crossed(table, across, rows):
        _show_long(table, rows, values.shares)
    if float(values.estimate.min()) < 0 and measure_of(values.table) is None:
        say()
        say_prose("Negative numbers are small counts with noise; they are kept so that sums are right on average.")
    if values.count is not None:
        say()
        say_prose("Counts are whole numbers that can occur together. Margins are those of the estimates.")
    if values.shares is not None:
        say()
        say_prose(f"Each share is in its range with {sure} confidence.{_undetermined(values.shares)}")
    if table.cells > 1:
        together = number_text(float(values.margin_all.max()), table.decimals)
        say()
        say_prose(f"Margins of ± {together} hold for all {table.cells:,} numbers at once with {sure} confidence.")


def _require_across(table: PublishedTable, across: str | None) -> None:
    """Refuse a name that cannot go across."""
    from privcube.errors import Plain, QueryError

    names = [column.name for column in table.columns]
    if across is not None and (len(names) != 2 or across not in names):
        given = across if len(names) == 2 else Plain(f"{across!r}, for {count_of(len(names), 'attribute')}")
        raise QueryError("columns", expected="one of two attributes", given=given, available=names)


def _shown_crossed(table: PublishedTable, across: str | None, rows: int) -> bool:
    """Print a table by rows and columns, if it can be; numbers that are not to be trusted have a mark."""
    from privcube.released.labels import COUNT, MEANS
    from privcube.released.presentation.texts import cross_tab, number_text

    crossed = cross_tab(table, columns=across)
    if crossed is None or (across is None and {COUNT, MEANS[0]} & set(table.numbers)):
        return False
    marks = [mark.ljust(2 if table.trust.any() else 0) for mark in _MARKS]
    lines = []
    for label, cells in zip(crossed.down.labels, crossed.cells, strict=True):
        fields = [
            f"{number_text(float(table.numbers['estimate'][cell]), table.decimals)} "
            f"± {number_text(float(table.margins[cell]), table.decimals)}{marks[table.trust[cell]]}"
            for cell in cells
        ]
        lines.append((label, *fields))
    header = (f"{crossed.down.title} / {crossed.across.title}", *crossed.across.labels)
    widths = [max(map(len, column)) for column in zip(header, *lines, strict=True)]
    if across is None and min(widths[0], 20) + sum(widths[1:]) + 2 * len(widths[1:]) > terminal_width():
        return False
    shown = lines[: rows or None]
    say_columns(header, shown, within=terminal_width())
    if len(shown) < len(lines):
        say(f"... and {count_of(len(lines) - len(shown), 'more line')} (--rows 0 shows all)")
    for at in sorted(set(table.trust.tolist()) - {0}):
        say()
        say_prose(f"{_MARKS[at].strip()} {_MEANING[at]}")
    return True


def _undetermined(shares: Ratios) -> str:
    """How many shares are not determined, if any."""
    unknown = sum(low != low for low in shares.low.ravel().tolist())
    if not unknown:
        return ""
    is_all = unknown == shares.low.size
    which = "All shares" if is_all else f"{count_of(unknown, 'share')}"
    return f" {which} {'is' if unknown == 1 and not is_all else 'are'} not determined: there may be no such records."


def _share_texts(shares: Ratios | None, cell: int) -> list[str]:
    """A share and its range as percentages; empty where it is not determined, nothing if none were asked for."""
    if shares is None:
        return []
    found = [float(array.ravel()[cell]) for array in (shares.estimate, shares.low, shares.high)]
    return ["" if found[1] != found[1] else f"{100 * each:.1f} %" for each in found]


def _show_long(table: PublishedTable, rows: int, shares: Ratios | None) -> None:
    """Print a table with one line per number, and bars if there is room for them."""
    from privcube.released.labels import COUNTS, MEANS
    from privcube.released.presentation.texts import long_rows, number_text

    shown, numbers = long_rows(table, rows or table.cells), table.numbers
    counted = [name for name in COUNTS if name in numbers]
    averaged = [name for name in MEANS if name in numbers]
    lines = []
    for labels, cell in shown:
        fields = [number_text(float(numbers[name][cell]), table.decimals) for name in ("estimate", "std_error")]
        margin = f"± {number_text(float(table.margins[cell]), table.decimals)}"
        means = [number_text(float(numbers[name][cell]), table.places[name]) for name in averaged]
        whole = [f"{numbers[name][cell]:,}" for name in counted]
        lines.append([*labels, *whole, fields[0], margin, fields[1], *means, *_share_texts(shares, cell)])
    titles = [column.title for column in table.columns]
    header = [
        *titles,
        *("count", "at least", "at most")[: len(counted)],
        "estimate",
        "margin",
        "std. error",
        *("mean", "from", "to")[: len(averaged)],
    ]
    header += [] if shares is None else ["share", "from", "to"]
    words = table.reliability()
    ragged = 0
    if any(words[cell] != "ok" for _, cell in shown):
        header.append("reliability")
        lines = [[*line, words[cell]] for line, (_, cell) in zip(lines, shown, strict=True)]
        ragged = 1
    room = terminal_width() - sum(max(map(len, column)) + 2 for column in zip(header, *lines, strict=True))
    if len(table.columns) == 1 and len(shown) > 1 and room >= _SHORTEST_BAR:
        drawn = _bars([[float(numbers[name][cell]) for name in ("low", "high")] for _, cell in shown], min(room, 40))
        header.append("")
        lines = [[*line, bar] for line, bar in zip(lines, drawn, strict=True)]
        ragged += 1
    say_columns(header, lines, left=len(titles), within=terminal_width(), ragged=ragged)
    if len(lines) < table.cells:
        say(f"... and {count_of(table.cells - len(lines), 'more line')} (--rows 0 shows all)")


def _bars(ends: list[list[float]], width: int) -> list[str]:
    """Bars from zero: dark up to the lower end of an interval, light up to the upper one."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    dark, light = ("█", "░") if encoding.lower().startswith("utf") else ("#", "-")
    most = max([high for _, high in ends if math.isfinite(high)], default=0.0)
    if most <= 0:
        return [""] * len(ends)
    bars = []
    for low, high in ends:
        first, last = (round(max(end, 0.0) / most * width) if math.isfinite(end) else 0 for end in (low, high))
        bars.append(dark * first + light * (last - first))
    return bars


def table_document(release: Release, values: TableValues, confidence: float) -> dict[str, Any]:
    """A table as a document for programs; means and shares that are not determined are null."""
    from privcube.model.workload import Axis, table_name
    from privcube.released.labels import COUNTS, MEANS, SHARES, labeled
    from privcube.released.release import number_columns

    names = [Axis.of(entry).name for entry in labeled(values.table)]
    columns = number_columns(values)
    means = {name: own.tolist() for name, own in columns.items() if name in (*MEANS, *SHARES)}
    counts = {name: own.tolist() for name, own in columns.items() if name in COUNTS}
    return {
        "table": table_name(values.table),
        "title": release.words.table_title(values.table),
        "guarantee": str(release.plan.guarantee),
        "confidence": confidence,
        "rows": [
            {
                "labels": dict(zip(names, labels, strict=True)),
                "estimate": estimate,
                "std_error": std_error,
                "low": estimate - margin,
                "high": estimate + margin,
                "low_all": estimate - margin_all,
                "high_all": estimate + margin_all,
                **{name: own[cell] for name, own in counts.items()},
                **{name: _known(numbers[cell]) for name, numbers in means.items()},
            }
            for cell, (labels, estimate, std_error, margin, margin_all) in enumerate(
                _rows(release, values, values.estimate.size)
            )
        ],
    }


def _rows(release: Release, values: TableValues, most: int) -> Iterator[tuple[list[Any], float, float, float, float]]:
    """The labels and numbers of the first cells."""
    import numpy as np

    from privcube.released.labels import axis_labels, labeled

    shown = min(most, values.estimate.size)
    entries = labeled(values.table)
    places = np.unravel_index(np.arange(shown), values.estimate.shape) if entries else ()
    labels = [
        [own[at] for at in place.tolist()]
        for own, place in zip([axis_labels(release.workload.schema, entry) for entry in entries], places, strict=True)
    ]
    arrays = (values.estimate, values.std_error, values.margin, values.margin_all)
    numbers = zip(*(array.ravel()[:shown].tolist() for array in arrays), strict=True)
    for cell, (estimate, std_error, margin, margin_all) in enumerate(numbers):
        yield [column[cell] for column in labels], estimate, std_error, margin, margin_all


def _known(number: float) -> float | None:
    return None if number != number else number
