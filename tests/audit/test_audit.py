"""Audits: the noise that plans ask for, attacked from outside; right plans pass, mutants are caught.

Each run of a mechanism is one draw of all its noise. The attacker sees the answers on two neighboring data sets and
uses the best statistic there is, the log-likelihood ratio: its score. Let P and Q be the probabilities that it is above
a threshold. Under (epsilon, delta)-differential privacy P <= e^epsilon Q + delta, so epsilon >= log((P - delta) / Q).
From the frequencies on both sides Clopper and Pearson give a lower bound on P and an upper bound on Q, hence one on
epsilon that holds with 99.9 % probability.

So one audit in a thousand calls a right mechanism wrong. An audit that does is repeated with fresh draws, and only the
second verdict counts: a right mechanism fails both once in a million times. Mutants fail the first.

Laplace noise is drawn 300,000 times a side, or fewer times where a matrix has many rows, Gaussian noise a million
times, as the events that count are rare there, and max-norm bundles PRIVCUBE_AUDIT_BUNDLES times (8,000 here, 1,000,000
in `make audit`). `make audit` has more runs and guarantees, and finds smaller faults of what takes long to draw.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import betaincinv, log_ndtr

from privcube import ZCDP, ApproxDP, Measure, PureDP, Schema, Workload, plan
from privcube.model.frame import Frame
from privcube.model.groups import GroupPart, MatrixGroup, group_rows
from privcube.model.noise.bundles import Gram, GramLayout, Law, row_squares
from privcube.model.options import PlanOptions
from privcube.model.plan import Plan
from privcube.planning.search.closed_form import Choices
from privcube.planning.search.gram import GramForm
from privcube.planning.steps import plan_of, with_bundles
from privcube.sensitive.gate import SystemNoise, _noise, measure
from privcube.sensitive.ledger import MemoryLedger
from privcube.sensitive.noise import discrete_gaussian, discrete_laplace, max_norm_noise, rounded_gaussian
from privcube.sensitive.sources import engine_for
from privcube.strategies.proposal import Proposal

BUNDLES = int(os.environ.get("PRIVCUBE_AUDIT_BUNDLES", "8000"))
LONG = BUNDLES >= 1_000_000
RUNS = 1_000_000 if LONG else 300_000
MATRIX_RUNS = 300_000 if LONG else 120_000
GAUSSIAN_RUNS = 2_000_000 if LONG else 1_000_000
ROUNDED_RUNS = 1_000_000
SLICED_RUNS = max(30_000, BUNDLES)
SLICED_LEAST = 0.9 if LONG else 0.7  # of the promise that audits of bundles in slices must find
RISK = 1e-3 / 2  # of each of the two bounds

Scores = tuple[np.ndarray, np.ndarray]  # on both data sets
Audit = Callable[[], Scores]  # draws afresh each time


def epsilon_lower_bound(here: np.ndarray, there: np.ndarray, delta: float) -> float:
    """The threshold is chosen on the first tenth of the runs here, the frequencies come from all others.

    The choice is free, as it does not touch the runs that count. Where an answer has score s it is e^-s times as likely
    there, so that both frequencies can be guessed from the runs here.
    """
    first, rest = np.split(here, [len(here) // 10])
    best, threshold = -np.inf, 0.0
    for candidate in np.unique(np.quantile(first, np.linspace(0.02, 0.99, 98))):
        p, q = np.mean(first >= candidate), np.mean(np.exp(-first) * (first >= candidate))
        low, high = p - 3.3 * (p / len(rest)) ** 0.5, q + 3.3 * (q / len(there)) ** 0.5
        if low > delta and np.log((low - delta) / high) > best:
            best, threshold = np.log((low - delta) / high), candidate
    hits, misses = int(np.sum(rest >= threshold)), int(np.sum(there >= threshold))
    low = betaincinv(hits, len(rest) - hits + 1, RISK)
    high = betaincinv(misses + 1, len(there) - misses, 1 - RISK) if misses < len(there) else 1.0
    return float(np.log((low - delta) / high)) if low > delta else -np.inf


def audited_epsilon(audit: Audit, limit: float, delta: float = 0.0) -> float:
    """The bound of an audit; if it is above the limit, that of a second one."""
    first = epsilon_lower_bound(*audit(), delta)
    return first if first <= limit else epsilon_lower_bound(*audit(), delta)


def caught(audit: Audit, limit: float, delta: float = 0.0) -> bool:
    """Whether one audit condemns a mutant."""
    return epsilon_lower_bound(*audit(), delta) > limit


def test_an_audit_condemns_only_if_a_second_one_does() -> None:
    telling = np.ones(1000), -np.ones(1000)
    silent = np.zeros(1000), np.zeros(1000)
    for drawn, condemned in (([silent], False), ([telling, silent], False), ([telling, telling], True)):
        left = iter(drawn)
        assert (audited_epsilon(lambda left=left: next(left), limit=1.0) > 1) is condemned
        assert not list(left)


SCHEMA = Schema.from_sizes({"a": 2, "b": 3})
WORKLOAD = Workload.tables(SCHEMA, [("a",), ("a", "b")])


# Laplace noise


def laplace_audit(scales: list[Fraction], moved: int = 1) -> Audit:
    """Groups with one cell touched each, by so many records."""

    def scores(there: bool) -> np.ndarray:
        total = np.zeros(RUNS)
        for scale in scales:
            answer = discrete_laplace(scale, RUNS) + (moved if there else 0)
            total += (np.abs(answer - moved) - np.abs(answer)) / float(scale)
        return total

    return lambda: (scores(there=False), scores(there=True))


def plan_scales(guarantee: PureDP) -> list[Fraction]:
    made = plan(WORKLOAD, guarantee, "marginals")
    return [made.noise_scale(group) for group in range(len(made.groups)) if group not in made.known]


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2"])
def test_laplace_plans_keep_their_promise_and_use_it_up(epsilon: str) -> None:
    audit = laplace_audit(plan_scales(PureDP(epsilon)))
    assert 0.9 * float(epsilon) <= audited_epsilon(audit, float(epsilon)) <= float(epsilon)


MUTANTS: dict[str, Callable[[list[Fraction]], tuple[list[Fraction], int]]] = {
    "noise 5 % short": lambda scales: ([scale * Fraction(95, 100) for scale in scales], 1),
    "one group left out of the cost": lambda scales: ([scales[0], Fraction(1)], 1),
    "budget counted once instead of twice": lambda scales: ([Fraction(1), Fraction(1)], 1),
    "replace_one treated as add_remove": lambda scales: (scales, 2),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught(name: str) -> None:
    assert caught(laplace_audit(*MUTANTS[name](plan_scales(PureDP(1)))), 1.0)


def test_replacing_a_record_is_within_the_promise_when_it_is_planned_for() -> None:
    audit = laplace_audit(plan_scales(PureDP(1, neighbors="replace_one")), moved=2)
    assert 0.9 <= audited_epsilon(audit, 1.0) <= 1


# Matrices

RANGES = Workload.ranges(Schema.from_sizes({"age": 5}), ["age"])


def matrix_audit(
    guarantee: PureDP | ZCDP, change: Callable[[np.ndarray], np.ndarray], part: Fraction, runs: int = MATRIX_RUNS
) -> Audit:
    """A change of the answers by columns of a plan's matrix, against this part of the plan's noise."""
    made = plan(RANGES, guarantee, "matrix")
    (group,) = made.groups
    assert isinstance(group, MatrixGroup)
    moved = change(group.matrix)

    def scores(there: bool) -> np.ndarray:
        total = np.zeros(runs)
        for step in moved[moved != 0].tolist():
            at = step if there else 0
            if isinstance(guarantee, PureDP):
                answer = discrete_laplace(part * made.noise_scale(0), runs) + at
                total += (np.abs(answer - step) - np.abs(answer)) / float(part * made.noise_scale(0))
            else:
                answer = discrete_gaussian(part * made.noise_variance(0), runs) + at
                total += (step**2 - 2.0 * step * answer) / (2 * float(part * made.noise_variance(0)))
        return total

    return lambda: (scores(there=False), scores(there=True))


def added(matrix: np.ndarray) -> np.ndarray:
    """One record more, in the cell where it moves the answers most."""
    return matrix[:, np.argmax(np.abs(matrix).sum(axis=0))]


def replaced(matrix: np.ndarray) -> np.ndarray:
    """One record for another, the two cells furthest apart."""
    apart = np.abs(matrix[:, :, None] - matrix[:, None, :]).sum(axis=0)
    one, other = np.unravel_index(np.argmax(apart), apart.shape)
    return matrix[:, one] - matrix[:, other]


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
def test_matrices_keep_their_promise_and_use_it_up(neighbors: str) -> None:
    change = added if neighbors == "add_remove" else replaced
    audit = matrix_audit(PureDP(1, neighbors=neighbors), change, Fraction(1))
    assert 0.85 <= audited_epsilon(audit, 1.0) <= 1


@pytest.mark.parametrize(
    ("guarantee", "change", "part"),
    [
        (PureDP(1), added, Fraction(85, 100)),
        (PureDP(1), replaced, Fraction(1)),
        (PureDP(1, neighbors="replace_one"), replaced, Fraction(85, 100)),
    ],
    ids=["noise 15 % short", "replace_one treated as add_remove", "replace_one, noise 15 % short"],
)
def test_matrices_with_too_little_noise_are_caught(guarantee: PureDP, change: Callable, part: Fraction) -> None:
    assert caught(matrix_audit(guarantee, change, part), 1.0)


def test_gaussian_matrices_keep_their_promise() -> None:
    """rho = 1/2 implies an epsilon at every delta; a third of the variance is caught."""
    guarantee, delta = ZCDP("0.5"), 0.05
    limit = float(guarantee.epsilon(delta="0.05"))
    runs = MATRIX_RUNS if LONG else 100_000
    assert audited_epsilon(matrix_audit(guarantee, added, Fraction(1), runs), limit, delta) <= limit
    assert caught(matrix_audit(guarantee, added, Fraction(1, 3), runs), limit, delta)


# Measures: a record is divided between cells, and answers and noise are in whole parts of it

DIVIDED = Schema(
    [*Schema.from_sizes({"a": 2}), Measure("x", low=0, high=6, step=2), Measure("y", low=0, high=3, step=1)]
)
SUMS = Workload.tables(DIVIDED, ["a", "a x x", "x", "y"])
AT_KNOTS, BETWEEN = {"a": 1, "x": 6, "y": 0}, {"a": 1, "x": 2, "y": 2}


class NoNoise(SystemNoise):
    """Zeros, so that the exact answers come out."""

    def laplace(self, scale: Fraction, count: int) -> np.ndarray:
        return np.zeros(count, dtype=np.int64)

    gaussian = rounded_gaussian = laplace


def exact_move(made: Plan, records: list[dict[str, int]]) -> np.ndarray:
    """What records add to the answers of a plan, as they are counted, divided and handed to the noise."""
    columns = pa.table({name: [record[name] for record in records] for name in DIVIDED.names})
    return measure(made, engine_for(columns), MemoryLedger(made.guarantee), noise_from=NoNoise()).answers


def divided_audit(guarantee: PureDP | ZCDP, records: list[dict[str, int]], part: Fraction) -> Audit:
    """Records are there or not; answers have this part of the scale, or of the variance, of the plan's noise."""
    made = plan(SUMS, guarantee, "marginals")
    rows = np.repeat(np.arange(len(made.groups)), [group_rows(made.frame, group) for group in made.groups])
    moves = exact_move(made, records)

    def scores(there: bool) -> np.ndarray:
        total = np.zeros(MATRIX_RUNS)
        for group, step in zip(rows[moves != 0].tolist(), moves[moves != 0].tolist(), strict=True):
            at = step if there else 0
            if isinstance(guarantee, PureDP):
                scale = part * made.drawn_scale(group)
                answer = discrete_laplace(scale, MATRIX_RUNS) + at
                total += (np.abs(answer - step) - np.abs(answer)) / float(scale)
            else:
                variance = part * made.drawn_variance(group)
                answer = discrete_gaussian(variance, MATRIX_RUNS) + at
                total += (step**2 - 2.0 * step * answer) / (2 * float(variance))
        return total

    return lambda: (scores(there=False), scores(there=True))


