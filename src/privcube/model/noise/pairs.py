"""Replacing a record, priced by pairs of records and not by each group's own worst pair. Zone: PUBLIC.

Formal guarantee. Two records agree on an axis down to some level and differ from the next on. Let l be the first level
at which they differ. The rows of a part at level m meet both alike if l > m; if l = m they have the cosine 0 for cells,
-1 for a contrast and -1/(f-1) for Helmert rows of fan-out f (inner product -1/f of columns of squared length 1 - 1/f);
if l < m they share no row. Columns of a group are products over its axes, so with squared length own_g and the product
c of the cosines, exchanging the two records moves group g by own_g + own_g - 2 own_g c in L2 squared, and a group
without Helmert rows by 2 in L1 unless c = 1, when it does not move. A bundle moves by 2 if one of its groups moves (in
one slice or in two). So a change is described by what the two records have in common on each axis, its *case*.

The noise of a group, or bundle, is set by its own worst case (`privcube.model.sensitivity`): in that case it costs its
share of the budget. In another case it costs that share times the ratio of its move, squared under Gaussian noise, to
the largest. A neighboring change is one case for all groups at once. So the plan costs at most the largest over cases
of the sum of shares times ratios, and not the sum of shares.

The number of records. If every unit has exactly one record that counts, replacing it moves no total: the total costs
nothing, whatever its share. Otherwise (`total_is_public`) the records of a unit may become fewer or more. With at most
c rows per unit the change is p exchanges and q records added or removed, p + q <= c. The cost is a norm of the change,
or the square of one: of a weighted L2 norm, or of a sum of bundles' norms over scales. By the triangle inequality c
changes cost at most c times, or c^2 times, the dearest single one, an exchange or a record alone; c is in the own worst
case of every group, too. So then a record alone is one more case, with own_g / (2 own_g (1 - least c)) for groups under
Gaussian noise and 1/2 for bundles; it moves the total as well.

Every bound here is at least the true cost, in whole numbers: shares times ratios are rounded up. The largest over cases
is taken over all of them where these are few (`_every_case`). If many axes are alike, cases are counted by how many
axes of each class differ (`_alike`): the sum over *all* groups that a permutation of alike axes makes of a group, each
with the largest share among them, depends on these numbers only, and is at least the cost. Else each group is taken at
its worst, and the ratios add up to the shares.

See THEORY section 10.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import comb, prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.algebra.grids import Grid, differenced
from privcube.model.frame import Frame
from privcube.model.groups import (
    BlockGroup,
    Group,
    GroupPart,
    MatrixGroup,
    QueryGroup,
    SketchGroup,
    is_structured,
    product_groups,
)
from privcube.model.privacy.guarantee import Guarantee, PureDP
from privcube.model.schema import Schema
from privcube.model.sensitivity import squared_l2

KNOWN: Final = 2**19  # share of the total, in whole budgets, if it is public: its noise is practically always 0
MOST_CASES: Final = 2**22  # that are gone through

_MOST_ENTRIES: Final = 2**21  # of all tables together
_MOST_IN_A_TABLE: Final = 2**16

Bundles = Sequence[Sequence[int]]


def total_is_public(guarantee: Guarantee, schema: Schema) -> bool:
    """Whether the number of records that count is the same in all neighboring data sets.

    >>> from privcube import PureDP
    >>> schema = Schema.from_sizes({"a": 2})
    >>> total_is_public(PureDP(1, neighbors="replace_one"), schema), total_is_public(PureDP(1), schema)
    (True, False)
    >>> total_is_public(PureDP(1, neighbors="replace_one", max_rows_per_person=2), schema)
    False
    """
    return guarantee.neighbors == "replace_one" and guarantee.max_rows_per_person == 1 and not schema.filters


def costs_nothing(guarantee: Guarantee, schema: Schema, groups: Sequence[Group]) -> bool:
    """Whether no neighboring change moves a bundle of these groups: they are the total, and it is public."""
    return all(group == () for group in groups) and total_is_public(guarantee, schema)


@dataclass(frozen=True, eq=False)
class Term:
    """What some bundles cost case by case, in shares: a table over a few axes of the grid of cases."""

    members: tuple[int, ...]  # bundles, each with the largest share among them
    axes: tuple[int, ...]
    ratios: tuple[Fraction, ...]  # different ones
    place: NDArray[np.int64]  # the number of the ratio in every case
    orbit: int = 1  # groups that the table stands for, of which the members are some

    @property
    def worst(self) -> Fraction:
        """The largest ratio."""
        return max(self.ratios)


@dataclass(frozen=True, eq=False)
class Pairs:
    """The cases of a neighboring change, and what they cost."""

    grid: Grid
    terms: tuple[Term, ...]
    alone: tuple[Fraction, ...] | None  # per bundle: a record that is added or removed; None if none can be

    def dearest(self, shares: Sequence[int]) -> int:
        """The cost of the dearest case, rounded up, or the sum of all terms at their worst if that is too large."""
        costs = [max(shares[member] for member in term.members) for term in self.terms]
        costly = [(term, share) for term, share in zip(self.terms, costs, strict=True) if term.worst]
        most = sum(_up(share * term.worst) for term, share in costly)
        if most >= 2**62:
            return most
        dearest = sum(self._dearest_of(axes, [costly[at] for at in own]) for axes, own in _apart(costly))
        return max(dearest, _alone(self.alone, shares))

    def _dearest_of(self, axes: Sequence[int], costly: Sequence[tuple[Term, int]]) -> int:
        """The cost of the dearest case of some terms that have only these axes of the grid."""
        grid = Grid(tuple([self.grid.shape[axis] for axis in axes]))
        place = {axis: at for at, axis in enumerate(axes)}
        values = np.zeros(grid.size, dtype=np.int64)
        for term, share in costly:
            rounded = np.array([_up(share * ratio) for ratio in term.ratios], dtype=np.int64)
            np.add.at(values, grid.spots([place[axis] for axis in term.axes]), differenced(rounded[term.place]))
        return int(grid.spread(values).max())


def _apart(costly: Sequence[tuple[Term, int]]) -> list[tuple[list[int], list[int]]]:
    """Sets of axes that no term joins, each with the numbers of its terms.

    What two records have in common on one set says nothing about another, so the dearest case is the dearest of each.
    """
    found: list[tuple[set[int], list[int]]] = []
    for number, (term, _) in enumerate(costly):
        joined = [each for each in found if not each[0].isdisjoint(term.axes)]
        found = [each for each in found if each[0].isdisjoint(term.axes)]
        axes = set(term.axes).union(*(own for own, _ in joined))
        found.append((axes, [number, *(other for _, numbers in joined for other in numbers)]))
    return [(sorted(axes), numbers) for axes, numbers in found]


def cost_in_shares(
    guarantee: Guarantee, frame: Frame, groups: Sequence[Group], bundles: Bundles, shares: Sequence[int], most: int
) -> int:
    """An upper bound on the cost of a plan, in shares; the first bound that is at most `most`, or else the least."""
    cost = sum(
        share
        for share, bundle in zip(shares, bundles, strict=True)
        if not costs_nothing(guarantee, frame.schema, [groups[group] for group in bundle])
    )
    if cost <= most or guarantee.neighbors == "add_remove":
        return cost
    for rule in (alike, every_case):
        found = rule(guarantee, frame, groups, bundles)
        if found is not None:
            cost = min(cost, found.dearest(shares))
            if cost <= most:
                break
    return cost


# All cases


def every_case(guarantee: Guarantee, frame: Frame, groups: Sequence[Group], bundles: Bundles) -> Pairs | None:
    """Every case by itself; None if there are too many."""
    cases = _Cases(frame, groups)
    grid = Grid(tuple(len(states) for states in cases.states))
    pure, terms, entries = isinstance(guarantee, PureDP), [], 0
    if grid.size > MOST_CASES:
        return None
    for number, bundle in enumerate(bundles):
        members = [groups[group] for group in bundle]
        if not is_structured(members):
            terms.append(_constant(number, 1))
            continue
        cosines = [cases.of(group) for group in product_groups(members)]
        axes = tuple(sorted({axis for own in cosines for axis in own}))
        size = prod([grid.shape[axis] for axis in axes])
        entries += size
        if entries > _MOST_ENTRIES:
            return None
        if len(members) == 1:
            (group,) = product_groups(members)
            factor = None if pure else _factor(guarantee, frame, group)
            terms.append(Term((number,), axes, *_ratios(tuple(cosines[0].values()), factor)))
        elif size > _MOST_IN_A_TABLE:
            terms.append(_constant(number, 1))
        else:
            terms.append(_bundle(number, axes, grid, cosines))
    return Pairs(grid, tuple(terms), _records_alone(guarantee, frame, groups, bundles))


class _Cases:
    """What two records can have in common on every axis that some group uses."""

    def __init__(self, frame: Frame, groups: Sequence[Group]) -> None:
        used: defaultdict[int, set[GroupPart]] = defaultdict(set)
        for group in groups:
            if not isinstance(group, SketchGroup | MatrixGroup | BlockGroup):
                for part in group:
                    used[part.axis].add(part)
        self._frame = frame
        self.place: dict[int, int] = {}  # of the axes on which records can differ, in the grid
        self.states: list[list[int]] = []  # per axis of the grid: the first level that differs; 0 if none does
        self._cosines: dict[GroupPart, tuple[Fraction, ...]] = {}
        for axis in sorted(used):
            chain, parts = frame.fan_outs[axis], sorted(used[axis])
            levels = [level for level in range(1, max(part.level for part in parts) + 1) if chain[level - 1] > 1]
            different = {tuple(_cosine(chain, part, level) for part in parts): level for level in reversed(levels)}
            if different:
                self.place[axis] = len(self.states)
                self.states.append([0, *sorted(different.values())])
                for part in parts:
                    self._cosines[part] = tuple(_cosine(chain, part, level) for level in self.states[-1])

    def of(self, group: QueryGroup) -> dict[int, tuple[Fraction, ...]]:
        """The cosines of the columns of two records in a group, by axis of the grid and case by case."""
        return {self.place[part.axis]: self._cosines[part] for part in group if part.axis in self.place}


def _cosine(chain: Sequence[int], part: GroupPart, level: int) -> Fraction:
    """The cosine of two records that differ first at a level of an axis; at no level if it is 0."""
    if level == 0 or level > part.level:
        return Fraction(1)
    if level < part.level or part.kind == "cells":
        return Fraction(0)
    return Fraction(-1, chain[level - 1] - 1)


def _factor(guarantee: Guarantee, frame: Frame, group: QueryGroup) -> Fraction:
    """2 own_g over the squared move in the group's own worst case; 0 if nothing moves the group."""
    own = prod([_own(frame, part) for part in group], start=Fraction(1))
    worst = squared_l2(guarantee, frame, group)
    return 2 * own * guarantee.max_rows_per_person**2 / worst if worst else Fraction(0)


