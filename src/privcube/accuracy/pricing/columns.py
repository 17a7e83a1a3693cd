"""The columns of groups, read off the rows of their parts: the second price rests on these alone. Zone: PUBLIC.

The definition of each part says which rows a cell of its axis meets, and with which entries. The rows of a group are
products over axes, and so are its columns, their norms and their inner products; so it is enough to look at the cells
of one axis at a time: all children of a node where there are at most 64, else some of them, and a child of another.

See THEORY section 13.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import prod
from typing import Final, NamedTuple

from privcube.errors import PlanError
from privcube.model.frame import Frame
from privcube.model.groups import GroupPart, PartKind, row_weights

_ALL_CHILDREN: Final = 64  # of a node; of more, a few stand for all


class Shape(NamedTuple):
    """What matters of a part: how many nodes it has above its cells, their children, and what is measured of them."""

    parents: int
    children: int
    kind: PartKind
    weights: tuple[int, ...]  # of the noise on the Helmert rows of one node; other rows all have the same noise


class Meeting(NamedTuple):
    """Two cells of an axis, perhaps the same: the squared lengths of their columns, their inner product, their L1."""

    one: Fraction
    other: Fraction
    inner: Fraction
    l1: int  # of the first


def shape_of(frame: Frame, part: GroupPart) -> Shape:
    chain = frame.fan_outs[part.axis][: part.level]
    if part.kind != "helmert":
        return Shape(prod(chain[:-1]), chain[-1], part.kind, ())
    rows, weights = chain[-1] - 1, row_weights(frame, (part,))
    if weights != weights[:rows] * prod(chain[:-1]):
        raise PlanError("group", expected="the same noise weights below every node", given=part)
    return Shape(prod(chain[:-1]), chain[-1], part.kind, weights[:rows])


@lru_cache(maxsize=4096)
def meetings(shape: Shape) -> frozenset[Meeting]:
    """All that can happen on an axis to two records. Nodes share no rows, so a cell of another node stands for all."""
    cells = [(0, child) for child in _children(shape)] + [(1, 0)] * (shape.parents > 1)
    columns = [_column(shape, *cell) for cell in cells]
    lengths = [_inner(shape, column, column) for column in columns]
    l1 = [sum(map(abs, column.values())) for column in columns]
    found = set()
    for at, column in enumerate(columns):
        for other in range(at, len(columns)):
            inner = _inner(shape, column, columns[other]) if other > at else lengths[at]
            found.add(Meeting(lengths[at], lengths[other], inner, l1[at]))
            found.add(Meeting(lengths[other], lengths[at], inner, l1[other]))
    return frozenset(found)


@lru_cache(maxsize=4096)
def inner_products(shape: Shape) -> tuple[Fraction, Fraction, Fraction]:
    """The inner products of the columns of one cell, of two children of a node, and of children of two nodes.

    Each must be the same for all cells, or pairs of cells, that are looked at; a part of which that is not so is
    refused.
    """
    columns = [_column(shape, 0, child) for child in _children(shape)]
    elsewhere = _column(shape, 1, 0)
    same = {_inner(shape, column, column) for column in (*columns, elsewhere)}
    siblings = {_inner(shape, one, other) for one, other in combinations(columns, 2)} or {Fraction(0)}
    strangers = {_inner(shape, column, elsewhere) for column in columns}
    if max(len(same), len(siblings), len(strangers)) > 1:
        raise PlanError("group", expected="rows that treat all cells alike", given=shape)
    return same.pop(), siblings.pop(), strangers.pop()


def _children(shape: Shape) -> Sequence[int]:
    """The children of a node, or some of many."""
    few = {0, 1, 2, shape.children // 2, shape.children - 2, shape.children - 1}
    return range(shape.children) if shape.children <= _ALL_CHILDREN else sorted(few)


def _column(shape: Shape, parent: int, child: int) -> dict[tuple[int, int], int]:
    """The rows of a part that a cell meets, by node and number, with their entries: the definition of each kind."""
    if shape.kind == "cells":
        return {(parent, child): 1}
    if shape.kind == "contrast":
        return {(parent, 0): 1 - 2 * child}
    # Helmert row j is j ones, then -j, then zeros.
    return {(parent, j - 1): 1 if child < j else -j for j in range(1, shape.children) if child <= j}


def _inner(shape: Shape, left: dict[tuple[int, int], int], right: dict[tuple[int, int], int]) -> Fraction:
    """The inner product of two columns, each row divided by the weight of its noise."""
    shared = left.keys() & right.keys()
    if shape.kind != "helmert":
        return Fraction(sum(left[row] * right[row] for row in shared))
    return sum((Fraction(left[row] * right[row], shape.weights[row[1]]) for row in shared), Fraction(0))
