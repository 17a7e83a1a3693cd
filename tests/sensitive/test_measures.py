"""Records that are divided between cells: counted exactly, priced as what they are, and checked at the gate."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcube import ZCDP, ApproxDP, Attribute, Measure, Plan, PureDP, Schema, Workload, errors, plan
from privcube.accuracy.pricing.measures import checked_parts
from privcube.accuracy.privacy import privacy_cost, verify_privacy
from privcube.model.groups import group_rows
from privcube.model.measures.grid import Grid
from privcube.model.plan import Plan as PlanClass
from privcube.planning.steps import with_bundles
from privcube.progress import silent
from privcube.sensitive import brute_force, counting, gate
from privcube.sensitive.brute_force import verify_by_brute_force
from privcube.sensitive.coding import DUCKDB, coded_records
from privcube.sensitive.counting import TableCounter
from privcube.sensitive.counts import ExactCounts
from privcube.sensitive.gate import SystemNoise, measure
from privcube.sensitive.ledger import MemoryLedger
from privcube.sensitive.measures import dividing
from privcube.sensitive.measures.dividing import CountAndSum, Divided, cell_and_more, divided_places
from privcube.sensitive.measures.points import is_plain
from privcube.sensitive.sources import engine_for

ENDS = ("underflow", "overflow")

SCHEMA = Schema(
    [
        *Schema.from_sizes({"a": 2, "b": 3}),
        Measure("x", low=-2, high=4, step=1, missing="category"),
        Measure("y", low=0, high=8, step=2, knots=[2], overflow="category"),
    ]
)
WORKLOAD = Workload.tables(SCHEMA, ["a x b", "a x x", "b x y", "y"])
GUARANTEES = [
    PureDP(1),
    PureDP(2, neighbors="replace_one"),
    ZCDP(1, max_rows_per_person=2),
    ApproxDP(1, "1e-6", neighbors="replace_one"),
]


class NoNoise:
    """Nothing is added, so that the exact answers come out."""

    def laplace(self, scale: object, count: int) -> np.ndarray:
        return np.zeros(count, dtype=np.int64)

    gaussian = rounded_gaussian = laplace

    def max_norm(self, scale: object, sizes: list[int]) -> list[np.ndarray]:
        return [np.zeros(size, dtype=np.int64) for size in sizes]

    def rounded_max_norm(self, scales: object, sizes: list[int], count: int) -> list[np.ndarray]:
        return [np.zeros((count, size), dtype=np.int64) for size in sizes]

    def section(self, scale: object, bound: list[int], free: list[int], count: int) -> list[np.ndarray]:
        return [np.zeros((count, size), dtype=np.int64) for size in (1, *bound, *free)]

    def gram(self, dimension: int, left: np.ndarray, right: object, squares: object, which: object, count: int):
        return np.zeros((count, len(left)), dtype=np.int64)


def plainly(attributes: list[Attribute], table: tuple[int, ...], records: np.ndarray) -> np.ndarray:
    """A table by going through records, cells and fractions one by one."""
    counts = np.zeros([attributes[at].cells for at in table], dtype=object)
    for record in records:
        shares = []
        for at in table:
            divided = Divided.of(attributes[at])
            if divided is None:
                shares.append([(int(record[at]), 1)])
                continue
            cell, more = int(divided.cell[record[at]]), int(divided.more[record[at]])
            shares.append([(cell, divided.parts - more), *([(cell + 1, more)] if more else [])])
        for chosen in product(*shares):
            counts[tuple(cell for cell, _ in chosen)] += int(np.prod([parts for _, parts in chosen]))
    return counts


@settings(max_examples=18)
@given(data=st.data(), rows=st.integers(1, 40), large=st.booleans())
def test_tables_with_measures_equal_those_counted_plainly(data: st.DataObject, rows: int, large: bool) -> None:
    attributes = list(SCHEMA)
    draws = [st.lists(st.integers(0, attribute.codes - 1), min_size=rows, max_size=rows) for attribute in attributes]
    records = np.array([data.draw(draw) for draw in draws]).T
    tables = [(), (0,), (0, 1), (0, 2), (1, 2, 3), (3,), (0, 1, 2, 3)]
    sizes = [attribute.cells for attribute in attributes]
    with pytest.MonkeyPatch.context() as patch:
        if large:
            patch.setattr(counting, "_FRESH_CELLS", 0)
        counter = TableCounter(sizes, tables, workers=2, divided=divided_places(attributes))
        for start in range(0, rows, 17):
            counter.add([column.astype(np.uint8) for column in records[start : start + 17].T])
        found = counter.finish()
    for table in tables:
        assert np.array_equal(found[table], plainly(attributes, table, records)), table


def table_of(records: list[tuple[int, int, float | None, float]]) -> pa.Table:
    columns = zip(*records, strict=True) if records else ([], [], [], [])
    kinds = (pa.int64(), pa.int64(), pa.float64(), pa.float64())
    return pa.table({n: pa.array(list(c), k) for n, c, k in zip("abxy", columns, kinds, strict=True)})


def answers(made: Plan, records: list[tuple[int, int, float | None, float]]) -> list[np.ndarray]:
    """The exact answers to the groups, in parts, as they reach the noise."""
    free = replace(made, guarantee=replace(made.guarantee, max_rows_per_person=1))
    found = measure(free, engine_for(table_of(records)), MemoryLedger(free.guarantee), noise_from=NoNoise()).answers
    return np.split(found, np.cumsum([group_rows(made.frame, group) for group in made.groups])[:-1])


RECORDS = [
    (0, 0, 0.0, 0.0),
    (1, 2, 4.0, 9.0),
    (0, 2, 3.2, 5.0),
    (1, 0, None, 3.1),
    (0, 1, -9.0, 8.0),
]


BESIDE = ["marginals", "base_counts", "fourier", "sketch"]  # each under one of the guarantees


@pytest.mark.parametrize(
    ("strategy", "guarantee"),
    [("search" if isinstance(guarantee, PureDP) else "residual", guarantee) for guarantee in GUARANTEES]
    + [(strategy, GUARANTEES[(at + at // 2) % 4]) for at, strategy in enumerate(BESIDE)],
    ids=str,
)
def test_neighbors_cost_no_more_than_the_guarantee(strategy: str, guarantee, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any record, or two exchanged, move what is noised by no more than the noise is made for."""
    made = plan(WORKLOAD, guarantee, strategy)
    verify_privacy(made)
    for again in ("verify_privacy", "verify_by_brute_force"):  # of the same plan for every record
        monkeypatch.setattr(gate, again, lambda _: None)
    own = [answers(made, [record]) for record in RECORDS]
    none = answers(made, [])
    both = answers(made, RECORDS)
    for group, whole in enumerate(both):
        assert np.array_equal(whole, sum(each[group] for each in own))
    changes = [[one - zero for one, zero in zip(each, none, strict=True)] for each in own]
    if guarantee.neighbors == "replace_one":
        changes = [[x - y for x, y in zip(one, other, strict=True)] for one in own for other in own if one is not other]
    costs = [brute_force._price(made, change) for change in changes]
    assert max(costs) <= guarantee.capacity
    assert max(costs) > guarantee.capacity / 40


