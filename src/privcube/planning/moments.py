"""The variance of whole-number noise, a little below that of the continuous noise of the same scale. Zone: PUBLIC."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Final

import numpy as np

from privcube.algebra.lattice import Floats
from privcube.model.groups import group_rows, has_helmert
from privcube.model.guarantee import PureDP
from privcube.model.plan import Plan

_LARGEST_RADIUS: Final = 200_000  # beyond, whole-number and continuous noise differ by less than one part in 10^7


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


def max_norm_variances(scale: float, sizes: Mapping[int, int]) -> dict[int, float]:
    """The variance of a row of whole-number max-norm noise, by the size of its group; `sizes` counts groups of a size.

    With radius r a row of a group of n has second moment 2 D(n, r-1) / B(n, r); the generating functions of B and D are
    (1+x)^n / (1-x)^(n+1) and (1+x)^n / (1-x)^(n+3): D sums B up twice. The radius has weight e^(-r/s) prod B.

    >>> {n: round(v, 3) for n, v in max_norm_variances(1.0, {1: 2}).items()}, round(2 * 3 * 4 / (2 * 3), 3)
    ({1: 3.903}, 4.0)
    """
    rows = sum(size * count for size, count in sizes.items())
    if rows * scale > _LARGEST_RADIUS:
        return {n: 2 * (rows + 1) * (rows + 2) / ((n + 1) * (n + 2)) * scale**2 for n in sizes}
    growth = dict.fromkeys(sizes, 1.0)  # B(n, r) / B(n, r-1)
    once, twice = dict.fromkeys(sizes, 0.0), dict.fromkeys(sizes, 0.0)  # sums of B and of those sums, over B(n, r)
    log_weight, logs, moments = 0.0, [], []
    radius, largest = 0, 0.0
    while radius < 4 or log_weight > largest - 45:
        for n in sizes:
            once[n] = once[n] / growth[n] + 1
            twice[n] = twice[n] / growth[n] + once[n]
        logs.append(log_weight)
        largest = max(largest, log_weight)
        for n, count in sizes.items():
            growth[n] = (2 * n + 1 + radius / growth[n]) / (radius + 1) if radius else 2 * n + 1
            log_weight += count * math.log(growth[n])
        log_weight -= 1 / scale
        moments.append([2 * twice[n] / growth[n] for n in sizes])  # of the next radius
        radius += 1
    weights = np.exp(np.array(logs) - largest)
    second = np.vstack([np.zeros(len(sizes)), np.array(moments)[:-1]])
    return dict(zip(sizes, (weights @ second / weights.sum()).tolist(), strict=True))


def exact_noise_variances(plan: Plan) -> Floats:
    """The variances of the noise that is really drawn, per group.

    Helmert rows are taken at their orthonormal worth; their noise is wide enough for the continuous value to be exact
    but for a sigma^2 below 2.
    """
    continuous = plan.noise_variances()
    if not isinstance(plan.guarantee, PureDP):
        return np.array(
            [
                variance if has_helmert(group) else discrete_gaussian_variance(variance)
                for group, variance in zip(plan.groups, continuous.tolist(), strict=True)
            ]
        )
    exact = continuous.copy()
    known: dict[float, float] = {}
    for bundle in plan.noised_together:
        scale = float(plan.noise_scale(bundle[0]))
        if len(bundle) > 1:
            rows = [group_rows(plan.frame, plan.groups[group]) for group in bundle]
            by_size = max_norm_variances(scale, Counter(rows))
            exact[list(bundle)] = [by_size[n] for n in rows]
        else:
            if scale not in known:
                known[scale] = discrete_laplace_variance(scale)
            exact[bundle[0]] = known[scale]
    return exact
