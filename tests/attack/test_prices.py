"""What mutants of the pricing code got away with: each test here kills some that no other did (tools/mutants.py)."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from privcube import ZCDP, ApproxDP, Attribute, Level, Plan, PureDP, Schema, Workload, errors, plan
from privcube.accuracy import privacy
from privcube.accuracy.blocks.price import block_move
from privcube.accuracy.layout import Layout
from privcube.accuracy.pricing import columns
from privcube.accuracy.privacy import privacy_cost, verify_privacy
from privcube.model import sensitivity
from privcube.model.documents.plan_groups import groups_from
from privcube.model.frame import Frame
from privcube.model.groups import Block, BlockGroup, Group, GroupPart, MatrixGroup, SketchGroup, group_rows
from privcube.model.noise import pairs
from privcube.model.slices import largest_scale
from privcube.planning.steps import with_bundles
from privcube.sensitive import brute_force, gate
from privcube.sensitive.answers import exact_answers
from privcube.sensitive.ledger import MemoryLedger
from privcube.sensitive.sources import engine_for

SCHEMA = Schema.from_sizes({"a": 2, "b": 3, "c": 4})
PAIRS = Workload.tables(SCHEMA, [("a", "b"), ("a", "c")])


class Ones:
    """Noise of 1 everywhere, which is not symmetric."""

    def laplace(self, scale: object, count: int) -> np.ndarray:
        return np.ones(count, dtype=np.int64)

    gaussian = rounded_gaussian = laplace

    def max_norm(self, scale: object, sizes: list[int]) -> list[np.ndarray]:
        return [np.ones(size, dtype=np.int64) for size in sizes]

    def rounded_max_norm(self, scales: object, sizes: list[int], count: int) -> list[np.ndarray]:
        return [np.ones((count, size), dtype=np.int64) for size in sizes]

    def section(self, scale: object, bound: list[int], free: list[int], count: int) -> list[np.ndarray]:
        return [np.ones((count, size), dtype=np.int64) for size in (1, *bound, *free)]

    def gram(self, dimension: int, left: np.ndarray, right: object, squares: object, which: object, count: int):
        return np.ones((count, len(left)), dtype=np.int64)


def bundled() -> Plan:
    """Two tables that share the cells of a, noised together in slices."""
    return with_bundles(plan(PAIRS, PureDP(1), "marginals"), [[0, 1]])


def changes(made: Plan) -> list[list[np.ndarray]]:
    """The answers of each record by itself, or the differences of two."""
    schema = made.workload.schema
    units = np.eye(schema.domain_size, dtype=np.int64).reshape(-1, *schema.shape)
    tables = [schema.names] * len(made.groups)
    columns = [exact_answers(Layout(made.frame), made.groups, tables, {schema.names: u}.__getitem__) for u in units]
    if made.guarantee.neighbors == "add_remove":
        return columns
    return [[a - b for a, b in zip(one, other, strict=True)] for one, other in combinations(columns, 2)]


@pytest.mark.parametrize("made", [plan(PAIRS, PureDP(1), "marginals"), bundled()], ids=["apart", "bundled"])
def test_noise_is_added(made: Plan) -> None:
    codes = pa.table({"a": [0, 1, 1], "b": [2, 0, 0], "c": [3, 3, 1]})
    found = gate.measure(made, engine_for(codes), MemoryLedger(made.guarantee), noise_from=Ones())
    assert sorted(found.answers.tolist()) == [1] * 9 + [2] * 4 + [3]


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize(
    ("kind", "strategy"), [(PureDP, "marginals"), (ZCDP, "marginals"), (ZCDP, "residual"), (ZCDP, "matrix")]
)
def test_the_dearest_record_of_brute_force_costs_what_the_structure_says(
    kind: type[PureDP] | type[ZCDP], strategy: str, neighbors: str, rows: int
) -> None:
    made = plan(PAIRS, kind(2, neighbors=neighbors, max_rows_per_person=rows), strategy)  # type: ignore[arg-type]
    assert privacy_cost(made) <= 2
    dearest = max(brute_force._price(made, change) for change in changes(made))
    if (strategy, neighbors) == ("residual", "replace_one"):  # no two records are the worst of every group at once
        assert privacy_cost(made) / 2 < dearest <= privacy_cost(made)
    else:
        assert dearest == privacy_cost(made)


def test_a_change_in_two_slices_costs_both() -> None:
    """Group 0 moves in the first slice, group 1 in the second: the noise of each slice pays for its own."""
    made = bundled()
    sizes = [group_rows(made.frame, group) for group in made.groups]
    change = [np.zeros(size, dtype=np.int64) for size in sizes]
    change[0][0], change[1][-1] = 1, 1
    assert brute_force._moved(made, (0, 1), change) == 2
    change[1][-1], change[1][0] = 0, 1
    assert brute_force._moved(made, (0, 1), change) == 1


def test_brute_force_goes_up_to_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 cells, and as many entries as it may take: checked. One more: not."""
    made = plan(Workload.all_kway(Schema.from_sizes({"a": 8, "b": 8}), 1), PureDP(1), "marginals")
    entries = 64 * made.rows
    monkeypatch.setattr(brute_force, "_price", lambda *given: made.guarantee.capacity + 1)
    for cells, most, seen in ((64, entries, True), (63, entries, False), (64, entries - 1, False)):
        monkeypatch.setattr(brute_force, "_BRUTE_FORCE_CELLS", cells)
        monkeypatch.setattr(brute_force, "_BRUTE_FORCE_ENTRIES", most)
        if seen:
            with pytest.raises(errors.PlanError, match="every record within the guarantee"):
                brute_force.verify_by_brute_force(made)
        else:
            brute_force.verify_by_brute_force(made)
    assert (brute_force._BRUTE_FORCE_CELLS, brute_force._BRUTE_FORCE_ENTRIES) != (64, 20_000)
    monkeypatch.undo()
    assert (brute_force._BRUTE_FORCE_CELLS, brute_force._BRUTE_FORCE_ENTRIES) == (64, 20_000)


