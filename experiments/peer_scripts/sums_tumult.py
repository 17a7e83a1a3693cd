"""Tumult Analytics: a count and a sum per measure over public groups, the budget split evenly, on a local Spark."""

import os
import sys

import pandas as pd
from pyspark.sql import SparkSession
from sums_protocol import groups_of, serve_sums
from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, RhoZCDPBudget, Session


def release(job, records):
    """Discrete Laplace noise, or discrete Gaussian noise under zCDP."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else Spark takes the first Python on the path
    builder = SparkSession.builder.master("local[1]").config("spark.sql.shuffle.partitions", "1")
    spark = builder.config("spark.default.parallelism", "1").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    budget, amount = (PureDPBudget, job["epsilon"]) if job["rho"] is None else (RhoZCDPBudget, job["rho"])
    session = Session.from_dataframe(
        privacy_budget=budget(amount),
        source_id="records",
        dataframe=spark.createDataFrame(pd.DataFrame(records)),
        protected_change=AddOneRow(),
    )
    by, part = list(job["sizes"]), budget(amount / (len(job["measures"]) + 1))
    groups = QueryBuilder("records").groupby(
        KeySet.from_dict({name: list(range(size)) for name, size in job["sizes"].items()})
    )
    found = session.evaluate(groups.count(name="n"), part).toPandas().set_index(by)
    for name, (low, high) in job["measures"].items():
        own = session.evaluate(groups.sum(name, low=low, high=high, name=name), part).toPandas().set_index(by)
        found[name] = own[name]
    return groups_of(job, found.reset_index().to_dict("list"), "n")


serve_sums(release)
