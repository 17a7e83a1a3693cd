"""Exact answers to query groups from exact tables, in whole numbers. Zone: SENSITIVE."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privcube.algebra.hashing import bucket_and_sign
from privcube.algebra.residuals import helmert_rows
from privcube.errors import PlanError
from privcube.model.frame import Frame
from privcube.model.groups import Group, MatrixGroup, QueryGroup, SketchGroup
from privcube.model.workload import Table
from privcube.planning.layout import Layout

Counts = NDArray[np.int64]


def exact_answers(layout: Layout, group: Group, table: Table, counts: Counts) -> Counts:
    """The answers to a group, row-major, from the exact counts of a table whose attributes include the group's.

    >>> from privcube.model.groups import GroupPart
    >>> from privcube.model.schema import Schema
    >>> frame = Frame(Schema.from_sizes({"a": 2, "b": 2}), "binary")
    >>> exact_answers(Layout(frame), (GroupPart(0, 1, "contrast"),), ("a", "b"), np.array([[5, 1], [2, 0]]))
    array([4])
    """
    frame = layout.frame
    if counts.dtype.kind not in "iu":
        raise PlanError("exact counts", expected="whole numbers")
    if isinstance(group, SketchGroup):
        return _bucket_sums(frame, group, table, counts)
    if isinstance(group, MatrixGroup):
        return _matrix_sums(group, table, counts)
    axes = [spot for entry in table for spot in frame.footprint(frame.schema[_plain(entry)])]
    answers = layout.padded(table, counts.astype(np.int64, copy=False))
    answers = answers.reshape([frame.sizes[axis][level] for axis, level in axes])
    wanted = {part.axis: part for part in group}
    if not set(wanted) <= {axis for axis, _ in axes}:
        raise PlanError("exact counts", expected="a table with all attributes of the group")
    _refuse_overflow(_largest_entry(frame, group), counts)
    for at, (axis, _) in reversed(list(enumerate(axes))):
        if axis not in wanted:
            answers = answers.sum(axis=at)
            continue
        part = wanted[axis]
        shape = (*answers.shape[:at], frame.sizes[axis][part.level], -1, *answers.shape[at + 1 :])
        answers = answers.reshape(shape).sum(axis=at + 1)
        if part.kind != "cells":  # contrasts are the Helmert rows of two children
            rows = helmert_rows(frame.fan_outs[axis][part.level - 1])
            families = np.moveaxis(answers, at, -1).reshape(-1, rows.shape[1]) @ rows.T
            lead = [size for i, size in enumerate(answers.shape) if i != at]
            answers = np.moveaxis(families.reshape(*lead, -1), -1, at)
    return np.asarray(answers, dtype=np.int64).ravel()


def _largest_entry(frame: Frame, group: QueryGroup) -> int:
    """f - 1 for Helmert rows, multiplied over axes; else 1."""
    largest = 1
    for part in group:
        largest *= max(frame.fan_outs[part.axis][part.level - 1] - 1, 1) if part.kind == "helmert" else 1
    return largest


def _refuse_overflow(largest: int, counts: Counts) -> None:
    """An answer is at most the number of records times the largest entry of its row."""
    total = (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())
    if total * largest > 2**62:
        raise PlanError("exact counts", expected="few enough records for answers of 62 bits")


def _matrix_sums(group: MatrixGroup, table: Table, counts: Counts) -> Counts:
    if not set(group.attributes) <= set(table):
        raise PlanError("exact counts", expected="a table with all attributes of the group")
    _refuse_overflow(int(np.abs(group.matrix).max()), counts)
    out = tuple(at for at, entry in enumerate(table) if entry not in group.attributes)
    cells = counts.astype(np.int64, copy=False).sum(axis=out)
    return np.asarray(group.matrix @ cells.ravel(), dtype=np.int64)


def _bucket_sums(frame: Frame, group: SketchGroup, table: Table, counts: Counts) -> Counts:
    if table != frame.schema.names:
        raise PlanError("exact counts", expected="the base table, for a sketch")
    bucket, sign = bucket_and_sign(group.partition, group.buckets, counts.size)
    sums = np.zeros(group.buckets, dtype=np.int64)
    np.add.at(sums, bucket, sign * counts.ravel().astype(np.int64))
    return sums


def _plain(entry: object) -> str:
    if not isinstance(entry, str):
        raise PlanError("exact counts", expected="a table of single values, without levels or ranges")
    return entry
