"""Moments of noise on a consistent section: against exact integrals of polynomials, and against simulation."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import permutations
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


def power_sum(k: int, power: int) -> Fraction:
    """The mean of sum x_i^power of k rows that are a uniform point of a simplex of size 1."""
    return Fraction(factorial(power) * factorial(k), factorial(k + power - 1)) if power else Fraction(1)


def squared_squares(k: int) -> Fraction:
    """The mean of (sum x_i^2)^2 of such rows: k of x_i^4 and k (k-1) of x_i^2 x_j^2."""
    return Fraction((24 * k + 4 * k * (k - 1)) * factorial(k - 1), factorial(k + 3))


Mean = int | str  # of 1 (0), of sums of powers, or of the squared sum of squares ("22")


def degree(mean: Mean) -> int:
    return 4 if mean == "22" else int(mean)


def given_sign_sums(k: int, others: int, mean: Mean) -> list[tuple[Fraction, int, int]]:
    """What is averaged, given that k positive rows sum to p and the other rows to -q: coefficients of p^a q^b."""
    if mean == "22":
        both = 2 * power_sum(k, 2) * power_sum(others, 2)
        return [(squared_squares(k), 4, 0), (squared_squares(others), 0, 4), (both, 2, 2)]
    power = int(mean)
    if power == 0:
        return [(Fraction(1), 0, 0)]
    return [(power_sum(k, power), power, 0), ((-1) ** power * power_sum(others, power), 0, power)]


def volume_moments(n: int, mean: Mean) -> Poly:
    """What is integrated over 0 < q < (1-t)/2 to have a mean: by k positive rows, term by term, with p = t + q."""
    found: Poly = {}
    for k in range(1, n):
        base = Fraction(comb(n, k), factorial(k - 1) * factorial(n - k - 1))
        for coefficient, a, b in given_sign_sums(k, n - k, mean):
            for i in range(k + a):  # (t + q)^(k-1+a) q^(n-k-1+b)
                key = (i, k - 1 + a - i + n - k - 1 + b)
                found[key] = found.get(key, Fraction(0)) + base * coefficient * comb(k - 1 + a, i)
    return found


def on_t(n: int, mean: Mean) -> np.ndarray:
    """The integral over q as a polynomial in t, with the part in which all rows are positive."""
    highest = n - 1 + degree(mean)
    found = np.full(highest + 1, Fraction(0), dtype=object)
    for (a, b), coefficient in volume_moments(n, mean).items():
        for i in range(b + 2):  # t^a ((1-t)/2)^(b+1) / (b+1)
            found[a + i] += coefficient * Fraction((-1) ** i * comb(b + 1, i), 2 ** (b + 1) * (b + 1))
    all_up = squared_squares(n) if mean == "22" else power_sum(n, int(mean))
    found[highest] += all_up / factorial(n - 1)
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


@pytest.mark.parametrize(("n", "steps", "close"), [(2, 20_000, 1e-3), (3, 100, 0.03), (4, 24, 0.1)])
def test_power_sums_given_the_total_are_those_of_a_grid(n: int, steps: int, close: float) -> None:
    t = section._nodes()[0]
    _, *means = section._power_sums(n)
    for node in (len(t) // 4, len(t) // 2, 3 * len(t) // 4):
        rows = points_of_a_group(n, float(t[node]), steps)
        p2, p3, p4 = ((rows**power).sum(axis=1) for power in (2, 3, 4))
        for stated, found in zip(means, (p2, p3, p4, p2**2), strict=True):
            size = float(np.abs(found).mean() + np.abs(rows**3).mean())
            assert abs(stated[node] - float(found.mean())) <= close * size


@pytest.mark.parametrize("n", [2, 3, 4, 6, 11])
def test_power_sums_given_the_total_are_the_exact_integrals(n: int) -> None:
    t = section._nodes()[0]
    volume = on_t(n, 0).astype(float)
    some = slice(3, None, 29)
    whole = np.polynomial.polynomial.polyval(t[some], volume)
    for stated, mean in zip(section._power_sums(n)[1:], (2, 3, 4, "22"), strict=True):
        exact = np.polynomial.polynomial.polyval(t[some], on_t(n, mean).astype(float)) / whole
        assert stated[some] == pytest.approx(exact, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_moments_of_errors_are_those_over_all_orders_of_rows(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """For rows of known values in a random order, power sums are known, and moments are means over orders."""
    rng, (t, _) = np.random.default_rng(n), section._nodes()
    rows = rng.normal(size=(n, len(t)))
    rows += (t - rows.sum(axis=0)) / n
    p2, p3, p4 = ((rows**power).sum(axis=0) for power in (2, 3, 4))
    monkeypatch.setattr(section, "_power_sums", lambda _: (np.zeros_like(t), p2, p3, p4, p2**2))
    found = section._conditional.__wrapped__(n)
    weights = rng.normal(size=n)
    weights -= weights.mean()
    w2, w3, w4 = ((weights**power).sum() for power in (2, 3, 4))
    errors = np.array([weights[list(order)] @ rows for order in permutations(range(n))])
    assert found.second * w2 == pytest.approx((errors**2).mean(axis=0), rel=1e-9)
    assert found.third * w3 == pytest.approx((errors**3).mean(axis=0), rel=1e-7, abs=1e-9)
    assert found.alpha * w4 + found.beta * w2**2 == pytest.approx((errors**4).mean(axis=0), rel=1e-7)


@pytest.mark.parametrize("n", [2, 3, 5, 12, 40])
def test_volumes_at_any_point(n: int) -> None:
    at = np.array([0.0, 0.05, 0.3, 0.6, 0.9])
    terms = [comb(n - 1, j) * comb(2 * n - 2 - j, n - 1) * 2**j for j in range(n)]
    exact = np.log([sum(a * t**j * (1 - t) ** (n - 1 - j) for j, a in enumerate(terms)) for t in at.tolist()])
    found = section.log_volume(n, at)
    assert found - found[0] == pytest.approx(exact - exact[0], abs=1e-9)
    nodes = section._nodes()[0]
    assert section._power_sums(n)[0] - found[0] == pytest.approx(section.log_volume(n, nodes) - found[0], abs=1e-9)
