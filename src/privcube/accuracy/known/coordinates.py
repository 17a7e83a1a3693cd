"""Tables as linear functions of uncorrelated coordinates of variance 1. Zone: PUBLIC.

The errors of all tables of a plan are known sums of a few uncorrelated ones: of residuals, where groups are products
over axes, and of single answers, where groups are matrices. So a covariance of two published numbers is a product of
two vectors of coordinates. With s_b the variance of residual b, a table of n padded cells has the coordinates
sqrt(s_b / n) Pi_b q of a number q; Pi_b q is kept as a function on the nodes of its levels, which has one value too
many below each parent, but the right products.

See THEORY section 5.4.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import prod
from typing import Protocol

import numpy as np

from privcube.accuracy.closed_form import ClosedForm
from privcube.accuracy.explicit import ExplicitForm
from privcube.accuracy.published import cell_rows, spread_out
from privcube.algebra.lattice import Floats
from privcube.model.frame import Frame
from privcube.model.groups import cells_groups
from privcube.model.workload import Axis, Table

Blocks = Mapping[Hashable, Floats]  # of each kind of coordinate: vector x coordinate


class Coordinates(Protocol):
    """Vectors of coordinates of the numbers of source tables (`Predictor.source`)."""

    def sizes(self, source: Table) -> dict[Hashable, int]:
        """The kinds of coordinates that a table has, and how many of each."""

    def of(self, source: Table, weights: Floats) -> Blocks:
        """The coordinates of sums of weights times the numbers of a table, one sum per row of the weights."""

    def tables(self, source: Table, blocks: Blocks) -> Floats:
        """The products of vectors with the coordinates of every number of a table; kinds not given are 0."""


class ResidualCoordinates:
    """Coordinates of plans whose groups are products over axes."""

    def __init__(self, frame: Frame, known: ClosedForm) -> None:
        self._frame, self._known = frame, known
        self._rows: dict[str | Axis, Floats | None] = {}

    def sizes(self, source: Table) -> dict[Hashable, int]:
        """The residuals below a table, and how many nodes each has."""
        chains = self._chains(source)
        found: dict[Hashable, int] = {}
        for key, levels, _ in self._residuals(source):
            found[key] = prod([chain[level] for chain, level in zip(chains, levels, strict=True)])
        return found

    def of(self, source: Table, weights: Floats) -> Blocks:
        """Spread weights over padded cells, and split these by levels."""
        values = weights
        for at, entry in enumerate(source):
            values = spread_out(self._frame, entry, values, at + 1)
        chains = self._chains(source)
        values = values.reshape(len(weights), *[chain[-1] for chain in chains])
        for at, chain in enumerate(chains):
            values = split(values, at + 1, chain)
        found: dict[Hashable, Floats] = {}
        for key, levels, scale in self._residuals(source):
            part = values[(slice(None), *_spans(chains, levels))]
            found[key] = scale * part.reshape(len(weights), -1)
        return found

    def tables(self, source: Table, blocks: Blocks) -> Floats:
        """Join the levels to padded cells, and publish these."""
        chains, count = self._chains(source), len(next(iter(blocks.values())))
        values = np.zeros((count, *[sum(chain) for chain in chains]))
        for key, levels, scale in self._residuals(source):
            if key in blocks:
                where = (slice(None), *_spans(chains, levels))
                values[where] = scale * blocks[key].reshape(values[where].shape)
        for at, chain in enumerate(chains):
            values = joined(values, at + 1, chain)
        return self._published(source, values)

    def _published(self, source: Table, values: Floats) -> Floats:
        for entry in source:
            if entry not in self._rows:
                axis = Axis.of(entry)
                self._rows[entry] = cell_rows(self._frame, self._frame.schema[axis.attribute], axis.level)
        own = [len(cells_groups(self._frame, [(entry,)])[0]) for entry in source]
        shape, start = [len(values)], 1
        for axes in own:
            shape.append(prod(values.shape[start : start + axes]))
            start += axes
        counts = values.reshape(shape)
        for at, entry in enumerate(source):
            rows = self._rows[entry]
            if rows is not None:
                counts = np.moveaxis(np.tensordot(rows, counts, axes=(1, at + 1)), 0, at + 1)
        return counts

    def _chains(self, source: Table) -> list[tuple[int, ...]]:
        """For every axis of a table, the nodes of each level down to its own."""
        (footprint,) = cells_groups(self._frame, [source])
        return [tuple(self._frame.sizes[part.axis][: part.level + 1]) for part in footprint]

    def _residuals(self, source: Table) -> list[tuple[Hashable, tuple[int, ...], float]]:
        """The residuals of a table: axes and levels above 0, the levels of all its axes, sqrt(s_b / n)."""
        (footprint,) = cells_groups(self._frame, [source])
        cells = prod([chain[-1] for chain in self._chains(source)])
        found: list[tuple[Hashable, tuple[int, ...], float]] = []
        for levels, variance in self._known.residual_variances(source):
            key = tuple([(part.axis, level) for part, level in zip(footprint, levels, strict=True) if level])
            found.append((key, levels, (variance / cells) ** 0.5))
        return found


class AnswerCoordinates:
    """Coordinates of plans with matrices: the noisy answers themselves."""

    def __init__(self, known: ExplicitForm) -> None:
        self._known = known

    def sizes(self, source: Table) -> dict[Hashable, int]:
        """The number of answers."""
        return {"answers": self._known.unit_rows(source).shape[-1]}

    def of(self, source: Table, weights: Floats) -> Blocks:
        """The weights on answers, times the standard deviation of their noise."""
        rows = self._known.unit_rows(source)
        return {"answers": weights.reshape(len(weights), -1) @ rows.reshape(-1, rows.shape[-1])}

    def tables(self, source: Table, blocks: Blocks) -> Floats:
        """The products with the weights of every number."""
        return np.moveaxis(self._known.unit_rows(source) @ blocks["answers"].T, -1, 0)


def split(values: Floats, axis: int, sizes: Sequence[int]) -> Floats:
    """What every level of an axis adds, as functions on its nodes, with the squares of values on cells.

    >>> split(np.array([5.0, 1.0, 3.0]), 0, (1, 3)).round(3).tolist()
    [5.196, 2.0, -2.0, 0.0]
    """
    moved = np.moveaxis(values, axis, -1)
    lead, cells = moved.shape[:-1], moved.shape[-1]
    parts, above = [], np.zeros((*lead, 1))
    for number, size in enumerate(sizes):
        means = moved.reshape(*lead, size, cells // size).mean(axis=-1)
        below = np.repeat(above, size // above.shape[-1], axis=-1) if number else 0.0
        parts.append((means - below) * (cells // size) ** 0.5)
        above = means
    return np.moveaxis(np.concatenate(parts, axis=-1), -1, axis)


def joined(values: Floats, axis: int, sizes: Sequence[int]) -> Floats:
    """The transpose of `split`, which is its inverse on what it gives.

    >>> joined(split(np.array([5.0, 1.0, 3.0, 0.0]), 0, (1, 2, 4)), 0, (1, 2, 4)).round(12).tolist()
    [5.0, 1.0, 3.0, 0.0]
    """
    moved = np.moveaxis(values, axis, -1)
    lead, cells = moved.shape[:-1], sizes[-1]
    total, start, above = np.zeros((*lead, cells)), 0, 1
    for number, size in enumerate(sizes):
        own = moved[..., start : start + size] / (cells // size) ** 0.5
        if number:
            families = own.reshape(*lead, above, size // above)
            own = (families - families.mean(axis=-1, keepdims=True)).reshape(*lead, size)
        total += np.repeat(own, cells // size, axis=-1)
        start, above = start + size, size
    return np.moveaxis(total, -1, axis)


def _spans(chains: Sequence[Sequence[int]], levels: Sequence[int]) -> list[slice]:
    """Where the nodes of a choice of levels are along split axes."""
    return [slice(sum(chain[:level]), sum(chain[: level + 1])) for chain, level in zip(chains, levels, strict=True)]
