"""The best budgets if a record is replaced: the dearest pair of records counts, not each group's own. Zone: PUBLIC.

With share x_g of the budget, group g adds a_g / x_g^p to the error (p = 1 under Gaussian noise, 2 under a pure
guarantee), and a pair of records of case s costs sum_g r_g(s) x_g (`privcube.model.noise.pairs`). The task is
  minimize sum_g a_g / x_g^p subject to sum_g r_g(s) x_g <= 1 for every case s.
Bundles in the same term share a table of ratios and the largest part among them, so the parts are those of terms.

Most cases never matter. So the task is solved for some of them by Newton steps with a logarithmic barrier, in time
linear in the number of terms, as its Hessian is a diagonal plus the product of the few cases that are in play; then the
dearest of all cases are added, until none costs much more than those in play. Dividing the parts by what the dearest
case costs makes them keep every constraint. For any weights m of the cases that sum to 1, the mean ratio r_g(m) gives a
single constraint, which is weaker, and by Hoelder's inequality a lower bound on the error,
  (sum_g (a_g r_g(m)^p)^(1/(p+1)))^(p+1).
The barrier's own weights make it a certificate. Where very many cases are alike and matter, all of them are weighted.

Other tasks, such as the least largest error, are solved for a single constraint again and again (`Replaced.solved`).
The slope of their bound in the weight of a case is what that case costs, so weights are multiplied by powers of costs.

See THEORY section 10.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

import numpy as np

from privcube.algebra.grids import differenced
from privcube.algebra.lattice import Floats, Integers
from privcube.model.frame import Frame
from privcube.model.groups import Group, is_structured, product_groups
from privcube.model.noise.pairs import Bundles, Pairs, Term, alike, every_case
from privcube.model.privacy.guarantee import Guarantee, PureDP

_CLOSE: Final = 3e-4  # error over the lower bound, minus 1: far below any effect on a choice between plans
_ADDED: Final = 24  # cases put in play at a time
_MOST_IN_PLAY: Final = 100  # cases; beyond that, weighting all of them is quicker
_ROUNDS_OF_ALL: Final = 100  # of that
_MOST_OF_ROUNDS: Final = 2**17  # cases that it is done for: a second
_TIMES: Final = 60  # that cases are put in play: a safeguard
_SHARPER: Final = 8.0  # factor by which the barrier becomes steeper
_BARRIERS: Final = 30  # times that it does: a safeguard
_NEWTON: Final = 40  # steps for one barrier: a safeguard
_MOVED: Final = 0.01  # squared length of a Newton step that ends them
_RIDGE: Final = 1e-13  # keeps systems of cases that cost nearly the same solvable
_IN_PLAY: Final = 1e-6  # of all weights; cases with less leave again
_MOST_ROUNDS: Final = 400  # of adapting the weights of the cases: a safeguard
_FIRST_POWER: Final = 4.0  # of the costs; halved whenever the lower bound falls, which it never does at 1
_EQUAL: Final = 1e-9  # relative; needs closer than this differ by rounding only
_MOST_OF_ALL: Final = 2.0**10  # of the budget, for what hardly any pair of records moves
_NO_MEAN: Final = 1e-12  # stands for a mean of 0: nothing moves the total
_MANY: Final = 2**20  # shares of every bundle, to see whether one pair of records costs all of them
_SLACK: Final = 2.0**-36  # of the budget that is left, so that rounded costs stay within it

# From the mean ratios of all bundles to the best parts for that one constraint, and a lower bound on their error.
Relaxed = Callable[[Floats], tuple[Floats, float]]


@dataclass(frozen=True, eq=False)
class Replaced:
    """How much pairs of records leave to gain over the sum of each group's own worst pair, and the shares for it."""

    guarantee: Guarantee
    frame: Frame
    groups: tuple[Group, ...]
    bundles: Bundles

    @classmethod
    def of(cls, guarantee: Guarantee, frame: Frame, groups: Sequence[Group], bundles: Bundles) -> Replaced | None:
        """None if nothing can be gained: all groups are cells, and records that differ everywhere move all of them."""
        if guarantee.neighbors == "add_remove" or not is_structured(groups):
            return None
        if all(part.kind == "cells" for group in product_groups(groups) for part in group):
            return None
        return cls(guarantee, frame, tuple(groups), bundles)

    @cached_property
    def _alike(self) -> Pairs | None:
        return alike(self.guarantee, self.frame, self.groups, self.bundles)

    @cached_property
    def _every(self) -> Pairs | None:
        return every_case(self.guarantee, self.frame, self.groups, self.bundles)

    @cached_property
    def _worst_at_once(self) -> bool:
        """Whether some pair of records is the worst of every bundle, so that nothing can be gained."""
        pairs = self._every
        if pairs is None:
            return False
        worst = sum(term.worst for term in pairs.terms)
        return pairs.dearest([_MANY] * len(self.bundles)) >= _MANY * worst

    def best_parts(self, needs: Floats) -> Floats | None:
        """The parts of the budget that minimize the sum of needs / part^p; None if their sum should be 1."""
        power = 2 if isinstance(self.guarantee, PureDP) else 1
        if self._alike is not None and all(_is_whole(term, needs) for term in self._alike.terms):
            return _Task(self._alike).least(needs, power)
        pairs = self._every or self._alike
        if pairs is None or self._worst_at_once:
            return None
        parts = _Task(pairs).least(needs, power)
        apart = (needs ** (1 / (power + 1))).sum() ** (power + 1)
        return parts if _error(needs, parts, power) < apart else None

    def solved(self, relaxed: Relaxed, rounds: int) -> Floats | None:
        """The parts of the budget that are best for any task that is solved for a single constraint on them."""
        pairs = self._every or self._alike
        return None if pairs is None else _Task(pairs).solved(relaxed, 1, rounds)

    def whole_shares(self, parts: Floats, denominator: int) -> Integers | None:
        """Whole shares in these proportions that cost at most the denominator, nearly all of it; None if none do."""
        pairs = [each for each in (self._alike, self._every) if each is not None]
        if not pairs:
            return None
        parts = np.minimum(parts, _MOST_OF_ALL)
        shares = np.maximum(np.floor(parts * (denominator * (1 - _SLACK))), 1).astype(np.int64)
        cost = min(each.dearest(shares.tolist()) for each in pairs)
        if cost > denominator:  # the parts were not those of `best_parts`
            shares = np.maximum(np.floor(shares * (denominator / cost * (1 - _SLACK))), 1).astype(np.int64)
            cost = min(each.dearest(shares.tolist()) for each in pairs)
        return shares if cost <= denominator else None


