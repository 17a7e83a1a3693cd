"""Recovering, writing, checking and exporting tell how far they are, and nothing that depends on the answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privcube as pc
from privcube.model.measurements import Measurements
from privcube.model.plan import Plan
from privcube.progress import CHECKING, COUNTING, ERROR_BARS, PACKING, RECOVERING, SYNCING, WRITING
from privcube.released.artifact.verification import verify
from privcube.released.exports.export import FORMATS, export

SCHEMA = pc.Schema.from_sizes({f"a{number}": 2 for number in range(7)} | {"b": 3})
WORKLOAD = pc.Workload.all_kway(SCHEMA, 2)
News = list[tuple[str, int, int | None]]
PLANS = {
    "narrow": pc.plan(WORKLOAD, pc.PureDP(1), "marginals"),
    "wide": pc.plan(WORKLOAD, pc.PureDP(1), "base_counts"),
    "padded": pc.plan(WORKLOAD, pc.PureDP(1), "fourier"),
    "direct": pc.plan(WORKLOAD, pc.PureDP(1), "marginals", recovery="direct"),
}


def released(plan: Plan, seed: int = 0) -> pc.Release:
    return pc.Release(Measurements(plan, np.random.default_rng(seed).integers(-9, 900, plan.rows)))


def heard(work: Callable[[Any], object]) -> News:
    news: News = []
    work(lambda *told: news.append(told))
    return news


def stages(news: News) -> list[str]:
    """The stages in order; each must begin at nothing, grow, and end when all is done."""
    order = list(dict.fromkeys(stage for stage, _, _ in news))
    for stage in order:
        done, totals = zip(*((done, total) for own, done, total in news if own == stage), strict=True)
        assert list(done) == sorted(done)
        assert (done[0], done[-1], len(set(totals))) == (0, totals[0], 1), (stage, done, totals)
    return order


@pytest.mark.parametrize("name", PLANS)
def test_recovery_grows_from_nothing_to_all(name: str) -> None:
    news = heard(released(PLANS[name]).recover)
    assert stages(news) == [RECOVERING]
    assert len(news) > 2
    assert heard(released(PLANS[name], seed=1).recover) == news


def test_recovery_is_done_once() -> None:
    release = released(PLANS["narrow"])
    assert release.values(("a0",)).estimate.size == 2
    assert heard(release.recover) == []


def test_recovery_by_explicit_matrices_has_no_known_end() -> None:
    small = pc.Workload.all_kway(pc.Schema.from_sizes({"x": 4, "y": 2}), 1)
    assert heard(released(pc.plan(small, pc.PureDP(1), "sketch")).recover) == [(RECOVERING, 0, None)]


def test_an_artifact_is_written_table_by_table(tmp_path: Path) -> None:
    news = heard(lambda progress: released(PLANS["narrow"]).save(tmp_path / "out", progress=progress))
    assert stages(news) == [RECOVERING, WRITING, SYNCING]
    assert (WRITING, len(WORKLOAD), len(WORKLOAD)) in news
    files = sum(1 for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert (SYNCING, files, files) in news
    again = heard(lambda progress: released(PLANS["narrow"], seed=1).save(tmp_path / "two", progress=progress))
    assert again == news


def test_a_release_tells_of_counting_and_recovery() -> None:
    data = pd.DataFrame(np.zeros((20, len(SCHEMA)), dtype=int), columns=list(SCHEMA.names))
    news = heard(lambda progress: pc.release(PLANS["narrow"], data, progress=progress))
    order = list(dict.fromkeys(stage for stage, _, _ in news))
    assert order[-2:] == [COUNTING, RECOVERING]
    assert news[-1][1] == news[-1][2]


def test_checks_tell_of_every_table(tmp_path: Path) -> None:
    released(PLANS["narrow"]).save(tmp_path / "out")
    found = []
    news = heard(lambda progress: found.extend(verify(tmp_path / "out", progress=progress)))
    assert all(check.passed for check in found)
    assert sorted(stages(news)) == [CHECKING, RECOVERING]
    assert (CHECKING, 2 * len(WORKLOAD), 2 * len(WORKLOAD)) in news


@pytest.mark.parametrize("format", FORMATS)
def test_exports_tell_of_every_table(tmp_path: Path, format: str) -> None:
    release, target = released(PLANS["narrow"]), tmp_path / "tables"
    news = heard(lambda progress: export(release, target, format=format, progress=progress))
    if format == "xlsx":
        assert news.pop() == (PACKING, 0, None)
    folders = ("px", "sdmx-csv", "csvw", "measurements")
    told = [] if format in ("codebook", "measurements") else [RECOVERING, ERROR_BARS]
    told += [] if format == "codebook" else [WRITING]
    assert stages(news) == [*told, *([SYNCING] if format in folders else [])]
    assert target.exists()
