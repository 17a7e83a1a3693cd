"""The privacy of a plan, priced a second time in exact arithmetic, independently of the planner. Zone: PUBLIC.

The noise of a plan is set by formulas for how far a record moves a group (`privcube.model.sensitivity`). Nothing here
uses them. A group is priced from its rows: the definition of each part says which rows a cell of its axis meets, and
with which entries. The price then follows from the noise that will be drawn on those rows, summed as fractions.

The rows of a group are products over axes, and so are its columns, their norms and their inner products. So it is
enough to look at the cells of one axis at a time: all children of a node where there are at most 64, else some of them,
and a child of another node. Under replace_one, the worst pair of records is found by going through all combinations of
what can happen on each axis, for all groups at once where possible (`privcube.accuracy.pricing.pairs`).

See THEORY sections 10 and 13.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, pairwise
from math import prod
from typing import Final, NamedTuple, get_args

import numpy as np

from privcube.accuracy.blocks.price import block_move, check_blocks
from privcube.accuracy.pricing.pairs import Meets, Noised, dearest_exchange
from privcube.algebra.hashing import bucket_and_sign
from privcube.errors import Plain, PlanError
from privcube.model.documents.plans import digest_of, plan_document
from privcube.model.frame import Frame
from privcube.model.groups import (
    BlockGroup,
    Group,
    GroupPart,
    MatrixGroup,
    PartKind,
    SketchGroup,
    has_helmert,
    product_groups,
    row_weights,
)
from privcube.model.matrices.block_price import squared_move
from privcube.model.noise.bundles import Gram
from privcube.model.plan import Plan
from privcube.model.privacy.gaussian_profile import at_most
from privcube.model.privacy.guarantee import ApproxDP, Guarantee, PureDP
from privcube.model.slices import shared_cells

_ALL_CHILDREN: Final = 64  # of a node; of more, a few stand for all
_MOST_PAIRS: Final = 2_000  # of columns of a matrix that are compared


def verify_privacy(plan: Plan) -> None:
    """Refuse a plan whose cost is not proved to be within its guarantee."""
    if plan.digest != digest_of(plan_document(plan)):
        raise PlanError(
            "plan", expected="a digest that matches the plan", given=Plain("one that does not: the plan was changed")
        )
    if plan.guarantee.calibration == "classic":
        raise PlanError(
            "calibration",
            expected="exact or zcdp for a release, as the classic constant is not proved for whole-number noise",
        )
    for group in plan.groups:
        _check_group(plan.frame, group)
    cost, limit = privacy_cost(plan), plan.guarantee.capacity
    if cost > limit or not is_within(cost, plan.guarantee):
        raise PlanError("plan", expected=f"a cost of at most {limit}", given=Plain(f"{cost}"))


def is_within(cost: Fraction, guarantee: Guarantee) -> bool:
    """Whether a cost in mu^2 satisfies epsilon and delta by the profile itself; its inverse had set the noise."""
    if isinstance(guarantee, ApproxDP) and guarantee.noise == "rounded_gaussian":
        return cost == 0 or at_most(cost, guarantee.epsilon, guarantee.delta)
    return True


def privacy_cost(plan: Plan) -> Fraction:
    """The privacy cost of a plan's noise: epsilon summed over bundles, or rho or mu^2 over groups, at the worst change.

    Rounded Gaussian noise costs mu^2, the sum of squared moves over variances; discrete Gaussian noise rho, half of it.

    A bundle's noise falls with the largest L1 norm among its groups, so it costs as much as its dearest group. If a
    replaced record lies in another slice than the new one, each of the two slices moves by 1: 2 in all, which is what a
    group with rows in both slices costs anyway.

    On a section it costs the same, if no record leaves the section. A Gram bundle costs what a record adds to the trace
    of the matrix, in units of the noise.

    Replaced records need not be exchanged one for one: if the new ones may be fewer (`may_lose_rows`), records that are
    only added or removed are priced, too. Of c rows some may be exchanged and others added or removed. Each bundle's
    cost is a norm of the change, and so is the root of the sum of squared moves over variances; hence all c together
    cost at most c times, or c^2 times, what the dearest of them would.
    """
    replaced = plan.guarantee.neighbors == "replace_one"
    alone = not replaced or may_lose_rows(plan)
    cost = max(_cost_alone(plan) if alone else Fraction(0), _cost_of_exchanges(plan) if replaced else Fraction(0))
    return cost / 2 if plan.guarantee.noise == "discrete_gaussian" else cost


def _cost_alone(plan: Plan) -> Fraction:
    """What a record that is added or removed costs, at most."""
    return sum((each.worst for each in _noised(plan, False)), Fraction(0))


def _cost_of_exchanges(plan: Plan) -> Fraction:
    """What a record that is exchanged for another costs, at most."""
    return dearest_exchange(plan.frame.fan_outs, _noised(plan, True), not isinstance(plan.guarantee, PureDP))


def _noised(plan: Plan, pairs: bool) -> list[Noised]:
    """The bundles, or the groups under Gaussian noise, with the price of a unit of their move and their worst cost."""
    times, shapes = plan.guarantee.max_rows_per_person, dict[GroupPart, _Shape]()
    pure, found = isinstance(plan.guarantee, PureDP), []
    for bundle, law in zip(plan.noised_together, plan.noise_laws, strict=True):
        groups = [plan.groups[group] for group in bundle]
        if isinstance(law, Gram):
            trace = times * _gram_trace(plan, bundle, law)
            found.append(Noised([None], trace, trace * (2 if pairs else 1)))
            continue
        if law == "section":
            _check_section(plan.frame, groups)
        moves = [_largest_move(plan.frame, group, pairs, shapes) for group in groups]
        if pure:
            price, moved = times / plan.noise_scale(bundle[0]), max(move.l1 for move in moves)
        else:
            _check_weights(plan.frame, groups[0])
            price, moved = times**2 / plan.noise_variance(bundle[0]), moves[0].squares
        met = [_meets(group, shapes) if pairs else None for group in groups]
        found.append(Noised(met, price, price * moved))
    return found


def _meets(group: Group, shapes: Mapping[GroupPart, _Shape]) -> tuple[Meets, ...] | None:
    """The inner products of the columns of two records on every axis of a group; None if it is not a product."""
    if isinstance(group, SketchGroup | MatrixGroup | BlockGroup):
        return None
    return tuple([Meets(part.axis, part.level, *_inner_products(shapes[part])) for part in group])


def may_lose_rows(plan: Plan) -> bool:
    """Whether replacing a unit's records can change how many records count, although the number of units is public.

    It can if a unit may have several rows, as the new ones may be fewer, or if records are left out by their values.
    """
    return plan.guarantee.max_rows_per_person > 1 or bool(plan.workload.schema.filters)


class _Move(NamedTuple):
    """How far a change moves the answers: the sum of sizes, and that of squares, each over its row's noise weight."""

    l1: Fraction
    squares: Fraction