def _error(needs: Floats, parts: Floats, power: int) -> float:
    """The sum of needs / part^power; what is not needed may have no part."""
    needed = needs > 0
    return float((needs[needed] / parts[needed] ** power).sum())


def _is_whole(term: Term, needs: Floats) -> bool:
    """Whether a table stands for its members alone, and they need the same."""
    own = needs[list(term.members)]
    return len(own) == term.orbit and float(own.max() - own.min()) <= _EQUAL * float(own.max())


def _closed_form(needs: Floats, power: int, means: Floats) -> tuple[Floats, float]:
    """The best parts for a single constraint, sum of means times parts at most 1, and their error."""
    root = 1 / (power + 1)
    bound = float(((needs * means**power) ** root).sum())
    return (needs / means) ** root / bound, bound ** (power + 1)


class _Task:
    """What the cases of a neighboring change cost, given parts of the budget per bundle."""

    def __init__(self, pairs: Pairs) -> None:
        self._grid, self._bundles = pairs.grid, sum(len(term.members) for term in pairs.terms)
        spots = [pairs.grid.spots(term.axes) for term in pairs.terms]
        self._spots = np.concatenate(spots)
        self._term = np.repeat(np.arange(len(spots)), [len(each) for each in spots])
        self._axes = [term.axes for term in pairs.terms]
        self._ratios = [np.array([float(ratio) for ratio in term.ratios])[term.place] for term in pairs.terms]
        self._differences = np.concatenate([differenced(table) for table in self._ratios])
        self._member_of = np.zeros(self._bundles, dtype=np.int64)
        for number, term in enumerate(pairs.terms):
            self._member_of[list(term.members)] = number
        self._orbit = np.array([float(term.orbit) for term in pairs.terms])
        self._alone = None if pairs.alone is None else np.array([float(ratio) for ratio in pairs.alone])

    def _costs(self, parts: Floats) -> Floats:
        """The cost of every case, the last of them a record alone, if there is that case."""
        largest = np.zeros(len(self._orbit))
        np.maximum.at(largest, self._member_of, parts)
        values = self._spread(largest)
        return values if self._alone is None else np.append(values, self._alone @ parts)

    def _spread(self, parts: Floats) -> Floats:
        """The cost of every pair of records, given parts per term."""
        weights = self._differences * parts[self._term]
        return self._grid.spread(np.bincount(self._spots, weights, minlength=self._grid.size))

    def _means(self, weights: Floats) -> Floats:
        """The ratio of every bundle, averaged over the cases."""
        gathered = self._grid.gathered(weights[: self._grid.size])
        means = np.bincount(self._term, self._differences * gathered[self._spots], minlength=len(self._orbit))
        of_all = (means / self._orbit)[self._member_of]
        if self._alone is not None:
            of_all = of_all + weights[-1] * self._alone
        return np.asarray(np.maximum(of_all, _NO_MEAN))

    def least(self, needs: Floats, power: int) -> Floats:
        """The parts with the least sum of needs / part^power; the dearest case costs 1, what is not needed has none."""
        of_term = np.bincount(self._member_of, needs, minlength=len(self._orbit)).astype(np.float64)
        used = np.flatnonzero(of_term > 0)
        wanted = of_term[used]
        found = np.zeros(len(self._orbit))
        found[used] = 1.0
        best, least, lower, rows, cases = found, np.inf, 0.0, np.zeros((0, len(used))), np.zeros(0, dtype=np.int64)
        for _ in range(_TIMES):
            costs = self._with_alone(found)
            dearest = float(costs.max())
            error = float((wanted * (dearest / found[used]) ** power).sum())
            if error < least:
                best, least = found / dearest, error
            if least <= (1 + _CLOSE) * lower:
                break
            new = np.setdiff1d(np.argpartition(costs, -min(_ADDED, len(costs)))[-_ADDED:], cases)
            rows, kept = np.unique(np.concatenate([rows, self._rows(new)[:, used]]), axis=0, return_index=True)
            cases = np.concatenate([cases, new])[kept]
            alone = self._alone_in_their_worst(rows, used)
            found[used], weights, means = _within(rows, alone, wanted, power, found[used] / dearest)
            root = 1 / (power + 1)
            lower = max(lower, float(((wanted * means**power) ** root).sum() ** (power + 1)))
            in_play = weights > _IN_PLAY
            rows, cases = rows[in_play], cases[in_play]
            if len(rows) > _MOST_IN_PLAY:
                break
        parts = best[self._member_of]
        if least > (1 + _CLOSE) * lower and self._grid.size <= _MOST_OF_ROUNDS:  # cases that are alike, and matter
            other = self.solved(partial(_closed_form, needs, power), power, _ROUNDS_OF_ALL)
            parts = min(parts, other, key=lambda each: _error(needs, each, power))
        return np.asarray(parts)

    def _with_alone(self, parts: Floats) -> Floats:
        """What every case costs, given parts per term, the last of them a record alone, if there is that case."""
        values = self._spread(parts)
        return values if self._alone is None else np.append(values, self._alone @ parts[self._member_of])

    def _alone_in_their_worst(self, rows: Floats, used: Integers) -> Floats:
        """What a term costs alone, for each that no case in play moves much, or its part would grow without limit.

        The worst case of a term costs at least what this term adds to it, so the constraint cuts off nothing. What no
        case moves at all has at most the part that shares are given. All other terms have 0.
        """
        worst = self._worst[used]
        return np.where(rows.max(axis=0, initial=0.0) < worst / 2, worst, 0.0)

    @cached_property
    def _worst(self) -> Floats:
        """What each term adds to its worst case."""
        worst = np.array([ratios.max() for ratios in self._ratios])
        if self._alone is not None:
            worst = np.maximum(worst, np.bincount(self._member_of, self._alone, minlength=len(self._orbit)))
        return np.asarray(np.maximum(worst, 1 / _MOST_OF_ALL))

    def _rows(self, cases: Integers) -> Floats:
        """What some cases cost per term: case x term."""
        found = np.empty((len(cases), len(self._orbit)))
        pairs = cases < self._grid.size
        places = np.unravel_index(np.where(pairs, cases, 0), self._grid.shape) if self._grid.shape else ()
        for term, (axes, ratios) in enumerate(zip(self._axes, self._ratios, strict=True)):
            found[:, term] = ratios[tuple(places[axis] for axis in axes)]
        if self._alone is not None:
            found[~pairs] = np.bincount(self._member_of, self._alone, minlength=len(self._orbit))
        return found

    def solved(self, relaxed: Relaxed, power: int, rounds: int = _MOST_ROUNDS) -> Floats:
        """The best parts found; the dearest case costs 1."""
        first = np.maximum(self._costs(np.ones(self._bundles)), 0.0)  # nothing moves if two records are the same
        weights = before = first / first.sum()
        best, least, lower, step = np.ones(self._bundles), np.inf, 0.0, _FIRST_POWER
        for _ in range(rounds):
            parts, bound = relaxed(self._means(weights))
            if bound < lower and step > 1:
                weights, step = before, max(step / 2, 1.0)
                continue
            lower = max(lower, bound)
            costs = self._costs(parts)
            dearest = float(costs.max())
            if bound * dearest**power < least:
                best, least = parts / dearest, bound * dearest**power
            if least <= (1 + _CLOSE) * lower:
                break
            before = weights
            weights = weights * np.maximum(costs / dearest, 0.0) ** step
            weights = weights / weights.sum()
        return best


