"""A draft of a schema read off the data, marked as a draft. Zone: SENSITIVE.

The values that occur are themselves sensitive (a rare diagnosis tells that someone has it), so every attribute carries
`draft = true`, which a release refuses until a person has confirmed that the values are public knowledge.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Final

from privcube.errors import Plain, SchemaError
from privcube.model.attribute import Attribute, Policy
from privcube.model.levels import check_name
from privcube.model.schema import Schema

_MOST_VALUES: Final = 100
_BINS: Final = 10


class DraftingError(SchemaError):
    """A column that no attribute can be drafted from; the message holds no value."""


def draft_schema(path: str | Path) -> Schema:
    """Attributes with the values found in a CSV file with a header; errors name columns, never values."""
    file = Path(path)
    subject = f"file {file.name!r}"
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream)
            header = next(reader, [])
            found = _distinct(subject, header, reader)
    except OSError as problem:
        raise SchemaError(subject, expected="a CSV file that can be read", given=Plain(problem.strerror)) from None
    except (UnicodeDecodeError, csv.Error):
        raise SchemaError(subject, expected="a CSV file in UTF-8") from None
    if not header:
        raise SchemaError(subject, expected="a header with the names of the columns", given=Plain("an empty file"))
    return Schema(_checked(name, values) for name, values in zip(header, found, strict=True))


def _distinct(subject: str, header: list[str], rows: Iterable[list[str]]) -> list[set[str]]:
    found: list[set[str]] = [set() for _ in header]
    for row in rows:
        if row and len(row) != len(header):
            raise SchemaError(subject, expected=f"{len(header)} fields in every row, as in the header")
        for values, text in zip(found, row, strict=False):
            values.add(text)
    return found


def _checked(name: str, found: set[str]) -> Attribute:
    """The attribute, or an error that does not pass on what the schema says of a value."""
    check_name("name of a column", name)
    try:
        return _attribute(name, found)
    except DraftingError:
        raise
    except SchemaError:
        raise DraftingError(
            f"column {name!r}", expected="values without control characters, of at most 1,000 characters"
        ) from None


def _attribute(name: str, found: set[str]) -> Attribute:
    present = {text for text in found if text.strip()}
    missing: Policy = "category" if len(present) < len(found) else "refuse"
    if not present:
        raise DraftingError(f"column {name!r}", expected="at least one value", given=Plain("only missing ones"))
    numbers = _numbers(present)
    if numbers is not None and len(present) > _MOST_VALUES:
        return Attribute(
            name, bins=_round_edges(min(numbers), max(numbers)), underflow="clamp", overflow="clamp",
            missing=missing, draft=True,
        )  # fmt: skip
    if len(present) > _MOST_VALUES:
        raise DraftingError(
            f"column {name!r}",
            expected=f"at most {_MOST_VALUES} distinct values, or numbers; leave the column out of the file, or "
            "declare the attribute by hand",
            given=Plain("more"),
        )
    if numbers is not None and all(text.lstrip("-").isdecimal() and text == str(int(text)) for text in present):
        return Attribute(name, values=sorted(map(int, present)), missing=missing, draft=True)
    return Attribute(name, values=sorted(present), missing=missing, draft=True)


def _numbers(texts: set[str]) -> list[Decimal] | None:
    try:
        numbers = [Decimal(text) for text in texts]
    except InvalidOperation:
        return None
    return numbers if all(number.is_finite() and abs(number) < Decimal(10**15) for number in numbers) else None


def _round_edges(low: Decimal, high: Decimal) -> list[int | Decimal]:
    """About ten intervals of a round width that cover low to high."""
    span = max(high - low, Decimal(1))
    unit = Decimal(10) ** math.floor((span / _BINS).log10())
    width = next(unit * step for step in (1, 2, 5, 10) if unit * step * _BINS >= span)
    first = (low / width).to_integral_value(rounding="ROUND_FLOOR") * width
    edges = [first]
    while edges[-1] <= high:
        edges.append(edges[-1] + width)
    return [int(edge) if edge == edge.to_integral_value() else edge.normalize() for edge in edges]
