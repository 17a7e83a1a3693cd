"""Declared values, and labels of values, from a CSV or JSON file beside the spec. Zone: PUBLIC.

Both become part of the spec as it is read: a plan contains the values, and its digest covers them.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from privcube.errors import Plain, SpecError

_LARGEST_FILE: Final = 64 * 2**20  # bytes: a larger file is no list of values, and must not fill the memory
_EXPECTED: Final = {
    ".csv": "CSV with a header and one value per line, first or in a column named value; labels in one named label",
    ".json": "JSON: a list of values, or an object from values to labels",
}

Spellings = dict[str, list[str]]


def values_in(file: Path, subject: str) -> tuple[list[Any], Spellings]:
    """The values to declare, and how the data spells them if they have labels of their own."""
    pairs = _pairs_in(file, subject)
    if all(label is None for _, label in pairs):
        return [value for value, _ in pairs], {}
    spelled: Spellings = {}
    for value, label in pairs:
        spelled.setdefault(str(value) if label is None else label, []).append(str(value))
    return list(spelled), spelled


def labels_in(file: Path, subject: str) -> dict[str, str]:
    """The labels of values, by the values as text."""
    found: dict[str, str] = {}
    for value, label in _pairs_in(file, subject):
        named = f"{subject}, file {file.name!r}"
        if label is None:
            raise SpecError(named, expected="labels: a column named label, or an object from values to labels")
        if found.setdefault(str(value), label) != label:
            raise SpecError(named, expected="one label for each value", given=Plain(f"two for {value!r}"))
    return found


def _pairs_in(file: Path, subject: str) -> list[tuple[Any, str | None]]:
    """The values in a file, with their labels where there are any."""
    named = f"{subject}, file {file.name!r}"
    ending = file.suffix.lower()
    if ending not in _EXPECTED:
        raise SpecError(named, expected="a CSV or JSON file", given=ending, available=_EXPECTED)
    try:
        with file.open("rb") as stream:
            content = stream.read(_LARGEST_FILE + 1)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        raise SpecError(named, expected="a readable file", given=Plain(reason)) from None
    if len(content) > _LARGEST_FILE:
        raise SpecError(named, expected=f"at most {_LARGEST_FILE // 2**20} MiB", given=Plain("a larger file"))
    try:
        text = content.decode("utf-8-sig")
        pairs = _pairs_in_json(text) if ending == ".json" else _pairs_in_csv(text)
    except UnicodeDecodeError:
        raise SpecError(named, expected="UTF-8 text", given=Plain("other bytes")) from None
    except (ValueError, RecursionError, csv.Error):
        raise SpecError(named, expected=_EXPECTED[ending]) from None
    if not pairs:
        raise SpecError(named, expected="at least one value", given=Plain("none"))
    return pairs


def _pairs_in_json(text: str) -> list[tuple[Any, str | None]]:
    found = json.loads(text)
    if isinstance(found, list):
        return [(value, None) for value in found]
    if isinstance(found, dict) and all(isinstance(label, str) for label in found.values()):
        return list(found.items())
    raise ValueError


def _pairs_in_csv(text: str) -> list[tuple[Any, str | None]]:
    separator = max(",;\t|", key=text.partition("\n")[0].count)
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True))
    header, lines = rows[0] if rows else [], [row for row in rows[1:] if row]
    value = header.index("value") if "value" in header else 0
    label = header.index("label") if "label" in header else None
    if any(len(line) != len(header) for line in lines):
        raise ValueError
    return [(line[value], None if label is None else line[label]) for line in lines]


def joined_spellings(subject: str, codes: Spellings, spelled: Any) -> Any:
    """Spellings from a file with those of the spec, which are checked later."""
    if not codes:
        return spelled
    more = dict(spelled) if isinstance(spelled, Mapping) else {}
    if spelled and not all(isinstance(texts, list) for texts in more.values()):
        raise SpecError(subject, expected='a table of lists, value = ["a spelling", ...]', given=spelled)
    return {label: [*codes.get(label, []), *more.get(label, [])] for label in dict.fromkeys([*codes, *more])}