def test_noise_that_is_not_drawn_in_parts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Schema([Attribute("a", size=2), Measure("x", low=0, high=4, step=1)])
    for guarantee in (PureDP(1), ZCDP(1)):
        made = plan(Workload.tables(small, ["a x x", "a"]), guarantee, "marginals")
        verify_privacy(made)
        verify_by_brute_force(made)
        with monkeypatch.context() as patch:
            patch.setattr(PlanClass, "drawn_scale", PlanClass.noise_scale)
            patch.setattr(PlanClass, "drawn_variance", PlanClass.noise_variance)
            with pytest.raises(errors.PlanError):
                verify_privacy(made)
            with pytest.raises(errors.PlanError):
                verify_by_brute_force(made)
        with monkeypatch.context() as patch:
            patch.setattr(PlanClass, "drawn_scale", _too_little_scale)
            patch.setattr(PlanClass, "drawn_variance", _too_little_variance)
            with pytest.raises(errors.PlanError):
                verify_privacy(made)
            with pytest.raises(errors.PlanError):
                verify_by_brute_force(made)


def _too_little_scale(made: Plan, group: int) -> Fraction:
    return made.noise_scale(group) * made.parts[group] * Fraction(9, 10)


def _too_little_variance(made: Plan, group: int) -> Fraction:
    return made.noise_variance(group) * made.parts[group] ** 2 * Fraction(9, 10)


@pytest.mark.parametrize(
    "guarantee",
    [PureDP(1), PureDP(1, max_rows_per_person=3), PureDP(2, neighbors="replace_one"), ZCDP(1, max_rows_per_person=3)],
    ids=str,
)
def test_parts_of_records_cost_what_records_cost(guarantee) -> None:
    small = Schema([Attribute("a", size=2), Measure("x", low=0, high=6, step=1)])
    made = plan(Workload.tables(small, ["a x x", "a"]), guarantee, "marginals")
    assert max(made.parts) == 6
    assert Fraction(99, 100) * guarantee.capacity < privacy_cost(made) <= guarantee.capacity