def _own(frame: Frame, part: GroupPart) -> Fraction:
    fan_out = frame.fan_outs[part.axis][part.level - 1]
    return Fraction(fan_out - 1, fan_out) if part.kind == "helmert" else Fraction(1)


@lru_cache(maxsize=4096)
def _ratios(
    cosines: tuple[tuple[Fraction, ...], ...], factor: Fraction | None
) -> tuple[tuple[Fraction, ...], NDArray[np.int64]]:
    """The ratios of a group: factor (1 - c) or, in L1 (no factor), 1 unless c = 1."""
    products: tuple[Fraction, ...] = (Fraction(1),)
    place = np.zeros((), dtype=np.int64)
    for along in cosines:
        products, number = _times(products, along)
        place = number[place]
    ratios = tuple([Fraction(each != 1) if factor is None else factor * (1 - each) for each in products])
    return ratios, place


@lru_cache(maxsize=4096)
def _times(left: tuple[Fraction, ...], right: tuple[Fraction, ...]) -> tuple[tuple[Fraction, ...], NDArray[np.int64]]:
    """The different products, each worked out once, and their numbers: left x right."""
    found: dict[Fraction, int] = {}
    number = [[found.setdefault(one * other, len(found)) for other in right] for one in left]
    return tuple(found), np.array(number, dtype=np.int64)


