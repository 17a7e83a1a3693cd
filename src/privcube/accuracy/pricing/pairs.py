"""The dearest exchange of one record for another, a second time, from the inner products of columns. Zone: PUBLIC.

The planner has formulas for the cosines of records (`model.noise.pairs`); nothing here uses them. A part of a group
comes with three inner products of the columns of two records on its axis, found from the rows themselves: if both fall
into the same cell, into different children of one node, or below different nodes. An axis on which they agree down to
a level, and differ from there on, selects one of the three for every part on that axis. So an exchange is one choice of
such a level for every axis. It moves a group by the squared length of one column, plus that of the other, minus twice
their inner product; a group of single entries 1 and -1 moves by 2 in L1, or not at all if the columns are equal.

The prices of all groups are added up on the grid of these choices, axis by axis. Up to `_MOST_EXACT` choices they are
fractions over one denominator; beyond, they are rounded up to a 2^60th of their sum, which no sum of them exceeds.

If many axes are alike, too many choices remain. Then all groups that differ only in which of the alike axes they have
are priced as if they all existed and all had the price of the dearest of them. What they cost together depends on how
many of the alike axes differ, and is summed over how many of these are among the axes of a group.

See THEORY section 10.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import comb, lcm, prod
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

_MOST_CHOICES: Final = 2**22
_MOST_EXACT: Final = 2**12
_MOST_IN_A_TABLE: Final = 2**16
_MOST_ENTRIES: Final = 2**21


class Meets(NamedTuple):
    """A part of a group: where it is, and the inner products of the columns of two records there."""

    axis: int
    level: int
    same: Fraction  # cell: the squared length of a column
    siblings: Fraction  # different children of one node
    strangers: Fraction  # children of different nodes

    def inner(self, differs: int) -> Fraction:
        """The inner product of two records that differ first at a level; at none if it is 0."""
        if not differs or differs > self.level:
            return self.same
        return self.siblings if differs == self.level else self.strangers


class Noised(NamedTuple):
    """Groups that are noised together, the price of a unit of their move, and the dearest that they can cost."""

    groups: Sequence[Sequence[Meets] | None]  # None: not a product over axes
    price: Fraction
    worst: Fraction


class _Table(NamedTuple):
    axes: tuple[int, ...]
    costs: NDArray[Any]  # fractions


def dearest_exchange(chains: Sequence[Sequence[int]], noised: Sequence[Noised], squares: bool) -> Fraction:
    """An upper bound on the price of exchanging two records: squared moves times prices, or moves in L1 times prices.

    It is the price of the dearest exchange itself if axes have at most `_MOST_EXACT` choices and no bundle too many.
    """
    apart = sum((each.worst for each in noised), Fraction(0))
    costly = [each for each in noised if each.worst]
    found = [apart]
    for tables in (_all_choices(chains, costly, squares), _alike(costly, squares)):
        if tables is not None:
            found.append(_largest(*tables))
    return min(found)


# Choices


def _all_choices(
    chains: Sequence[Sequence[int]], noised: Sequence[Noised], squares: bool
) -> tuple[list[int], list[_Table]] | None:
    levels = _levels(chains, (part for each in noised for group in each.groups for part in group or ()))
    axes = {axis: at for at, axis in enumerate(axis for axis, own in levels.items() if len(own) > 1)}
    shape = [len(levels[axis]) for axis in axes]
    if prod(shape) > _MOST_CHOICES:
        return None
    tables, entries = [], 0
    for each in noised:
        own = sorted({part.axis for group in each.groups for part in group or ()} & axes.keys())
        size = prod(len(levels[axis]) for axis in own)
        if None in each.groups or (len(each.groups) > 1 and size > _MOST_IN_A_TABLE):
            tables.append(_Table((), np.array(each.worst, dtype=object)))
            continue
        entries += size
        if entries > _MOST_ENTRIES:
            return None
        places = tuple(axes[axis] for axis in own)
        if squares:
            ((parts,),) = [each.groups]
            tables.append(_Table(places, _squared(each.price, parts or (), levels)))
        else:
            tables.append(_Table(places, _in_l1(each, own, levels)))
    return shape, tables


def _levels(chains: Sequence[Sequence[int]], parts: Iterable[Meets]) -> dict[int, list[int]]:
    """For each axis in use, the first levels at which two records can differ, 0 for none; those that matter."""
    used: dict[int, set[Meets]] = {}
    for part in parts:
        used.setdefault(part.axis, set()).add(part)
    found = {}
    for axis in sorted(used):
        finest = max(part.level for part in used[axis])
        possible = [0, *(level for level in range(1, finest + 1) if chains[axis][level - 1] > 1)]
        seen: dict[tuple[Fraction, ...], int] = {}
        for level in possible:
            seen.setdefault(tuple(part.inner(level) for part in sorted(used[axis])), level)
        found[axis] = sorted(seen.values())
    return found


def _products(parts: Sequence[Meets], levels: dict[int, list[int]]) -> tuple[Fraction, list[Fraction]]:
    """The squared length of a column, and the inner products of two in all cases."""
    length = prod([part.same for part in parts], start=Fraction(1))
    return length, _of_cases(tuple([tuple([part.inner(level) for level in levels[part.axis]]) for part in parts]))


@lru_cache(maxsize=1024)  # many groups have the same shape
def _of_cases(inner: tuple[tuple[Fraction, ...], ...]) -> list[Fraction]:
    """The products of one inner product per axis, for all choices."""
    return [prod(case, start=Fraction(1)) for case in product(*inner)]


def _squared(price: Fraction, parts: Sequence[Meets], levels: dict[int, list[int]]) -> NDArray[Any]:
    length, inner = _products(parts, levels)
    cost = {each: price * (length + length - 2 * each) for each in set(inner)}
    sizes = [len(levels[part.axis]) for part in parts]
    return _shaped([cost[each] for each in inner], [size for size in sizes if size > 1])


def _in_l1(each: Noised, axes: Sequence[int], levels: dict[int, list[int]]) -> NDArray[Any]:
    """2 if some group moves, else 0."""
    moves = np.zeros([len(levels[axis]) for axis in axes], dtype=bool)
    for parts in each.groups:
        length, inner = _products(parts or (), levels)
        own = {part.axis: len(levels[part.axis]) for part in parts or ()}
        moves |= np.array([one != length for one in inner]).reshape([own.get(axis, 1) for axis in axes])
    costs = np.full(moves.shape, Fraction(0), dtype=object)
    costs[moves] = 2 * each.price
    return costs


def _shaped(values: Sequence[Fraction], shape: Sequence[int]) -> NDArray[Any]:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found.reshape(shape)


# Alike axes


def _alike(noised: Sequence[Noised], squares: bool) -> tuple[list[int], list[_Table]] | None:
    """Tables over the numbers of axes that differ, by class; None if an axis has several parts, or a part nodes above.

    Records are taken to differ on any axis, also on one of a single value.

    In L1 the move of a group of cells is what its squared move is, 0 or 2, and that of a group of contrasts is half of
    it, 0 or 4. A group that has both may move by less than half its squared move.
    """
    kind_of: dict[int, Meets] = {}
    for each in noised:
        if len(each.groups) != 1 or each.groups[0] is None:
            return None
        for part in each.groups[0]:
            kind = part._replace(axis=0)
            if part.level != 1 or kind_of.setdefault(part.axis, kind) != kind:
                return None
    classes = sorted(set(kind_of.values()))
    many = [list(kind_of.values()).count(kind) for kind in classes]
    shape = [count + 1 for count in many]
    if prod(shape) > _MOST_CHOICES:
        return None
    prices: dict[tuple[Meets, ...], Fraction] = {}  # a group may be measured several times
    for each in noised:
        parts = tuple(each.groups[0] or ())
        prices[parts] = prices.get(parts, Fraction(0)) + each.price
    dearest: dict[tuple[int, ...], Fraction] = {}
    for parts, price in prices.items():
        kinds = [kind_of[part.axis] for part in parts]
        if not squares:
            signs = {kind.siblings for kind in kinds}
            if len(signs) > 1:
                return None
            price = price / 2 if signs == {Fraction(-1)} else price
        counts = tuple(kinds.count(kind) for kind in classes)
        dearest[counts] = max(price, dearest.get(counts, price))
    tables, entries = [], 0
    for counts, price in dearest.items():
        axes = tuple(at for at, count in enumerate(counts) if count)
        entries += prod(shape[at] for at in axes)
        if entries > _MOST_ENTRIES:
            return None
        groups = prod(comb(many[at], counts[at]) for at in axes)
        length = prod([classes[at].same ** counts[at] for at in axes], start=Fraction(1))
        sums = [[_sum(classes[at], many[at], counts[at], differ) for differ in range(shape[at])] for at in axes]
        inner = [prod(case, start=Fraction(1)) for case in product(*sums)]
        costs = [2 * price * (groups * length - each) for each in inner]
        tables.append(_Table(axes, _shaped(costs, [shape[at] for at in axes])))
    return shape, tables


def _sum(kind: Meets, many: int, chosen: int, differ: int) -> Fraction:
    """The sum over all choices of axes of the product of their inner products, if some of the axes differ."""
    found = Fraction(0)
    for among in range(min(chosen, differ) + 1):  # how many of the chosen axes differ
        choices = comb(differ, among) * comb(many - differ, chosen - among)
        found += choices * kind.siblings**among * kind.same ** (chosen - among)
    return found


# The largest sum


def _largest(shape: Sequence[int], tables: Sequence[_Table]) -> Fraction:
    """The largest sum of tables over the grid, rounded up if it is large."""
    amounts = {id(table): set(table.costs.reshape(-1).tolist()) for table in tables}
    if prod(shape) <= _MOST_EXACT:
        unit = Fraction(1, lcm(*(cost.denominator for own in amounts.values() for cost in own)))
    else:
        most = sum((max(own) for own in amounts.values()), Fraction(0))
        if most == 0:
            return most
        unit = most / 2**60
    kind: Any = object if prod(shape) <= _MOST_EXACT else np.int64
    grid = np.zeros((), dtype=kind)
    for axis in range(-1, len(shape)):
        if axis >= 0:
            grid = np.repeat(grid[..., None], shape[axis], axis=-1)
        for table in tables:
            if max(table.axes, default=-1) == axis:
                whole = {cost: -(-cost // unit) for cost in amounts[id(table)]}
                costs = np.array([whole[cost] for cost in table.costs.reshape(-1).tolist()], dtype=kind)
                sizes = [shape[at] if at in table.axes else 1 for at in range(axis + 1)]
                grid = np.asarray(grid + costs.reshape(sizes), dtype=kind)  # of no axes, a sum is no array
    return int(np.max(grid)) * unit