def _largest_move(frame: Frame, group: Group, pairs: bool, shapes: dict[GroupPart, _Shape]) -> _Move:
    """The farthest that a record, or one exchanged for another, moves a group."""
    if isinstance(group, SketchGroup):
        return _sketch_move(group, frame.schema.domain_size, pairs)
    if isinstance(group, MatrixGroup):
        return _matrix_move(group, pairs)
    if isinstance(group, BlockGroup):
        known = squared_move(frame.schema, group, "replace_one") if pairs else Fraction(0)
        return _Move(Fraction(0), block_move(frame, group, pairs, known))
    for part in group:
        if part not in shapes:
            shapes[part] = _shape(frame, part)
    return _product_move(tuple(sorted([shapes[part] for part in group])), pairs)


# Products over axes


class _Shape(NamedTuple):
    """What matters of a part: how many nodes it has above its cells, their children, and what is measured of them."""

    parents: int
    children: int
    kind: PartKind
    weights: tuple[int, ...]  # of the noise on the Helmert rows of one node; other rows all have the same noise


class _Meeting(NamedTuple):
    """Two cells of an axis, perhaps the same: the squared lengths of their columns, their inner product, their L1."""

    one: Fraction
    other: Fraction
    inner: Fraction
    l1: int  # of the first


def _shape(frame: Frame, part: GroupPart) -> _Shape:
    chain = frame.fan_outs[part.axis][: part.level]
    if part.kind != "helmert":
        return _Shape(prod(chain[:-1]), chain[-1], part.kind, ())
    rows, weights = chain[-1] - 1, row_weights(frame, (part,))
    if weights != weights[:rows] * prod(chain[:-1]):
        raise PlanError("group", expected="the same noise weights below every node", given=part)
    return _Shape(prod(chain[:-1]), chain[-1], part.kind, weights[:rows])