def test_a_record_that_adds_more_than_its_parts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan(Workload.tables(SCHEMA, ["a x x"]), PureDP(1), "marginals")
    ledger = MemoryLedger(made.guarantee)
    true = dividing.assembled

    def more(sums, attributes, divided):
        found = true(sums, attributes, divided)
        if divided:
            found.flat[0] += 1
        return found

    monkeypatch.setattr(counting, "assembled", more)
    with pytest.raises(errors.PlanError, match="the same parts of every record"):
        measure(made, engine_for(table_of(RECORDS)), ledger)
    monkeypatch.undo()
    measure(made, engine_for(table_of(RECORDS)), ledger)  # nothing was charged


def test_a_grid_that_adds_more_than_its_parts_is_seen_by_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Schema([Attribute("a", size=2), Measure("x", low=0, high=4, step=1)])
    made = plan(Workload.tables(small, ["a x x"]), PureDP(1), "marginals")
    true = Divided.of

    def doubled(attribute: Attribute) -> Divided | None:
        found = true(attribute)
        return None if found is None else replace(found, more=np.where(found.more == 2, -1, found.more))

    monkeypatch.setattr(Divided, "of", doubled)
    with pytest.raises(errors.PlanError):
        verify_by_brute_force(made)


class Wrong:
    """An engine whose table does not have the parts of its records."""

    def prepare(self, request) -> None:
        pass

    def count(self, request, progress=silent) -> ExactCounts:
        schema = request.schema
        shapes = {names: [schema[name].cells for name in names] for names in request.tables}
        return ExactCounts(
            schema, {names: np.full(shape, 5 + len(shape), dtype=np.int64) for names, shape in shapes.items()}
        )


HALVES = Schema([Attribute("a", size=2), Measure("x", low=0, high=2, step=1)])


@pytest.mark.parametrize("schema", [SCHEMA, HALVES], ids=["sixths", "halves"])
def test_an_engine_that_does_not_divide_is_refused(schema: Schema) -> None:
    made = plan(Workload.tables(schema, ["a x x"]), PureDP(1), "marginals")
    with pytest.raises(errors.PlanError, match="the same parts of every record"):
        measure(made, Wrong(), MemoryLedger(made.guarantee))


def test_too_many_parts_are_refused_before_they_overflow() -> None:
    fine = [Measure(name, low=0, high=10**6, step=1) for name in "xyz"]
    with pytest.raises(errors.PlanError, match="parts of a record"):
        TableCounter([2, 2, 2], [(0, 1, 2)], divided=divided_places(fine))
    counter = TableCounter([2, 2], [(0,)], divided=divided_places(fine[:1]))
    counter._all_rows = 2**62 // 10**6
    with pytest.raises(errors.PlanError, match=r"2\^62 parts"):
        counter.add([np.zeros(5, dtype=np.uint32)] * 2)


def in_a_bundle(law: str, order: tuple[int, ...] = (0, 1, 2)) -> Plan:
    """Tables of a, of x in 6 parts and of y in 9, noised together."""
    measures = [Measure("x", low=0, high=6, step=1), Measure("y", low=0, high=9, step=1)]
    workload = Workload.tables(Schema([Attribute("a", size=2), *measures]), ["a", "x", "y"])
    made = plan(workload, PureDP(1), "marginals")
    single = sorted(range(len(made.groups)), key=lambda at: made.groups[at])
    assert len(single) == 3
    return replace(with_bundles(made, [[single[at] for at in order]]), laws=(law,))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
