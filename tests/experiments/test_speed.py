"""The studies of speed and size: time and memory go to the right stage, fits and arithmetic are right, pages say so."""

from __future__ import annotations

import re
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from experiments.results import chosen, read_rows
from experiments.stages import STAGES, Laps, power_law, recover, released

import privcube as pc
from experiments import claims, page, runtime, scale, scaling
from privcube.progress import Progress, silent
from privcube.sensitive.counts import ExactCounts
from privcube.sensitive.engine import CountRequest
from privcube.sensitive.sources import engine_for

pytestmark = pytest.mark.xdist_group("experiments")  # the results are made once

PAPER = {"I", "Q", "Q+", "F", "F+", "C", "C+"}


# Stages


def test_memory_belongs_to_the_stage_that_used_it() -> None:
    laps = Laps()
    laps.end("before")
    np.ones(40_000_000)  # 320 MB, gone at once
    laps.end("large")
    laps.end("after")
    assert 0.3 < laps.gigabytes["large"] - laps.gigabytes["before"] < 0.4
    assert laps.gigabytes["after"] < laps.gigabytes["large"] - 0.25


class Clock:
    """A clock that stands still but for what is said to take time."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Slow:
    """An engine that takes its time."""

    def __init__(self, records: pd.DataFrame, clock: Clock) -> None:
        self.engine, self.clock = engine_for(records), clock

    def prepare(self, request: CountRequest) -> None:
        self.clock.now += 2
        self.engine.prepare(request)

    def count(self, request: CountRequest, progress: Progress = silent) -> ExactCounts:
        self.clock.now += 3
        return self.engine.count(request, progress)


def test_time_belongs_to_the_stage_that_took_it(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pc.Schema.from_sizes({"a": 2, "b": 3})
    workload = pc.Workload.all_kway(schema, 1)
    clock = Clock()
    monkeypatch.setattr("experiments.stages.time.perf_counter", clock)

    def make_plan() -> pc.Plan:
        clock.now += 4
        return pc.plan(workload, pc.PureDP(1), "marginals")

    def slow_recover(*arguments: Any) -> Any:
        clock.now += 7
        return recover(*arguments)

    monkeypatch.setattr("experiments.stages.recover", slow_recover)
    laps = Laps()
    plan, tables = released(make_plan, Slow(pd.DataFrame({"a": [0, 1, 1], "b": [2, 0, 0]}), clock), laps)
    assert laps.seconds == {"plan": 4, "count": 5, "noise": 0, "recover": 7}
    assert set(laps.seconds) == set(laps.gigabytes) == set(STAGES)
    assert set(tables) == set(plan.workload)


def test_exponents_of_a_power_law() -> None:
    """Exact where it is one; a factor on the constant does not change the exponent; a fit is by least squares."""
    x = [10.0, 40.0, 200.0, 3000.0]
    assert power_law(x, [5 * value**1.7 for value in x]) == pytest.approx((1.7, 5))
    noisy = [5 * value**1.7 * factor for value, factor in zip(x, (1.1, 0.9, 1.05, 1), strict=True)]
    found, constant = power_law(x, noisy)
    assert abs(found - 1.7) < 0.05

    def misfit(exponent: float, constant: float) -> float:
        return sum(np.log(constant * a**exponent / b) ** 2 for a, b in zip(x, noisy, strict=True))

    assert misfit(found, constant) < min(misfit(found * 1.01, constant), misfit(found, constant * 1.01))


# Running time


@pytest.mark.parametrize("name", ["runtime", "runtime-growth"])
def test_parts_sum_to_the_total(results: Path, name: str) -> None:
    """The total has a clock of its own; what passes between two stages is in no part of it."""
    rows = read_rows(results / f"{name}.csv")
    assert rows
    for row in rows:
        parts = [float(row[part]) for part in runtime.PARTS]
        assert min(parts) >= 0
        assert 0 < sum(parts) <= float(row["total"]) * (1 + 1e-4), row


def test_every_strategy_is_timed(results: Path) -> None:
    rows = chosen(read_rows(results / "runtime.csv"), dataset="NLTCS")
    assert {row["strategy"] for row in rows} == PAPER | {"auto"}
    assert {row["grows"] for row in read_rows(results / "runtime-growth.csv")} == {"d", "k", "records"}
    assert all((float(row["consistency"]) > 0) == (row["strategy"] != "auto") for row in rows)


def test_the_page_tells_the_running_times(results: Path) -> None:
    text = page.page_path(results, "paper.md").read_text(encoding="utf-8")
    own = text.partition("## How long does it take?")[2].partition("\n## ")[0]
    rows = chosen(read_rows(results / "runtime.csv"), dataset="NLTCS")
    for row in rows:
        cells = [f"{float(row[part]):.2g}" for part in (*runtime.PARTS, "total")]
        assert f"| {row['strategy']} | {' | '.join(cells)} |" in own
    slowest = max(float(row["plan"]) for row in rows if row["strategy"] in ("C", "C+"))
    assert f"finding clusters at most {slowest:.2g} s" in own


def test_verdicts_follow_the_times(results: Path) -> None:
    rows, growth = (read_rows(results / f"{name}.csv") for name in ("runtime", "runtime-growth"))

    def verdicts(factor: dict[str, float], rate: float) -> dict[str, str]:
        """With other times per strategy and, for clusters, planning that grows so much per attribute."""
        slower = [{**row, "total": str(factor.get(row["strategy"], 0.05))} for row in rows]
        grown = []
        for d in (4, 8, 16):
            grown += [{**chosen(growth, grows="d", strategy="C")[0], "value": str(d), "plan": str(rate**d)}]
        for records in (1, 1000):
            one = chosen(growth, grows="records", strategy="C")[0]
            grown += [{**one, "value": str(records), "total": str(records if rate > 1 else 1)}]
        return {words: verdict for words, _, verdict, _ in runtime._claims(slower, grown)}

    paper = verdicts({"C": 9000.0, "C+": 9000.0}, 2.0)
    assert paper["Clustering takes up to several hours on NLTCS"] == claims.REPRODUCES
    assert paper["All others always take less than a second, typically less than a tenth"] == claims.REPRODUCES
    assert paper["Clustering is dramatically slower than the others"] == claims.REPRODUCES
    assert paper["With more attributes clustering becomes exponentially worse"] == claims.REPRODUCES
    assert paper["C takes longer than F and Q on Adult"] == claims.REPRODUCES
    assert paper["Time is virtually constant in the number of records"] == claims.FAILS
    other = verdicts({"F": 200.0}, 1.0)
    assert other["Clustering takes up to several hours on NLTCS"] == claims.FAILS
    assert other["All others always take less than a second, typically less than a tenth"] == "in part"
    assert other["Clustering is dramatically slower than the others"] == claims.FAILS
    assert other["With more attributes clustering becomes exponentially worse"] == claims.FAILS
    assert other["F and Q take at most tens of seconds on Adult"] == claims.FAILS
    assert other["Time is virtually constant in the number of records"] == claims.REPRODUCES


# Size


def test_rows_are_streamed_in_blocks() -> None:
    case = scaling.Case("rows", 2 * scaling._BLOCK + 7, 3, 5)
    batches = list(scaling._batches(case, case.rows, []))
    assert [batch.num_rows for batch in batches] == [scaling._BLOCK, scaling._BLOCK, 7]
    values = batches[0].column(2).to_numpy()
    assert set(values.tolist()) == set(range(5))
    assert not np.array_equal(values, batches[1].column(2).to_numpy())


def test_the_full_study_reaches_what_it_promises() -> None:
    assert max(case.rows for case in scaling.CASES) == 10**8
    largest = max(scaling.CASES, key=lambda case: case.attributes * case.with_noise)
    assert sum(comb(largest.attributes, way) for way in range(4)) == 166_751
    assert {case.sweep for case in scaling.CASES} == {case.sweep for case in scaling.QUICK_CASES}


def test_every_stage_has_seconds_and_memory(results: Path) -> None:
    rows = read_rows(results / "scaling.csv")
    assert len(rows) == len(scaling.QUICK_CASES)
    for row, case in zip(rows, scaling.QUICK_CASES, strict=True):
        assert int(row["tables"]) == len(case.workload())
        stages = [stage for stage in STAGES if row[f"{stage} seconds"]]
        assert stages == [stage for stage in STAGES if stage != "noise" or case.with_noise]
        assert sum(float(row[f"{stage} seconds"]) for stage in stages) <= float(row["total seconds"]) * (1 + 1e-4)
        assert float(row["of count, making rows"]) < float(row["count seconds"])
        assert all(0.05 < float(row[f"{stage} GB"]) < 2 for stage in stages)


def test_exponents_are_those_of_the_cases() -> None:
    rows = []
    for tables in (10, 100, 1000):
        own = {"sweep": "attributes", "guarantee": "pure", "size": "2", "tables": str(tables), "rows": "5"}
        own |= {f"{stage} seconds": str(3 * tables ** (at / 2)) for at, stage in enumerate(STAGES)}
        rows.append(own | {f"{stage} GB": str(0.1 * tables) for stage in STAGES})
    rows[-1]["noise seconds"] = ""  # it was left out
    found = {row["measure"]: row for row in scaling.exponents(rows)}
    for at, stage in enumerate(STAGES):
        assert found[f"{stage} seconds"]["exponent"] == pytest.approx(at / 2, abs=1e-9)
        assert found[f"{stage} seconds"]["last exponent"] == pytest.approx(at / 2, abs=1e-9)
        assert found[f"{stage} seconds"]["points"] == (2 if stage == "noise" else 3)
        assert found[f"{stage} GB"]["constant"] == pytest.approx(0.1)


def made_up_engines() -> list[dict[str, str]]:
    """Local: 0.5 s and 5 million rows a second on 2 cores. Spark: 3 s and 1 million a second and core."""
    base = {"status": scaling.RUN, "cores": "2", "attributes": "10", "size": "10", "tables": "120"}
    return [
        {**base, "engine": engine, "rows": str(rows), "seconds": str(fixed + rows / speed), "bytes": str(5 * rows)}
        for engine, fixed, speed in (("local", 0.5, 5e6), ("Spark", 3, 2e6))
        for rows in (10**6, 3 * 10**7)
    ]


def test_the_arithmetic_of_clusters() -> None:
    engines = made_up_engines()
    assert scale.rate(engines, "local") == pytest.approx((0.5, 2e-7))
    fixed, per_row = scale.rate(engines, "Spark")
    assert (fixed, per_row) == pytest.approx((3, 5e-7))
    assert scale.cluster_seconds(fixed, per_row, 2, 10**10, 100) == pytest.approx(103)
    lines = dict(re.findall(r"^\| ([\d,]+) \| (.*) \|$", scale._where(engines), flags=re.MULTILINE))
    assert lines["1,000,000"] == "5 MB | **0.7 s** | **3.5 s** | 3.1 s | 3 s | 3 s"  # bold is measured
    assert lines["10,000,000,000"] == "50 GB | 33 min | 83 min | 10 min | 103 s | 13 s"
    words = scale._arithmetic(engines)
    assert "seconds = 3 + rows / (1 million * cores)" in words
    assert "Spark needs 5 cores" in words


def test_without_spark_the_page_says_so(results: Path) -> None:
    engines = read_rows(results / "scaling-engines.csv")
    spark = chosen(engines, engine="Spark")
    assert spark
    assert all(row["status"] != scaling.RUN and not row["seconds"] for row in spark)
    text = page.page_path(results, "scale.md").read_text(encoding="utf-8")
    assert spark[0]["status"] in text
    assert "not measured" in text


def test_the_page_on_size_says_what_the_files_say(results: Path) -> None:
    path = page.page_path(results, "scale.md")
    assert path == results.parent / "guide" / "scale.md"
    text = path.read_text(encoding="utf-8")
    assert "quick run" in text
    assert "](results:" not in text
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if link.startswith("../results")]
    assert "../results/scaling.svg" in links
    assert all((path.parent / link).exists() for link in links)
    for row in chosen(read_rows(results / "scaling.csv"), sweep="attributes"):
        (line,) = re.findall(
            rf"^\| {re.escape(row['guarantee'])} \| {row['attributes']} of {row['size']} values \| (.*) \|$",
            text, flags=re.MULTILINE,
        )  # fmt: skip
        tables, cells, *stages = line.split(" | ")
        assert (tables, cells) == (f"{int(row['tables']):,}", f"{int(row['cells']):,}")
        for stage, told in zip(STAGES, stages, strict=True):
            if row[f"{stage} seconds"]:
                seconds, gigabytes = re.fullmatch(r"([\d.]+) s, ([\d.]+) GB", told).groups()
                assert float(seconds) == pytest.approx(float(row[f"{stage} seconds"]), rel=0.06)
                assert float(gigabytes) == pytest.approx(float(row[f"{stage} GB"]), rel=0.06)
            else:
                assert "by arithmetic" in told
    accuracy = page.page_path(results).read_text(encoding="utf-8")
    assert "[How large can it get?](../guide/scale.md)" in accuracy
