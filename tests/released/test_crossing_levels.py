"""Groupings of one attribute that do not nest, from the spec to the verified artifact and its exports."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow
import pytest

import privcube as pc
from privcube.errors import PlanError, QueryError
from privcube.model.documents.attributes import attribute_document
from privcube.model.measurements import Measurements
from privcube.planning.explanation import group_name
from privcube.released.consistency import consistent_tables

SPEC = """
[data]
source = "people.csv"

[privacy]
epsilon = "1000"

[[attributes]]
name = "age"
size = 12
missing = "category"

[[attributes.levels]]
name = "pair"
width = 2

[[attributes.levels]]
name = "school"
bins = [0, 3, 9, 12]
of = "age"

[[attributes.levels]]
name = "half"
bins = [0, 6, 12]
of = "pair"

[[attributes]]
name = "sex"
values = ["F", "M"]

[workload]
tables = [["sex", { attribute = "age", level = "pair" }], ["age.school", "sex"], "age by half"]

[plan]
effort = "fast"
"""
SCHOOL, PAIR, HALF = pc.Axis("age", "school"), pc.Axis("age", "pair"), pc.Axis("age", "half")


@pytest.fixture(scope="module")
def spec() -> pc.Spec:
    return pc.Spec.from_toml(SPEC)


@pytest.fixture(scope="module")
def made(spec: pc.Spec) -> pc.Release:
    ages = [0, 1, 1, 2, 3, 5, 5, 8, 9, 11, None, 7]
    records = pyarrow.table({"age": ages, "sex": ["F", "M"] * 6})
    return pc.release(pc.plan(spec.workload, spec.guarantee, effort="fast"), records)


def test_the_document_says_what_a_level_merges(spec: pc.Spec) -> None:
    assert pc.Spec.from_toml(spec.to_toml()) == spec
    levels = attribute_document(spec.schema["age"])["levels"]
    assert [level.get("of") for level in levels] == [None, "age", "pair"]
    assert "of" not in levels[0]  # what was declared without it is written without it


def test_what_is_measured_is_no_finer_than_the_tables(made: pc.Release) -> None:
    """The coarsest groups that pairs and school ages merge: 0-1, 2, 3, 4-5, 6-7, 8, 9, 10-11 and (missing)."""
    frame = made.plan.frame
    assert frame.levels_of(made.workload.schema["age"])[0] == "pair\nschool"
    assert frame.sizes[0][-2] == 9
    names = {group_name(frame, group) for group in made.plan.groups}
    assert any("age by pair and school" in name for name in names)
    assert pc.Plan.from_json(made.plan.to_json()).digest == made.plan.digest


def test_tables_queries_and_arrays(made: pc.Release) -> None:
    school = made.table([SCHOOL])
    assert list(school["age by school"]) == ["[0, 3)", "[3, 9)", "[9, 12)", "(missing)"]
    assert list(school["estimate"].round()) == [4, 5, 2, 1]
    assert list(made.table("age by half")["estimate"].round()) == [7, 4, 1]
    assert round(made.query({"age": {"school": "[3, 9)"}, "sex": "F"}).estimate) == 2
    assert round(made.query({"age": [0, 1, 2]}).estimate) == 4  # as ages, or as a group of a level
    assert round(made.query({"age": [2]}).estimate) == 1  # no level has it alone, but two together
    assert list(made.to_xarray([HALF]).estimate.round().values) == [7, 4, 1]
    with pytest.raises(QueryError, match="determine"):
        made.table(["age"])
    with pytest.raises(QueryError, match="determine"):
        made.query({"age": [0]})


def test_the_artifact_is_verified_and_exported(made: pc.Release, tmp_path: Path) -> None:
    made.save(tmp_path / "out")
    assert all(check.passed for check in pc.verify(tmp_path / "out"))
    pc.export(pc.Release.open(tmp_path / "out"), tmp_path / "tables.csv")
    assert "age by school" in "".join(file.read_text() for file in tmp_path.rglob("*.csv"))


def test_consistency_of_given_tables_needs_levels_that_nest(made: pc.Release) -> None:
    schema = made.workload.schema
    tables = {(PAIR,): np.ones(7), (HALF,): np.ones(3)}
    assert consistent_tables(schema, tables)[HALF,].shape == (3,)
    with pytest.raises(PlanError, match="age by school: expected levels that nest with those of the other tables"):
        consistent_tables(schema, {(PAIR,): np.ones(7), (SCHOOL,): np.ones(4)})


def test_direct_recovery_adds_up_groups_of_any_size(spec: pc.Spec) -> None:
    """Each group of school ages is summed from the measured common groups: 2, 4 and 2 of them, and (missing)."""
    workload = pc.Workload.tables(spec.schema, [(SCHOOL,), (PAIR, "sex")])
    plan = pc.plan(workload, pc.PureDP(1), "base_counts", budgets="uniform", recovery="direct")
    release = pc.Release(Measurements(plan, np.arange(plan.rows)))
    error = release.values((SCHOOL,)).std_error ** 2
    assert error / error[-1] == pytest.approx(np.array([2, 4, 2, 1]))


@pytest.mark.parametrize("strategy", ["marginals", "base_counts"])
def test_prefixes_beside_a_level_of_unequal_groups_are_recovered_directly(strategy: str) -> None:
    """Padding moves the cells of such an attribute apart; sums over them must not count the gaps."""
    groups = {"p": ["a"], "q": ["b", "c"], "r": ["d", "e", "f"]}
    levels = [pc.Level("g", groups=groups)]
    schema = pc.Schema([pc.Attribute("x", values=list("abcdef"), ordered=True, levels=levels)])
    prefixes, level = (pc.Axis("x", queries="prefixes"),), (pc.Axis("x", "g"),)
    made = pc.plan(pc.Workload.tables(schema, [prefixes, level]), pc.PureDP(1000), strategy, recovery="direct")
    records = [value for value, times in zip("abcdef", (10, 20, 30, 40, 50, 60), strict=True) for _ in range(times)]
    release = pc.release(made, pyarrow.table({"x": records}))
    found = {table: release.table(table)["estimate"].round().tolist() for table in (prefixes, level)}
    assert found == {prefixes: [10, 30, 60, 100, 150, 210], level: [10, 50, 150]}
