"""The privacy of a plan, checked again in exact arithmetic, independently of the planner. Zone: PUBLIC.

Every group must be a product of cells and halves over distinct axes, or a partition, so that a record affects one of
its rows, by +1 or -1; or a matrix over the cells of some attributes, whose columns say how far a record moves it. The
cost then follows from the noise that will be drawn, summed as fractions. On small domains `privcube.sensitive.gate`
also prices every column of S (or pair of columns) by brute force.

See THEORY section 13.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import get_args

from privcube.errors import Plain, PlanError
from privcube.model.documents.plans import digest_of, plan_document
from privcube.model.frame import Frame
from privcube.model.groups import Group, MatrixGroup, PartKind, SketchGroup
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import PureDP
from privcube.model.sensitivity import largest_l1, squared_l2


def verify_privacy(plan: Plan) -> None:
    """Refuse a plan whose cost is not proved to be within its guarantee."""
    if plan.digest != digest_of(plan_document(plan)):
        raise PlanError(
            "plan", expected="a digest that matches the plan", given=Plain("one that does not: the plan was changed")
        )
    if plan.guarantee.calibration != "zcdp":
        raise PlanError(
            "calibration", expected="zcdp for a release, as the classic constant is not proved for whole-number noise"
        )
    for group in plan.groups:
        _check_group(plan.frame, group)
    cost, limit = privacy_cost(plan), plan.guarantee.capacity
    if cost > limit:
        raise PlanError("plan", expected=f"a cost of at most {limit}", given=Plain(f"{cost}"))


def privacy_cost(plan: Plan) -> Fraction:
    """The privacy cost of a plan's noise, from its scales: epsilon summed over bundles, or rho over groups."""
    guarantee = plan.guarantee
    if isinstance(guarantee, PureDP):
        prices = [
            max(largest_l1(guarantee, plan.groups[group]) for group in bundle) / plan.noise_scale(bundle[0])
            for bundle in plan.noised_together
        ]
    else:
        prices = [
            Fraction(squared_l2(guarantee, plan.frame, group)) / (2 * plan.noise_variance(number))
            for number, group in enumerate(plan.groups)
        ]
    return sum(prices, Fraction(0))


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
    if any(left.axis >= right.axis for left, right in pairwise(group)):
        raise PlanError("group", expected="each axis at most once, in order", given=group)
    for part in group:
        if not 0 <= part.axis < len(frame.fan_outs) or not 1 <= part.level <= len(frame.fan_outs[part.axis]):
            raise PlanError("group", expected="axes and levels of the frame", given=part)
        if part.kind not in get_args(PartKind):
            raise PlanError("group", expected="a known kind of part", given=part, available=get_args(PartKind))
        if part.kind == "contrast" and frame.fan_outs[part.axis][part.level - 1] != 2:
            raise PlanError("group", expected="contrasts of two halves only", given=part)
