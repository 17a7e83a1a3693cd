"""Dropping records costs no privacy: one unit still moves the counts by no more than the noise is made for."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import privcube as pc
from privcube.accuracy.layout import Layout
from privcube.sensitive.answers import exact_answers
from privcube.sensitive.brute_force import _price
from privcube.sensitive.engine import CountRequest
from privcube.sensitive.sources import engine_for

STRATEGIES = ("base_counts", "marginals", "fourier", "hierarchy", "wavelet")


@pytest.mark.parametrize(("guarantee", "strategy"), [*product((pc.PureDP, pc.ZCDP), STRATEGIES), (pc.ZCDP, "residual")])
def test_a_record_that_is_left_out_costs_no_more_than_one_that_is_replaced(guarantee: Any, strategy: str) -> None:
    """A dropped record moves the answers by one column, not by the difference of two."""
    dropping = pc.Attribute("a", values=list("wxyz"), other="drop")
    schema = pc.Schema([dropping, pc.Attribute("b", size=2), pc.Attribute("c", size=3)])
    workload = pc.Workload.all_kway(schema, 2)
    promised = guarantee(1, neighbors="replace_one")
    plan = pc.plan(workload, promised, strategy=strategy)
    layout = Layout(plan.frame)
    tables = [schema.names] * len(plan.groups)
    for unit in np.eye(schema.domain_size, dtype=np.int64).reshape(-1, *schema.shape):
        column = exact_answers(layout, plan.groups, tables, {schema.names: unit}.__getitem__)
        assert _price(plan, column) <= plan.guarantee.capacity


@pytest.mark.parametrize("seed", range(4))
def test_one_person_moves_at_most_so_many_counts(seed: int) -> None:
    """Whatever a person's rows say, dropped or not, and whoever else is there."""
    chance = random.Random(seed)
    schema = pc.Schema(
        [
            pc.Attribute("a", values=["x", "y"], other="drop", missing="drop"),
            pc.Attribute("b", bins=[0, 1, 2], underflow="drop", overflow="clamp", missing="category"),
        ],
        where={"land": ["DE"]},
    )
    request = CountRequest(schema, (("a", "b"),), "who", 2, bytes(32))

    def rows(person: str, count: int) -> list[tuple[Any, ...]]:
        choices = (["x", "y", "z", None], [-1.0, 0.5, 1.5, 9.0, None], ["DE", "AT", None])
        return [(person, *(chance.choice(options) for options in choices)) for _ in range(count)]

    others = [row for person in range(20) for row in rows(f"p{person}", chance.randrange(6))]

    def counted(records: list[tuple[Any, ...]]) -> np.ndarray:
        kinds = [pa.string(), pa.string(), pa.float64(), pa.string()]
        arrays = [pa.array(column, kind) for column, kind in zip(zip(*records, strict=True), kinds, strict=True)]
        return engine_for(pa.table(arrays, names=["who", "a", "b", "land"])).count(request).for_the_gate(("a", "b"))

    without = counted(others)
    for count in (1, 3, 50):
        more = counted([*others, *rows("new", count)]) - without
        assert more.min() >= 0
        assert more.sum() <= 2
