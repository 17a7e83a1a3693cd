"""The least largest variance of Gaussian plans: reference figures, a general solver, certificates, and merging."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import reference_figures
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from privcube import ZCDP, ApproxDP, Attribute, Axis, Level, Schema, Workload, errors
from privcube.accuracy.structure import Structure
from privcube.algebra.lattice import Incidence
from privcube.model.privacy.guarantee import Guarantee
from privcube.model.sensitivity import noise_variances, squared_l2
from privcube.planning import minimax as gaussian
from privcube.planning.minimax import largest_ratio_shares
from privcube.strategies import STRATEGIES

HALF = ZCDP("0.5")  # variance 1 for a squared sensitivity of 1
REPLACE = ZCDP("0.5", neighbors="replace_one", max_rows_per_person=2)
GUARANTEES = [HALF, REPLACE]
SIZES = (9, 16, 7, 15, 6, 5, 2, 2)


def structure_of(
    workload: Workload, guarantee: Guarantee = HALF, strategy: str = "residual"
) -> tuple[Structure, np.ndarray]:
    proposal = STRATEGIES[strategy].propose(workload, guarantee)
    structure = Structure.of(workload, proposal.frame, proposal.groups)
    return structure, np.array([float(squared_l2(guarantee, proposal.frame, group)) for group in structure.groups])


def variances_of(structure: Structure, guarantee: Guarantee, shares: np.ndarray) -> np.ndarray:
    return structure.table_variances(noise_variances(guarantee, structure.frame, structure.groups, shares, 1))


def up_to(sizes: tuple[int, ...], k: int) -> Workload:
    schema = Schema.from_sizes({f"a{number}": size for number, size in enumerate(sizes)})
    names = list(schema.names)
    return Workload.tables(schema, [table for count in range(k + 1) for table in combinations(names, count)])


def ratios_of(structure: Structure, guarantee: Guarantee, wanted: np.ndarray) -> np.ndarray:
    """A, from the variances of tables alone: they are linear in 1/share."""
    count = len(structure.groups)
    base = variances_of(structure, guarantee, np.ones(count))
    columns = [variances_of(structure, guarantee, 1 / (1 + np.eye(count)[group])) - base for group in range(count)]
    return np.maximum(np.array(columns).T, 0) / wanted[:, None]


def slow_optimum(ratios: np.ndarray) -> float:
    """The slow twin, as a geometric program: minimize y, log sum_b A_tb exp(-x_b) <= y, log sum_b exp(x_b) <= 0."""
    count = ratios.shape[1]

    def parts(point: np.ndarray) -> np.ndarray:
        return ratios * np.exp(-point[:-1])

    def room(point: np.ndarray) -> np.ndarray:
        return np.append(point[-1] - np.log(parts(point).sum(axis=1)), -np.log(np.exp(point[:-1]).sum()))

    def slopes(point: np.ndarray) -> np.ndarray:
        of_tables = np.hstack([parts(point) / parts(point).sum(axis=1, keepdims=True), np.ones((len(ratios), 1))])
        shares = np.exp(point[:-1])
        return np.vstack([of_tables, np.append(-shares / shares.sum(), 0)])

    start = np.append(np.full(count, -np.log(count)), np.log(ratios.sum(axis=1).max() * count))
    found = optimize.minimize(
        lambda point: point[-1], start, jac=lambda point: np.eye(count + 1)[-1], method="SLSQP",
        constraints={"type": "ineq", "fun": room, "jac": slopes}, options={"ftol": 1e-14, "maxiter": 1000},
    )  # fmt: skip
    shares = np.exp(found.x[:-1])
    return float((ratios @ (1 / shares)).max() * shares.sum())


ROWS = [
    row
    for row in reference_figures.reference_rows()
    if row["method"].startswith("ResidualPlanner maxvar") and row["metric"] == "max_cell_variance"
]


def test_the_reference_has_both_domains() -> None:
    assert {row["domain"] for row in ROWS} == set(reference_figures.SIZES)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['domain'][:5]}, {row['workload']}")
def test_reference_of_the_largest_variance(row: dict[str, str]) -> None:
    """ResidualPlanner's largest cell variance at rho = 1/2, by cvxpy and Clarabel."""
    workload = reference_figures.workload(row["domain"], row["workload"])
    structure, moved = structure_of(workload)
    shares, gap = largest_ratio_shares(structure, moved, np.ones(len(workload)))
    assert shares.sum() == pytest.approx(1)
    assert variances_of(structure, HALF, shares).max() == pytest.approx(float(row["value"]), rel=1e-7)
    assert 0 <= gap < 1e-9


