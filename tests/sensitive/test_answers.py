"""Exact answers to groups: whole numbers, equal to the rows of the explicit matrix."""

from __future__ import annotations

import numpy as np
import pytest

from privcube import ZCDP, PureDP, Schema, Workload, errors, linear, plan
from privcube.planning.layout import Layout
from privcube.sensitive.answers import exact_answers
from privcube.strategies import STRATEGIES

SCHEMA = Schema.from_sizes({"a": 2, "b": 3, "c": 4})


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_answers_are_the_rows_of_s_times_the_counts(strategy: str) -> None:
    workload = Workload.all_kway(SCHEMA, 2) | Workload.ranges(SCHEMA, ["c"])
    if strategy == "fourier":
        workload = Workload.all_kway(SCHEMA, 2)
    made = plan(workload, ZCDP(1) if strategy == "residual" else PureDP(1), strategy)
    counts = np.arange(24, dtype=np.int64).reshape(SCHEMA.shape) * 3 + 2**40
    columns = linear.real_columns(made.frame)
    for group in made.groups:
        found = exact_answers(Layout(made.frame), group, ("a", "b", "c"), counts)
        assert found.dtype == np.int64
        rows = linear.strategy_matrix(made.frame, [group])[:, columns].toarray().astype(np.int64)
        np.testing.assert_array_equal(found, rows @ counts.ravel())


def test_counts_up_to_2_to_the_62_stay_exact() -> None:
    made = plan(Workload.all_kway(Schema.from_sizes({"a": 2}), 1), PureDP(1), "fourier")
    counts = np.array([2**61 + 1, 2**61 - 1])
    total, contrast = (exact_answers(Layout(made.frame), group, ("a",), counts)[0] for group in made.groups)
    assert (int(total), int(contrast)) == (2**62, 2)


def test_what_is_refused() -> None:
    made = plan(Workload.all_kway(SCHEMA, 2), PureDP(1), "marginals")
    with pytest.raises(errors.PlanError, match="whole numbers"):
        exact_answers(Layout(made.frame), made.groups[0], ("a", "b"), np.ones((2, 3)))
    with pytest.raises(errors.PlanError, match="all attributes"):
        exact_answers(Layout(made.frame), made.groups[0], ("a",), np.ones(2, dtype=np.int64))


def test_answers_that_would_not_fit_are_refused() -> None:
    """Helmert rows multiply counts by up to f - 1."""
    schema = Schema.from_sizes({"a": 9})
    made = plan(Workload.all_kway(schema, 1), ZCDP(1), "residual")
    group = next(group for group in made.groups if group)
    counts = np.zeros(9, dtype=np.int64)
    counts[8] = 2**59
    assert exact_answers(Layout(made.frame), group, ("a",), counts)[-1] == -8 * 2**59
    counts[8] += 1
    with pytest.raises(errors.PlanError, match="62 bits"):
        exact_answers(Layout(made.frame), group, ("a",), counts)
