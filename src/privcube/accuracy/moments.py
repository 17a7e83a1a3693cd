"""Whole-number noise: its variance, usually slightly below that of continuous noise of its scale. Zone: PUBLIC.

For Laplace and Gaussian noise it is never above (sinh x >= x; Canonne, Kamath and Steinke 2020). In a bundle of unequal
groups, rows of the largest group may exceed it, usually by a few percent.

See THEORY section 11, and THEORY section 11.1 for intervals.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal

import numpy as np

from privcube.algebra.lattice import Floats
from privcube.algebra.rounded_noise import (
    rounded_characteristic,
    rounded_fourth_cumulant,
    rounded_log_moments,
    rounded_variance,
)
from privcube.model.frame import Frame
from privcube.model.groups import BlockGroup, Group, has_helmert, has_squares, product_groups, row_weights
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import NoiseKind, PureDP
from privcube.model.slices import slice_rows

DrawKind = NoiseKind | Literal["smooth"]  # an independent draw; smooth: a continuous Laplace variable
RowShares = Mapping[tuple[int, int], Sequence[float]]  # per axis and level, the shares of Helmert rows j = 1, 2, ...

_NARROW: Final = 4.0  # above this, discrete and continuous Gaussian variances are equal in floating point
_LARGE_RADIUS: Final = 10_000  # beyond this the relative error of `_by_density` is about 1e-8, one over its square
_FIRST_RADII: Final = 256  # that are summed over, then twice as many until the rest is negligible
_POINTS: Final = 2_001  # of the integration grid; the integrand is smooth, so empirically this is plenty
_NEGLIGIBLE: Final = 45.0  # in logarithms: e^-45 is below the precision of a float next to 1


def discrete_laplace_variance(scale: float) -> float:
    """The variance 2 r / (1 - r)^2 with r = exp(-1/scale); about 2 scale^2 - 1/6.

    >>> round(discrete_laplace_variance(1.0), 6), round(discrete_laplace_variance(100.0), 6)
    (1.841347, 19999.833334)
    """
    half = 1 / (2 * scale)
    return 1 / (2 * math.sinh(half) ** 2) if half < 350 else 0.0


@lru_cache(maxsize=4096)
def discrete_gaussian_variance(variance: float) -> float:
    """The sum of k^2 exp(-k^2/(2 v)) divided by the sum of exp(-k^2/(2 v)); equal to v unless v is tiny.

    >>> round(discrete_gaussian_variance(1.0), 9), round(discrete_gaussian_variance(0.25), 6)
    (0.999999789, 0.215013)
    """
    if variance > _NARROW:
        return variance  # the relative difference is below exp(-2 pi^2 v), less than a float can hold
    k = np.arange(1, 64, dtype=np.float64)
    weights = np.exp(-(k**2) / (2 * variance))
    return min(variance, float(2 * np.sum(k**2 * weights) / (1 + 2 * np.sum(weights))))


def rounded_bundle_variance(variance: float) -> float:
    """About the variance of a rounded row of a section or a Gram bundle, given that of the row itself.

    Their tails lie between those of normal and of Laplace noise, so of the two the larger variance is taken. Rounded
    Laplace noise of scale b has P(|z| >= k) = q^(k - 1/2) with q = exp(-1/b), hence sqrt(q) (1 + q) / (1 - q)^2.

    >>> [round(rounded_bundle_variance(variance), 5) for variance in (0.01, 0.5, 100.0)]
    [0.00085, 0.58322, 100.08333]
    """
    if variance > _NARROW:
        return variance + 1 / 12
    q = math.exp(-1 / math.sqrt(variance / 2)) if variance > 0 else 0.0
    return max(rounded_variance(variance), math.sqrt(q) * (1 + q) / (1 - q) ** 2)


def drawn_variance(noise: DrawKind, parameter: float) -> float:
    """The variance of a draw, given that of continuous noise."""
    if noise == "laplace":
        return discrete_laplace_variance(math.sqrt(parameter / 2))
    if noise == "rounded_gaussian":
        return rounded_variance(parameter)
    return discrete_gaussian_variance(parameter) if noise == "discrete_gaussian" else parameter


@lru_cache(maxsize=4096)
def fourth_cumulant(noise: DrawKind, parameter: float) -> float:
    """The fourth cumulant of a draw: 0 for normal noise, 3 times the squared variance for continuous Laplace noise.

    For discrete Laplace noise it is u + 3 u^2 with u the variance, by the series of -log(1 + u (1 - cos t)).

    >>> fourth_cumulant("discrete_gaussian", 100.0), round(fourth_cumulant("discrete_gaussian", 0.1), 4)
    (0.0, 0.0128)
    """
    if noise == "rounded_gaussian":
        return rounded_fourth_cumulant(parameter)
    if noise == "discrete_gaussian":
        if parameter > _NARROW:
            return 0.0
        k = np.arange(1, 64, dtype=np.float64)
        weights = np.exp(-(k**2) / (2 * parameter))
        return float(2 * np.sum(k**4 * weights) / (1 + 2 * np.sum(weights))) - 3 * drawn_variance(noise, parameter) ** 2
    variance = drawn_variance(noise, parameter)
    return 3 * variance**2 + (variance if noise == "laplace" else 0.0)


def characteristic(noise: DrawKind, parameter: float, t: Floats) -> Floats:
    """The characteristic function E cos(t z) of a draw z: positive for all these noises, up to rounding.

    Discrete Laplace noise with variance u has 1 / (1 + u (1 - cos t)). For discrete Gaussian noise it is a ratio of
    theta functions, summed over whole numbers or, by Poisson's formula, over multiples of 2 pi, whichever is faster.
    """
    if noise == "laplace":
        return np.asarray(1 / (1 + 2 * drawn_variance(noise, parameter) * np.sin(t / 2) ** 2))
    if noise == "smooth":
        return np.asarray(1 / (1 + parameter / 2 * t**2))
    if noise == "rounded_gaussian":
        return np.maximum(rounded_characteristic(parameter, t), 0.0)
    if parameter < 1:
        k = np.arange(1, 12, dtype=np.float64)
        weights = np.exp(-(k**2) / (2 * parameter))
        total = np.ones_like(t)
        for own, weight in zip(k.tolist(), weights.tolist(), strict=True):
            if weight > 0:
                total += 2 * weight * np.cos(own * t)
        return np.asarray(np.maximum(total, 0.0) / (1 + 2 * weights.sum()))
    turn = 2 * math.pi
    away = t - turn * np.round(t / turn)
    near = [np.exp(-parameter / 2 * (away + turn * j) ** 2) for j in (-1, 0, 1)]
    return np.asarray(np.sum(near, axis=0) / (1 + 2 * math.exp(-parameter / 2 * turn**2)))


def log_moments(noise: DrawKind, parameter: float, t: Floats) -> Floats:
    """log E exp(t z), or for Gaussian noise an upper bound: for discrete noise that of continuous (Canonne et al.)."""
    if noise == "discrete_gaussian":
        return np.asarray(parameter / 2 * t**2)
    if noise == "rounded_gaussian":
        return rounded_log_moments(parameter, t)
    grown = parameter / 2 * t**2
    if noise == "laplace":  # u (cosh t - 1) = (sinh(t/2) / sinh(1 / (2 scale)))^2
        grown = np.exp(2 * (_log_sinh(t / 2) - _log_sinh(np.array(math.sqrt(1 / (2 * parameter))))))
    return np.asarray(-np.log1p(-np.minimum(grown, 1 - 1e-15)))


def _log_sinh(x: Floats) -> Floats:
    return np.asarray(x + np.log(-np.expm1(-2 * x) / 2))


def max_norm_variances(scale: float, sizes: Mapping[int, int]) -> dict[int, float]:
    """The variance of a row of whole-number max-norm noise by group size; `sizes` counts the groups of each size.

    The radius r has weight e^(-r/s) prod B(n, r), where B counts the points of the L1 ball in n dimensions. Given r, a
    row of a group of n has second moment r (r+1) (B(n, r+1) + 2 B(n, r) + B(n, r-1)) / (2 (n+1) (n+2) B(n, r)).

    Proof of the latter. |z|^2 is the sum of the odd numbers below 2 |z|, so the second moment is 2 D(r-1) / B(r) with D
    the double sum of B: B has the generating function F = (1+x)^n / (1-x)^(n+1), and 2 D(r-1) has 2 x F / (1-x)^2.
    As (1+x) F' = F ((2n+2) / (1-x) - 1), the sums C of B are C(r) = (r+1) (B(r+1) + B(r)) / (2n+2). The same step for
    G = F / (1-x), with (1+x) G' = G ((2n+4) / (1-x) - 2), gives D(r) = ((r+1) C(r+1) + (r+2) C(r)) / (2n+4).

    >>> {n: round(v, 3) for n, v in max_norm_variances(1.0, {1: 2}).items()}, round(2 * 3 * 4 / (2 * 3), 3)
    ({1: 3.903}, 4.0)
    """
    growth = sum(count * float(_log_growth(n, _LARGE_RADIUS)) for n, count in sizes.items())
    found = _by_density if growth > 1 / scale else _by_radius
    return dict(found(scale, tuple(sizes.items())))


@lru_cache(maxsize=1024)  # a search compares the same plan again and again
def _by_radius(scale: float, counted: tuple[tuple[int, int], ...]) -> dict[int, float]:
    """Sum over the radius from 0 until the weights, which have a single peak, are negligible."""
    count, sizes = _FIRST_RADII, dict(counted)
    while True:
        growths = np.stack([_growths(n, count) for n in sizes])  # B(r+1) / B(r)
        steps = np.array(list(sizes.values()), dtype=np.float64) @ np.log(growths) - 1 / scale
        logs = np.concatenate([[0.0], np.cumsum(steps[:-1])])
        if logs[-1] <= logs.max() - _NEGLIGIBLE:
            break
        count *= 2
    radius = np.arange(count, dtype=np.float64)
    shrinks = np.concatenate([np.zeros((len(sizes), 1)), 1 / growths[:, :-1]], axis=1)  # B(r-1) / B(r)
    return _mean_moments(logs, (radius * (radius + 1) * (growths + 2 + shrinks)).T, sizes)


@lru_cache(maxsize=256)
def _growths(n: int, count: int) -> Floats:
    """B(n, r+1) / B(n, r) for r below a count, each from the one before, and half of them from before."""
    found = [2.0 * n + 1] if count <= _FIRST_RADII else _growths(n, count // 2).tolist()
    last, twice = found[-1], 2 * n + 1
    for radius in range(len(found), count):
        last = (twice + radius / last) / (radius + 1)
        found.append(last)
    return np.array(found)


@lru_cache(maxsize=1024)
def _by_density(scale: float, counted: tuple[tuple[int, int], ...]) -> dict[int, float]:
    """For a large radius, replace the sum over it by an integral over its logarithm u: a single smooth peak."""
    sizes = dict(counted)

    def log_density(u: Floats) -> Floats:
        radius = np.exp(u)
        balls = [count * _log_ball(n, radius) for n, count in sizes.items()]
        return np.asarray(np.sum(balls, axis=0) - radius / scale + u)

    rows = sum(n * count for n, count in sizes.items())
    grid = np.linspace(0, math.log(rows * scale) + 6, _POINTS)  # the peak is below radius 3/2 rows * scale
    for _ in range(20):  # narrow the grid to where the density is not negligible
        logs = log_density(grid)
        there = np.flatnonzero(logs > logs.max() - _NEGLIGIBLE)
        grid = np.linspace(grid[max(there[0] - 1, 0)], grid[min(there[-1] + 1, _POINTS - 1)], _POINTS)
    logs, radius = log_density(grid), np.exp(grid)
    around = [np.exp(_log_growth(n, radius)) + 2 + np.exp(-_log_growth(n, radius - 1)) for n in sizes]
    return _mean_moments(logs, (radius * (radius + 1) * np.array(around)).T, sizes)


def _mean_moments(logs: Floats, moments: Floats, sizes: Mapping[int, int]) -> dict[int, float]:
    weights = np.exp(logs - logs.max())
    means = (weights @ moments / weights.sum()).tolist()
    return {n: mean / (2 * (n + 1) * (n + 2)) for n, mean in zip(sizes, means, strict=True)}


def _log_ball(n: int, radius: Floats) -> Floats:
    """log B(n, r) up to a constant, with an error of order 1/r, by a saddle point of the generating function.

    With x = r + 1/2 and v = n + 1/2 it is F z^(-r-1) = exp(2 v atanh z - x log z) / sqrt(z (1 - z^2)), with a minimum
    at log(1/z) = asinh(v/x).
    """
    x, v = radius + 0.5, n + 0.5
    return np.asarray(x * np.arcsinh(v / x) + v * np.arcsinh(x / v) - np.log(np.hypot(x, v)) / 2)


def _log_growth(n: int, radius: Floats | float) -> Floats:
    """log(B(n, r+1) / B(n, r)), approximated by the derivative of `_log_ball` halfway between r and r + 1."""
    x, v = np.asarray(radius) + 1.0, n + 0.5
    return np.asarray(np.arcsinh(v / x) - x / (x**2 + v**2) / 2)


def helmert_variance(
    variance: float, shares: Sequence[Sequence[float]], noise: NoiseKind = "discrete_gaussian"
) -> float:
    """The mean effective variance of Helmert rows with sigma^2, if row j of an axis has share `shares[axis][j - 1]`.

    A row of weight w, the product of j (j+1) over the axes, gets Gaussian noise of sigma^2 w; its effective
    (orthonormal) variance is the variance of that noise divided by w. Only rows with sigma^2 w <= 4 differ from
    sigma^2, or with rounded noise from sigma^2 + 1/(12 w), so few rows need to be visited, however many there are.

    >>> [round(helmert_variance(variance, [(0.5, 0.5)]), 6) for variance in (0.1, 0.25, 4.0)]
    [0.085313, 0.249745, 4.0]
    >>> round(helmert_variance(4.0, [(0.5, 0.5)], "rounded_gaussian") - 4, 6), round((1 / 24 + 1 / 72) / 2, 6)
    (0.027778, 0.027778)
    """
    narrow = {1: 1.0} if variance * 2 ** len(shares) <= _NARROW else {}
    for axis in shares:
        products: defaultdict[int, float] = defaultdict(float)
        for weight, share in narrow.items():
            for j, own in enumerate(axis, start=1):
                if variance * weight * j * (j + 1) > _NARROW:
                    break
                products[weight * j * (j + 1)] += share * own
        narrow = products
    if noise == "rounded_gaussian":
        added = math.prod(sum(own / (j * (j + 1)) for j, own in enumerate(axis, start=1)) for axis in shares) / 12
        missing = sum(
            share * (variance * weight + 1 / 12 - rounded_variance(variance * weight)) / weight
            for weight, share in narrow.items()
        )
        return max(variance + added - missing, 0.0)
    return variance + sum(
        share * (discrete_gaussian_variance(variance * weight) / weight - variance) for weight, share in narrow.items()
    )


def narrow_groups(plan: Plan) -> list[int]:
    """The groups whose Helmert rows differ in effective variance.

    With discrete noise they do if their first row has sigma^2 w <= 4, with rounded noise, which adds 1/12 to each row,
    if this is more than a millionth. Under a pure guarantee Helmert rows are those of Gram bundles, and rounded.
    """
    if isinstance(plan.guarantee, PureDP) and plan.laws is None:
        return []
    variances = plan.drawn_variances()
    most = _NARROW if plan.guarantee.noise == "discrete_gaussian" else 1e6 / 12
    parts = [n for n, group in enumerate(plan.groups) if has_helmert(group) and not isinstance(group, BlockGroup)]
    return [n for n in parts if 2 * variances[n] <= most]


def exact_noise_variances(plan: Plan, shares: RowShares | None = None) -> Floats:
    """The variance of the noise drawn, per group.

    For Helmert rows it is the effective variance; in `narrow_groups` its mean over rows, weighted by `shares` where
    these are given for an axis and level, and evenly otherwise. Noise is drawn on whole parts of a record, and its
    variance is in squared records.
    """
    return np.asarray(_exact_in_parts(plan, shares) / np.array(plan.parts, dtype=np.float64) ** 2)


def _exact_in_parts(plan: Plan, shares: RowShares | None) -> Floats:
    continuous = plan.drawn_variances()
    if isinstance(plan.guarantee, PureDP):
        exact = _pure_variances(plan, continuous)
        for number in narrow_groups(plan):
            if has_squares(plan.groups[number]) or continuous[number] <= _NARROW:
                weights = set(row_weights(plan.frame, plan.groups[number]))
                exact[number] = max(rounded_bundle_variance(continuous[number] * w) / w for w in weights)
            else:
                own = _row_shares(plan.frame, plan.groups[number], shares or {})
                exact[number] = helmert_variance(float(continuous[number]), own, "rounded_gaussian")
        return exact
    drawn = rounded_variance if plan.guarantee.noise == "rounded_gaussian" else discrete_gaussian_variance
    exact = np.array(
        [
            variance if has_helmert(group) else drawn(variance)
            for group, variance in zip(plan.groups, continuous.tolist(), strict=True)
        ]
    )
    for number in narrow_groups(plan):
        own = _row_shares(plan.frame, plan.groups[number], shares or {})
        exact[number] = helmert_variance(float(continuous[number]), own, plan.guarantee.noise)
    return exact


def helmert_variance_at_most(plan: Plan, variance: float, group: Group) -> float:
    """An upper bound on the effective variance of all Helmert rows of a group with sigma^2: that of the first row.

    Both are in squared parts of a record.
    """
    if plan.guarantee.noise == "discrete_gaussian":
        return variance
    if has_squares(group):
        return variance + 1 / (8 * 12)  # the least weight is that of the first row with itself
    (parts,) = product_groups([group])
    axes = sum(part.kind == "helmert" for part in parts)
    return variance + 0.5**axes / 12  # the first row has weight 2 on each of them


def _row_shares(frame: Frame, group: Group, shares: RowShares) -> list[Sequence[float]]:
    """The shares of the rows of each Helmert part of a group; even where none are given."""
    (parts,) = product_groups([group])
    spots = [(part.axis, part.level) for part in parts if part.kind == "helmert"]
    rows = [frame.fan_outs[axis][level - 1] - 1 for axis, level in spots]
    return [shares.get(spot, [1 / count] * count) for spot, count in zip(spots, rows, strict=True)]


def _pure_variances(plan: Plan, continuous: Floats) -> Floats:
    exact = continuous.copy()
    known: dict[float, float] = {}
    for bundle, law in zip(plan.noised_together, plan.noise_laws, strict=True):
        scale = float(plan.drawn_scale(bundle[0]))
        if law != "max_norm":  # rounded; Helmert rows are seen to by the caller
            exact[list(bundle)] = [
                variance if has_helmert(plan.groups[group]) else rounded_bundle_variance(variance)
                for group, variance in zip(bundle, continuous[list(bundle)].tolist(), strict=True)
            ]
        elif len(bundle) > 1:
            _, rows = slice_rows(plan.frame, [plan.groups[group] for group in bundle])
            by_size = max_norm_variances(scale, Counter(rows))
            exact[list(bundle)] = [by_size[n] for n in rows]
        else:
            if scale not in known:
                known[scale] = discrete_laplace_variance(scale)
            exact[bundle[0]] = known[scale]
    return exact
