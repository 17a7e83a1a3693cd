"""Coverage of intervals given facts: how often they contain the true count, beside those without facts.

As in `test_coverage`, noise is drawn as the gate draws it and recovered by the matrix of the predictor, here one that
is conditioned on a known total, on impossible combinations or on both. All true counts are 0, so the known ones are as
well, and conditioning is linear.

`PRIVCUBE_ATTACK=20` draws 20 times as often, in all cases. `python -m tests.attack.test_facts_coverage` takes a number
of draws, and words that cases must have, and prints figures.
"""

from __future__ import annotations

import math
import sys
from functools import partial

import numpy as np
import pytest
from tests.attack.test_coverage import AT_LEAST, CASES, CHANCE, DRAWS, SCALE, WORKLOADS, Case, any_case, found, worst

import privcube as pc
from privcube.accuracy.predictor import Predictor
from privcube.model.plan import Plan
from privcube.released.whole.facts import Facts, predictor_given

KINDS = ("total", "impossible", "both")


def facts_of(case: Case, kind: str) -> Facts:
    """Facts about the attributes of a case: the first cells of the first two attributes cannot occur together."""
    schema = WORKLOADS[case.workload].schema
    names = schema.names[:2]
    cells = {name: [schema[name].labels[0]] for name in names}
    if schema[names[0]].cells > 3:
        cells[names[0]] = list(schema[names[0]].labels[:2])
    return Facts(None if kind == "impossible" else 0, () if kind == "total" else [cells])


def conditioned(case: Case, kind: str, plan: Plan) -> Predictor:
    return predictor_given(plan, facts_of(case, kind))


def is_short(number: int, case: Case, kind: str) -> bool:
    """One of many: the kinds of facts in turn, where noise is narrow, wide, or in bundles."""
    if case.recovery == "direct" or case.strategy == "search":
        return False
    chosen = (pc.PureDP("0.1"), pc.PureDP(3), pc.ZCDP("0.1"), pc.ApproxDP(1, "1e-6", calibration="exact"))
    return case.guarantee in chosen and KINDS[number % 3] == kind and number % 2 == 0


EVERY = [(at, case, kind) for at, case in enumerate(CASES) if case.recovery != "direct" for kind in KINDS]


@pytest.mark.parametrize(
    ("case", "kind"),
    [own[1:] for own in EVERY if SCALE > 1 or is_short(*own)],
    ids=lambda own: getattr(own, "name", own),
)
def test_intervals_given_facts_cover_what_they_say(case: Case, kind: str) -> None:
    logarithm, what = worst(found(case, DRAWS // 3, partial(conditioned, case, kind)))
    assert logarithm > math.log(CHANCE), what


if __name__ == "__main__":
    draws, chosen = int(sys.argv[1]), sys.argv[2:]
    for _, case, kind in [*EVERY, *[(seed, any_case(seed), kind) for seed in range(60) for kind in KINDS]]:
        if case.recovery != "direct" and all(word in f"{case.name}, {kind}" for word in chosen):
            results = found(case, draws, partial(conditioned, case, kind))
            alone = np.concatenate([own.alone / own.draws for own in results])
            least = min(own.together / own.draws for own in results)
            mark = "" if min(alone.min(), least) >= AT_LEAST else " *"
            print(f"{case.name}, {kind}: {alone.min():.4f} {alone.mean():.4f} {least:.4f}{mark}", flush=True)  # noqa: T201
