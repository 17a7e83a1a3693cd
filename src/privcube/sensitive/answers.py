"""Exact answers to query groups from exact tables, in whole numbers. Zone: SENSITIVE.

Groups that ask the same of tables that look alike are answered together: their tables are put behind each other along
one more axis, the last, and added up once. Many Fourier coefficients of a table come from one Walsh-Hadamard transform.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from math import gcd, prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.accuracy.layout import Layout
from privcube.algebra.hashing import bucket_and_sign
from privcube.algebra.residuals import helmert_rows, square_rows
from privcube.errors import PlanError
from privcube.model.frame import Frame
from privcube.model.groups import Block, BlockGroup, Group, MatrixGroup, QueryGroup, SketchGroup

Counts = NDArray[np.int64]
Attributes = tuple[str, ...]

_SLICE_CELLS: Final = 2**20
_LARGEST: Final = 2**62
_HALF: Final = 32  # bits


def exact_answers(
    layout: Layout,
    groups: Sequence[Group | Block],
    tables: Sequence[Attributes],
    counts_of: Callable[[Attributes], Counts],
) -> list[Counts]:
    """The answers to groups, each row-major, from the exact counts of a table each whose attributes include its own.

    A block of a block group may be answered alone; the answers to the group are those of its blocks in order.

    >>> from privcube.model.groups import GroupPart
    >>> from privcube.model.schema import Schema
    >>> frame = Frame(Schema.from_sizes({"a": 2, "b": 2}), "binary")
    >>> group = (GroupPart(0, 1, "contrast"),)
    >>> exact_answers(Layout(frame), [group], [("a", "b")], lambda table: np.array([[5, 1], [2, 0]]))
    [array([4])]
    """
    found: dict[int, Counts] = {}
    products: dict[int, QueryGroup] = {}
    for number, (group, table) in enumerate(zip(groups, tables, strict=True)):
        if isinstance(group, SketchGroup):
            found[number] = _bucket_sums(layout.frame, group, table, _whole(counts_of(table)))
        elif isinstance(group, MatrixGroup):
            found[number] = _matrix_sums(group, table, _whole(counts_of(table)))
        elif isinstance(group, Block | BlockGroup):
            blocks = (group,) if isinstance(group, Block) else group.blocks
            found[number] = np.concatenate([_block_sums(block, table, _whole(counts_of(table))) for block in blocks])
        else:
            products[number] = group
    found.update(_coefficients(layout, products, tables, counts_of))
    others = {number: group for number, group in products.items() if number not in found}
    found.update(_together(layout, others, tables, counts_of))
    return [found[number] for number in range(len(groups))]


def in_parts(answers: Counts, counted_in: int, wanted: int) -> Counts:
    """Answers in parts of a record, from answers in finer or coarser ones, exactly.

    >>> in_parts(np.array([20, 40]), 10, 5).tolist()
    [10, 20]
    """
    if counted_in == wanted:
        return answers
    common = gcd(counted_in, wanted)
    counted_in, wanted = counted_in // common, wanted // common
    if int(np.abs(answers).max(initial=0)) > _LARGEST // wanted:
        raise PlanError("measures", expected="few enough records for answers of 62 bits; choose coarser steps")
    found, rest = np.divmod(answers * wanted, counted_in)
    if np.any(rest):
        raise PlanError("answers", expected="whole numbers of parts of a record")
    return np.asarray(found)


def _coefficients(
    layout: Layout,
    groups: Mapping[int, QueryGroup],
    tables: Sequence[Attributes],
    counts_of: Callable[[Attributes], Counts],
) -> Iterator[tuple[int, Counts]]:
    """The Fourier coefficients of tables that have more of them to answer than axes."""
    of_table: defaultdict[Attributes, list[int]] = defaultdict(list)
    for number, group in groups.items():
        if all(part.kind == "contrast" for part in group):
            of_table[tables[number]].append(number)
    for table, numbers in of_table.items():
        spots = _spots(layout.frame, table)
        if len(numbers) <= len(spots) or any(layout.frame.sizes[axis][level] != 2 for axis, level in spots):
            continue
        values = _transformed(layout, table, _whole(counts_of(table)))
        for number in numbers:
            own = {part.axis for part in groups[number]}
            place = tuple([int(axis in own) for axis, _ in spots])
            if sum(place) < len(own):
                raise _lacking()
            yield number, values[place].reshape(1)


def _transformed(layout: Layout, table: Attributes, counts: Counts) -> Counts:
    """A table over axes of two halves: along each the sum of the halves, and the first less the second."""
    _refuse_overflow(1, counts[..., None])
    answers = layout.padded(table, counts).reshape([2] * len(_spots(layout.frame, table)))
    for at in range(answers.ndim):
        first, second = np.moveaxis(answers, at, 0)
        answers = np.stack([first + second, first - second], axis=at)
    return answers


def _together(
    layout: Layout,
    groups: Mapping[int, QueryGroup],
    tables: Sequence[Attributes],
    counts_of: Callable[[Attributes], Counts],
) -> Iterator[tuple[int, Counts]]:
    """Groups that ask the same of tables that look alike, a bounded number at a time."""
    asked = _Asked(layout)
    alike: defaultdict[Hashable, list[int]] = defaultdict(list)
    for number, group in groups.items():
        alike[asked.of(group, tables[number])].append(number)
    for numbers in alike.values():
        group, table = groups[numbers[0]], tables[numbers[0]]
        step = max(1, _SLICE_CELLS // max(1, counts_of(table).size))
        for start in range(0, len(numbers), step):
            which = numbers[start : start + step]
            counts = np.stack([_whole(counts_of(tables[number])) for number in which], axis=-1)
            yield from zip(which, _sums(layout, group, table, counts), strict=True)


def _lacking() -> PlanError:
    return PlanError("exact counts", expected="a table with all attributes of the group")


def _whole(counts: Counts) -> Counts:
    if counts.dtype.kind not in "iu":
        raise PlanError("exact counts", expected="whole numbers")
    return counts.astype(np.int64, copy=False)


class _Asked:
    """What groups ask of tables, by attribute: the same for two whose answers are worked out alike."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._looks: dict[object, int] = {}
        self._attributes: dict[str, tuple[int, tuple[int, ...]]] = {}  # how each looks, and its axes

    def of(self, group: QueryGroup, table: Attributes) -> Hashable:
        """Refuses a table without an attribute of the group."""
        wanted = {part.axis: part[1:] for part in group}
        asked: list[object] = []
        for name in table:
            look, axes = self._attributes.get(name) or self._attribute(name)
            asked += [look, *[wanted.pop(axis, None) for axis in axes]]
        if wanted:
            raise _lacking()
        return tuple(asked)

    def _attribute(self, name: str) -> tuple[int, tuple[int, ...]]:
        frame = self._layout.frame
        spots = frame.footprint(frame.schema[name])
        look = self._layout.look(name), tuple([(tuple(frame.fan_outs[axis]), level) for axis, level in spots])
        known = self._looks.setdefault(look, len(self._looks)), tuple([axis for axis, _ in spots])
        self._attributes[name] = known
        return known