def test_measures_keep_their_promise_and_use_it_up() -> None:
    assert (0.87 if LONG else 0.82) <= audited_epsilon(divided_audit(PureDP(1), [AT_KNOTS], Fraction(1)), 1.0) <= 1


SHORT = Fraction(85, 100) if LONG else Fraction(80, 100)  # of the noise, which must be noticed


def test_divided_records_are_within_the_promise() -> None:
    """They move the answers as far in all, each of them by less; only one of them may be there."""
    made = plan(SUMS, PureDP(1), "marginals")
    one, other = (exact_move(made, [record]) for record in (AT_KNOTS, BETWEEN))
    assert one.sum() == other.sum()
    assert np.count_nonzero(one) < np.count_nonzero(other)
    assert audited_epsilon(divided_audit(PureDP(1), [BETWEEN], Fraction(1)), 1.0) <= 1
    assert caught(divided_audit(PureDP(1), [BETWEEN] * 3, Fraction(1)), 1.0)


@pytest.mark.parametrize(
    ("guarantee", "part", "delta"),
    [(PureDP(1), SHORT, 0.0), (PureDP(1), Fraction(1, 3), 0.0), (ZCDP("0.5"), Fraction(1, 3), 0.05)],
    ids=["noise that is short", "noise of records on parts of them", "Gaussian noise of a third of its variance"],
)
def test_measures_with_too_little_noise_are_caught(guarantee: PureDP | ZCDP, part: Fraction, delta: float) -> None:
    limit = 1.0 if isinstance(guarantee, PureDP) else float(guarantee.epsilon(delta="0.05"))
    assert caught(divided_audit(guarantee, [AT_KNOTS], part), limit, delta)


