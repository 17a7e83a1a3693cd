"""privcube: tables of counts and of the sums of every measure, planned together; the grid has steps of 1."""

import pandas as pd
from sums_protocol import serve_sums

import privcube as pc


def release(job, records):
    """Plan, count, add noise, recover."""
    by = tuple(job["sizes"])
    attributes = [pc.Attribute(name, size=size) for name, size in job["sizes"].items()]
    measures = [pc.Measure(name, low=low, high=high, step=1) for name, (low, high) in job["measures"].items()]
    schema = pc.Schema([*attributes, *measures])
    sums = [(*by, pc.Axis(measure.name, queries="sum")) for measure in measures]
    guarantee = pc.PureDP(job["epsilon"]) if job["delta"] is None else pc.ApproxDP(job["epsilon"], job["delta"])
    plan = pc.plan(pc.Workload.tables(schema, [by, *sums]), guarantee)
    made = pc.release(plan, pd.DataFrame(records))
    return [made.values(table).estimate for table in (by, *sums)]


serve_sums(release)
