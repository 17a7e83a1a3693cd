"""JSON read warily: every key once, and finite numbers of a sensible size only. Zone: PUBLIC.

Python's reader takes the last of two equal keys and lets NaN, Infinity and 1e999 pass; other readers do otherwise. A
document that two programs may read differently is refused.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

_LONGEST_FLOAT: Final = 400  # characters; whole numbers have at most 4,300 digits, by the limit of Python


def strict_json(text: str) -> Any:
    """The values of a JSON text; a ValueError says what is wrong with it.

    >>> strict_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ...
    ValueError: the key 'a' twice
    """
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_refused, parse_float=_finite)
    except RecursionError:
        raise ValueError("brackets nested too deeply") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key!r} twice")
            seen.add(key)
    return found


def _refused(name: str) -> Any:
    raise ValueError(f"{name}, which is no number")


def _finite(text: str) -> float:
    number = float(text) if len(text) <= _LONGEST_FLOAT else math.inf
    if not math.isfinite(number):
        raise ValueError("a number too large or too long")
    return number
