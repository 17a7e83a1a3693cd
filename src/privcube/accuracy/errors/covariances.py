"""How the errors of a table's numbers go together: the covariance of any two of them. Zone: PUBLIC.

Optimal recovery answers the queries q and q' with errors of covariance sum_b <Pi_b q, Pi_b q'> spread_b / p_b^2
(`privcube.accuracy.error_bars`), and <Pi_b q, Pi_b q'> is a product over the entries of a table. Along an entry the
pairs of numbers fall into few classes whose products are equal for all levels b: on an axis of single cells there are
two, pairs of different cells and pairs of a cell with itself. So the covariances of a table are an array with one axis
per entry and one place per class.

See THEORY section 11.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from privcube.accuracy.layout import recovered_table
from privcube.accuracy.published import has_single_cells, padded_cells, published_rows
from privcube.algebra.lattice import Floats, Integers
from privcube.model.frame import Frame
from privcube.model.groups import cells_groups
from privcube.model.workload import Axis, axis_cells

_MOST_NUMBERS: Final = 120  # of an entry whose pairs are compared one by one
_MOST_CLASSES: Final = 36  # of pairs along an entry
_ALIKE: Final = 1e-9  # relative; products that differ by less are equal


@dataclass(frozen=True, eq=False)
class PairClasses:
    """The classes of pairs of numbers along one entry, and <Pi_b q, Pi_b q'> of each, by levels b."""

    class_of: Integers | None  # number x number; None: 1 for a number with itself, 0 for all other pairs
    products: Floats  # class x levels of the axes


@dataclass(frozen=True, eq=False)
class Covariances:
    """The covariance of any two numbers of a table: `values` at the classes of the pair, entry by entry."""

    class_of: tuple[Integers | None, ...]  # as in `PairClasses`
    values: Floats

    def between(self, first: tuple[int, ...], second: tuple[int, ...]) -> float:
        """The covariance of two numbers, given their places along each entry."""
        pairs = zip(self.class_of, first, second, strict=True)
        return float(self.values[tuple(int(i == j) if own is None else int(own[i, j]) for own, i, j in pairs)])


def pair_classes(frame: Frame, entry: str | Axis) -> PairClasses | None:
    """The classes of pairs along an entry; None if there are too many to list.

    >>> from privcube.model.schema import Schema
    >>> pair_classes(Frame(Schema.from_sizes({"a": 4}), "natural"), "a").products.tolist()
    [[0.25, -0.25], [0.25, 0.75]]
    """
    (footprint,) = cells_groups(frame, [recovered_table(frame, (entry,))])
    sizes = [frame.sizes[part.axis][: part.level + 1] for part in footprint]
    if len(sizes) == 1 and len(sizes[0]) == 2 and has_single_cells(frame, entry):
        even = 1 / sizes[0][-1]
        return PairClasses(None, np.array([[even, -even], [even, 1 - even]]))
    count = axis_cells(frame.schema, entry)
    if count > _MOST_NUMBERS or padded_cells(frame, entry) > 4 * _MOST_NUMBERS:
        return None
    rows = published_rows(frame, entry)
    rows = np.eye(count) if rows is None else rows
    products = np.zeros((count, count, *(len(chain) for chain in sizes)))
    for levels in np.ndindex(*products.shape[2:]):
        averaged = rows.reshape(count, *(chain[-1] for chain in sizes))
        width = 1
        for at, (chain, level) in enumerate(zip(sizes, levels, strict=True), start=1):
            share = chain[-1] // chain[level]
            blocks = averaged.reshape(*averaged.shape[:at], chain[level], share, *averaged.shape[at + 1 :])
            averaged, width = blocks.mean(axis=at + 1), width * share
        flat = averaged.reshape(count, -1)
        products[(slice(None), slice(None), *levels)] = width * (flat @ flat.T)
    for axis in range(2, products.ndim):
        products = np.diff(products, axis=axis, prepend=0)
    listed = products.reshape(count**2, -1)
    rounded = np.round(listed / (_ALIKE * np.abs(listed).max()))
    _, first, class_of = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
    if len(first) > _MOST_CLASSES:
        return None
    return PairClasses(class_of.reshape(count, count), listed[first].reshape(-1, *products.shape[2:]))
