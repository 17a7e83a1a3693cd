"""Measurements with names: an outsider builds S from the files alone, and finds the published estimates."""

from __future__ import annotations

import contextlib
import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.accuracy.test_laws import OPTIONS, laws
from tests.every_strategy.test_dense_twin import MOST_GROUPS, workloads

from privcube import ZCDP, Attribute, Axis, Level, Measure, PureDP, Release, Schema, Workload, linear, plan
from privcube.errors import PrivcubeError
from privcube.model.groups import has_squares, row_weights
from privcube.model.measurements import Measurements
from privcube.model.plan import Plan
from privcube.planning.steps import plan_of
from privcube.released.exports.export import export
from privcube.released.exports.functions import Functions
from privcube.strategies import STRATEGIES


def noisy(made: Plan) -> Release:
    """A release with answers that fit nothing, so that every weight matters."""
    return Release(Measurements(made, np.round(np.cos(np.arange(made.rows) * 1.7) * 50).astype(np.int64)))


def redone(release: Release, folder: Path) -> dict[str, Any]:
    """What the lines of README.md find, run as they stand in the folder."""
    export(release, folder, format="measurements")
    code = (folder / "README.md").read_text().split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {}
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        exec(compile(code, "README.md", "exec"), names)
    return names


def assert_redone(release: Release, folder: Path) -> None:
    estimates = redone(release, folder)["estimates"]
    assert len(estimates) == len(release.workload)
    for number, table in enumerate(release.workload, start=1):
        own = release.estimates(table).ravel()
        np.testing.assert_allclose(estimates[str(number)], own, atol=1e-6 * max(1.0, np.abs(own).max()))


def lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(deadline=None, max_examples=5)
@given(data=st.data())
def test_least_squares_on_the_files_gives_the_published_estimates(
    strategy: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    guarantee = ZCDP(1) if strategy == "residual" else data.draw(st.sampled_from([PureDP(1), ZCDP("0.5")]))
    try:
        made = plan(data.draw(workloads()), guarantee, strategy)
    except PrivcubeError:
        assume(False)
        raise
    assume(len(made.groups) <= MOST_GROUPS)
    assert_redone(noisy(made), tmp_path_factory.mktemp("x") / "measurements")


@settings(deadline=None, max_examples=12)
@given(drawn=laws())
def test_bundles_on_sections_and_gram_bundles(tmp_path_factory: pytest.TempPathFactory, drawn: Any) -> None:
    workload, proposal = drawn
    assert_redone(noisy(plan_of(workload, PureDP(1), OPTIONS, proposal)), tmp_path_factory.mktemp("x") / "measurements")


def test_blocks_and_squares_and_sketches_and_sums(tmp_path: Path) -> None:
    """What random schemas seldom have: ranges beside categories, measures, levels that cross."""
    ages = Schema([Attribute("age", size=6), Attribute("sex", size=3)])
    ranges = Workload.tables(ages, [(Axis("age", queries="ranges"), "sex"), ()])
    made = plan(ranges, ZCDP(1))
    assert_redone(noisy(made), tmp_path / "blocks")
    hours = Schema([Attribute("sex", values=["f", "m"]), Measure("hours", low=-10, high=40, step=10)])
    sums = Workload.tables(hours, [("sex", Axis("hours", queries="sum")), ("sex",)])
    assert_redone(noisy(plan(sums, PureDP(1))), tmp_path / "sums")
    kinds = {type(group).__name__ for group in made.groups}
    assert kinds & {"BlockGroup", "MatrixGroup"}


def test_the_rows_of_the_files_are_those_of_the_plan(tmp_path: Path) -> None:
    """S itself, not only what follows from it, for a frame with padding and levels."""
    area = Attribute(
        "area", values=["a", "b", "c"], levels=[Level("part", groups={"north": ["a", "b"], "south": ["c"]})]
    )
    workload = Workload.tables(Schema([area, Attribute("sex", size=2)]), [("area", "sex"), (Axis("area", "part"),)])
    made = plan(workload, PureDP(1), "fourier")
    assert made.frame.has_padding
    found = redone(noisy(made), tmp_path / "x")
    np.testing.assert_array_equal(found["S"], linear.strategy_matrix(made.frame, made.groups).toarray())
    weights = np.concatenate([row_weights(made.frame, group) for group in made.groups])
    assert not any(has_squares(group) for group in made.groups)
    per_group = [float(made.noise_variance(number)) for number in range(len(made.groups))]
    numbers = [int(line["group"]) for line in lines(tmp_path / "x" / "measurements.csv")]
    np.testing.assert_allclose(found["root"] ** 2, np.array(per_group)[numbers] * weights)


def test_rows_and_groups_have_names(tmp_path: Path) -> None:
    area = Attribute(
        "area", values=["a", "b", "c", "=d"], levels=[Level("part", groups={"n": ["a", "b"], "s": ["c", "=d"]})]
    )
    workload = Workload.tables(
        Schema([area, Attribute("sex", values=["f", "m"])]), [("sex",), (Axis("area", "part"),), ()]
    )
    made = plan(workload, PureDP(1), "marginals")
    export(noisy(made), tmp_path / "x", format="measurements")
    groups = {line["measures"]: line for line in lines(tmp_path / "x" / "groups.csv")}
    assert set(groups) == {"sex", "area by part", "total"}
    assert {line["noise"] for line in groups.values()} == {"discrete Laplace"}
    counts = [line["counts"] for line in lines(tmp_path / "x" / "measurements.csv")]
    assert sorted(counts) == ["all records", "area: n", "area: s", "sex: f", "sex: m"]
    assert [line["value"] for line in lines(tmp_path / "x" / "cells.csv")] == ["a", "b", "c", "'=d", "f", "m"]


def test_words_of_weights() -> None:
    from privcube.model.frame import Frame
    from privcube.model.publication.words import Words

    schema = Schema([Attribute("x", values=list("abcdefgh"))])
    own = Functions(Frame(schema, "natural"), schema["x"], Words())

    def text(*runs: tuple[int, int, float]) -> str:
        return own.text_of(own.number(runs))

    assert text((2, 2, 1.0)) == "c"
    assert text((0, 7, 1.0)) == "any value"
    assert text((0, 1, 1.0), (2, 2, -2.0)) == "(a or b) - 2 x c"
    assert text((0, 4, 1.0), (6, 6, 1.0)) == "(5 values, a ... e) or g"
    padded = Functions(Frame(Schema.from_sizes({"x": 3}), "binary"), Schema.from_sizes({"x": 3})["x"], Words())
    assert padded.text_of(padded.number(((3, 3, 1.0),))) == "no value"
