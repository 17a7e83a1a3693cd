"""Slices of a bundle: against rows written out, through the gate, and as noise."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

import privcube as pc
from privcube import linear
from privcube.model.frame import Frame
from privcube.model.groups import Group, GroupPart, group_rows
from privcube.model.plan import Plan
from privcube.model.sensitivity import bundle_factors
from privcube.model.slices import joined, shared_cells, slice_count, slice_rows
from privcube.planning.steps import with_bundles
from privcube.sensitive import brute_force, gate
from privcube.sensitive.noise import max_norm_noise

FLAT = pc.Schema.from_sizes({"a": 2, "b": 3, "c": 4, "d": 2})
TREE = Frame(pc.Schema.from_sizes({"x": 8, "y": 3}), "tree", 2, frozenset(["x"]))


def cells(*parts: tuple[int, int]) -> Group:
    return tuple(GroupPart(axis, level) for axis, level in parts)


BUNDLES: list[tuple[Frame, list[Group], tuple[tuple[int, int], ...]]] = [
    (Frame(FLAT, "natural"), [cells((0, 1), (1, 1)), cells((0, 1), (2, 1))], ((0, 1),)),
    (Frame(FLAT, "natural"), [cells((0, 1), (1, 1), (2, 1)), cells((1, 1), (2, 1), (3, 1))], ((1, 1), (2, 1))),
    (Frame(FLAT, "natural"), [cells((0, 1)), cells((1, 1))], ()),
    (Frame(FLAT, "natural"), [(), cells((1, 1))], ()),
    (
        Frame(FLAT, "natural"),
        [(GroupPart(0, 1, "contrast"), GroupPart(1, 1)), (GroupPart(1, 1), GroupPart(3, 1, "contrast"))],
        ((1, 1),),
    ),
    (TREE, [cells((0, 3)), cells((0, 2), (1, 1))], ((0, 2),)),
    (TREE, [cells((0, 2)), (GroupPart(0, 3, "contrast"),)], ((0, 2),)),
    (TREE, [(GroupPart(0, 2, "contrast"),), (GroupPart(0, 3, "contrast"), GroupPart(1, 1))], ((0, 1),)),
    (TREE, [(GroupPart(0, 1, "contrast"),), (GroupPart(0, 3, "contrast"),)], ()),
]


def slice_of_cells(frame: Frame, slicing: Sequence[tuple[int, int]]) -> np.ndarray:
    """The slice of every padded base cell, from its place on each axis."""
    leaves = [sizes[-1] for sizes in frame.sizes]
    places = np.indices(leaves).reshape(len(leaves), -1)
    number = np.zeros(places.shape[1], dtype=np.int64)
    for axis, level in slicing:
        width = leaves[axis] // frame.sizes[axis][level]
        number = number * frame.sizes[axis][level] + places[axis] // width
    return number


@pytest.mark.parametrize(("frame", "groups", "slicing"), BUNDLES)
def test_every_row_lies_in_its_slice(frame: Frame, groups: list[Group], slicing) -> None:
    assert shared_cells(groups) == slicing
    count, rows = slice_rows(frame, groups)
    assert count == slice_count(frame, slicing)
    slice_of = slice_of_cells(frame, slicing)
    for group, own in zip(groups, rows, strict=True):
        matrix = linear.strategy_matrix(frame, [group]).toarray()
        said = joined(frame, group, slicing, np.repeat(np.arange(count)[:, None], own, axis=1))
        assert len(said) == len(matrix) == group_rows(frame, group)
        for row, number in zip(matrix, said, strict=True):
            assert set(slice_of[row != 0]) == {number}
        again = joined(frame, group, slicing, np.arange(len(said)).reshape(count, own))
        assert sorted(again) == list(range(len(said)))


@pytest.mark.parametrize(("frame", "groups", "slicing"), BUNDLES)
def test_no_finer_cells_are_shared(frame: Frame, groups: list[Group], slicing) -> None:
    """One level more on any axis, and some row has parts in two slices."""
    level_of = dict(slicing)
    for axis, sizes in enumerate(frame.sizes):
        if level_of.get(axis, 0) + 1 < len(sizes):
            finer = sorted({**level_of, axis: level_of.get(axis, 0) + 1}.items())
            slice_of = slice_of_cells(frame, finer)
            rows = [row for group in groups for row in linear.strategy_matrix(frame, [group]).toarray()]
            assert any(len(set(slice_of[row != 0])) > 1 for row in rows)


@pytest.mark.parametrize(("frame", "groups", "slicing"), BUNDLES)
def test_slices_never_cost_accuracy(frame: Frame, groups: list[Group], slicing) -> None:
    rows = [group_rows(frame, group) for group in groups]
    whole = [Fraction((sum(rows) + 1) * (sum(rows) + 2), (own + 1) * (own + 2)) for own in rows]
    sliced = bundle_factors(frame, groups)
    assert all(here <= there for here, there in zip(sliced, whole, strict=True))
    assert (sliced != whole) == bool(slicing)


def sliced_plan(neighbors: str = "add_remove", rows: int = 1) -> Plan:
    """Two tables that share an attribute, in one bundle."""
    guarantee = pc.PureDP("0.5", neighbors=neighbors, max_rows_per_person=rows)  # type: ignore[arg-type]
    schema = pc.Schema.from_sizes({"a": 2, "b": 3, "c": 4})
    single = pc.plan(pc.Workload.tables(schema, [("a", "b"), ("a", "c")]), guarantee, "marginals")
    return with_bundles(single, [(0, 1)])


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows", [1, 3])
def test_no_change_costs_more_than_the_guarantee_and_one_costs_all(neighbors: str, rows: int) -> None:
    """Columns of S, or differences of two, priced by the sum over slices of the largest L1 norm, written out here."""
    made = sliced_plan(neighbors, rows)
    matrix = linear.strategy_matrix(made.frame, made.groups).toarray()
    columns = list(matrix.T)
    changes = columns if neighbors == "add_remove" else [x - y for x, y in itertools.combinations(columns, 2)]
    slice_of = slice_of_cells(made.frame, ((0, 1),))
    of_row = np.array([slice_of[row != 0][0] for row in matrix])
    sizes = [group_rows(made.frame, group) for group in made.groups]
    of_group = np.repeat(np.arange(len(sizes)), sizes)
    scale = made.noise_scale(0)

    def norm(change: np.ndarray) -> int:
        return sum(max(int(np.abs(change[(of_row == c) & (of_group == g)]).sum()) for g in (0, 1)) for c in (0, 1))

    prices = [rows * norm(change) / scale for change in changes]
    assert max(prices) == made.guarantee.capacity == made.guarantee.epsilon  # type: ignore[union-attr]
    brute_force.verify_by_brute_force(made)


@cache
def drawn_slices() -> np.ndarray:
    made = sliced_plan()
    return np.array([gate._noise(made, gate.SystemNoise()) for _ in range(4000)])


def test_noise_is_independent_between_slices_and_as_large_as_stated() -> None:
    made = sliced_plan()
    draws = drawn_slices().astype(np.float64)
    variances = np.repeat(made.noise_variances(), [group_rows(made.frame, group) for group in made.groups])
    np.testing.assert_allclose(draws.var(axis=0), variances, rtol=0.15)
    matrix = linear.strategy_matrix(made.frame, made.groups).toarray()
    slice_of = slice_of_cells(made.frame, ((0, 1),))
    of_row = np.array([slice_of[row != 0][0] for row in matrix])
    between = of_row[:, None] != of_row[None, :]
    signs, sizes = np.corrcoef(draws.T), np.corrcoef(np.abs(draws).T)
    assert np.abs(signs - np.eye(len(signs))).max() < 0.09
    assert np.abs(sizes[between]).max() < 0.09  # radii are drawn apart
    assert sizes[~between].min() > -0.2
    assert sizes[~between & ~np.eye(len(sizes), dtype=bool)].mean() > 0.02  # within a slice rows share one


def test_each_slice_is_one_draw_of_max_norm_noise() -> None:
    """The rows of a slice have the law of `max_norm_noise` for its sizes: the same mean largest norm."""
    made = sliced_plan()
    count, rows = slice_rows(made.frame, made.groups)
    assert (count, rows) == (2, [3, 4])
    draws = drawn_slices()
    slice_of = slice_of_cells(made.frame, ((0, 1),))
    matrix = linear.strategy_matrix(made.frame, made.groups).toarray()
    of_row = np.array([slice_of[row != 0][0] for row in matrix])
    of_group = np.repeat([0, 1], [6, 8])
    largest = np.maximum(
        *(np.abs(draws[:, (of_row == 0) & (of_group == g)]).sum(axis=1) for g in (0, 1)),
    )
    alone = [max(np.abs(part).sum() for part in max_norm_noise(made.noise_scale(0), rows)) for _ in range(2000)]
    assert largest.mean() == pytest.approx(np.mean(alone), rel=0.06)
    assert largest.std() == pytest.approx(np.std(alone), rel=0.13)
