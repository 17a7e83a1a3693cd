"""Exact answers to groups: whole numbers, equal to the rows of the explicit matrix."""

from __future__ import annotations

import numpy as np
import pytest

from privcube import ZCDP, Attribute, Level, Plan, PureDP, Schema, Workload, errors, linear, plan
from privcube.accuracy.layout import Layout
from privcube.model.groups import Group
from privcube.sensitive import answers
from privcube.sensitive.answers import exact_answers
from privcube.sensitive.gate import _tables_for
from privcube.strategies import STRATEGIES

NO_LEVELS = ("hierarchy", "wavelet")
SCHEMA = Schema.from_sizes({"a": 2, "b": 3, "c": 4})


def answers_to(made: Plan, group: Group, table: tuple[str, ...], counts: np.ndarray) -> np.ndarray:
    (found,) = exact_answers(Layout(made.frame), [group], [table], lambda _: counts)
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_answers_are_the_rows_of_s_times_the_counts(strategy: str) -> None:
    workload = Workload.all_kway(SCHEMA, 2) | Workload.ranges(SCHEMA, ["c"])
    if strategy == "fourier":
        workload = Workload.all_kway(SCHEMA, 2)
    made = plan(workload, ZCDP(1) if strategy == "residual" else PureDP(1), strategy)
    counts = np.arange(24, dtype=np.int64).reshape(SCHEMA.shape) * 3 + 2**40
    columns = linear.real_columns(made.frame)
    for group in made.groups:
        found = answers_to(made, group, ("a", "b", "c"), counts)
        assert found.dtype == np.int64
        rows = linear.strategy_matrix(made.frame, [group])[:, columns].toarray().astype(np.int64)
        np.testing.assert_array_equal(found, rows @ counts.ravel())


def test_counts_up_to_2_to_the_62_stay_exact() -> None:
    made = plan(Workload.all_kway(Schema.from_sizes({"a": 2}), 1), PureDP(1), "fourier")
    counts = np.array([2**61 + 1, 2**61 - 1])
    total, contrast = (answers_to(made, group, ("a",), counts)[0] for group in made.groups)
    assert (int(total), int(contrast)) == (2**62, 2)


def test_what_is_refused() -> None:
    made = plan(Workload.all_kway(SCHEMA, 2), PureDP(1), "marginals")
    with pytest.raises(errors.PlanError, match="whole numbers"):
        answers_to(made, made.groups[0], ("a", "b"), np.ones((2, 3)))
    with pytest.raises(errors.PlanError, match="all attributes"):
        answers_to(made, made.groups[0], ("a",), np.ones(2, dtype=np.int64))


def test_coefficients_of_another_table_are_refused() -> None:
    made = plan(Workload.all_kway(SCHEMA, 2), PureDP(1), "fourier")
    counts = np.ones((2, 3), dtype=np.int64)
    with pytest.raises(errors.PlanError, match="all attributes"):
        exact_answers(Layout(made.frame), made.groups, [("a", "b")] * len(made.groups), lambda _: counts)


def test_answers_that_would_not_fit_are_refused() -> None:
    """Helmert rows multiply counts by up to f - 1."""
    schema = Schema.from_sizes({"a": 9})
    made = plan(Workload.all_kway(schema, 1), ZCDP(1), "residual")
    group = next(group for group in made.groups if group)
    counts = np.zeros(9, dtype=np.int64)
    counts[8] = 2**59
    assert answers_to(made, group, ("a",), counts)[-1] == -8 * 2**59
    counts[8] += 1
    with pytest.raises(errors.PlanError, match="62 bits"):
        answers_to(made, group, ("a",), counts)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_groups_answered_together_have_the_answers_that_each_has_alone(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every table has counts of its own; some attributes look alike, some only have the same size, some are padded."""
    plain = [Attribute(name, size=size) for name, size in {"a": 2, "b": 2, "c": 3, "d": 4}.items()]
    leveled = [Attribute(name, size=4, levels=[Level("wide", width=width)]) for name, width in {"e": 2, "f": 3}.items()]
    workload = Workload.all_kway(Schema([*plain, *leveled]), 2)
    if strategy not in NO_LEVELS:
        workload |= Workload.tables(workload.schema, [(("e", "wide"), "a"), (("f", "wide"), "a")])
    made = plan(workload, ZCDP(1) if strategy == "residual" else PureDP(1), strategy)
    rng = np.random.default_rng(3)
    _, table_of = _tables_for(made)
    counts = {table: rng.integers(0, 2**30, [made.workload.schema[name].cells for name in table]) for table in table_of}
    for slice_cells in (1, 70, 2**20):
        monkeypatch.setattr(answers, "_SLICE_CELLS", slice_cells)
        together = exact_answers(Layout(made.frame), made.groups, table_of, counts.__getitem__)
        for group, table, found in zip(made.groups, table_of, together, strict=True):
            np.testing.assert_array_equal(found, answers_to(made, group, table, counts[table]))


def test_one_table_too_large_among_many_is_refused() -> None:
    schema = Schema.from_sizes({"a": 9, "b": 9, "c": 9})
    made = plan(Workload.all_kway(schema, 1), ZCDP(1), "residual")
    groups = [group for group in made.groups if group]
    counts = {(name,): np.full(9, 2**55, dtype=np.int64) for name in "abc"}
    counts[("b",)][3] = 2**59 - 8 * 2**55  # as many as may be: 2^62 / 8
    found = exact_answers(Layout(made.frame), groups, list(counts), counts.__getitem__)
    assert [int(answers[-1]) for answers in found] == [0, 2**59 - 9 * 2**55, 0]
    counts[("b",)][3] += 1
    with pytest.raises(errors.PlanError, match="62 bits"):
        exact_answers(Layout(made.frame), groups, list(counts), counts.__getitem__)
