"""An orthonormal basis of every level of every axis: the dense twin of residual coordinates."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from privcube.algebra.lattice import Floats
from privcube.algebra.residuals import helmert_rows, level_slice


def orthonormal_coordinates(weights: Floats, chains: Sequence[Sequence[int]]) -> Floats:
    """A query, given by its weights on the cells of a table, in an orthonormal basis of every level of every axis.

    It is the total, then level by level the Helmert rows inside every parent: the squares of the coordinates of a
    level vector b (`level_slice`) add up to |Pi_b q|^2, and all of them to |q|^2.

    """
    coordinates = np.asarray(weights, dtype=np.float64)
    for axis, chain in enumerate(chains):
        coordinates = _orthonormal(coordinates, axis, chain)
    return coordinates


def _orthonormal(table: Floats, axis: int, fan_outs: Sequence[int]) -> Floats:
    moved = np.moveaxis(table, axis, -1)
    lead = moved.shape[:-1]
    out = np.empty(moved.shape)
    means = moved
    for level in range(len(fan_outs), 0, -1):
        parents, fan_out = math.prod(fan_outs[: level - 1]), fan_outs[level - 1]
        coefficients = means.reshape(*lead, parents, fan_out) @ _helmert(fan_out).T
        out[..., level_slice(fan_outs, level)] = coefficients[..., 1:].reshape(*lead, parents * (fan_out - 1))
        means = coefficients[..., 0]
    out[..., :1] = means
    return np.moveaxis(out, -1, axis)


def _helmert(size: int) -> Floats:
    """An orthonormal basis: the constant vector, then each cell against the ones before it."""
    rows = np.vstack([np.ones((1, size)), helmert_rows(size)])
    normed: Floats = rows / np.sqrt((rows**2).sum(axis=1, keepdims=True))
    return normed