def _check_weights(frame: Frame, group: Group) -> None:
    """Refuse noise weights of a group that are not the products of those of its parts."""
    if has_helmert(group) and not isinstance(group, BlockGroup):  # blocks have their own check
        (parts,) = product_groups([group])
        whole, own = row_weights(frame, parts), [row_weights(frame, (part,)) for part in parts]
        expected = (prod(w[0] for w in own), prod(w[-1] for w in own), prod(map(sum, own)))
        if (whole[0], whole[-1], sum(whole)) != expected:
            raise PlanError("group", expected="noise weights that are products over axes", given=group)


@lru_cache(maxsize=4096)
def _product_move(shapes: tuple[_Shape, ...], pairs: bool) -> _Move:
    """The farthest move of a product, from what can happen on each axis.

    Of the inner products of two columns, only the least and the largest are kept from axis to axis: whatever they are
    multiplied by next, the extremes come from these. So a group of many axes costs no more than their number.
    """
    axes = [_meetings(shape) for shape in shapes]
    l1 = prod(max(each.l1 for each in met) for met in axes)
    if not pairs:
        return _Move(Fraction(l1), prod((max(each.one for each in met) for met in axes), start=Fraction(1)))
    whole = Fraction(1)
    inner = {(whole, whole): (whole, whole)}  # by the squared lengths of two columns
    for met in axes:
        longer: dict[tuple[Fraction, Fraction], tuple[Fraction, Fraction]] = {}
        for (one, other), ends in inner.items():
            for each in met:
                key = (one * each.one, other * each.other)
                products = [end * each.inner for end in ends]
                known = longer.get(key, (products[0], products[0]))
                longer[key] = (min(*products, known[0]), max(*products, known[1]))
        inner = longer
    squares = max(one + other - 2 * least for (one, other), (least, _) in inner.items())
    # Without Helmert rows a record meets one row of a group, with +1 or -1. Nothing moves if both meet it alike.
    alike = all(least == one for (one, _), (least, _) in inner.items())
    return _Move(Fraction(0 if alike else 2 * l1), squares)


@lru_cache(maxsize=4096)
def _meetings(shape: _Shape) -> frozenset[_Meeting]:
    """All that can happen on an axis to two records. Nodes share no rows, so a cell of another node stands for all."""
    cells = [(0, child) for child in _children(shape)] + [(1, 0)] * (shape.parents > 1)
    columns = [_column(shape, *cell) for cell in cells]
    lengths = [_inner(shape, column, column) for column in columns]
    l1 = [sum(map(abs, column.values())) for column in columns]
    found = set()
    for at, column in enumerate(columns):
        for other in range(at, len(columns)):
            inner = _inner(shape, column, columns[other]) if other > at else lengths[at]
            found.add(_Meeting(lengths[at], lengths[other], inner, l1[at]))
            found.add(_Meeting(lengths[other], lengths[at], inner, l1[other]))
    return frozenset(found)


@lru_cache(maxsize=4096)
def _inner_products(shape: _Shape) -> tuple[Fraction, Fraction, Fraction]:
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


