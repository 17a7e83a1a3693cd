"""Moments of noise on a consistent section: against exact integrals of polynomials, and against simulation."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import comb, factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcube.algebra import section
from privcube.algebra.section import (
    GroupWeights,
    dimension,
    rough_residual_variance,
    section_fourth_moment,
    section_variances,
)

Poly = dict[tuple[int, int], Fraction]  # coefficients of t^a q^b


def volume_moments(n: int, power: int) -> Poly:
    """What is integrated over 0 < q < (1-t)/2 to have the mean of sum z_i^power: by k positive rows, term by term."""
    found: Poly = {}
    for k in range(1, n):
        base = Fraction(comb(n, k), factorial(k - 1) * factorial(n - k - 1))
        up = Fraction(factorial(power) * factorial(k), factorial(k + power - 1)) if power else Fraction(1)
        down = Fraction(factorial(power) * factorial(n - k), factorial(n - k + power - 1)) if power else Fraction(0)
        for i in range(k + power):  # (t + q)^(k-1+power) q^(n-k-1)
            key = (i, k - 1 + power - i + n - k - 1)
            found[key] = found.get(key, Fraction(0)) + base * up * comb(k - 1 + power, i)
        for i in range(k):  # (t + q)^(k-1) q^(n-k-1+power)
            key = (i, k - 1 - i + n - k - 1 + power)
            found[key] = found.get(key, Fraction(0)) + (-1) ** power * base * down * comb(k - 1, i)
    return found


def on_t(n: int, power: int) -> np.ndarray:
    """The integral over q as a polynomial in t, with the part in which all rows are positive."""
    degree = n - 1 + power
    found = np.full(degree + 1, Fraction(0), dtype=object)
    for (a, b), coefficient in volume_moments(n, power).items():
        for i in range(b + 2):  # t^a ((1-t)/2)^(b+1) / (b+1)
            found[a + i] += coefficient * Fraction((-1) ** i * comb(b + 1, i), 2 ** (b + 1) * (b + 1))
    all_up = Fraction(factorial(power) * factorial(n), factorial(n + power - 1)) if power else Fraction(1)
    found[degree] += all_up / factorial(n - 1)
    return found


def integral(poly: np.ndarray) -> Fraction:
    """Over 0 < t < 1."""
    return sum((c / (i + 1) for i, c in enumerate(poly)), Fraction(0))


def times(*factors: np.ndarray) -> np.ndarray:
    product = np.array([Fraction(1)], dtype=object)
    for factor in factors:
        product = np.convolve(product, factor)
    return product


def exact_variances(sizes: list[int], free_rows: int) -> tuple[Fraction, dict[int, Fraction]]:
    m = 1 + sum(n - 1 for n in sizes) + free_rows
    h = times(*[on_t(n, 0) for n in sizes])
    growth = Fraction((m + 1) * (m + 2))
    square = np.array([0, 0, 1], dtype=object)
    total = growth * integral(times(h, square)) / integral(h)
    residual = {}
    for n in set(sizes):
        others = [on_t(size, 0) for size in (Counter(sizes) - Counter([n])).elements()]
        residual[n] = (growth * integral(times(on_t(n, 2), *others)) / integral(h) - total / n) / (n - 1)
    return total, residual


SHAPES = [[2], [3], [7], [2, 3], [4, 4], [3, 5, 2, 2], [3] * 10, [9, 16, 7, 15, 6, 5, 2, 2], [30, 2], [4] * 12]


@pytest.mark.parametrize("sizes", SHAPES, ids=str)
@pytest.mark.parametrize("free", [{}, {1: 3, 4: 2}], ids=str)
def test_variances_are_the_exact_integrals(sizes: list[int], free: dict[int, int]) -> None:
    """Fractions all the way, from the volume as an integral over the sum of negative rows."""
    found = section_variances(Counter(sizes), free)
    rows = sum(n * times for n, times in free.items())
    total, residual = exact_variances(sizes, rows)
    assert found.total == pytest.approx(float(total), rel=1e-11)
    for n in set(sizes):
        assert found.residual[n] == pytest.approx(float(residual[n]), rel=1e-11)
    m = dimension(Counter(sizes), free)
    assert {n: found.free[n] for n in free} == {
        n: pytest.approx(2 * (m + 1) * (m + 2) / ((n + 1) * (n + 2)), rel=1e-14) for n in free
    }


def test_no_bound_groups() -> None:
    """t is a free row."""
    found = section_variances({}, {1: 2, 3: 1})
    assert found.total == pytest.approx(found.free[1]) == pytest.approx(7 * 8 / 3)
    assert found.residual == {}


def test_large_bundles() -> None:
    """Many groups, or large ones: t is nearly normal, with the curvature of log h at 0, and h is 1 + O(1/m) of that."""
    for sizes in ({4: 100_000}, {2000: 50}, {5000: 2, 3: 400}):
        found = section_variances(sizes, {})
        m = dimension(sizes, {})
        curvature = sum(times * (n - 1) * (n - 2) / (2 * n - 3) for n, times in sizes.items())
        assert found.total / ((m + 1) * (m + 2)) == pytest.approx(1 / curvature, rel=6 / curvature)
        for n in sizes:
            assert 0.999 < rough_residual_variance(n, m) / found.residual[n] < 1.01


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.integers(2, 60), st.integers(1, 5), min_size=1, max_size=4))
def test_the_rough_variance_is_close_from_above(sizes: dict[int, int]) -> None:
    found = section_variances(sizes, {})
    m = dimension(sizes, {})
    for n in sizes:
        assert 1 - 1e-12 <= rough_residual_variance(n, m) / found.residual[n] <= 1.051


def simulated(sizes: list[int], free: list[int], count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Points of the body by rejection: all but one row of every group from [-1, 1], the last from the common sum."""
    kept: list[list[np.ndarray]] = []
    have = 0
    while have < count:
        tries = 400_000
        t = rng.uniform(-1, 1, tries)
        inside = np.ones(tries, dtype=bool)
        groups = []
        for n in sizes:
            rows = rng.uniform(-1, 1, (tries, n - 1))
            rows = np.column_stack([rows, t - rows.sum(axis=1)])
            inside &= np.abs(rows).sum(axis=1) <= 1
            groups.append(rows)
        for n in free:
            rows = rng.uniform(-1, 1, (tries, n))
            inside &= np.abs(rows).sum(axis=1) <= 1
            groups.append(rows)
        kept.append([t[inside], *[rows[inside] for rows in groups]])
        have += int(inside.sum())
    return [np.concatenate(each) for each in zip(*kept, strict=True)]


