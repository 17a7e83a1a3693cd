"""Prices by brute force: which records are tried, which grids are refused, and that each of both decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from privcube import ZCDP, ApproxDP, Attribute, Measure, Plan, PureDP, Schema, Workload, errors, plan
from privcube.model.frame import Frame
from privcube.model.groups import GroupPart
from privcube.model.noise.bundles import Gram
from privcube.model.options import PlanOptions
from privcube.model.privacy.guarantee import Guarantee
from privcube.planning.steps import plan_of
from privcube.sensitive import brute_force
from privcube.sensitive.brute_force import verify_by_brute_force
from privcube.sensitive.measures.dividing import Divided
from privcube.strategies.proposal import Proposal

DAYS = Measure("days", low=0, high=8, step=1, knots=[2], missing="category")  # 6 parts: thirds, and sixths above 2


def test_a_plain_record_adds_one_to_one_cell() -> None:
    assert np.array_equal(brute_force._adds(Attribute("a", size=3)), np.eye(3))
    assert np.array_equal(brute_force._adds(Attribute("a", values=["x"])), [[1]])


def test_a_divided_record_is_tried_at_all_knots_and_at_two_points_between_them() -> None:
    """Points 1, 3, 4, 5, 6 and 7 lie between knots: the first is tried, and 5, in the middle; half of both go on."""
    added = [each.tolist() for each in brute_force._adds(DAYS)]
    assert added == [*(6 * np.eye(4)).tolist(), [3, 3, 0, 0], [0, 3, 3, 0]]


def test_a_grid_without_points_between_its_knots_has_only_those() -> None:
    added = brute_force._adds(Measure("x", low=0, high=2, step=1, knots=[1]))
    assert np.array_equal(added, np.eye(3))


def test_records_at_knots_are_told_from_the_others() -> None:
    schema = Schema([Attribute("a", size=2), DAYS])
    made = plan(Workload.tables(schema, ["a x days"]), PureDP(1), "marginals")
    columns, at_knots = brute_force._columns(made)
    assert (len(columns), len(at_knots)) == (2 * 6, 2 * 4)
    assert all(sum(map(int, np.concatenate(column))) == 6 for column in columns)
    assert sorted(tuple(np.concatenate(column)) for column in at_knots) == sorted(map(tuple, 6 * np.eye(8, dtype=int)))


WRONG = {
    "a cell for too few codes": lambda own: replace(own, cell=own.cell[:-1]),
    "parts for too few codes": lambda own: replace(own, more=own.more[:-1]),
    "parts below 0": lambda own: replace(own, more=np.where(own.more == 3, -1, own.more)),
    "more parts than there are": lambda own: replace(own, more=np.where(own.more == 3, 7, own.more)),
    "parts beyond the last cell": lambda own: replace(own, cell=np.where(own.more == 3, 3, own.cell)),
    "a part beyond the last cell": lambda own: replace(
        own, cell=np.where(own.more == 3, 3, own.cell), more=np.where(own.more == 3, 1, own.more)
    ),
    "a cell beyond the last one": lambda own: replace(own, cell=np.where(own.more == 0, own.cell + 4, own.cell)),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_grid_is_refused_whatever_the_size_of_the_domain(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    true = Divided.of
    brute_force._check_divided(DAYS)
    brute_force._check_divided(Attribute("a", size=2))
    for others in (2, 1_000):
        made = plan(Workload.tables(Schema([Attribute("a", size=others), DAYS]), ["a x days"]), PureDP(1), "marginals")
        verify_by_brute_force(made)
        with monkeypatch.context() as patch:

            def changed(attribute: Attribute) -> Divided | None:
                own = true(attribute)
                return None if own is None else WRONG[wrong](own)

            patch.setattr(Divided, "of", changed)
            with pytest.raises(errors.PlanError, match=r"measure 'days'.*all parts of a record in its cells"):
                verify_by_brute_force(made)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows", [1, 2])
def test_gram_bundles_are_priced_as_dearly_as_they_are(
    neighbors: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exchange costs twice what a record costs: noise a little short of that is refused."""
    workload = Workload.all_kway(Schema.from_sizes({"a": 2, "b": 4}), 1)
    frame = Frame.natural(workload)
    a, b = (GroupPart(axis, 1, "helmert") for axis in (0, 1))
    groups = [(), (a,), (b,), (a, b), (GroupPart(1, 1, "squares"),)]
    proposal = Proposal.of_bundles(frame, [groups], laws=[Gram((3, 2, 5))])
    guarantee = PureDP(1, neighbors=neighbors, max_rows_per_person=rows)  # type: ignore[arg-type]
    made = plan_of(workload, guarantee, PlanOptions(strategy="search", budgets="iterated"), proposal)
    verify_by_brute_force(made)
    scale, variance = Plan.drawn_scale, Plan.drawn_variance
    monkeypatch.setattr(Plan, "drawn_scale", lambda own, group: scale(own, group) * Fraction(99, 100))
    monkeypatch.setattr(Plan, "drawn_variance", lambda own, group: variance(own, group) * Fraction(99, 100) ** 2)
    with pytest.raises(errors.PlanError, match="every record within the guarantee"):
        verify_by_brute_force(made)


