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
    found: list[str] = []
    used = {name.upper() for name in taken}
    for name in names:
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().upper()
        short = re.sub("[^A-Z0-9]+", "_", plain).strip("_")[:_LONGEST].rstrip("_") or "X"
        own = base = short if short[0].isalpha() else f"N{short}"
        number = 1
        while own in used:
            number += 1
            own = f"{base}_{number}"
        used.add(own)
        found.append(own)
    return found
