"""privcube from end to end with what it does by default; the noisy answers are kept for mbi where the job says so."""

import json
from functools import reduce
from pathlib import Path

import numpy as np
import pandas as pd
from protocol import serve

import privcube as pc
from privcube.algebra.residuals import helmert_rows


def release(job, codes):
    """Plan, count, add noise, recover."""
    schema = pc.Schema.from_sizes(job["sizes"])
    workload = pc.Workload.tables(schema, [tuple(table) for table in job["tables"]])
    pure = job["delta"] is None
    guarantee = pc.PureDP(job["epsilon"]) if pure else pc.ApproxDP(job["epsilon"], job["delta"])
    made = pc.release(pc.plan(workload, guarantee), pd.DataFrame(codes, columns=list(job["sizes"])))
    tables = [made.values(tuple(table)).estimate for table in job["tables"]]
    if job["measurements"]:
        keep(made, job, float(np.sum(tables[0])))
    return tables


def keep(made, job, total):
    """The noisy answers to every group: rows as a product of one matrix per attribute, scaled to norm 1 if signed."""
    plan, names = made.plan, list(job["sizes"])
    kept, start = [], 0
    for group, variance in zip(plan.groups, plan.noise_variances(), strict=True):
        factors = [rows_of(kind, job["sizes"][names[axis]]) for axis, _, kind in group]
        norms = [np.sqrt((rows**2).sum(axis=1)) if kind == "helmert" else np.ones(len(rows))
                 for rows, (_, _, kind) in zip(factors, group, strict=True)]  # fmt: skip
        weights = reduce(np.kron, norms, np.ones(1))
        answers = made.measurements.answers[start : start + len(weights)] / weights
        start += len(weights)
        kept.append({
            "attributes": [names[axis] for axis, _, _ in group],
            "factors": [(rows / norm[:, None]).tolist() for rows, norm in zip(factors, norms, strict=True)],
            "answers": answers.tolist(),
            "stddev": float(variance) ** 0.5,
        })  # fmt: skip
    assert start == len(made.measurements.answers)
    assert plan.frame.kind == "natural" or max(job["sizes"].values()) == 2  # one axis per attribute
    path = Path(job["measurements"]) / f"{job['repetition']}.json"
    path.write_text(json.dumps({"total": total, "groups": kept}), encoding="utf-8")


def rows_of(kind, size):
    """What a group measures along an attribute; contrasts are the Helmert rows of two values."""
    return np.eye(size) if kind == "cells" else np.asarray(helmert_rows(size), dtype=float)


serve(release)
