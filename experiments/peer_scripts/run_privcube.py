"""privcube from end to end with what it does by default; the noisy answers are kept for mbi where the job says so."""

import json
from pathlib import Path

import pandas as pd
from noisy_answers import answers_of
from protocol import serve

import privcube as pc


def released(job, codes):
    """Plan, count, add noise."""
    schema = pc.Schema.from_sizes(job["sizes"])
    workload = pc.Workload.tables(schema, [tuple(table) for table in job["tables"]])
    pure = job["delta"] is None
    guarantee = pc.PureDP(job["epsilon"]) if pure else pc.ApproxDP(job["epsilon"], job["delta"])
    plan = pc.plan(workload, guarantee, job.get("strategy", "auto"))
    return pc.release(plan, pd.DataFrame(codes, columns=list(job["sizes"])))


def release(job, codes):
    """Plan, count, add noise, recover."""
    made = released(job, codes)
    tables = [made.values(tuple(table)).estimate for table in job["tables"]]
    if job["measurements"]:
        keep(made, job)
    return tables


def keep(made, job):
    """What the noisy answers say of every table."""
    path = Path(job["measurements"]) / f"{job['repetition']}.json"
    path.write_text(json.dumps(answers_of(made)), encoding="utf-8")


if __name__ == "__main__":
    serve(release)