@pytest.mark.parametrize("guarantee", [PureDP, ZCDP, lambda amount, **kept: ApproxDP(amount, "1e-6", **kept)])
def test_a_single_cell_can_be_exchanged_for_no_other(guarantee: Callable[..., Guarantee]) -> None:
    """So nothing costs anything, which is within any guarantee."""
    workload = Workload.all_kway(Schema.from_sizes({"a": 1}), 1)
    verify_by_brute_force(plan(workload, guarantee("0.01", neighbors="replace_one"), "marginals"))


def on_a_section() -> tuple[Plan, tuple[int, ...]]:
    """Two tables in slices of a third attribute, on a section with its total; and contrasts, which are free."""
    schema = Schema.from_sizes({"s": 2, "a": 2, "b": 3})
    workload = Workload.tables(schema, [("s", "a"), ("s", "b")])
    s, a, b = (GroupPart(axis, 1) for axis in range(3))
    groups = [(s,), (s, a), (s, b), (s, GroupPart(1, 1, "contrast"))]
    proposal = Proposal.of_bundles(Frame.natural(workload), [groups], laws=["section"])
    made = plan_of(workload, PureDP(1), PlanOptions(strategy="search", budgets="iterated"), proposal)
    return made, made.noised_together[0]


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("row", [0, 1, -1])
def test_a_change_that_leaves_the_section_is_refused(group: int, row: int) -> None:
    """One more in a cell than in the total of its slice, or the same in the total of another slice."""
    made, bundle = on_a_section()
    for change in brute_force._columns(made)[0]:
        brute_force._price(made, change)
        wrong = [own.copy() for own in change]
        wrong[bundle[group]][row] += 1
        with pytest.raises(errors.PlanError, match="sums move alike"):
            brute_force._price(made, wrong)
        wrong = [own.copy() for own in change]
        wrong[bundle[group]] = wrong[bundle[group]][::-1]  # which are those of the other slice
        with pytest.raises(errors.PlanError, match="sums move alike"):
            brute_force._price(made, wrong)
        wrong = [own.copy() for own in change]
        wrong[bundle[3]][row] += 1  # contrasts have no sum that anybody knows
        brute_force._price(made, wrong)


def test_sections_that_records_leave_are_refused_by_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    made, bundle = on_a_section()
    verify_by_brute_force(made)
    true = brute_force._columns

    def wrong(made: Plan) -> tuple[list[list[np.ndarray]], list[list[np.ndarray]]]:
        columns, at_knots = true(made)
        return [[own * (at != bundle[2]) for at, own in enumerate(column)] for column in columns], at_knots

    monkeypatch.setattr(brute_force, "_columns", wrong)
    with pytest.raises(errors.PlanError, match="sums move alike"):
        verify_by_brute_force(made)
