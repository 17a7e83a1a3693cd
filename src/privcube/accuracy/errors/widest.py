"""Intervals wide enough for any sum or difference of published numbers, given its standard error. Zone: PUBLIC.

The page of a release knows the exact standard error of whatever a reader adds up, not the shape of its noise. This
factor, times the standard error, is enough for every shape that noise has here.

Theorem. Let E be symmetric with a log-concave density and standard deviation s. Then P(|E| > k s) is at most the same
probability for some density proportional to e^(-|x|) on [-B, B], 0 < B <= infinity.

Proof. |E| / s has a density f on [0, inf) that is log-concave and does not increase, with second moment 1. Let
p = P(|E| > k s) > 0, so f(k) > 0, and let c >= 0 be a slope with log f(x) <= log f(k) - c (x - k) for all x. For a
slope b from 0 to c let g(x) = f(k) e^(-b (x - k)). On [0, k], g <= f if b = 0, as f does not increase, and g >= f if
b = c. So for some b both have the same mass on [0, k]. Beyond k, g >= f, as f lies below the line of slope c; so g can
be cut off at some A >= k, where it has the mass of f beyond k. Now log f - log g is concave on [0, A] and 0 at k. On
[0, k] the masses are equal, so f - g is first negative, then positive. On [k, A] it is not positive, as log f - log g
has a slope of at most b - c <= 0 from k on; beyond A it is not negative. On both parts the mass of f lies farther out
than that of g, so the second moment of g is at most 1. g has the same mass beyond k, which is at least k of its own
standard deviations. Scaled to b = 1, it is of the form that was claimed (b = 0 is the limit of small B).

Which noise is log-concave? Normal and Laplace draws, max-norm noise, whose density is exp(-norm), and its restriction
to a section; Wishart matrices of n+1 degrees of freedom, whose density is e^(-tr W) on a cone. Independent draws
together, linear images and differences of such vectors have log-concave densities as well (Prekopa 1973), and a sum of
published numbers is a linear image of the noise. If all draws are normal, so is the sum, and no bound is needed.

Noise is in whole numbers. As for single numbers (`privcube.accuracy.intervals`) this is covered by adding a step to the
half-width: how far the sum moves if a draw moves by 1, where half of it would do for a single draw.

See THEORY section 11.5.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Final

import numpy as np

from privcube.accuracy.intervals import interval_factor, known_confidence
from privcube.algebra.lattice import Floats
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import PureDP

_CUTS: Final = np.concatenate([np.geomspace(1e-3, 1, 200), np.linspace(1, 40, 8_000), [60.0, 100.0, 400.0]])
_SLACK: Final = 1 + 1e-5  # for cuts between those tried: the chance is flat where it is largest


def widest_factor(plan: Plan, confidence: float) -> float:
    """The half-width in standard errors of an interval for any sum or difference of numbers, without its step."""
    if not isinstance(plan.guarantee, PureDP):
        return interval_factor(0.0, confidence)
    return log_concave_factor(known_confidence(confidence))


@lru_cache(maxsize=1024)
def log_concave_factor(confidence: float) -> float:
    """The half-width in standard errors of an interval for any symmetric error with a log-concave density.

    >>> round(log_concave_factor(0.95), 3), round(interval_factor(3, 0.95), 3)  # a single Laplace draw
    (2.169, 2.118)
    """
    low, high = 0.0, 1e4
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if largest_chance(middle) > 1 - confidence else (low, middle)
    return high * _SLACK


def largest_chance(factor: float) -> float:
    """The largest probability that such an error exceeds so many standard deviations, as far as the cuts tell.

    >>> round(largest_chance(2.118), 4), largest_chance(0.0)
    (0.0542, 1.0)
    """
    uniform = 1 - factor / 3**0.5  # the limit of small cuts
    return max(uniform, float(np.max(_beyond(factor * np.sqrt(_second_moments()), _CUTS))))


def _beyond(at: Floats, cut: Floats) -> Floats:
    """The probability of a number above `at` under e^(-x) on [0, cut]."""
    return np.asarray(np.where(at < cut, np.expm1(np.minimum(at - cut, 0.0)) / np.expm1(-cut) * np.exp(-at), 0.0))


@cache
def _second_moments() -> Floats:
    """The second moments under e^(-x) on [0, cut], by quadrature where the closed form loses its digits."""
    cut = _CUTS
    closed = (2 - np.exp(-cut) * (cut**2 + 2 * cut + 2)) / -np.expm1(-cut)
    x, weights = np.polynomial.legendre.leggauss(40)
    nodes = (x[:, None] + 1) / 2 * np.minimum(cut, 2.0)
    density = np.exp(-nodes)
    summed = (weights[:, None] * nodes**2 * density).sum(axis=0) / (weights[:, None] * density).sum(axis=0)
    return np.asarray(np.where(cut < 2, summed, closed))
