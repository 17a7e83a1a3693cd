"""Error bars of explicit matrices: against the dense covariance and against the draws themselves."""

from __future__ import annotations

import numpy as np
import pytest

from privcube import ZCDP, Axis, Plan, PureDP, Release, Schema, Workload, errors, plan
from privcube.accuracy.explicit import ExplicitForm
from privcube.accuracy.moments import exact_noise_variances
from privcube.accuracy.predictor import drawn_table_variances
from privcube.model.measurements import Measurements
from privcube.sensitive.noise import discrete_laplace

SCHEMA = Schema.from_sizes({"sex": 2, "area": 500, "age": 7})
AGES = Axis("age", queries="ranges")
WORKLOAD = Workload.tables(SCHEMA, [("sex", AGES), ("sex",)])
TABLES = [("sex", AGES), ("sex",), (AGES,), ("sex", "age"), ("age",), ()]


def dense_rows(made: Plan, table) -> np.ndarray:
    """R of one table by pinv, one row per number: x = pinv(S) z for rows of equal noise, then every sum by a loop."""
    (group,) = made.groups
    cells = np.linalg.pinv(group.matrix.astype(float)).reshape(2, 7, -1)
    names = [Axis.of(entry).attribute for entry in table]
    if "sex" not in names:
        cells = cells.sum(axis=0, keepdims=True)
    if "age" not in names:
        cells = cells.sum(axis=1, keepdims=True)
    elif AGES in table:
        cells = np.stack([cells[:, a : b + 1].sum(axis=1) for a in range(7) for b in range(a, 7)], axis=1)
    return cells.reshape(-1, cells.shape[-1])


@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP("0.5", neighbors="replace_one")], ids=str)
def test_every_number_has_its_own_variance(guarantee) -> None:
    made = plan(WORKLOAD, guarantee, "matrix")
    bars, (drawn,) = ExplicitForm(made), exact_noise_variances(made)
    answers = np.cos(np.arange(made.rows)) * 1e6
    for table in TABLES:
        assert bars.determines(table)
        rows = dense_rows(made, table)
        np.testing.assert_allclose(bars.variances(table).ravel(), drawn * np.sum(rows**2, axis=1), rtol=1e-8)
        np.testing.assert_allclose(bars.recover([table], answers)[table].ravel(), rows @ answers, rtol=1e-8, atol=1e-6)
        weights = np.sin(np.arange(len(rows)) + 1.0)
        expected = drawn * np.sum((weights @ rows) ** 2)
        shaped = weights.reshape(bars.variances(table).shape)
        assert bars.query_law(table, shaped).variance == pytest.approx(expected, rel=1e-8)
    means = [bars.variances(table).mean() for table in WORKLOAD]
    np.testing.assert_allclose(means, drawn_table_variances(made), rtol=1e-10)


def test_kurtosis_is_that_of_the_draws() -> None:
    made = plan(WORKLOAD, PureDP(1), "matrix")
    bars = ExplicitForm(made)
    noise = discrete_laplace(made.noise_scale(0), 80_000 * made.rows).reshape(80_000, -1)
    errors_of = noise @ dense_rows(made, ("sex",))[0]
    found = np.mean(errors_of**4) / np.mean(errors_of**2) ** 2 - 3
    assert bars.query_law(("sex",), np.array([1.0, 0.0])).kurtosis == pytest.approx(found, abs=0.15)
    assert all(0 < law.kurtosis <= 3.1 for law in bars.errors(("sex",)).laws)
    assert all(
        abs(law.kurtosis) < 1e-6 for law in ExplicitForm(plan(WORKLOAD, ZCDP(1), "matrix")).errors(("sex",)).laws
    )


def test_a_release_answers_what_was_not_asked_for() -> None:
    """Cells, sums over ranges and single cells, with exact errors; other attributes are refused."""
    made = plan(WORKLOAD, PureDP(1), "matrix")
    (group,) = made.groups
    counts = np.arange(14, dtype=np.int64) * 11
    release = Release(Measurements(made, group.matrix @ counts))
    np.testing.assert_allclose(release.values(("sex", "age")).estimate, counts.reshape(2, 7), atol=1e-6)
    answer = release.query({"age": [2, 3, 4]})
    assert answer.estimate == pytest.approx(counts.reshape(2, 7)[:, 2:5].sum())
    ranged = ExplicitForm(made).variances((AGES,))
    place = [(a, b) for a in range(7) for b in range(a, 7)].index((2, 4))
    assert answer.std_error == pytest.approx(ranged[place] ** 0.5)
    with pytest.raises(errors.QueryError, match="determine"):
        release.values(("area",))
