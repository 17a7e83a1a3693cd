"""privcube: a table of counts and one of sums per measure, planned together; the plan is made once for all releases."""

import json
from functools import cache

import pandas as pd
from sums_protocol import serve_sums

import privcube as pc


@cache
def planned(written):
    """The plan of a job, and its tables."""
    job = json.loads(written)
    by = tuple(job["sizes"])
    attributes = [pc.Attribute(name, size=size) for name, size in job["sizes"].items()]
    measures = [pc.Measure(name, low=low, high=high, step=1) for name, (low, high) in job["measures"].items()]
    schema = pc.Schema([*attributes, *measures])
    tables = [by, *((*by, pc.Axis(measure.name, queries="sum")) for measure in measures)]
    guarantee = pc.PureDP(job["epsilon"]) if job["delta"] is None else pc.ApproxDP(job["epsilon"], job["delta"])
    return pc.plan(pc.Workload.tables(schema, tables), guarantee, job["strategy"] or "auto"), tables


def release(job, records):
    """Count, add noise, recover; the first release has the planning in it."""
    asked = {key: job.get(key) for key in ("sizes", "measures", "epsilon", "delta", "strategy")}
    plan, tables = planned(json.dumps(asked))
    made = pc.release(plan, pd.DataFrame(records))
    return [made.values(table).estimate for table in tables]


serve_sums(release)
