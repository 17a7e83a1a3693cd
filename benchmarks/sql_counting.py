"""How PostgreSQL counts many tables: blocks of the cover, one GROUP BY each, GROUPING SETS, or records counted here.

A server from the `pgserver` wheel is started for it; all ways run on the same table, in one run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "every_engine"))
from factory_postgres import server

from privcube import Attribute, Schema
from privcube.sensitive.cover import cover
from privcube.sensitive.engine import CountRequest
from privcube.sensitive.engines.sql import PostgreSQLDatabase, SqlEngine

ROWS: Final = 1_000_000
STATEMENT: Final = "SELECT * FROM people"


def seconds(run: Callable[[], object]) -> float:
    """Of the faster of two runs."""
    taken = []
    for _ in range(2):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return min(taken)


def fill(sizes: dict[str, int], kind: str) -> None:
    """A table of random records."""
    draws = np.random.default_rng(0)
    mark = "v" if kind == "TEXT" else ""
    columns = [np.char.add(mark, draws.integers(0, size, ROWS).astype(str)) for size in sizes.values()]
    with server().connect() as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS people")
        cursor.execute(f"CREATE TABLE people ({', '.join(f'{name} {kind}' for name in sizes)})")
        with cursor.copy("COPY people FROM STDIN") as copy:
            copy.write("\n".join(map("\t".join, zip(*(column.tolist() for column in columns), strict=True))) + "\n")
        cursor.execute("VACUUM ANALYZE people")


def plain_sql(queries: list[str]) -> Callable[[], None]:
    """Queries on the columns as they are, one after another."""

    def run() -> None:
        with server().connect() as connection:
            for query in queries:
                connection.execute(query).fetchall()

    return run


def compare(attributes: int, ways: int, kind: str) -> None:
    """All tables of so many ways, of attributes of 2 to 16 cells."""
    sizes = {f"a{number}": 2 + number * 14 // (attributes - 1) for number in range(attributes)}
    fill(sizes, kind)
    schema = Schema(
        Attribute(name, values=[f"v{value}" for value in range(size)]) if kind == "TEXT" else Attribute(name, size=size)
        for name, size in sizes.items()
    )
    tables = tuple(combinations(sizes, ways))
    request = CountRequest(schema, tables, None, 1, b"")
    adapter = PostgreSQLDatabase(server().url())
    lists = [", ".join(table) for table in tables]
    taken = {
        "blocks, one GROUP BY each": seconds(lambda: SqlEngine(adapter, "", STATEMENT, 10**9).count(request)),
        "coded there, counted here": seconds(lambda: SqlEngine(adapter, "", STATEMENT, 0).count(request)),
    }
    if len(tables) <= 200:  # others would take minutes
        taken["tables, one GROUP BY each"] = seconds(
            plain_sql([f"SELECT {names}, count(*) FROM people GROUP BY {names}" for names in lists])
        )
        sets = ", ".join(f"({names})" for names in lists)
        taken["GROUPING SETS"] = seconds(
            plain_sql([f"SELECT {', '.join(sizes)}, count(*) FROM people GROUP BY GROUPING SETS ({sets})"])
        )
    blocks = len(cover(list(schema.shape), request.positions))
    print(f"{ROWS:,} rows, {attributes} columns of type {kind}, {len(tables)} {ways}-way tables, {blocks} blocks")
    for way, time_taken in taken.items():
        print(f"  {way:34}{time_taken:8.2f} s")


if __name__ == "__main__":
    compare(8, 2, "INT4")
    compare(8, 2, "TEXT")
    compare(16, 2, "INT4")
    compare(16, 3, "INT4")
