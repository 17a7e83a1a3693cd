"""Which source is what, and what is none; nothing is read."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from coded_records import CodedRecords
from holders import request_for

from privcube import Attribute, Schema
from privcube.errors import DataError
from privcube.sensitive.engines.local import LocalEngine
from privcube.sensitive.reading.text_files import CsvFiles
from privcube.sensitive.scans import DuckDBFile, ParquetFiles, TableInMemory
from privcube.sensitive.sources import engine_for


def scan_of(source: Any, *of_a_database: str | None) -> Any:
    engine = engine_for(source, *of_a_database)
    assert isinstance(engine, LocalEngine)
    return engine.scan


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.csv", CsvFiles), ("a.CSV", CsvFiles), ("a.tsv", CsvFiles), ("a.txt", CsvFiles), ("a.csv.gz", CsvFiles),
        ("a.TXT.GZ", CsvFiles), ("a.tsv.zst", CsvFiles), ("a.b.csv", CsvFiles), ("a.parquet", ParquetFiles),
        ("a.PQ", ParquetFiles),
    ],
)  # fmt: skip
def test_files_by_their_endings(name: str, kind: type, tmp_path: Path) -> None:
    (tmp_path / name).write_text("a\n1\n")
    for source in (tmp_path / name, str(tmp_path / name), tmp_path, str(tmp_path / name[0]) + "*"):
        assert type(scan_of(source)) is kind


@pytest.mark.parametrize("name", ["a.duckdb", "a.ddb", "a.db"])
def test_database_files_need_a_table_or_a_query(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    assert type(scan_of(tmp_path / name, "people")) is DuckDBFile
    assert type(scan_of(tmp_path / name, None, "SELECT 1")) is DuckDBFile
    for both in ((None, None), ("people", "SELECT 1")):
        with pytest.raises(DataError, match=f"database '{name}': expected a table or a query to read from it"):
            engine_for(tmp_path / name, *both)


@pytest.mark.parametrize(
    "names",
    [["a.xlsx"], ["a"], ["a.csv.bz2"], ["a.gz"], ["a.parquet.gz"], ["a.csv", "b.parquet"], ["a.duckdb", "b.duckdb"]],
)
def test_other_endings_and_mixtures_are_refused(names: list[str], tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(
        DataError, match=r"expected files of one kind .save a spreadsheet as CSV., given .*available: .csv, .csv.gz"
    ):
        engine_for(tmp_path)


@pytest.mark.parametrize("source", ["people.csv", "folder/*.csv", "folder"])
def test_nothing_there(source: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match="expected a file, or a pattern that fits files, given none found"):
        engine_for(tmp_path / source)


def test_a_table_of_a_text_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n1\n")
    for both in (("people", None), (None, "SELECT 1")):
        with pytest.raises(DataError, match=r"file 'a.csv': expected no table and no query, which are for databases"):
            engine_for(tmp_path / "a.csv", *both)


def test_a_table_of_a_table_in_memory_is_refused_rather_than_left_out() -> None:
    """A query that filters records must not be passed over."""
    for both in (("people", None), (None, "SELECT 1")):
        with pytest.raises(
            DataError, match="expected a database, as a table or a query of it is given, given 'DataFrame'"
        ):
            engine_for(pd.DataFrame({"a": [1]}), *both)


@pytest.mark.parametrize(
    "url", ["mysql://host/db", "https://example.org/a.csv", "s3://bucket/a.parquet", "sqlite:///a.db"]
)
def test_unknown_kinds_of_url(url: str) -> None:
    scheme = url.partition(":")[0]
    with pytest.raises(
        DataError, match=f"URL of a kind that is known, given '{scheme}'; available: postgresql, duckdb"
    ) as caught:
        engine_for(url)
    assert "host" not in str(caught.value)


@pytest.mark.parametrize("source", [None, 5, [1, 2], {"a": [1]}, np.zeros(3), b"a.csv", object()])
def test_what_is_no_table(source: Any) -> None:
    with pytest.raises(DataError, match=f"given '{type(source).__name__}'"):
        engine_for(source)


@pytest.mark.parametrize(
    "source", [pd.Series([1], name="a"), pl.Series("a", [1]), pa.array([1]), pa.schema([("a", pa.int8())])]
)
def test_parts_of_tables_are_refused_in_preparing(source: Any) -> None:
    """They come from the right library, so that it takes a look to see what they are."""
    with pytest.raises(DataError, match="expected columns of one type each"):
        engine_for(source).prepare(request_for([Attribute("a", size=2)]))


def test_tables_in_memory_and_engines() -> None:
    for table in (pd.DataFrame({"a": [1]}), pl.DataFrame({"a": [1]}), pl.LazyFrame({"a": [1]}), pa.table({"a": [1]})):
        assert type(scan_of(table)) is TableInMemory
    engine = CodedRecords(Schema.from_sizes({"a": 2}), [(0,)])
    assert engine_for(engine) is engine


def test_names_of_files_are_told_but_not_their_folders(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a\n"))
    assert scan_of(tmp_path).name == "file 'a.csv.gz'"
    (tmp_path / "b.csv").write_text("a\n")
    assert scan_of(tmp_path).name == "file 'a.csv.gz' and 1 more"