def _spots(frame: Frame, table: Attributes) -> list[tuple[int, int]]:
    """The axes of a table, each with its level."""
    return [spot for name in table for spot in frame.footprint(frame.schema[name])]


def _sums(layout: Layout, group: QueryGroup, table: Attributes, counts: Counts) -> Counts:
    """The answers to a group, row-major, from each of the tables along the last axis."""
    frame = layout.frame
    axes = _spots(frame, table)
    answers = layout.padded(table, counts)
    answers = answers.reshape([*(frame.sizes[axis][level] for axis, level in axes), counts.shape[-1]])
    wanted = {part.axis: part for part in group}
    _refuse_overflow(_largest_entry(frame, group), counts)
    for at, (axis, _) in reversed(list(enumerate(axes))):
        if axis not in wanted:
            answers = answers.sum(axis=at)
            continue
        part = wanted[axis]
        shape = (*answers.shape[:at], frame.sizes[axis][part.level], -1, *answers.shape[at + 1 :])
        answers = answers.reshape(shape).sum(axis=at + 1)
        if part.kind != "cells":  # contrasts are the Helmert rows of two children
            children = frame.fan_outs[axis][part.level - 1]
            rows = square_rows(children) if part.kind == "squares" else helmert_rows(children)
            families = np.moveaxis(answers, at, -1).reshape(-1, rows.shape[1]) @ rows.T
            lead = [size for i, size in enumerate(answers.shape) if i != at]
            answers = np.moveaxis(families.reshape(*lead, -1), -1, at)
    return np.ascontiguousarray(answers.reshape(-1, counts.shape[-1]).T, dtype=np.int64)