def _children(shape: _Shape) -> Sequence[int]:
    """The children of a node, or some of many."""
    few = {0, 1, 2, shape.children // 2, shape.children - 2, shape.children - 1}
    return range(shape.children) if shape.children <= _ALL_CHILDREN else sorted(few)


def _column(shape: _Shape, parent: int, child: int) -> dict[tuple[int, int], int]:
    """The rows of a part that a cell meets, by node and number, with their entries: the definition of each kind."""
    if shape.kind == "cells":
        return {(parent, child): 1}
    if shape.kind == "contrast":
        return {(parent, 0): 1 - 2 * child}
    # Helmert row j is j ones, then -j, then zeros.
    return {(parent, j - 1): 1 if child < j else -j for j in range(1, shape.children) if child <= j}


def _inner(shape: _Shape, left: dict[tuple[int, int], int], right: dict[tuple[int, int], int]) -> Fraction:
    """The inner product of two columns, each row divided by the weight of its noise."""
    shared = left.keys() & right.keys()
    if shape.kind != "helmert":
        return Fraction(sum(left[row] * right[row] for row in shared))
    return sum((Fraction(left[row] * right[row], shape.weights[row[1]]) for row in shared), Fraction(0))


# Bundles


def _check_section(frame: Frame, groups: Sequence[Group]) -> None:
    """Refuse groups of cells whose sums in a slice could move otherwise than the first group, its total.

    A record meets one cell of every group, so it is enough that the total has only cells, and that each cell of the
    other groups lies in one of these.
    """
    total, *others = product_groups(groups)
    if any(part.kind != "cells" for part in total):
        raise PlanError("bundle", expected="a total of cells on a section", given=total)
    for group in others:
        above = {part.axis: part.level if part.kind == "cells" else part.level - 1 for part in group}
        if any(above.get(part.axis, 0) < part.level for part in total):
            raise PlanError("bundle", expected="groups within the slices of the total on a section", given=group)


def _gram_trace(plan: Plan, bundle: Sequence[int], law: Gram) -> Fraction:
    """What a record adds to the trace of a Gram matrix, in units of the Wishart noise.

    The matrix of a record must be v v', so that it is positive and only its trace counts. Coordinate (k, j) of v is
    taken as sqrt(s_k) times the entry of Helmert row j of block k, over the root of the row's noise weight; the
    constant is sqrt(s_0). Then the row of a group for two blocks, divided by the scale of its noise, is the product of
    the two coordinates if the group's sigma^2 is (d+1) / (2 s_k s_l): the variance of an entry of W1 - W2 is (d+1) / 2,
    on the diagonal d + 1.
    """
    frame, groups = plan.frame, [product_groups([plan.groups[group]])[0] for group in bundle]
    whole = sum(law.weights) * plan.noise_scale(bundle[0])
    slicing = dict(shared_cells(groups))
    blocks = sorted({(part.axis, part.level) for group in groups for part in group if part.kind != "cells"})
    constant, size = Fraction(law.weights[0]) / whole, dict[tuple[int, int], Fraction]()
    trace, dimension = constant, 1
    for block, weight in zip(blocks, law.weights[1:], strict=True):
        shape = _shape(frame, GroupPart(*block, "helmert"))
        lengths = [met.one for met in _meetings(shape)]
        size[block] = Fraction(weight) / whole / max(lengths)
        trace += size[block] * max(lengths)
        dimension += shape.parents // frame.sizes[block[0]][slicing.get(block[0], 0)] * (shape.children - 1)
    for number, group in zip(bundle, groups, strict=True):
        own = [part for part in group if part.kind != "cells"]
        _check_gram_part(frame, own)
        spots = [(part.axis, part.level) for part in own] * (2 if own and own[0].kind == "squares" else 1)
        sizes = [size[spot] for spot in spots] + [constant] * (2 - len(spots))
        expected = Fraction(dimension + 1, 2 if own else 1) / (sizes[0] * sizes[1])
        if plan.noise_variance(number) != expected:
            raise PlanError("gram", expected="noise that fits the weights of its coordinates", given=group)
    return trace


def _check_gram_part(frame: Frame, parts: Sequence[GroupPart]) -> None:
    """Refuse what is not one entry of v v' per row, with the noise weight of its two coordinates."""
    kinds = [part.kind for part in parts]
    if kinds not in ([], ["helmert"], ["helmert", "helmert"], ["squares"]) or len({p.axis for p in parts}) < len(parts):
        raise PlanError("gram", expected="one or two blocks of Helmert rows, or the squares of one", given=kinds)
    if kinds == ["squares"]:
        shape = _shape(frame, GroupPart(*parts[0][:2], "helmert"))
        norms = shape.weights
        pairs = [(j, k) for j in range(len(norms)) for k in range(j, len(norms))]
        weights = [norms[j] * norms[k] * (2 if j == k else 1) for j, k in pairs] * shape.parents
        if list(row_weights(frame, tuple(parts))) != weights:
            raise PlanError("gram", expected="noise weights that are products of two rows", given=parts)


# Rows without product structure


def _sketch_move(group: SketchGroup, cells: int, pairs: bool) -> _Move:
    bucket, sign = bucket_and_sign(group.partition, group.buckets, cells)
    if not pairs:
        return _Move(Fraction(1), Fraction(1))
    met = set(zip(bucket.tolist(), sign.tolist(), strict=True))
    opposite = any((number, -value) in met for number, value in met)
    return _Move(Fraction(2 * (len(met) > 1)), Fraction(4 if opposite else 2 * (len(met) > 1)))


def _matrix_move(group: MatrixGroup, pairs: bool) -> _Move:
    """All columns one by one; of pairs of columns, those of the longest and shortest."""
    columns = [[int(entry) for entry in column] for column in np.array(group.rows, dtype=object).T]
    l1, squares = (max(sum(abs(entry) ** power for entry in column) for column in columns) for power in (1, 2))
    if pairs:
        l1, squares = max(l1, group.largest_l1("replace_one")), max(squares, group.largest_l2("replace_one"))
        order = sorted(range(len(columns)), key=lambda at: sum(entry * entry for entry in columns[at]))
        ends = [*order[:32], *order[-32:]]
        for one, other in list(combinations(ends, 2))[:_MOST_PAIRS]:
            apart = [abs(a - b) for a, b in zip(columns[one], columns[other], strict=True)]
            l1, squares = max(l1, sum(apart)), max(squares, sum(entry * entry for entry in apart))
    return _Move(Fraction(l1), Fraction(squares))


# Form


def _check_group(frame: Frame, group: Group) -> None:
    if isinstance(group, SketchGroup):
        if group.partition < 0 or group.buckets < 1 or frame.has_padding:
            raise PlanError("group", expected="a partition of the base cells into buckets", given=group)
        return
    if isinstance(group, MatrixGroup):
        names = [name for name in frame.schema.names if name in group.attributes]
        if tuple(names) != group.attributes or prod(frame.schema[n].cells for n in names) != len(group.rows[0]):
            raise PlanError("group", expected="a matrix over the cells of its attributes, in schema order")
        return
    if isinstance(group, BlockGroup):
        check_blocks(frame, group)
        return
    if any(left.axis >= right.axis for left, right in pairwise(group)):
        raise PlanError("group", expected="each axis at most once, in order", given=group)
    for part in group:
        if not 0 <= part.axis < len(frame.fan_outs) or not 1 <= part.level <= len(frame.fan_outs[part.axis]):
            raise PlanError("group", expected="axes and levels of the frame", given=part)
        if part.kind not in get_args(PartKind):
            raise PlanError("group", expected="a known kind of part", given=part, available=get_args(PartKind))
        if part.kind == "contrast" and frame.fan_outs[part.axis][part.level - 1] != 2:
            raise PlanError("group", expected="contrasts of two halves only", given=part)
