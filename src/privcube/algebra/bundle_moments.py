"""Fourth moments of sums over bundles, for intervals. Zone: PUBLIC.

See THEORY sections 7 and 11.1.
"""

from __future__ import annotations

import numpy as np

from privcube.algebra.lattice import Floats


def gram_fourth_cumulant(variances: Floats, dimension: int) -> Floats:
    """At most this is the fourth cumulant of a sum of entries of a difference of Wishart matrices of these variances.

    A sum of entries is trace(B N) for a symmetric B with eigenvalues l_i. With N = W1 - W2, W = G G' / 2 and d + 1
    columns of G, its characteristic function is the product of (1 + l_i^2 t^2)^(-(d+1)/2): variance (d+1) sum l_i^2 and
    fourth cumulant 6 (d+1) sum l_i^4. That is at most 6 / (d+1) times the squared variance, reached where B has rank 1.
    """
    return np.asarray(6 / (dimension + 1) * variances**2)