# Max-norm noise


def max_norm_audit(scale: Fraction) -> Audit:
    """Three groups of one row, all moved by one: score by the largest absolute value before and after."""

    def scores(there: bool) -> np.ndarray:
        draws = np.array([np.concatenate(max_norm_noise(scale, [1, 1, 1])) for _ in range(BUNDLES)])
        answer = draws + (1 if there else 0)
        return np.asarray((np.abs(answer - 1).max(axis=1) - np.abs(answer).max(axis=1)) / float(scale))

    return lambda: (scores(there=False), scores(there=True))


def test_max_norm_bundles_keep_their_promise_and_use_it_up() -> None:
    """Three groups for the price of one (60 short audits showed 0.90, give or take 0.02)."""
    assert (0.9 if LONG else 0.8) <= audited_epsilon(max_norm_audit(Fraction(1)), 1.0) <= 1


def test_a_max_norm_bundle_with_too_little_noise_is_caught() -> None:
    assert caught(max_norm_audit(Fraction(9, 10) if LONG else Fraction(8, 10)), 1.0)


# Slices


def sliced_audit(moved: tuple[int, ...], runs: int) -> Audit:
    """Two tables that share an attribute, noised in slices by the gate; records are added to these cells (a, b, c).

    The score is the norm that the noise falls with, before and after, over the scale.
    """
    schema = Schema.from_sizes({"a": 2, "b": 2, "c": 2})
    single = plan(Workload.tables(schema, [("a", "b"), ("a", "c")]), PureDP(1), "marginals")
    made = with_bundles(single, [(0, 1)])
    change = np.zeros(8, dtype=np.int64)
    for cell in moved:
        a, b, c = cell // 4, cell // 2 % 2, cell % 2
        change[2 * a + b] += 1
        change[4 + 2 * a + c] += 1
    slices = (([0, 1], [4, 5]), ([2, 3], [6, 7]))  # of each, the rows of the two tables

    def norm(answers: np.ndarray) -> np.ndarray:
        sizes = np.abs(answers)
        return sum(np.maximum(sizes[:, one].sum(axis=1), sizes[:, other].sum(axis=1)) for one, other in slices)

    def scores(there: bool) -> np.ndarray:
        draws = np.array([_noise(made, SystemNoise()) for _ in range(runs)])
        answer = draws + (change if there else 0)
        return np.asarray((norm(answer - change) - norm(answer)) / float(made.noise_scale(0)))

    return lambda: (scores(there=False), scores(there=True))


