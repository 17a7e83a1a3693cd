"""Predicted variances against whole releases of the paper's data sets: counted, noised, recovered, many times over."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from experiments.data import workload

import privcube as pc
from privcube.accuracy.predictor import drawn_table_variances

DATA = Path(os.environ.get("PRIVCUBE_DATA", Path(__file__).parents[3] / "shared" / "data"))
LONG = "PRIVCUBE_AUDIT_PLANS" in os.environ
RELEASES, ERRORS = (12, 6.5) if LONG else (8, 9.0)  # by chance once in 20,000 runs: 11 and 7 degrees of freedom

CASES = [
    ("adult", "Q1a", pc.PureDP("0.5"), "auto"),
    ("adult", "Q2", pc.PureDP(1, neighbors="replace_one"), "auto"),
    ("adult", "Q2", pc.ZCDP("0.5"), "auto"),
    ("nltcs", "Q2", pc.PureDP(1), "auto"),
    ("nltcs", "Q1*", pc.ApproxDP(1, "1e-6"), "auto"),
]


def data_set(name: str) -> tuple[pd.DataFrame, pc.Schema]:
    file = DATA / f"{name}.csv"
    if not file.exists():
        pytest.skip(f"{file.name} is not there; PRIVCUBE_DATA says where it is")
    records = pd.read_csv(file, dtype=str, keep_default_na=False)
    values = {column: sorted(records[column].unique()) for column in records}
    return records, pc.Schema([pc.Attribute(column, values=found) for column, found in values.items()])


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize(  # one of each data set, and all of them in `make audit`
    ("data", "name", "guarantee", "strategy"), CASES[:: 1 if LONG else 4]
)
def test_squared_errors_of_releases_are_as_predicted(data: str, name: str, guarantee, strategy) -> None:
    records, schema = data_set(data)
    made = pc.plan(workload(schema, name), guarantee, strategy)
    codes = {column: pd.Categorical(records[column], categories=schema[column].labels).codes for column in schema.names}
    truth = {}
    for table in made.workload:
        shape = [schema[column].cells for column in table]
        flat = np.ravel_multi_index([codes[column] for column in table], shape)
        truth[table] = np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)
    predicted = float(np.dot(made.workload.sizes, drawn_table_variances(made)))
    ratios = []
    for _ in range(RELEASES):
        release = pc.release(made, records)
        squares = [np.sum((release.values(table).estimate - exact) ** 2) for table, exact in truth.items()]
        ratios.append(float(np.sum(squares)) / predicted)
    mean, spread = np.mean(ratios), np.std(ratios, ddof=1) / np.sqrt(RELEASES)
    assert spread < 0.15
    assert abs(mean - 1) < ERRORS * spread
