"""Budgets if records are replaced: the optimum over pairs of records, against a bound computed here."""

from __future__ import annotations

import itertools
import math
import os

import numpy as np
import pyarrow as pa
import pytest
from many_draws import drawn_noise

from privcube import ZCDP, ApproxDP, Attribute, Axis, Level, PureDP, Schema, Workload, linear, plan
from privcube.accuracy.predictor import drawn_table_variances
from privcube.accuracy.privacy import privacy_cost, verify_privacy
from privcube.accuracy.structure import Structure
from privcube.model.groups import group_rows, row_weights
from privcube.planning.largest import largest_ratio
from privcube.sensitive import gate
from privcube.sensitive.ledger import MemoryLedger
from privcube.sensitive.sources import engine_for
from privcube.strategies import STRATEGIES, residual

ZERO = ZCDP("0.5", neighbors="replace_one")
RUNS = int(os.environ.get("PRIVCUBE_AUDIT_RELEASES", "300"))
ADULT = (9, 16, 7, 15, 6, 5, 2, 2)


def sized(sizes: tuple[int, ...]) -> Schema:
    return Schema.from_sizes({f"a{at}": size for at, size in enumerate(sizes)})


def bound_for_residuals(workload: Workload, rounds: int = 1000) -> float:
    """A lower bound on the weighted total variance of all plans with Gaussian noise of variance 1 per unit of cost.

    For weights m of the sets of attributes in which two records differ it is (sum_b sqrt(k_b s_b(m)))^2, where s_b is
    how far the two records move residual b, on average. Any weights give a bound; these are multiplied by the slopes.
    """
    proposal = residual.propose(workload, ZERO)
    structure = Structure.of(workload, proposal.frame, proposal.groups, proposal.index)  # type: ignore[arg-type]
    needs = structure.group_coefficients(np.ones(len(structure.groups)))
    sizes = [chain[0] for chain in proposal.frame.fan_outs]
    sets = np.array(list(itertools.product([False, True], repeat=len(sizes))))
    moves = np.zeros((len(sets), len(needs)))
    for number, group in enumerate(structure.groups):
        one, both = np.ones(len(sets)), np.ones(len(sets))
        for part in group:
            one *= 1 - 1 / sizes[part.axis]
            both *= np.where(sets[:, part.axis], -1 / sizes[part.axis], 1 - 1 / sizes[part.axis])
        moves[:, number] = 2 * one - 2 * both
    weights, best = np.full(len(sets), 1 / len(sets)), 0.0
    for _ in range(rounds):
        means = np.maximum(weights @ moves, 1e-300)
        best = max(best, float(np.sqrt(needs * means).sum() ** 2))
        slopes = moves @ np.where(means > 1e-200, np.sqrt(needs / means), 0.0)
        weights = weights * slopes
        weights /= weights.sum()
    return best


@pytest.mark.parametrize(
    ("sizes", "way"), [(ADULT, 1), (ADULT, 2), ((2,) * 8, 2), ((2,) * 8, 3), ((2, 3, 4), 2), ((2, 2, 5, 3), 1)]
)
def test_plans_are_within_a_thousandth_of_the_optimum(sizes: tuple[int, ...], way: int) -> None:
    workload = Workload.all_kway(sized(sizes), way)
    made = plan(workload, ZERO)
    assert made.options.strategy in ("residual", "marginals")  # which may be as good, and within rounding
    verify_privacy(made)
    assert 1 - 1e-9 <= made.weighted_variance / bound_for_residuals(workload) < 1.001


def test_random_weights_and_tables() -> None:
    """No two attributes or tables are alike."""
    rng = np.random.default_rng(5)
    for _ in range(2):
        schema = sized(tuple(rng.integers(2, 5, 5).tolist()))
        cube = list(Workload.full_cube(schema))
        chosen = [cube[at] for at in rng.choice(len(cube), size=7, replace=False).tolist()]
        workload = Workload.tables(schema, chosen, weights=rng.uniform(0.1, 3, 7).tolist())
        assert plan(workload, ZERO).weighted_variance < 1.001 * bound_for_residuals(workload)


def by_groups(workload: Workload) -> float:
    """The error if every group, and the total, counts at its own worst pair of records."""
    proposal = residual.propose(workload, ZERO)
    structure = Structure.of(workload, proposal.frame, proposal.groups, proposal.index)  # type: ignore[arg-type]
    needs = structure.group_coefficients(np.ones(len(structure.groups)))
    sizes = [chain[0] for chain in proposal.frame.fan_outs]
    moved = []
    for group in structure.groups:
        own = math.prod(1 - 1 / sizes[part.axis] for part in group)
        moved.append(2 * own * (1 + max((1 / (sizes[part.axis] - 1) for part in group), default=0)))
    return float(np.sqrt(needs * np.array(moved)).sum() ** 2)


@pytest.mark.parametrize(("sizes", "way", "gain"), [((2,) * 16, 1, 1.38), ((2,) * 16, 2, 2.0), (ADULT, 2, 1.26)])
def test_how_much_pairs_gain(sizes: tuple[int, ...], way: int, gain: float) -> None:
    workload = Workload.all_kway(sized(sizes), way)
    assert by_groups(workload) / plan(workload, ZERO).weighted_variance > gain


def test_sixteen_contrasts_in_one_bundle() -> None:
    """The total of NLTCS is public: 16 contrasts, 17 * 18 / 3 times 4, over 4 for a cell (THEORY section 10)."""
    made = plan(Workload.all_kway(sized((2,) * 16), 1), PureDP(1, neighbors="replace_one"))
    assert made.mean_cell_variance == pytest.approx(102, rel=1e-9)
    verify_privacy(made)


