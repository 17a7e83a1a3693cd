"""What is known of an artifact before there is one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from privcube import ZCDP, Attribute, PureDP, Release, Schema, Workload, plan
from privcube.model.measurements import Measurements
from privcube.released.artifact.rehearsal import rehearse, space_needed

WORDS = Attribute("word", values=[f"a rather long value, {number}" for number in range(30)])
CASES = {
    "few": (Schema.from_sizes({"a": 2, "b": 3}), 1, PureDP(1), "marginals"),
    "many tables": (Schema.from_sizes({f"a{number}": 2 for number in range(9)}), 3, PureDP(1), "fourier"),
    "many cells": (Schema.from_sizes({"a": 100, "b": 90}), 2, ZCDP("0.1"), "residual"),
    "long labels": (Schema([WORDS, Attribute("b", size=20)]), 2, PureDP("0.1"), "marginals"),
}


@pytest.mark.parametrize("case", CASES)
def test_room_is_asked_for_what_is_written_and_not_much_more(case: str, tmp_path: Path) -> None:
    schema, ways, guarantee, strategy = CASES[case]
    made = plan(Workload.all_kway(schema, ways), guarantee, strategy)
    answers = np.random.default_rng(1).integers(-1000, 1000, made.rows)
    Release(Measurements(made, answers), {}).save(tmp_path / "out")
    files = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    taken = sum(-(-file.stat().st_size // 4096) * 4096 for file in files)
    assert taken <= space_needed(made) <= 2 * taken


def test_a_rehearsal_leaves_nothing(tmp_path: Path) -> None:
    schema, ways, guarantee, strategy = CASES["few"]
    rehearse(plan(Workload.all_kway(schema, ways), guarantee, strategy), tmp_path)
    assert list(tmp_path.iterdir()) == []
