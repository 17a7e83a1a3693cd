"""Particles: rows of codes that stand for records, all of them or a sample that keeps to where the mass is.

Zone: RELEASED.

Where attributes have few combinations, every combination is a particle. Else particles start at independent attributes
and move by Gibbs sweeps: one attribute after the other is drawn anew, given the others, under the weights of the flow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from privcube.algebra.lattice import Floats, Integers
from privcube.released.whole.blocks import Problem
from privcube.released.whole.facts import Impossible
from privcube.released.whole.generator import Generator, systematic
from privcube.released.whole.goals import Goals
from privcube.released.whole.records import Codes

_AT_ONCE: Final = 2**21  # scores worked out at a time: 16 MiB
_MOST_SCORES: Final = 2**25  # of one attribute in a sweep: of attributes with very many values, some particles move
_FORBIDDEN: Final = 1e6  # the score of a combination that cannot occur; weights are far below exp(1e6)
_WAYS_OUT: Final = 20  # sweeps that particles in impossible combinations get to leave them


@dataclass(eq=False)
class Particles:
    """Rows of codes with their cells in the blocks; `complete` if they are all combinations there are."""

    codes: Codes
    keys: list[Integers]
    complete: bool

    def __len__(self) -> int:
        return len(self.codes)

    def picked(self, which: Integers) -> Particles:
        """Some of the particles, perhaps several times."""
        return Particles(self.codes[which], [own[which] for own in self.keys], False)


def first_shares(goals: Goals) -> list[Floats]:
    """For every column of the records, the share of each cell as its own tables estimate it, none of them negative.

    What is estimated as nothing gets a little, as a share of 0 would stay 0.
    """
    shares = [np.zeros(size) for size in goals.sizes]
    total = goals.total
    for place, (own, column) in enumerate(zip(goals.attributes, goals.columns, strict=True)):
        estimate = np.zeros(own.rows.shape[0])
        estimate[0] = total / own.cells**0.5
        for depth in range(1, len(own.levels) + 1):
            goal = goals.residuals.get(((place, depth),))
            if goal is not None:
                estimate[own.span(depth)] = goal.estimate
        share = np.maximum(own.rows.T @ estimate, 0.5 + 1e-3 * max(total, 0.0) / own.cells)
        shares[column] += share / share.sum()
    return [share / share.sum() for share in shares]


def first_particles(
    problem: Problem, shares: Sequence[Floats], impossible: Impossible, most: int, random: Generator
) -> tuple[Particles, Floats]:
    """Particles at independent attributes, and the share of each in all records."""
    sizes = problem.sizes
    kind = np.uint8 if max(sizes, default=0) <= 2**8 else np.uint16
    if prod(sizes) <= most:
        places = np.unravel_index(np.arange(prod(sizes)), sizes) if sizes else ()
        codes = np.stack([place.astype(kind) for place in places], axis=1) if sizes else np.zeros((1, 0), dtype=kind)
        weights = np.ones(len(codes))
        for share, column in zip(shares, codes.T, strict=True):
            weights *= share[column]
        possible = impossible.allows(codes)
        codes, weights = codes[possible], weights[possible]
        return Particles(codes, problem.keys(codes), True), weights / weights.sum()
    columns = [random.permutation(systematic(share, most, random)).astype(kind) for share in shares]
    particles = Particles(codes := np.stack(columns, axis=1), problem.keys(codes), False)
    nothing = [np.zeros(block.cells) for block in problem.blocks]
    for _ in range(_WAYS_OUT):
        if impossible.allows(particles.codes).all():
            break
        sweep(problem, particles, nothing, shares, impossible, random)
    particles = particles.picked(np.flatnonzero(impossible.allows(particles.codes)))
    return particles, np.full(len(particles), 1.0 / max(len(particles), 1))


def sweep(
    problem: Problem,
    particles: Particles,
    functions: Sequence[Floats],
    shares: Sequence[Floats],
    impossible: Impossible,
    random: Generator,
) -> None:
    """Draw every attribute of every particle anew, given its others, under shares times exp(-functions)."""
    for at in random.permutation(len(problem.sizes)).tolist():
        size = problem.sizes[at]
        if size == 1:
            continue
        some = drawn_anew(len(particles), size, random)
        old = particles.codes[some, at].astype(np.int64)
        new = old.copy()
        for rows, scores in scores_along(problem, particles.codes, particles.keys, functions, impossible, at, some):
            scores -= np.log(shares[at])
            scores -= scores.min(axis=1, keepdims=True)
            np.exp(-scores, out=scores)
            np.cumsum(scores, axis=1, out=scores)
            draws = random.random(len(scores)) * scores[:, -1]
            new[rows] = np.minimum((scores < draws[:, None]).sum(axis=1), size - 1)
        changed = np.flatnonzero(new != old)
        moved = changed if isinstance(some, slice) else some[changed]
        for number, axis in problem.touching[at]:
            particles.keys[number][moved] += (new - old)[changed] * problem.blocks[number].grid.strides[axis]
        particles.codes[moved, at] = new[changed]


def drawn_anew(particles: int, size: int, random: Generator) -> slice | Integers:
    """The particles that are moved along an attribute: all, or some at random if it has very many values."""
    most = max(_MOST_SCORES // size, 1)
    if particles <= most:
        return slice(None)
    return np.sort(random.choice(particles, most, replace=False))


def scores_along(
    problem: Problem,
    codes: Codes,
    keys: Sequence[Integers],
    functions: Sequence[Floats],
    impossible: Impossible,
    at: int,
    some: slice | Integers,
) -> Iterator[tuple[slice, Floats]]:
    """For slices of some records, the sum of functions with one attribute at each of its values: record x value."""
    size = problem.sizes[at]
    codes = codes[some]
    tables = [
        (keys[number][some], *problem.blocks[number].grid.along(functions[number], axis))
        for number, axis in problem.touching[at]
    ]
    forbidden = [
        (grid.keys(codes), *grid.along(np.where(mask, _FORBIDDEN, 0.0), axis))
        for grid, mask, axis in impossible.touching(at)
    ]
    step = max(1, _AT_ONCE // size)
    for start in range(0, len(codes), step):
        rows = slice(start, min(start + step, len(codes)))
        scores = np.zeros((rows.stop - rows.start, size))
        for own, values, row_of in (*tables, *forbidden):
            scores += values.take(row_of.take(own[rows]), axis=0)
        yield rows, scores
