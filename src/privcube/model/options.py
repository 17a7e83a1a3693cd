"""Options for making a plan: strategy, budgets, recovery, effort, objective. Zone: PUBLIC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from privcube.errors import PlanError

Strategy = Literal[
    "auto",
    "base_counts",
    "marginals",
    "fourier",
    "clusters",
    "hierarchy",
    "wavelet",
    "sketch",
    "residual",
    "matrix",
    "search",
]
Budgets = Literal["optimal", "uniform", "iterated"]
Recovery = Literal["optimal", "direct"]
Effort = Literal["fast", "normal", "thorough"]
Objective = Literal["total", "largest"]


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """The choices in steps 1 to 3 of the paper's framework.

    `budgets="uniform"` is the paper's S, `"optimal"` its S+ (section 3.1); `"iterated"` alternates steps 2 and 3 until
    the predicted error stops falling. `recovery="direct"` keeps the recovery matrix of step 2, `"optimal"` is
    generalized least squares (section 3.2). `effort` says how long to search for groups and bundles: about 1, 10 or 100
    seconds. `objective` is what to minimize: the weighted total of the variances, or the largest variance of a cell.
    """

    strategy: Strategy = "auto"
    budgets: Budgets = "optimal"
    recovery: Recovery = "optimal"
    effort: Effort = "fast"
    objective: Objective = "total"

    def __post_init__(self) -> None:
        for name, allowed in (
            ("strategy", get_args(Strategy)),
            ("budgets", get_args(Budgets)),
            ("recovery", get_args(Recovery)),
            ("effort", get_args(Effort)),
            ("objective", get_args(Objective)),
        ):
            if getattr(self, name) not in allowed:
                raise PlanError(name, expected="a known name", given=getattr(self, name), available=allowed)
