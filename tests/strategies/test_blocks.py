"""Blocks: against dense algebra on small schemas, against the dual bound on large ones, priced, attacked and drawn."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from math import lcm, prod

import numpy as np
import pytest
from coded_records import CodedRecords
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from many_draws import ManyDraws

from privcube import ZCDP, ApproxDP, Attribute, Axis, Level, Plan, PureDP, Schema, Workload, errors, linear, plan
from privcube.accuracy.blocks import price as second_price
from privcube.accuracy.blocks.form import BlockForm
from privcube.accuracy.layout import Layout
from privcube.accuracy.matrix_structure import workload_gram
from privcube.accuracy.moments import drawn_variance
from privcube.accuracy.predictor import drawn_table_variances, recover
from privcube.accuracy.privacy import privacy_cost, verify_privacy
from privcube.linear.block_optimum import best_blocks, lower_bound
from privcube.linear.gaussian_optimum import gaussian_optimum
from privcube.model.documents.plans import digest_of
from privcube.model.frame import Frame
from privcube.model.groups import Block, BlockGroup, MatrixGroup, row_weights
from privcube.model.matrices import block_price as prices
from privcube.model.options import PlanOptions
from privcube.model.workload import canonical
from privcube.planning.steps import plan_of
from privcube.sensitive.answers import exact_answers
from privcube.sensitive.gate import measure, verify_by_brute_force
from privcube.sensitive.ledger import MemoryLedger
from privcube.strategies.proposal import Proposal

GUARANTEES = [
    ZCDP("0.5"),
    ZCDP(2, neighbors="replace_one"),
    ApproxDP(1, "1e-6", max_rows_per_person=2),
    ApproxDP(1, "1e-6", calibration="zcdp", neighbors="replace_one", max_rows_per_person=3),
]


def ranges(name: str) -> Axis:
    return Axis(name, queries="ranges")


def planned(workload: Workload, guarantee) -> Plan:
    """A plan by blocks, however small the domain."""
    return plan_of(
        workload,
        guarantee,
        PlanOptions(strategy="matrix"),
        Proposal(Frame(workload.schema, "natural"), (best_blocks(workload),), None),
    )


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Ordered attributes, with a missing category or levels or without, and categories, in any order."""
    attributes = [Attribute("age", bins=list(range(draw(st.integers(2, 5)))), missing="category")]
    if draw(st.booleans()):
        levels = [Level("county", groups={"x": ["p", "q"], "y": ["r"]})]
        attributes.append(Attribute("town", values=["p", "q", "r"], levels=levels))
    attributes += [Attribute(f"c{n}", size=draw(st.integers(1, 3))) for n in range(draw(st.integers(1, 2)))]
    schema = Schema(draw(st.permutations(attributes)))
    first = draw(st.sampled_from([("c0",), (ranges("age"), "c0"), (Axis("age", queries="prefixes"), "c0")]))
    tables = {canonical(schema, first)}
    for _ in range(draw(st.integers(0, 3))):
        choices = []
        for attribute in schema:
            options: list[str | Axis | None] = [None, attribute.name]
            if attribute.name == "age":
                options += [ranges("age"), Axis("age", queries="prefixes")]
            options += [Axis(attribute.name, level.name) for level in attribute.levels]
            choices.append(draw(st.sampled_from(options)))
        tables.add(tuple(entry for entry in choices if entry is not None))
    weights = [draw(st.sampled_from([0.2, 1.0, 1.0, 5.0])) for _ in tables]
    return Workload.tables(schema, sorted(tables, key=str), weights=weights)


def drawn_plan(data: st.DataObject, guarantees=GUARANTEES) -> Plan:
    try:
        return planned(data.draw(workloads()), data.draw(st.sampled_from(guarantees)))
    except errors.PlanError:  # without ranges, or without categories
        assume(False)
        raise


def dense(made: Plan) -> tuple[np.ndarray, np.ndarray]:
    """S over all cells, row by row from the definition, and the noise variance of its rows."""
    (group,) = made.groups
    rows = linear.strategy_matrix(made.frame, made.groups).toarray()
    return rows, float(made.noise_variance(0)) * np.array(row_weights(made.frame, group), dtype=float)


