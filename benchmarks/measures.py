"""What a measure costs when counting: sums of one measure in all 2-way tables, beside one more attribute and none.

One run per engine, on the same records: a Parquet file and columns in memory (processor seconds), PostgreSQL (seconds
by the clock, as the server works), and with --spark a local Spark. `--rows` scales it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privcube import Attribute, Measure, Schema
from privcube.sensitive.engine import CountRequest
from privcube.sensitive.sources import engine_for

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "every_engine"))

SIZES: Final = {f"a{number}": size for number, size in enumerate((2, 3, 5, 8, 10, 12, 16, 20))}
KINDS: Final = ("no measure", "one more attribute of 2 values", "a measure of 100 steps", "a measure of 100,000 steps")
RUNS: Final = 3


def records(rows: int) -> pa.Table:
    """Random codes, a column of two values, and two of numbers."""
    pick = np.random.default_rng(1)
    columns = {name: pick.integers(0, size, rows) for name, size in SIZES.items()}
    columns |= {"two": pick.integers(0, 2, rows), "hundred": pick.integers(0, 101, rows)}
    return pa.table({**columns, "fine": pick.integers(0, 100_001, rows)})


def asked(kind: str) -> CountRequest:
    """All 2-way tables, and each with the extra column."""
    extra = {
        KINDS[0]: [],
        KINDS[1]: [Attribute("two", size=2)],
        KINDS[2]: [Measure("hundred", low=0, high=100, step=1)],
        KINDS[3]: [Measure("fine", low=0, high=100_000, step=1)],
    }[kind]
    attributes = [Attribute(name, size=size) for name, size in SIZES.items()]
    names = tuple(own.name for own in extra)
    tables = tuple((*table, *names) for table in combinations(SIZES, 2))
    return CountRequest(Schema([*attributes, *extra]), tables, None, 1, b"k" * 32)


def least(clock: Callable[[], float], run: Callable[[], object]) -> float:
    """Seconds of the fastest of some runs."""
    taken = []
    for _ in range(RUNS):
        start = clock()
        run()
        taken.append(clock() - start)
    return min(taken)


def race(name: str, engine: Callable[[], Any], clock: Callable[[], float]) -> None:
    """The seconds of every kind, and how much longer than without a measure."""
    found = {kind: least(clock, lambda kind=kind: engine().count(asked(kind))) for kind in KINDS}
    print(f"\n{name}")
    for kind, seconds in found.items():
        print(f"  {kind:34s} {seconds:7.2f} s   {seconds / found[KINDS[0]]:5.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--no-server", action="store_true", help="leave PostgreSQL out")
    arguments = parser.parse_args()
    table = records(arguments.rows)
    print(
        f"{arguments.rows:,} records, 28 tables of 2 attributes; the least of {RUNS} runs, and its ratio to no measure"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.parquet"
        pq.write_table(table, path)
        race("Parquet file (processor seconds)", lambda: engine_for(str(path)), time.process_time)
        race("columns in memory (processor seconds)", lambda: engine_for(table), time.process_time)
        if arguments.spark:
            from factory_spark import spark_session

            frame = spark_session().read.parquet(str(path))
            race("Spark (seconds)", lambda: engine_for(frame), time.perf_counter)
    if not arguments.no_server:
        from factory_postgres import server

        from privcube.sensitive.engines.sql import PostgreSQLDatabase, SqlEngine

        with server().connect() as connection, connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS people")
            cursor.execute(f"CREATE TABLE people ({', '.join(f'{name} INTEGER' for name in table.column_names)})")
            with cursor.copy("COPY people FROM STDIN") as copy:
                rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
                copy.write("\n".join("\t".join(map(str, row)) for row in rows) + "\n")
            cursor.execute("VACUUM ANALYZE people")
        race(
            "PostgreSQL (seconds)",
            lambda: SqlEngine(PostgreSQLDatabase(server().url()), "", "SELECT * FROM people"),
            time.perf_counter,
        )


if __name__ == "__main__":
    main()
