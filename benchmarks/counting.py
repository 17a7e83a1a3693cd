"""Counting speed: 10 million records, 16 attributes, all two- and three-way tables; and 100 attributes, all three-way.

Ratios in one run: privcube against DuckDB (GROUPING SETS, and one GROUP BY per table), polars group_by and numpy's
bincount in blocks, all from the same Parquet file and from the same columns in memory. `--rows` scales it down.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

SIZES = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 16]
NAMES = [f"a{number}" for number in range(len(SIZES))]


def write(path: Path, sizes: list[int], rows: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    generator = np.random.default_rng(1)
    schema = pa.schema([(f"a{number}", pa.uint8()) for number in range(len(sizes))])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, 1 << 20):
            count = min(1 << 20, rows - start)
            columns = [generator.integers(0, size, count, dtype=np.uint8) for size in sizes]
            writer.write_table(pa.table(columns, schema=schema))


def request(sizes: list[int], way: int) -> Any:
    from privcube import Schema
    from privcube.sensitive.engine import CountRequest

    schema = Schema.from_sizes({f"a{number}": size for number, size in enumerate(sizes)})
    return CountRequest(schema, tuple(combinations(schema.names, way)), None, 1, b"k" * 32)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def by_privcube(path: Path, way: int) -> Any:
    from privcube.sensitive.sources import engine_for

    return engine_for(str(path)).count(request(SIZES, way))


def by_duckdb(path: Path, way: int, *, sets: bool) -> Any:
    import duckdb

    connection = duckdb.connect()
    tables = list(combinations(NAMES, way))
    if sets:
        grouping = ", ".join(f"({', '.join(table)})" for table in tables)
        return connection.sql(
            f"SELECT {', '.join(NAMES)}, count(*) FROM '{path}' GROUP BY GROUPING SETS ({grouping})"
        ).fetchnumpy()
    connection.execute(f"CREATE TABLE t AS SELECT * FROM '{path}'")
    return [
        connection.sql(f"SELECT {', '.join(t)}, count(*) FROM t GROUP BY {', '.join(t)}").fetchnumpy() for t in tables
    ]


def by_polars(path: Path, way: int) -> Any:
    import polars as pl

    frame = pl.read_parquet(path)
    return [frame.group_by(list(table)).len() for table in combinations(NAMES, way)]


def by_numpy(columns: list[np.ndarray], way: int) -> Any:
    """Per table, blocks of 262,144 records, on all cores."""
    block = 1 << 18

    def count(table: tuple[int, ...]) -> np.ndarray:
        cells = prod(SIZES[place] for place in table)
        counts = np.zeros(cells, dtype=np.int64)
        for start in range(0, len(columns[0]), block):
            keys = columns[table[0]][start : start + block].astype(np.uint16)
            for place in table[1:]:
                keys *= np.uint16(SIZES[place])
                keys += columns[place][start : start + block]
            counts += np.bincount(keys, minlength=cells)
        return counts

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(count, combinations(range(len(SIZES)), way)))


def loaded(path: Path) -> list[np.ndarray]:
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    return [column.combine_chunks().to_numpy() for column in table.columns]


def race(path: Path, way: int) -> None:
    from privcube.sensitive.counting import TableCounter

    print(f"\nall {way}-way tables ({len(list(combinations(NAMES, way)))}), seconds from Parquet to counts")
    ours = min(timed(lambda: by_privcube(path, way))[0] for _ in range(3))
    load, columns = timed(lambda: loaded(path))
    numpy_kernel, _ = timed(lambda: by_numpy(columns, way))
    others = {
        "numpy bincount in blocks, per table, threads": load + numpy_kernel,
        "polars group_by": timed(lambda: by_polars(path, way))[0],
        "DuckDB, one GROUP BY each": timed(lambda: by_duckdb(path, way, sets=False))[0],
        "DuckDB, GROUPING SETS": timed(lambda: by_duckdb(path, way, sets=True))[0],
    }
    print(f"  {'privcube':48s} {ours:8.2f}")
    for name, seconds in others.items():
        print(f"  {name:48s} {seconds:8.2f}   {seconds / ours:6.1f} times as long")

    def kernel() -> Any:
        counter = TableCounter(SIZES, list(combinations(range(len(SIZES)), way)))
        counter.add(columns)
        return counter, counter.finish()

    in_memory, (counter, _) = min((timed(kernel) for _ in range(3)), key=lambda found: found[0])
    blocks = len(counter._blocks)
    increments = blocks * len(columns[0])
    print(
        f"  counting alone, columns in memory: privcube {in_memory:.2f}, numpy per table {numpy_kernel:.2f}: "
        f"{numpy_kernel / in_memory:.1f} times; {blocks} blocks, {in_memory * 1e9 / increments:.2f} ns per increment "
        f"on {os.cpu_count()} cores; kernel {in_memory / ours:.0%} of the whole"
    )


def shares(path: Path) -> None:
    """Where the time goes: reading Parquet, decoding and coding, counting."""
    import pyarrow.parquet as pq

    from privcube.sensitive.coding import ColumnKind
    from privcube.sensitive.duckdb_session import connected
    from privcube.sensitive.engines.local import coded_batches

    asked = request(SIZES, 2)
    kinds: dict[str, ColumnKind] = {attribute.name: "integer" for attribute in asked.schema}
    read, _ = timed(lambda: [batch.num_rows for batch in pq.ParquetFile(path).iter_batches(1 << 18)])
    with connected() as connection:
        coded, _ = timed(lambda: sum(len(b[0]) for b in coded_batches(connection, f"'{path}'", kinds, asked, "file")))
    print(f"\nreading alone (pyarrow) {read:.2f} s; reading, checking and coding (DuckDB) {coded:.2f} s")


def linear(path: Path, rows: int) -> None:
    """Time against records, and against tables."""
    from privcube.sensitive.counting import TableCounter

    columns = loaded(path)
    print("\nseconds by records (all 3-way) and by number of 3-way tables (all records)")
    tables = list(combinations(range(len(SIZES)), 3))
    for part in (4, 2, 1):
        some = [column[: rows // part] for column in columns]
        print(f"  {rows // part:>12,} records  {timed(lambda s=some: _counted(TableCounter, s, tables))[0]:.2f}")
    for part in (4, 2, 1):
        few = tables[::part]
        print(f"  {len(few):>12,} tables   {timed(lambda f=few: _counted(TableCounter, columns, f))[0]:.2f}")


def _counted(counter_type: Any, columns: list[np.ndarray], tables: list[tuple[int, ...]]) -> Any:
    counter = counter_type(SIZES, tables)
    counter.add(columns)
    return counter.finish()


def many_tables(folder: Path, rows: int, attributes: int) -> None:
    """All three-way tables of many attributes of size 10, in a process of its own for its memory."""
    path = folder / "many.parquet"
    write(path, [10] * attributes, rows)
    code = (
        "import sys, time; sys.path.insert(0, 'benchmarks'); from counting import most_memory, request;"
        "from privcube.sensitive.sources import engine_for; calls = [];"
        f"asked = request([10] * {attributes}, 3); start = time.perf_counter();"
        f"engine_for({str(path)!r}).count(asked, lambda *told: calls.append(told));"
        "print(f'{time.perf_counter() - start:.1f} s, {most_memory():.2f} GB at most,', len(calls),"
        "'reports of progress, last', calls[-1])"
    )
    print(f"\n{rows:,} records x {attributes} attributes of size 10, all 3-way tables", flush=True)
    subprocess.run([sys.executable, "-c", code], check=True)


def most_memory() -> float:
    """The most memory that this process has used, in GB."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 2**20


def memory(path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, 'benchmarks'); from counting import by_privcube, most_memory;"
        "from pathlib import Path; import duckdb, pyarrow; base = most_memory();"
        f"by_privcube(Path({str(path)!r}), 3); print(f'{{most_memory() - base:.2f}} GB')"
    )
    print("\nmemory of counting all 3-way tables, beyond the libraries:", end=" ", flush=True)
    subprocess.run([sys.executable, "-c", code], check=True)
    print(f"the file itself: {path.stat().st_size / 2**30:.2f} GB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--many", type=int, default=1_000_000, help="records of the run with 100 attributes; 0: none")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.parquet"
        write(path, SIZES, arguments.rows)
        shares(path)
        for way in (2, 3):
            race(path, way)
        linear(path, arguments.rows)
        memory(path)
        if arguments.many:
            many_tables(Path(folder), arguments.many, 100)


if __name__ == "__main__":
    main()
