"""Local sources for the suite over all engines: one way of holding a table each.

`FACTORIES[name](columns, folder)` makes the source, table and query for `engine_for`. Columns are given by name as
(kind, values); `TOLD[name](columns)` says what the source then holds, where that is not the same: text files hold text,
and pandas turns some columns into others. `factory_postgres.py` and `factory_spark.py` add to these.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

Columns = dict[str, tuple[str, list[Any]]]
Source = tuple[Any, str | None, str | None]
Factory = Callable[[Columns, Path], Source]

ARROW_TYPES = {
    "text": pa.string(),
    "integer": pa.int64(),
    "float": pa.float64(),
    "boolean": pa.bool_(),
    "decimal": pa.decimal128(38, 20),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "instant": pa.timestamp("us", "America/New_York"),
}


# Text files


def written(kind: str, value: Any) -> str:
    """A value in a text file, as pandas writes it."""
    if value is None or value != value:
        return ""
    return str(value)


def as_written(columns: Columns) -> Columns:
    return {name: ("text", [written(kind, value) for value in values]) for name, (kind, values) in columns.items()}


def rows_of(columns: Columns) -> Iterator[list[Any]]:
    for row in zip(*(values for _, values in columns.values()), strict=True):
        yield list(row)


def write_csv(path: Path, columns: Columns, separator: str = ",") -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        for row in ([*columns], *rows_of(as_written(columns))):
            file.write(separator.join(map(field, row)) + "\n")


def field(text: str) -> str:
    """In quotation marks where a reader might need them; Python's writer leaves some out (a lone carriage return)."""
    return '"' + text.replace('"', '""') + '"' if not text or set(text) & set('",;\t|\r\n') else text


def parts(columns: Columns, number: int = 3) -> list[Columns]:
    """The records in several tables, each with the columns in another order."""
    names = list(columns)
    pieces = []
    for part in range(number):
        turned = names[part % len(names) :] + names[: part % len(names)]
        pieces.append({name: (columns[name][0], columns[name][1][part::number]) for name in turned})
    return pieces


def csv_with(ending: str, separator: str) -> Factory:
    def make(columns: Columns, folder: Path) -> Source:
        write_csv(folder / f"people{ending}", columns, separator)
        return folder / f"people{ending}", None, None

    return make


def csv_gzip(columns: Columns, folder: Path) -> Source:
    write_csv(folder / "plain", columns)
    (folder / "people.csv.gz").write_bytes(gzip.compress((folder / "plain").read_bytes()))
    return str(folder / "people.csv.gz"), None, None


def csv_zstd(columns: Columns, folder: Path) -> Source:
    write_csv(folder / "plain", columns)
    with pa.output_stream(str(folder / "people.csv.zst"), compression="zstd") as stream:
        stream.write((folder / "plain").read_bytes())
    return str(folder / "people.csv.zst"), None, None


def csv_pattern(columns: Columns, folder: Path) -> Source:
    for number, part in enumerate(parts(columns)):
        write_csv(folder / f"people-{number}.csv", part, ",;|"[number])
    return str(folder / "people-*.csv"), None, None


# Parquet and Arrow


def arrow_table(columns: Columns) -> pa.Table:
    arrays = [pa.array(values, type=ARROW_TYPES[kind]) for kind, values in columns.values()]
    return pa.table(arrays, names=list(columns))


def record_batch(columns: Columns) -> pa.RecordBatch:
    arrays = [pa.array(values, type=ARROW_TYPES[kind]) for kind, values in columns.values()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def encoded(table: pa.Table) -> pa.Table:
    """With dictionaries, another one in each of two chunks."""
    half = len(table) // 2
    pieces = [pa.table(part, names=table.column_names) for part in map(_dictionaries, (table[:half], table[half:]))]
    return pa.concat_tables(pieces)


def _dictionaries(table: pa.Table) -> list[pa.Array]:
    return [column.combine_chunks().dictionary_encode() for column in table.columns]


def parquet(columns: Columns, folder: Path) -> Source:
    pq.write_table(arrow_table(columns), folder / "people.parquet", row_group_size=7)
    return folder / "people.parquet", None, None


def parquet_folder(columns: Columns, folder: Path) -> Source:
    (folder / "people" / "inner").mkdir(parents=True)
    (folder / "people" / "_SUCCESS").write_text("")
    for number, part in enumerate(parts(columns)):
        pq.write_table(arrow_table(part), folder / "people" / ("inner" if number else "") / f"{number}.parquet")
    return folder / "people", None, None


def parquet_dictionaries(columns: Columns, folder: Path) -> Source:
    pq.write_table(encoded(arrow_table(columns)), folder / "people.pq")
    return folder / "people.pq", None, None


def reader(columns: Columns, folder: Path) -> Source:
    return arrow_table(columns).to_reader(max_chunksize=5), None, None


def dataset(columns: Columns, folder: Path) -> Source:
    parquet(columns, folder)
    return ds.dataset(folder / "people.parquet"), None, None


# Data frames


def frame_of(columns: Columns, column: Callable[[str, list[Any]], Any]) -> pd.DataFrame:
    return pd.DataFrame({name: column(kind, values) for name, (kind, values) in columns.items()})


def numpy_column(kind: str, values: list[Any]) -> pd.Series:
    """What pandas makes of values by itself: integers with a gap become floats, much else objects."""
    if kind == "integer" and None in values:
        return pd.Series([np.nan if value is None else float(value) for value in values], dtype=np.float64)
    dtypes: dict[str, Any] = {"text": "str", "integer": np.int64, "float": np.float64, "timestamp": "datetime64[us]"}
    if kind == "instant":
        return pd.Series(pd.to_datetime(pd.Series(values, dtype=object), utc=True))
    if kind == "boolean" and None not in values:
        return pd.Series(values, dtype=np.bool_)
    return pd.Series(values, dtype=dtypes.get(kind, object))


def told_by_numpy(columns: Columns) -> Columns:
    told: Columns = {}
    for name, (kind, values) in columns.items():
        if kind == "integer" and None in values:
            told[name] = "float", [None if value is None else float(value) for value in values]
        elif kind == "instant" or kind == "timestamp":
            told[name] = kind, values
        elif kind in ("decimal", "date") or (kind == "boolean" and None in values):
            told[name] = "text", [plainly(value) for value in values]
        else:
            told[name] = kind, values
    return told


def plainly(value: Any) -> str | None:
    """A Python object in a column of objects, as the coding rule writes it."""
    if value is None or value != value:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float | Decimal) and -(2**53) < value < 2**53 and value == int(value):
        return str(int(value))
    return str(value)