@settings(deadline=None, max_examples=8)
@given(data=st.data())
def test_blocks_equal_dense_least_squares(data: st.DataObject) -> None:
    """Predicted variances, variances of every number, recovered tables and laws of sums, from S written out."""
    made = drawn_plan(data)
    rows, noise = dense(made)
    queries = linear.workload_matrix(made.workload).toarray()
    recovery = linear.optimal_recovery(queries, rows, noise)
    np.testing.assert_allclose(recovery @ rows, queries, atol=1e-6)
    drawn = np.array([drawn_variance(made.guarantee.noise, variance) for variance in noise])
    per_query, exact = recovery**2 @ noise, recovery**2 @ drawn
    answers = np.cos(np.arange(len(noise)) * 1.7) * 1e8
    found, bars, start = recover(made, answers), BlockForm(made), 0
    means = drawn_table_variances(made)
    for number, table in enumerate(made.workload):
        stop = start + found[table].size
        assert made.table_variances[number] == pytest.approx(per_query[start:stop].mean(), rel=1e-6)
        assert means[number] == pytest.approx(exact[start:stop].mean(), rel=1e-6)
        np.testing.assert_allclose(bars.variances(table).ravel(), exact[start:stop], rtol=1e-5)
        np.testing.assert_allclose(found[table].ravel(), recovery[start:stop] @ answers, rtol=1e-6, atol=1)
        assert bars.determines(table)
        weights = np.sin(np.arange(stop - start) + 1.0)
        law = bars.query_law(table, weights.reshape(found[table].shape))
        assert law.variance == pytest.approx(float((weights @ recovery[start:stop]) ** 2 @ drawn), rel=1e-5)
        for own in bars.errors(table).laws:
            assert np.min(np.abs(exact[start:stop] / own.variance - 1)) < 1e-5
        start = stop


