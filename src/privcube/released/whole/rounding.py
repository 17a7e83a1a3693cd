"""From weighted particles to whole records: weights rounded down, and single records that move until tables meet.

Zone: RELEASED.

A move changes one attribute of one record. Its gain is S(old) - S(new) - k / 2, with S the gradient of
1/2 sum m (c - goal)^2 on the record and k the average curvature of such a move. All records propose moves at once, in
proportion to their gain; as many are made, at random, as make the sum smallest on average, if it falls at all.

See THEORY section 5.3.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from privcube.algebra.lattice import Floats, Integers
from privcube.progress import Work
from privcube.released.whole.blocks import Problem
from privcube.released.whole.facts import Impossible
from privcube.released.whole.flow import Fit
from privcube.released.whole.generator import Generator, systematic
from privcube.released.whole.particles import drawn_anew, scores_along
from privcube.released.whole.records import Codes, Records

MOST_SWEEPS: Final = 120
_ENOUGH: Final = 0.01**2  # of the expected squared error of the estimates, which is there anyway
_SLOW: Final = 0.995  # of what it was three sweeps before: no further progress
_LEAST_SWEEPS: Final = 6


def rounded(problem: Problem, fit: Fit, total: int, impossible: Impossible, random: Generator, work: Work) -> Records:
    """So many whole records, whose tables are near the coordinates of a fit."""
    codes = fit.particles.codes
    if total == 0:
        return Records(codes[:0], np.zeros(0, dtype=np.int64))
    order = _order(problem, codes)
    codes = codes[order]
    weights = fit.weights[order] * (total / float(fit.weights.sum()))
    whole = np.floor(weights * (1 - 1e-12)).astype(np.int64)
    rest = total - int(whole.sum())
    single = codes[systematic(weights - whole + 1e-12, rest, random)].copy()
    moving = _Moving(problem, fit.coordinates, codes, whole, single, impossible)
    history = [moving.distance]
    for sweep in range(MOST_SWEEPS):
        if history[-1] <= _ENOUGH * problem.noise or not len(single):
            break
        for at in random.permutation(len(problem.sizes)).tolist():
            if problem.sizes[at] > 1:
                moving.move(at, random)
        history.append(moving.distance)
        work.add()
        if sweep >= _LEAST_SWEEPS and history[-1] > _SLOW * history[-4]:
            break
    return Records.of(np.concatenate([codes, moving.codes]), np.concatenate([whole, np.ones(rest, dtype=np.int64)]))


def _order(problem: Problem, codes: Codes) -> Integers:
    """Records that are alike next to each other, so that neighbors make up for what one of them is rounded by."""
    if not codes.shape[1]:
        return np.arange(len(codes))
    by_blocks = np.argsort([len(own) for own in problem.touching], kind="stable")
    return np.lexsort([codes[:, at] for at in by_blocks])


class _Change(NamedTuple):
    """What moves of some records along one attribute do to a block."""

    block: int
    keys: Integers  # of the moved records, after the move
    coordinates: Floats


class _Moving:
    """Records that move, beside others that stay, and how far the coordinates of all are from a goal."""

    def __init__(
        self, problem: Problem, goal: Floats, codes: Codes, whole: Integers, single: Codes, impossible: Impossible
    ) -> None:
        self.codes = single
        self._problem, self._impossible = problem, impossible
        self._keys = problem.keys(single)
        standing = problem.coordinates(problem.keys(codes), whole.astype(np.float64))
        off = standing + problem.coordinates(self._keys, np.ones(len(single))) - goal
        self._off = [off[part] for part in problem.parts]
        self._metric = [problem.metric[part] for part in problem.parts]

    @property
    def distance(self) -> float:
        """The squared distance from the goal, in the metric."""
        return sum(float(np.sum(metric * off**2)) for metric, off in zip(self._metric, self._off, strict=True))

    def move(self, at: int, random: Generator) -> None:
        """Move records along one attribute, if that helps."""
        old = self.codes[:, at].astype(np.int64)
        new = self._proposed(at, old, random)
        movers = np.flatnonzero(new != old)
        alone = float(self._problem.goals.curvatures[at]) * len(movers)  # the curvature if moves did not add up
        changes = self._changes(at, movers, (new - old)[movers])
        slope, curve = self._slope_and_curve(changes)
        share = 1.0 if curve <= 1.0001 * alone else -(slope + 0.5 * alone) / (curve - alone)
        if share < 1.0:
            movers = movers[random.random(len(movers)) < share]
            changes = self._changes(at, movers, (new - old)[movers])
            slope, curve = self._slope_and_curve(changes)
        if slope + 0.5 * curve >= 0 or not len(movers):
            return
        for block, keys, coordinates in changes:
            self._keys[block][movers] = keys
            self._off[block] = self._off[block] + coordinates
        self.codes[movers, at] = new[movers]

    def _proposed(self, at: int, old: Integers, random: Generator) -> Integers:
        """The value that every record proposes: its own, or one with a gain."""
        problem = self._problem
        gradient = [np.zeros(0)] * len(problem.blocks)
        for number, _ in problem.touching[at]:
            gradient[number] = problem.blocks[number].function(self._metric[number] * self._off[number])
        half = 0.5 * float(problem.goals.curvatures[at])
        some = drawn_anew(len(old), problem.sizes[at], random)
        new, now = old.copy(), old[some]
        totals, chosen = np.zeros(len(now)), now.copy()
        for rows, scores in scores_along(problem, self.codes, self._keys, gradient, self._impossible, at, some):
            own = now[rows]
            gains = np.maximum(np.take_along_axis(scores, own[:, None], axis=1) - half - scores, 0.0)
            np.put_along_axis(gains, own[:, None], 0.0, axis=1)
            np.cumsum(gains, axis=1, out=gains)
            totals[rows] = gains[:, -1]
            draws = random.random(len(own)) * gains[:, -1]
            chosen[rows] = np.minimum((gains <= draws[:, None]).sum(axis=1), gains.shape[1] - 1)
        proposes = random.random(len(now)) * totals.max(initial=0.0) < totals
        new[some] = np.where(proposes, chosen, now)
        return new

    def _changes(self, at: int, movers: Integers, by: Integers) -> list[_Change]:
        changes = []
        for number, axis in self._problem.touching[at]:
            block = self._problem.blocks[number]
            before = self._keys[number][movers]
            after = before + by * block.grid.strides[axis]
            counts = np.bincount(after, minlength=block.cells) - np.bincount(before, minlength=block.cells)
            changes.append(_Change(number, after, block.coordinates(counts.astype(np.float64))))
        return changes

    def _slope_and_curve(self, changes: list[_Change]) -> tuple[float, float]:
        slope = sum(float(np.sum(self._metric[own.block] * self._off[own.block] * own.coordinates)) for own in changes)
        curve = sum(float(np.sum(self._metric[own.block] * own.coordinates**2)) for own in changes)
        return slope, curve