def _largest_entry(frame: Frame, group: QueryGroup) -> int:
    """f - 1 for Helmert rows, its square for their squares, multiplied over axes; else 1."""
    largest = 1
    for part in group:
        entry = max(frame.fan_outs[part.axis][part.level - 1] - 1, 1)
        largest *= {"helmert": entry, "squares": entry**2}.get(part.kind, 1)
    return largest


def _refuse_overflow(largest: int, counts: Counts) -> None:
    """An answer is at most the number of records of its table times the largest entry of its row.

    The tables stand along the last axis. Their totals are added up in halves of 32 bits, which cannot overflow.
    """
    mask = 2**_HALF - 1
    cells = counts.reshape(-1, counts.shape[-1])
    low = (cells & mask).sum(axis=0)
    high = (cells >> _HALF).sum(axis=0) + (low >> _HALF)
    most = _LARGEST // largest
    if np.any((high > most >> _HALF) | ((high == most >> _HALF) & (low & mask > most & mask))):
        raise PlanError("exact counts", expected="few enough records for answers of 62 bits")


def _matrix_sums(group: MatrixGroup, table: Attributes, counts: Counts) -> Counts:
    if not set(group.attributes) <= set(table):
        raise _lacking()
    _refuse_overflow(int(np.abs(group.matrix).max()), counts[..., None])
    out = tuple(at for at, name in enumerate(table) if name not in group.attributes)
    cells = counts.astype(np.int64, copy=False).sum(axis=out)
    return np.asarray(group.matrix @ cells.ravel(), dtype=np.int64)


def _block_sums(block: Block, table: Attributes, counts: Counts) -> Counts:
    """The matrix along its attributes, and Helmert rows along the contrasted ones; all others are added up."""
    core, contrasted = block.matrix.attributes, block.contrasted
    if not {*core, *contrasted} <= set(table):
        raise _lacking()
    sizes = [counts.shape[table.index(name)] for name in contrasted]
    largest = int(np.abs(block.matrix.matrix).max()) * prod([max(size - 1, 1) for size in sizes])
    _refuse_overflow(largest, counts[..., None])
    kept = [name for name in table if name in core or name in contrasted]
    answers = counts.sum(axis=tuple(at for at, name in enumerate(table) if name not in kept))
    answers = np.transpose(answers, [kept.index(name) for name in (*core, *contrasted)])
    answers = block.matrix.matrix @ answers.reshape(block.matrix.matrix.shape[1], -1)
    answers = answers.reshape(-1, *sizes)
    for at, size in enumerate(sizes, start=1):
        answers = np.moveaxis(np.tensordot(helmert_rows(size), answers, axes=(1, at)), 0, at)
    return np.ascontiguousarray(answers.reshape(-1), dtype=np.int64)


def _bucket_sums(frame: Frame, group: SketchGroup, table: Attributes, counts: Counts) -> Counts:
    if table != frame.schema.names:
        raise PlanError("exact counts", expected="the base table, for a sketch")
    bucket, sign = bucket_and_sign(group.partition, group.buckets, counts.size)
    sums = np.zeros(group.buckets, dtype=np.int64)
    np.add.at(sums, bucket, sign * counts.ravel().astype(np.int64))
    return sums
