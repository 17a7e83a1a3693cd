"""Numbers as published: rounded for people, with a word on how far to trust them. Zone: RELEASED.

Parquet files have all digits. CSV, Excel, pages and the terminal have as many decimals as the standard error warrants:
steps of at most a tenth of it, so that rounding adds less than 0.05 % to the standard error (s^2 + (s/10)^2 / 12).
Ends of intervals are rounded outward, so that they hold as often as stated.

No number is left out because it is uncertain: it gets a word instead. A count "holds zero" if zero, or less, is in its
interval; it is "uncertain" if its standard error is above a part of it, 30 % unless the publisher says otherwise, as
official statistics flag it; else it is "ok".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privcube.algebra.lattice import Floats, Integers
from privcube.model.publication.words import Words
from privcube.released.labels import MEANS, SHARES

Numbers = Mapping[str, Floats | Integers]

RELIABILITY: Final = ("ok", "uncertain", "holds zero")
_STEPS: Final = 10  # of rounding in a standard error, at least
_MOST_DECIMALS: Final = 10
_SLACK: Final = 1.5e-6  # what `Release.values` adds to intervals for floating-point error, and a half
_WIDTH: Final = 4  # standard errors in an interval of 95 %, about
_WHOLE: Final = 2.0**52  # from here on, floats have no decimals to round


def decimals_for(std_error: float) -> int:
    """How many decimals are warranted by a standard error.

    >>> [decimals_for(error) for error in (250.0, 12.0, 1.0, 0.3, 0.0)]
    [0, 0, 1, 2, 0]
    """
    if not 0 < std_error < math.inf:
        return 0
    return min(max(0, math.ceil(math.log10(_STEPS / std_error) - 1e-9)), _MOST_DECIMALS)


def decimals_of(numbers: Numbers, words: Words) -> int:
    """How many decimals the numbers of a table have: as the publisher says, or by the smallest standard error."""
    if words.decimals is not None:
        return words.decimals
    errors = np.asarray(numbers["std_error"], dtype=np.float64)
    known = errors[np.isfinite(errors) & (errors > 0)]
    return decimals_for(float(known.min())) if known.size else 0


def rounded(name: str, numbers: Floats | Integers, decimals: int) -> Floats | Integers:
    """A column as published: lower ends are rounded down and upper ends up, and no zero has a sign.

    >>> rounded("estimate", np.array([45494.79204483761, -2e-16]), 1).tolist()
    [45494.8, 0.0]
    >>> rounded("low", np.array([3.7]), 0).tolist(), rounded("high", np.array([3.2]), 0).tolist()
    ([3.0], [4.0])
    """
    if np.issubdtype(numbers.dtype, np.integer):
        return numbers
    given = np.asarray(numbers, dtype=np.float64)
    scale = 10.0**decimals
    slack = min(_SLACK, 0.01 / scale)
    small = np.where(np.abs(given) < _WHOLE / scale, given, 0.0)
    if "low" in name:
        steps = np.floor((small + slack) * scale)
    elif "high" in name:
        steps = np.ceil((small - slack) * scale)
    else:
        steps = np.rint(small * scale)
    found = np.where(np.abs(given) < _WHOLE / scale, steps / scale, given) + 0.0
    return np.where(np.isnan(given), given, found)


def end_of(name: str, number: float, decimals: int) -> float:
    """One number as published: like a column of this name.

    >>> end_of("low", 1.26, 1), end_of("high", 1.24, 1)
    (1.2, 1.3)
    """
    return float(rounded(name, np.array([number]), decimals)[0])


def in_digits(name: str, number: float, digits: int, most_decimals: int = _MOST_DECIMALS) -> str:
    """One number as text, like a column of this name, to so many digits.

    >>> in_digits("estimate", 12656.7, 4), in_digits("low", 12656.7, 4), in_digits("high", 0.12341, 4)
    ('12,660', '12,650', '0.1235')
    """
    if not math.isfinite(number) or number == 0:
        return f"{number:g}"
    places = min(digits - 1 - math.floor(math.log10(abs(number))), most_decimals)
    own = end_of(name, number, places)
    return f"{own:,.0f}" if abs(own) >= 10**digits else f"{own:,.{digits}g}"


def confidence_text(confidence: float) -> str:
    """A confidence as a percentage with all its digits: it is never rounded up to certainty.

    >>> confidence_text(0.95), confidence_text(0.99999), confidence_text(0.6827)
    ('95%', '99.999%', '68.27%')
    """
    return f"{(Decimal(str(float(confidence))) * 100).normalize():f}%"


def decimals_by_column(numbers: Numbers, words: Words) -> dict[str, int]:
    """How many decimals every column has: means and shares by the widths of their own intervals."""
    found = dict.fromkeys(numbers, decimals_of(numbers, words))
    for family in (MEANS, SHARES):
        if family[0] in numbers:
            widths = np.asarray(numbers[family[2]]) - np.asarray(numbers[family[1]])
            known = widths[np.isfinite(widths) & (widths > 0)]
            own = decimals_for(float(known.min()) / _WIDTH) if known.size else 0
            found |= {name: own for name in family if name in numbers}
    return found


def published_numbers(numbers: Numbers, decimals: Mapping[str, int]) -> dict[str, Any]:
    """All columns of a table as published; without decimals, they are whole numbers."""
    found: dict[str, Any] = {}
    for name, own in numbers.items():
        column = rounded(name, own, decimals[name])
        whole = decimals[name] == 0 and bool(np.all(np.abs(column) < _WHOLE))  # False where there are NaNs
        found[name] = column.astype(np.int64) if whole else column
    return found


def percent_of_error(words: Words) -> str:
    """The relative standard error above which numbers are called uncertain.

    >>> percent_of_error(Words()), percent_of_error(Words(reliability=0.165))
    ('30%', '16.5%')
    """
    return f"{words.most_relative_error * 100:.3g}%"


def reliability(numbers: Numbers, words: Words, *, counts: bool) -> NDArray[np.int64]:
    """How far to trust every number of a table, as places in `RELIABILITY`; counts are not negative, sums may be.

    >>> numbers = {"estimate": np.array([100.0, 25.0, 8.0]), "std_error": np.full(3, 10.0), "low": [80.4, 5.4, -11.6],
    ...            "high": [119.6, 44.6, 27.6]}
    >>> [RELIABILITY[at] for at in reliability(numbers, Words(), counts=True)]
    ['ok', 'uncertain', 'holds zero']
    """
    estimate, error = np.abs(np.asarray(numbers["estimate"])), np.asarray(numbers["std_error"])
    low, high = np.asarray(numbers["low"]), np.asarray(numbers["high"])
    zero = ~((low > 0) | ((high < 0) & (not counts)))  # also for NaN: not determined
    uncertain = error > words.most_relative_error * estimate
    return np.where(zero, 2, np.where(uncertain, 1, 0)).astype(np.int64)
