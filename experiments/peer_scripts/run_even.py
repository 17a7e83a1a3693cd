"""The plain baseline: the budget split evenly, noise on every cell of every table, nothing recovered."""

import numpy as np
from protocol import counts, serve

GENERATOR = np.random.default_rng()


def release(job, codes):
    """Laplace or Gaussian noise in floating point: for comparison, not for use."""
    tables = [counts(job, codes, table) for table in job["tables"]]
    if job["rho"] is None:
        return [table + GENERATOR.laplace(0, len(tables) / job["epsilon"], table.shape) for table in tables]
    return [table + GENERATOR.normal(0, (len(tables) / (2 * job["rho"])) ** 0.5, table.shape) for table in tables]


serve(release)
