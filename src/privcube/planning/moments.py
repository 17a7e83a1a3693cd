"""The variance of whole-number noise, a little below that of the continuous noise of the same scale. Zone: PUBLIC."""

from __future__ import annotations

import math

import numpy as np

from privcube.algebra.lattice import Floats
from privcube.model.guarantee import PureDP
from privcube.model.plan import Plan


def discrete_laplace_variance(scale: float) -> float:
    """2 r / (1 - r)^2 with r = exp(-1/scale); about 2 scale^2 - 1/6.

    >>> round(discrete_laplace_variance(1.0), 6), round(discrete_laplace_variance(100.0), 6)
    (1.841347, 19999.833334)
    """
    half = 1 / (2 * scale)
    return 1 / (2 * math.sinh(half) ** 2) if half < 350 else 0.0


def discrete_gaussian_variance(variance: float) -> float:
    """The sum of k^2 exp(-k^2/(2 v)) over that of exp(-k^2/(2 v)); v itself but for a tiny v.

    >>> round(discrete_gaussian_variance(1.0), 9), round(discrete_gaussian_variance(0.25), 6)
    (0.999999789, 0.215013)
    """
    if variance > 4:
        return variance  # the difference is below exp(-2 pi^2 v) relative, less than a float can hold
    k = np.arange(1, 64, dtype=np.float64)
    weights = np.exp(-(k**2) / (2 * variance))
    return float(2 * np.sum(k**2 * weights) / (1 + 2 * np.sum(weights)))


def exact_noise_variances(plan: Plan) -> Floats:
    """The variances of the noise that is really drawn, per group; bundles by the formula of continuous noise."""
    continuous = plan.noise_variances()
    if not isinstance(plan.guarantee, PureDP):
        return np.array([discrete_gaussian_variance(variance) for variance in continuous.tolist()])
    known: dict[float, float] = {}
    exact = continuous.copy()
    for bundle in plan.noised_together:
        if len(bundle) == 1:
            variance = float(continuous[bundle[0]])
            if variance not in known:
                known[variance] = discrete_laplace_variance(math.sqrt(variance / 2))
            exact[bundle[0]] = known[variance]
    return exact
