"""The coding rule and the counts in plain Python: from what `privcube.sensitive.coding` says, not from its SQL."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
from factories import Columns

from privcube import Attribute
from privcube.sensitive.engine import CountRequest
from privcube.sensitive.units import kept_rows

REFUSED = None
BLANKS = " \t\n\r\f\v"
NUMBER = re.compile(r"[+-]?(\d{1,30}(\.\d{0,30})?|\.\d{1,30})(e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)


def code_of(attribute: Attribute, kind: str, value: Any) -> int | None:
    """The cell that a value is counted in, or REFUSED."""
    other = attribute.ordered_cells if attribute.other == "category" else REFUSED
    missing = attribute.cells - 1 if attribute.missing == "category" else REFUSED
    if value is None or value != value:
        return missing
    if attribute.bins is not None:
        number = number_of(kind, value)
        if number is None:
            blank = kind == "text" and (not value.strip(BLANKS) or value in ("NaN", "nan"))
            return missing if blank else other
        return bin_of(attribute, number)
    text = text_of(kind, value)
    if attribute.size is not None:
        declared = [text] if re.fullmatch("0|[1-9][0-9]*", text) and int(text) < attribute.size else []
        return int(text) if declared else missing if not text.strip(BLANKS) else other
    assert attribute.values is not None
    booleans = isinstance(attribute.values[0], bool)
    if booleans and kind == "text" and text in ("True", "TRUE", "False", "FALSE"):
        text = text.lower()
    said = [str(declared).lower() if booleans else str(declared) for declared in attribute.values]
    return said.index(text) if text in said else missing if not text.strip(BLANKS) else other


def text_of(kind: str, value: Any) -> str:
    """How a value is written; a number with a fraction as nothing that can be declared."""
    if kind == "boolean":
        return "true" if value else "false"
    if kind in ("float", "decimal"):
        whole = math.isfinite(value) and abs(value) < 2**53 and Fraction(value).denominator == 1
        return str(int(value)) if whole else "\0"
    return str(value)


def number_of(kind: str, value: Any) -> float | None:
    """A value as a 64-bit float, if it is a number."""
    if kind in ("integer", "float", "decimal"):
        return float(value)
    infinite = kind == "text" and re.fullmatch("[+-]?(inf|Infinity)", value)
    return float(value) if infinite or (kind == "text" and NUMBER.fullmatch(value)) else None


def bin_of(attribute: Attribute, number: float) -> int | None:
    """The bin of a number, or what the policies for numbers outside say."""
    edges = [float(edge) for edge in attribute.bins or ()]
    bins = len(edges) - 1
    first = int(attribute.underflow == "category")
    if number < edges[0]:
        return {"refuse": REFUSED, "category": 0, "clamp": first}[attribute.underflow]
    if number >= edges[-1]:
        return {"refuse": REFUSED, "category": first + bins, "clamp": first + bins - 1}[attribute.overflow]
    return first + bisect_right(edges, number) - 1


def coded(request: CountRequest, columns: Columns) -> list[tuple[Any, ...]]:
    """The codes of all records, or REFUSED."""
    each = [
        [code_of(attribute, columns[attribute.name][0], value) for value in columns[attribute.name][1]]
        for attribute in request.attributes
    ]
    return list(zip(*each, strict=True))


def refused_columns(request: CountRequest, columns: Columns) -> set[str]:
    """The columns in which a record must be refused."""
    codes = coded(request, columns)
    refused = {
        attribute.name
        for at, attribute in enumerate(request.attributes)
        if any(record[at] is REFUSED for record in codes)
    }
    if request.person is not None:
        _, people = columns[request.person]
        refused |= {request.person for person in people if person is None or not str(person).strip(BLANKS)}
    return refused


def counted(request: CountRequest, columns: Columns) -> dict[tuple[str, ...], np.ndarray]:
    """All tables, by counting one record after another."""
    rows = coded(request, columns)
    if request.person is not None:
        pairs = zip(columns[request.person][1], rows, strict=True)
        rows = list(kept_rows(pairs, request.max_rows_per_person, request.key))
    tables = {}
    for names, places in zip(request.tables, request.positions, strict=True):
        tables[names] = np.zeros([request.schema[name].cells for name in names], dtype=np.int64)
        for cell, times in Counter(tuple(row[place] for place in places) for row in rows).items():
            tables[names][cell] = times
    return tables
