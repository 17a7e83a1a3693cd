"""Identifiers for programs that allow ASCII letters, digits and underscores only. Zone: RELEASED."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

_LONGEST: Final = 40  # characters, without the number that tells equal ones apart


def identifiers(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """An identifier for every name: what is left of it in ASCII, with a number where that is taken, in any case.

    >>> identifiers(["Größe", "[0, 18)", "[18, 65)", "=", "größe"])
    ['GROE', 'N0_18', 'N18_65', 'X', 'GROE_2']
    """
    return distinct(map(_plain, names), "{}_{}", {name.upper() for name in taken})


def _plain(name: str) -> str:
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().upper()
    short = re.sub("[^A-Z0-9]+", "_", ascii_name).strip("_")[:_LONGEST].rstrip("_") or "X"
    return short if short[0].isalpha() else f"N{short}"


def distinct(texts: Iterable[str], numbered: str, taken: Iterable[str] = ()) -> list[str]:
    """Texts of which no two are the same, nor one that is taken: where needed, one gets a number.

    >>> distinct(["a", "b", "a"], "{} ({})")
    ['a', 'b', 'a (2)']
    """
    found: list[str] = []
    used = set(taken)
    for text in texts:
        own, number = text, 1
        while own in used:
            number += 1
            own = numbered.format(text, number)
        used.add(own)
        found.append(own)
    return found