@settings(deadline=None, max_examples=6)
@given(data=st.data())
def test_prices_and_answers_are_those_of_the_rows(data: st.DataObject) -> None:
    """Every column of S, and every pair of columns, over the noise of its rows, in fractions."""
    made = drawn_plan(data)
    schema, (group,) = made.workload.schema, made.groups
    rows = linear.strategy_matrix(made.frame, made.groups).toarray().astype(np.int64)
    counts = np.random.default_rng(1).integers(0, 50, schema.shape)
    (answers,) = exact_answers(Layout(made.frame), [group], [schema.names], lambda table: counts)
    assert answers.tolist() == (rows @ counts.ravel()).tolist()
    one_by_one = exact_answers(Layout(made.frame), group.blocks, [schema.names] * len(group.blocks), lambda t: counts)
    assert np.concatenate(one_by_one).tolist() == answers.tolist()
    weights = row_weights(made.frame, group)
    below = lcm(*weights)
    parts = np.array([below // weight for weight in weights], dtype=object)
    columns = rows.T.astype(object)

    products = (columns * parts) @ columns.T
    lengths = np.diag(products)
    singles = Fraction(int(max(lengths)), below)
    assert prices.squared_move(schema, group, "add_remove") == singles
    apart = Fraction(int(np.max(lengths[:, None] + lengths - 2 * products)), below)
    bound = prices.squared_move(schema, group, "replace_one")
    assert max(singles, apart) <= bound <= 4 * singles
    verify_privacy(made)
    verify_by_brute_force(made)
    assert privacy_cost(made) == made.guarantee.capacity
    again = Plan.from_json(made.to_json())
    assert again == made
    assert again.digest == made.digest


@settings(deadline=None, max_examples=10)
@given(data=st.data())
def test_blocks_are_the_optimum_over_all_matrices(data: st.DataObject) -> None:
    """Against the convex program over the joint cells, which knows nothing of categories."""
    made = drawn_plan(data, [ZCDP("0.5")])
    asked = [attribute for attribute in made.workload.schema if any(
        Axis.of(entry).attribute == attribute.name for table in made.workload for entry in table)]  # fmt: skip
    _, bound = gaussian_optimum(workload_gram(Schema(asked), made.workload), 1e-7)
    assert lower_bound(made.workload) == pytest.approx(bound, rel=2e-4)  # singular W are raised a little
    assert made.weighted_variance <= bound * (1 + 5e-4)


def many_tables(sizes: dict[str, int]) -> Workload:
    """Ranges of age with every other attribute, all pairs of these, and all smaller tables."""
    schema = Schema.from_sizes(sizes)
    others = [name for name in sizes if name != "age"]
    tables = [set_ for count in range(3) for set_ in combinations(others, count)]
    return Workload.tables(schema, [*tables, *[(ranges("age"), *set_) for set_ in tables]])


@pytest.mark.parametrize("sizes", [{"age": 64, "sex": 2, "area": 10}, {"age": 100, "sex": 2, "area": 10, "race": 5}])
def test_large_domains_reach_the_bound(sizes) -> None:
    workload = many_tables(sizes)
    made = plan(workload, ZCDP("0.5"))
    assert made.options.strategy == "matrix"
    assert isinstance(made.groups[0], BlockGroup)
    assert 1 - 1e-9 <= made.weighted_variance / lower_bound(workload) <= 1 + 1e-5
    verify_privacy(made)


def test_ranges_that_differ_between_tables_share_one_price() -> None:
    """Prefixes with one category, cells with another: priced one by one, blocks would lose 1 % or more."""
    schema = Schema.from_sizes({"sex": 12, "age": 60, "area": 10})
    workload = Workload.tables(schema, [("sex", Axis("age", queries="prefixes")), ("age", "area"), (ranges("age"),)])
    made = plan(workload, ZCDP("0.5"), "matrix")
    (group,) = made.groups
    assert isinstance(group, BlockGroup)
    assert made.weighted_variance <= lower_bound(workload) * (1 + 1e-5)
    alone = [float(prices.squared_move(schema, BlockGroup((block,)), "add_remove")) for block in group.blocks]
    assert sum(alone) > 1.01 * float(prices.squared_move(schema, group, "add_remove"))


def test_two_ordered_attributes_make_one_block_of_their_product() -> None:
    schema = Schema.from_sizes({"sex": 40, "x": 6, "y": 5})
    workload = Workload.tables(schema, [("sex", ranges("x"), ranges("y")), ("sex",), (ranges("x"),)])
    made = plan(workload, ZCDP("0.5"), "matrix")
    (group,) = made.groups
    assert isinstance(group, BlockGroup)
    assert group.attributes == ("x", "y")
    assert made.weighted_variance <= lower_bound(workload) * (1 + 1e-5)


def test_what_is_too_large_is_refused() -> None:
    schema = Schema.from_sizes({"age": 2000, "sex": 2, **{f"c{n}": 5000 for n in range(2)}, "x": 100, "y": 100})
    for table in ((ranges("age"), "sex"), (ranges("x"), "c0"), (ranges("x"), "c0", "c1"), (ranges("x"), ranges("y"))):
        with pytest.raises(errors.PlanError, match="at most 1,024 joint cells"):
            plan(Workload.tables(schema, [table, ("sex",)]), ZCDP(1), "matrix")
    with pytest.raises(errors.PlanError, match="ranges, prefixes or levels"):
        plan(Workload.tables(schema, [("age", "sex"), ("sex",)]), ZCDP(1), "matrix")


# Attacks


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_brute_force_finds_a_price_that_is_too_low(guarantee, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema.from_sizes({"sex": 3, "age": 4})
    made = planned(Workload.tables(schema, [("sex", ranges("age")), ("sex",)]), guarantee)
    honest = prices.squared_move(schema, made.groups[0], guarantee.neighbors)
    monkeypatch.setattr("privcube.model.sensitivity.squared_move", lambda *_: honest / 2)
    for check in (verify_by_brute_force, verify_privacy):
        with pytest.raises(errors.PlanError, match=r"costs more|a cost of at most"):
            check(replace(made))


def test_the_second_price_finds_wrong_noise_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema.from_sizes({"sex": 3, "age": 4})
    made = planned(Workload.tables(schema, [("sex", ranges("age"))]), ZCDP(1))
    real = row_weights(made.frame, made.groups[0])
    monkeypatch.setattr("privcube.accuracy.blocks.price.row_weights", lambda *_: (*real[:-1], 2 * real[-1]))
    with pytest.raises(errors.PlanError, match="noise weights"):
        verify_privacy(made)


@pytest.mark.parametrize("seed", range(40))
def test_both_prices_of_any_blocks_are_the_largest_over_all_pairs(seed: int) -> None:
    """Matrices of any whole numbers, beside contrasts of any attributes: every pair of columns, in fractions."""
    rng = np.random.default_rng(seed)
    schema = Schema.from_sizes({"sex": 3, "age": int(rng.integers(2, 7)), "area": 2, "race": 4})
    frame, cells = Frame(schema, "natural"), schema["age"].cells
    chosen = [names for names in [(), ("sex",), ("area",), ("sex", "race"), ("area", "race")] if rng.integers(2)]
    blocks = []
    for names in chosen or [("sex",)]:
        rows = rng.integers(-9, 10, (int(rng.integers(1, 5)), cells))
        rows[0, 0] = 1  # no matrix of zeros
        blocks.append(Block(names, MatrixGroup(("age",), tuple(map(tuple, rows.tolist())))))
    group = BlockGroup(tuple(blocks))
    singles, pairs = [], []
    for one, other in product(range(cells), repeat=2):
        single, pair = Fraction(0), Fraction(0)
        for block in blocks:
            matrix = np.array(block.matrix.rows, dtype=object)
            own, shared = prices.kept(schema, block), int(matrix[:, one] @ matrix[:, other])
            signs = product(
                *[(Fraction(-1, schema[n].cells), 1 - Fraction(1, schema[n].cells)) for n in block.contrasted]
            )
            least = min(prod(each, start=Fraction(1)) * shared for each in signs)
            single += own * int(matrix[:, one] @ matrix[:, one])
            pair += own * int(matrix[:, one] @ matrix[:, one] + matrix[:, other] @ matrix[:, other]) - 2 * least
        singles.append(single)
        pairs.append(pair)
    assert prices.squared_move(schema, group, "add_remove") == max(singles)
    assert second_price.block_move(frame, group, False, Fraction(0)) == max(singles)
    assert prices.squared_move(schema, group, "replace_one") == max(*singles, *pairs)
    assert second_price.block_move(frame, group, True, Fraction(0)) == max(*singles, *pairs)


@pytest.mark.parametrize("cells", [1, 2, 3, 8, 21])
def test_the_second_price_may_take_any_two_cells_of_an_attribute(cells: int) -> None:
    """All columns of Helmert rows, over their weights, have the same length, and any two the same product."""
    own, apart = 1 - Fraction(1, cells), -Fraction(1, cells)
    for one, other in product(range(cells), repeat=2):
        assert second_price._product(cells, one, other) == (own if one == other else apart)
    assert second_price._of_attribute(cells) == (own, apart if cells > 1 else 0, own)


MATRIX = MatrixGroup(("age",), ((1, 0), (0, 1)))


@pytest.mark.parametrize(
    ("group", "match"),
    [
        (BlockGroup((Block(("sex",), MatrixGroup(("age",), ((1, 0, 0),))),)), "over the cells"),
        (BlockGroup((Block(("area", "sex"), MATRIX),)), "in schema order"),
        (BlockGroup((Block(("what",), MATRIX),)), "in schema order"),
    ],
)
def test_blocks_that_do_not_fit_are_refused(group: BlockGroup, match: str) -> None:
    schema = Schema.from_sizes({"sex": 3, "age": 2, "area": 2})
    made = planned(Workload.tables(schema, [("sex", ranges("age"))]), ZCDP(1))
    with pytest.raises((errors.PlanError, errors.SchemaError), match=match):
        verify_privacy(replace(made, groups=(group,)))


def test_blocks_with_nothing_or_the_same_twice_are_no_group() -> None:
    for each in ((), (Block(("sex",), MATRIX),) * 2, (Block(("age",), MATRIX),)):
        with pytest.raises(errors.PlanError, match=r"block|contrasted"):
            BlockGroup(each)
    other = MatrixGroup(("age",), ((1, 0, 0),))
    with pytest.raises(errors.PlanError, match="same attributes"):
        BlockGroup((Block((), MATRIX), Block(("sex",), other)))


def test_pure_plans_have_no_blocks() -> None:
    schema = Schema.from_sizes({"sex": 3, "age": 4})
    made = planned(Workload.tables(schema, [("sex", ranges("age"))]), ZCDP(1))
    with pytest.raises(errors.PlanError, match="pure guarantee"):
        replace(made, guarantee=PureDP(1))


def hostile(made: Plan, change) -> str:
    document = json.loads(made.to_json())
    document.pop("digest")
    change(document)
    return json.dumps({**document, "digest": digest_of(document)})


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["groups"][0].update(blocks=5),
        lambda d: d["groups"][0].update(blocks=[]),
        lambda d: d["groups"][0].update(cells=10**9),
        lambda d: d["groups"][0].update(attributes=["age", "age"]),
        lambda d: d["groups"][0]["blocks"].append(d["groups"][0]["blocks"][0]),
        lambda d: d["groups"][0]["blocks"].pop(),
        lambda d: d["groups"][0]["blocks"][1].update(contrasted=["age"]),
        lambda d: d["groups"][0]["blocks"][1].update(contrasted=["sex", "sex"]),
        lambda d: d["groups"][0]["blocks"][1].update(contrasted=[1]),
        lambda d: d["groups"][0]["blocks"][1].update(contrasted="sex"),
        lambda d: d["groups"][0]["blocks"][1].update(rows=[[0, 1.5]]),
        lambda d: d["groups"][0]["blocks"][1].update(rows=[[0] + [2**25] * 4]),
        lambda d: d["groups"][0]["blocks"][1].update(rows=[]),
        lambda d: d["groups"][0]["blocks"][1].update(more=1),
        lambda d: d["groups"].append([]),
        lambda d: d["frame"].update(kind="tree", leveled=["age"]),
        lambda d: d.update(guarantee={**d["guarantee"], "amounts": {"epsilon": "1"}}),
        lambda d: d["tables"].append(["sex", "area", ["age", None, "ranges"]]),
    ],
)
def test_hostile_documents_are_refused(change) -> None:
    schema = Schema.from_sizes({"sex": 3, "age": 4, "area": 2})
    made = planned(Workload.tables(schema, [("sex", ranges("age")), ("sex",)]), ZCDP(1))
    with pytest.raises(errors.PrivcubeError):
        Plan.from_json(hostile(made, change))


# Releases


@pytest.mark.parametrize("guarantee", [ZCDP("0.5"), ApproxDP(1, "1e-6", max_rows_per_person=1)], ids=str)
def test_whole_releases_have_the_stated_variance(guarantee) -> None:
    """Through the real gate, without records, so that what comes back is the error; a scale 15 % off is told apart."""
    schema = Schema.from_sizes({"sex": 2, "area": 50, "age": 11})
    workload = Workload.tables(schema, [("sex", ranges("age")), ("area",), ("sex", "age")])
    made = plan(workload, guarantee, "matrix")
    assert isinstance(made.groups[0], BlockGroup)
    engine, runs = CodedRecords(schema, []), 120
    source = ManyDraws(runs)
    squares = np.zeros((runs, 3))
    for run in range(runs):
        answers = measure(made, engine, MemoryLedger(guarantee), noise_from=source).answers
        tables = recover(made, answers.astype(np.float64))
        squares[run] = [float(np.mean(counts**2)) for counts in tables.values()]
    five_errors = 5 * squares.std(axis=0) / runs**0.5
    expected = drawn_table_variances(made)
    assert np.all(np.abs(squares.mean(axis=0) - expected) < five_errors)
    assert np.all(five_errors < 0.3 * expected)
    np.testing.assert_allclose(made.table_variances, expected, rtol=1e-6)


def test_records_are_counted_from_tables_of_a_few_attributes() -> None:
    """No table joins all attributes; with next to no noise, every range is its true count."""
    schema = Schema.from_sizes({"sex": 2, **{f"c{n}": 9 for n in range(8)}, "age": 5})
    tables = [(f"c{n}", ranges("age")) for n in range(8)] + [("sex", Axis("age", queries="prefixes"))]
    made = plan(Workload.tables(schema, tables), ZCDP(10**9), "matrix")
    values = np.random.default_rng(5).integers(0, [2, *[9] * 8, 5], (200, 10))
    answers = measure(made, CodedRecords(schema, [tuple(v) for v in values.tolist()]), MemoryLedger(made.guarantee))
    found = recover(made, answers.answers.astype(np.float64))
    for table in made.workload:
        name, _ = table
        at = schema.names.index(str(name))
        ends = [(0, b) for b in range(5)] if name == "sex" else [(a, b) for a in range(5) for b in range(a, 5)]
        expected = [
            [int(np.sum((values[:, at] == value) & (values[:, -1] >= a) & (values[:, -1] <= b))) for a, b in ends]
            for value in range(schema[str(name)].cells)
        ]
        np.testing.assert_allclose(found[table], expected, atol=0.1)


def test_tables_that_were_not_asked_for() -> None:
    """Ranges over a category, and its levels, follow from the blocks, with the dense variance."""
    county = [Level("county", groups={"x": ["p", "q"], "y": ["r"]})]
    schema = Schema([Attribute("age", size=4), Attribute("town", values=["p", "q", "r"], levels=county),
                     Attribute("year", bins=[0, 1, 2, 3], missing="category")])  # fmt: skip
    made = planned(Workload.tables(schema, [(ranges("age"), "town", "year")]), ZCDP("0.5"))
    rows, noise = dense(made)
    bars = BlockForm(made)
    answers = np.cos(np.arange(len(noise)) * 1.7) * 1e8
    entries = [["age", ranges("age")], ["town", Axis("town", "county")], ["year", ranges("year")]]
    for table in product(*entries):
        workload = Workload.tables(schema, [table])
        recovery = linear.optimal_recovery(linear.workload_matrix(workload).toarray(), rows, noise)
        np.testing.assert_allclose(bars.variances(table).ravel(), recovery**2 @ noise, rtol=1e-6)
        np.testing.assert_allclose(bars.recover([table], answers)[table].ravel(), recovery @ answers, rtol=1e-6, atol=1)
    assert bars.determines(())
    fewer = planned(Workload.tables(schema, [(ranges("age"), "town")]), ZCDP("0.5"))
    assert not BlockForm(fewer).determines(("town", "year"))