def test_bundles_in_slices_keep_their_promise_and_use_it_up() -> None:
    """A record in one slice of two: the noise of one draw, half the rows (1,500 draws show 0.81, give or take 0.03)."""
    assert 0.6 <= audited_epsilon(sliced_audit((0,), 1500), 1.0) <= 1


def test_slices_are_not_noised_together() -> None:
    """Records in two slices cost twice: were they noised together, by the larger norm, they would cost once."""
    assert caught(sliced_audit((0, 7), 800), 1.0)


# Sections and Gram bundles: every slice is a run of its own, and the gate draws thousands of them at once

SLICES = 5_000
SLICED_EPSILON = "0.5" if LONG else "1"
SLICED = Schema.from_sizes({"s": SLICES, "a": 2, "b": 2})


def sliced_plan(law: Law) -> Plan:
    """Bundles of a and b, or of a alone, in slices of s."""
    workload = Workload.tables(SLICED, [("s", "a"), ("s", "b")])
    frame = Frame.natural(workload)
    total = (GroupPart(0, 1),)
    if law == "section":
        groups = [total, *((*total, GroupPart(axis, 1)) for axis in (1, 2))]
    else:
        workload = Workload.tables(SLICED, [("s", "a")])
        form = GramForm.of(Choices(workload, frame), [(1, 1)], ((0, 1),))
        assert form is not None
        groups = form.groups()
    proposal = Proposal.of_bundles(frame, [groups], laws=[law])
    return plan_of(workload, PureDP(SLICED_EPSILON), PlanOptions(strategy="search", budgets="iterated"), proposal)


