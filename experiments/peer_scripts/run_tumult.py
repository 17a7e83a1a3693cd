"""Tumult Analytics: a count per table over a public set of keys, the budget split evenly, on a local Spark."""

import os
import sys

import numpy as np
import pandas as pd
from protocol import serve, shape_of
from pyspark.sql import SparkSession
from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, RhoZCDPBudget, Session


def release(job, codes):
    """Discrete Laplace noise, or discrete Gaussian noise under zCDP."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else Spark takes the first Python on the path
    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "1")
    spark = builder.config("spark.default.parallelism", "1").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    columns = [f"c{number}" for number in range(len(job["sizes"]))]
    known = dict(zip(job["sizes"], columns, strict=True))
    budget, amount = (PureDPBudget, job["epsilon"]) if job["rho"] is None else (RhoZCDPBudget, job["rho"])
    session = Session.from_dataframe(
        privacy_budget=budget(amount),
        source_id="records",
        dataframe=spark.createDataFrame(pd.DataFrame(codes, columns=columns)),
        protected_change=AddOneRow(),
    )
    made = []
    for table in job["tables"]:
        keys = KeySet.from_dict({known[name]: list(range(job["sizes"][name])) for name in table})
        query = QueryBuilder("records").groupby(keys).count(name="n")
        found = session.evaluate(query, budget(amount / len(job["tables"]))).toPandas()
        counted = np.zeros(shape_of(job, table))
        counted[tuple(found[known[name]].to_numpy() for name in table)] = found["n"]
        assert len(found) == counted.size
        made.append(counted)
    return made


serve(release)
