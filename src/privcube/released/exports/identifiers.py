"""Identifiers for programs that allow ASCII letters, digits and underscores only. Zone: RELEASED."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from privcube.model.workload import Axis, Table, Workload, table_name
from privcube.released.labels import labeled

_LONGEST: Final = 40  # characters, without the number that tells equal ones apart


def table_identifiers(workload: Workload, others: Iterable[Table] = (), longest: int | None = None) -> dict[Table, str]:
    """An identifier for every table of a release, whichever of them are written, and then for other tables."""
    tables = _all_of(workload, others)
    return dict(zip(tables, identifiers([f"t {table_name(table)}" for table in tables], longest=longest), strict=True))


def axis_identifiers(workload: Workload, others: Iterable[Table], taken: Iterable[str]) -> dict[Axis, str]:
    """An identifier for everything that tables of a release are by; it is the same in all of them."""
    axes = list(dict.fromkeys(Axis.of(entry) for table in _all_of(workload, others) for entry in labeled(table)))
    return dict(zip(axes, identifiers([axis.name for axis in axes], taken), strict=True))


def _all_of(workload: Workload, others: Iterable[Table]) -> Sequence[Table]:
    return list(dict.fromkeys([*workload, *others]))


def identifiers(names: Iterable[str], taken: Iterable[str] = (), longest: int | None = None) -> list[str]:
    """An identifier for every name: what is left of it in ASCII, with a number where that is taken, in any case.

    >>> identifiers(["Größe", "[0, 18)", "[18, 65)", "=", "größe"])
    ['GROE', 'N0_18', 'N18_65', 'X', 'GROE_2']
    """
    return distinct(map(_plain, names), "{}_{}", {name.upper() for name in taken}, longest)


def _plain(name: str) -> str:
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().upper()
    short = re.sub("[^A-Z0-9]+", "_", ascii_name).strip("_")[:_LONGEST].rstrip("_") or "X"
    return short if short[0].isalpha() else f"N{short}"


def distinct(texts: Iterable[str], numbered: str, taken: Iterable[str] = (), longest: int | None = None) -> list[str]:
    """Texts of which no two are the same, nor one that is taken: where needed, one gets a number, and is cut for it.

    >>> distinct(["a", "b", "a"], "{} ({})")
    ['a', 'b', 'a (2)']
    >>> distinct(["T_AGE_X_SEX", "T_AGE_X_WARD"], "{}_{}", longest=8)
    ['T_AGE_X_', 'T_AGE__2']
    """
    found: list[str] = []
    used = set(taken)
    numbers: dict[str, int] = {}  # the last one of every text
    for whole in texts:
        text = whole[:longest]
        own, number = text, numbers.get(text, 1)
        while own in used:
            number += 1
            over = 0 if longest is None else max(0, len(numbered.format(text, number)) - longest)
            own = numbered.format(text[: len(text) - over], number)
        numbers[text] = number
        used.add(own)
        found.append(own)
    return found