def _bundle(number: int, axes: tuple[int, ...], grid: Grid, groups: Sequence[dict[int, tuple[Fraction, ...]]]) -> Term:
    """A bundle moves if one of its groups does; cosines of cells and contrasts are 0, 1 or -1."""
    moves = np.zeros([grid.shape[axis] for axis in axes], dtype=np.int64)
    for cosines in groups:
        product = np.ones((1,) * len(axes), dtype=np.int64)
        for at, axis in enumerate(axes):
            if axis in cosines:
                along = np.array([int(each) for each in cosines[axis]], dtype=np.int64)
                product = product * along.reshape([-1 if other == at else 1 for other in range(len(axes))])
        moves |= product != 1
    return Term((number,), axes, (Fraction(0), Fraction(1)), moves)


def _constant(number: int, ratio: int) -> Term:
    return Term((number,), (), (Fraction(ratio),), np.zeros((), dtype=np.int64))


# Records alone


def _records_alone(
    guarantee: Guarantee, frame: Frame, groups: Sequence[Group], bundles: Bundles
) -> tuple[Fraction, ...] | None:
    """What a record that is added or removed costs, in shares of every bundle; None if the total is public."""
    if total_is_public(guarantee, frame.schema):
        return None
    found = []
    for bundle in bundles:
        members = [groups[group] for group in bundle]
        if not is_structured(members):
            found.append(Fraction(1))
        elif isinstance(guarantee, PureDP):
            found.append(Fraction(1, 2))
        else:
            (group,) = product_groups(members)
            found.append(_factor(guarantee, frame, group) / 2)
    return tuple(found)