@st.composite
def tasks(draw: st.DrawFn) -> tuple[Workload, np.ndarray]:
    sizes = draw(st.lists(st.integers(1, 7), min_size=1, max_size=5))
    schema = Schema.from_sizes({f"a{number}": size for number, size in enumerate(sizes)})
    every = [table for k in range(len(sizes) + 1) for table in combinations(schema.names, k)]
    tables = draw(st.lists(st.sampled_from(every), min_size=1, max_size=12, unique=True))
    wanted = draw(st.lists(st.sampled_from([0.01, 0.5, 1.0, 1.0, 3.0, 200.0]), min_size=len(tables), max_size=12))
    return Workload.tables(schema, tables), np.array(wanted[: len(tables)])


@settings(deadline=None, max_examples=60)
@given(tasks(), st.sampled_from([*GUARANTEES, ApproxDP(1, "1e-6")]))
def test_against_a_general_solver(task: tuple[Workload, np.ndarray], guarantee: Guarantee) -> None:
    workload, wanted = task
    structure, moved = structure_of(workload, guarantee)
    shares, gap = largest_ratio_shares(structure, moved, wanted)
    reached = (variances_of(structure, guarantee, shares) / wanted).max()
    assert reached == pytest.approx(slow_optimum(ratios_of(structure, guarantee, wanted)), rel=1e-6)
    assert shares.min() > 0
    assert shares.sum() == pytest.approx(1)
    assert 0 <= gap < 1e-8


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_tables_with_levels_and_ranges(guarantee: Guarantee) -> None:
    groups = {"n": list("uvw"), "s": list("xyz"), "e": ["t"]}
    schema = Schema(
        [
            Attribute("area", values=tuple("uvwxyzt"), levels=[Level("region", groups=groups)]),
            Attribute("age", size=12, levels=[Level("three", width=3), Level("six", width=6)]),
            Attribute("sex", size=2),
        ]
    )
    tables = [(), ("area",), (Axis("area", "region"), "age"), (Axis("age", "three"), "sex"), (Axis("age", "six"),)]
    workload = Workload.tables(schema, [*tables, (Axis("age", queries="ranges"), "sex")])
    wanted = np.array([1.0, 2.0, 5.0, 1.0, 0.5, 40.0])
    structure, moved = structure_of(workload, guarantee)
    shares, gap = largest_ratio_shares(structure, moved, wanted)
    reached = (variances_of(structure, guarantee, shares) / wanted).max()
    assert reached == pytest.approx(slow_optimum(ratios_of(structure, guarantee, wanted)), rel=1e-6)
    assert gap < 1e-9


def test_the_guarantee_changes_the_optimum() -> None:
    """Replacing a record moves the residuals in other proportions than adding one; each optimum is its own."""
    workload = up_to(SIZES[:4], 2)
    found = {}
    for guarantee in GUARANTEES:
        structure, moved = structure_of(workload, guarantee)
        found[guarantee] = largest_ratio_shares(structure, moved, np.ones(len(workload)))[0]
    for guarantee in GUARANTEES:
        structure, _ = structure_of(workload, guarantee)
        reached = [variances_of(structure, guarantee, found[other]).max() for other in (HALF, REPLACE)]
        own = GUARANTEES.index(guarantee)
        assert reached[own] < reached[1 - own] * (1 - 1e-4)


