"""Audits: the noise that plans ask for, attacked from outside; right plans pass, mutants are caught.

Each run of a mechanism is one draw of all its noise. The attacker sees the answers on two neighboring data sets and
uses the best statistic there is, the log-likelihood ratio. From the frequencies of one event on both sides, Clopper and
Pearson give a lower bound on epsilon that holds with 99.9 % probability. Laplace and Gaussian noise are drawn a million
times a side, max-norm bundles PRIVCUBE_AUDIT_BUNDLES times (100,000 here, 1,000,000 in `make audit`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import beta

from privcube import ZCDP, PureDP, Schema, Workload, plan
from privcube.sensitive.noise import discrete_gaussian, discrete_laplace, max_norm_noise

RUNS = 1_000_000
BUNDLES = int(os.environ.get("PRIVCUBE_AUDIT_BUNDLES", "100000"))
RISK = 1e-3 / 2
RARE = 1e-6 / 2  # a right mechanism is called wrong once in a million runs, not once in a thousand


def epsilon_lower_bound(here: np.ndarray, there: np.ndarray, risk: float = RISK) -> float:
    """From scores on both data sets: the event is chosen on the first half, its frequencies come from the second."""
    half = len(here) // 2
    best, threshold = -np.inf, 0.0
    for candidate in np.unique(np.quantile(here[:half], np.linspace(0.02, 0.98, 49))):
        p, q = np.mean(here[:half] >= candidate), np.mean(there[:half] >= candidate)
        if q > 0.005 and np.log(p / q) - 3 * (1 / (half * q)) ** 0.5 > best:
            best, threshold = np.log(p / q) - 3 * (1 / (half * q)) ** 0.5, candidate
    hits, misses = int(np.sum(here[half:] >= threshold)), int(np.sum(there[half:] >= threshold))
    rest = len(here) - half
    low = beta.ppf(risk, hits, rest - hits + 1)
    high = beta.ppf(1 - risk, misses + 1, rest - misses)
    return float(np.log(low / high))


def laplace_scores(scales: list[Fraction], claimed: list[Fraction], moved: int, there: bool) -> np.ndarray:
    """Groups with one cell touched each: answers, scored by the likelihood ratio under the claimed scales."""
    total = np.zeros(RUNS)
    for scale, claim in zip(scales, claimed, strict=True):
        answer = discrete_laplace(scale, RUNS) + (moved if there else 0)
        total += (np.abs(answer - moved) - np.abs(answer)) / float(claim)
    return total


def audited(scales: list[Fraction], moved: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Scores on both data sets."""
    return (
        laplace_scores(scales, scales, moved, there=False),
        laplace_scores(scales, scales, moved, there=True),
    )


def keeps_and_uses_up(sides: tuple[np.ndarray, np.ndarray], epsilon: float) -> bool:
    return 0.9 * epsilon <= epsilon_lower_bound(*sides) and epsilon_lower_bound(*sides, risk=RARE) <= epsilon


def plan_scales(guarantee: PureDP) -> list[Fraction]:
    schema = Schema.from_sizes({"a": 2, "b": 3})
    made = plan(Workload.tables(schema, [("a",), ("a", "b")]), guarantee, "marginals")
    return [made.noise_scale(group) for group in range(len(made.groups))]


@pytest.mark.parametrize("epsilon", ["0.5", "1", "2"])
def test_laplace_plans_keep_their_promise_and_use_it_up(epsilon: str) -> None:
    scales = plan_scales(PureDP(epsilon))
    assert keeps_and_uses_up(audited(scales), float(epsilon))


MUTANTS: dict[str, Callable[[list[Fraction]], tuple[list[Fraction], int]]] = {
    "noise 5 % short": lambda scales: ([scale * Fraction(95, 100) for scale in scales], 1),
    "one group left out of the cost": lambda scales: ([scales[0], Fraction(1)], 1),
    "budget counted once instead of twice": lambda scales: ([Fraction(1), Fraction(1)], 1),
    "replace_one treated as add_remove": lambda scales: (scales, 2),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught(name: str) -> None:
    scales, moved = MUTANTS[name](plan_scales(PureDP(1)))
    assert epsilon_lower_bound(*audited(scales, moved)) > 1


def test_replacing_a_record_is_within_the_promise_when_it_is_planned_for() -> None:
    scales = plan_scales(PureDP(1, neighbors="replace_one"))
    assert keeps_and_uses_up(audited(scales, moved=2), 1.0)


def max_norm_scores(scale: Fraction, claimed: Fraction, runs: int, there: bool) -> np.ndarray:
    """Three groups of one row, all moved by one: score by the largest absolute value before and after."""
    draws = np.array([np.concatenate(max_norm_noise(scale, [1, 1, 1])) for _ in range(runs)])
    answer = draws + (1 if there else 0)
    return (np.abs(answer - 1).max(axis=1) - np.abs(answer).max(axis=1)) / float(claimed)


def test_max_norm_bundles_keep_their_promise_and_a_short_one_is_caught() -> None:
    """Three groups for the price of one; noise 30 % short must show even in few runs."""
    runs = BUNDLES
    right = Fraction(1)
    sides = max_norm_scores(right, right, runs, False), max_norm_scores(right, right, runs, True)
    assert keeps_and_uses_up(sides, 1.0)
    short = Fraction(7, 10)
    sides = max_norm_scores(short, short, runs, False), max_norm_scores(short, short, runs, True)
    assert epsilon_lower_bound(*sides) > 1


@pytest.mark.parametrize("rho", ["0.1", "0.5"])
@pytest.mark.parametrize(("factor", "passes"), [(1.0, True), (0.95**2, False)])
def test_gaussian_privacy_loss_has_the_promised_mean(rho: str, factor: float, passes: bool) -> None:
    """Under zCDP by Gaussian noise the mean privacy loss is rho itself; noise 5 % short shows in it."""
    schema = Schema.from_sizes({"a": 2, "b": 3})
    made = plan(Workload.tables(schema, [("a",), ("a", "b")]), ZCDP(rho), "marginals")
    loss = np.zeros(RUNS)
    for group in range(len(made.groups)):
        variance = made.noise_variance(group) * Fraction(factor).limit_denominator(10**6)
        answer = discrete_gaussian(variance, RUNS)
        loss += ((answer - 1) ** 2 - answer**2) / (2 * float(variance))
    slack = 4.5 * (2 * float(rho) / RUNS) ** 0.5
    assert bool(abs(loss.mean() - float(rho)) <= slack) is passes
