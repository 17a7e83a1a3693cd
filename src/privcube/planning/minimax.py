"""Gaussian budgets that minimize the largest ratio of variance to wanted variance. Zone: PUBLIC.

If every residual b is measured once (strategy "residual") with share s_b of the budget, its variance is
u_b = moved_b / (f_b s_b) (times a constant of the guarantee), and a cell of table t has variance sum_b |Pi_b q|^2 u_b
(THEORY sections 2 and 4). With A_tb = |Pi_b q|^2 moved_b / (f_b wanted_t) the task is
  minimize max_t sum_b A_tb / s_b subject to sum_b s_b = 1, s > 0.
Table weights l_t >= 0 that sum to 1 give a lower bound: the maximum is at least the weighted mean, and the least
weighted mean is, by Cauchy's inequality, (sum_b sqrt((A' l)_b))^2. At the optimum the two meet, and s_b is proportional
to sqrt((A' l)_b), so (A' l)_b > 0 for every residual, even if many tables have weight 0. Shares and weights are
therefore their own certificate. It is computed for all original tables, after these steps:
1. `_merged` merges proportional columns. If A_c = k A_b, then s_c = sqrt(k) s_b is best: A_b / s_b + A_c / s_c is then
   A_b (1 + sqrt k)^2 / (s_b + s_c), its least value for a given s_b + s_c.
2. `_quotient` merges equivalent tables and equivalent columns, found by color refinement.
3. `_solved` applies a primal-dual interior-point method to the rest.

See THEORY section 4.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privcube.accuracy.structure import Structure
from privcube.algebra.hashing import GOLDEN, scrambled
from privcube.algebra.lattice import Floats, Incidence, Integers
from privcube.errors import PlanError

_ALIKE: Final = 1e-11  # relative; factors closer than this differ by rounding only
_SMALL_GAP: Final = 1e-10  # relative; close to what rounding allows, and far below any effect on accuracy
_MOST_STEPS: Final = 100  # of the interior-point method: a safeguard
_MOST_WITHOUT_GAIN: Final = 10  # steps in a row, after which rounding is assumed to prevent progress
_OF_THE_WAY: Final = 0.99  # fraction of a step to the boundary that is taken, as usual for interior-point methods
_MOST_CONJUGATE_STEPS: Final = 200  # per linear solve; an inexact solution costs only another step

_Words = NDArray[np.uint64]


def largest_ratio_shares(structure: Structure, moved: Floats, wanted: Floats) -> tuple[Floats, float]:
    """The shares of the groups, summing to 1, that minimize max_t (cell variance of t) / wanted_t, and the gap.

    `moved` are the squared L2 sensitivities of the groups. The variance of a table of ranges is the mean over its
    queries; all cells of a table of cells have the same. The gap, usually below 1e-10, is a proof: dividing the largest
    ratio of these shares by 1 + gap gives a lower bound for all shares.

    >>> from privcube import Schema, Workload, ZCDP
    >>> from privcube.model.sensitivity import squared_l2
    >>> from privcube.strategies import STRATEGIES
    >>> workload = Workload.all_kway(Schema.from_sizes({"A": 2, "B": 2}), 1)
    >>> proposal = STRATEGIES["residual"].propose(workload, ZCDP(1))
    >>> structure = Structure.of(workload, proposal.frame, proposal.groups)
    >>> moved = np.array([float(squared_l2(ZCDP(1), proposal.frame, group)) for group in structure.groups])
    >>> shares, gap = largest_ratio_shares(structure, moved, np.ones(2))
    >>> shares.round(4).tolist(), gap < 1e-9
    ([0.4142, 0.2929, 0.2929], True)
    """
    ratios = _ratios(structure, moved, wanted)
    merged, column_class, column_part = _merged(ratios)
    tables, columns = _alike(merged)
    shares, weights = _solved(_quotient(merged, tables, columns))
    shares = (shares / np.bincount(columns))[columns][column_class] * column_part
    weights = (weights / np.bincount(tables))[tables]
    shares /= shares.sum()
    return shares, max(0.0, _upper(ratios, shares) / _lower(ratios, weights) - 1)


def _ratios(structure: Structure, moved: Floats, wanted: Floats) -> Incidence:
    """A: table x group, where a share s_g of the budget adds A_tg / s_g to the ratio of table t."""
    says, asks = structure.says, structure.asks
    groups, residuals = says.shape
    once = np.bincount(says.row, minlength=groups), np.bincount(says.column, minlength=residuals)
    if not all((count == 1).all() for count in once):
        raise PlanError("groups", expected="one for every residual, as in strategy 'residual'")
    for name, given, count in (("moved", moved, groups), ("wanted", wanted, asks.shape[0])):
        if given.shape != (count,) or not (np.isfinite(given) & (given > 0)).all():
            raise PlanError(name, expected=f"{count} finite numbers above 0", given=given.tolist()[:4])
    group_of, scale = np.zeros(residuals, dtype=np.int64), np.zeros(residuals)
    group_of[says.column] = says.row
    scale[says.column] = moved[says.row] / says.factor
    factor = asks.factor * scale[asks.column] / wanted[asks.row]
    return Incidence(asks.row, group_of[asks.column], factor, (asks.shape[0], groups))


def _upper(ratios: Incidence, shares: Floats) -> float:
    """The largest ratio with these shares, which may have any sum, scaled to a budget of 1."""
    return float(ratios.times(1 / shares).max() * shares.sum())


def _lower(ratios: Incidence, weights: Floats) -> float:
    """The lower bound on the largest ratio from these weights of the tables, which may have any sum."""
    return float(np.sqrt(ratios.transposed_times(weights)).sum() ** 2 / weights.sum())


# Merging


def _merged(ratios: Incidence) -> tuple[Incidence, Integers, Floats]:
    """Merge proportional columns; also returns each column's class and its part of the class's share."""
    largest = np.zeros(ratios.shape[1])
    np.maximum.at(largest, ratios.column, ratios.factor)
    pattern = ratios.factor / largest[ratios.column]
    words = _mixed(_value_classes(pattern), ratios.row)
    first, column_class = _numbered(_sums(words, ratios.column, ratios.shape[1]))
    root = np.sqrt(largest)
    total = np.bincount(column_class, root)
    kept = np.isin(ratios.column, first)
    column = column_class[ratios.column[kept]]
    shape = (ratios.shape[0], len(first))
    merged = Incidence(ratios.row[kept], column, pattern[kept] * total[column] ** 2, shape)
    return merged, column_class, root / total[column_class]


def _alike(ratios: Incidence) -> tuple[Integers, Integers]:
    """The coarsest classes of tables and of columns that the values of A cannot distinguish, by color refinement.

    Tables of one class have the same values equally often in every class of columns, and vice versa. So the partition
    is equitable: for a class C of tables and a class D of columns, sum_(b in D) A_tb is the same number x for all t in
    C, and sum_(t in C) A_tb is the same y for all b in D; |C| x = |D| y.

    The optimum may be taken constant on the classes. Let s be any shares, and m_D their mean over D, which keeps their
    sum. The mean over t in C of sum_b A_tb / s_b is the sum over D of (y / |C|) sum_(b in D) 1 / s_b. By the inequality
    of the harmonic and arithmetic mean it is at least the sum of (y / |C|) |D| / m_D = x / m_D, which is the ratio of
    every table of C at m. So the largest ratio at m is at most the largest class mean at s, hence at most the largest
    ratio at s.

    Words are hashed; if two classes ever collided, the gap would reveal it.
    """
    values = _value_classes(ratios.factor)
    tables, columns = (np.zeros(count, dtype=np.int64) for count in ratios.shape)
    found = (1, 1)
    while True:
        words = _sums(_mixed(values, columns[ratios.column]), ratios.row, ratios.shape[0])
        tables = _numbered(_mixed(words, tables))[1]
        words = _sums(_mixed(values, tables[ratios.row]), ratios.column, ratios.shape[1])
        columns = _numbered(_mixed(words, columns))[1]
        before, found = found, (int(tables.max()) + 1, int(columns.max()) + 1)
        if found == before:
            return tables, columns


def _quotient(ratios: Incidence, tables: Integers, columns: Integers) -> Incidence:
    """The task for classes: a class's share is the sum over its columns, its weight the sum over its tables."""
    shape = (int(tables.max()) + 1, int(columns.max()) + 1)
    keys, entry = np.unique(tables[ratios.row] * shape[1] + columns[ratios.column], return_inverse=True)
    row, column = np.divmod(keys, shape[1])
    scale = np.bincount(columns)[column] / np.bincount(tables)[row]
    return Incidence(row, column, np.bincount(entry, ratios.factor) * scale, shape)


