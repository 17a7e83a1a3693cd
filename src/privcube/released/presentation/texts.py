"""Numbers and tables as text: with thousands set apart, margins, and rows by columns. Zone: RELEASED."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from privcube.released.presentation.tables import Column, PublishedTable


def number_text(number: float, decimals: int) -> str:
    """A rounded number for people.

    >>> number_text(-1234.5, 1), number_text(0.0, 0), number_text(float("nan"), 1)
    ('-1,234.5', '0', 'n/a')
    """
    return f"{number:z,.{decimals}f}" if math.isfinite(number) else "n/a"


@dataclass(frozen=True)
class CrossTab:
    """A table by rows and columns: for each of them, its labels, and for each field the number of its cell."""

    down: Column
    across: Column
    cells: tuple[tuple[int, ...], ...]


def cross_tab(table: PublishedTable, rows: str | None = None, columns: str | None = None) -> CrossTab | None:
    """A table of two attributes by rows and columns, named by their columns; None if it has not two.

    Without names, the attribute with more cells goes down, so that the table is narrow.
    """
    if len(table.columns) != 2:
        return None
    first, second = table.columns
    turned = len(second.codes) > len(first.codes)
    if rows is not None or columns is not None:
        turned = rows == second.name or columns == first.name
    down, across = (second, first) if turned else (first, second)
    width = len(second.codes)
    cells = [
        tuple(column * width + row if turned else row * width + column for column in range(len(across.codes)))
        for row in range(len(down.codes))
    ]
    return CrossTab(down, across, tuple(cells))


def long_rows(table: PublishedTable, most: int) -> list[tuple[list[str], int]]:
    """The labels of the first cells, and their numbers."""
    places: list[Any] = [place[:most] for place in table.cells_along()]
    return [
        ([column.labels[place[cell]] for column, place in zip(table.columns, places, strict=True)], cell)
        for cell in range(min(most, table.cells))
    ]