@pytest.mark.parametrize(
    ("sizes", "free"), [([2, 2], [1]), ([3, 2], [2]), ([4], []), ([3, 3], []), ([2], [3]), ([5], [])], ids=str
)
def test_fourth_moments_are_those_of_simulated_points(sizes: list[int], free: list[int]) -> None:
    """Second and fourth moments of random errors, within six standard errors; 5 % off is told apart."""
    rng = np.random.default_rng(sum(sizes) + 10 * len(free))
    t, *groups = simulated(sizes, free, 40_000, rng)
    m = 1 + sum(n - 1 for n in sizes) + sum(free)
    bound, unbound = Counter(sizes), Counter(free)
    for _ in range(3):
        a = rng.normal()
        error, bound_weights, free_weights, variance = a * t, [], [], 0.0
        found = section_variances(bound, unbound)
        variance += a**2 * found.total
        for at, rows in enumerate(groups):
            n, weights = rows.shape[1], rng.normal(size=rows.shape[1])
            if at < len(sizes):
                weights -= weights.mean()
            error = error + rows @ weights
            sums = [float((weights**power).sum()) for power in (2, 3, 4)]
            (bound_weights if at < len(sizes) else free_weights).append(GroupWeights(n, *sums))
            variance += sums[0] * (found.residual[n] if at < len(sizes) else found.free[n])
        fourth = section_fourth_moment(bound, unbound, a, bound_weights, free_weights)
        second_scale, fourth_scale = (m + 1) * (m + 2), (m + 1) * (m + 2) * (m + 3) * (m + 4)
        for power, stated, scale in ((2, variance, second_scale), (4, fourth, fourth_scale)):
            drawn = error**power * scale
            assert abs(drawn.mean() - stated) < 6 * drawn.std() / len(drawn) ** 0.5
            assert abs(drawn.mean() - 1.05**power * stated) > 6 * drawn.std() / len(drawn) ** 0.5 or power == 2