def slice_answers(made: Plan, runs: int, part: Fraction) -> Iterator[list[np.ndarray]]:
    """The noise of each group in every slice, from a plan of this part of the scale."""
    short = replace(made, guarantee=PureDP(made.guarantee.epsilon / part))
    for _ in range(runs // SLICES):
        rows = np.split(_noise(short, SystemNoise()), np.cumsum([group_rows(made.frame, g) for g in made.groups])[:-1])
        yield [own.reshape(SLICES, -1) for own in rows]


def section_audit(part: Fraction) -> Audit:
    """A record in the first cells of a and b; the score is the norm that the noise falls with, before and after."""
    made = sliced_plan("section")

    def norm(groups: list[np.ndarray]) -> np.ndarray:
        return np.max([np.abs(own).sum(axis=1) for own in groups], axis=0)

    def scores(there: bool) -> np.ndarray:
        found = []
        for groups in slice_answers(made, SLICED_RUNS, part):
            change = [np.eye(own.shape[1], dtype=np.int64)[:1] for own in groups]
            answers = [own + there * one for own, one in zip(groups, change, strict=True)]
            before = [own - one for own, one in zip(answers, change, strict=True)]
            found.append((norm(before) - norm(answers)) / float(made.noise_scale(0)))
        return np.concatenate(found)

    return lambda: (scores(there=False), scores(there=True))


MEASURED = Schema(
    [*Schema.from_sizes({"s": SLICES}), Measure("x", low=0, high=3, step=1), Measure("y", low=0, high=10**5, step=1)]
)


def measured_audit(part: Fraction) -> Audit:
    """A record divided between the ends of two measures, noised together, each rounded in parts of its own."""
    workload = Workload.tables(MEASURED, ["s x x", "s x y"])
    groups = [(GroupPart(0, 1), GroupPart(axis, 1)) for axis in (1, 2)]
    proposal = Proposal.of_bundles(Frame.natural(workload), [groups], laws=["rounded_max_norm"])
    made = plan_of(workload, PureDP(SLICED_EPSILON), PlanOptions(strategy="search", budgets="iterated"), proposal)
    # x = 1 of 3 is 2/3 near 0, and y = 10 of 100,000 nearly all: in L1 every record moves each group by all its parts
    change = [np.array([[2, 1]]) * made.parts[0] // 3, np.array([[10**5 - 10, 10]]) * made.parts[1] // 10**5]

    def norm(groups: list[np.ndarray]) -> np.ndarray:
        sizes = [np.abs(own).sum(axis=1) / float(made.drawn_scale(at)) for at, own in enumerate(groups)]
        return np.max(sizes, axis=0)

    def scores(there: bool) -> np.ndarray:
        found = []
        for groups in slice_answers(made, SLICED_RUNS, part):
            answers = [own + there * one for own, one in zip(groups, change, strict=True)]
            before = [own - one for own, one in zip(answers, change, strict=True)]
            found.append(norm(before) - norm(answers))
        return np.concatenate(found)

    return lambda: (scores(there=False), scores(there=True))


def gram_audit(part: Fraction) -> Audit:
    """A matrix below 0 is e^-trace times as likely with one more record, exactly: that is the best event there is."""
    made = sliced_plan(Gram((1, 1)))
    layout = GramLayout.of(made.frame, made.groups)
    places = [layout.entries(at) for at in range(len(made.groups))]
    squares = [row_squares(layout, own, made.noise_variance(number)) for number, own in enumerate(places)]
    scales = [np.sqrt(np.array(own, dtype=np.float64)) for own in squares]

    def scores(there: bool) -> np.ndarray:
        found = []
        for groups in slice_answers(made, SLICED_RUNS, part):
            matrix = np.zeros((SLICES, 2, 2))
            for own, place, scale in zip(groups, places, scales, strict=True):
                for column, (i, j) in enumerate(zip(place.left.tolist(), place.right.tolist(), strict=True)):
                    entry = (own[:, column] + there) / scale[column]  # of a record of the first value, all are 1
                    matrix[:, i, j] = matrix[:, j, i] = entry
            found.append(np.where(np.linalg.eigvalsh(matrix)[:, -1] <= 0, 1.0, -1.0) * float(SLICED_EPSILON))
        return np.concatenate(found)

    return lambda: (scores(there=False), scores(there=True))


@pytest.mark.parametrize("audit", [section_audit, gram_audit, measured_audit], ids=["section", "Gram", "measures"])
def test_rounded_bundles_keep_their_promise_and_use_it_up(audit: Callable[[Fraction], Audit]) -> None:
    claim = float(SLICED_EPSILON)
    assert SLICED_LEAST * claim <= audited_epsilon(audit(Fraction(1)), claim) <= claim


@pytest.mark.parametrize("audit", [section_audit, gram_audit, measured_audit], ids=["section", "Gram", "measures"])
def test_rounded_bundles_with_too_little_noise_are_caught(audit: Callable[[Fraction], Audit]) -> None:
    assert caught(audit(Fraction(7, 10)), float(SLICED_EPSILON))


# Gaussian noise


def plan_variances(guarantee: ZCDP | ApproxDP, factor: Fraction = Fraction(1)) -> list[Fraction]:
    made = plan(WORKLOAD, guarantee, "marginals")
    return [made.noise_variance(group) * factor for group in range(len(made.groups))]


def gaussian_audit(variances: list[Fraction]) -> Audit:
    """Groups with one cell touched each."""

    def scores(there: bool) -> np.ndarray:
        total = np.zeros(GAUSSIAN_RUNS)
        for variance in variances:
            answer = discrete_gaussian(variance, GAUSSIAN_RUNS) + (1 if there else 0)
            total += (1 - 2 * answer) / (2 * float(variance))
        return total

    return lambda: (scores(there=False), scores(there=True))


def exact_epsilon(variances: list[Fraction], delta: float) -> float:
    """The least epsilon with sum max(0, P - e^epsilon Q) <= delta, over all answers with discrete Gaussian noise."""
    chance, loss = np.ones(1), np.zeros(1)
    for variance in map(float, variances):
        answer = np.arange(-50, 51)
        weight = np.exp(-(answer**2) / (2 * variance))
        chance = np.multiply.outer(chance, weight / weight.sum()).ravel()
        loss = np.add.outer(loss, (1 - 2 * answer) / (2 * variance)).ravel()
    low, high = 0.0, 20.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        excess = float(np.sum(chance * np.maximum(0.0, 1 - np.exp(np.minimum(middle - loss, 0.0)))))
        low, high = (middle, high) if excess > delta else (low, middle)
    return high


GAUSSIAN = [
    (ZCDP("0.1"), "0.05"),
    (ZCDP("0.5"), "0.01"),
    (ZCDP(2), "0.05"),
    (ApproxDP(1, "0.05"), "0.05"),
    (ApproxDP(2, "0.01"), "0.01"),
][:: 1 if LONG else 3]


@pytest.mark.parametrize(("guarantee", "delta"), GAUSSIAN, ids=str)
def test_gaussian_plans_keep_their_promise_and_use_up_what_their_noise_gives(
    guarantee: ZCDP | ApproxDP, delta: str
) -> None:
    """The claim is the conversion from zCDP, which holds for any noise; what this noise gives is less, and known."""
    claim = float(guarantee.epsilon(delta) if isinstance(guarantee, ZCDP) else guarantee.epsilon)
    variances = plan_variances(guarantee)
    exact = exact_epsilon(variances, float(delta))
    assert 0.65 * claim < exact < claim
    assert 0.9 * exact <= audited_epsilon(gaussian_audit(variances), exact, float(delta)) <= exact


@pytest.mark.parametrize(("guarantee", "delta"), GAUSSIAN, ids=str)
def test_gaussian_noise_5_percent_short_is_caught(guarantee: ZCDP | ApproxDP, delta: str) -> None:
    exact = exact_epsilon(plan_variances(guarantee), float(delta))
    short = plan_variances(guarantee, factor=Fraction(95, 100) ** 2)
    assert caught(gaussian_audit(short), exact, float(delta))


# Rounded Gaussian noise, at the price of continuous noise


def rounded_loss(variance: float) -> tuple[np.ndarray, np.ndarray]:
    """P(X = k) and log P(X = k) - log P(X = k - 1) for k = -60..60."""
    size = np.abs(np.arange(-61, 61))
    near, far = (log_ndtr((0.5 - size - step) / variance**0.5) for step in (0, 1))
    log_chance = near + np.log1p(-np.exp(far - near))
    return np.exp(log_chance[1:]), np.diff(log_chance)


def rounded_audit(variances: list[Fraction], draw: Callable = rounded_gaussian) -> Audit:
    """Groups with one cell touched each; the score is that of rounded noise of these variances."""

    def scores(there: bool) -> np.ndarray:
        total = np.zeros(ROUNDED_RUNS)
        for variance in variances:
            _, loss = rounded_loss(float(variance))
            total += loss[np.clip(draw(variance, len(total)) + (1 if there else 0), -60, 60) + 60]
        return total

    return lambda: (scores(there=False), scores(there=True))


EXACT = [(ApproxDP(1, "0.05", calibration="exact"), "0.05"), (ApproxDP(2, "0.01", calibration="exact"), "0.01")]


@pytest.mark.parametrize(("guarantee", "delta"), EXACT, ids=str)
def test_rounded_gaussian_plans_keep_their_promise_and_use_it_up(guarantee: ApproxDP, delta: str) -> None:
    """Unlike through zCDP, the claim itself is reached: between 0.9 of it and all of it."""
    claim = float(guarantee.epsilon)
    assert 0.9 * claim <= audited_epsilon(rounded_audit(plan_variances(guarantee)), claim, float(delta)) <= claim


@pytest.mark.parametrize(("guarantee", "delta"), EXACT, ids=str)
def test_rounded_gaussian_noise_10_percent_short_is_caught(guarantee: ApproxDP, delta: str) -> None:
    short = plan_variances(guarantee, factor=Fraction(90, 100) ** 2)
    assert caught(rounded_audit(short), float(guarantee.epsilon), float(delta))


def exact_delta(chance: np.ndarray, loss: np.ndarray, epsilon: float) -> float:
    return float(np.sum(chance * np.maximum(0.0, 1 - np.exp(np.minimum(epsilon - loss, 0.0)))))


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("3", "1e-6")])
def test_the_profile_holds_for_rounded_noise_and_not_for_discrete_noise(epsilon: str, delta: str) -> None:
    """The exact delta of a count: a mutant that draws discrete Gaussian noise at this price breaks the promise."""
    guarantee = ApproxDP(epsilon, delta, calibration="exact")
    variance = float(guarantee.unit_noise)
    chance, loss = rounded_loss(variance)
    assert 0.5 * float(delta) < exact_delta(chance, loss, float(epsilon)) <= float(delta)
    answer = np.arange(-60, 61)
    weight = np.exp(-(answer**2) / (2 * variance))
    assert exact_delta(weight / weight.sum(), (1 - 2 * answer) / (2 * variance), float(epsilon)) > float(delta)


@pytest.mark.parametrize("rho", ["0.1", "0.5"])
@pytest.mark.parametrize(("factor", "passes"), [(1.0, True), (0.95**2, False)])
def test_gaussian_privacy_loss_has_the_promised_mean(rho: str, factor: float, passes: bool) -> None:
    """Under zCDP by Gaussian noise the mean privacy loss is rho itself; noise 5 % short shows in it."""
    loss = np.zeros(RUNS)
    for variance in plan_variances(ZCDP(rho), Fraction(factor).limit_denominator(10**6)):
        loss += (1 - 2 * discrete_gaussian(variance, RUNS)) / (2 * float(variance))
    slack = 4.5 * (2 * float(rho) / RUNS) ** 0.5
    assert bool(abs(loss.mean() - float(rho)) <= slack) is passes
