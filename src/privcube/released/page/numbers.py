"""Numbers as a page carries them: as many digits as their errors leave. Zone: RELEASED.

An estimate becomes a whole number: itself times 10^decimals, rounded, with decimals so that rounding moves it by at
most 1/100 of its smallest standard error. Standard errors and margins have four digits, margins rounded up; if all are
equal, there is one. Full precision is in the files of the tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from privcube.accuracy.errors.covariances import Covariances
from privcube.algebra.lattice import Floats, Integers
from privcube.released.labels import COUNT, MEANS

_PART: Final = 50  # of a standard error: the step between rounded estimates
_DIGITS: Final = 4
_WIDTH: Final = 4  # standard errors in an interval of 95 %, about
_COVARIANCE_DIGITS: Final = 9  # sums over many cells have a small variance that is a difference of large numbers
_SIGNS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_MOST_DECIMALS: Final = 9
_EXACT: Final = 2**53  # whole numbers up to here are exact in a browser


def quantity(of: int, numbers: Mapping[str, Floats | Integers]) -> dict[str, Any]:
    """One quantity of a table; `of` is its place in the list of quantities.

    >>> columns = {"estimate": np.array([10.04, -0.61]), "std_error": np.array([5.0, 5.0])}
    >>> ends = {"high": np.array([20.04, 9.39]), "high_all": np.array([22.04, 11.39])}
    >>> quantity(0, columns | ends)
    {'of': 0, 'decimals': 1, 'estimate': [100, -6], 'std_error': 5.0, 'margin': 10.0, 'margin_all': 12.0}
    """
    estimate, std_error = (np.asarray(numbers[name], dtype=np.float64) for name in ("estimate", "std_error"))
    decimals = decimals_for(estimate, std_error)
    found: dict[str, Any] = {
        "of": of,
        "decimals": decimals,
        "estimate": np.rint(estimate * 10.0**decimals).astype(np.int64).tolist(),
        "std_error": _few([to_digits(number) for number in std_error.tolist()]),
        "margin": _few([up_to_digits(number) for number in (numbers["high"] - estimate).tolist()]),
        "margin_all": _few([up_to_digits(number) for number in (numbers["high_all"] - estimate).tolist()]),
    }
    if COUNT in numbers:
        found["whole"] = numbers[COUNT].tolist()
    return found


def averages(of: int, numbers: Mapping[str, Floats | Integers]) -> dict[str, Any]:
    """The means of a table, with the ends of their intervals rounded outward; None where a mean is not determined.

    >>> columns = {"mean": [38.561, math.nan], "mean_low": [37.9, math.nan], "mean_high": [39.2, math.nan]}
    >>> averages(2, {name: np.array(own) for name, own in columns.items()})
    {'of': 2, 'decimals': 3, 'estimate': [38561, None], 'low': [37900, None], 'high': [39200, None]}
    """
    estimate, low, high = (np.asarray(numbers[name], dtype=np.float64) for name in MEANS)
    known = np.isfinite(low) & np.isfinite(high)
    widths = (high - low)[known] / _WIDTH
    decimals = decimals_for(estimate[known], widths) if known.any() else 0
    scale = 10.0**decimals
    ends = zip(("estimate", "low", "high"), (np.rint, np.floor, np.ceil), (estimate, low, high), strict=True)
    found = {
        name: [int(number) if sure else None for number, sure in zip(_outward(way, own * scale), known, strict=True)]
        for name, way, own in ends
    }
    return {"of": of, "decimals": decimals, **found}


def _outward(way: Any, scaled: Floats) -> list[float]:
    """Numbers rounded one way, but for what floating point loses."""
    slack = 0.0 if way is np.rint else 1e-6 if way is np.floor else -1e-6
    rounded: list[float] = np.nan_to_num(way(scaled + slack)).tolist()
    return rounded


def covariance_document(known: Covariances) -> dict[str, Any]:
    """Covariances for a page: the classes of pairs along each axis as text, a sign for each, and the values in order.

    >>> covariance_document(Covariances((None, np.array([[0, 1], [1, 0]])), np.array([[1.0, 2.0], [3.0, 4.0]])))
    {'classes': [None, '0110'], 'values': [1.0, 2.0, 3.0, 4.0]}
    """
    return {
        "classes": [None if own is None else "".join(_SIGNS[at] for at in own.ravel()) for own in known.class_of],
        "values": [float(f"{value:.{_COVARIANCE_DIGITS}g}") for value in known.values.ravel().tolist()],
    }


def decimals_for(estimate: Floats, std_error: Floats) -> int:
    """How many decimals estimates keep; below 0 they lose digits before the point.

    >>> [decimals_for(np.array([1e4]), np.array([error])) for error in (0.3, 41.4, 5e4, 0.0)]
    [3, 1, -3, 9]
    """
    known = std_error[std_error > 0]
    wanted = -math.floor(math.log10(float(known.min()) / _PART)) if known.size else _MOST_DECIMALS
    largest = float(np.abs(estimate).max(initial=1.0))
    return min(wanted, _MOST_DECIMALS, math.floor(math.log10(_EXACT / max(largest, 1.0))))


def to_digits(number: float) -> float:
    """A number to four digits."""
    return float(f"{number:.{_DIGITS}g}")


def up_to_digits(number: float) -> float:
    """A number to four digits, rounded up but for what is lost when an end is taken from an estimate.

    >>> up_to_digits(1.23401), up_to_digits(1.2340000001), up_to_digits(0.0)
    (1.235, 1.234, 0.0)
    """
    if number <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(number)) + 1 - _DIGITS)
    return to_digits(math.ceil(number / step - 1e-6) * step)


def _few(numbers: list[float]) -> float | list[float]:
    """One number, if all are equal."""
    return numbers[0] if len(set(numbers)) == 1 else numbers
