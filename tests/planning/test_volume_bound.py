"""The bound by volume: hulls of small workloads built column by column, exact integrals, figures of the theory page."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.spatial import ConvexHull

import privcube as pc
from privcube.planning.bounds.volume_bound import log_pairs_volume, log_section_volume
from privcube.planning.limits import least_additive_variance

NLTCS = pc.Schema.from_sizes({f"a{number:02d}": 2 for number in range(16)})
ADULT = pc.Schema.from_sizes(dict(zip("abcdefgh", (9, 16, 7, 15, 6, 5, 2, 2), strict=True)))


def schema(sizes: tuple[int, ...]) -> pc.Schema:
    return pc.Schema.from_sizes({f"a{number}": size for number, size in enumerate(sizes)})


def hull_bound(workload: pc.Workload) -> float:
    """The theorem with the volume of the hull of all columns, from dense matrices (twin)."""
    sizes = [attribute.cells for attribute in workload.schema]
    rows = []
    for table, weight in zip(workload, workload.weights, strict=True):
        factors = [
            np.eye(size) if name in table else np.ones((1, size))
            for name, size in zip(workload.schema.names, sizes, strict=True)
        ]
        whole = factors[0]
        for factor in factors[1:]:
            whole = np.kron(whole, factor)
        rows.append(whole * math.sqrt(weight))
    _, values, right = np.linalg.svd(np.vstack(rows), full_matrices=False)
    m = int((values > 1e-9).sum())
    columns = (values[:m, None] * right[:m]).T  # in an orthonormal basis of what is asked: M is the identity
    volume = ConvexHull(np.vstack([columns, -columns])).volume
    ball = math.pi ** (m / 2) / math.gamma(m / 2 + 1)
    return m * (m + 1) * (volume / ball) ** (2 / m)


@pytest.mark.parametrize("sizes", [(2,), (3,), (5,), (2, 2), (2, 3), (3, 3), (2, 2, 3), (2, 2, 2, 2)])
@pytest.mark.parametrize("with_total", [False, True])
def test_tables_of_single_attributes_have_the_volume_of_the_hull(sizes: tuple[int, ...], with_total: bool) -> None:
    tables = [(name,) for name in schema(sizes).names] + [()] * with_total
    weights = [1.0 + number for number in range(len(tables))]
    workload = pc.Workload.tables(schema(sizes), tables, weights=weights)
    exact = hull_bound(workload)
    assert exact * (1 - 1e-5) < least_additive_variance(workload) <= exact * (1 + 1e-12)


@pytest.mark.parametrize("sizes", [(2, 2), (2, 3), (2, 2, 2)])
def test_larger_tables_have_a_bound_below_that_of_the_hull(sizes: tuple[int, ...]) -> None:
    for k in (1, 2):
        pairs = pc.Workload.all_kway(schema(sizes), 2)
        workload = (
            pairs if k == 2 else pc.Workload.tables(schema(sizes), [schema(sizes).names[:2], ("a0",)], weights=[2, 1])
        )
        exact = hull_bound(workload)
        found = least_additive_variance(workload)
        assert 0.3 * exact < found <= exact * (1 + 1e-9)


@pytest.mark.parametrize("attributes", [1, 2, 3])
def test_pairs_of_binary_attributes_have_at_least_the_volume_of_correlation_matrices(attributes: int) -> None:
    """Against the hull of all records, in coordinates of 1 and -1; for one attribute the hull is a square."""
    records = list(itertools.product((1.0, -1.0), repeat=attributes))
    columns = np.array([[1.0, *x, *(a * b for a, b in itertools.combinations(x, 2))] for x in records])
    exact = math.log(ConvexHull(np.vstack([columns, -columns])).volume)
    assert exact - 2.1 < log_pairs_volume(attributes) <= exact + 1e-12


def test_the_volume_of_correlation_matrices_and_their_mean_logarithm() -> None:
    """For three points the volume is pi^2 / 2 (that of the elliptope), and E log(1 - x^2) is an integral."""
    x = (np.arange(200_000) + 0.5) / 200_000
    for attributes, volume in ((1, 2.0), (2, math.pi**2 / 2)):
        points = attributes + 1
        density = (1 - x**2) ** (points / 2 - 1)
        mean = float(density @ np.log1p(-(x**2)) / density.sum())
        pairs = points * attributes / 2
        expected = math.log(2 * volume) + pairs * (math.log(2 / math.pi) - mean / 2)
        assert log_pairs_volume(attributes) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("attributes", [8, 18])
def test_the_bound_for_pairs_has_the_order_of_gram_bundles(attributes: int) -> None:
    workload = pc.Workload.all_kway(schema((2,) * attributes), 2)
    ratio = pc.plan(workload, pc.PureDP(1), "search").weighted_variance / least_additive_variance(workload)
    assert 1 < ratio < 12


def test_other_sets_of_pairs_keep_the_least_volume() -> None:
    """Without one of the pairs, or with a larger attribute, the volume of all pairs must not be used."""
    every = pc.Workload.all_kway(schema((2,) * 14), 2)
    fewer = pc.Workload.tables(every.schema, list(every)[:-1])
    assert least_additive_variance(fewer) / fewer.cells < 0.95 * least_additive_variance(every) / every.cells
    larger = pc.Workload.all_kway(schema((2,) * 13 + (3,)), 2)
    assert least_additive_variance(larger) / larger.cells < 0.95 * least_additive_variance(every) / every.cells


def test_a_single_table_of_cells_is_a_cross_polytope() -> None:
    """The hull is a cross-polytope itself, so the least volume is reached."""
    workload = pc.Workload.tables(schema((2, 3)), [("a0", "a1")])
    assert least_additive_variance(workload) == pytest.approx(hull_bound(workload), rel=1e-6)


@pytest.mark.parametrize("sizes", [(2, 2), (3, 5), (2, 7, 4), (9, 16)])
def test_the_integral_is_bounded_from_below(sizes: tuple[int, ...]) -> None:
    """The product of the sections is a polynomial, integrated here in fractions."""
    product = [Fraction(1)]
    for n in sizes:
        section = [Fraction(0)] * n
        for j in range(n):
            term = Fraction(
                math.comb(n - 1, j) * math.comb(2 * n - 2 - j, n - 1), math.factorial(n - 1) * 2 ** (n - 1 - j)
            )
            for i in range(n - j):  # t^j (1 - t)^(n-1-j)
                section[j + i] += term * math.comb(n - 1 - j, i) * (-1) ** i
        product = [
            sum((product[a] * section[k - a] for a in range(len(product)) if 0 <= k - a < n), Fraction(0))
            for k in range(len(product) + n - 1)
        ]
    exact = 2 * sum((coefficient / (k + 1) for k, coefficient in enumerate(product)), Fraction(0))
    volume = math.log(exact) + sum(math.log(n) for n in sizes) / 2
    assert volume - 1e-5 < log_section_volume(list(sizes)) <= volume + 1e-12


@pytest.mark.parametrize(("of", "figure"), [(NLTCS, 28.35), (ADULT, 34.13)])
def test_figures_of_the_theory_page(of: pc.Schema, figure: float) -> None:
    workload = pc.Workload.all_kway(of, 1)
    assert least_additive_variance(workload) / workload.cells == pytest.approx(figure, abs=0.005)


@pytest.mark.parametrize(
    ("of", "k"), [(NLTCS, 1), (NLTCS, 2), (ADULT, 1), (ADULT, 3)], ids=["nltcs 1", "nltcs 2", "adult 1", "adult 3"]
)
def test_plans_stay_above_the_bound(of: pc.Schema, k: int) -> None:
    workload = pc.Workload.all_kway(of, k)
    least = least_additive_variance(workload)
    assert pc.plan(workload, pc.PureDP(1), "search").weighted_variance > least
    single = pc.Workload.tables(schema((1,)), [("a0",)])
    assert least_additive_variance(single) == pytest.approx(2, rel=1e-6)  # Laplace noise on one count: tight
    assert pc.plan(single, pc.PureDP(1)).weighted_variance >= least_additive_variance(single)


def test_many_values_and_weights() -> None:
    """No overflow; scaling all weights scales the bound."""
    wide = pc.Workload.all_kway(pc.Schema.from_sizes({"a": 1500, "b": 3}), 1)
    least = least_additive_variance(wide)
    assert 0 < least < pc.plan(wide, pc.PureDP(1), "marginals").weighted_variance
    three = pc.Workload.tables(wide.schema, list(wide), weights=[3, 3])
    assert least_additive_variance(three) == pytest.approx(3 * least)
