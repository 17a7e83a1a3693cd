"""Covariances of a table's numbers in closed form, against the law of the error of a weighted sum."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcube import ZCDP, Attribute, Axis, Level, PureDP, Schema, Workload, plan
from privcube.accuracy.errors.covariances import pair_classes
from privcube.accuracy.predictor import covariances, predictor
from privcube.model.frame import Frame

AGE = Attribute("age", bins=[0, 1, 5, 15, 25, 65, 90], levels=[Level("stage", bins=[0, 15, 90])])
SCHEMA = Schema([Attribute("sex", values=["f", "m"]), AGE, Attribute("area", values=["n", "e", "s"])])
TABLES = [("sex",), ("age",), ("sex", "age"), ("age", "area"), ("sex", Axis("age", "stage")), ("sex", "age", "area")]


@pytest.mark.parametrize("guarantee", [PureDP("0.5"), ZCDP("0.1")], ids=["pure", "zcdp"])
@pytest.mark.parametrize("strategy", ["marginals", "fourier", "hierarchy", "auto"])
def test_covariances_are_those_of_the_law_of_weighted_sums(strategy: str, guarantee: PureDP | ZCDP) -> None:
    made = plan(Workload.tables(SCHEMA, TABLES), guarantee, strategy)
    found = predictor(made)
    random = np.random.default_rng(3)
    for table in made.workload:
        own = covariances(found, table)
        assert own is not None
        variances = found.variances(table)
        for _ in range(4):
            one, other = (tuple(int(random.integers(size)) for size in variances.shape) for _ in range(2))
            weights = np.zeros(variances.shape)
            weights[one] += 1.0
            weights[other] -= 2.0
            expected = own.between(one, one) + 4 * own.between(other, other) - 4 * own.between(one, other)
            assert found.query_law(table, weights).variance == pytest.approx(expected, rel=1e-9)
            assert own.between(one, one) == pytest.approx(variances[one], rel=1e-9)


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=3), kind=st.sampled_from(["natural", "binary"]))
def test_products_along_an_entry_sum_to_those_of_its_rows(sizes: list[int], kind: str) -> None:
    """Over all levels, <Pi_b q, Pi_b q'> sums to <q, q'>: 1 for a cell with itself, 0 for two cells, unless padded."""
    schema = Schema.from_sizes({f"a{at}": size for at, size in enumerate(sizes)})
    frame = Frame(schema, kind)  # type: ignore[arg-type]
    for attribute in schema:
        own = pair_classes(frame, attribute.name)
        assert own is not None
        whole = own.products.reshape(len(own.products), -1).sum(axis=1)
        for i, j in itertools.product(range(attribute.cells), repeat=2):
            at = int(i == j) if own.class_of is None else int(own.class_of[i, j])
            padded = frame.nested_sizes(attribute, None)[-1] - attribute.cells
            assert whole[at] == pytest.approx(float(i == j) + padded / attribute.cells**2)


def test_long_entries_have_no_short_form() -> None:
    schema = Schema([Attribute("a", values=range(200), levels=[Level("tens", width=10)])])
    made = plan(Workload.tables(schema, [("a",), (("a", "tens"),)]), PureDP(1), "marginals")
    assert covariances(predictor(made), ("a",)) is None
