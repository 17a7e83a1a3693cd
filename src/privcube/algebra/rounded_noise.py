"""Moments of the nearest whole number to a normal number of a given variance, for error bars. Zone: PUBLIC.

P(X = k) is the density of N + U at k, for N normal and U independent and uniform on [-1/2, 1/2]. By Poisson's summation
formula, the characteristic function of X is the sum over all whole j of that of N + U at t + 2 pi j. The moments of X
are therefore those of N + U, with variance v + 1/12 and fourth cumulant -1/120, and terms of size exp(-2 pi^2 v), which
count only if noise is narrow:

    E X^2 = v + 1/12 + 4 sum over j >= 1 of (-1)^j exp(-2 pi^2 j^2 v) (v + 1 / (4 pi^2 j^2)).

The terms of this sum alternate and fall, so the variance is below v + 1/12. See THEORY section 6.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from privcube.algebra.lattice import Floats

NARROW: Final = 2.0  # above this variance, moments are those of N + U to the precision of floats


def rounded_variance(variance: float) -> float:
    """The variance of rounded noise; about v + 1/12, and at most that.

    >>> [round(rounded_variance(v), 9) for v in (0.01, 0.25, 1.0, 100.0)]
    [5.73e-07, 0.325412763, 1.083333322, 100.083333333]
    """
    if variance > NARROW:
        return variance + 1 / 12
    k = _reached(variance)
    return min(float(np.sum((2 * k - 1) * _tails(variance, k))), variance + 1 / 12)


def rounded_fourth_cumulant(variance: float) -> float:
    """The fourth cumulant of rounded noise; about -1/120 unless noise is narrow.

    >>> [round(rounded_fourth_cumulant(v), 6) for v in (0.25, 1.0, 100.0)]
    [0.040164, -0.008332, -0.008333]
    """
    if variance > NARROW:
        return -1 / 120
    k = _reached(variance)
    fourth = float(np.sum((k**4 - (k - 1) ** 4) * _tails(variance, k)))
    return fourth - 3 * rounded_variance(variance) ** 2


def rounded_characteristic(variance: float, t: Floats) -> Floats:
    """The mean of cos(t X)."""
    if variance <= NARROW:
        k = _reached(variance)
        tails = _tails(variance, k)
        chances = (tails - np.append(tails[1:], 0.0)).tolist()
        found = np.full(np.shape(t), 1.0 - float(tails[0]))
        for value, chance in enumerate(chances, start=1):
            found = found + chance * np.cos(value * np.asarray(t))
        return np.asarray(found)
    nearest = np.asarray(t) - 2 * np.pi * np.round(np.asarray(t) / (2 * np.pi))
    whole = np.zeros(np.shape(t))
    for turn in (-1, 0, 1):
        at = nearest + 2 * np.pi * turn
        whole += np.exp(-variance * at**2 / 2) * np.sinc(at / (2 * np.pi))
    return whole


def rounded_log_moments(variance: float, t: Floats) -> Floats:
    """An upper bound on log E exp(t X): the least of three.

    X is within 1/2 of N, which gives v t^2 / 2 + |t| / 2. It is 0 if |N| is less, so |X| <= 2 |N| and, as X is
    symmetric, E exp(t X) = E cosh(t X) <= E cosh(2 t N), which gives 2 v t^2. And by Poisson's formula at imaginary t
    it is the sum over all whole j of that of N + U at t + 2 pi i j. |sinh((t + 2 pi i j) / 2)| is |sinh(t/2)| for all
    of them, so term j is at most exp(-2 pi^2 j^2 v) times term 0, and log(sinh(t/2) / (t/2)) <= t^2 / 24.
    """
    squares = np.asarray(t) ** 2
    others = 2 * sum(math.exp(-2 * math.pi**2 * j**2 * variance) for j in range(1, 40)) if variance > 0.01 else math.inf
    nearby = np.minimum(np.abs(t) / 2, squares / 24 + math.log1p(others))
    return np.asarray(np.minimum(variance / 2 * squares + nearby, 2 * variance * squares))


def _reached(variance: float) -> Floats:
    """The sizes of at least 1 that the noise can have, as far as floats can tell."""
    return np.arange(1, 3 + math.ceil(40 * math.sqrt(variance)), dtype=np.float64)


def _tails(variance: float, k: Floats) -> Floats:
    """P(|X| >= k)."""
    return np.array([math.erfc((size - 0.5) / math.sqrt(2 * variance)) for size in k.tolist()])
