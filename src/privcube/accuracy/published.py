"""Published numbers as queries on the padded cells of a frame. Zone: PUBLIC.

A table at a level that the axes lack is a set of queries, each the sum of the cells of a group. These are published
cells of the coarsest level that the axes have and the wanted one merges, so all tables agree.

Recovery works on padded axes, and its padded tables agree with each other. A padded cell holds only noise around zero,
but dropping it would leave parents that differ from the sum of their children. So its estimate is spread evenly over
the real cells next to it, from the coarsest level to the finest: a child is published as c + (P - sum of c over the
real children) / (number of real children), where P is its parent's published value. This preserves sums at every level
and adds no bias, and every published number is a known linear query on padded cells. Plans predict the errors of these
queries (`mean_energies`), and a release reports them (`privcube.accuracy.closed_form`).

See THEORY section 5.1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from privcube.accuracy.ranges import bounds, chain_energies, gram
from privcube.algebra.lattice import Floats, Integers
from privcube.errors import Plain, PlanError
from privcube.model.attribute import Attribute
from privcube.model.frame import Frame
from privcube.model.measures.measure import cell_weights
from privcube.model.workload import Axis, axis_cells

_NOTHING: Final = 1e-12  # relative; energies below this are rounding errors
_LITTLE: Final = 1e-9  # relative; what is asked at least of each level by a sum, at 3e-5 of its variance
_MOST_PADDED: Final = 8192  # cells of an attribute: a square matrix of them takes 512 MiB


def recovered_entry(frame: Frame, entry: str | Axis) -> str | Axis:
    """The cells that an entry is summed from: those of a level if the frame has one for it, else of the attribute."""
    if isinstance(entry, str):
        return entry
    level = frame.source(frame.schema[entry.attribute], entry.level)
    return entry.attribute if level is None else Axis(entry.attribute, level)


def group_of_cells(frame: Frame, entry: str | Axis) -> Integers | None:
    """For each of the cells that an entry is summed from, the group it is in; None if the entry has these cells."""
    if isinstance(entry, str) or entry.level is None or recovered_entry(frame, entry) == entry:
        return None
    attribute = frame.schema[entry.attribute]
    return attribute.partition(entry.level).over(attribute.partition(frame.source(attribute, entry.level)))


def groups_in_place(frame: Frame, entry: str | Axis) -> Integers | None:
    """The group of every cell on the axis of an entry, in the order of the axis; None unless its numbers are such sums.

    Where cells are padded, numbers are not plain sums of cells. There may be very many cells, so no matrix is formed.
    """
    group_of = None if frame.kind == "binary" or is_padded(frame, entry) else group_of_cells(frame, entry)
    return None if group_of is None else group_of[np.argsort(frame.positions(*_summed_from(frame, entry)))]


def grouped(counts: Floats, at: int, group_of: Integers) -> Floats:
    """Sum the cells along an axis into groups, given the group of each.

    >>> grouped(np.array([1.0, 2.0, 4.0]), 0, np.array([1, 0, 1])).tolist()
    [2.0, 5.0]
    """
    moved = np.moveaxis(counts, at, 0)
    sums = np.zeros((int(group_of.max()) + 1, *moved.shape[1:]))
    np.add.at(sums, group_of, moved)
    return np.moveaxis(sums, 0, at)


def padded_cells(frame: Frame, entry: str | Axis) -> int:
    """How many padded cells an entry of a table is summed from."""
    return frame.nested_sizes(*_summed_from(frame, entry))[-1]


def published_rows(frame: Frame, entry: str | Axis) -> Floats | None:
    """The published numbers of an entry as rows of weights on its padded cells; None if they are those cells.

    >>> from privcube.model.schema import Schema
    >>> published_rows(Frame(Schema.from_sizes({"a": 3}), "binary"), "a").round(3).tolist()
    [[1.0, 0.0, 0.0, 0.333], [0.0, 1.0, 0.0, 0.333], [0.0, 0.0, 1.0, 0.333]]
    """
    axis = Axis.of(entry)
    attribute, level = _summed_from(frame, entry)
    rows, group_of = cell_rows(frame, attribute, level), group_of_cells(frame, entry)
    if axis.queries == "cells" and group_of is None:
        return rows
    if rows is None:
        rows = np.eye(attribute.partition(level).cells)
    if group_of is not None:
        return grouped(rows, 0, group_of)
    if axis.is_measured:
        return np.asarray(cell_weights(attribute, axis.queries)[None] @ rows)
    running = np.vstack([np.zeros((1, rows.shape[1])), np.cumsum(rows[: attribute.ordered_cells], axis=0)])
    first, last = bounds(axis.queries, attribute.ordered_cells)
    return np.asarray(running[last] - running[first])


def numbers_of(frame: Frame, entry: str | Axis) -> Callable[[int], Floats]:
    """What makes any one of the published numbers of an entry as weights on its padded cells."""
    group_of = groups_in_place(frame, entry)
    if group_of is not None:
        return lambda number: np.asarray(group_of == number, dtype=np.float64)
    rows, cells = published_rows(frame, entry), padded_cells(frame, entry)
    return lambda number: np.eye(1, cells, number)[0] if rows is None else rows[number]


def spread_out(frame: Frame, entry: str | Axis, weights: Floats, at: int) -> Floats:
    """Weights on the published numbers of an entry, along an axis, as weights on its padded cells."""
    group_of = groups_in_place(frame, entry)
    if group_of is not None:
        return np.take(weights, group_of, axis=at)
    rows = published_rows(frame, entry)
    return weights if rows is None else np.moveaxis(np.tensordot(rows, weights, axes=(0, at)), 0, at)


def line_parts(frame: Frame, entry: str | Axis) -> Floats:
    """For every published number of an entry, the sum of its weights on padded cells over the number of these.

    >>> from privcube.model.schema import Schema
    >>> line_parts(Frame(Schema.from_sizes({"a": 3}), "binary"), "a").round(3).tolist()  # (1 + 1/3) / 4
    [0.333, 0.333, 0.333]
    """
    group_of = groups_in_place(frame, entry)
    if group_of is not None:
        return np.bincount(group_of) / len(group_of)
    rows, cells = published_rows(frame, entry), padded_cells(frame, entry)
    return np.full(cells, 1 / cells) if rows is None else np.asarray(rows.sum(axis=1) / cells)


def is_padded(frame: Frame, entry: str | Axis) -> bool:
    """Whether what an entry is summed from has more cells on the axes of a frame than it has values."""
    attribute, level = _summed_from(frame, entry)
    cells = attribute.cells if level is None else attribute.partition(level).cells
    return frame.nested_sizes(attribute, level)[-1] > cells


def has_single_cells(frame: Frame, entry: str | Axis) -> bool:
    """Whether the published numbers of an entry are single cells of its axes, all of them."""
    return Axis.of(entry).queries == "cells" and group_of_cells(frame, entry) is None and not is_padded(frame, entry)


def cell_rows(frame: Frame, attribute: Attribute, level: str | None) -> Floats | None:
    """The published cells of an attribute as weights on its padded cells; None if the two are identical."""
    real = np.asarray(frame.positions(attribute, level), dtype=np.int64)
    sizes = frame.nested_sizes(attribute, level)
    padded = sizes[-1]
    if len(real) == padded and np.array_equal(real, np.arange(padded)):
        return None
    rows = {0: np.ones(padded)}
    above = 1
    for size in sizes:
        width, fan_out = padded // size, size // above
        children: defaultdict[int, list[int]] = defaultdict(list)
        for node in np.unique(real // width).tolist():
            children[node // fan_out].append(node)
        finer = {}
        for parent, nodes in children.items():
            own = np.zeros((len(nodes), padded))
            for at, node in enumerate(nodes):
                own[at, node * width : (node + 1) * width] = 1.0
            surplus = (rows[parent] - own.sum(axis=0)) / len(nodes)
            finer.update({node: own[at] + surplus for at, node in enumerate(nodes)})
        rows, above = finer, size
    return np.stack([rows[node] for node in real.tolist()])


@lru_cache(maxsize=256)  # trees of many branchings ask for the same ones several times
def mean_energies(frame: Frame, entry: str | Axis) -> Floats:
    """The mean of |Pi_b q|^2 over the published numbers q of an entry, for all levels b of its axes.

    >>> from privcube.model.schema import Schema
    >>> mean_energies(Frame(Schema.from_sizes({"a": 3}), "binary"), "a").round(3).tolist()
    [[0.444, 0.222], [0.222, 0.222]]
    """
    sizes = [frame.sizes[axis][: level + 1] for axis, level in frame.footprint(*_summed_from(frame, entry))]
    if frame.kind == "tree" and group_of_cells(frame, entry) is None and not Axis.of(entry).is_measured:
        queries, attribute = Axis.of(entry).queries, frame.schema[Axis.of(entry).attribute]
        _refuse_wide(attribute, sizes[0][-1])
        means = chain_energies(queries, attribute.ordered_cells, attribute.cells, sizes[0])
    elif all(chain == (1, 2) for chain in sizes):
        means = _on_bits(asked_products(frame, entry)).reshape([2] * len(sizes))
    else:
        means = _on_chain(_asked(frame, entry), *sizes)
    means = np.where(means > _NOTHING * means.sum(), means, 0.0)
    if Axis.of(entry).is_measured:  # sums over a range around 0 do not depend on the count, but recovery gives both
        means = np.maximum(means, _LITTLE * means.sum())
    means.flags.writeable = False  # it is cached
    return means


def _on_bits(products: Floats) -> Floats:
    """Energies on axes of one bit each: |Pi_b q|^2 = sum over cells x, y of (-1)^<b, x xor y> q_x q_y / N.

    The products are first added up by x xor y, then transformed (Walsh and Hadamard), bit by bit.
    """
    cells = np.arange(len(products))
    found = np.array([products[cells, cells ^ apart].sum() for apart in cells.tolist()]) / len(cells)
    half = 1
    while half < len(found):
        pairs = found.reshape(-1, 2, half)
        found = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        half *= 2
    return found


def _on_chain(asked: _Asked, sizes: Sequence[int]) -> Floats:
    """Energies on one axis: |P_l q|^2 is the sum over the blocks of level l of the squared block sum over its length.

    A number is a cell plus weights on padded cells, so these squares have three parts: of cells, of cells times padded
    cells, and of padded cells. No matrix over padded cells is formed.
    """
    order = np.argsort(asked.real, kind="stable")
    real, beside = asked.real[order], asked.own_times(asked.weights)[order]
    both = asked.weights[order].T @ beside
    blocks = None if asked.own is None else asked.own[np.ix_(order, order)]
    nodes, kept = real, []
    for size in reversed(sizes):
        width = sizes[-1] // size
        number, first = np.unique(nodes // width, return_index=True)
        if blocks is not None:
            for _ in range(2):  # rows, then columns: the matrix is symmetric
                blocks = np.add.reduceat(blocks, first, axis=0).T
        beside = np.add.reduceat(beside, first, axis=0)
        nodes = nodes[first]
        padded = np.zeros((size, beside.shape[1]))
        np.add.at(padded, (asked.padding // width, asked.alike), 1.0)
        cells = float(len(real) if blocks is None else np.trace(blocks))
        total = cells + 2 * np.sum(padded[number] * beside) + np.sum((padded @ both) * padded)
        kept.append(float(total) * size / sizes[-1] / asked.count)
    return np.diff(kept[::-1], prepend=0.0)


def asked_products(frame: Frame, entry: str | Axis) -> Floats:
    """The mean of q q' over the published numbers q of an entry, on its padded cells."""
    asked = _asked(frame, entry)
    real, padding, alike = asked.real, asked.padding, asked.alike
    beside = asked.own_times(asked.weights)
    products = np.zeros((len(real) + len(padding),) * 2)
    products[np.ix_(real, real)] = np.eye(len(real)) if asked.own is None else asked.own
    products[np.ix_(real, padding)] = beside[:, alike]
    products[np.ix_(padding, real)] = beside[:, alike].T
    products[np.ix_(padding, padding)] = (asked.weights.T @ beside)[np.ix_(alike, alike)]
    return np.asarray(products / asked.count)


