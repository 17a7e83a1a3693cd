"""How wide an interval must be to contain an error at a given confidence. Zone: PUBLIC.

The error of a published number is a known linear combination of whole-number noise (`ErrorLaw`). A quantile of
continuous noise is too small for it: whole numbers are hit or missed, and one just outside takes all its probability
along. There are two ways to the half-width of an interval.

*Exact.* With independent draws, the characteristic function of the error E is a product of known functions, one per
draw (`privcube.accuracy.moments`). Let U be independent of E with |U| <= d, a sum of 8 uniform variables. |E| <= w
follows from |E + U| <= w - d. So a w with P(|E + U| <= w - d) >= confidence is wide enough, and it exceeds the best one
by at most 2 d. E + U has a density, so its distribution is a Fourier series (`_smoothed_quantile`), with bounds on all
that is left out. If E is a multiple of some number, w is then lowered to the next one that E can reach.

*Wide.* Where no draw moves the number by more than a small part of its standard error, or where draws depend on each
other (bundles), the interval is that of continuous noise with the same variance and kurtosis, plus half of the largest
step. In bundles the continuous noise has the same scale. For a single draw of Laplace noise this is proved:
P(|z| >= k) <= P(|continuous| >= k - 1/2).

See THEORY section 11.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from privcube.accuracy.moments import DrawKind, characteristic, drawn_variance, fourth_cumulant, log_moments
from privcube.algebra.lattice import Floats
from privcube.errors import PlanError

_GRID: Final = 20_000  # points of the density: enough for quantiles with an error below 1e-4
_SMALL_STEP: Final = 0.04  # in standard errors; a step below this widens a 95 % interval by at most 1 %
_FEW_TERMS: Final = 0.25  # excess kurtosis above which a few terms decide the shape
_MOST_TERMS: Final = 24  # taken one by one; smaller ones are merged
_MOST_LAWS: Final = 9  # worked out for a table whose numbers differ
_MOST_OWN_LAWS: Final = 32  # numbers of a table that are worked out one by one if noise is narrow
_UNIFORMS: Final = 8  # in U
_SMOOTHING: Final = 0.005  # d, relative to the half-width of a normal error
_LEAST_SMOOTHING: Final = 0.0025  # d, relative to the largest step
_LEFT_OUT: Final = 1e-3  # of the error probability, for each of the two parts of the series that are left out
_MOST_POINTS: Final = 2**20  # of the series
_RAREST: Final = 1e-9  # error probability; beyond it the half-width is extrapolated
_NOTHING: Final = 1e-10  # of the largest weight: smaller ones are rounding errors
_MULTIPLE: Final = 1e-6  # relative; how close to a whole number a ratio of weights must be to count as one


class Term(NamedTuple):
    """Independent draws of one noise that all move a number by the same amount."""

    weight: float  # how far the number moves if a draw moves by 1
    draws: float  # how many; any number if they stand for others
    noise: DrawKind
    parameter: float  # the variance of continuous noise


@dataclass(frozen=True)
class ErrorLaw:
    """The distribution of the error of a published number: its terms, or moments where these are enough."""

    variance: float
    kurtosis: float  # excess: 0 if normal, 3 if Laplace
    step: float  # how far the number moves, at most, if a draw moves by 1
    terms: tuple[Term, ...] | None = None  # None if the noise is wide or not independent
    moved: float = math.inf  # the sum of E z^2 over all draws: at least the probability that the error is not 0
    continuous: float = 0.0  # the variance under continuous noise, where draws depend on each other

    @classmethod
    def of(cls, noise: DrawKind, weights: Floats, counts: Floats, parameters: Floats) -> ErrorLaw:
        """The law of a sum of independent draws, from arrays with one entry for equal draws (`Term`)."""
        terms = _united(noise, np.abs(weights), counts, parameters)
        variance, fourth = _cumulants(terms)
        kurtosis, step = fourth / variance**2 if variance**2 > 0 else 0.0, max((t.weight for t in terms), default=0.0)
        moved = math.fsum(t.draws * drawn_variance(t.noise, t.parameter) for t in terms)
        return cls(variance, kurtosis, step, None if is_wide(variance, kurtosis, step) else _few(terms), moved)

    def half_width(self, confidence: float) -> float:
        """The half-width of an interval around the number that contains the true one at a given confidence.

        One count with discrete Laplace noise of scale 1 is off by 4 or more with probability 2 e^-4 / (1 + 1/e), 2.7 %.

        >>> one = np.ones(1)
        >>> round(ErrorLaw.of("laplace", one, one, 2 * one).half_width(0.95), 3)
        3.0
        """
        if self.moved <= 1 - known_confidence(confidence):
            return 0.0
        if self.terms is None:
            wide = interval_factor(self.kurtosis, confidence) * math.sqrt(max(self.variance, self.continuous))
            return wide + self.step / 2
        wrong = 1 - confidence
        if wrong >= _RAREST:
            return _exact(self.terms, confidence)
        # The tail of a log-concave distribution falls at least as fast as it did on average so far.
        widest = _exact(self.terms, 1 - _RAREST) + self.step
        return widest * math.log(max(wrong, 1e-300)) / math.log(_RAREST)


def is_wide(variance: float, kurtosis: float, step: float) -> bool:
    """Whether continuous noise of the same moments says enough about an error."""
    return step <= _SMALL_STEP * math.sqrt(variance) and kurtosis <= _FEW_TERMS


@dataclass(frozen=True, eq=False)
class TableErrors:
    """The errors of the numbers of a table: all variances, and as many laws as it takes."""

    variances: Floats
    laws: tuple[ErrorLaw, ...]  # one if all numbers are alike; else one per number, or those of some numbers
    alike: bool = False

    @classmethod
    def of(cls, variances: Floats, law_of: Callable[[int], ErrorLaw], *, alike: bool) -> TableErrors:
        """The errors of a table, given the law of each number."""
        if alike:
            return cls(variances, (law_of(0),), alike=True)
        if variances.size > _MOST_LAWS:
            chosen = tuple([law_of(number) for number in spread_out(variances)])
            if variances.size > _MOST_OWN_LAWS or all(law.terms is None for law in chosen):
                return cls(variances, chosen)
        return cls(variances, tuple([law_of(number) for number in range(variances.size)]))

    def half_widths(self, confidence: float) -> Floats:
        """The half-width of the interval of every number.

        Where only some laws are known, a number takes the wider, relative to its standard error, of those with the next
        smaller and the next larger variance. If noise is narrow, equal variances may hide different laws; then it is at
        least as wide as under continuous noise, plus half of the largest step.
        """
        errors = np.sqrt(self.variances)
        widths = np.array([law.half_width(confidence) for law in self.laws])
        spread = np.sqrt([law.variance for law in self.laws])
        if self.alike and np.allclose(errors, spread[0], rtol=1e-9, atol=0.0):
            return np.full(errors.shape, widths[0])
        if not self.alike and len(self.laws) == errors.size:
            return widths.reshape(errors.shape)
        factors = np.divide(widths, spread, out=np.zeros_like(widths), where=spread > 0)
        step = max([law.step for law in self.laws if law.terms is not None], default=0.0)
        if step:
            factors = np.maximum(factors, [interval_factor(law.kurtosis, confidence) for law in self.laws])
        order = np.argsort(spread)
        above = np.clip(np.searchsorted(spread[order], errors * (1 - 1e-9)), 0, len(order) - 1)
        below = np.maximum(above - 1, 0)
        return np.asarray(np.maximum(factors[order[above]], factors[order[below]]) * errors + step / 2)


def spread_out(variances: Floats) -> list[int]:
    """A few numbers of a table, given their variances: one of each variance, or of evenly spaced ones.

    >>> spread_out(np.array([4.0, 1.0, 4.0, 1.0])), len(spread_out(np.arange(1.0, 100.0)))
    ([1, 0], 9)
    """
    relative = variances.ravel() / max(float(variances.max(initial=0.0)), 1e-300)
    _, places = np.unique(np.round(relative, 9), return_index=True)
    chosen = np.unique(np.linspace(0, len(places) - 1, min(len(places), _MOST_LAWS)).round().astype(np.int64))
    return [int(place) for place in places[chosen]]


def known_confidence(confidence: float) -> float:
    """The confidence, if it is one."""
    if not 0 < confidence < 1:
        raise PlanError("confidence", expected="a number above 0 and below 1", given=confidence)
    return confidence


# Continuous noise


def interval_factor(kurtosis: float, confidence: float) -> float:
    """The half-width, in standard errors, of an interval at a given confidence for an error of at most this kurtosis.

    It is that of the exponential power distribution, which is exact for normal, Laplace and uniform noise. Above normal
    kurtosis (excess 0), a sum of Laplace variables may have more in its tails, so the wider of the two is taken. Where
    noise is bundled, the kurtosis is often a bound. More of it means wider intervals at 95 %, but narrower ones below
    about 90 %, so the interval is at least that of normal noise.

    >>> [round(interval_factor(kurtosis, 0.95), 3) for kurtosis in (0, 3)]  # normal, Laplace
    [1.96, 2.118]
    >>> [round(interval_factor(kurtosis, 0.5), 3) for kurtosis in (-1, 0, 3)]
    [0.823, 0.674, 0.674]
    """
    own = round(min(max(kurtosis, -1.19), 8.0), 2)
    return max(_factor(kind, known_confidence(confidence)) for kind in {own, min(own, 0.0)})


@lru_cache(maxsize=4096)
def _factor(kurtosis: float, confidence: float) -> float:
    """The wider quantile of the two distributions, scaled to variance 1."""
    low, high = 0.4, 200.0
    for _ in range(80):
        shape = math.sqrt(low * high)
        low, high = (shape, high) if _kurtosis_of(shape) > kurtosis else (low, shape)
    width = math.exp((math.lgamma(3 / shape) - math.lgamma(1 / shape)) / 2)  # the standard deviation
    x = np.linspace(0, max(40 ** (1 / shape), 1.2) * 1.5, _GRID)
    density = np.exp(-(x**shape))
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    own = float(np.interp(confidence, mass / mass[-1], x)) / width
    if not 0 < kurtosis < 3 or 1 - confidence < _RAREST:
        return own
    summed = Term(1.0, 3 / kurtosis, "smooth", kurtosis / 3)  # 3 / kurtosis equal Laplace variables, whole or not
    return max(own, _exact((summed,), confidence) / (1 + 2 * _SMOOTHING))


def _kurtosis_of(shape: float) -> float:
    return math.exp(math.lgamma(5 / shape) + math.lgamma(1 / shape) - 2 * math.lgamma(3 / shape)) - 3


# Whole-number noise


def _united(noise: DrawKind, weights: Floats, counts: Floats, parameters: Floats) -> list[Term]:
    """Equal draws together, to 12 digits, without those that hardly count."""
    kept = weights > _NOTHING * weights.max(initial=0.0)
    pairs = np.stack([weights[kept], parameters[kept]])
    digits = 10.0 ** (11 - np.floor(np.log10(pairs)))
    found, same = np.unique(np.round(pairs * digits) / digits, axis=1, return_inverse=True)
    together = np.bincount(same.ravel(), counts[kept], minlength=found.shape[1])
    columns = zip(found[0].tolist(), together.tolist(), found[1].tolist(), strict=True)
    return [Term(weight, draws, noise, parameter) for weight, draws, parameter in columns]


def _cumulants(terms: Sequence[Term]) -> tuple[float, float]:
    """Variance and fourth cumulant of a sum."""
    variance = math.fsum(t.draws * t.weight**2 * drawn_variance(t.noise, t.parameter) for t in terms)
    return variance, math.fsum(t.draws * t.weight**4 * fourth_cumulant(t.noise, t.parameter) for t in terms)


def _few(terms: Sequence[Term]) -> tuple[Term, ...]:
    """The terms with the largest draws, and one that has the moments of all others; 9 digits, as tables often agree."""
    ordered = sorted(terms, key=lambda t: (t.weight**2 * drawn_variance(t.noise, t.parameter), t), reverse=True)
    kept = [Term(_rounded(t.weight), t.draws, t.noise, _rounded(t.parameter)) for t in ordered[:_MOST_TERMS]]
    variance, fourth = _cumulants(ordered[_MOST_TERMS:])
    if variance**2 > 0:
        kurtosis = max(fourth / variance**2, 1e-6)
        kept.append(Term(1.0, _rounded(3 / kurtosis), "smooth", _rounded(variance * kurtosis / 3)))
    return tuple(kept)


def _rounded(number: float) -> float:
    return float(f"{number:.9g}")


@lru_cache(maxsize=65_536)
def _exact(terms: tuple[Term, ...], confidence: float) -> float:
    """The half-width at a confidence, too wide by at most 2 d."""
    width = _smoothed_quantile(terms, confidence)
    unit = _common_unit(terms)
    return width if unit is None else math.floor(width / unit + _MULTIPLE) * unit


def _smoothed_quantile(terms: tuple[Term, ...], confidence: float) -> float:
    """d plus the least x on a fine grid with P(|E + U| <= x) >= confidence.

    On a circle of length P the distribution of E + U is P(|E + U| <= x) = 2 x / P + sum over m of
    4 sin(t x) f(t) / (P t) with t = 2 pi m / P, where f is the characteristic function of E + U. It is too large by at
    most P(|E| > P - x - d), which Chernoff's bound keeps below `_LEFT_OUT` of 1 - confidence. f is at most
    (8 / (d t))^8, so what is left out of the series beyond t = T is at most (2 / pi) 8^7 / (d T)^8.
    """
    wrong = 1 - confidence
    spared = wrong * _LEFT_OUT
    variance, _ = _cumulants(terms)
    step = max((t.weight for t in terms if t.noise != "smooth"), default=0.0)
    smoothing = max(_SMOOTHING * math.sqrt(2 * variance * math.log(2 / wrong)), _LEAST_SMOOTHING * step)
    if smoothing <= 0:
        return 0.0
    reach = _chernoff(terms, spared)
    reached = math.pow(2 / math.pi * math.pow(_UNIFORMS, _UNIFORMS - 1) / spared, 1 / _UNIFORMS)  # d T
    period = 2 * (reach + 2 * smoothing)
    points = min(math.ceil(reached / smoothing * period / (2 * math.pi)), _MOST_POINTS)
    points = 1 << math.ceil(math.log2(max(points, 64)))
    smoothing = max(smoothing, reached * period / (2 * math.pi * points))
    t = np.asarray(2 * np.pi / period * np.arange(1, points + 1), dtype=np.float64)
    own = np.sinc(t * smoothing / (_UNIFORMS * np.pi)) ** _UNIFORMS
    for term in terms:
        own *= characteristic(term.noise, term.parameter, term.weight * t) ** term.draws
    series = np.concatenate([[0.0], -1j * points * 4 / (period * t) * own])
    series[-1] = 0.0  # its sine is 0 on the grid
    x = period / (2 * points) * np.arange(points + 1)
    inside = 2 * x / period + np.fft.irfft(series, 2 * points)[: points + 1]
    enough = np.flatnonzero(inside >= 1 - wrong * (1 - 2 * _LEFT_OUT))
    return float(x[enough[0]] if len(enough) else period / 2) + smoothing


def _chernoff(terms: Sequence[Term], wrong: float) -> float:
    """A bound that the error exceeds with at most this probability: the least of (log E exp(t E) + log(2/p)) / t."""
    rates = [math.sqrt(2 / term.parameter) / term.weight for term in terms if term.noise in ("laplace", "smooth")]
    if rates:  # the moments of a Laplace term are finite up to the rate at which its tail falls
        t = min(rates) * np.concatenate([np.geomspace(1e-4, 0.5, 100), 1 - np.geomspace(0.5, 1e-4, 100)])
    else:
        t = np.geomspace(0.1, 1e3, 200) / math.sqrt(math.fsum(t.draws * t.weight**2 * t.parameter for t in terms))
    total = np.zeros_like(t)
    for term in terms:
        total += term.draws * log_moments(term.noise, term.parameter, term.weight * t)
    return float(np.min((total + math.log(2 / wrong)) / t))


def _common_unit(terms: Sequence[Term]) -> float | None:
    """The number that all weights are multiples of, if the smallest weight is one."""
    if any(term.noise == "smooth" for term in terms):
        return None
    unit = min(term.weight for term in terms)
    ratios = np.array([term.weight for term in terms]) / unit
    return unit if np.all(np.abs(ratios - np.round(ratios)) <= _MULTIPLE * ratios) else None
