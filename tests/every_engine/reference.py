"""The coding rule and the counts in plain Python: from what `privcube.sensitive.coding` says, not from its SQL."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, date
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from factories import Columns

from privcube import Attribute
from privcube.sensitive.engine import CountRequest
from privcube.sensitive.units import kept_rows

REFUSED = None
DROPPED = -1
BLANKS = " \t\n\r\f\v"
NUMBER = re.compile(r"[+-]?(\d{1,30}(\.\d{0,30})?|\.\d{1,30})(e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)
_KNOWN: defaultdict[tuple[Attribute, str], dict[Any, int | None]] = defaultdict(dict)  # codes that were worked out
_COUNTED: dict[Any, dict[tuple[str, ...], np.ndarray]] = {}


def code_of(attribute: Attribute, kind: str, value: Any) -> int | None:
    """The cell that a value is counted in, or the point of a grid and what comes before and after it, or REFUSED."""
    more = 0 if attribute.grid is None else attribute.grid.steps + 1 - len(attribute.grid.knots)
    other = {"refuse": REFUSED, "category": attribute.ordered_cells + more, "drop": DROPPED}[attribute.other]
    missing = {"refuse": REFUSED, "category": attribute.cells - 1 + more, "drop": DROPPED}[attribute.missing]
    if value is None or value != value:
        return missing
    spelled = {label: set(texts) for label, texts in attribute.raw}
    if kind == "text":
        value = cleaned(attribute, value)
    if text_of(kind, value) in {cleaned(attribute, text) for text in spelled.get("(missing)", ())}:
        return missing
    if attribute.dates is not None:
        text = text_of(kind, value)
        day, hour = moment_of(attribute.dates.format, text)
        if day is None or (attribute.dates.by == "hour" and hour is None):
            return missing if not text.strip(BLANKS) else other
        return period_of(attribute, day, hour)
    if attribute.bins is not None or attribute.grid is not None:
        number = number_of(kind, value)
        if number is None:
            blank = kind == "text" and (not value.strip(BLANKS) or value in ("NaN", "nan"))
            return missing if blank else other
        return bin_of(attribute, number) if attribute.grid is None else point_of(attribute, number)
    text = text_of(kind, value)
    if attribute.size is not None:
        declared = [text] if re.fullmatch("0|[1-9][0-9]*", text) and int(text) < attribute.size else []
        return int(text) if declared else missing if not text.strip(BLANKS) else other
    assert attribute.values is not None
    booleans = isinstance(attribute.values[0], bool)
    if booleans and kind == "text" and text in ("True", "TRUE", "False", "FALSE"):
        text = text.lower()
    said = [str(declared).lower() if booleans else str(declared) for declared in attribute.values]
    for at, written in enumerate(said):
        if text in {cleaned(attribute, each) for each in (written, *spelled.get(written, ()))}:
            return at
    return missing if not text.strip(BLANKS) else other


def cleaned(attribute: Attribute, text: str) -> str:
    """What cleaning leaves of a text."""
    if attribute.trim:
        text = text.strip(BLANKS + "\u00a0")
    if attribute.case == "fold":
        small = {char: char.lower() for char in text if len(char.lower()) == 1 and char.lower().upper() == char}
        text = "".join(small.get(char, char) for char in text)
    return text


FORMS = {
    "iso": r"(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)",
    "compact": r"(?P<y>\d{4})(?P<m>\d\d)(?P<d>\d\d)",
    "day first": r"(?P<d>\d{1,2})[./-](?P<m>\d{1,2})[./-](?P<y>\d{4})",
    "month first": r"(?P<m>\d{1,2})[./-](?P<d>\d{1,2})[./-](?P<y>\d{4})",
}
TIME = r"([ T](?P<h>\d\d):[0-5]\d(:[0-5]\d([.,]\d{1,12})?)?( ?(Z|UTC|[+-]\d\d(:?\d\d)?))?)?"


def moment_of(form: str, text: str) -> tuple[date | None, int | None]:
    """The day and, if a time is given, the hour."""
    found = re.fullmatch(FORMS[form] + TIME, text, re.ASCII)
    try:
        day = date(*(int(found[part]) for part in "ymd")) if found else None
    except ValueError:
        return None, None
    hour = int(found["h"]) if found and found["h"] else None
    return (None, None) if hour is not None and hour > 23 else (day, hour)


def period_of(attribute: Attribute, day: date, hour: int | None) -> int | None:
    """The cell of a day, by its label."""
    assert attribute.dates is not None
    year, week, _ = day.isocalendar()
    labels = {
        "day": day.isoformat(),
        "week": f"{year:04d}-W{week:02d}",
        "month": f"{day.year:04d}-{day.month:02d}",
        "quarter": f"{day.year:04d}-Q{(day.month - 1) // 3 + 1}",
        "year": f"{day.year:04d}",
        "quarter of year": f"Q{(day.month - 1) // 3 + 1}",
        "month of year": f"{day:%B}",
        "day of month": str(day.day),
        "weekday": f"{day:%A}",
        "hour": str(hour),
    }
    label, declared = labels[attribute.dates.by], attribute.dates.labels
    first = int(attribute.underflow == "category")
    if label in declared:
        return first + declared.index(label)
    last = first + len(declared) - 1
    if label < declared[0]:
        return {"refuse": REFUSED, "category": 0, "clamp": first, "drop": DROPPED}[attribute.underflow]
    return {"refuse": REFUSED, "category": last + 1, "clamp": last, "drop": DROPPED}[attribute.overflow]


def text_of(kind: str, value: Any) -> str:
    """How a value is written; a number with a fraction as nothing that can be declared."""
    if kind == "instant":
        return str(value.astimezone(UTC).replace(tzinfo=None))
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
        return {"refuse": REFUSED, "category": 0, "clamp": first, "drop": DROPPED}[attribute.underflow]
    if number >= edges[-1]:
        above = {"refuse": REFUSED, "category": first + bins, "clamp": first + bins - 1, "drop": DROPPED}
        return above[attribute.overflow]
    return first + bisect_right(edges, number) - 1


def point_of(attribute: Attribute, number: float) -> int | None:
    """The point of a grid next to a number, the lower of two, or what the policies for numbers outside say."""
    grid = attribute.grid
    assert grid is not None
    first = int(attribute.underflow == "category")
    last = first + grid.steps
    if number < float(grid.low):
        return {"refuse": REFUSED, "category": 0, "clamp": first, "drop": DROPPED}[attribute.underflow]
    if number > float(grid.high):
        return {"refuse": REFUSED, "category": last + 1, "clamp": last, "drop": DROPPED}[attribute.overflow]
    if number <= float(grid.low + grid.step / 2):
        return first
    return min(first + math.ceil((number - float(grid.low)) / float(grid.step) - 0.5), last)


def shares_of(attribute: Attribute, code: int) -> dict[int, Fraction]:
    """How a record is divided between cells: by the distance of its number to the knots around it."""
    grid = attribute.grid
    if grid is None:
        return {code: Fraction(1)}
    first = int(attribute.underflow == "category")
    if code < first:
        return {code: Fraction(1)}
    if code > first + grid.steps:
        return {code - grid.steps - 1 + len(grid.knots): Fraction(1)}
    number = grid.low + (code - first) * grid.step
    if number in grid.knots:
        return {first + grid.knots.index(number): Fraction(1)}
    above = bisect_right(grid.knots, number)
    left, right = grid.knots[above - 1], grid.knots[above]
    part = (number - left) / (right - left)
    return {first + above - 1: 1 - part, first + above: part}


def coded(request: CountRequest, columns: Columns) -> list[tuple[Any, ...] | None]:
    """The codes of all records, or REFUSED; None in place of a record that is dropped."""

    def codes(attribute: Attribute) -> list[int | None]:
        kind, values = columns[attribute.column]
        known = _KNOWN[attribute, kind]
        spelled = [(type(value), repr(value)) for value in values]  # 1, 1.0 and True are equal, but not alike
        for value, key in zip(values, spelled, strict=True):
            if key not in known:
                known[key] = code_of(attribute, kind, value)
        return [known[key] for key in spelled]

    coded_columns = list(map(codes, request.attributes))
    records = list(zip(*coded_columns, strict=True))
    looked_at = [*coded_columns, *map(codes, request.filters)]
    dropped = {at for column in looked_at for at, code in enumerate(column) if code == DROPPED}
    return [None if at in dropped else record for at, record in enumerate(records)]


def refused_columns(request: CountRequest, columns: Columns) -> set[str]:
    """The columns in which a record must be refused."""
    codes = coded(request, columns)
    refused = {
        attribute.name
        for at, attribute in enumerate(request.attributes)
        if any(record[at] is REFUSED for record in codes if record is not None)
    }
    if request.person is not None:
        _, people = columns[request.person]
        refused |= {
            request.person
            for person, record in zip(people, codes, strict=True)
            if record is not None and (person is None or not str(person).strip(BLANKS))
        }
    return refused


def counted(request: CountRequest, columns: Columns) -> dict[tuple[str, ...], np.ndarray]:
    """All tables, by counting one record after another."""
    records = coded(request, columns)
    rows = [record for record in records if record is not None]
    if request.person is not None:
        people = zip(columns[request.person][1], records, strict=True)
        pairs = [(person, record) for person, record in people if record is not None]
        rows = list(kept_rows(pairs, request.max_rows_per_person, request.key))
    key = request.schema, request.tables, tuple(rows)
    if key not in _COUNTED:
        _COUNTED.clear()  # ways of holding the same table come one after another
        _COUNTED[key] = _tables(request, rows)
    return _COUNTED[key]


def _tables(request: CountRequest, rows: Sequence[tuple[Any, ...]]) -> dict[tuple[str, ...], np.ndarray]:
    tables = {}
    for names, places in zip(request.tables, request.positions, strict=True):
        tables[names] = np.zeros([request.schema[name].cells for name in names], dtype=np.int64)
        grids = [request.schema[name].grid for name in names]
        parts = math.prod(grid.parts for grid in grids if grid is not None)
        for codes, times in Counter(tuple(row[place] for place in places) for row in rows).items():
            shares = [shares_of(request.schema[name], code).items() for name, code in zip(names, codes, strict=True)]
            for cells in product(*shares):
                added = times * parts * math.prod(share for _, share in cells)
                assert Fraction(added).denominator == 1
                tables[names][tuple(cell for cell, _ in cells)] += int(added)
    return tables
