"""Consistency of explicit workloads and of tables: nearest in each norm, and within twice the error (section 3.3)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcube import Attribute, Axis, Level, Schema, Workload, errors, linear
from privcube.released.consistency import consistent_tables

NORMS = [1, 2, np.inf]


@settings(deadline=None, max_examples=24)
@given(data=st.data())
@pytest.mark.parametrize("norm", NORMS)
def test_explicit_answers(norm: float, data: st.DataObject) -> None:
    """Consistent, nearest among many others, and at most twice as far from the truth as the input."""
    rows, columns = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 4))
    queries = np.array([[data.draw(st.integers(-1, 2)) for _ in range(columns)] for _ in range(rows)], dtype=float)
    queries[0, 0] = 1.0
    truth = queries @ np.arange(1.0, columns + 1)
    noisy = truth + np.array([data.draw(st.floats(-5, 5)) for _ in range(rows)])
    found = linear.consistent(queries, noisy, norm)
    back = np.linalg.lstsq(queries, found, rcond=None)[0]
    np.testing.assert_allclose(queries @ back, found, atol=1e-6)
    distance = np.linalg.norm(found - noisy, norm)
    for seed in range(30):
        other = queries @ (back + np.sin(np.arange(columns) + seed))
        assert distance <= np.linalg.norm(other - noisy, norm) + 1e-6
    assert np.linalg.norm(found - truth, norm) <= 2 * np.linalg.norm(noisy - truth, norm) + 1e-6


def test_independent_rows_span_the_workload() -> None:
    queries = linear.workload_matrix(Workload.full_cube(Schema.from_sizes({"a": 2, "b": 3}))).toarray()
    rows, combination = linear.independent_rows(queries)
    assert len(rows) == np.linalg.matrix_rank(queries) == 6
    np.testing.assert_allclose(combination @ queries[rows], queries, atol=1e-10)


@st.composite
def noisy_tables(draw: st.DrawFn) -> tuple[Schema, dict, dict]:
    schema = Schema(
        [
            Attribute("a", size=draw(st.integers(1, 3))),
            Attribute("b", size=draw(st.integers(1, 4))),
            Attribute("c", values=["p", "q", "r"], levels=[Level("pq", groups={"x": ["p", "q"], "y": ["r"]})]),
        ]
    )
    cube = list(Workload.full_cube(schema)) if draw(st.booleans()) else [("a", "b"), ("b", "c"), ("a",), ()]
    chosen = draw(st.lists(st.sampled_from(cube), min_size=1, max_size=5, unique=True))
    base = np.array([draw(st.integers(0, 9)) for _ in range(schema.domain_size)], dtype=float)
    truth, noisy = {}, {}
    for number, table in enumerate(chosen):
        exact = linear.workload_matrix(Workload.tables(schema, [table])) @ base
        shape = [
            schema[e.attribute].partition(e.level).cells if isinstance(e, Axis) else schema[e].cells for e in table
        ]
        truth[table] = exact.reshape(shape)
        noisy[table] = truth[table] + (np.cos(np.arange(exact.size) * 1.3 + number) * 4).reshape(shape)
    return schema, truth, noisy


@settings(deadline=None, max_examples=12)
@given(drawn=noisy_tables())
@pytest.mark.parametrize("norm", NORMS)
def test_tables_against_the_explicit_workload(norm: float, drawn) -> None:
    """The fast way over residual coordinates finds what the explicit matrices find; always consistent."""
    schema, truth, noisy = drawn
    tables = list(Workload.tables(schema, list(noisy)))
    queries = linear.workload_matrix(Workload.tables(schema, tables)).toarray()
    given_answers = np.concatenate([noisy[table].ravel() for table in tables])
    found = consistent_tables(schema, {table: noisy[table] for table in tables}, norm)
    flat = np.concatenate([found[table].ravel() for table in tables])
    back = np.linalg.lstsq(queries, flat, rcond=None)[0]
    np.testing.assert_allclose(queries @ back, flat, atol=1e-6)
    best = np.linalg.norm(linear.consistent(queries, given_answers, norm) - given_answers, norm)
    distance = np.linalg.norm(flat - given_answers, norm)
    uneven = norm == 2 and any(isinstance(entry, Axis) for table in tables for entry in table)
    assert distance >= best - 1e-6
    assert distance <= best * (1.5 if uneven else 1) + 1e-6
    if not uneven:
        exact = np.concatenate([truth[table].ravel() for table in tables])
        error = np.linalg.norm(given_answers - exact, norm)
        assert np.linalg.norm(flat - exact, norm) <= 2 * error + 1e-6


@pytest.mark.parametrize("norm", NORMS)
def test_consistent_tables_stay_as_they_are(norm: float) -> None:
    schema = Schema.from_sizes({"a": 2, "b": 3})
    ab = np.arange(6.0).reshape(2, 3)
    tables = {("a",): ab.sum(axis=1), ("a", "b"): ab, (): ab.sum().reshape(())}
    found = consistent_tables(schema, tables, norm)
    for table, counts in tables.items():
        np.testing.assert_allclose(found[table], counts, atol=1e-7)


def test_bad_tables_are_refused() -> None:
    schema = Schema.from_sizes({"a": 2})
    for tables, norm in [({("a",): np.ones(3)}, 2), ({("a",): np.array([1.0, np.nan])}, 2), ({}, 2),
                         ({("a",): np.ones(2)}, 3), ({(Axis("a", queries="ranges"),): np.ones(3)}, 2)]:  # fmt: skip
        with pytest.raises(errors.PlanError):
            consistent_tables(schema, tables, norm)


def test_two_tables_meet_in_the_middle() -> None:
    """By hand: totals 10 and 20 of two tables of two cells each; L2 moves each cell by a quarter of the gap."""
    schema = Schema.from_sizes({"a": 2, "b": 2})
    found = consistent_tables(schema, {("a",): np.array([4.0, 6.0]), ("b",): np.array([10.0, 10.0])})
    np.testing.assert_allclose(found["a",], [6.5, 8.5])
    np.testing.assert_allclose(found["b",], [7.5, 7.5])
    assert list(itertools.chain(found)) == [("a",), ("b",)]