def _within(rows: Floats, alone: Floats, needs: Floats, power: int, start: Floats) -> tuple[Floats, Floats, Floats]:
    """The parts x with the least sum of needs / x^power, rows @ x and alone * x at most 1; weights, and mean ratios.

    Newton steps minimize t * error - sum log(1 - rows @ x) - sum log(1 - alone * x) for larger and larger t; weights of
    the constraints are then one over what they leave, and their sum over t times the error bounds what is left to gain.
    """
    parts = start * (0.9 / max(float((rows @ start).max(initial=0.0)), float((alone * start).max())))
    count = len(rows) + np.count_nonzero(alone)
    sharp = count / float((needs / parts**power).sum())
    for _ in range(_BARRIERS):
        for _ in range(_NEWTON):
            room, own = 1 - rows @ parts, alone / (1 - alone * parts)
            slope = -sharp * power * needs / parts ** (power + 1) + (1 / room) @ rows + own
            bend = sharp * power * (power + 1) * needs / parts ** (power + 2) + own**2
            across = rows / bend
            inner = across @ rows.T
            inner[np.diag_indices_from(inner)] += room**2 + _RIDGE * np.trace(inner)
            step = across.T @ np.linalg.solve(inner, across @ slope) - slope / bend
            reach = 1.0
            worth = float(-slope @ step)
            value = _barrier(parts, rows, alone, needs, power, sharp)
            while (
                reach > 1e-10
                and _barrier(parts + reach * step, rows, alone, needs, power, sharp) > value - reach * worth / 4
            ):
                reach /= 2
            parts = parts + reach * step
            if worth < _MOVED or reach <= 1e-10:
                break
        if count < _CLOSE / 4 * sharp * float((needs / parts**power).sum()):
            break
        sharp *= _SHARPER
    weights, own = 1 / (1 - rows @ parts), alone / (1 - alone * parts)
    total = float(weights.sum() + (own[alone > 0] / alone[alone > 0]).sum())
    return parts, weights / total, (weights @ rows + own) / total


def _barrier(parts: Floats, rows: Floats, alone: Floats, needs: Floats, power: int, sharp: float) -> float:
    """What the Newton steps minimize; infinite outside."""
    room, own = 1 - rows @ parts, 1 - alone * parts
    if float(parts.min()) <= 0 or float(room.min(initial=1.0)) <= 0 or float(own.min()) <= 0:
        return np.inf
    return float(sharp * (needs / parts**power).sum() - np.log(room).sum() - np.log(own).sum())
