"""No system: the budget split evenly between the counts and the sums of every group, the same noise as privcube's.

Under zCDP an even split of rho; sums are of values above the lower bound, which is at least as good as any other.
"""

import numpy as np
from sums_protocol import exact_groups, serve_sums


def release(job, records):
    """Laplace or Gaussian noise, in numpy."""
    counts, *sums = exact_groups(job, records)
    widths = [1.0, *(max(abs(low), abs(high)) for low, high in job["measures"].values())]
    parts, generator = len(widths), np.random.default_rng()
    made = []
    for exact, width in zip((counts, *sums), widths, strict=True):
        if job["rho"] is None:
            made.append(exact + generator.laplace(0, width * parts / job["epsilon"], exact.shape))
        else:
            made.append(exact + generator.normal(0, width * np.sqrt(parts / (2 * job["rho"])), exact.shape))
    return made


serve_sums(release)
