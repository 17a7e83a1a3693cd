"""The privacy of a plan, priced a second time in exact arithmetic, independently of the planner. Zone: PUBLIC.

The noise of a plan is set by formulas for how far a record moves a group (`privcube.model.sensitivity`). Nothing here
uses them. A group is priced from its rows: the definition of each part says which rows a cell of its axis meets, and
with which entries. The price then follows from the noise that will be drawn on those rows, summed as fractions.

The rows of a group are products over axes, and so are its columns, their norms and their inner products. So it is
enough to look at the cells of one axis at a time: all children of a node where there are at most 64, else some of them,
and a child of another node. Under replace_one, the worst pair of records is found by going through all combinations of
what can happen on each axis, for all groups at once where possible (`privcube.accuracy.pricing.pairs`).

With measures, a record is divided between cells in whole parts: a convex combination of records in one cell each. The
norms are convex, so it is enough to look at single cells, times the parts (THEORY section 14).

See THEORY sections 10 and 13.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Final, NamedTuple, get_args

import numpy as np

from privcube.accuracy.blocks.price import block_move, check_blocks, compared_columns
from privcube.accuracy.pricing.bundles import check_section, gram_trace
from privcube.accuracy.pricing.columns import Shape, inner_products, meetings, shape_of
from privcube.accuracy.pricing.measures import checked_parts
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

_MOST_ENTRIES: Final = 2**26  # of all pairs of columns of a matrix that are compared


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
    times, shapes = plan.guarantee.max_rows_per_person, dict[GroupPart, Shape]()
    pure, found = isinstance(plan.guarantee, PureDP), []
    for bundle, law in zip(plan.noised_together, plan.noise_laws, strict=True):
        groups = [plan.groups[group] for group in bundle]
        parts = checked_parts(plan, bundle)
        if isinstance(law, Gram):
            trace = times * gram_trace(plan, bundle, law)
            found.append(Noised([None], trace, trace * (2 if pairs else 1)))
            continue
        if law == "section":
            check_section(plan.frame, groups)
        moves = [_largest_move(plan.frame, group, pairs, shapes) for group in groups]
        if pure:
            price, moved = times * parts / plan.drawn_scale(bundle[0]), max(move.l1 for move in moves)
        else:
            _check_weights(plan.frame, groups[0])
            price, moved = times**2 * parts**2 / plan.drawn_variance(bundle[0]), moves[0].squares
        met = [_meets(group, shapes) if pairs else None for group in groups]
        found.append(Noised(met, price, price * moved))
    return found


def _meets(group: Group, shapes: Mapping[GroupPart, Shape]) -> tuple[Meets, ...] | None:
    """The inner products of the columns of two records on every axis of a group; None if it is not a product."""
    if isinstance(group, SketchGroup | MatrixGroup | BlockGroup):
        return None
    return tuple([Meets(part.axis, part.level, *inner_products(shapes[part])) for part in group])


def may_lose_rows(plan: Plan) -> bool:
    """Whether replacing a unit's records can change how many records count, although the number of units is public.

    It can if a unit may have several rows, as the new ones may be fewer, or if records are left out by their values.
    """
    return plan.guarantee.max_rows_per_person > 1 or bool(plan.workload.schema.filters)


class _Move(NamedTuple):
    """How far a change moves the answers: the sum of sizes, and that of squares, each over its row's noise weight."""

    l1: Fraction
    squares: Fraction


def _largest_move(frame: Frame, group: Group, pairs: bool, shapes: dict[GroupPart, Shape]) -> _Move:
    """The farthest that a record, or one exchanged for another, moves a group."""
    if isinstance(group, SketchGroup):
        return _sketch_move(group, frame.schema.domain_size, pairs)
    if isinstance(group, MatrixGroup):
        return _matrix_move(group, pairs)
    if isinstance(group, BlockGroup):
        known = squared_move(frame.schema, group, "replace_one" if pairs else "add_remove")
        return _Move(Fraction(0), block_move(frame, group, pairs, known))
    for part in group:
        if part not in shapes:
            shapes[part] = shape_of(frame, part)
    return _product_move(tuple(sorted([shapes[part] for part in group])), pairs)


# Products over axes


def _check_weights(frame: Frame, group: Group) -> None:
    """Refuse noise weights of a group that are not the products of those of its parts."""
    if has_helmert(group) and not isinstance(group, BlockGroup):  # blocks have their own check
        (parts,) = product_groups([group])
        whole, own = row_weights(frame, parts), [row_weights(frame, (part,)) for part in parts]
        expected = (prod(w[0] for w in own), prod(w[-1] for w in own), prod(map(sum, own)))
        if (whole[0], whole[-1], sum(whole)) != expected:
            raise PlanError("group", expected="noise weights that are products over axes", given=group)


@lru_cache(maxsize=4096)
def _product_move(shapes: tuple[Shape, ...], pairs: bool) -> _Move:
    """The farthest move of a product, from what can happen on each axis.

    Of the inner products of two columns, only the least and the largest are kept from axis to axis: whatever they are
    multiplied by next, the extremes come from these. So a group of many axes costs no more than their number.
    """
    axes = [meetings(shape) for shape in shapes]
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


# Rows without product structure


def _sketch_move(group: SketchGroup, cells: int, pairs: bool) -> _Move:
    bucket, sign = bucket_and_sign(group.partition, group.buckets, cells)
    if not pairs:
        return _Move(Fraction(1), Fraction(1))
    met = set(zip(bucket.tolist(), sign.tolist(), strict=True))
    opposite = any((number, -value) in met for number, value in met)
    return _Move(Fraction(2 * (len(met) > 1)), Fraction(4 if opposite else 2 * (len(met) > 1)))


def _matrix_move(group: MatrixGroup, pairs: bool) -> _Move:
    """All columns one by one, and the differences of all pairs; of large matrices, of many pairs."""
    columns = [[int(entry) for entry in column] for column in np.array(group.rows, dtype=object).T]
    l1, squares = (max(sum(abs(entry) ** power for entry in column) for column in columns) for power in (1, 2))
    if pairs:
        chosen = np.array([columns[at] for at in compared_columns(columns, _MOST_ENTRIES)], dtype=np.int64)
        if len(chosen) < len(columns):
            l1, squares = max(l1, group.largest_l1("replace_one")), max(squares, group.largest_l2("replace_one"))
        for at, column in enumerate(chosen):
            apart = np.abs(chosen[at:] - column)  # at most 2^25, in at most 4,096 rows: sums of squares fit
            l1, squares = max(l1, int(apart.sum(axis=1).max())), max(squares, int((apart * apart).sum(axis=1).max()))
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
        if part.kind in ("helmert", "squares") and frame.fan_outs[part.axis][part.level - 1] < 2:
            raise PlanError("group", expected="Helmert rows of two children or more", given=part)
