"""Residual transforms and the lattice against their definitions with dense projectors."""

from __future__ import annotations

import itertools
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from orthonormal import orthonormal_coordinates

from privcube.algebra.hashing import bucket_and_sign
from privcube.algebra.lattice import Family, Part, ResidualIndex, _ListCoder, _PlaceCoder
from privcube.algebra.residuals import (
    from_residuals,
    level_slice,
    real_shares,
    to_residuals,
)

CHAINS = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


def projector(chain: tuple[int, ...], level: int) -> np.ndarray:
    """Onto what is constant in the blocks of a level."""
    leaves, size = int(np.prod(chain)), int(np.prod(chain[:level], dtype=int))
    return np.kron(np.eye(size), np.full((leaves // size,) * 2, size / leaves))


@settings(deadline=None)
@given(chains=st.lists(CHAINS, min_size=1, max_size=2))
def test_transform_and_back(chains) -> None:
    shape = [int(np.prod(chain)) for chain in chains]
    table = np.cos(np.arange(np.prod(shape))).reshape(shape) * 9
    coordinates = table
    for axis, chain in enumerate(chains):
        coordinates = to_residuals(coordinates, axis, chain)
    back = coordinates
    for axis, chain in enumerate(chains):
        back = from_residuals(back, axis, chain)
    np.testing.assert_allclose(back, table, atol=1e-10)
    assert coordinates[(0,) * len(shape)] == pytest.approx(table.sum())


@settings(deadline=None)
@given(chain=CHAINS)
def test_coordinates_do_not_depend_on_finer_levels(chain) -> None:
    """Residuals of a table summed to a coarser level are the leading coordinates of the finer table."""
    table = np.sin(np.arange(np.prod(chain)) + 1.0)
    fine = to_residuals(table, 0, chain)
    for level in range(len(chain)):
        size = int(np.prod(chain[:level], dtype=int))
        coarse = to_residuals(table.reshape(size, -1).sum(axis=1), 0, chain[:level])
        np.testing.assert_allclose(fine[:size], coarse, atol=1e-10)


@settings(max_examples=40, deadline=None)
@given(chains=st.lists(CHAINS, min_size=1, max_size=2))
def test_squared_coordinates_add_up_to_squared_projections(chains) -> None:
    shape = [int(np.prod(chain)) for chain in chains]
    weights = np.cos(np.arange(np.prod(shape)) * 0.7)
    found = orthonormal_coordinates(weights.reshape(shape), chains) ** 2
    for levels in itertools.product(*(range(len(chain) + 1) for chain in chains)):
        steps = [
            projector(chain, level) - (projector(chain, level - 1) if level else 0)
            for chain, level in zip(chains, levels, strict=True)
        ]
        places = tuple(level_slice(chain, level) for chain, level in zip(chains, levels, strict=True))
        assert found[places].sum() == pytest.approx(np.sum((reduce(np.kron, steps) @ weights) ** 2), abs=1e-9)
    assert found.sum() == pytest.approx(np.sum(weights**2))


def test_real_shares_keep_padding_empty() -> None:
    chain, positions = (2, 3), [0, 1, 2, 3]  # the second parent has one real child
    shares = real_shares(chain, positions)
    table = np.array([5.0, 2.0, 1.0, 7.0, 0.0, 0.0])
    coordinates = to_residuals(table, 0, chain, shares)
    np.testing.assert_allclose(from_residuals(coordinates, 0, chain, shares), table)
    np.testing.assert_allclose(coordinates[level_slice(chain, 2)][2:], 0.0)  # an only child differs from nothing


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_incidence_against_the_definition(data: st.DataObject) -> None:
    """Factor of (member, residual) = the product over axes, for both key codes and for wide members."""
    levels = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    parts = [
        Part(axis, (*(data.draw(st.sampled_from([0.0, 0.5, 2.0])) for _ in range(count)), 1.5))
        for axis, count in enumerate(levels)
    ]
    subsets = st.sets(st.sampled_from(range(len(parts))))
    members = [tuple(sorted(data.draw(subsets))) for _ in range(data.draw(st.integers(1, 4)))]
    everything = Family([Part(p.axis, (1.0,) * len(p.factors)) for p in parts], [tuple(range(len(parts)))])
    index = ResidualIndex(levels, everything)
    assert len(index) == np.prod([count + 1 for count in levels])
    found = index.incidence(Family(parts, members))
    dense = np.zeros(found.shape)
    np.add.at(dense, (found.row, found.column), found.factor)
    for column, vector in enumerate(index.level_vectors()):
        assert index.residuals()[column] == tuple((a, int(v)) for a, v in enumerate(vector) if v)
        for row, member in enumerate(members):
            expected = 1.0
            for axis, level in enumerate(vector):
                expected *= parts[axis].factors[level] if axis in member else float(level == 0)
            assert abs(dense[row, column] - expected) <= 1e-9 * abs(expected)


def test_wide_members_go_through_the_residuals() -> None:
    """13 binary axes: 8,192 level choices, more than are listed one by one; 80 axes: keys beyond 64 bits."""
    for axes, wide in ((13, 13), (80, 14)):
        parts = [Part(axis, (0.5, 0.25)) for axis in range(axes)]
        wanted = Family(parts, [(0, 1), (2,), (5, 7)])
        index = ResidualIndex([1] * axes, wanted)
        found = index.incidence(Family(parts, [tuple(range(wide))]))
        assert len(found.row) == len(index) == 8
        sizes = np.array([len(residual) for residual in index.residuals()])[found.column]
        np.testing.assert_allclose(found.factor, 0.5**wide * 0.5**sizes)


@pytest.mark.parametrize("coder", [_PlaceCoder, _ListCoder])
def test_coders_decode_what_they_code(coder) -> None:
    made = coder((1, 3, 2))
    keys = made.extended(made.extended(made.start(3), np.array([0, 0, 1]), 1), np.array([1, 2, 2]), 2)
    residual, axis, level = made.decoded(np.asarray(keys))
    assert sorted(zip(residual.tolist(), axis.tolist(), level.tolist(), strict=True)) == [
        (0, 0, 1), (0, 1, 2), (1, 0, 1), (1, 2, 2), (2, 1, 1), (2, 2, 2),
    ]  # fmt: skip


def test_sketch_partitions_are_fixed_and_even() -> None:
    bucket, sign = bucket_and_sign(3, 16, 16_000)
    again, _ = bucket_and_sign(3, 16, 16_000)
    np.testing.assert_array_equal(bucket, again)
    counts = np.bincount(bucket, minlength=16)
    assert np.all(np.abs(counts - 1000) < 6 * 1000**0.5)
    assert abs(sign.sum()) < 6 * 16_000**0.5
    other, _ = bucket_and_sign(4, 16, 16_000)
    assert np.mean(bucket == other) == pytest.approx(1 / 16, abs=0.02)