def _value_classes(values: Floats) -> Integers:
    """Class numbers that are equal for values that are equal up to rounding."""
    order = np.argsort(values)
    ordered = values[order]
    classes = np.zeros(len(values), dtype=np.int64)
    classes[order[1:]] = np.cumsum(np.diff(ordered) > _ALIKE * ordered[1:])
    return classes


def _numbered(words: _Words) -> tuple[Integers, Integers]:
    """The first position of each distinct word, and the number of every word among the distinct ones."""
    _, first, number = np.unique(words, return_index=True, return_inverse=True)
    return first, number


def _sums(words: _Words, place: Integers, count: int) -> _Words:
    """The sums, modulo 2^64, of the words at every place, which do not depend on their order."""
    sums = np.zeros(count, dtype=np.uint64)
    np.add.at(sums, place, words)
    return sums


def _mixed(left: _Words | Integers, right: Integers) -> _Words:
    """A word for a pair of numbers."""
    return scrambled(scrambled(left.astype(np.uint64) + GOLDEN) + right.astype(np.uint64) + GOLDEN)


# Solving


@dataclass
class _Best:
    """The best shares and the best weights so far, tracked independently."""

    ratios: Incidence
    shares: Floats
    weights: Floats
    upper: float = np.inf
    lower: float = 0.0

    def saw(self, shares: Floats, weights: Floats) -> bool:
        """Keep shares and weights that improve their bound; whether either did."""
        upper, lower = _upper(self.ratios, shares), _lower(self.ratios, weights)
        gained = upper < self.upper or lower > self.lower
        if upper < self.upper:
            self.upper, self.shares = upper, shares
        if lower > self.lower:
            self.lower, self.weights = lower, weights
        return gained

    @property
    def gap(self) -> float:
        return self.upper / self.lower - 1


