"""SmartNoise SQL: COUNT and SUMs of every group in one query, the budget split evenly over the columns."""

import numpy as np
import pandas as pd
import snsql
from sums_protocol import groups_of, serve_sums


def release(job, records):
    """Discrete Laplace noise; it has no other for sums, so that a delta is of no use."""
    if job["delta"] is not None:
        raise ValueError("composes columns by their epsilons, so that a delta is of no use")
    by, measures = list(job["sizes"]), job["measures"]
    about = {name: {"type": "int", "lower": 0, "upper": size - 1} for name, size in job["sizes"].items()}
    about |= {name: {"type": "int", "lower": low, "upper": high} for name, (low, high) in measures.items()}
    frame = pd.DataFrame(records)
    about |= {"row_privacy": True, "censor_dims": False, "rows": len(frame)}
    privacy = snsql.Privacy(epsilon=job["epsilon"] / (len(measures) + 1), delta=0.0)
    reader = snsql.from_df(frame, privacy=privacy, metadata={"": {"data": {"records": about}}})
    listed = ", ".join(by)
    sums = "".join(f", SUM({name}) AS sum_{name}" for name in measures)
    exact = frame.groupby(by).agg(**{"n": (by[0], "size")}, **{f"sum_{name}": (name, "sum") for name in measures})
    given = exact.reset_index().to_numpy()
    query = f"SELECT {listed}, COUNT(*) AS n{sums} FROM data.records GROUP BY {listed}"
    found = reader.execute(query, pre_aggregated=given)[1:]
    assert reader.odometer.spent[0] <= job["epsilon"] * (1 + 1e-9), reader.odometer.spent
    columns = dict(zip([*by, "n", *measures], np.array(found, dtype=float).T.tolist(), strict=True))
    return groups_of(job, columns, "n")


serve_sums(release)
