"""Inverses of triangles, against those of any matrix."""

from __future__ import annotations

import numpy as np
import pytest

from privcube.algebra.triangles import upper_inverse


@pytest.mark.parametrize("rows", [1, 2, 47, 48, 49, 97, 200])
def test_inverses_are_those_of_any_matrix(rows: int) -> None:
    chance = np.random.default_rng(rows)
    triangle = np.triu(chance.normal(size=(rows, rows))) / rows + np.diag(chance.uniform(1, 2, rows))
    before = triangle.copy()
    found = upper_inverse(triangle)
    assert np.array_equal(triangle, before)
    assert np.allclose(found, np.linalg.inv(triangle), rtol=1e-10, atol=1e-12)
    assert not np.any(np.tril(found, -1))
