"""How large it can get: seconds and memory of plan, count, noise and recover as rows, attributes and tables grow.

Rows, 1e5 to 1e8, are made up block by block and streamed through the local engine; 10 to 100 attributes with all tables
of up to three of them, 166,751 at most, go through the whole of a release. Every case has a process of its own. Where
the noise of a case would take too long, its answers are made up, and its time is left open. Spark counts the same
Parquet files as the local engine, for a rate per core. Writes scaling.csv, scaling-engines.csv, scaling-exponents.csv,
scaling.svg; the page scale.md is made of these.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from math import log
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import privcube as pc
from experiments.results import Row, chosen, read_rows, write_rows
from experiments.stages import STAGES, Laps, cores, power_law, released
from privcube.accuracy.predictor import recover
from privcube.model.measurements import Measurements
from privcube.model.privacy.guarantee import Guarantee
from privcube.sensitive.engine import CountRequest
from privcube.sensitive.sources import engine_for

NAME: Final = "scaling"
GUARANTEES: Final[dict[str, Guarantee]] = {"(ε, δ)": pc.ApproxDP(1, "1e-6"), "pure": pc.PureDP(1)}
_BLOCK: Final = 1 << 18
_FILES: Final = 4  # that Spark reads side by side
RUN: Final = "measured"


@dataclass(frozen=True)
class Case:
    """All tables of up to three of some attributes of one size."""

    sweep: str  # what grows
    rows: int
    attributes: int
    size: int
    guarantee: str = "(ε, δ)"
    with_noise: bool = True

    @property
    def schema(self) -> pc.Schema:
        """Attributes a0, a1, ..."""
        return pc.Schema.from_sizes({f"a{number}": self.size for number in range(self.attributes)})

    def workload(self) -> pc.Workload:
        """The total and all tables of one, two and three attributes."""
        wanted = pc.Workload.all_kway(self.schema, 0)
        for way in range(1, min(3, self.attributes) + 1):
            wanted = wanted | pc.Workload.all_kway(self.schema, way)
        return wanted

    def request(self) -> CountRequest:
        """The tables of three attributes, which contain the others."""
        return CountRequest(self.schema, tuple(combinations(self.schema.names, 3)), None, 1, bytes(32))


CASES: Final = (
    *(Case("rows", 10**power, 10, 10) for power in (5, 6, 7, 8)),
    *(Case("attributes", 10**5, attributes, 2) for attributes in (10, 20, 40, 100)),
    *(Case("attributes", 10**5, attributes, 10) for attributes in (10, 20, 30)),
    Case("attributes", 10**5, 100, 10, with_noise=False),
    *(Case("attributes", 10**5, attributes, 2, "pure") for attributes in (10, 20, 30)),
)
QUICK_CASES: Final = (
    *(Case("rows", rows, 4, 3) for rows in (10**4, 10**5)),
    *(Case("attributes", 10**3, attributes, 2) for attributes in (4, 7)),
    *(Case("attributes", 10**3, attributes, 3) for attributes in (4, 5)),
    Case("attributes", 10**3, 6, 3, with_noise=False),
    Case("attributes", 10**3, 2, 2, "pure"),
)


def run(folder: Path, quick: bool) -> None:
    """Write the files."""
    from experiments import plots, scale  # not in the processes that measure memory

    rows = map(measured, QUICK_CASES) if quick else _each_in_a_process(_measured_alone, CASES)
    write_rows(folder / "scaling.csv", list(rows))
    write_rows(folder / "scaling-engines.csv", _engines((10**4, 10**5) if quick else (10**6, 10**7, 3 * 10**7), quick))
    write_rows(folder / "scaling-exponents.csv", exponents(read_rows(folder / "scaling.csv")))
    figure = scale.figure(read_rows(folder / "scaling.csv"), read_rows(folder / "scaling-engines.csv"))
    plots.save(figure, folder, "scaling")


def section(folder: Path) -> str:
    """For the page on accuracy: in short, and where to read on."""
    from experiments import scale

    return scale.in_short(folder)


def _each_in_a_process(work: Callable[[Any], Any], cases: Sequence[Any]) -> Iterator[Any]:
    """One after another, each in a fresh process."""
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        yield from pool.map(work, cases)


# Stages


def _measured_alone(case: Case) -> Row:
    """In a new process: what is loaded once, with the first release, is not timed."""
    first = Case("rows", 10, 2, 2)
    released(lambda: _plan(first), _stream(first, []), Laps())
    return measured(case)


def measured(case: Case) -> Row:
    """The seconds and the memory of every stage of a case."""
    made: list[float] = []
    stream = _stream(case, made)
    began, laps = time.perf_counter(), Laps()
    if case.with_noise:
        plan, _ = released(lambda: _plan(case), stream, laps)
    else:
        plan = _without_noise(case, stream, laps)
    total = time.perf_counter() - began
    click.echo(f"  {case.rows:,} rows, {case.attributes} attributes of {case.size}: {total:.0f} s", err=True)
    return {
        "sweep": case.sweep, "guarantee": case.guarantee, "strategy": plan.options.strategy, "cores": cores(),
        "rows": case.rows, "attributes": case.attributes, "size": case.size, "tables": len(plan.workload),
        "cells": sum(plan.workload.sizes), "answers": plan.rows,
        **{f"{stage} seconds": laps.seconds.get(stage, "") for stage in STAGES},
        "of count, making rows": sum(made),
        "total seconds": total,
        **{f"{stage} GB": laps.gigabytes.get(stage, "") for stage in STAGES},
    }  # fmt: skip


def _plan(case: Case) -> pc.Plan:
    return pc.plan(case.workload(), GUARANTEES[case.guarantee])


def _without_noise(case: Case, stream: Any, laps: Laps) -> pc.Plan:
    """Plan and count; then recover from answers that are made up."""
    plan = _plan(case)
    laps.end("plan")
    engine_for(stream).count(case.request())
    laps.end("count")
    answers = Measurements(plan, np.random.default_rng(1).integers(-99, 99, plan.rows)).answers
    recover(plan, answers.astype(np.float64))
    laps.end("recover")
    return plan


def _arrow_schema(case: Case) -> pa.Schema:
    return pa.schema([(name, pa.uint8()) for name in case.schema.names])


def _stream(case: Case, made: list[float]) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(_arrow_schema(case), _batches(case, case.rows, made))


def _batches(case: Case, rows: int, made: list[float]) -> Iterator[pa.RecordBatch]:
    """Random rows, a block at a time; the seconds that making them took go to `made`."""
    generator = np.random.default_rng(2013)
    for start in range(0, rows, _BLOCK):
        began = time.perf_counter()
        count = min(_BLOCK, rows - start)
        columns = [generator.integers(0, case.size, count, dtype=np.uint8) for _ in range(case.attributes)]
        batch = pa.record_batch(columns, schema=_arrow_schema(case))
        made.append(time.perf_counter() - began)
        yield batch


# Engines


def _engines(counts: Sequence[int], quick: bool) -> list[Row]:
    """The local engine and Spark on the same Parquet files."""
    case = (QUICK_CASES if quick else CASES)[0]
    with tempfile.TemporaryDirectory() as name:
        sources = [_written(Path(name) / str(rows), case, rows) for rows in counts]
        found: list[tuple[str, Sequence[float | str], str]] = [
            ("local", [_counting_seconds(str(source), case) for source in sources], RUN)
        ]
        if quick:
            found.append(("Spark", [""] * len(counts), "left out: it takes longer to start than a quick run may"))
        else:
            (spark,) = _each_in_a_process(_by_spark, [(case, sources, name)])
            found.append(("Spark", *spark))
        return [
            {"engine": engine, "status": status, "cores": cores(), "rows": rows, "attributes": case.attributes}
            | {"size": case.size, "tables": len(case.request().tables), "seconds": value}
            | {"bytes": sum(file.stat().st_size for file in source.iterdir())}
            for engine, seconds, status in found
            for rows, source, value in zip(counts, sources, seconds, strict=True)
        ]


def _written(folder: Path, case: Case, rows: int) -> Path:
    folder.mkdir()
    for number in range(_FILES):
        with pq.ParquetWriter(folder / f"{number}.parquet", _arrow_schema(case)) as writer:
            for batch in _batches(case, rows // _FILES, []):
                writer.write_batch(batch)
    return folder


def _counting_seconds(source: Any, case: Case) -> float:
    """The faster of two."""
    seconds = []
    for _ in range(2):
        began = time.perf_counter()
        engine_for(source).count(case.request())
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def _by_spark(asked: tuple[Case, Sequence[Path], str]) -> tuple[list[object], str]:
    """The seconds of a local Spark with as many tasks as cores; without one, why there is none."""
    case, sources, folder = asked
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what Java says at its start
    try:
        from pyspark.sql import SparkSession

        session = (
            SparkSession.builder.master(f"local[{cores()}]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.local.dir", folder)
            .getOrCreate()
        )
    except Exception as problem:
        return [""] * len(sources), f"not there: {type(problem).__name__}"
    frames = [session.read.parquet(str(source)) for source in sources]
    engine_for(frames[0].limit(1000)).count(case.request())  # starts the workers
    seconds: list[object] = [_counting_seconds(frame, case) for frame in frames]
    session.stop()
    return seconds, RUN


# Exponents


def exponents(rows: Sequence[dict[str, str]]) -> list[Row]:
    """For every sweep and stage, seconds and GB as powers of the rows or the tables, over the cases that have them."""
    found: list[Row] = []
    for sweep, guarantee, size in dict.fromkeys((row["sweep"], row["guarantee"], row["size"]) for row in rows):
        own = chosen(rows, sweep=sweep, guarantee=guarantee, size=size)
        against = "rows" if sweep == "rows" else "tables"
        for measure in (f"{stage} {unit}" for unit in ("seconds", "GB") for stage in STAGES):
            points = [(float(row[against]), float(row[measure])) for row in own if row[measure]]
            if len(points) < 2:
                continue
            x, y = zip(*points, strict=True)
            exponent, constant = power_law(x, y)
            found.append(
                {"sweep": sweep, "guarantee": guarantee, "size": size, "measure": measure, "against": against}
                | {"points": len(points), "from": f"{min(x):g}", "to": f"{max(x):g}", "exponent": exponent}
                | {"constant": constant, "last exponent": log(y[-1] / y[-2]) / log(x[-1] / x[-2])}
            )
    return found