def _solved(ratios: Incidence) -> tuple[Floats, Floats]:
    """Shares and weights with a small gap: the best among all points visited."""
    now = _start(ratios)
    best = _Best(ratios, 1 / now.variances, now.weights)
    idle = 0
    for _ in range(_MOST_STEPS):
        gained = best.saw(1 / now.variances, now.weights)
        gained |= best.saw(np.sqrt(ratios.transposed_times(now.weights)), now.weights)
        idle = 0 if gained else idle + 1
        if best.gap < _SMALL_GAP or idle == _MOST_WITHOUT_GAIN:
            break
        now = _next(ratios, now)
    return best.shares, best.weights


class _Point(NamedTuple):
    """A point or a direction of the method: u, w and l, all above 0 for a point."""

    variances: Floats
    slack: Floats
    weights: Floats

    def plus(self, reach: float, to: _Point) -> _Point:
        return _Point(*(here + reach * there for here, there in zip(self, to, strict=True)))

    def reach(self, to: _Point) -> float:
        """The step length at which the first entry reaches 0."""
        falls = [-there / here for here, there in zip(self, to, strict=True)]
        return 1 / max(1e-9, *(float(fall.max()) for fall in falls))

    @property
    def mean_product(self) -> float:
        return float(self.slack @ self.weights) / len(self.weights)


def _start(ratios: Incidence) -> _Point:
    """A starting point from a few rounds of raising the weights of tables with large ratios."""
    weights = np.bincount(ratios.row, ratios.factor).astype(np.float64)
    for _ in range(20):
        reached = ratios.times(1 / np.sqrt(ratios.transposed_times(weights)))
        weights = weights * np.maximum(reached, 0.3)
    variances = 1 / np.sqrt(ratios.transposed_times(weights))
    return _Point(variances, np.maximum(1 - ratios.times(variances), 0.1), weights)


def _next(ratios: Incidence, now: _Point) -> _Point:
    """A predictor-corrector step (Mehrotra 1992) toward the optimum.

    In u = 1/s the task is: minimize sum_b 1/u_b subject to A u + w = 1, w >= 0. The optimality conditions are
    1/u^2 = A' l and l w = 0. Newton's method for them, with l w = m for an m that goes to 0, reduces to
    (A diag(u^3 / 2) A' + diag(w / l)) dl = given.
    """
    curved = now.variances**3 / 2
    stationary = ratios.transposed_times(now.weights) - now.variances**-2
    feasible = 1 - ratios.times(now.variances) - now.slack
    fixed = now.slack + feasible + ratios.times(curved * stationary)
    solve = _solver(ratios, curved, now.slack / now.weights)

    def toward(products: Floats) -> _Point:
        weights = solve(products / now.weights - fixed)
        variances = -curved * (stationary + ratios.transposed_times(weights))
        return _Point(variances, feasible - ratios.times(variances), weights)

    tried = toward(np.zeros(len(now.weights)))
    reach = min(1.0, now.reach(tried))
    mean = now.mean_product
    center = mean * (now.plus(reach, tried).mean_product / mean) ** 3
    to = toward(center - reach**2 * tried.slack * tried.weights)
    return now.plus(min(1.0, _OF_THE_WAY * now.reach(to)), to)


def _solver(ratios: Incidence, curved: Floats, diagonal: Floats) -> Callable[[Floats], Floats]:
    """A solver of (A diag(curved) A' + diag(diagonal)) x = given, by diagonally preconditioned conjugate gradients.

    No tables x tables matrix is formed. An inexact solution costs another step, not the certificate.
    """
    scale = 1 / (np.bincount(ratios.row, ratios.factor**2 * curved[ratios.column]) + diagonal)

    def solve(given: Floats) -> Floats:
        found, rest = np.zeros(len(given)), given
        better = scale * rest
        along, size = better, float(rest @ better)
        enough = 1e-20 * size
        for _ in range(_MOST_CONJUGATE_STEPS):
            if size <= enough:
                break
            image = ratios.times(curved * ratios.transposed_times(along)) + diagonal * along
            length = size / float(along @ image)
            found, rest = found + length * along, rest - length * image
            better = scale * rest
            size, before = float(rest @ better), size
            along = better + (size / before) * along
        return found

    return solve
