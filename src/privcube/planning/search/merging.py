"""Bundles merged two by two, greedily: a plan to start from for many tables. Zone: PUBLIC.

A plan with a bundle for every table is far from the best if there are many tables, and a search that offers it random
changes comes too slowly from there. So for every pair of bundles i and j the gain of merging them is worked out, with
the sum of their shares for the merged bundle,
  sum_b k_b / p_b  -  k_b / (p_b - e_i^2 W_ib - e_j^2 W_jb + (e_i + e_j)^2 W_ijb),
over the residuals that they speak about, which are few. Each round makes the best merges that do not touch each other,
adapts the budgets, and looks again at the pairs that promised most and at those of the new bundles. When none of these
helps any more, it looks at all pairs once again.

See THEORY section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, combinations, islice
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privcube.algebra.lattice import Floats, Integers
from privcube.model.noise.bundles import LARGEST_SECTION, MOST_ON_SECTION
from privcube.planning.search.closed_form import Choices, spread, terms
from privcube.planning.search.exchange import Lawful
from privcube.planning.search.shares import NEVER, optimal_shares
from privcube.progress import Check, never

# Prices in seconds of looking at a pair: by itself, and per residual that its bundles speak about.
_PAIR: Final = 9e-6
_SPOKEN: Final = 90e-9
_FIRST: Final = 0.5  # of the time at most, for a first look at all pairs
_AT_ONCE: Final = 2**18  # pairs times residuals of a look
_AT_ONE_TIME: Final = 8  # of the bundles, one in so many is merged in a round, at most
_NEARLY: Final = 0.3  # of the best gain: what a merge of the same round has at least
_AGAIN: Final = 3  # pairs per bundle that are looked at again in a round
_ROUNDS: Final = 8  # of adapting budgets after merges
_SETTLED: Final = 40  # and at first
_LEAST_GAIN: Final = 1e-6  # of the error


def merged(
    choices: Choices, plan: Sequence[Lawful], fixed: Floats, seconds: float, check: Check = never
) -> tuple[list[Lawful], float]:
    """Bundles that no merge improves, and what is left of these seconds at the prices above.

    `fixed` has the strengths of bundles that stay, one per row.
    """
    work = _Merging.of(choices, plan, fixed)
    new = work.nearest(max(1, int(_FIRST * seconds / work.price)))
    pairs, gains, last = np.zeros((0, 2), dtype=np.int64), np.zeros(0), False
    while seconds > 0 and len(work.plan) > 1:
        check()
        again = np.argsort(-gains, kind="stable")[: None if last else _AGAIN * len(work.plan)]
        looked = np.concatenate([new, pairs[again]])
        seconds -= work.price * len(looked)
        found = work.gains(looked)
        pairs = np.concatenate([np.delete(pairs, again, axis=0), looked])
        gains = np.concatenate([np.delete(gains, again), found])
        after = work.merged(looked, found)
        if after is work:
            if len(looked) == len(pairs):
                break
            new, last = new[:0], True
            continue
        kept, come = np.intersect1d(work.numbers, after.numbers), np.setdiff1d(after.numbers, work.numbers)
        work, last = after, False
        alive = np.isin(pairs, kept).all(axis=1)
        pairs, gains = pairs[alive], gains[alive]
        fresh = chain(((one, other) for other in come for one in kept), combinations(come, 2))
        new = np.array(list(islice(fresh, max(1, int(seconds / work.price)))), dtype=np.int64).reshape(-1, 2)
    return work.plan, seconds


class _Part(NamedTuple):
    """What a bundle brings to a section, in slices of some levels."""

    cells: int  # rows of its groups of cells in a slice,
    groups: int  # of which there are so many,
    largest: int
    free: float  # and rows of its other groups


@dataclass(frozen=True)
class _Merging:
    """Bundles with settled budgets, by row; every bundle has a number, which no later one gets."""

    choices: Choices
    plan: list[Lawful]
    fixed: Floats
    numbers: Integers
    sums: Floats  # bundles x 3 x residuals
    says: Floats  # bundles x residuals
    shares: Floats  # of the fixed bundles, then of the others
    error: float
    parts: dict[tuple[int, int], tuple[_Part, Floats]] = field(default_factory=dict)  # by number and levels

    @classmethod
    def of(cls, choices: Choices, plan: Sequence[Lawful], fixed: Floats) -> _Merging:
        """Bundles to begin with."""
        sums = choices.sums_of_all([list(each.bundle) for each in plan])
        says = choices.strengths(sums, [choices.shapes(each.bundle)[each.section] for each in plan])
        shares = np.full(len(fixed) + len(plan), 1 / (len(fixed) + len(plan)))
        start = cls(choices, list(plan), fixed, np.arange(len(plan)), sums, says, shares, 0.0)
        return start._settled(_SETTLED)

    @property
    def price(self) -> float:
        """Of looking at a pair, in seconds."""
        return _PAIR + _SPOKEN * 2 * float(self._spoken.sum(axis=1).mean())

    def nearest(self, count: int) -> Integers:
        """So many pairs, or all: those whose common cells are most, as the groups of such a pair share slices."""
        levels = np.array([self.choices.cells_by_level(shared) for shared in self._shared])
        one, other = np.triu_indices(len(levels), 1)
        common = (levels @ levels.T)[one, other]
        first = np.argsort(-common, kind="stable")[:count]
        return np.stack([self.numbers[one[first]], self.numbers[other[first]]], axis=1)

    def gains(self, pairs: Integers) -> Floats:
        """How much the error falls if two bundles are merged, for pairs of their numbers."""
        one, other = np.searchsorted(self.numbers, pairs.T)
        counts = self._spoken.sum(axis=1)
        columns = np.full((len(counts), int(counts.max())), self.choices.residuals, dtype=np.int64)
        columns[np.arange(columns.shape[1]) < counts[:, None]] = np.nonzero(self._spoken)[1]
        order = np.argsort(-counts[one] - counts[other], kind="stable")  # the first of some is the widest
        found, start = np.zeros(len(pairs)), 0
        while start < len(order):
            width = int(counts[one[order[start]]] + counts[other[order[start]]])
            some = order[start : start + max(1, _AT_ONCE // max(1, width))]
            left = columns[one[some], : int(counts[one[some]].max())]
            right = columns[other[some], : int(counts[other[some]].max())]
            found[some] = self._gains(one[some], other[some], left, right)
            start += len(some)
        return found

    def _gains(self, one: Integers, other: Integers, left: Integers, right: Integers) -> Floats:
        """The same for pairs of rows that speak about these residuals."""
        choices, outside = self.choices, self.choices.residuals  # outside stands for no residual
        right = np.where(np.pad(self._spoken, ((0, 0), (0, 1)))[one[:, None], right], outside, right)
        at = np.concatenate([left, right], axis=1)
        importance = np.append(choices.importance, 0.0)[at]
        at[at == outside] = 0
        own = self.shares[len(self.fixed) :]
        before = self._precision[at]
        rest = before - own[one, None] ** 2 * self.says[one[:, None], at]
        rest -= own[other, None] ** 2 * self.says[other[:, None], at]
        np.maximum(rest, 0.0, out=rest)
        squares = ((own[one] + own[other]) ** 2)[:, None]
        masks = [self._shared[a] & self._shared[b] for a, b in zip(one.tolist(), other.tolist(), strict=True)]
        slices = np.array([choices.slices_of(mask) for mask in masks], dtype=np.float64)
        sums = np.stack([self.sums[one[:, None], n, at] + self.sums[other[:, None], n, at] for n in range(3)], axis=1)
        term = terms(sums, slices)
        dimension = (self._rows[one] + self._rows[other]) / slices
        whole = term / (2 * (dimension + 1) * (dimension + 2))[:, None]
        after = (importance / np.maximum(rest + squares * whole, NEVER)).sum(axis=1)
        for pair in np.flatnonzero(dimension > MOST_ON_SECTION).tolist():
            if own[one[pair]] + own[other[pair]] < choices.least_share(2, dimension[pair]):
                after[pair] = np.inf  # it cannot be drawn
        which, dimension, totals = self._sections(one, other, masks, slices, dimension)
        if len(which):
            section = term[which] / (2 * (dimension + 1) * (dimension + 2))[:, None]
            section = np.where(
                self._told([masks[pair] for pair in which.tolist()], at[which]), totals[:, None], section
            )
            law = (importance[which] / np.maximum(rest[which] + squares[which] * section, NEVER)).sum(axis=1)
            after[which] = np.minimum(after[which], law)
        return np.asarray((importance / np.maximum(before, NEVER)).sum(axis=1) - after)

    def _sections(
        self, one: Integers, other: Integers, masks: Sequence[int], slices: Floats, whole: Floats
    ) -> tuple[Integers, Floats, Floats]:
        """Which unions of pairs have a section, its dimension, and W of what its totals tell."""
        known: dict[tuple[int, int], int] = {}
        found = np.array(
            [
                [known.setdefault((row, mask), len(known)) for row, mask in zip(rows.tolist(), masks, strict=True)]
                for rows in (one, other)
            ]
        )
        made = [self._part(row, mask) for row, mask in known]
        parts, volumes = (np.array(each, dtype=np.float64) for each in zip(*made, strict=True))
        cells, groups, _, free = (parts[found[0]] + parts[found[1]]).T
        largest = np.maximum(parts[found[0], 2], parts[found[1], 2])
        which = np.flatnonzero((groups >= 2) & (largest <= LARGEST_SECTION) & (whole <= MOST_ON_SECTION))
        dimension = (1 + cells - groups + free)[which]
        spreads = spread(volumes[found[0, which]] + volumes[found[1, which]])
        return which, dimension, 1 / (slices[which] * (dimension + 1) * (dimension + 2) * spreads)

    def _part(self, row: int, mask: int) -> tuple[_Part, Floats]:
        key = int(self.numbers[row]), mask
        found = self.parts.get(key)
        if found is None:
            facts = [self.choices.facts(choice) for choice in self.plan[row].bundle]
            slices = self.choices.slices_of(mask)
            cells = [fact.rows // slices for fact in facts if not fact.must and fact.rows > slices]
            free = sum([fact.rows for fact in facts if fact.must]) / slices
            largest = max(cells, default=0)
            volume = self.choices.volume(cells if largest <= LARGEST_SECTION else [])
            found = self.parts[key] = _Part(sum(cells), len(cells), largest, free), volume
        return found

    def _told(self, masks: Sequence[int], at: Integers) -> NDArray[np.bool_]:
        """Whether residuals have no levels beyond a mask, for rows of residuals with a mask each."""
        kinds = {mask: number for number, mask in enumerate(dict.fromkeys(masks))}
        told = np.zeros((len(kinds), self.choices.residuals), dtype=bool)
        for mask, number in kinds.items():
            told[number, self.choices.told(mask)] = True
        return np.asarray(told[np.array([kinds[mask] for mask in masks])[:, None], at])

    def merged(self, pairs: Integers, gains: Floats) -> _Merging:
        """With the best merges that do not touch each other, as far as the error falls; itself if it does not."""
        chosen: list[tuple[int, int]] = []
        touched: set[int] = set()
        least = max(_LEAST_GAIN * self.error, _NEARLY * float(gains.max(initial=0.0)))
        for at in np.argsort(-gains, kind="stable").tolist():
            if gains[at] < least or len(chosen) > len(self.plan) // _AT_ONE_TIME:
                break
            one, other = np.searchsorted(self.numbers, pairs[at]).tolist()
            if not touched & {one, other}:
                touched |= {one, other}
                chosen.append((one, other))
        while chosen:
            after = self._with(chosen)
            if after.error < self.error:
                return after
            chosen = chosen[: len(chosen) // 2]
        return self

    def _with(self, pairs: Sequence[tuple[int, int]]) -> _Merging:
        """With pairs of rows merged; the merged bundles come last."""
        choices, fixed = self.choices, len(self.fixed)
        kept = np.setdiff1d(np.arange(len(self.plan)), pairs)
        groups = [dict.fromkeys([*self.plan[one].bundle, *self.plan[other].bundle]) for one, other in pairs]
        bundles = [list(each) for each in groups]
        sums = choices.sums_of_all(bundles)
        shapes = [choices.shapes(bundle) for bundle in bundles]
        slope = choices.importance / np.maximum(self._precision, NEVER) ** 2
        laws = [choices.strengths(sums, [pair[law] for pair in shapes]) for law in (0, 1)]
        section = laws[1] @ slope > laws[0] @ slope
        own = self.shares[fixed:]
        shares = [own[one] + own[other] for one, other in pairs]
        after = replace(
            self,
            plan=[self.plan[row] for row in kept.tolist()] + list(map(Lawful, bundles, section.tolist())),
            numbers=np.append(self.numbers[kept], self.numbers[-1] + 1 + np.arange(len(pairs))),
            sums=np.concatenate([self.sums[kept], sums]),
            says=np.concatenate([self.says[kept], np.where(section[:, None], laws[1], laws[0])]),
            shares=np.concatenate([self.shares[:fixed], own[kept], shares]),
        )
        return after._settled(_ROUNDS)

    def _settled(self, rounds: int) -> _Merging:
        says = np.concatenate([self.fixed, self.says])[None]
        errors, shares, _ = optimal_shares(says, self.choices.importance, self.shares[None], rounds)
        return replace(self, shares=shares[0], error=float(errors[0]))

    @cached_property
    def _precision(self) -> Floats:
        return np.asarray(self.shares**2 @ np.concatenate([self.fixed, self.says]))

    @cached_property
    def _spoken(self) -> NDArray[np.bool_]:
        """Bundle x residual: whether it speaks about the residual."""
        return np.asarray(self.sums[:, 1] > 0)

    @cached_property
    def _rows(self) -> Floats:
        return np.array([self.choices.rows(each.bundle) for each in self.plan], dtype=np.float64)

    @cached_property
    def _shared(self) -> list[int]:
        """Of every bundle, the levels that its groups share."""
        return [self.choices.shared(each.bundle) for each in self.plan]
