"""A lower bound on the error of additive noise under a pure guarantee, by volume (THEORY section 9). Zone: PUBLIC.

*What is bounded.* Noise z is added to the answers of a workload in the m dimensions that it asks for. K is the
sensitivity hull there: the convex hull of what one added or removed record can change. The noise has a density f with
f(z + k) <= e^(epsilon t) f(z) for every k in t K and every t >= 0. Laplace noise, noise of bundles, every K-norm noise
and whatever least squares makes of them have it; their parameters are what plans predict errors with. Noise that is
private for whole records only, such as the whole-number noise that is drawn, may be below the bound, by as much as its
variance is below the predicted one.

*Theorem.* For a positive definite M, E z' M z >= m (m + 1) c^2 / epsilon^2 with c = (vol(K) sqrt(det M) / kappa)^(1/m),
kappa the volume of the unit ball.

*Proof.* Let A(s) = {f >= e^-s} and V(s) its volume. The condition says that A(s + epsilon t) contains A(s) + t K, so by
Brunn and Minkowski V^(1/m) rises by at least t vol(K)^(1/m) when s rises by epsilon t. Rearrange f: replace every A(s)
by the ellipsoid {z' M z <= r^2} of the same volume, r = (V(s) sqrt(det M) / kappa)^(1/m). That does not increase
E z' M z, since of all sets of a given volume these ellipsoids hold the least values of z' M z. The rearranged density
is h(r) with r rising by at least c t when -log h rises by epsilon t: h(r) e^(epsilon r / c) does not fall. So the
distribution of r, with density proportional to r^(m-1) h(r), is above the one with h = e^(-epsilon r / c) in the order
of likelihood ratios, and E r^2 is at least its m (m + 1) c^2 / epsilon^2. For m = 1 it is Laplace noise: tight.

*Volumes.*
- All columns of a workload of tables of cells, v_x for a cell x, satisfy sum_x Pi_b v_x v_x' Pi_b' = 0 for residuals
  b != b', and a multiple of Pi_b for b = b'. Scaled so that this is m / N for all residuals, every column has length 1.
  So the unit ball is the ellipsoid of least volume around K (John), and K has at least the volume 2^m / m! of the
  cross-polytope (Barthe 1998, "On a reverse form of the Brascamp-Lieb inequality", for symmetric bodies).
- All pairs of d binary attributes: with values +1 and -1, and n = d + 1, a record has the coordinate 1 and the products
  u_i u_j of some u in {1, -1}^n. So K is the symmetric hull of {1} x C, with C the cut polytope of n points, which has
  the dimension N = n (n - 1) / 2. At the first coordinate t, K contains (1 + t) / 2 C - (1 - t) / 2 C, by Brunn and
  Minkowski at least as large as C. So vol(K) >= 2 vol(C). If g is normal with correlations X, the signs of g have the
  mean products (2 / pi) arcsin X_ij, so C contains this image of all correlation matrices X (Grothendieck). Their
  volume is prod_(j < n) (2^j B((j+1)/2, (j+1)/2))^j (Joe 2006), the Jacobian prod (2 / pi) (1 - X_ij^2)^(-1/2). If X is
  uniform, 1 - X_ij^2 has the distribution Beta(n/2, 1/2), so by Jensen the mean of the product is at least
  exp(-N f(n) / 2) with f(n) = E log(1 - X_ij^2) = psi(n/2) - psi((n+1)/2), f(1) = -2 log 2 and f(n+1) = -2/n - f(n).
  For 12 attributes and more it exceeds the cross-polytope, and it is of the right order in d: Gram bundles (THEORY
  section 7) are within a constant factor of any additive noise.
- Tables of single attributes: K = {(z_i): all sums equal to one t, |z_i|_1 <= 1}. Columns and their negatives are in
  it. Conversely let z_i have a positive part of sum a_i and a negative part of sum b_i: a_i - b_i = t, a_i + b_i <= 1.
  Add the same to both parts of one entry until their sums are (1 + t) / 2 and (1 - t) / 2, the same for all i. Then z
  is (1 + t) / 2 times a mean of columns (drawn independently per attribute) minus (1 - t) / 2 times another such mean.
  With n entries, {z: sum t, |z|_1 <= 1} has the volume sqrt(n) D(t): by the number k of positive entries, with b the
  sum of the negative part, and Vandermonde's identity for the sum over k,
    D(t) = sum_k C(n, k) int_(0 to (1 - t) / 2) (b + t)^(k-1) b^(n-k-1) / ((k-1)! (n-k-1)!) db
         = sum_(j < n) C(n-1, j) C(2n-2-j, n-1) |t|^j ((1 - |t|) / 2)^(n-1-j) / (n-1)!.
  By Brunn's theorem the product over attributes is log-concave in t, so between two points it is at least their
  geometric interpolation: the integral over t is bounded from below, not estimated.

See THEORY section 9.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from privcube.algebra.lattice import Floats
from privcube.model.workload import Workload

_POINTS: Final = 4_000  # of the integral over t: the bound is then within 1e-6 of the exact one
_MOST_TERMS: Final = 20_000_000  # points times values of an attribute, to bound time and memory
_ROUNDING: Final = 1e-9  # relative, far above the errors of floating-point arithmetic


def least_by_volume(log_volume: float, dimensions: int, log_det: float) -> float:
    """The bound of the theorem at epsilon 1, rounded down, from the logarithms of vol(K) and det M.

    >>> round(least_by_volume(math.log(2), 1, 0.0), 6)
    2.0
    """
    m = dimensions
    log_ball = m / 2 * math.log(math.pi) - math.lgamma(m / 2 + 1)
    return m * (m + 1) * math.exp(2 / m * (log_volume + log_det / 2 - log_ball)) * (1 - _ROUNDING)


def by_residuals(needs: Floats, squares: Floats, dimensions: Floats, log_known: float = -math.inf) -> float:
    """The bound for tables of cells from the least volume of a hull whose smallest ellipsoid is a ball.

    Per residual: the error c_b per unit of noise variance, the squared length s_b of what a record changes, and the
    dimension. A diagonal entry of M times the mean square of that coordinate of a column is c_b s_b / dim_b^2. The hull
    has at least the known volume, too, in coordinates whose mean square over all columns is 1.
    """
    m = float(dimensions.sum())
    log_volume = max(log_known, m * math.log(2) + m / 2 * math.log(m) - math.lgamma(m + 1))
    log_det = float(dimensions @ np.log(needs * squares / dimensions**2))
    return least_by_volume(log_volume, int(m), log_det)


def log_pairs_volume(attributes: int) -> float:
    """The logarithm of a lower bound on the volume of K for all pairs of binary attributes.

    >>> [round(log_pairs_volume(attributes), 3) for attributes in (2, 16)]  # the first is 2.367
    [1.514, -92.359]
    """
    points = attributes + 1
    log_volume, mean = math.log(2), -2 * math.log(2)
    for j in range(1, points):
        log_beta = 2 * math.lgamma((j + 1) / 2) - math.lgamma(j + 1)
        log_volume += j * (j * math.log(2) + log_beta)
        mean = -2 / j - mean
    return log_volume + points * (points - 1) / 2 * (math.log(2 / math.pi) - mean / 2)


def of_single_attributes(workload: Workload) -> float | None:
    """The bound for tables of single attributes, and perhaps the total, from the exact volume; None for others.

    >>> from privcube import Schema
    >>> nltcs = Workload.all_kway(Schema.from_sizes({f"a{i}": 2 for i in range(16)}), 1)
    >>> adult = Workload.all_kway(Schema.from_sizes(dict(zip("abcdefgh", (9, 16, 7, 15, 6, 5, 2, 2)))), 1)
    >>> [round(of_single_attributes(each) / each.cells, 2) for each in (nltcs, adult)]
    [28.35, 34.13]
    """
    weights: dict[str, float] = {}
    of_total = 0.0
    for table, weight in zip(workload, workload.weights, strict=True):
        if not table:
            of_total += weight
        elif len(table) == 1 and isinstance(table[0], str) and table[0] not in workload.leveled:
            weights[table[0]] = weight
        else:
            return None
    sizes = {name: workload.schema[name].cells for name in weights}
    if _POINTS * sum(sizes.values()) > _MOST_TERMS:
        return None
    log_det = math.log(of_total + math.fsum(weights[name] / size for name, size in sizes.items()))
    log_det += math.fsum((size - 1) * math.log(weights[name]) for name, size in sizes.items())
    dimensions = 1 + sum(size - 1 for size in sizes.values())
    return least_by_volume(log_section_volume(list(sizes.values())), dimensions, log_det)


def log_section_volume(sizes: list[int]) -> float:
    """The logarithm of the volume of K for tables of single attributes with these numbers of values, rounded down."""
    points = np.linspace(0.0, 1.0, _POINTS + 1)
    found = np.zeros(len(points))
    for size, count in zip(*np.unique(np.array(sizes, dtype=np.int64), return_counts=True), strict=True):
        found += count * (_log_section(int(size), points) + math.log(size) / 2)
    with np.errstate(invalid="ignore"):
        apart = np.abs(np.diff(found))
        mean = np.maximum(found[1:], found[:-1]) + np.log(
            np.where(apart > 1e-6, -np.expm1(-apart) / apart, 1 - apart / 2)
        )
    mean = np.where(np.isfinite(apart), mean, -np.inf)  # a section that vanishes at t = 1
    top = float(mean.max())
    return math.log(2 / _POINTS) + top + math.log(float(np.exp(mean - top).sum()))


def _log_section(size: int, points: Floats) -> Floats:
    """log D(t) at points from 0 to 1."""
    number = np.arange(size)
    choose = [_log_choose(size - 1, j) + _log_choose(2 * size - 2 - j, size - 1) for j in range(size)]
    with np.errstate(divide="ignore", invalid="ignore"):
        inner = np.where(number[:, None] > 0, number[:, None] * np.log(points), 0.0)
        outer = np.where(number[::-1, None] > 0, number[::-1, None] * np.log((1 - points) / 2), 0.0)
    terms = np.array(choose)[:, None] + inner + outer
    top = terms.max(axis=0)
    return np.asarray(top + np.log(np.exp(terms - top).sum(axis=0)) - math.lgamma(size))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
