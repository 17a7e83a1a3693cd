"""Random plans: the exact cost is the guarantee, to the last digit, and brute force agrees.

There are 300, or as many thousands as PRIVCUBE_AUDIT_PLANS says (10 in `make audit`).
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from privcube import PureDP, Schema, Workload, plan
from privcube.accuracy.privacy import privacy_cost, verify_privacy
from privcube.errors import PlanError
from privcube.model.groups import group_rows
from privcube.model.privacy.guarantee import guarantee_from
from privcube.planning.steps import with_bundles
from privcube.sensitive.gate import verify_by_brute_force
from privcube.strategies import STRATEGIES

FAST = [name for name in STRATEGIES if name not in ("sketch", "hierarchy", "matrix")]

THOUSANDS = int(os.environ.get("PRIVCUBE_AUDIT_PLANS", "0"))
AT_ONCE = 1000 if THOUSANDS else 300


@pytest.mark.parametrize("seed", range(max(THOUSANDS, 1)))
def test_random_plans_cost_what_was_promised(seed: int) -> None:
    rng = np.random.default_rng(seed)
    made_in_all = 0
    while made_in_all < AT_ONCE:
        schema = Schema.from_sizes({name: int(rng.integers(1, 4)) for name in "abc"[: rng.integers(1, 4)]})
        cube = list(Workload.full_cube(schema))
        chosen = [cube[i] for i in rng.choice(len(cube), size=rng.integers(1, min(5, len(cube)) + 1), replace=False)]
        workload = Workload.tables(schema, chosen, weights=(rng.integers(1, 50, len(chosen)) / 7).tolist())
        neighbors = ["add_remove", "replace_one"][rng.integers(2)]
        amount = f"{rng.integers(1, 5000)}/{rng.integers(1, 999)}"
        rows = int(rng.integers(1, 4))
        amounts = [{"epsilon": amount}, {"rho": amount}, {"epsilon": amount, "delta": "1e-6"}]
        guarantee = guarantee_from(
            amounts[rng.choice(3, p=[0.6, 0.35, 0.05])], neighbors=neighbors, max_rows_per_person=rows
        )
        budgets = ["optimal", "uniform"][rng.integers(2)]
        try:
            made = plan(workload, guarantee, FAST[rng.integers(len(FAST))], budgets=budgets)
        except PlanError:
            continue  # Helmert rows under a pure guarantee
        if isinstance(guarantee, PureDP) and len(made.groups) > 1 and rng.integers(4) == 0:
            order = rng.permutation(len(made.groups)).tolist()
            cut = int(rng.integers(1, len(order)))
            made = with_bundles(made, [order[:cut], order[cut:]])
        whole = neighbors == "add_remove" or all(group_rows(made.frame, group) > 1 for group in made.groups)
        assert (privacy_cost(made) == guarantee.capacity) if whole else (privacy_cost(made) <= guarantee.capacity)
        if made_in_all % 20 == 0:
            verify_privacy(made)
            verify_by_brute_force(made)
        made_in_all += 1
