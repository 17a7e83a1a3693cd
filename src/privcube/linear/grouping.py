"""The grouping property (definition 3.1) as a checked object (THEORY section 1.2). Zone: PUBLIC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from privcube.algebra.lattice import Floats, Integers
from privcube.algebra.sparse import as_csr
from privcube.errors import PlanError


@dataclass(frozen=True)
class Grouping:
    """The rows of S in groups: disjoint within a group, and with magnitude C_r in every column of group r."""

    group_of: Integers  # per row
    magnitudes: Floats  # C_r, per group

    def check(self, strategy: Any) -> None:
        """Refuse unless both conditions of definition 3.1 hold."""
        matrix = abs(as_csr(strategy))
        if len(self.group_of) != matrix.shape[0]:
            raise PlanError("grouping", expected=f"a group for each of the {matrix.shape[0]} rows of S")
        for group, magnitude in enumerate(self.magnitudes):
            rows = matrix[np.flatnonzero(self.group_of == group)]
            met = np.asarray((rows > 0).sum(axis=0)).ravel()
            if np.any(met > 1):
                raise PlanError(f"group {group}", expected="rows with disjoint supports")
            if not np.allclose(np.asarray(rows.sum(axis=0)).ravel(), magnitude, rtol=1e-12, atol=0):
                raise PlanError(f"group {group}", expected=f"the magnitude {magnitude:g} in every column")


def grouping(strategy: Any) -> Grouping | None:
    """Group the rows of S greedily, in order; None if that does not give the grouping property.

    >>> found = grouping(np.array([[1, 1, 0, 0], [0, 0, 1, 1], [2, -2, 2, 2]]))
    >>> found.group_of.tolist(), found.magnitudes.tolist()
    ([0, 0, 1], [1.0, 2.0])
    >>> grouping(np.array([[1, 2], [1, 0]])) is None
    True
    """
    matrix = as_csr(strategy)
    covered: list[np.ndarray[Any, np.dtype[np.bool_]]] = []
    magnitudes: list[float] = []
    group_of = np.zeros(matrix.shape[0], dtype=np.int64)
    for row in range(matrix.shape[0]):
        span = slice(matrix.indptr[row], matrix.indptr[row + 1])
        columns, values = matrix.indices[span], np.abs(matrix.data[span])
        if not len(values):
            continue  # a row of zeros fits anywhere; it stays in the first group
        if not np.allclose(values, values[0], rtol=1e-12, atol=0):
            return None
        for group, taken in enumerate(covered):
            if np.isclose(magnitudes[group], values[0], rtol=1e-12, atol=0) and not taken[columns].any():
                break
        else:
            group = len(covered)
            covered.append(np.zeros(matrix.shape[1], dtype=bool))
            magnitudes.append(float(values[0]))
        covered[group][columns] = True
        group_of[row] = group
    if not covered or not all(taken.all() for taken in covered):
        return None
    return Grouping(group_of, np.array(magnitudes))
