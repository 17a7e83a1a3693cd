"""SmartNoise SQL: a GROUP BY per table; every cell is handed in, so that none is dropped for being rare or empty.

With a delta its odometer composes the queries (Kairouz, Oh, Viswanath), and the largest epsilon per query is taken that
it allows.
"""

import numpy as np
import pandas as pd
import snsql
from protocol import counts, serve
from snsql.sql.odometer import OdometerHeterogeneous


def release(job, codes):
    """Discrete Laplace noise on exact counts."""
    columns = [f"c{number}" for number in range(len(job["sizes"]))]  # names of ours are not all names in SQL
    known = dict(zip(job["sizes"], columns, strict=True))
    about = {known[name]: {"type": "int", "lower": 0, "upper": size - 1} for name, size in job["sizes"].items()}
    about |= {"row_privacy": True, "censor_dims": False, "rows": len(codes)}
    privacy = snsql.Privacy(epsilon=epsilon_per_query(job), delta=0.0)
    records = pd.DataFrame(codes, columns=columns)
    reader = snsql.from_df(records, privacy=privacy, metadata={"": {"data": {"records": about}}})
    reader.odometer.tol = job["delta"] or 1e-15
    made = []
    for table in job["tables"]:
        listed = ", ".join(known[name] for name in table)
        exact = counts(job, codes, table)
        places = np.indices(exact.shape).reshape(len(table), -1)
        given = np.column_stack([*places, exact.ravel()])
        query = f"SELECT {listed}, COUNT(*) AS n FROM data.records GROUP BY {listed}"
        noisy = np.zeros(exact.shape)
        for row in reader.execute(query, pre_aggregated=given)[1:]:
            noisy[tuple(int(place) for place in row[:-1])] = row[-1]
        made.append(noisy)
    epsilon, delta = reader.odometer.spent
    assert reader.odometer.k == len(job["tables"]), reader.odometer.k
    assert epsilon <= job["epsilon"] * (1 + 1e-9), epsilon
    assert delta <= (job["delta"] or 1e-15) * (1 + 1e-9), delta
    return made


def epsilon_per_query(job):
    """An even share, or the largest that the odometer allows."""
    low, high = job["epsilon"] / len(job["tables"]), job["epsilon"]
    if job["delta"] is None:
        return low
    for _ in range(50):
        middle = (low + high) / 2
        odometer = OdometerHeterogeneous(snsql.Privacy(epsilon=middle, delta=0.0))
        odometer.tol = job["delta"]
        for _ in job["tables"]:
            odometer.spend()
        low, high = (middle, high) if odometer.spent[0] <= job["epsilon"] else (low, middle)
    return low


serve(release)
