"""Ratios of published numbers with intervals: shares of a sum, of which means are a case. Zone: RELEASED.

The ratio r of two true numbers is estimated by n / d. The error of n - r d is a linear combination of the noise, so
its law is known for every r (`privcube.accuracy.intervals`), and |n - r d| <= h(r) with at least the stated confidence,
where h is the half-width of an interval for that error. The set of all r for which this holds contains the true ratio
just as often, however small the denominator (Fieller 1954). With h(r) = k s(r), s^2(r) = V_n - 2 r C + r^2 V_d and
r = n / d + x it is the set of x with
  (d^2 - k^2 V_d) x^2 - 2 k^2 B x - k^2 S <= 0,   B = (n / d) V_d - C,   S = s^2(n / d),
an interval if |d| > k sqrt(V_d). Else the set is unbounded, for the interval of the denominator contains 0: the ratio
is not determined, and NaN is published. As shares lie between 0 and 1 and denominators are counts, intervals are
clipped, and a ratio is not determined either if its denominator seems to be negative.

k depends on r: the few terms of a single cell make an error of another shape than the many of a sum. It is worked out
on a grid of r for some cells of a table; every end takes the largest k near it.

See THEORY section 11.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from privcube.accuracy.intervals import ErrorLaw, Term, interval_factor, known_confidence
from privcube.accuracy.moments import drawn_variance
from privcube.accuracy.predictor import Predictor
from privcube.algebra.lattice import Floats, Integers
from privcube.errors import QueryError
from privcube.model.workload import Axis, Table, table_name
from privcube.released.presentation.numbers import confidence_text, end_of, in_digits

_DIGITS: Final = 6  # in which ratios are shown
_WORDS: Final = ("total", "row", "column")
_GRID: Final = 5  # ratios for which k is worked out, from 0 to 1
_MOST_KINDS: Final = 5  # of cells for which k is worked out
_ROUNDS: Final = 4  # in which an end and its k settle; k changes slowly
_STEPS: Final = 4  # in a standard error, at least, for noise to fill what lies between coarser steps
_ROUNDING: Final = 1e-6  # added to half-widths, as to those of counts


@dataclass(frozen=True, eq=False)
class Ratios:
    """Ratios with intervals, each by itself and, in the fields that end in `_all`, all at once; NaN: not determined."""

    estimate: Floats
    low: Floats
    high: Floats
    low_all: Floats
    high_all: Floats


@dataclass(frozen=True)
class Ratio:
    """A ratio with an interval; NaN if the records are too few to determine it."""

    estimate: float
    low: float
    high: float
    confidence: float

    @property
    def determined(self) -> bool:
        """Whether it is known at all: whether the interval of the number of records is above 0."""
        return math.isfinite(self.low)

    def __str__(self) -> str:
        if not self.determined:
            return f"not determined ({confidence_text(self.confidence)})"
        parts = (("estimate", self.estimate), ("low", self.low), ("high", self.high))
        estimate, low, high = (self.text_of(name, number) for name, number in parts)
        return f"{estimate}, from {low} to {high} ({confidence_text(self.confidence)})"

    def text_of(self, name: str, number: float) -> str:
        """The estimate or an end of the interval as text; ends are rounded outward."""
        return in_digits(name, number, _DIGITS)


class Share(Ratio):
    """A part of some records, from 0 to 1, with an interval; NaN if the records are too few to determine it."""

    def text_of(self, name: str, number: float) -> str:
        """The estimate or an end of the interval as a percentage."""
        return f"{end_of(name, number, 3):.1%}"


@dataclass(frozen=True, eq=False)
class Variances:
    """The variances of numerators and denominators, and their covariances."""

    numerator: Floats
    covariance: Floats
    denominator: Floats

    def at(self, ratio: Floats) -> Floats:
        """The variance of n - r d."""
        return np.maximum(self.numerator - 2 * ratio * self.covariance + ratio**2 * self.denominator, 0.0)


def fieller(ratio: Floats, denominator: Floats, variances: Variances, factor: Floats, sign: int) -> Floats:
    """The lower (sign -1) or upper end of {r : |n - r d| <= k s(r)}, given n / d, d and k; NaN if it is unbounded.

    >>> one = np.ones(1)
    >>> [fieller(one / 2, 100 * one, Variances(one, 0 * one, one), 1.96 * one, sign).round(4) for sign in (-1, 1)]
    [array([0.4783]), array([0.5221])]
    """
    lean = ratio * variances.denominator - variances.covariance
    curved = denominator**2 - factor**2 * variances.denominator
    curved = np.where(curved > 0, curved, np.nan)
    root = np.sqrt(factor**2 * lean**2 + curved * variances.at(ratio))
    return np.asarray(ratio + factor * (factor * lean + sign * root) / curved)


def places_over(table: Table, shares: Sequence[str] | str) -> tuple[int, ...]:
    """The places of the attributes that shares add up to 1 over.

    "total" is all of them, "row" the last one, "column" all but the last one, any other text the name of one.

    >>> [places_over(("sex", "age"), shares) for shares in ("total", "row", "column", "age", ["sex", "age"])]
    [(0, 1), (1,), (0,), (1,), (0, 1)]
    """
    names = [Axis.of(entry).attribute for entry in table]
    if isinstance(shares, str) and shares in _WORDS:
        if len(table) < 2 and shares != "total":
            raise QueryError("shares", expected="total: the table has no rows and columns", given=shares)
        return {"total": tuple(range(len(names))), "row": (len(names) - 1,), "column": tuple(range(len(names) - 1))}[
            shares
        ]
    asked = [shares] if isinstance(shares, str) else shares
    if not isinstance(asked, Sequence) or not asked or any(name not in names for name in asked):
        expected = "total, row, column, or attributes of the table"
        raise QueryError("shares", expected=expected, given=shares, available=(*_WORDS, *names))
    return tuple(at for at, name in enumerate(names) if name in asked)


@dataclass(frozen=True, eq=False)
class ShareErrors:
    """What the intervals of the shares of a table follow from: shares in the sum over some of its entries."""

    over: tuple[int, ...]  # the places of these entries
    variances: Variances
    factors: _Factors

    @classmethod
    def of(cls, predictor: Predictor, table: Table, over: tuple[int, ...]) -> ShareErrors:
        """The errors of a table that the measurements determine."""
        for at in over:
            if Axis.of(table[at]).queries != "cells":
                expected = "attributes whose numbers add up; ranges and prefixes overlap"
                raise QueryError("shares", expected=expected, given=table_name((table[at],)))
        margin = tuple([entry for at, entry in enumerate(table) if at not in over])
        own, (sums, between) = predictor.variances(table), predictor.margin_errors(table, margin)
        kept = [1 if at in over else size for at, size in enumerate(own.shape)]
        whole = np.broadcast_to(sums.reshape(kept), own.shape)
        variances = Variances(own, between, whole)

        def law_of(cell: int, of_number: float, of_sum: float) -> ErrorLaw:
            place = np.unravel_index(cell, own.shape)
            weights = np.zeros(own.shape)
            weights[tuple(slice(None) if at in over else each for at, each in enumerate(place))] = of_sum
            weights[place] += of_number
            return predictor.query_law(table, weights)

        return cls(over, variances, _Factors.of(variances, law_of))

    def sums(self, estimate: Floats) -> Floats:
        """The denominators; an estimate may have axes before those of the table, for several releases."""
        lead = estimate.ndim - self.variances.numerator.ndim
        summed = estimate.sum(axis=tuple(lead + at for at in self.over), keepdims=True)
        return np.broadcast_to(summed, estimate.shape)

    def intervals(self, estimate: Floats, confidence: float) -> tuple[Floats, Floats]:
        """Both ends of the interval of every share, NaN where it is not determined."""
        factor = self.factors.near(self.variances, known_confidence(confidence))
        return _intervals(estimate, self.sums(estimate), self.variances, factor)


def shares_of(predictor: Predictor, table: Table, estimate: Floats, over: tuple[int, ...], confidence: float) -> Ratios:
    """The share of every number of a table in the sum over some of its entries, given by their places."""
    errors = ShareErrors.of(predictor, table, over)
    return _ratios(estimate, errors.sums(estimate), partial(errors.intervals, estimate), confidence)


def ratios_of(numerator: Floats, denominator: Floats, variances: Variances, law_of: LawOf, confidence: float) -> Ratios:
    """Ratios of arrays of numbers, from 0 to 1; the law of a numerator and its denominator with weights is `law_of`."""
    factors = _Factors.of(variances, law_of)

    def intervals(sure: float) -> tuple[Floats, Floats]:
        return _intervals(numerator, denominator, variances, factors.near(variances, known_confidence(sure)))

    return _ratios(numerator, denominator, intervals, confidence)


def _ratios(
    numerator: Floats, denominator: Floats, intervals: Callable[[float], tuple[Floats, Floats]], confidence: float
) -> Ratios:
    """Ratios with intervals for each and, surer ones, for all at once; NaN where they are not determined."""
    alone, together = map(intervals, (confidence, 1 - (1 - confidence) / max(numerator.size, 1)))
    unknown = np.full(numerator.shape, np.nan)
    ratio = np.divide(numerator, denominator, out=unknown, where=np.isfinite(alone[0]))
    return Ratios(np.clip(ratio, 0, 1), *alone, *together)


def share_of(
    predictor: Predictor, table: Table, estimate: Floats, part: Floats, whole: Floats, confidence: float
) -> Share:
    """The share of a part of the cells of a table in a whole that contains it; both are weights on the cells."""
    n, d = (np.asarray(np.sum(weights * estimate)) for weights in (part, whole))
    laws = [predictor.query_law(table, weights) for weights in (part, whole)]
    between = predictor.query_law(table, part + whole).variance - laws[0].variance - laws[1].variance
    variances = Variances(*np.array([laws[0].variance, between / 2, laws[1].variance]))

    def factor(ratio: Floats | None) -> Floats:
        return _factor(laws[1] if ratio is None else predictor.query_law(table, part - ratio * whole), confidence)

    low, high = _intervals(n, d, variances, factor)
    ratio = float(np.clip(n / d, 0, 1)) if np.isfinite(low) else math.nan
    return Share(ratio, float(low), float(high), known_confidence(confidence))


LawOf = Callable[[int, float, float], ErrorLaw]  # of cell, times a number, plus its whole times another
Factor = Callable[[Floats | None], Floats]  # k for every ratio, or, for None, that of the denominator alone


def _intervals(numerator: Floats, denominator: Floats, variances: Variances, factor: Factor) -> tuple[Floats, Floats]:
    """Both ends, within 0 and 1; NaN where the interval of the denominator is not above 0."""
    determined = denominator > factor(None) * np.sqrt(variances.denominator) + _ROUNDING
    safe = np.where(determined, denominator, 1.0)
    ratio, rounding = numerator / safe, _ROUNDING / safe
    ends = []
    for sign, most in ((-1, 0.0), (1, 1.0)):
        own = factor(np.clip(ratio, 0, 1))
        for _ in range(_ROUNDS):
            end = fieller(ratio, safe, variances, own, sign) + sign * rounding
            end = np.clip(np.where(np.isnan(end), most, end), 0, 1)
            before, own = own, factor(end)
        end = fieller(ratio, safe, variances, np.maximum(own, before), sign) + sign * rounding
        end = np.clip(np.where(np.isnan(end), most, end), 0, 1)
        ends.append(np.where(determined, end, np.nan))
    return ends[0], ends[1]


@dataclass(frozen=True, eq=False)
class _Factors:
    """The laws that k follows from, for some kinds of cells on a grid of ratios r.

    The grid is even in u: with t = r sqrt(V_d) / (sqrt(V_n) + r sqrt(V_d)) the part that r d has in the errors of both,
    u is t over its value at r = 1, and r = u sqrt(V_n) / (sqrt(V_n) + (1 - u) sqrt(V_d)).
    """

    laws: Sequence[Sequence[ErrorLaw]]  # per kind, per point of the grid
    sums: Sequence[ErrorLaw]  # per kind, of the denominator
    kind_of: Integers | None  # per cell; None if there are too many kinds, so that each cell takes the largest k

    @classmethod
    def of(cls, variances: Variances, law_of: LawOf) -> _Factors:
        """Laws for cells with different variances, given that of a number and its sum with these weights."""
        triples = np.stack([variances.numerator, variances.covariance, variances.denominator]).reshape(3, -1)
        scaled = np.round(triples / np.maximum(np.abs(triples).max(axis=1, keepdims=True), 1e-300), 9)
        _, first, kind_of = np.unique(scaled, axis=1, return_index=True, return_inverse=True)
        chosen = np.unique(np.linspace(0, len(first) - 1, min(len(first), _MOST_KINDS)).round().astype(np.int64))
        laws, sums = [], []
        for cell in first[chosen].tolist():
            own, whole = (math.sqrt(max(each, 0.0)) for each in triples[[0, 2], cell].tolist())
            ratios = [part * own / ((own + (1 - part) * whole) or 1.0) for part in np.linspace(0, 1, _GRID).tolist()]
            laws.append([law_of(cell, 1.0, -ratio) for ratio in ratios])
            sums.append(law_of(cell, 0.0, 1.0))
        few = len(first) <= _MOST_KINDS
        return cls(laws, sums, kind_of.reshape(variances.numerator.shape) if few else None)

    def near(self, variances: Variances, confidence: float) -> Factor:
        """The largest k on the grid next to a ratio."""
        found = np.array([[_factor_near(law, confidence) for law in own] for own in self.laws])
        of_sums = np.array([_factor(law, confidence) for law in self.sums])
        of_number, of_sum = np.sqrt(variances.numerator), np.sqrt(variances.denominator)
        if self.kind_of is None:
            found, of_sums = found.max(axis=0, keepdims=True), of_sums.max(axis=0, keepdims=True)
        kind = np.zeros(of_number.shape, dtype=np.int64) if self.kind_of is None else self.kind_of
        largest = np.maximum(found[:, 1:], found[:, :-1])

        def factor(ratio: Floats | None) -> Floats:
            if ratio is None:
                return np.asarray(of_sums[kind])
            along = ratio * (of_number + of_sum) / np.maximum(of_number + ratio * of_sum, 1e-300)
            return np.asarray(largest[kind, np.clip((along * (_GRID - 1)).astype(np.int64), 0, _GRID - 2)])

        return factor


def _factor(law: ErrorLaw, confidence: float) -> Floats:
    """The half-width in standard errors; 0 if there is no noise."""
    error = math.sqrt(law.variance)
    return np.asarray(law.half_width(confidence) / error if error > 0 else 0.0)


def _factor_near(law: ErrorLaw, confidence: float) -> Floats:
    """The half-width in standard errors for ratios beside the one that a law is for.

    If noise is narrow, the possible errors change places from one ratio to the next. Then it is at least as wide as
    under continuous noise, plus half of the largest step, as for numbers of a table whose own laws are not worked out.
    If most of it has finer steps, these fill what lies between, and half of such a step is enough.
    """
    error = math.sqrt(law.variance)
    if law.terms is None or error == 0:
        return _factor(law, confidence)
    if (fine := _fine_step(law.terms, law.variance)) < law.step:
        return np.asarray((law.half_width(confidence) + fine / 2) / error)
    wide = max(law.half_width(confidence) / error, interval_factor(law.kurtosis, confidence))
    return np.asarray(wide + law.step / 2 / error)


def _fine_step(terms: Sequence[Term], variance: float) -> float:
    """The largest step of draws that together have half of a variance and a small step beside it; else infinite."""
    step = found = 0.0
    for term in sorted(terms, key=lambda own: own.weight if own.noise != "smooth" else 0.0):
        step = term.weight if term.noise != "smooth" else step
        found += term.draws * term.weight**2 * drawn_variance(term.noise, term.parameter)
        if 2 * found >= variance:
            return step if _STEPS * step <= math.sqrt(found) else math.inf
    return math.inf