@dataclass(frozen=True)
class _Asked:
    """The published numbers of an entry: a Gram matrix over published cells, each a cell plus weights on padding."""

    count: int  # of numbers
    own: Floats | None  # the Gram matrix; None for the identity
    real: Integers  # the places of the cells
    padding: Integers  # the places of padded cells
    weights: Floats  # cell x column
    alike: Integers  # the column of each padded cell

    def own_times(self, matrix: Floats) -> Floats:
        return matrix if self.own is None else np.asarray(self.own @ matrix)


def _asked(frame: Frame, entry: str | Axis) -> _Asked:
    axis = Axis.of(entry)
    attribute, level = _summed_from(frame, entry)
    sizes = frame.nested_sizes(attribute, level)
    _refuse_wide(attribute, sizes[-1])
    real, group_of = np.asarray(frame.positions(attribute, level), dtype=np.int64), group_of_cells(frame, entry)
    count, cells = axis_cells(frame.schema, entry), attribute.ordered_cells
    own: Floats | None = None
    if axis.is_measured:
        own = np.multiply.outer(*(cell_weights(attribute, axis.queries),) * 2)
    elif axis.is_ranged:
        own = np.zeros((len(real), len(real)))
        own[:cells, :cells] = gram(axis.queries, cells)
    elif group_of is not None:
        own = (group_of[:, None] == group_of).astype(np.float64)
    return _Asked(count, own, real, *_padding_weights(real, sizes))


