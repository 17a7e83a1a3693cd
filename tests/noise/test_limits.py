"""What a plan says about noise that cannot be drawn is what the gate says."""

from __future__ import annotations

from typing import Any

import pytest

import privcube as pc
from privcube.errors import GuaranteeError
from privcube.model.noise.limits import noise_objection
from privcube.sensitive import gate

SIZES = pc.Schema.from_sizes({"a": 2, "b": 3})
PLAIN = pc.Workload.all_kway(SIZES, 2)
SUMS = pc.Workload.all_kway(pc.Schema([*SIZES, pc.Measure("pay", low=0, high=1000, step="0.01")]), 1).with_sums()


@pytest.mark.parametrize("strategy", ["marginals", "search", "fourier"])
@pytest.mark.parametrize("workload", [PLAIN, SUMS], ids=["plain", "sums"])
def test_pure_noise(workload: pc.Workload, strategy: Any) -> None:
    told = [agreed(pc.plan(workload, pc.PureDP(epsilon), strategy, effort="fast")) for epsilon in ("1e-12", 1, 10**9)]
    assert told[1] is None


@pytest.mark.parametrize("rho", ["1e-12", 1, 10**9])
@pytest.mark.parametrize("workload", [PLAIN, SUMS], ids=["plain", "sums"])
def test_gaussian_noise(workload: pc.Workload, rho: Any) -> None:
    agreed(pc.plan(workload, pc.ZCDP(rho), "residual"))


def test_some_noise_is_too_wide() -> None:
    told = agreed(pc.plan(SUMS, pc.PureDP("1e-12"), "search", effort="fast"))
    assert told is not None
    assert told.startswith("noise scale: expected a fraction from 1e-15 to 1e1")
    assert "Fraction(" not in told


def agreed(plan: pc.Plan) -> str | None:
    """What both say."""
    refused = None
    try:
        gate._noise(plan, gate._Rehearsal())
    except GuaranteeError as problem:
        refused = str(problem)
    assert noise_objection(plan) == refused
    return refused