def test_a_laplace_bundle() -> None:
    """One free group and nothing else: given that |t| <= r, rows are Laplace numbers of one more dimension."""
    n, m = 3, 4
    sums = [GroupWeights(n, 1.0, 1.0, 1.0)]
    assert section_fourth_moment({}, {n: 1}, 0.0, (), sums) == pytest.approx(
        24 * (m + 1) * (m + 2) * (m + 3) * (m + 4) / ((n + 1) * (n + 2) * (n + 3) * (n + 4))
    )


def test_many_groups_of_equal_weights_count_as_many() -> None:
    weights = GroupWeights(3, 2 / 3, 2 / 9, 2 / 9)  # (2, -1, -1) / 3
    several = section_fourth_moment({3: 4}, {}, 0.3, [GroupWeights(3, 2 / 3, 2 / 9, 2 / 9, groups=4)])
    assert several == pytest.approx(section_fourth_moment({3: 4}, {}, 0.3, [weights] * 4), rel=1e-13)
    # with many groups the error is nearly normal, given the radius
    n, m = 200, 401
    many = section_fourth_moment({3: n}, {}, 0.0, [GroupWeights(3, 2 / 3, 2 / 9, 2 / 9, groups=n)])
    variance = n * 2 / 3 * section_variances({3: n}, {}).residual[3]
    assert many / (3 * variance**2) == pytest.approx((m + 3) * (m + 4) / ((m + 1) * (m + 2)), rel=5e-3)


@pytest.mark.parametrize(("bound", "free"), [({1: 1}, {}), ({}, {0: 1}), ({2: -1}, {}), ({}, {3: -2})])
def test_refusals(bound: dict[int, int], free: dict[int, int]) -> None:
    with pytest.raises(ValueError, match="at least two rows"):
        section_variances(bound, free)


def points_of_a_group(n: int, t: float, steps: int) -> np.ndarray:
    """Points of a fine grid with n rows of sum t and L1 norm at most 1."""
    axis = (np.arange(-steps, steps) + 0.5) / steps
    free = np.stack(np.meshgrid(*[axis] * (n - 1), indexing="ij"), axis=-1).reshape(-1, n - 1)
    rows = np.column_stack([free, t - free.sum(axis=1)])
    return rows[np.abs(rows).sum(axis=1) <= 1]


@pytest.mark.parametrize(("n", "steps", "close"), [(2, 20_000, 1e-3), (3, 300, 1e-2), (4, 32, 0.08)])
def test_moments_given_the_total_are_those_of_a_grid(n: int, steps: int, close: float) -> None:
    """Means of sums of powers; and the cubes and fourth powers of errors whose weights sum to 0."""
    t = section._nodes()[0]
    _, *means = section._power_sums(n)
    moments = section._conditional(n)
    weights = np.random.default_rng(n).normal(size=n)
    weights -= weights.mean()
    for node in (len(t) // 4, len(t) // 2, 3 * len(t) // 4):
        rows = points_of_a_group(n, float(t[node]), steps)
        p2, p3, p4 = ((rows**power).sum(axis=1) for power in (2, 3, 4))
        for stated, found in zip(means, (p2, p3, p4, p2**2), strict=True):
            size = float(np.abs(found).mean() + np.abs(rows**3).mean())
            assert abs(stated[node] - float(found.mean())) <= close * size
        error = rows @ weights
        stated = moments.third[node] * (weights**3).sum()
        assert abs(stated - float((error**3).mean())) <= 3 * close * float((np.abs(error) ** 3).mean())
        stated = moments.alpha[node] * (weights**4).sum() + moments.beta[node] * (weights**2).sum() ** 2
        assert stated == pytest.approx(float((error**4).mean()), rel=2 * close)


@pytest.mark.parametrize("n", [2, 3, 5, 12, 40])
def test_volumes_at_any_point(n: int) -> None:
    at = np.array([0.0, 0.05, 0.3, 0.6, 0.9])
    terms = [comb(n - 1, j) * comb(2 * n - 2 - j, n - 1) * 2**j for j in range(n)]
    exact = np.log([sum(a * t**j * (1 - t) ** (n - 1 - j) for j, a in enumerate(terms)) for t in at.tolist()])
    found = section.log_volume(n, at)
    assert found - found[0] == pytest.approx(exact - exact[0], abs=1e-9)
    nodes = section._nodes()[0]
    assert section._power_sums(n)[0] - found[0] == pytest.approx(section.log_volume(n, nodes) - found[0], abs=1e-9)
