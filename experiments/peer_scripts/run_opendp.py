"""OpenDP's contingency table: noise on every wanted table (`Fixed`), one model fitted to all of them.

Every attribute is cut into bins of one value each, so that no category for unknown values is added.
"""

import numpy as np
import opendp.prelude as dp
import polars as pl
from protocol import serve

dp.enable_features("contrib")


def release(job, codes):
    """Discrete Laplace noise, or discrete Gaussian noise under zCDP; then mirror descent."""
    budget = {"epsilon": job["epsilon"]} if job["rho"] is None else {"rho": job["rho"]}
    context = dp.Context.compositor(
        data=pl.DataFrame(codes.astype(np.int32), schema=list(job["sizes"])).lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(**budget),
    )
    queries = [dp.mbi.Count(by=tuple(table)) for table in job["tables"]]
    cuts = {name: list(range(size - 1)) for name, size in job["sizes"].items()}
    table = context.query(**budget).contingency_table(cuts=cuts, algorithm=dp.mbi.Fixed(queries=queries)).release()
    return [np.asarray(table.project(tuple(wanted))) for wanted in job["tables"]]


serve(release)
