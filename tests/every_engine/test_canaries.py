"""Canaries in every cell, and every failure we can think of: none is heard of again, in any text there is."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from canaries import LONG, NUMBER, WORD, Surroundings, assert_no_canary, chain, everything_said
from holders import request_for

from privcube import Attribute
from privcube.errors import PrivcubeError
from privcube.sensitive.sources import engine_for

ROWS = 3000
HEADER = b"a,b,who\n"
LINE = f"{WORD},{NUMBER},{WORD} {LONG}\n".encode()
TABLE = pa.table({"a": [f"{WORD} {row}" for row in range(ROWS)], "b": [NUMBER] * ROWS, "who": [f"{LONG}"] * ROWS})
ATTRIBUTES = [
    Attribute("a", values=["x"], missing="category", other="category"),
    Attribute("b", bins=[0, 1], underflow="clamp", overflow="clamp", missing="category", other="category"),
]


def file(folder: Path, name: str, raw: bytes) -> tuple[Path]:
    (folder / name).write_bytes(raw)
    return (folder / name,)


def text_file(*lines: bytes) -> Callable[[Path], tuple]:
    return lambda folder: file(folder, "people.csv", HEADER + LINE * 50 + b"".join(lines) + LINE * 50)


def parquet(folder: Path, table: pa.Table = TABLE, **options: Any) -> Path:
    pq.write_table(table, folder / "people.parquet", **options)
    return folder / "people.parquet"


def damaged_parquet(start: float, end: float) -> Callable[[Path], tuple]:
    def make(folder: Path) -> tuple:
        raw = bytearray(parquet(folder, compression="snappy").read_bytes())
        for at in range(int(start * len(raw)), int(end * len(raw))):
            raw[at] ^= 0x5A
        return file(folder, "people.parquet", bytes(raw))

    return make


def zstd(folder: Path) -> bytes:
    with pa.output_stream(str(folder / "whole"), compression="zstd") as stream:
        stream.write(HEADER + LINE * ROWS)
    return (folder / "whole").read_bytes()


def database(folder: Path, query: str) -> tuple:
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.register("given", TABLE)
        connection.execute("CREATE TABLE people AS FROM given")
    return folder / "people.duckdb", None, query


def relation(query: str) -> Callable[[Path], tuple]:
    def make(folder: Path) -> tuple:
        connection = duckdb.connect()
        connection.register("given", TABLE)
        return (connection.sql(query),)

    return make


def failing_reader(folder: Path) -> tuple:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from TABLE.to_batches(100)[:3]
        try:
            raise KeyError(WORD)
        except KeyError as cause:
            raise ValueError(f"cannot parse {WORD} {NUMBER}") from cause

    return (pa.RecordBatchReader.from_batches(TABLE.schema, batches()),)


class Rude:
    """An object that quotes itself when it is asked for its text."""

    def __str__(self) -> str:
        raise ValueError(WORD)


def strict_numbers(column: str) -> pl.LazyFrame:
    """Fails when it is collected; the error quotes the values."""
    return pl.from_arrow(TABLE).lazy().with_columns(pl.col(column).str.to_integer(strict=True))


FAILURES: dict[str, Callable[[Path], tuple]] = {
    "too few fields": text_file(f"{WORD}\n".encode()),
    "too many fields": text_file(f"{WORD},{NUMBER},{WORD},{WORD}\n".encode()),
    "text after a quote": text_file(f'"{WORD}"{WORD},1,{WORD}\n'.encode()),
    "quote left open": text_file(f'"{WORD},1,{WORD}\n'.encode()),
    "not UTF-8": text_file(WORD.encode() + b"\xff\xfe,1,1\n"),
    "line too long": text_file(WORD.encode() * 300_000 + b",1,1\n"),
    "mixed ends of lines": text_file(f"{WORD},{NUMBER},{WORD}\r\n".encode()),
    "no header": lambda folder: file(folder, "people.csv", LINE * 10),
    "header quoted badly": lambda folder: file(folder, "people.csv", b'"a' + LINE * 10),
    "header too long": lambda folder: file(folder, "people.csv", WORD.encode() * 200_000 + b"\n" + LINE),
    "UTF-16": lambda folder: file(folder, "people.csv", (HEADER + LINE).decode().encode("utf-16")),
    "gzip cut off": lambda folder: file(folder, "people.csv.gz", gzip.compress(HEADER + LINE * ROWS)[:-30]),
    "gzip damaged": lambda folder: file(folder, "people.csv.gz", gzip.compress(HEADER + LINE * ROWS)[:100] + LINE * 9),
    "no gzip": lambda folder: file(folder, "people.csv.gz", HEADER + LINE),
    "zstd cut off": lambda folder: file(folder, "people.csv.zst", zstd(folder)[:-9]),
    "no zstd": lambda folder: file(folder, "people.csv.zst", HEADER + LINE),
    "Parquet cut off": lambda folder: file(folder, "people.parquet", parquet(folder).read_bytes()[:-9]),
    "Parquet damaged at the start": damaged_parquet(0.02, 0.3),
    "Parquet damaged in the middle": damaged_parquet(0.3, 0.9),
    "Parquet damaged at the end": damaged_parquet(0.95, 0.99),
    "no Parquet": lambda folder: file(folder, "people.parquet", HEADER + LINE),
    "lists in Parquet": lambda folder: (parquet(folder, TABLE.set_column(0, "a", pa.array([[WORD]] * ROWS))),),
    "no database": lambda folder: (*file(folder, "people.duckdb", HEADER + LINE), "people"),
    "query that fails on a record": lambda folder: database(folder, "SELECT CAST(a AS INT) AS a, b, who FROM people"),
    "query that raises": lambda folder: database(folder, "SELECT error(a) AS a, b, who FROM people"),
    "query of a constant": lambda folder: database(folder, f"SELECT '{WORD}'::INT AS a, b, who FROM people"),
    "query without sense": lambda folder: database(folder, f"SELECT {WORD} FROM"),
    "relation that fails on a record": relation("SELECT CAST(a AS INTEGER) AS a, b, who FROM given"),
    "relation out of range": relation("SELECT a, CAST(b AS TINYINT) AS b, who FROM given"),
    "reader that fails": failing_reader,
    "dataset of damaged files": lambda folder: (ds.dataset(damaged_parquet(0.3, 0.9)(folder)[0]),),
    "lazy frame that fails": lambda folder: (strict_numbers("a"),),
    "rude objects": lambda folder: (pd.DataFrame({"a": [WORD, Rude()], "b": [1, 2], "who": ["x", "y"]}),),
    "series": lambda folder: (pd.Series([WORD, NUMBER], name=WORD),),
}  # fmt: skip


WITH_PERSONS = ["too few fields", "Parquet damaged in the middle", "query that fails on a record", "reader that fails"]


@pytest.mark.parametrize(
    ("failure", "person"), [(name, None) for name in FAILURES] + [(name, "who") for name in WITH_PERSONS]
)
def test_no_failure_quotes_a_record(
    failure: str, person: str | None, tmp_path: Path, surroundings: Surroundings
) -> None:
    """Whether it is seen in preparing or in counting: one sentence of ours, which stands alone."""
    request = request_for(ATTRIBUTES, person=person, max_rows=10)
    with pytest.raises(PrivcubeError) as caught:
        fail(FAILURES[failure](tmp_path), request)
    assert_no_canary(everything_said(caught.value) + surroundings.said())
    assert list(chain(caught.value)) == [caught.value]
    assert "\n" not in str(caught.value)


def fail(source: tuple, request: Any) -> None:
    engine = engine_for(*source)
    engine.prepare(request)
    engine.count(request)


def test_canaries_are_heard_where_nothing_holds_them_back(tmp_path: Path) -> None:
    """The test has power: without our hand over it, DuckDB's error quotes the record."""
    (source,) = FAILURES["too few fields"](tmp_path)
    with pytest.raises(duckdb.Error) as caught:
        duckdb.connect().sql(
            f"FROM read_csv('{source}', auto_detect = false, columns = {{'a': 'TEXT', 'b': 'TEXT', 'c': 'TEXT'}})"
        ).fetchall()
    with pytest.raises(AssertionError):
        assert_no_canary(everything_said(caught.value))
