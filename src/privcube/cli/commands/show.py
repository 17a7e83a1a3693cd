"""`privcube show`: list the tables of a release, or show one with its error bars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from privcube.cli import completion
from privcube.cli.output import count_of, percent, places_for, say, say_columns, say_json

if TYPE_CHECKING:
    from privcube.released.release import Release, TableValues

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
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def show(folder: str, table: tuple[str, ...], confidence: float, rows: int, as_json: bool) -> None:
    """Show the tables of a release, or one with error bars.

    Without TABLE, lists the tables in DIR. A table is named by its attributes, in any order; a level is age.stage
    or "age by stage". It need not be in the list: any table that the measurements determine can be shown, at no
    further privacy cost.

    \b
    Example:
      privcube show out
      privcube show out sex
      privcube show out sex age.stage
      privcube show out "sex x age by stage" --confidence 0.99
    """
    from privcube.released.release import Release

    release = Release.open(folder)
    if not table:
        _list(release, rows, as_json)
        return
    values = _values(release, table, confidence)
    if as_json:
        say_json(table_document(release, values, confidence))
    else:
        show_table(release, values, confidence, rows)


def _list(release: Release, rows: int, as_json: bool) -> None:
    from privcube.model.workload import table_cells, table_name
    from privcube.planning.targets import std_errors

    schema, tables = release.workload.schema, list(release.workload)
    shown = tables if as_json else tables[: rows or None]
    found: list[dict[str, Any]] = [
        {"table": table_name(table), "cells": table_cells(schema, table), "std_error": error}
        for table, error in zip(shown, std_errors(release.plan, shown), strict=True)
    ]
    if as_json:
        say_json({"guarantee": str(release.plan.guarantee), "attributes": list(schema.names), "tables": found})
        return
    say(f"Guarantee   {release.plan.guarantee}")
    say(f"Tables      {count_of(len(tables), 'table')}, {count_of(release.workload.cells, 'cell')}")
    say()
    lines = [(line["table"], f"{line['cells']:,}", f"{line['std_error']:,.2f}") for line in found]
    say_columns(("table", "cells", "std. error of a cell"), lines)
    if len(found) < len(tables):
        say(f"... and {count_of(len(tables) - len(found), 'more table')} (--rows 0 lists all)")


def _values(release: Release, words: tuple[str, ...], confidence: float) -> TableValues:
    from privcube.errors import Plain, QueryError
    from privcube.model.workload import canonical, table_cells, table_name

    schema = release.workload.schema
    table = canonical(schema, words)
    cells = table_cells(schema, table)
    if cells > _MOST_CELLS:
        expected = f"a table of at most {_MOST_CELLS:,} cells"
        raise QueryError(table_name(table), expected=expected, given=Plain(count_of(cells, "cell")))
    return release.values(table, confidence)


def show_table(release: Release, values: TableValues, confidence: float, rows: int) -> None:
    """Print a table in long form, one line per number."""
    from privcube.model.measures.measure import measure_of
    from privcube.model.workload import Axis, table_name
    from privcube.released.labels import labeled

    cells, places = values.estimate.size, places_for(float(values.std_error.min()))
    name, sure = table_name(values.table), percent(confidence)
    say(f"{name}: {count_of(cells, 'cell')}; each margin holds with {sure} confidence")
    say()
    lines = [
        (
            *map(str, labels),
            *count,
            f"{estimate:z,.{places}f}",
            f"± {margin:,.{places}f}",
            f"{std_error:,.{places}f}",
            *mean,
        )
        for (labels, estimate, std_error, margin, _), count, mean in zip(
            _rows(release, values, rows or cells), _counts(values), _means(values), strict=False
        )
    ]
    names = [Axis.of(entry).name for entry in labeled(values.table)]
    counted = () if values.count is None else ("count",)
    averaged = () if values.means is None else ("mean", "from", "to")
    say_columns((*names, *counted, "estimate", "margin", "std. error", *averaged), lines, left=len(names))
    if len(lines) < cells:
        say(f"... and {count_of(cells - len(lines), 'more line')} (--rows 0 shows all)")
    if float(values.estimate.min()) < 0 and measure_of(values.table) is None:
        say()
        say("Negative numbers are small counts with noise; they are kept so that sums are right on average.")
    if values.count is not None:
        say()
        say("Counts are whole numbers that can occur together. Margins are those of the estimates.")
    if cells > 1:
        together = float(values.margin_all.max())
        say()
        say(f"Margins of ± {together:,.{places}f} hold for all {cells:,} numbers at once with {sure} confidence.")


def table_document(release: Release, values: TableValues, confidence: float) -> dict[str, Any]:
    """A table as a document for programs."""
    from privcube.model.workload import Axis, table_name
    from privcube.released.labels import MEANS, labeled
    from privcube.released.release import number_columns

    names = [Axis.of(entry).name for entry in labeled(values.table)]
    means = {name: own.tolist() for name, own in number_columns(values).items() if name in MEANS}
    return {
        "table": table_name(values.table),
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
                **({} if values.count is None else {"count": int(values.count.ravel()[cell])}),
                **{name: _known(numbers[cell]) for name, numbers in means.items()},
            }
            for cell, (labels, estimate, std_error, margin, margin_all) in enumerate(
                _rows(release, values, values.estimate.size)
            )
        ],
    }


def _means(values: TableValues) -> Iterator[tuple[str, ...]]:
    """The mean of each cell and its interval as text, if there are means."""
    if values.means is None:
        yield from ((),) * values.estimate.size
        return
    found = (values.means.estimate, values.means.low, values.means.high)
    for mean, low, high in zip(*(own.ravel().tolist() for own in found), strict=True):
        places = places_for((high - low) / 4) if high > low else 0
        yield tuple("-" if number != number else f"{number:,.{places}f}" for number in (mean, low, high))


def _counts(values: TableValues) -> Iterator[tuple[str, ...]]:
    """The whole number of each cell as text, if there is one."""
    if values.count is None:
        yield from ((),) * values.estimate.size
    else:
        yield from ((f"{count:,}",) for count in values.count.ravel().tolist())


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
