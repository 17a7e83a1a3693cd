"""Whether a pure plan is so far behind one of Gaussian noise that a search for it is not worth the time. Zone: PUBLIC.

What satisfies epsilon alone satisfies (epsilon, delta), so "auto" also looks for a pure plan. With many tables none
comes near. So simple pure plans are looked at first, and then what a search would start from.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Final

from privcube.errors import PlanError
from privcube.model.frame import Frame
from privcube.model.options import PlanOptions, Strategy
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import PureDP
from privcube.planning.candidates import least_total
from privcube.planning.search.narrow import judge
from privcube.planning.search.search import is_searched, search_plan
from privcube.planning.trees import branchings
from privcube.progress import silent

# Times the variance. Where both were made, a search had
_FAR: Final = 30  # at least a 14th of that of simple plans,
_BEHIND: Final = 2  # and at least 0.57 times that of its best start.


def is_far_behind(pure: PureDP, made: Plan) -> bool:
    """Whether all that is known of pure plans for the workload of a plan has much larger errors."""
    simple: list[Strategy] = ["base_counts", "marginals"]
    if branchings(made.workload):
        simple.append("hierarchy")
    errors = []
    for strategy in simple:
        with suppress(PlanError):
            options = PlanOptions(strategy=strategy)
            errors.append(least_total(made.workload, pure, options, silent).weighted_variance)
    least, frame = min(errors, default=math.inf), Frame.unpadded(made.workload)
    far, behind = _FAR * made.weighted_variance, _BEHIND * made.weighted_variance
    if not behind < least <= far or not is_searched(made.workload, frame):
        return least > far
    start = search_plan(made.workload, pure, PlanOptions(), frame, part=0.0)
    return judge(pure)(start) > behind
