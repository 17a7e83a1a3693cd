"""Gram bundles in the search: all pairs of some blocks at once, with weights that fit the rest of a plan. Zone: PUBLIC.

A Gram bundle with squared weights a (sum 1) of the constant and of blocks, d coordinates and share e of the budget adds
e^2 W_b to the precision of residual b, a quadratic form. With f the factor of a group (`privcube.accuracy.structure`),
f' that of squares, c = 1 - 1/n for blocks of n children and u = 2 / (d+1), it is
  f a_k a_l / (c_k c_l) u                        for residuals of two blocks k and l,
  (f a_0 a_k / c_k + f' a_k^2 / c_k^2) u         for those of one block k,
  (f a_0^2 / 2 + sum_k f' a_k^2 / c_k^2) u       for those of the slices.
The error sum_b k_b / p_b falls with every weight, at some rate. The best weights on the simplex have equal rates, so
each is multiplied by a power of its rate until they are.

See THEORY section 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Final

import numpy as np

from privcube.algebra.lattice import Floats, Integers
from privcube.model.frame import Frame
from privcube.model.groups import GroupPart, QueryGroup, group_rows
from privcube.model.noise.bundles import MOST_COORDINATES, Gram
from privcube.model.slices import Slicing
from privcube.planning.search.closed_form import Choices
from privcube.planning.search.shares import NEVER

Block = tuple[int, int]  # axis, level

_POWER: Final = 0.5  # of the rate: higher ones overshoot
_ROUNDS: Final = 200  # of a start: enough for weights to settle to a percent
_UNIT: Final = 2**24  # the sum of whole weights
_MOST_SQUARES: Final = 64  # children of a block; the squares of more are many rows that say little


@dataclass(frozen=True)
class GramForm:
    """Which residuals a Gram bundle speaks about, and how: W_b is the sum of factor a_left a_right over its terms."""

    frame: Frame
    blocks: tuple[Block, ...]
    slicing: Slicing
    residual: Integers  # of every term
    left: Integers  # 0 is the constant, k the k-th block
    right: Integers
    factor: Floats
    residuals: int

    @classmethod
    def of(cls, choices: Choices, blocks: Sequence[Block], slicing: Slicing) -> GramForm | None:
        """The form of a Gram bundle of some blocks in slices; None if it would be too large."""
        frame, levels = choices.frame, choices.levels
        above = np.zeros(levels.shape[1], dtype=np.int64)
        for axis, level in slicing:
            above[axis] = level
        number = np.zeros(
            (levels.shape[1], 1 + max(int(levels.max(initial=0)), *(level for _, level in blocks))), dtype=np.int64
        )
        for at, (axis, level) in enumerate(blocks, start=1):
            number[axis, level] = at
        beyond = levels > above
        own = np.where(beyond, number[np.arange(levels.shape[1]), levels], 0)
        spoken = (beyond == (own > 0)).all(axis=1) & (beyond.sum(axis=1) <= 2)
        dimension = 1 + sum(cls._coordinates(frame, block, slicing) for block in blocks)
        if dimension > MOST_COORDINATES:
            return None
        unit = 2 / (dimension + 1)
        slices = prod(frame.sizes[axis][level] for axis, level in slicing)
        factor_of = [1.0] + [cls._factor(frame, block, slicing) for block in blocks]
        terms: list[tuple[Integers, Integers, Integers, Floats]] = []
        blocks_of = np.sort(own, axis=1)[:, ::-1][:, :2] if own.shape[1] > 1 else np.pad(own, ((0, 0), (0, 1)))
        which = np.flatnonzero(spoken)
        one, other = blocks_of[which, 0], blocks_of[which, 1]
        per = np.array(factor_of)
        half = np.where((one == 0) & (other == 0), 0.5, 1.0)
        terms.append((which, one, other, half * unit * per[one] * per[other] / slices))
        for at, block in enumerate(blocks, start=1):
            if not _has_squares(frame, block, slicing):
                continue
            children = frame.fan_outs[block[0]][0]
            twice = unit * per[at] ** 2 * children / slices
            alone = which[(one == at) & (other == 0)]
            none = which[(one == 0) & (other == 0)]
            for residuals, speaks in ((alone, (1 - 2 / children) / 2), (none, (1 - 1 / children) / 2)):
                if speaks > 0:
                    same = np.full(len(residuals), at)
                    terms.append((residuals, same, same, np.full(len(residuals), twice * speaks)))
        residual, left, right, factor = (np.concatenate(each) for each in zip(*terms, strict=True))
        return cls(frame, tuple(blocks), slicing, residual, left, right, factor, choices.residuals)

    @staticmethod
    def _coordinates(frame: Frame, block: Block, slicing: Slicing) -> int:
        return (
            group_rows(frame, (GroupPart(*block, "helmert"),)) // frame.sizes[block[0]][dict(slicing).get(block[0], 0)]
        )

    @staticmethod
    def _factor(frame: Frame, block: Block, slicing: Slicing) -> float:
        """f over c: 1 / s_l for the block's level, in place of the slices' own factor if it lies within one."""
        axis, level = block
        children = frame.fan_outs[axis][level - 1]
        return frame.sizes[axis][dict(slicing).get(axis, 0)] / frame.sizes[axis][level] / (1 - 1 / children)

    def strengths(self, weights: Floats) -> Floats:
        """W for weights that sum to 1."""
        terms = self.factor * weights[self.left] * weights[self.right]
        return np.bincount(self.residual, terms, minlength=self.residuals).astype(np.float64)

    def improved(self, weights: Floats, importance: Floats, others: Floats, share: float, rounds: int) -> Floats:
        """Weights with less error beside the precisions of the other bundles."""
        best, least = weights, np.inf
        for _ in range(rounds):
            precision = np.maximum(others + share**2 * self.strengths(weights), NEVER)
            error = float((importance / precision).sum())
            if error < least:
                best, least = weights, error
            rate = self.factor * (importance / precision**2)[self.residual]
            slope = np.bincount(self.left, rate * weights[self.right], minlength=len(weights))
            slope += np.bincount(self.right, rate * weights[self.left], minlength=len(weights))
            weights = weights * slope**_POWER
            weights = np.maximum(weights / weights.sum(), 1e-6)
            weights /= weights.sum()
        return best

    @cached_property
    def even(self) -> Floats:
        """Weights to start from: a third for the constant, the rest by the coordinates of each block."""
        own = np.array([0.0, *(self._coordinates(self.frame, block, self.slicing) for block in self.blocks)])
        weights = own / own.sum() * 2 / 3
        weights[0] = 1 / 3
        return np.asarray(weights)

    def groups(self) -> list[QueryGroup]:
        """The total, Helmert rows of every block and pair of blocks of different axes, and squares."""

        def group(*parts: GroupPart) -> QueryGroup:
            axes = {part.axis for part in parts}
            slices = [GroupPart(axis, level) for axis, level in self.slicing if axis not in axes]
            return tuple(sorted([*slices, *parts]))

        single = [GroupPart(*block, "helmert") for block in self.blocks]
        pairs = [pair for pair in combinations(single, 2) if pair[0].axis != pair[1].axis]
        squares = [GroupPart(*b, "squares") for b in self.blocks if _has_squares(self.frame, b, self.slicing)]
        return [group(), *map(group, single), *(group(*pair) for pair in pairs), *map(group, squares)]


@dataclass(frozen=True)
class GramColumn:
    """A Gram bundle with its weights."""

    form: GramForm
    weights: Floats

    @classmethod
    def settled(cls, form: GramForm, importance: Floats) -> GramColumn:
        """A Gram bundle with the best weights by itself; what it does not speak about does not count."""
        others = np.where(form.strengths(form.even) > 0, 0.0, 1.0)
        spoken = np.where(others > 0, 0.0, importance)
        return cls(form, form.improved(form.even, spoken, others, 1.0, _ROUNDS))

    @property
    def says(self) -> Floats:
        """W of every residual."""
        return self.form.strengths(self.weights)

    def beside(self, importance: Floats, others: Floats, share: float, rounds: int) -> GramColumn:
        """The bundle with weights that fit the precisions of the other bundles better."""
        return replace(self, weights=self.form.improved(self.weights, importance, others, share, rounds))

    @property
    def law(self) -> Gram:
        """The law with whole weights."""
        return Gram(tuple(max(1, round(weight * _UNIT)) for weight in self.weights.tolist()))


def _has_squares(frame: Frame, block: Block, slicing: Slicing) -> bool:
    """Whether the squares of a block are measured: of first levels that no slice divides."""
    return block[1] == 1 and block[0] not in dict(slicing) and 2 <= frame.fan_outs[block[0]][0] <= _MOST_SQUARES


def gram_columns(choices: Choices, most: int) -> list[GramColumn]:
    """Gram bundles to start from: of the smallest attributes in use, some or all, whole or in slices of one of them."""
    used = [axis for axis in range(choices.levels.shape[1]) if choices.levels[:, axis].any()]
    if np.count_nonzero(choices.levels, axis=1).max(initial=0) < 2:  # no pairs
        return []
    used.sort(key=lambda axis: choices.frame.sizes[axis][-1])
    found = []
    for slicing, axes in _sets(choices, used):
        blocks = sorted(_blocks(choices, axes, slicing))
        form = GramForm.of(choices, blocks, slicing) if len(axes) >= 2 else None
        if form is not None:
            found.append(GramColumn.settled(form, choices.importance))
    return found[:most]


def _sets(choices: Choices, used: Sequence[int]) -> Iterator[tuple[Slicing, Sequence[int]]]:
    """Slices and sets of axes, those that promise most first."""
    counts = sorted({len(used), len(used) * 3 // 4, len(used) // 2, len(used) - 1, len(used) - 2}, reverse=True)
    slicings: list[Slicing] = [()]
    if choices.levels.astype(bool).sum(axis=1).max(initial=0) > 2:
        deep = choices.levels[choices.levels.astype(bool).sum(axis=1) > 2]
        weight = choices.importance[choices.levels.astype(bool).sum(axis=1) > 2]
        often = np.argsort(-((deep > 0) * weight[:, None]).sum(axis=0), kind="stable")
        slicings.append(((int(often[0]), int(choices.levels[:, often[0]].max())),))
    for slicing in slicings:
        own = [axis for axis in used if axis not in dict(slicing)]
        for count in counts:
            if 2 <= count <= len(own) or count == len(used):
                yield slicing, own[:count]


def _blocks(choices: Choices, axes: Iterable[int], slicing: Slicing) -> set[Block]:
    """The levels of some axes that residuals have, beyond the slices."""
    above = dict(slicing)
    return {
        (axis, level)
        for axis in axes
        for level in np.unique(choices.levels[:, axis]).tolist()
        if level > above.get(axis, 0)
    }
