"""Which engine counts a source: a path, a URL or a table in memory. Zone: SENSITIVE."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from privcube.errors import DataError
from privcube.model.columns.text_files import TextFile
from privcube.sensitive.engine import Engine
from privcube.sensitive.engines.local import LocalEngine
from privcube.sensitive.reading.text_files import CsvFiles
from privcube.sensitive.scans import DuckDBFile, ParquetFiles, TableInMemory, found_files

_TEXT_FILES: Final = (".csv", ".tsv", ".txt")
_PARQUET_FILES: Final = (".parquet", ".pq")
_DATABASES: Final = (".duckdb", ".ddb", ".db")
_IN_MEMORY: Final = ("pandas", "polars", "pyarrow", "duckdb", "_duckdb")


def engine_for(source: Any, table: str | None = None, query: str | None = None, text: TextFile | None = None) -> Engine:
    """The engine for a source; a table or query is for databases, and how text is written is for text files."""
    engine = _engine_for(source, table, query, text or TextFile())
    if text is not None and text != TextFile():
        scan = engine.scan if isinstance(engine, LocalEngine) else None
        if not isinstance(scan, CsvFiles):
            raise DataError("data", expected="a text file, as encoding, separator and decimal are for these")
    return engine


def _engine_for(source: Any, table: str | None, query: str | None, written: TextFile) -> Engine:
    if isinstance(source, str | os.PathLike):
        text = os.fspath(source)
        if "://" in text or text.startswith("spark:"):
            return _engine_for_url(text, table, query)
        return LocalEngine(_files(text, table, query, written))
    if table is not None or query is not None:
        raise DataError(
            "source", expected="a database, as a table or a query of it is given", given=type(source).__name__
        )
    library = type(source).__module__.partition(".")[0]
    if library == "pyspark":
        from privcube.sensitive.engines.spark import SparkEngine

        return SparkEngine(source)
    if callable(getattr(source, "prepare", None)) and callable(getattr(source, "count", None)):
        return source  # type: ignore[no-any-return]
    if library in _IN_MEMORY or hasattr(source, "__arrow_c_stream__"):
        return LocalEngine(TableInMemory(source))
    raise DataError(
        "source",
        expected="a path, a URL, a Spark DataFrame, or a table of pandas, polars, pyarrow, DuckDB or another library "
        "that has __arrow_c_stream__",
        given=type(source).__name__,
    )


def _engine_for_url(url: str, table: str | None, query: str | None) -> Engine:
    scheme = url.partition(":")[0].lower()
    if scheme == "duckdb":
        return LocalEngine(DuckDBFile(url.partition("://")[2], table, query))
    if scheme in ("postgresql", "postgres"):
        from privcube.sensitive.engines.sql import postgresql_engine

        return postgresql_engine(url, table, query)
    if scheme == "spark":
        from privcube.sensitive.engines.spark import spark_table

        return spark_table(table or url.partition(":")[2].lstrip("/"), query)
    raise DataError(
        "source", expected="a URL of a kind that is known", given=scheme, available=["postgresql", "duckdb", "spark"]
    )


def _files(text: str, table: str | None, query: str | None, written: TextFile) -> CsvFiles | ParquetFiles | DuckDBFile:
    files = found_files(text)
    endings = {_ending(file) for file in files}
    if endings <= set(_DATABASES) and len(files) == 1:
        return DuckDBFile(files[0], table, query)
    if table is not None or query is not None:
        raise DataError(f"file {Path(files[0]).name!r}", expected="no table and no query, which are for databases")
    if endings <= set(_TEXT_FILES):
        return CsvFiles(files, written)
    if endings <= set(_PARQUET_FILES):
        return ParquetFiles(files)
    raise DataError(
        f"data {text!r}",
        expected="files of one kind (save a spreadsheet as CSV)",
        given=", ".join(sorted(endings)),
        available=[".csv", ".csv.gz", ".csv.zst", ".tsv", ".txt", ".parquet", ".duckdb"],
    )


def _ending(file: str) -> str:
    path = Path(file)
    if path.suffix.lower() in (".gz", ".zst"):
        path = path.with_suffix("")
        return path.suffix.lower() if path.suffix.lower() in _TEXT_FILES else path.suffix.lower() + Path(file).suffix
    return path.suffix.lower()
