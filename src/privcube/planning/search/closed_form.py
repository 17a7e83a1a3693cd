"""Groups as choices, one per axis, and the precision that bundles of them give to a workload. Zone: PUBLIC.

On every axis a group has nothing, the cells of a level, or the contrasts of a level of fan-out 2. It covers the
residuals whose levels it measures on every axis, all with the same strength f = 1 / (its rows). So a bundle with share
e of the budget, s slices, and m' rows in a slice, n'_g of them from group g, adds to the precision of residual b, at
epsilon = 1 for one row changed (THEORY sections 2 and 3, `privcube.model.slices`),
  e^2 W_b,   W_b = sum_(g covers b) (n'_g+1)(n'_g+2) / n_g  /  (2 (m'+1)(m'+2)),
and the weighted total variance is sum_b k_b / p_b. With n'_g = n_g / s the term of a group is n_g / s^2 + 3/s + 2/n_g.
The three sums are kept separately, so that a group can be added or removed without visiting the others.

Two or more groups of cells may be noised on their consistent section (THEORY section 8). Then m' is the dimension of
the section, less by one for every group of cells but one, and the term of a group is the same to within a few percent
(it is exact if the group has two rows or is alone). Residuals of the slices themselves are told by their totals, with
precision 1 / (s v), v = (m'+1)(m'+2) E t^2: the sum t has a density that is the product over groups of the volumes of
the sections of an L1 ball, added up as logarithms on a grid.

Noise of very many rows in a slice can only be drawn if it is narrow (`privcube.model.slices.largest_scale`), so such a
bundle needs a least share of the budget.

A set of levels is an integer with one bit for every level of every axis above its total.

See THEORY section 3.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, log, prod
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privcube.accuracy.structure import WorkloadIndex
from privcube.algebra.lattice import Floats, Integers
from privcube.algebra.section import log_volume
from privcube.model.frame import Frame
from privcube.model.groups import GroupPart, QueryGroup, part_rows
from privcube.model.noise.bundles import LARGEST_SECTION, MOST_ON_SECTION
from privcube.model.slices import largest_scale
from privcube.model.workload import Workload

Choice = tuple[int, ...]  # per axis the number of an option; 0 is nothing
Bundle = list[Choice]

_MOST_KEPT: Final = 2**25  # entries of groups x residuals that are kept, a byte each
_LITTLE_MORE: Final = 1.01  # than the least share: budgets of the plan are settled further than those of the search


def _grid() -> tuple[Floats, Floats]:
    """Values of t from 0 to 1, denser toward 0, and the weights of the trapezoidal rule."""
    t = np.concatenate([[0.0], np.geomspace(0.004, 0.999, 32)])
    steps = np.diff(t)
    return t, np.concatenate([[0.0], steps]) / 2 + np.concatenate([steps, [0.0]]) / 2


_T, _STEPS = _grid()


def spread(logs: Floats) -> Floats:
    """E t^2 for the logarithms of densities of t, in the last axis."""
    density = _STEPS * np.exp(logs - logs[..., :1])
    return np.asarray(density @ _T**2 / density.sum(axis=-1))


class Facts(NamedTuple):
    """What the search needs to know about a group."""

    reach: int  # the levels it measures
    must: int  # the levels that every residual it covers must have
    shared: int  # the levels of cells that each of its rows lies in
    rows: int


class Shape(NamedTuple):
    """What the noise of a bundle depends on, besides its three sums."""

    slices: float
    dimension: float  # m' in a slice
    told: int  # the levels of the residuals that the totals of slices tell; -1 if there are no such totals
    total: float  # W of these residuals


@dataclass(frozen=True)
class _Option:
    part: GroupPart | None
    reach: int
    must: int
    shared: int
    rows: int


class Choices:
    """The groups that a frame allows, and the residuals that a workload needs."""

    def __init__(
        self,
        workload: Workload,
        frame: Frame,
        index: WorkloadIndex | None = None,
        *,
        total_is_known: bool = False,
        whole_scale: float = 0.0,
    ) -> None:
        """`index` is the workload's, if already known; a known total need not be measured.

        `whole_scale` is the scale of noise that has the whole budget: rows changed / epsilon.
        """
        residuals, asks = WorkloadIndex.of(workload, frame) if index is None else index
        cells = np.array(workload.sizes, dtype=np.float64)
        self.frame = frame
        self._whole_scale = whole_scale
        self.importance = asks.transposed_times(np.array(workload.weights) * cells)
        self.levels = residuals.level_vectors()
        if total_is_known:
            self.importance[~self.levels.any(axis=1)] = 0.0
        self.options = tuple(_options(frame, axis, first) for axis, first in enumerate(_first_bits(frame)))
        self._words = _words(frame, self.levels)
        self._facts: dict[Choice, Facts] = {}
        self._slices: dict[int, int] = {}
        self._volumes: dict[int, Floats] = {}
        self._spreads: dict[tuple[int, ...], float] = {}
        self._told: dict[int, Integers] = {}
        self._spoken: dict[Choice, NDArray[np.bool_]] = {}

    @property
    def residuals(self) -> int:
        """How many residuals the workload needs."""
        return len(self.importance)

    def facts(self, choice: Choice) -> Facts:
        """The facts about a group, cached."""
        found = self._facts.get(choice)
        if found is None:
            parts = [options[at] for options, at in zip(self.options, choice, strict=True) if at]
            found = Facts(
                reach=sum(part.reach for part in parts),
                must=sum(part.must for part in parts),
                shared=sum(part.shared for part in parts),
                rows=prod([part.rows for part in parts]),
            )
            self._facts[choice] = found
        return found

    def shared(self, bundle: Iterable[Choice]) -> int:
        """The levels of the cells that every row of every group of a bundle lies in."""
        shared = -1
        for choice in bundle:
            shared &= self.facts(choice).shared
        return shared

    def slices(self, bundle: Iterable[Choice]) -> int:
        """How many slices a bundle has."""
        return self.slices_of(self.shared(bundle))

    def slices_of(self, shared: int) -> int:
        """How many slices the shared cells of these levels make."""
        found = self._slices.get(shared)
        if found is None:
            found = 1
            for axis, first in enumerate(_first_bits(self.frame)):
                levels = len(self.frame.fan_outs[axis])
                found *= self.frame.sizes[axis][(shared >> first & (1 << levels) - 1).bit_count()]
            self._slices[shared] = found
        return found

    def cells_by_level(self, shared: int) -> Floats:
        """Numbers, one per level, whose inner products are the logarithms of the slices that two masks share."""
        found = []
        for axis, first in enumerate(_first_bits(self.frame)):
            for level, (coarse, fine) in enumerate(pairwise(self.frame.sizes[axis])):
                found.append(log(fine / coarse) ** 0.5 if shared >> first + level & 1 else 0.0)
        return np.array(found)

    def speaks(self, choices: Sequence[Choice]) -> NDArray[np.float64]:
        """Group x residual: 1 if the group covers the residual, else 0."""
        if (len(self._spoken) + len(choices)) * self.residuals > _MOST_KEPT:
            self._spoken.clear()
        new = [choice for choice in choices if choice not in self._spoken]
        if new:
            self._spoken.update(zip(new, self._covered(new), strict=True))
        found = np.empty((len(choices), self.residuals))
        for at, choice in enumerate(choices):
            found[at] = self._spoken[choice]
        return found

    def _covered(self, choices: Sequence[Choice]) -> NDArray[np.bool_]:
        """Group x residual: whether the group covers the residual."""
        facts = [self.facts(choice) for choice in choices]
        yes = np.ones((len(choices), self.residuals), dtype=bool)
        contrasted = any(fact.must for fact in facts)
        for word, residuals in enumerate(self._words):
            beyond = ~_word([fact.reach for fact in facts], word)
            yes &= (residuals & beyond) == 0
            if contrasted:
                yes &= (~residuals & _word([fact.must for fact in facts], word)) == 0
        return yes

    def sums(self, choices: Sequence[Choice]) -> Floats:
        """For every residual, the sums of n, 1 and 1/n over the groups that cover it."""
        rows = np.array([self.facts(choice).rows for choice in choices], dtype=np.float64)
        return np.stack([rows, np.ones(len(rows)), 1 / rows]) @ self.speaks(choices)

    def sums_of_all(self, bundles: Sequence[Bundle]) -> Floats:
        """The sums of each of some bundles, none of them empty."""
        groups = [choice for bundle in bundles for choice in bundle]
        first = np.cumsum([0, *map(len, bundles)])[:-1]
        rows = np.array([self.facts(choice).rows for choice in groups], dtype=np.float64)[:, None]
        spoken = self.speaks(groups)
        if len(groups) == len(bundles):
            return np.stack([rows * spoken, spoken, spoken / rows], axis=1)
        return np.stack([np.add.reduceat(part, first) for part in (rows * spoken, spoken, spoken / rows)], axis=1)

    def rows(self, bundle: Iterable[Choice]) -> int:
        """How many rows the groups of a bundle have together."""
        return sum(self.facts(choice).rows for choice in bundle)

    def shapes(self, bundle: Sequence[Choice]) -> tuple[Shape, Shape]:
        """The shape of a bundle under max-norm noise, and on its section."""
        facts = [self._facts.get(choice) or self.facts(choice) for choice in bundle]
        shared = -1
        for _, _, own, _ in facts:
            shared &= own
        return self.shapes_of(shared, facts)

    def shapes_of(self, shared: int, facts: Sequence[Facts]) -> tuple[Shape, Shape]:
        """The shapes of a bundle whose groups share these levels and have these facts; equal if it has no section."""
        slices = self.slices_of(shared)
        whole = Shape(slices, sum([rows for _, _, _, rows in facts]) / slices, -1, 0.0)
        cells = [rows // slices for _, must, _, rows in facts if not must and rows > slices]
        if len(cells) < 2 or max(cells) > LARGEST_SECTION or whole.dimension > MOST_ON_SECTION:
            return whole, whole
        free = sum([rows for _, must, _, rows in facts if must]) / slices
        dimension = 1 + sum(cells) - len(cells) + free
        total = 1 / (slices * (dimension + 1) * (dimension + 2) * self._spread(cells))
        return whole, Shape(slices, dimension, shared, total)

    def least_share(self, groups: int, dimension: float) -> float:
        """The least share at which a bundle of groups can be drawn, by its rows in a slice; 0 if any share will do."""
        if groups < 2 or dimension <= MOST_ON_SECTION:
            return 0.0
        most = largest_scale(int(dimension))
        return _LITTLE_MORE * self._whole_scale / most if most else inf

    def _spread(self, cells: Sequence[int]) -> float:
        """E t^2 on the section of groups of these sizes, cached."""
        key = tuple(sorted(cells))
        found = self._spreads.get(key)
        if found is None:
            found = self._spreads[key] = float(spread(self.volume(cells)))
        return found

    def shapes_with(
        self, shared: int, own: Sequence[Facts], more: Sequence[Facts]
    ) -> tuple[list[tuple[Shape, Shape]], list[int]]:
        """The shapes of a bundle with each of some groups added: the different ones, and which of them each has.

        The bundle's groups, which share these levels, are gone through once per set of slices, not once per group.
        """
        number: dict[tuple[int, int, bool], int] = {}
        keys = [(shared & fact.shared, fact.rows, fact.must > 0) for fact in more]
        places = [number.setdefault(key, len(number)) for key in keys]
        found: list[tuple[Shape, Shape]] = []
        sections: list[tuple[int, Shape]] = []
        logs: list[Floats] = []
        before: dict[int, tuple[int, list[int], int, int, Floats]] = {}
        for both, rows, contrast in number:
            if both not in before:
                slices = self.slices_of(both)
                cells = [fact.rows // slices for fact in own if not fact.must and fact.rows > slices]
                free = sum([fact.rows for fact in own if fact.must])
                volume = self.volume(cells) if max(cells, default=0) <= LARGEST_SECTION else _T  # if too large: unused
                before[both] = slices, cells, sum([fact.rows for fact in own]), free, volume
            slices, cells, all_rows, free, volume = before[both]
            whole = Shape(slices, (all_rows + rows) / slices, -1, 0.0)
            added = 0 if contrast or rows <= slices else rows // slices
            count, largest = len(cells) + bool(added), max([*cells, added], default=0)
            if count >= 2 and largest <= LARGEST_SECTION and whole.dimension <= MOST_ON_SECTION:
                dimension = 1 + sum(cells) + added - count + (free + (rows if contrast else 0)) / slices
                sections.append((len(found), Shape(slices, dimension, both, 0.0)))
                logs.append(volume + self._volume_of(added) if added else volume)
            found.append((whole, whole))
        if sections:
            for (at, shape), square in zip(sections, spread(np.array(logs)).tolist(), strict=True):
                total = 1 / (shape.slices * (shape.dimension + 1) * (shape.dimension + 2) * square)
                found[at] = found[at][0], shape._replace(total=total)
        return found, places

    def volume(self, cells: Sequence[int]) -> Floats:
        """The logarithm of the density of t on the section of groups of these sizes."""
        logs = np.zeros_like(_T)
        for size, groups in Counter(cells).items():
            logs += groups * self._volume_of(size)
        return logs

    def _volume_of(self, size: int) -> Floats:
        """The logarithm of the volume of the sections of one group, cached."""
        found = self._volumes.get(size)
        if found is None:
            found = self._volumes[size] = log_volume(size, _T)
        return found

    def told(self, mask: int) -> Integers:
        """The residuals that have no levels beyond the mask, cached."""
        found = self._told.get(mask)
        if found is None:
            yes = np.ones(self.residuals, dtype=bool)
            for word, residuals in enumerate(self._words):
                yes &= (residuals & ~_word([mask], word)[0]) == 0
            found = self._told[mask] = np.flatnonzero(yes)
        return found

    def strengths_of(self, bundle: Sequence[Choice], section: bool) -> Floats:
        """W of one bundle, under max-norm noise or on its section."""
        return np.asarray(self.strengths(self.sums(bundle)[None], [self.shapes(bundle)[section]])[0])

    def strengths(self, sums: Floats, shapes: Sequence[Shape]) -> Floats:
        """W of bundles from their three sums and their shapes; 0 if a bundle is empty."""
        return self.of_shapes(terms(sums, [shape.slices for shape in shapes]), shapes)

    def of_shapes(self, found: Floats, shapes: Sequence[Shape]) -> Floats:
        """W of bundles from the terms of their groups, added up; these are overwritten."""
        dimension = np.array([shape[1] for shape in shapes])[:, None]
        found /= 2 * (dimension + 1) * (dimension + 2)
        for at, shape in enumerate(shapes):
            if shape[2] != -1:
                found[at, self.told(shape[2])] = shape[3]
        return found

    def group(self, choice: Choice) -> QueryGroup:
        """The query group of a choice."""
        found = [options[at].part for options, at in zip(self.options, choice, strict=True)]
        return tuple([part for part in found if part is not None])

    def choice(self, group: QueryGroup) -> Choice:
        """The choice of a query group of cells and contrasts; a level that splits nothing counts as the level above."""
        numbers = [0] * len(self.options)
        for axis, level, kind in group:
            sizes = self.frame.sizes[axis]
            while kind == "cells" and level and sizes[level] == sizes[level - 1]:
                level -= 1
            if level:
                part = GroupPart(axis, level, kind)
                numbers[axis] = next(at for at, option in enumerate(self.options[axis]) if option.part == part)
        return tuple(numbers)


def terms(sums: Floats, slices: Sequence[float] | Floats) -> Floats:
    """The terms n / s^2 + 3/s + 2/n, added up over the groups of each bundle; the same under both laws."""
    s = np.asarray(slices, dtype=np.float64)[:, None]
    found = sums[:, 0] / s**2
    part = 3 * sums[:, 1]
    part /= s
    found += part
    found += np.multiply(sums[:, 2], 2.0, out=part)
    return np.asarray(found)


def _first_bits(frame: Frame) -> list[int]:
    """The number of the first bit of every axis."""
    ends = np.cumsum([0, *(len(chain) for chain in frame.fan_outs)])
    return [int(end) for end in ends[:-1]]


def _options(frame: Frame, axis: int, first: int) -> tuple[_Option, ...]:
    """What a group may have on an axis; levels that do not refine the level above are omitted."""
    sizes, chain = frame.sizes[axis], frame.fan_outs[axis]
    own = [level for level in range(1, len(sizes)) if sizes[level] > sizes[level - 1]]
    options = [_Option(None, 0, 0, 0, 1)]
    for level in own:
        below = sum(1 << first + at - 1 for at in own if at <= level)
        prefix = (1 << level) - 1 << first
        part = GroupPart(axis, level)
        options.append(_Option(part, below, 0, prefix, part_rows(chain[:level], "cells")))
    for level in own:
        if chain[level - 1] == 2:
            bit, prefix = 1 << first + level - 1, (1 << level - 1) - 1 << first
            part = GroupPart(axis, level, "contrast")
            options.append(_Option(part, bit, bit, prefix, part_rows(chain[:level], "contrast")))
    return tuple(options)


def _words(frame: Frame, levels: Any) -> list[NDArray[np.uint64]]:
    """The levels of the residuals as bits, in words of 64."""
    total = sum(len(chain) for chain in frame.fan_outs)
    words = [np.zeros(len(levels), dtype=np.uint64) for _ in range((total + 63) // 64)]
    for axis, first in enumerate(_first_bits(frame)):
        for level in range(1, len(frame.fan_outs[axis]) + 1):
            word, bit = divmod(first + level - 1, 64)
            words[word][levels[:, axis] == level] |= np.uint64(1 << bit)
    return words


def _word(masks: Sequence[int], word: int) -> NDArray[np.uint64]:
    """One word of many masks, as a column."""
    return np.array([mask >> 64 * word & 2**64 - 1 for mask in masks], dtype=np.uint64)[:, None]
