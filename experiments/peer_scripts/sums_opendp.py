"""OpenDP on polars: counts and sums of groups in one query, whose noise is calibrated to the budget by the library."""

import warnings

import opendp.prelude as dp
import polars as pl
from sums_protocol import groups_of, serve_sums

dp.enable_features("contrib")
warnings.simplefilter("ignore", FutureWarning)  # counts below 0 are published as 0, as it does by default
MOST = 100_000  # records of a group, which only keeps sums from overflowing


def release(job, records):
    """Discrete Laplace noise, or discrete Gaussian noise under zCDP; every aggregate has an equal part of it."""
    budget = {"epsilon": job["epsilon"]} if job["rho"] is None else {"rho": job["rho"]}
    by = list(job["sizes"])
    context = dp.Context.compositor(
        data=pl.DataFrame(records).lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(**budget),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=[pl.col(name) for name in by], invariant="keys", max_length=MOST)],
    )
    sums = [pl.col(name).fill_null(0).dp.sum(tuple(bounds)) for name, bounds in job["measures"].items()]
    found = context.query().group_by(by).agg(dp.len().alias("n"), *sums).release().collect()
    return groups_of(job, found.to_dict(as_series=False), "n")


serve_sums(release)
