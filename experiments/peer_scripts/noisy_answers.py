"""The noisy answers of a release as a document that mbi reads: the rows of a group as one matrix per attribute."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from privcube.algebra.residuals import helmert_rows, square_rows
from privcube.model.groups import square_weights


def answers_of(made: Any, sizes: dict[str, int], total: float) -> dict[str, Any]:
    """Answers to every group; signed rows and their products are scaled so that all have noise of one deviation."""
    plan, names = made.plan, list(sizes)
    assert plan.frame.kind == "natural" or max(sizes.values()) == 2  # one axis per attribute
    kept: list[dict[str, Any]] = []
    start = 0
    for group, variance in zip(plan.groups, plan.noise_variances(), strict=True):
        found = [rows_of(kind, sizes[names[axis]]) for axis, _, kind in group]
        rows, norms = [own for own, _ in found], [norm for _, norm in found]
        weights: Any = reduce(lambda left, right: np.kron(left, right), norms, np.ones(1))
        answers = made.measurements.answers[start : start + len(weights)] / weights
        start += len(weights)
        kept.append({
            "attributes": [names[axis] for axis, _, _ in group],
            "factors": [(own / norm[:, None]).tolist() for own, norm in zip(rows, norms, strict=True)],
            "answers": answers.tolist(),
            "stddev": float(variance) ** 0.5,
        })  # fmt: skip
    assert start == len(made.measurements.answers)
    return {"total": total, "groups": kept}


def rows_of(kind: str, size: int) -> tuple[Any, Any]:
    """What a group measures along an attribute, and norms; contrasts are the Helmert rows of two values, of norm 1."""
    if kind == "cells":
        return np.eye(size), np.ones(size)
    if kind == "squares":
        return np.asarray(square_rows(size), dtype=float), np.sqrt(np.array(square_weights(size), dtype=float))
    rows = np.asarray(helmert_rows(size), dtype=float)
    return rows, np.sqrt((rows**2).sum(axis=1)) if kind == "helmert" else np.ones(len(rows))
