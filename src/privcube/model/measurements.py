"""Measurements: the noisy answers to the groups of a plan, the first numbers that are public. Zone: PUBLIC."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privcube.errors import PlanError
from privcube.model.groups import group_rows
from privcube.model.plan import Plan


@dataclass(frozen=True, eq=False)
class Measurements:
    """Noisy whole numbers, one per row of the plan, in the order of its groups; nothing exact is kept with them."""

    plan: Plan
    answers: NDArray[np.int64]

    @property
    def counts(self) -> NDArray[np.float64]:
        """The answers in records: those about measures are whole parts of one."""
        if max(self.plan.parts) == 1:
            return self.answers.astype(np.float64)
        rows = [group_rows(self.plan.frame, group) for group in self.plan.groups]
        return np.asarray(self.answers / np.repeat(np.array(self.plan.parts, dtype=np.float64), rows))

    def __post_init__(self) -> None:
        if self.answers.dtype != np.int64 or self.answers.shape != (self.plan.rows,):
            raise PlanError("measurements", expected=f"{self.plan.rows:,} 64-bit whole numbers, one per row")
        own = np.frombuffer(self.answers.tobytes(), dtype=np.int64)  # which nothing can make writable
        object.__setattr__(self, "answers", own)