@pytest.mark.parametrize("table", [(), ("a0",), ("a0", "a2", "a3")])
def test_a_single_table_has_a_closed_form(table: tuple[str, ...]) -> None:
    schema = Schema.from_sizes({f"a{number}": size for number, size in enumerate(SIZES)})
    structure, moved = structure_of(Workload.tables(schema, [table]))
    shares, gap = largest_ratio_shares(structure, moved, np.array([3.0]))
    root = np.sqrt(ratios_of(structure, HALF, np.array([3.0]))[0])
    np.testing.assert_allclose(shares, root / root.sum(), rtol=1e-9)
    assert variances_of(structure, HALF, shares)[0] / 3 == pytest.approx(root.sum() ** 2)
    assert gap < 1e-12


def test_no_other_shares_are_below_the_certified_bound() -> None:
    workload = up_to(SIZES, 2)
    wanted = 1 + np.arange(len(workload)) % 5.0
    structure, moved = structure_of(workload)
    shares, gap = largest_ratio_shares(structure, moved, wanted)
    best = (variances_of(structure, HALF, shares) / wanted).max()
    for seed in range(300):
        turn = np.random.default_rng(seed).normal(size=len(shares)) * 10.0 ** -(seed % 5)
        other = shares * np.exp(turn)
        reached = (variances_of(structure, HALF, other / other.sum()) / wanted).max()
        assert reached >= best / (1 + gap) * (1 - 1e-12)
    for weighting in (np.ones(len(workload)), structure.weights * structure.cells):  # optimal for totals, not for this
        other = np.sqrt(gaussian._ratios(structure, moved, wanted).transposed_times(weighting))
        assert (variances_of(structure, HALF, other / other.sum()) / wanted).max() > best * 1.01


@settings(deadline=None)
@given(tasks(), st.integers(0, 10_000))
def test_any_weights_bound_any_shares(task: tuple[Workload, np.ndarray], seed: int) -> None:
    """Weak duality of the two halves of the certificate, and that both are what they say."""
    workload, wanted = task
    structure, moved = structure_of(workload)
    ratios = gaussian._ratios(structure, moved, wanted)
    rng = np.random.default_rng(seed)
    shares, weights = rng.dirichlet(np.ones(ratios.shape[1])) + 1e-6, rng.exponential(size=ratios.shape[0])
    upper, lower = gaussian._upper(ratios, shares), gaussian._lower(ratios, weights)
    dense = ratios_of(structure, HALF, wanted)
    assert upper == pytest.approx((variances_of(structure, HALF, shares / shares.sum()) / wanted).max())
    assert lower == pytest.approx(np.sqrt(dense.T @ (weights / weights.sum())).sum() ** 2)
    assert lower <= upper * (1 + 1e-12)


def test_wanted_in_another_unit_changes_nothing() -> None:
    structure, moved = structure_of(up_to(SIZES, 2))
    wanted = np.exp(np.sin(np.arange(structure.asks.shape[0])))
    one, _ = largest_ratio_shares(structure, moved, wanted)
    other, _ = largest_ratio_shares(structure, moved * 7, wanted * 1e6)
    np.testing.assert_allclose(one, other, rtol=1e-4)


@pytest.mark.parametrize("spread", [0, 1, 3, 6, 12])
def test_mixed_wishes(spread: int) -> None:
    """Wishes that lie up to 24 orders of magnitude apart: most tables get theirs many times over."""
    structure, moved = structure_of(up_to(tuple(range(2, 14)), 3))
    wanted = 10 ** np.random.default_rng(spread).uniform(-spread, spread, size=structure.asks.shape[0])
    shares, gap = largest_ratio_shares(structure, moved, wanted)
    assert gap < 1e-8
    reached = (variances_of(structure, HALF, shares) / wanted).max()
    ratios = gaussian._ratios(structure, moved, wanted)
    for weights in (np.ones(len(wanted)), ratios.times(np.ones(len(moved)))):
        other = np.sqrt(ratios.transposed_times(weights))
        assert (variances_of(structure, HALF, other / other.sum()) / wanted).max() > reached * 1.01


@settings(deadline=None)
@given(tasks())
def test_merging_changes_nothing(task: tuple[Workload, np.ndarray]) -> None:
    workload, wanted = task
    structure, moved = structure_of(workload)
    ratios = gaussian._ratios(structure, moved, wanted)
    merged, column_class, part = gaussian._merged(ratios)
    np.testing.assert_allclose(np.bincount(column_class, part), 1)
    small = gaussian._quotient(merged, *gaussian._alike(merged))
    optima = [gaussian._upper(task, gaussian._solved(task)[0]) for task in (ratios, merged, small)]
    assert optima == pytest.approx([optima[0]] * 3, rel=1e-8)


