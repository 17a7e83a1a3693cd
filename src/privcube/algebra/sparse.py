"""Conversion between the two accepted forms of matrices: numpy arrays and scipy sparse matrices. Zone: PUBLIC."""

from __future__ import annotations

from typing import Any

import numpy as np

from privcube.algebra.lattice import Floats
from privcube.errors import PlanError


def scipy_sparse() -> Any:
    """scipy.sparse, loaded when it is first needed."""
    import scipy.sparse

    return scipy.sparse


def as_csr(matrix: Any) -> Any:
    """A matrix in compressed sparse rows without explicit zeros; entries must be finite."""
    sparse = scipy_sparse()
    csr = sparse.csr_array(matrix if sparse.issparse(matrix) else np.atleast_2d(np.asarray(matrix)), dtype=np.float64)
    csr.eliminate_zeros()
    if not np.all(np.isfinite(csr.data)):
        raise PlanError("matrix", expected="finite entries")
    if 0 in csr.shape:
        raise PlanError("matrix", expected="at least one row and one column", given=csr.shape)
    return csr


def as_dense(matrix: Any) -> Floats:
    """A matrix as a numpy array; entries must be finite."""
    return np.asarray(as_csr(matrix).toarray(), dtype=np.float64)