def test_helmert_rows_below_several_nodes_are_priced() -> None:
    levels = [Level("half", groups={"low": ["a", "b", "c"], "high": ["d", "e", "f"]})]
    schema = Schema([Attribute("x", values=list("abcdef"), levels=levels), Attribute("y", size=3)])
    made = plan(Workload.full_cube(schema), ZCDP(1), "residual")
    verify_privacy(made)
    assert privacy_cost(made) == 1


@pytest.mark.parametrize("kind", ["cells", "helmert"])
@pytest.mark.parametrize("parents", [1, 3])
def test_a_few_children_stand_for_all(kind: str, parents: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What some children of a large node meet is what children do meet, and the extremes are among it."""
    weights = tuple(j * (j + 1) for j in range(1, 14)) if kind == "helmert" else ()
    shape = privacy.Shape(parents, 14, kind, weights)  # type: ignore[arg-type]
    every = privacy.meetings.__wrapped__(shape)
    monkeypatch.setattr(columns, "_ALL_CHILDREN", 13)
    few = privacy.meetings.__wrapped__(shape)
    assert set(columns._children(shape)) < set(range(14))
    assert few <= every
    for extreme in (min, max):
        assert extreme(each.inner for each in few) == extreme(each.inner for each in every)
        assert extreme(each.one for each in few) == extreme(each.one for each in every)
    assert max(each.l1 for each in few) == max(each.l1 for each in every)


def test_the_l1_of_exchanged_records_is_twice_that_of_one() -> None:
    shape = privacy.Shape(1, 4, "helmert", (2, 6, 12))
    assert privacy._product_move((shape,), False).l1 == 3  # a cell meets 1, 1, 1, or -1, 1, 1, or -2, 1, or -3
    assert privacy._product_move((shape, shape), True).l1 == 18


@pytest.mark.parametrize(
    ("buckets", "cells", "moved"),
    [
        (4, 1, (0, 0)),  # one record cannot be exchanged for another
        (1, 40, (2, 4)),  # from one sign to the other in the only bucket
        (10**9, 2, (2, 2)),  # from bucket to bucket
    ],
)
def test_exchanged_records_move_a_sketch_by_two_numbers_at_most(
    buckets: int, cells: int, moved: tuple[int, int]
) -> None:
    assert privacy._sketch_move(SketchGroup(0, buckets), cells, True) == moved
    assert privacy._sketch_move(SketchGroup(0, buckets), cells, False) == (1, 1)


@pytest.mark.parametrize(
    "group",
    [
        SketchGroup(-1, 4),
        SketchGroup(0, 0),
        (GroupPart(3, 1, "cells"),),  # of three axes, this is the fourth
        (GroupPart(-1, 1, "cells"),),
        (GroupPart(0, 0, "cells"),),
        (GroupPart(0, 2, "cells"),),
        (GroupPart(1, 1, "contrast"),),
        (GroupPart(1, 1, "cells"), GroupPart(1, 1, "cells")),
    ],
    ids=str,
)
def test_groups_that_the_frame_does_not_have_are_refused(group: Group) -> None:
    frame = plan(PAIRS, PureDP(1), "marginals").frame
    for good in (SketchGroup(0, 1), (GroupPart(2, 1, "cells"),), (GroupPart(0, 1, "contrast"),)):
        privacy._check_group(frame, good)
    with pytest.raises(errors.PlanError, match="group"):
        privacy._check_group(frame, group)


@pytest.mark.parametrize("kind", ["helmert", "squares"])
def test_helmert_rows_of_one_child_are_refused(kind: str) -> None:
    """A document may ask for them; there are none, and so no weight of their noise to look at."""
    workload = Workload.all_kway(Schema.from_sizes({"a": 1, "b": 3}), 1)
    made = plan(workload, ZCDP(1), "marginals")
    with pytest.raises(errors.PlanError, match="two children or more"):
        privacy.verify_privacy(replace(made, groups=(*made.groups[:-1], (GroupPart(0, 1, "helmert"),))))
    with pytest.raises(errors.PlanError, match="two children or more"):
        groups_from([[[0, 1, kind]]], made.frame)


@pytest.mark.parametrize(("rows", "scale"), [(0, 24_390), (100, 6_622), (361, 4_000), (10**6, 90)])
def test_scales_of_max_norm_noise_are_limited_by_their_rows(rows: int, scale: int) -> None:
    assert largest_scale(rows) == scale


# Replaced records that are not exchanged one for one


LOSING = {
    "several rows": (Schema.from_sizes({"a": 3}), 2),
    "values left out": (Schema([Attribute("a", values=["x", "y", "z"], other="drop")]), 1),
    "a condition": (Schema([Attribute("a", size=3)], where={"b": ["yes"]}), 1),
}


@pytest.mark.parametrize("guarantee", [PureDP, ZCDP])
@pytest.mark.parametrize("case", LOSING)
def test_a_replaced_unit_may_have_fewer_records_that_count(case: str, guarantee: type[PureDP] | type[ZCDP]) -> None:
    """Then the number of records is no public number, and a total costs something."""
    schema, rows = LOSING[case]
    protected = guarantee(1, neighbors="replace_one", max_rows_per_person=rows)
    made = plan(Workload.tables(schema, [()]), protected, "marginals")
    assert 0 < privacy_cost(made) <= protected.capacity
    plain = plan(Workload.tables(Schema.from_sizes({"a": 3}), [()]), guarantee(1, neighbors="replace_one"), "marginals")
    assert privacy_cost(plain) == 0


@pytest.mark.parametrize("case", LOSING)
def test_brute_force_prices_records_that_are_lost(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a tenth of the noise on the total, which no exchange of two records moves."""
    schema, rows = LOSING[case]
    protected = PureDP(1, neighbors="replace_one", max_rows_per_person=rows)
    made = plan(Workload.tables(schema, [()]), protected, "marginals")
    brute_force.verify_by_brute_force(made)
    scale = Plan.noise_scale
    monkeypatch.setattr(Plan, "noise_scale", lambda self, group: scale(self, group) / 10)
    with pytest.raises(errors.PlanError, match="every record within the guarantee"):
        brute_force.verify_by_brute_force(made)
    with pytest.raises(errors.PlanError, match="a cost of at most 1"):
        verify_privacy(made)


def test_what_the_gate_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of 256 bits, and all tables: one that lies in another does not end the list."""
    schema = Schema.from_sizes({"a": 2, "b": 3, "c": 2, "d": 2})
    made = plan(Workload.tables(schema, [("a", "b", "c"), ("a", "b"), ("d",)]), PureDP(1), "marginals")
    engine = engine_for(pa.table({name: [0] for name in schema.names}))
    asked = []
    monkeypatch.setattr(engine, "prepare", asked.append)
    gate.measure(made, engine, MemoryLedger(made.guarantee), noise_from=Ones())
    assert len(asked[0].key) == 32
    assert set(asked[0].tables) == {("a", "b", "c"), ("d",)}


def test_noise_that_is_not_whole_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ones, "max_norm", lambda self, scale, sizes: [np.ones(size) for size in sizes])
    with pytest.raises(errors.PlanError, match="one whole number of 64 bits per row"):
        gate._noise(bundled(), Ones())


def test_two_rows_of_a_person_need_the_person() -> None:
    made = plan(PAIRS, PureDP(1, max_rows_per_person=2), "marginals")
    codes = pa.table({"a": [0], "b": [2], "c": [3]})
    with pytest.raises(errors.PlanError, match="person"):
        gate.measure(made, engine_for(codes), MemoryLedger(made.guarantee), noise_from=Ones())


# Sensitivities


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("strategy", ["marginals", "fourier", "residual", "sketch"])
def test_three_rows_of_a_person_move_nine_times_as_far_in_squares(strategy: str, neighbors: str) -> None:
    made = plan(PAIRS, ZCDP(1), strategy)
    one, three = (ZCDP(1, neighbors=neighbors, max_rows_per_person=rows) for rows in (1, 3))
    for group in made.groups:
        moved = sensitivity.squared_l2(one, made.frame, group)
        assert 0 < moved <= 4
        assert sensitivity.squared_l2(three, made.frame, group) == 9 * moved
    moved_by_all = sensitivity.squared_l2_of_all(three, made.frame, made.groups)
    exact = [float(sensitivity.squared_l2(three, made.frame, group)) for group in made.groups]
    np.testing.assert_allclose(moved_by_all, exact, rtol=1e-12)


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("guarantee", [PureDP, ZCDP])
@pytest.mark.parametrize("strategy", ["marginals", "fourier", "sketch"])
def test_variances_of_many_groups_are_those_of_each(strategy: str, guarantee: type[PureDP], neighbors: str) -> None:
    made = plan(PAIRS, guarantee("0.7", neighbors=neighbors, max_rows_per_person=3), strategy)
    exact = [float(made.noise_variance(group)) for group in range(len(made.groups))]
    np.testing.assert_allclose(made.noise_variances(), exact, rtol=1e-12)
    assert sensitivity.bundle_factors(made.frame, made.groups[:1]) == [1]


def test_a_cost_of_1_is_held_against_the_profile_too() -> None:
    assert privacy.is_within(Fraction(0), ApproxDP("0.001", "1e-9"))
    assert not privacy.is_within(Fraction(1), ApproxDP("0.001", "1e-9"))


@pytest.mark.parametrize("power", [1, 2])
def test_pairs_of_columns_of_a_matrix_are_compared(power: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner's own formula, if it forgets pairs, is not believed."""
    rows = np.random.default_rng(5).integers(-9, 10, (3, 7))
    group = MatrixGroup(("x",), tuple(map(tuple, rows.tolist())))
    apart = max(int((np.abs(one - other) ** power).sum()) for one, other in combinations(rows.T, 2))
    for name in ("largest_l1", "largest_l2"):
        monkeypatch.setattr(MatrixGroup, name, lambda *given: 0)
    assert privacy._matrix_move(group, True)[power - 1] == apart


def middling(cells: int) -> MatrixGroup:
    """Two columns of middle length that point apart, among longer and shorter ones that do not."""
    matrix = np.ones((3, cells), dtype=int)
    matrix[0, : cells // 2] = 12
    matrix[1, cells // 2 : cells // 2 + 2] = [9, -9]
    return MatrixGroup(("x",), tuple(map(tuple, matrix.tolist())))


def test_the_dearest_pair_of_columns_is_found_wherever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is neither of the longest nor of the shortest columns."""
    for name in ("largest_l1", "largest_l2"):
        monkeypatch.setattr(MatrixGroup, name, lambda *given: 0)
    group = middling(200)
    assert privacy._matrix_move(group, True) == (11 + 10, 18**2)
    frame = Frame.natural(Workload.all_kway(Schema.from_sizes({"x": 200, "y": 3}), 1))
    one = BlockGroup((Block((), group), Block(("y",), MatrixGroup(("x",), ((1,) * 200,)))))
    assert block_move(frame, one, True, Fraction(0)) == 18**2 + 2 * Fraction(2, 3) + 2 * Fraction(1, 3)


def test_two_nodes_of_one_child_each_are_told_apart() -> None:
    """Where no cell has siblings, a record is exchanged for one of another node, if there is one."""
    for parents in (1, 2, 3):
        found = columns.meetings(columns.Shape(parents, 1, "cells", ()))
        assert {met.inner for met in found} == ({0, 1} if parents > 1 else {1})


@pytest.mark.parametrize(("kind", "moved"), [("cells", 2), ("contrast", 4)])
def test_an_exchange_moves_cells_by_2_and_contrasts_by_4(kind: str, moved: int) -> None:
    frame = Frame.natural(Workload.all_kway(Schema.from_sizes({"a": 2, "b": 2}), 2))
    group = (GroupPart(0, 1, kind), GroupPart(1, 1, kind))  # type: ignore[arg-type]
    for rows in (1, 3):
        guarantee = ZCDP(1, neighbors="replace_one", max_rows_per_person=rows)
        assert sensitivity.squared_l2(guarantee, frame, group) == moved * rows**2
        assert sensitivity.squared_l2(ZCDP(1, max_rows_per_person=rows), frame, group) == rows**2


def test_helmert_rows_of_one_value_are_none_and_move_nothing() -> None:
    frame = Frame.natural(Workload.all_kway(Schema.from_sizes({"a": 1, "b": 3}), 1))
    for neighbors in ("add_remove", "replace_one"):
        guarantee = ZCDP(1, neighbors=neighbors, max_rows_per_person=2)  # type: ignore[arg-type]
        assert sensitivity.squared_l2(guarantee, frame, (GroupPart(0, 1, "helmert"),)) == 0
        assert sensitivity.squared_l2(guarantee, frame, (GroupPart(1, 1, "helmert"),)) > 0


def test_weights_that_treat_cells_differently_are_refused() -> None:
    assert columns.inner_products(columns.Shape(1, 3, "helmert", (2, 6))) == (Fraction(2, 3), Fraction(-1, 3), 0)
    with pytest.raises(errors.PlanError, match="treat all cells alike"):
        columns.inner_products(columns.Shape(1, 3, "helmert", (2, 7)))


def test_a_bundle_that_does_not_move_costs_nothing_and_no_less() -> None:
    """Rows without product structure always cost their whole share, and never more."""
    schema = Schema.from_sizes({"a": 2, "b": 2})
    frame = Frame.natural(Workload.all_kway(schema, 2))
    a, b = GroupPart(0, 1, "contrast"), GroupPart(1, 1, "contrast")
    guarantee = PureDP(1, neighbors="replace_one")
    found = pairs.every_case(guarantee, frame, [(a,), (b,), (a, b), SketchGroup(0, 3)], [(0, 1), (2,), (3,)])
    assert found is not None
    assert [set(term.ratios) for term in found.terms] == [{0, 1}, {0, 1}, {1}]
    assert found.dearest([5, 3, 2]) == 10
    assert found.dearest([0, 3, 2]) == 5


def test_large_tables_of_bundles_cost_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = Frame.natural(Workload.all_kway(Schema.from_sizes({"a": 2, "b": 2}), 2))
    groups: list[Group] = [(GroupPart(0, 1),), (GroupPart(1, 1),)]
    monkeypatch.setattr(pairs, "_MOST_IN_A_TABLE", 1)
    found = pairs.every_case(PureDP(1, neighbors="replace_one"), frame, groups, [(0, 1)])
    assert found is not None
    assert found.dearest([7]) == 7
