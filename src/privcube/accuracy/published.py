"""Published numbers as queries on padded cells, where a frame has more cells than there are values. Zone: PUBLIC.

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
from typing import Final

import numpy as np

from privcube.accuracy.ranges import bounds, chain_energies, gram
from privcube.algebra.lattice import Floats
from privcube.errors import Plain, PlanError
from privcube.model.attribute import Attribute
from privcube.model.frame import Frame
from privcube.model.levels import Partition
from privcube.model.workload import Axis

_NOTHING: Final = 1e-12  # relative; energies below this are rounding errors
_MOST_PADDED: Final = 8192  # cells of an attribute: a square matrix of them takes 512 MiB


def recovered_entry(frame: Frame, entry: str | Axis) -> str | Axis:
    """The cells that an entry is summed from: a level if the frame has it, else the cells of the attribute."""
    if isinstance(entry, str):
        return entry
    return entry if entry.level and frame.keeps_levels(entry.attribute) else entry.attribute


def grouped(counts: Floats, at: int, partition: Partition) -> Floats:
    """Sum the cells along an axis into the groups of a partition."""
    moved = np.moveaxis(counts, at, 0)
    sums = np.zeros((partition.cells, *moved.shape[1:]))
    np.add.at(sums, np.asarray(partition.group_of), moved)
    return np.moveaxis(sums, 0, at)


def padded_cells(frame: Frame, entry: str | Axis) -> int:
    """How many padded cells an entry of a table is summed from."""
    known = recovered_entry(frame, entry)
    axis = Axis.of(known)
    return frame.nested_sizes(frame.schema[axis.attribute], axis.level)[-1]


def published_rows(frame: Frame, entry: str | Axis) -> Floats | None:
    """The published numbers of an entry as rows of weights on its padded cells; None if they are those cells.

    >>> from privcube.model.schema import Schema
    >>> published_rows(Frame(Schema.from_sizes({"a": 3}), "binary"), "a").round(3).tolist()
    [[1.0, 0.0, 0.0, 0.333], [0.0, 1.0, 0.0, 0.333], [0.0, 0.0, 1.0, 0.333]]
    """
    axis = Axis.of(entry)
    attribute = frame.schema[axis.attribute]
    kept = axis.level is None or frame.keeps_levels(axis.attribute)
    rows = cell_rows(frame, attribute, axis.level if kept else None)
    if axis.queries == "cells" and kept:
        return rows
    if rows is None:
        rows = np.eye(attribute.cells)
    if axis.queries == "cells":
        return grouped(rows, 0, attribute.partition(axis.level))
    running = np.vstack([np.zeros((1, rows.shape[1])), np.cumsum(rows[: attribute.ordered_cells], axis=0)])
    first, last = bounds(axis.queries, attribute.ordered_cells)
    return np.asarray(running[last] - running[first])


def is_padded(frame: Frame, entry: str | Axis) -> bool:
    """Whether an entry has more cells on the axes of a frame than it has values."""
    attribute, level = _whole(frame, entry)
    cells = attribute.cells if level is None else attribute.partition(level).cells
    return frame.nested_sizes(attribute, level)[-1] > cells


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


def mean_energies(frame: Frame, entry: str | Axis) -> Floats:
    """The mean of |Pi_b q|^2 over the published numbers q of an entry, for all levels b of its axes.

    >>> from privcube.model.schema import Schema
    >>> mean_energies(Frame(Schema.from_sizes({"a": 3}), "binary"), "a").round(3).tolist()
    [[0.444, 0.222], [0.222, 0.222]]
    """
    sizes = [frame.sizes[axis][: level + 1] for axis, level in frame.footprint(*_whole(frame, entry))]
    if frame.kind == "tree":
        queries, attribute = Axis.of(entry).queries, frame.schema[Axis.of(entry).attribute]
        _refuse_wide(attribute, sizes[0][-1])
        of_levels = chain_energies(queries, attribute.ordered_cells, attribute.cells, sizes[0])
        return np.where(of_levels > _NOTHING * of_levels.sum(), of_levels, 0.0)
    products = asked_products(frame, entry).reshape([chain[-1] for chain in sizes] * 2)
    means = np.zeros([len(chain) for chain in sizes])
    for levels in np.ndindex(*means.shape):
        blocks, width = products, 1
        for at, (chain, level) in enumerate(zip(sizes, levels, strict=True)):
            for axis in (at, len(sizes) + at):
                shape = (*blocks.shape[:axis], chain[level], chain[-1] // chain[level], *blocks.shape[axis + 1 :])
                blocks = blocks.reshape(shape).sum(axis=axis + 1)
            width *= chain[-1] // chain[level]
        means[levels] = np.trace(blocks.reshape(int(np.sqrt(blocks.size)), -1)) / width
    for axis in range(means.ndim):
        means = np.diff(means, axis=axis, prepend=0)
    return np.where(means > _NOTHING * means.sum(), means, 0.0)


def asked_products(frame: Frame, entry: str | Axis) -> Floats:
    """The mean of q q' over the published numbers q of an entry, on its padded cells."""
    axis = Axis.of(entry)
    attribute, level = _whole(frame, entry)
    sizes = frame.nested_sizes(attribute, level)
    _refuse_wide(attribute, sizes[-1])
    real = np.asarray(frame.positions(attribute, level), dtype=np.int64)
    cells = attribute.ordered_cells if axis.queries != "cells" else len(real)
    count = cells * (cells + 1) // 2 if axis.queries == "ranges" else cells
    own = np.zeros((len(real), len(real)))  # Gram matrix over published cells
    own[:cells, :cells] = np.eye(cells) if axis.queries == "cells" else gram(axis.queries, cells)
    if len(sizes) == 1:  # every padded cell is spread over all n real cells, with weight 1/n
        products = np.zeros((sizes[-1], sizes[-1]))
        padding = np.setdiff1d(np.arange(sizes[-1]), real)
        with_padding = own.sum(axis=1) / len(real)
        products[np.ix_(real, real)] = own
        products[np.ix_(real, padding)] = with_padding[:, None]
        products[np.ix_(padding, real)] = with_padding
        products[np.ix_(padding, padding)] = with_padding.sum() / len(real)
        return products / count
    rows = cell_rows(frame, attribute, level)
    return own / count if rows is None else np.asarray(rows.T @ own @ rows / count)


def _refuse_wide(attribute: Attribute, cells: int) -> None:
    if cells > _MOST_PADDED:
        expected = f"at most {_MOST_PADDED:,} cells on axes with more cells than values"
        raise PlanError(repr(attribute.name), expected=expected, given=Plain(f"{cells:,}"))


def _whole(frame: Frame, entry: str | Axis) -> tuple[Attribute, str | None]:
    axis = Axis.of(entry)
    return frame.schema[axis.attribute], axis.level
