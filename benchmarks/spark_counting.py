"""How fast Spark counts: our kernel in its workers, and Spark SQL over the same cover's blocks, in one run.

A million records of 16 attributes of sizes 2 to 16, all 560 three-way tables, from Parquet files, on a local Spark with
two tasks at a time. Spark SQL has its records cached in memory and its answers thrown away: neither their way to the
driver nor the sums from blocks to tables are in its time. With --many, instead, SparkEngine alone on all 161,700
three-way tables of 100 attributes of size 10.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import privcube as pc
from privcube.sensitive.cover import cover
from privcube.sensitive.engine import CountRequest
from privcube.sensitive.engines.spark import SparkEngine
from privcube.sensitive.sources import engine_for

ROWS = 1_000_000
FILES = 4
SIZES = [2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 16]


def session(folder: str) -> Any:
    """A Spark of this machine, with room for two workers."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for key, value in {
        "spark.driver.memory": "3g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": folder,
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.files.maxPartitionBytes": "1g",
    }.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def write_records(folder: Path, sizes: list[int]) -> None:
    """Files of random records, with a person each; about ten records per person."""
    folder.mkdir()
    chance = np.random.default_rng(0)
    for number in range(FILES):
        rows = ROWS // FILES
        columns = {f"a{at}": chance.integers(0, size, rows).astype(np.int32) for at, size in enumerate(sizes)}
        columns["who"] = chance.integers(0, ROWS // 10, rows)
        pq.write_table(pa.table(columns), folder / f"{number}.parquet")


def three_way(sizes: list[int], person: str | None = None) -> CountRequest:
    """All tables of three attributes."""
    schema = pc.Schema.from_sizes({f"a{at}": size for at, size in enumerate(sizes)})
    return CountRequest(schema, tuple(combinations(schema.names, 3)), person, 5, bytes(32))


def timed(name: str, work: Callable[[], object], repeats: int = 2) -> float:
    """The best time, printed."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    print(f"{name:64} {min(times):8.2f} s", flush=True)
    return min(times)


def thrown_away(answers: Any) -> None:
    """Work out all rows."""
    answers.write.format("noop").mode("overwrite").save()


def blocks_by_sql(records: Any, blocks: list[list[str]]) -> None:
    """One GROUP BY for each block."""
    for block in blocks:
        thrown_away(records.groupBy(*block).count())


def blocks_at_once(records: Any, blocks: list[list[str]]) -> None:
    """One query with a GROUPING SET for each block."""
    names = [name for name in records.columns if name != "who"]
    records.createOrReplaceTempView("records")
    sets = ", ".join(f"({', '.join(block)})" for block in blocks)
    query = f"SELECT {', '.join(names)}, count(*) FROM records GROUP BY GROUPING SETS ({sets})"
    thrown_away(records.sparkSession.sql(query))


def few_tables(spark: Any, folder: Path) -> None:
    """560 tables, every way."""
    write_records(folder, SIZES)
    records = spark.read.parquet(str(folder))
    request = three_way(SIZES)
    place = {name: at for at, name in enumerate(request.schema.names)}
    tables = [tuple(place[name] for name in table) for table in request.tables]
    blocks = [[f"a{at}" for at in block.attributes] for block in cover(SIZES, tables)]
    print(f"{ROWS:,} records, {len(SIZES)} attributes, {len(tables)} tables in {len(blocks)} blocks")
    SparkEngine(records.limit(1_000)).count(request)  # workers started
    ours = timed("SparkEngine, from Parquet", lambda: SparkEngine(records).count(request))
    timed("SparkEngine, at most 5 records per person", lambda: SparkEngine(records).count(three_way(SIZES, "who")))
    timed("LocalEngine, from the same files", lambda: engine_for(str(folder)).count(request))
    cached = records.cache()
    cached.count()
    each = timed("Spark SQL, a GROUP BY for each block, cached", lambda: blocks_by_sql(cached, blocks), 1)
    sets = timed("Spark SQL, GROUPING SETS of all blocks, cached", lambda: blocks_at_once(cached, blocks), 1)
    cached.unpersist()
    print(f"SparkEngine is {each / ours:.1f} times faster than GROUP BYs, {sets / ours:.1f} than GROUPING SETS")


def many_tables(spark: Any, folder: Path) -> None:
    """161,700 tables, 162 million cells."""
    sizes = [10] * 100
    write_records(folder, sizes)
    request = three_way(sizes)
    records = spark.read.parquet(str(folder)).coalesce(2)
    print(f"{ROWS:,} records, {len(sizes)} attributes, {len(request.tables):,} tables")
    timed("SparkEngine, from Parquet", lambda: SparkEngine(records).count(request), 1)
    print(f"peak of the driver's Python: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB")


def main() -> None:
    """Measure and print."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        spark = session(folder)
        measure = many_tables if "--many" in sys.argv else few_tables
        measure(spark, Path(folder) / "records")
        spark.stop()


if __name__ == "__main__":
    main()