def told_by_objects(columns: Columns) -> Columns:
    return {name: ("text", [plainly(value) for value in values]) for name, (_, values) in columns.items()}


NULLABLE = {"text": "string", "integer": "Int64", "boolean": "boolean"}


def nullable_column(kind: str, values: list[Any]) -> pd.Series:
    if kind in NULLABLE:
        return pd.Series(values, dtype=NULLABLE[kind])
    return arrow_column(kind, values)


def arrow_column(kind: str, values: list[Any]) -> pd.Series:
    return pd.Series(values, dtype=pd.ArrowDtype(ARROW_TYPES[kind]))


def categorical_column(kind: str, values: list[Any]) -> pd.Series:
    if kind in ("text", "integer", "float"):
        present = sorted({value for value in values if value is not None and value == value})
        known = [value if value is not None and value == value else None for value in values]
        return pd.Series(pd.Categorical(known, categories=[*present, *NEVER[kind]]))
    return arrow_column(kind, values)


NEVER: dict[str, list[Any]] = {"text": ["never said"], "integer": [77_777], "float": [77_777.5]}

POLARS_TYPES = {
    "text": pl.String, "integer": pl.Int64, "float": pl.Float64, "boolean": pl.Boolean,
    "decimal": pl.Decimal(38, 20), "date": pl.Date, "timestamp": pl.Datetime("us"), "instant": pl.Datetime("us", "UTC"),
}  # fmt: skip


def polars_frame(columns: Columns, text: Any = pl.String) -> pl.DataFrame:
    kinds = {**POLARS_TYPES, "text": text}
    return pl.DataFrame([pl.Series(name, values, dtype=kinds[kind]) for name, (kind, values) in columns.items()])


# DuckDB


class Stream:
    """All that it has is the stream of another frame, and how often it was asked for it."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.asked = 0

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        self.asked += 1
        return self._frame.__arrow_c_stream__(requested_schema)


def relation(columns: Columns, folder: Path) -> Source:
    return duckdb.connect().from_arrow(arrow_table(columns)), None, None


def database(columns: Columns, folder: Path) -> Path:
    path = folder / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("given", arrow_table(columns))
        connection.execute('CREATE SCHEMA "s p"; CREATE TABLE "s p"."the ""people""" AS SELECT * FROM given')
    return path


def in_memory(make: Callable[[Columns], Any]) -> Factory:
    return lambda columns, folder: (make(columns), None, None)


FACTORIES: dict[str, Factory] = {
    "csv": csv_with(".csv", ","),
    "csv-semicolons": csv_with(".csv", ";"),
    "tsv": csv_with(".tsv", "\t"),
    "csv-gzip": csv_gzip,
    "csv-zstd": csv_zstd,
    "csv-pattern": csv_pattern,
    "parquet": parquet,
    "parquet-folder": parquet_folder,
    "parquet-dictionaries": parquet_dictionaries,
    "pandas-numpy": in_memory(lambda columns: frame_of(columns, numpy_column)),
    "pandas-objects": in_memory(lambda columns: frame_of(columns, lambda _, values: pd.Series(values, dtype=object))),
    "pandas-nullable": in_memory(lambda columns: frame_of(columns, nullable_column)),
    "pandas-arrow": in_memory(lambda columns: frame_of(columns, arrow_column)),
    "pandas-categorical": in_memory(lambda columns: frame_of(columns, categorical_column)),
    "polars": in_memory(polars_frame),
    "polars-lazy": in_memory(lambda columns: polars_frame(columns).lazy()),
    "polars-categorical": in_memory(lambda columns: polars_frame(columns, pl.Categorical)),
    "pyarrow": in_memory(arrow_table),
    "pyarrow-dictionaries": in_memory(lambda columns: encoded(arrow_table(columns))),
    "pyarrow-batch": in_memory(record_batch),
    "pyarrow-reader": reader,
    "pyarrow-dataset": dataset,
    "arrow-stream": in_memory(lambda columns: Stream(arrow_table(columns))),
    "duckdb-relation": relation,
    "duckdb-table": lambda columns, folder: (database(columns, folder), 's p.the "people"', None),
    "duckdb-query": lambda columns, folder: (
        database(columns, folder), None, 'SELECT * FROM "s p"."the ""people""" ORDER BY 1 -- all of them'
    ),
}  # fmt: skip

TOLD: dict[str, Callable[[Columns], Columns]] = {
    **dict.fromkeys([name for name in FACTORIES if name.startswith(("csv", "tsv"))], as_written),
    "pandas-numpy": told_by_numpy,
    "pandas-objects": told_by_objects,
}

TELLS_UPPER_FROM_LOWER_CASE = [
    name for name in FACTORIES if name.startswith(("csv", "tsv", "pandas", "polars", "pyarrow", "arrow"))
]