@pytest.mark.parametrize("law", ["max_norm", "rounded_max_norm"])
def test_a_bundle_costs_the_same_whichever_group_is_first(law: str, order: tuple[int, ...]) -> None:
    """Also if every group has parts of its own."""
    made = in_a_bundle(law, order)
    assert len(set(made.parts)) == (1 if law == "max_norm" else 3)
    verify_privacy(made)
    verify_by_brute_force(made)
    assert privacy_cost(made) == 1


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("law", ["max_norm", "rounded_max_norm"])
def test_parts_of_every_group_of_a_bundle_are_checked(law: str, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each must be a multiple of what its measures divide a record into, and noise be drawn in those parts."""
    made = in_a_bundle(law)
    (bundle,) = made.noised_together
    assert checked_parts(made, bundle) == made.parts[bundle[0]]

    def refused(expected: str) -> None:
        with pytest.raises(errors.PlanError, match=expected):
            checked_parts(made, bundle)

    true, answers = made.parts, "in which its answers are whole"
    for wrong in [0, -true[bundle[at]]] + ([true[bundle[at]] + 1] if at or law == "max_norm" else []):
        monkeypatch.setitem(vars(made), "parts", tuple(wrong if g == bundle[at] else p for g, p in enumerate(true)))
        refused(answers)
    if law == "max_norm":
        monkeypatch.setitem(vars(made), "parts", tuple(2 * p if g == bundle[at] else p for g, p in enumerate(true)))
        refused(answers)
    monkeypatch.undo()
    for name, expected in (("drawn_variance", "drawn in the parts"), ("drawn_scale", "one scale in records")):
        if name == "drawn_scale" and law == "max_norm":
            continue
        drawn = getattr(PlanClass, name)
        with monkeypatch.context() as patch:
            patch.setattr(PlanClass, name, lambda own, g, d=drawn: d(own, g) * (2 if g == bundle[at] else 1))
            refused(expected)


def test_parts_must_be_counted_in_64_bits() -> None:
    """2^62 of them, not one record more."""
    schema = Schema([Attribute("a", size=2), Measure("x", low=0, high=4, step=1)])
    for records, fits in ((2**60, True), (2**60 + 1, False)):
        counts = {("x",): np.array([4 * 2**60, 4 * (records - 2**60)]), (): np.array(records)}
        if fits:
            gate._require_whole_records(schema, [("x",), ()], counts.__getitem__)
        else:
            with pytest.raises(errors.PlanError, match=r"at most 2\^62 parts"):
                gate._require_whole_records(schema, [("x",), ()], counts.__getitem__)


def test_nothing_goes_beyond_the_last_cell_of_a_measure() -> None:
    for axis in (0, 1):
        counts = np.array([[1, 2, 0], [3, 4, 0], [0, 0, 0]])
        there = np.full((3, 3), 5)
        dividing._add_to_next_cell(there, counts, axis)
        assert np.array_equal(there, 5 + np.roll(counts, 1, axis))
        counts[2, 1], counts[1, 2] = (1, 0) if axis == 0 else (0, 1)
        with pytest.raises(errors.PlanError, match="beyond its last cell"):
            dividing._add_to_next_cell(there, counts, axis)


@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP("0.5")], ids=str)
def test_errors_of_simulated_releases_are_the_predicted_ones(guarantee) -> None:
    from privcube.model.measurements import Measurements
    from privcube.released.release import Release
    from privcube.sensitive.gate import _noise

    schema = Schema([*Schema.from_sizes({"a": 3, "b": 2}), Measure("x", low=10, high=50, step=1)])
    made = plan(Workload.all_kway(schema, 1).with_sums() | Workload.tables(schema, ["a x b x x"]), guarantee)
    found: dict = {table: [] for table in made.workload}
    draws = 250
    for _ in range(draws):
        release = Release(Measurements(made, _noise(made, SystemNoise())))  # of no record: all noise
        for table, own in found.items():
            own.append(release.estimates(table))
    for table, own in found.items():
        values = release.values(table)
        measured = np.sqrt(np.mean(np.array(own) ** 2))
        assert np.isclose(measured, np.sqrt(np.mean(values.std_error**2)), rtol=0.36), table  # five standard errors
        inside = np.mean(np.abs(own) <= values.margin)
        assert inside >= 0.95 - 5 * (0.05 * 0.95 / draws) ** 0.5, table


@pytest.mark.parametrize("parts", [1, 131_000, 131_072, 10**6])
def test_a_run_at_its_heaviest_is_told_apart_exactly(parts: int) -> None:
    """As many records as may be weighed at once, all in one cell, all of them, or all but one, adding all they can."""
    both = CountAndSum.of(Divided(parts, np.zeros(2, dtype=np.uint32), np.array([0, parts])))
    lightest, heaviest = both.weigh(np.array([0, 1], dtype=np.uint8), np.empty(2))
    assert both.most * int(heaviest) < 2**53  # floats hold every sum on the way
    counted, more = both.apart(np.array([both.most * heaviest, lightest + (both.most - 1) * heaviest]))
    assert counted.tolist() == [both.most] * 2
    assert more.tolist() == [both.most * parts, (both.most - 1) * parts]
    assert both.most**2 * parts > 2**49  # and not many fewer than they could


@pytest.mark.parametrize("most", [1, 7, 40])
def test_records_are_weighed_in_runs(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    measures = [Measure("x", low=0, high=4, step=1), Measure("y", low=0, high=8, step=2, knots=[2], missing="category")]
    attributes = [Attribute("a", size=3), *measures]
    true = CountAndSum.of
    monkeypatch.setattr(CountAndSum, "of", lambda divided: replace(true(divided), most=most))
    chance = np.random.default_rng(most)
    records = np.array([chance.integers(0, attribute.codes, 50) for attribute in attributes]).T
    tables = [(0, 1), (0, 2), (0,), ()]
    counter = TableCounter([own.cells for own in attributes], tables, divided=divided_places(attributes))
    for start in range(0, 50, 20):
        counter.add([column.astype(np.uint8) for column in records[start : start + 20].T])
    for table, found in counter.finish().items():
        assert np.array_equal(found, plainly(attributes, table, records)), table


@pytest.mark.parametrize(
    "measure",
    [
        Measure("x", low=-2, high=10, step=1, knots=[1, 4], missing="category", **dict.fromkeys(ENDS, "category")),
        Measure("x", low=0, high=6, step="0.5", knots=[2], overflow="category"),
        Measure("x", low=0, high=3, step=1),
    ],
    ids=lambda measure: f"{measure.cells} cells",
)
def test_sql_divides_every_code_as_numpy_does(measure: Attribute) -> None:
    divided, (cell, more) = Divided.of(measure), cell_and_more(measure, "code")
    assert divided is not None
    rows = duckdb.sql(
        f"SELECT {cell}, COALESCE({more}, 0) FROM range({measure.codes}) AS codes(code) ORDER BY code"
    ).fetchall()
    assert rows == list(zip(divided.cell.tolist(), divided.more.tolist(), strict=True))
    assert np.array_equal(divided.lower_cells[divided.lower], divided.cell)


@pytest.mark.parametrize("kind", ["TINYINT", "UINTEGER", "BIGINT", "UBIGINT", "HUGEINT"])
@pytest.mark.parametrize("policy", ["clamp", "category", "drop", "refuse"])
@pytest.mark.parametrize("low", [-3, 0, 2**52 - 9])
def test_integers_have_the_codes_that_they_have_as_floats(low: int, policy: str, kind: str) -> None:
    measure = Measure("x", low=low, high=low + 8, step=1, missing="category", underflow=policy, overflow=policy)
    assert is_plain(measure.grid)
    bits = {"TINYINT": 7, "UINTEGER": 32, "BIGINT": 63, "UBIGINT": 64, "HUGEINT": 127}[kind]
    near = [0, 1, 2, 5, 8, 100, *range(low - 2, low + 11), 2**60 + 1, 2**63, 2**100]
    whole = [n for n in {*near, *(-n for n in near)} if (kind[0] != "U" or n >= 0) and abs(n) < 2**bits]
    rows = ", ".join(f"(CAST({n} AS {kind}))" for n in [*whole, "NULL"])
    codes = [
        duckdb.sql(coded_records(source, [measure], {"x": declared}, DUCKDB)).fetchall()
        for declared, source in [
            ("integer", f"(VALUES {rows}) AS records(x)"),
            ("float", f"(SELECT CAST(x AS FLOAT8) AS x FROM (VALUES {rows}) AS records(x))"),
        ]
    ]
    assert codes[0] == codes[1]
    assert len(codes[0]) == len(whole) + 1 or policy == "drop"


@pytest.mark.parametrize("grid", [("0.5", 3, "0.5"), (0, 4, 2), ("0.5", "4.5", 1), (2**52 - 4, 2**52, 1)], ids=str)
def test_grids_on_which_integers_need_floats(grid: tuple[object, object, object]) -> None:
    low, high, step = grid
    assert not is_plain(Grid(low=low, high=high, step=step))


def test_sums_and_counts_of_the_records_come_out() -> None:
    schema = Schema([Attribute("a", size=2), Measure("x", low=0, high=10, step="0.5", missing="category")])
    data = pa.table({"a": [0, 0, 1, 1], "x": [2.5, 99.0, -3.0, None]})
    from privcube import release

    made = release(plan(Workload.tables(schema, ["a", "a x x"]), PureDP(10_000)), data)
    assert made.values(("a", "x")).estimate.round(1).tolist() == [12.5, 0.0]
    assert made.values("a").estimate.round().tolist() == [2, 2]
    assert made.values(("a", "x")).means is not None
    assert made.values(("a", "x")).means.estimate.round(2).tolist() == [6.25, 0.0]  # of those with a number
    assert made.query({"a": 0}, measure="x").estimate == pytest.approx(12.5, abs=0.1)
    assert made.mean("x").estimate == pytest.approx(12.5 / 3, abs=0.1)
    for wrong in (lambda: made.query({"x": 1}), lambda: made.mean("a"), lambda: made.query({}, measure="z")):
        with pytest.raises(errors.QueryError):
            wrong()
    assert Fraction(1, 2) == schema["x"].grid.step
