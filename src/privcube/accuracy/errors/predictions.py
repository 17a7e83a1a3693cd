"""What a plan predicts, worked out again from its groups and shares, whoever wrote the plan. Zone: PUBLIC."""

from __future__ import annotations

from typing import Final

import numpy as np

from privcube.accuracy.direct import recovery_coefficients
from privcube.accuracy.matrix_structure import structure_of
from privcube.errors import Plain, PlanError
from privcube.model.plan import Plan

_TOLERANCE: Final = 1e-6  # relative difference allowed, as machines round differently


def require_predictions(plan: Plan) -> None:
    """Refuse a plan whose groups do not determine every table, or that predicts other variances than follow from it."""
    asked, of_each = (plan.workload, plan.frame, plan.groups), plan.noise_variances()
    direct = None if plan.sources is None else recovery_coefficients(*asked, plan.sources).times(of_each)
    found = structure_of(*asked, told_by=plan.told_by).table_variances(of_each) if direct is None else direct
    if not np.allclose(plan.table_variances, found, rtol=_TOLERANCE, atol=0):
        expected = "the predicted variances that follow from its groups and shares"
        raise PlanError("plan", expected=expected, given=Plain("different ones"))
