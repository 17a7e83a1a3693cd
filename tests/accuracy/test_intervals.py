"""Intervals against the whole distribution of the error, added up outcome by outcome."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_ndtr

import privcube as pc
from privcube.accuracy.intervals import ErrorLaw, TableErrors, Term, interval_factor
from privcube.accuracy.moments import (
    DrawKind,
    characteristic,
    drawn_variance,
    exact_noise_variances,
    fourth_cumulant,
    log_moments,
)
from privcube.accuracy.predictor import predictor
from privcube.errors import PlanError, QueryError
from privcube.model.groups import group_rows
from privcube.model.measures.asked import cells_of
from privcube.model.workload import Queries
from privcube.planning.steps import with_bundles

CONFIDENCES = (0.5, 0.95, 0.995, 1 - 1e-6)
PARAMETERS = (0.02, 0.2, 0.5, 2.0, 30.0)
NOISES: tuple[DrawKind, ...] = ("laplace", "discrete_gaussian", "rounded_gaussian")


def probabilities(noise: DrawKind, parameter: float) -> tuple[np.ndarray, np.ndarray]:
    """The outcomes of a draw and their probabilities, from the definition of the noise."""
    k = np.arange(-400, 401)
    weights = np.exp(logarithms(noise, parameter, k))
    return k, weights / weights.sum()


def logarithms(noise: DrawKind, parameter: float, k: np.ndarray) -> np.ndarray:
    """The logarithms of the probabilities of outcomes; of all but rounded noise, up to a constant."""
    if noise == "laplace":
        return -np.abs(k) / math.sqrt(parameter / 2)
    if noise == "discrete_gaussian":
        return -(k**2) / (2 * parameter)
    ends = np.abs(k)[:, None] + np.array([-0.5, 0.5])
    tails = log_ndtr(-ends / math.sqrt(parameter))  # of the sizes, as differences of small numbers are exact
    return tails[:, 0] + np.log(-np.expm1(tails[:, 1] - tails[:, 0]))


def outcomes(terms: list[Term]) -> tuple[np.ndarray, np.ndarray]:
    """The absolute errors in order, and the probability of an error up to each of them; weights are of 1/60."""
    total = np.ones(1)
    for weight, count, noise, parameter in terms:
        k, own = probabilities(noise, parameter)
        likely = own > 1e-18
        k, own = k[likely], own[likely]
        step = round(60 * weight)
        spread = np.zeros(step * (len(k) - 1) + 1)
        spread[::step] = own
        for _ in range(int(count)):
            total = np.convolve(total, spread)
    place = np.abs(np.arange(len(total)) - len(total) // 2)
    return np.arange(place.max() + 1) / 60, np.cumsum(np.bincount(place, total))


def law_of(terms: list[Term]) -> ErrorLaw:
    weight, count, noise, parameter = zip(*terms, strict=True)
    return ErrorLaw.of(noise[0], np.array(weight), np.array(count), np.array(parameter))


SUMS = {
    "one": [(1.0, 1)],
    "halves": [(0.5, 2)],
    "one and a half": [(1.0, 1), (0.5, 1)],
    "uneven": [(0.75, 1), (0.4, 2), (0.1, 3)],
    "dominated": [(1.0, 1), (1 / 60, 4)],
    "many": [(0.2, 12), (0.15, 8)],
}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", SUMS)
def test_half_widths_against_every_outcome(noise: DrawKind, name: str) -> None:
    """Wide enough, and no wider than the next outcome and the smoothing make it."""
    for parameter in PARAMETERS:
        terms = [Term(weight, count, noise, parameter) for weight, count in SUMS[name]]
        errors, mass = outcomes(terms)
        law = law_of(terms)
        assert law.variance == pytest.approx(float(errors**2 @ np.diff(mass, prepend=0.0)), rel=1e-6)
        for confidence in CONFIDENCES:
            width = law.half_width(confidence)
            needed = errors[np.searchsorted(mass, confidence - 1e-12)]
            assert width >= needed - 1e-6, (parameter, confidence)
            smoothing = 0.005 * math.sqrt(2 * law.variance * math.log(2 / (1 - confidence))) + 0.0025 * law.step
            wide = 0.5 * law.step + 0.02 * needed if law.terms is None else 0.0
            allowed = errors[np.searchsorted(mass, 1 - (1 - confidence) * (1 - 0.004))]  # what the series leaves out
            assert width <= allowed + 2.1 * smoothing + wide + 1e-6, (parameter, confidence)


def test_continuous_quantiles_are_too_small_for_narrow_noise() -> None:
    """Why this is needed: at epsilon 3, an interval for continuous noise of the same moments covers 90 % of errors."""
    terms = [Term(1.0, 1, "laplace", 2 / 9), Term(0.5, 1, "laplace", 2 / 9)]
    errors, mass = outcomes(terms)
    law = law_of(terms)
    continuous = interval_factor(law.kurtosis, 0.95) * math.sqrt(law.variance)
    assert mass[np.searchsorted(errors, continuous, side="right") - 1] < 0.92
    assert mass[np.searchsorted(errors, law.half_width(0.95) + 1e-9, side="right") - 1] >= 0.95


@pytest.mark.parametrize("noise", NOISES)
def test_half_a_step_makes_up_for_whole_numbers(noise: DrawKind) -> None:
    """P(|z| >= k) is at most the probability that continuous noise of the same scale is at least k - 1/2."""
    for parameter in np.geomspace(0.01, 400, 60).tolist():
        k, own = probabilities(noise, parameter)
        for least in range(1, 40):
            tail = own[np.abs(k) >= least].sum()
            away = (least - 0.5) / math.sqrt(parameter)
            smooth = math.exp(-away * 2**0.5) if noise == "laplace" else math.erfc(away / 2**0.5)
            assert tail <= smooth * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("parameter", PARAMETERS)
def test_what_is_known_of_a_noise_follows_from_its_probabilities(noise: DrawKind, parameter: float) -> None:
    k, own = probabilities(noise, parameter)
    variance = float(own @ k**2)
    assert drawn_variance(noise, parameter) == pytest.approx(variance, rel=1e-9)
    assert fourth_cumulant(noise, parameter) == pytest.approx(float(own @ k**4) - 3 * variance**2, rel=1e-6, abs=1e-9)
    t = np.linspace(0.01, 20, 50)
    np.testing.assert_allclose(characteristic(noise, parameter, t), np.cos(np.outer(t, k)) @ own, atol=1e-12)
    small = np.linspace(0.01, 0.7, 20) * math.sqrt(2 / parameter)
    logs = logarithms(noise, parameter, k)
    exact = np.logaddexp.reduce(np.outer(small, k) + logs, axis=1) - np.logaddexp.reduce(logs)
    found = log_moments(noise, parameter, small)
    assert np.all(found >= exact - 1e-12)
    if noise == "laplace":
        np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("parameter", [1e-30, 1e-9, 1e-3, 1e3, 1e12, 1e24])
@pytest.mark.parametrize("confidence", [1e-9, 0.95, 1 - 1e-12, 1 - 1e-16])
def test_no_noise_is_too_narrow_or_too_wide(noise: DrawKind, parameter: float, confidence: float) -> None:
    for weights in ([1.0], [1.0, 1e-7], [0.3] * 50):
        law = ErrorLaw.of(noise, np.array(weights), np.ones(len(weights)), np.full(len(weights), parameter))
        width = law.half_width(confidence)
        assert 0 <= width < math.inf
        assert width <= 60 * math.sqrt(parameter * sum(w * w for w in weights)) + 10 * max(weights)


def test_wider_for_more_confidence() -> None:
    for noise, parameter in itertools.product(NOISES, PARAMETERS):
        law = law_of([Term(0.7, 1, noise, parameter), Term(0.2, 5, noise, parameter)])
        widths = [law.half_width(1 - wrong) for wrong in (0.5, 0.05, 1e-3, 1e-6, 1e-8, 1e-10, 1e-14)]
        assert widths == sorted(widths)


def test_numbers_that_differ_have_laws_of_their_own() -> None:
    laws = [law_of([Term(weight, 1, "laplace", 0.5)]) for weight in (1.0, 0.5, 0.25)]
    own = TableErrors.of(np.array([law.variance for law in laws]), lambda number: laws[number], alike=False)
    assert own.half_widths(0.95).tolist() == [law.half_width(0.95) for law in laws]
    many = [laws[number % 3] for number in range(60)]
    some = TableErrors.of(np.array([law.variance for law in many]), lambda number: many[number], alike=False)
    assert len(some.laws) == 3
    assert all(some.half_widths(0.95) >= [law.half_width(0.95) for law in many])


def test_confidences_that_are_none() -> None:
    for confidence in (0.0, 1.0, -1.0, 2.0, math.nan):
        with pytest.raises(PlanError, match="confidence"):
            law_of([Term(1.0, 1, "laplace", 0.5)]).half_width(confidence)


@pytest.mark.parametrize("queries", ["ranges", "prefixes"])
@pytest.mark.parametrize("guarantee", [pc.PureDP(8), pc.ZCDP(1)], ids=["pure", "zcdp"])
def test_direct_recovery_states_the_variance_of_each_number(queries: Queries, guarantee: pc.PureDP | pc.ZCDP) -> None:
    """Ranges are sums of few or many nodes; the mean over all of them says little about the worst."""
    schema = pc.Schema.from_sizes({"a": 2, "x": 13})
    workload = pc.Workload.tables(schema, [("a", pc.Axis("x", queries=queries)), ("a",)])
    plan = pc.plan(workload, guarantee, "hierarchy", recovery="direct")
    known, rows = predictor(plan), [group_rows(plan.frame, group) for group in plan.groups]
    drawn = np.repeat(exact_noise_variances(plan), rows)
    units = [known.recover(list(workload), unit) for unit in np.eye(plan.rows)]
    for table, mean in zip(workload, known.mean_variances().tolist(), strict=True):
        matrix = np.array([unit[table].ravel() for unit in units])
        np.testing.assert_allclose(known.variances(table).ravel(), drawn @ matrix**2, rtol=1e-9)
        assert known.variances(table).mean() == pytest.approx(mean, rel=1e-9)


@pytest.mark.parametrize("guarantee", [pc.PureDP(8), pc.ZCDP(1)], ids=["pure", "zcdp"])
@pytest.mark.parametrize("queries", ["cells", "prefixes"])
def test_direct_recovery_states_the_errors_of_sums_of_numbers(queries: Queries, guarantee: pc.PureDP | pc.ZCDP) -> None:
    """Weights on numbers that have no row in common, and on the cells behind the sums of a measure."""
    days = pc.Measure("m", low=-2, high=7, step=1, knots=[3], overflow="category")
    halves = pc.Level("half", groups={"low": list(range(3)), "high": list(range(3, 7))})
    schema = pc.Schema([pc.Attribute("a", size=2), pc.Attribute("x", values=list(range(7)), levels=[halves]), days])
    tables = [("a", pc.Axis("x", queries=queries)), ("a",), ("a", ("x", "half"))]
    workload = pc.Workload.tables(schema, tables).with_sums()
    strategy = "marginals" if queries == "cells" else "hierarchy"
    plan = pc.plan(workload, guarantee, strategy, recovery="direct")
    known, dice = predictor(plan), np.random.default_rng(3)
    drawn = np.repeat(exact_noise_variances(plan), [group_rows(plan.frame, group) for group in plan.groups])
    counts = [tuple(own for own in table if own != "m") for table in map(cells_of, workload)]
    counts = [(*table, pc.Axis("m", queries="count")) for table in dict.fromkeys(counts)]
    asked = list(dict.fromkeys([*workload, *map(cells_of, workload), *counts]))
    assert len(asked) == 12
    units = [known.recover(asked, unit) for unit in np.eye(plan.rows)]
    for table in asked:
        assert known.determines(table)
        shape = known.variances(table).shape
        matrix = np.array([unit[table].ravel() for unit in units])
        np.testing.assert_allclose(known.variances(table).ravel(), drawn @ matrix**2, rtol=1e-9)
        weights = dice.normal(size=shape)
        if any(pc.Axis.of(entry).is_ranged for entry in table):
            with pytest.raises(QueryError, match="a single range"):
                known.query_law(table, weights)
            weights[:, 1:] = 0
        law = known.query_law(table, weights)
        assert law.variance == pytest.approx(drawn @ (matrix @ weights.ravel()) ** 2, rel=1e-9)
        over = tuple(at for at, entry in enumerate(table) if at != 1 and pc.Axis.of(entry).queries == "cells")
        margin = tuple(entry for at, entry in enumerate(table) if at not in over)
        sums = matrix.reshape(-1, *shape).sum(axis=tuple(1 + at for at in over), keepdims=True)
        variances, covariances = known.margin_errors(table, margin)
        summed = np.tensordot(drawn, sums**2, axes=1)
        np.testing.assert_allclose(variances.reshape(summed.shape), summed, rtol=1e-9)
        np.testing.assert_allclose(covariances, np.tensordot(drawn, matrix.reshape(-1, *shape) * sums, axes=1))


def test_direct_recovery_of_bundles_is_refused() -> None:
    """Its numbers would have rows whose noise depends on each other."""
    workload = pc.Workload.all_kway(pc.Schema.from_sizes({"a": 2, "b": 3}), 1)
    plan = pc.plan(workload, pc.PureDP(1), "marginals", recovery="direct")
    together = tuple(range(len(plan.groups)))
    with pytest.raises(PlanError, match="noised one by one"):
        replace(plan, bundles=(together,), shares=(1,))


def test_a_bundle_that_hardly_ever_moves_has_no_margin() -> None:
    """A target below half a step could not be met otherwise, however large the budget."""
    schema = pc.Schema.from_sizes({"a": 2, "b": 3})
    made = pc.plan(pc.Workload.all_kway(schema, 1), pc.PureDP(30), "marginals")
    known = predictor(with_bundles(made, [tuple(range(len(made.groups)))]))
    assert known.errors(("b",)).half_widths(0.95).max() == 0
    assert known.errors(("b",)).half_widths(1 - 1e-13).min() > 0


@pytest.mark.parametrize("confidence", [0.5, 0.68, 0.8, 0.9, 0.95, 0.999])
def test_a_bound_on_the_kurtosis_never_makes_an_interval_too_narrow(confidence: float) -> None:
    """The error of a Gram bundle of rank 2, exact by its law, against the interval from the bound for rank 1."""
    coordinates, draws = 4, 200_000
    dice = np.random.default_rng(1)
    one, other = dice.gamma((coordinates + 1) / 2, size=(2, draws)) - dice.gamma((coordinates + 1) / 2, size=(2, draws))
    error = (one - other) / math.sqrt(2 * (coordinates + 1))  # trace(B N) with eigenvalues 1 and -1
    width = interval_factor(6 / (coordinates + 1), confidence)
    assert np.mean(np.abs(error) <= width) >= confidence - 0.004
    assert width >= interval_factor(0.0, confidence)