def _alone(ratios: Sequence[Fraction] | None, shares: Sequence[int]) -> int:
    return 0 if ratios is None else sum(_up(share * ratio) for share, ratio in zip(shares, ratios, strict=True))


def _up(amount: Fraction) -> int:
    return -(-amount.numerator // amount.denominator)


# Alike axes


def alike(guarantee: Guarantee, frame: Frame, groups: Sequence[Group], bundles: Bundles) -> Pairs | None:
    """Cases by how many axes of each class differ; None if axes are used at several levels, or by bundles.

    Also None if a group is measured twice: the sum over all permutations has each group once.
    """
    if len(set(groups)) < len(groups):
        return None
    kinds = _kinds(frame, groups, bundles, isinstance(guarantee, PureDP))
    if kinds is None:
        return None
    classes = sorted(set(kinds.values()))
    many = [sum(kind == each for kind in kinds.values()) for each in classes]
    grid = Grid(tuple(count + 1 for count in many))
    if grid.size > MOST_CASES:
        return None
    types: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for number, bundle in enumerate(bundles):
        (group,) = product_groups(groups[each] for each in bundle)
        own = [kinds[part.axis] for part in group]
        types[tuple(own.count(each) for each in classes)].append(number)
    terms, entries = [], 0
    for counts, members in types.items():
        (group,) = product_groups(groups[each] for each in bundles[members[0]])
        axes = tuple(at for at, count in enumerate(counts) if count)
        sums = [_symmetric(many[at], counts[at], _cosine(*classes[at], 1)) for at in axes]
        entries += prod(map(len, sums))
        if entries > _MOST_ENTRIES:
            return None
        factor = _factor(guarantee, frame, group)
        orbit = prod([comb(many[at], counts[at]) for at in axes])
        products = [Fraction(1)]
        for along in sums:
            products = [one * other for one in products for other in along]
        place = np.arange(len(products), dtype=np.int64).reshape([len(along) for along in sums])
        ratios = tuple([factor * (orbit - each) for each in products])
        terms.append(Term(tuple(members), axes, ratios, place, orbit))
    return Pairs(grid, tuple(terms), _records_alone(guarantee, frame, groups, bundles))


def _kinds(
    frame: Frame, groups: Sequence[Group], bundles: Bundles, pure: bool
) -> dict[int, tuple[tuple[int], GroupPart]] | None:
    """The class of every axis in use, its fan-out and a part on it; None if cases are not just "differs" or not.

    In L1 a group of cells moves by 1 - c, and one of contrasts by (1 - c)/2, times its largest move. So they must not
    be mixed under a pure guarantee.
    """
    kinds: dict[int, tuple[tuple[int], GroupPart]] = {}
    for bundle in bundles:
        if len(bundle) > 1 or isinstance(groups[bundle[0]], SketchGroup | MatrixGroup | BlockGroup):
            return None
        (group,) = product_groups([groups[bundle[0]]])
        if pure and len({part.kind for part in group}) > 1:
            return None
        for part in group:
            fan_out = frame.fan_outs[part.axis][0]
            kind = ((fan_out,), GroupPart(0, 1, part.kind))
            if part.level != 1 or fan_out < 2 or kinds.setdefault(part.axis, kind) != kind:
                return None
    return kinds


def _symmetric(axes: int, chosen: int, cosine: Fraction) -> list[Fraction]:
    """The sum over all choices of axes of the product of their cosines, if 0, 1, 2, ... of the axes differ.

    It is the coefficient of z^chosen in (1 + z)^(axes - differ) (1 + cosine z)^differ.
    """
    return [
        sum(
            (
                comb(differ, both) * cosine**both * comb(axes - differ, chosen - both)
                for both in range(min(differ, chosen) + 1)
            ),
            Fraction(0),
        )
        for differ in range(axes + 1)
    ]
