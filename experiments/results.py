"""CSV files of results: written by the studies, read by the page, so that every number on it has a file."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

Row = Mapping[str, object]


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Rows of one form; numbers with six significant digits."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: _shown(value) for name, value in row.items()})


def _shown(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a file; none if it is not there."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def chosen(rows: Sequence[dict[str, str]], **wanted: str) -> list[dict[str, str]]:
    """The rows that have these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def number(rows: Sequence[dict[str, str]], column: str, **wanted: str) -> float:
    """The one number that is wanted."""
    (row,) = chosen(rows, **wanted)
    return float(row[column])


def short(value: float) -> str:
    """Three digits, as in a text."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def escaped(text: str) -> str:
    """A text as it is written in a table of Markdown."""
    return text.replace("*", "\\*").replace("|", "\\|")