def test_residuals_are_best_under_gaussian_noise() -> None:
    """So "auto" need not try the others."""
    rng = np.random.default_rng(3)
    for _ in range(4):
        schema = sized(tuple(rng.integers(1, 5, 3).tolist()))
        cube = list(Workload.full_cube(schema))
        chosen = [cube[at] for at in rng.choice(len(cube), size=rng.integers(1, len(cube)), replace=False).tolist()]
        workload = Workload.tables(schema, chosen, weights=rng.uniform(0.1, 3, len(chosen)).tolist())
        for rows in (1, 2):
            guarantee = ZCDP("0.5", neighbors="replace_one", max_rows_per_person=rows)
            best = plan(workload, guarantee).weighted_variance
            for strategy in set(STRATEGIES) - {"residual", "sketch"}:
                assert best <= 1.001 * plan(workload, guarantee, strategy, budgets="iterated").weighted_variance


LEVELS = [Level("half", groups={"low": ["p", "q"], "high": ["r", "s"]})]


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("kind", [ZCDP, PureDP])
def test_levels_and_missing_values(kind: type[ZCDP] | type[PureDP], rows: int) -> None:
    schema = Schema(
        [
            Attribute("x", values=list("pqrs"), levels=LEVELS),
            Attribute("y", values=["u", "v"], missing="category"),
            Attribute("z", size=1),
        ]
    )
    workload = Workload.tables(schema, [("x", "y"), (Axis("x", "half"), "z"), ("y",)])
    for strategy in ("auto", "fourier", "marginals"):
        made = plan(workload, kind(1, neighbors="replace_one", max_rows_per_person=rows), strategy)  # type: ignore[arg-type]
        verify_privacy(made)
        gate.verify_by_brute_force(made)
        assert privacy_cost(made) > 0.999 * made.guarantee.capacity
        assert bool(made.known) == (rows == 1)


@pytest.mark.parametrize("sizes", [(2, 3, 4), (2,) * 6])
def test_largest_errors_use_pairs_too(sizes: tuple[int, ...]) -> None:
    workload = Workload.all_kway(sized(sizes), 2)
    wanted = np.ones(len(workload))
    made = plan(workload, ZERO, objective="largest")
    verify_privacy(made)
    assert privacy_cost(made) > 0.999 * made.guarantee.capacity
    assert largest_ratio(made, wanted) <= 1.001 * largest_ratio(plan(workload, ZERO), wanted)
    # The mean of all variances is at most the largest.
    bound = bound_for_residuals(Workload.tables(workload.schema, list(workload), weights=1 / np.array(workload.sizes)))
    assert largest_ratio(made, wanted) >= 0.999 * bound / len(workload)


@pytest.mark.parametrize(
    "guarantee",
    [PureDP(2, neighbors="replace_one"), ZERO, ApproxDP(2, "1e-5", neighbors="replace_one")],
    ids=["pure", "zcdp", "exact"],
)
def test_releases_have_the_errors_that_were_predicted(guarantee: PureDP | ZCDP | ApproxDP) -> None:
    """The noise as drawn, recovered by dense matrices; the number of records comes out as it is."""
    workload = Workload.all_kway(sized((2, 3, 2)), 2)
    made = plan(workload, guarantee, "search" if isinstance(guarantee, PureDP) else "residual")
    rows = [group_rows(made.frame, group) for group in made.groups]
    weights = np.concatenate([row_weights(made.frame, group) for group in made.groups])
    recovery = linear.optimal_recovery(
        linear.workload_matrix(workload, made.frame),
        linear.strategy_matrix(made.frame, made.groups),
        np.repeat(made.noise_variances(), rows) * weights,
    )
    drawn = drawn_noise(made, RUNS).astype(np.float64)
    found = float((np.asarray(recovery @ drawn.T) ** 2).mean())
    cells = np.array(workload.sizes, dtype=np.float64)
    predicted = float(cells @ drawn_table_variances(made) / cells.sum())
    assert 0.85 < found / predicted < 1.15  # five standard errors or so
    if guarantee == ZERO:
        assert by_groups(workload) / cells.sum() > 1.3 * predicted  # what no pair costs would be seen
    codes = pa.table({name: [0] * 60 for name in workload.schema.names})
    answers = gate.measure(made, engine_for(codes), MemoryLedger(made.guarantee)).answers
    (total,) = made.known
    assert answers[sum(rows[:total])] == 60


def test_what_few_pairs_move_has_a_bounded_part() -> None:
    """Some terms are moved by none of the first cases in play; their parts once grew until numbers overflowed."""
    places = [f"{region}{district}{town}" for region in "NSW" for district in "01" for town in "012"]
    districts = {
        name: [place for place in places if place.startswith(name)] for name in dict.fromkeys(p[:2] for p in places)
    }
    regions = {name: [own for own in districts if own.startswith(name)] for name in "NSW"}
    schema = Schema(
        [
            Attribute(
                "place", values=places, levels=[Level("district", groups=districts), Level("region", groups=regions)]
            ),
            Attribute("age", bins=[0, 6, 18, 30, 45, 65, 80, 120], levels=[Level("stage", bins=[0, 18, 65, 120])]),
            Attribute("sex", values=["f", "m"]),
            Attribute("household", values=["child", "alone", "couple", "family"]),
        ]
    )
    workload = Workload.tables(
        schema,
        [
            ("place", "sex"),
            ("place", Axis("age", "stage")),
            (Axis("place", "district"), "age", "sex"),
            (Axis("place", "region"), "age", "household"),
        ],
    )
    made = plan(workload, ZERO)
    verify_privacy(made)
    assert made.weighted_variance < plan(workload, ZCDP("0.125")).weighted_variance  # an exchange adds and removes