def test_tables_that_are_alike_are_merged() -> None:
    """Four sorts of tables up to three-way, of any number of attributes of one size; more with two sizes."""
    structure, moved = structure_of(up_to((10,) * 30, 3))
    tables = structure.asks.shape[0]
    merged = gaussian._merged(gaussian._ratios(structure, moved, np.ones(tables)))[0]
    found, columns = gaussian._alike(merged)
    cells = np.unique(structure.cells)
    assert len(cells) == found.max() + 1 == columns.max() + 1 == 4
    assert all(len(np.unique(found[structure.cells == count])) == 1 for count in cells)
    assert largest_ratio_shares(structure, moved, np.ones(tables))[1] < 1e-9
    wanted = np.ones(tables)
    wanted[5] = 2  # one table with one attribute: it, and tables with or without that attribute, stand apart
    found, _ = gaussian._alike(gaussian._merged(gaussian._ratios(structure, moved, wanted))[0])
    assert found.max() + 1 == 1 + 2 + 2 + 2


def test_classes_are_equitable() -> None:
    structure, moved = structure_of(up_to((3, 3, 5, 5, 5, 2), 4))
    ratios = gaussian._ratios(structure, moved, np.ones(structure.asks.shape[0]))
    tables, columns = gaussian._alike(ratios)
    assert tables.max() + 1 < len(tables) / 2
    dense = np.zeros(ratios.shape)
    dense[ratios.row, ratios.column] = ratios.factor
    by_column = dense @ np.eye(columns.max() + 1)[columns]
    by_table = np.eye(tables.max() + 1)[tables].T @ dense
    for number in range(tables.max() + 1):
        np.testing.assert_allclose(np.ptp(by_column[tables == number], axis=0), 0, atol=1e-9)
    for number in range(columns.max() + 1):
        np.testing.assert_allclose(np.ptp(by_table[:, columns == number], axis=1), 0, atol=1e-9)


def test_thousands_of_tables_of_which_no_two_are_alike() -> None:
    structure, moved = structure_of(up_to(tuple(range(2, 26)), 3))
    tables = structure.asks.shape[0]
    wanted = np.exp(np.random.default_rng(3).normal(size=tables))
    merged = gaussian._merged(gaussian._ratios(structure, moved, wanted))[0]
    assert gaussian._alike(merged)[0].max() + 1 == tables == 2325
    assert largest_ratio_shares(structure, moved, wanted)[1] < 1e-8


def test_nearly_equal_tables() -> None:
    """The hardest case known: dense rows that differ in the seventh digit."""
    rng = np.random.default_rng(0)
    dense = np.exp(rng.normal(size=60)) * (1 + 1e-7 * rng.random((80, 60)))
    row, column = np.nonzero(dense)
    ratios = Incidence(row, column, dense[row, column], dense.shape)
    shares, weights = gaussian._solved(ratios)
    assert 0 <= gaussian._upper(ratios, shares) / gaussian._lower(ratios, weights) - 1 < 1e-6


def test_refusals() -> None:
    workload = up_to((2, 3), 2)
    structure, moved = structure_of(workload, strategy="marginals")
    with pytest.raises(errors.PlanError, match="groups: expected one for every residual"):
        largest_ratio_shares(structure, moved, np.ones(4))
    structure, moved = structure_of(workload)
    for wanted in (np.ones(3), np.array([1.0, 1, 0, 1]), np.array([1.0, 1, np.nan, 1]), np.array([1.0, 1, np.inf, 1])):
        with pytest.raises(errors.PlanError, match="wanted: expected 4 finite numbers above 0"):
            largest_ratio_shares(structure, moved, wanted)
    with pytest.raises(errors.PlanError, match="moved: expected 4 finite numbers above 0"):
        largest_ratio_shares(structure, -moved, np.ones(4))
