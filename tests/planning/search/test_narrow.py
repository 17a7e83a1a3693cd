"""Narrow noise: shares and laws by the variance that is drawn, never worse, and at the same price."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privcube as pc
from privcube.accuracy.predictor import recover
from privcube.accuracy.privacy import privacy_cost, verify_privacy
from privcube.planning import searched
from privcube.planning.search.narrow import (
    _discrete_laplace,
    _equal_slopes,
    drawn_error,
    narrowed,
    off_sections,
    with_drawn_shares,
)
from privcube.sensitive.gate import SystemNoise, _noise

WIDE = pc.Workload.all_kway(pc.Schema.from_sizes({"a": 300, "b": 2, "c": 50}), 1)
ADULT = pc.Workload.all_kway(pc.Schema.from_sizes(dict(zip("abcdefgh", (9, 16, 7, 15, 6, 5, 2, 2), strict=True))), 1)


@settings(max_examples=15)
@given(st.integers(1, 6), st.integers(0, 999))
def test_shares_of_equal_slopes_are_the_best(count: int, seed: int) -> None:
    """Against the same sum at many shares nearby and far away."""
    dice = np.random.default_rng(seed)
    units, needs = np.exp(dice.uniform(-4, 1, count)), np.exp(dice.uniform(-3, 7, count))
    found = _equal_slopes(needs, units)
    assert found.sum() == pytest.approx(1)
    least = float(needs @ _discrete_laplace(found / units))
    for width in (0.01, 0.1, 1.0):
        others = found * np.exp(width * dice.standard_normal((50, count)))
        others /= others.sum(axis=1, keepdims=True)
        assert np.all(_discrete_laplace(others / units) @ needs >= least * (1 - 1e-9))


@pytest.mark.parametrize("epsilon", ["2", "8", "40", "700"])
@pytest.mark.parametrize("strategy", ["marginals", "clusters", "base_counts", "hierarchy"])
def test_shares_for_the_noise_drawn_are_never_worse_and_cost_the_same(epsilon: str, strategy: pc.Strategy) -> None:
    made = pc.plan(WIDE, pc.PureDP(epsilon), strategy)
    found = with_drawn_shares(made)
    assert drawn_error(found) <= drawn_error(made) * (1 + 1e-9)
    assert privacy_cost(found) == privacy_cost(made)
    verify_privacy(found)


def test_where_shares_stay() -> None:
    """Wide noise, replaced records and bundles are left alone."""
    replaced = pc.PureDP(20, neighbors="replace_one")
    for made in (pc.plan(WIDE, pc.PureDP(1), "marginals"), pc.plan(WIDE, replaced, "marginals")):
        assert with_drawn_shares(made) is made
    bundled = pc.plan(pc.Workload.all_kway(pc.Schema.from_sizes({"a": 2, "b": 2, "c": 2}), 1), pc.PureDP(2), "search")
    assert bundled.bundles is None or with_drawn_shares(bundled) is bundled


def test_the_prediction_of_narrow_noise_is_what_is_drawn() -> None:
    made = with_drawn_shares(pc.plan(WIDE, pc.PureDP(12), "marginals"))
    draws = [recover(made, _noise(made, SystemNoise())) for _ in range(150)]
    found = sum(float((table**2).sum()) for tables in draws for table in tables.values()) / len(draws)
    assert found == pytest.approx(drawn_error(made), rel=0.2)  # 3.73 by few draws other than 0: five standard errors


def test_sections_are_left_where_max_norm_noise_is_better_as_drawn() -> None:
    wide, narrow = (pc.plan(ADULT, pc.PureDP(epsilon), "search") for epsilon in (4, 10))
    assert "section" in wide.noise_laws
    assert drawn_error(off_sections(wide)) > drawn_error(wide)
    assert "section" not in narrow.noise_laws
    assert off_sections(wide).weighted_variance > wide.weighted_variance  # continuous noise is never better off it
    verify_privacy(off_sections(wide))


def test_more_effort_is_no_worse_where_a_plan_is_better_off_its_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan of more effort may be better than that of less on its sections, and worse than that off them."""
    guarantee = pc.PureDP(10)
    best = pc.plan(ADULT, guarantee, "search")
    on_sections = replace(pc.plan(ADULT, pc.PureDP(4), "search"), guarantee=guarantee)
    less = int(best.shares[0] * 0.9)
    between = replace(best, shares=(less, sum(best.shares) - less))
    assert drawn_error(off_sections(on_sections)) < drawn_error(between) < drawn_error(on_sections)
    made = {"fast": on_sections, "normal": between}
    monkeypatch.setattr(searched, "search_plan", lambda *given, **_: made[given[2].effort])
    fast, normal = (pc.plan(ADULT, guarantee, "search", effort=effort) for effort in ("fast", "normal"))
    assert drawn_error(normal) == drawn_error(fast) == pytest.approx(drawn_error(off_sections(on_sections)))


def test_plans_are_compared_with_the_shares_that_they_get() -> None:
    """Candidates that only shares for the error as drawn make the best."""
    found, guarantee = [], pc.PureDP(12)
    for strategy in ("marginals", "hierarchy", "clusters", "base_counts"):
        made = pc.plan(WIDE, guarantee, strategy)
        found.append(drawn_error(with_drawn_shares(made)))
        assert narrowed(made) == with_drawn_shares(made)
    assert drawn_error(pc.plan(WIDE, guarantee)) <= min(found) * (1 + 1e-9)
