"""PX: a table for PC-Axis, PxWeb and their kin (https://www.scb.se/px-fileformat). Zone: RELEASED.

The attributes are the stub, the numbers of a cell the heading. Texts are in quotation marks, which they cannot contain:
those become apostrophes. A text may go on in the next line; no line is longer than 2,048 characters. Names of variables
and values have at most 200 characters here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final

from privcube.model.workload import Table
from privcube.released.exports.identifiers import distinct, table_identifiers
from privcube.released.exports.notes import about, notes, title_of
from privcube.released.presentation.tables import PublishedTable, number_titles
from privcube.released.release import Release

_PIECE: Final = 200  # characters of a text in one line
_LONGEST_MATRIX: Final = 20
_MEASURE: Final = "Measure"
_MISSING: Final = '".."'


class PxWriter:
    """Tables of a release as PX files, each with a MATRIX of its own."""

    def __init__(self, release: Release, tables: Sequence[Table]) -> None:
        """Name all tables of the release, and these."""
        self._matrices = table_identifiers(release.workload, tables, _LONGEST_MATRIX)

    def bytes_of(self, release: Release, table: PublishedTable) -> bytes:
        """A table."""
        return _file(release, table, self._matrices[table.table])


def _file(release: Release, table: PublishedTable, matrix: str) -> bytes:
    titles, names = number_titles(), list(table.numbers)
    variables = _distinct([*(column.title for column in table.columns), _MEASURE])
    *stub, measure = variables
    values = [_distinct(list(column.labels)) for column in table.columns]
    said = about(release)
    lines: list[tuple[str, Any]] = [
        ("CHARSET", "ANSI"),
        ("AXIS-VERSION", "2013"),
        ("CODEPAGE", "utf-8"),
        ("LANGUAGE", "en"),
        ("DECIMALS", max(table.places.values())),
        ("SHOWDECIMALS", min(max(table.places.values()), 6)),
        ("MATRIX", matrix),
        ("SUBJECT-CODE", "PC"),
        ("SUBJECT-AREA", title_of(release)),
        ("TITLE", table.title),
        ("CONTENTS", table.title),
        ("UNITS", table.unit),
        *([("STUB", stub)] if stub else []),
        ("HEADING", [measure]),
        ("CONTVARIABLE", measure),
        *((f"VALUES({_quoted(own)})", labels) for own, labels in zip(stub, values, strict=True)),
        (f"VALUES({_quoted(measure)})", [titles.get(name, name) for name in names]),
        *(
            (f"CODES({_quoted(own)})", _distinct(list(column.codes)))
            for own, column in zip(stub, table.columns, strict=True)
        ),
        (f"CODES({_quoted(measure)})", names),
        *([("SOURCE", said["Publisher"])] if "Publisher" in said else []),
        *([("CONTACT", said["Contact"])] if "Contact" in said else []),
        ("NOTE", "#".join([*(f"{key}: {text}" for key, text in said.items()), *notes(release)])),
    ]
    text = "".join(f"{key}={_written(value)};\r\n" for key, value in lines)
    rows = zip(*(column.tolist() for column in table.numbers.values()), strict=True)
    places = list(table.places.values())
    data = "\r\n".join(" ".join(map(_number, row, places)) for row in rows)
    return f"{text}DATA=\r\n{data};\r\n".encode()


def _distinct(texts: list[str]) -> list[str]:
    """Texts as PX can hold them, with a number where that makes two the same."""
    return distinct([_plain(text)[:_PIECE].strip() for text in texts], "{} ({})")


def _plain(text: str) -> str:
    """A text without quotation marks and line breaks, nor what some readers take for the beginning of the data."""
    return re.sub(r"\bDATA=", "DATA =", re.sub(r"\s+", " ", text.replace('"', "'")).strip())


def _quoted(text: str) -> str:
    return f'"{_plain(text)}"'


def _written(value: Any) -> str:
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _pieces(value)
    return ",\r\n".join(map(_pieces, value))


def _pieces(text: str) -> str:
    plain = _plain(text)
    return "\r\n".join(f'"{plain[at : at + _PIECE]}"' for at in range(0, max(len(plain), 1), _PIECE))


def _number(number: float, decimals: int) -> str:
    if not math.isfinite(number):
        return _MISSING
    return str(number) if isinstance(number, int) else f"{number:z.{decimals}f}"