def _padding_weights(real: Integers, sizes: Sequence[int]) -> tuple[Integers, Floats, Integers]:
    """The padded cells, the weights that published cells put on them, and the column of weights of each padded cell.

    A published cell is the cell itself plus weights on padded cells (`cell_rows` without the columns of real cells). A
    padded cell belongs to the coarsest padded node above it; the real nodes beside that node share it evenly, and so do
    their real children, down to the cells. So all padded nodes with the same parent have the same weights.
    """
    padding = np.setdiff1d(np.arange(sizes[-1]), real)
    left = np.ones(len(padding), dtype=bool)
    alike = np.zeros(len(padding), dtype=np.int64)
    columns: list[tuple[int, int]] = []  # step, parent
    parts, parents = [], []  # per step, of each real cell: its parent's part for a child, and the parent
    above = 1
    for step, size in enumerate(sizes):
        width, fan_out = sizes[-1] // size, size // above
        nodes = np.unique(real // width)
        children = np.bincount(nodes // fan_out, minlength=above)
        parents.append(real // width // fan_out)
        parts.append(1 / children[parents[-1]])
        fresh = left & ~np.isin(padding // width, nodes)
        owners, place = np.unique(padding[fresh] // width // fan_out, return_inverse=True)
        alike[fresh] = len(columns) + place
        columns += [(step, owner) for owner in owners.tolist()]
        left &= ~fresh
        above = size
    shared = np.cumprod(parts[::-1], axis=0)[::-1]
    weights = np.zeros((len(real), len(columns)))
    for column, (step, owner) in enumerate(columns):
        weights[:, column] = np.where(parents[step] == owner, shared[step], 0.0)
    return padding, weights, alike


def _refuse_wide(attribute: Attribute, cells: int) -> None:
    if cells > _MOST_PADDED:
        expected = f"at most {_MOST_PADDED:,} cells on axes with more cells than values"
        raise PlanError(repr(attribute.name), expected=expected, given=Plain(f"{cells:,}"))


def _summed_from(frame: Frame, entry: str | Axis) -> tuple[Attribute, str | None]:
    """The attribute of an entry, and the level of the frame that the entry is summed from."""
    axis = Axis.of(recovered_entry(frame, entry))
    return frame.schema[axis.attribute], axis.level
