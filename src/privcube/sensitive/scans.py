"""Sources that DuckDB reads for the local engine: files, tables in memory, DuckDB databases. Zone: SENSITIVE."""

from __future__ import annotations

import csv
import glob
import io
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from privcube.errors import DataError
from privcube.sensitive.coding import ColumnKind, quoted_name, quoted_text
from privcube.sensitive.refusals import without_quotes

if TYPE_CHECKING:
    import duckdb

Columns = list[tuple[str, ColumnKind | None]]

_SEPARATORS: Final = ",;\t|"
_LONGEST_HEADER: Final = 1 << 20


def column_kind(kind: str) -> ColumnKind | None:
    """What DuckDB calls a type, as the coding rule sees it; None for what cannot be coded.

    >>> [column_kind(kind) for kind in ("VARCHAR", "UTINYINT", "DECIMAL(9,2)", "DATE", "ENUM('a')", "INTEGER[]")]
    ['text', 'integer', 'decimal', 'text', 'text', None]
    """
    if kind.endswith("]"):
        return None
    plain = kind.partition("(")[0]
    if plain in ("VARCHAR", "ENUM", "UUID", "DATE"):
        return "text"
    if plain.endswith(("INT", "INTEGER")):
        return "integer"
    if plain in ("FLOAT", "DOUBLE"):
        return "float"
    return {"DECIMAL": "decimal", "BOOLEAN": "boolean"}.get(plain)  # type: ignore[return-value]


def described(connection: duckdb.DuckDBPyConnection, source: str) -> Columns:
    """The columns of anything that can be selected from; the query is bound, not run."""
    relation = connection.sql(f"SELECT * FROM {source} LIMIT 0")
    return [(name, column_kind(str(kind))) for name, kind in zip(relation.columns, relation.types, strict=True)]


def found_files(pattern: str) -> list[str]:
    """The files of a path, a folder or a pattern with * and ?, in order."""
    path = Path(pattern)
    if path.is_dir():
        found = sorted(str(file) for file in path.rglob("*") if file.is_file() and not file.name.startswith(("_", ".")))
    else:
        found = [pattern] if path.is_file() else sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207
    if not found:
        raise DataError(f"data {pattern!r}", expected="a file, or a pattern that fits files", given="none there")
    return found


class CsvFiles:
    """Text files with a header, read as text; the header tells the separator: , ; tab or |."""

    def __init__(self, files: Sequence[str]) -> None:
        self._files = files
        self.name = f"file {Path(files[0]).name!r}" + (f" and {len(files) - 1:,} more" if len(files) > 1 else "")

    def columns(self, connection: duckdb.DuckDBPyConnection) -> Columns:
        """The names in the header; all are text."""
        headers = {_header(file) for file in self._files}
        first = next(iter(headers))
        for names, _ in headers:
            if sorted(names) != sorted(first[0]):
                raise DataError(self.name, expected="the same columns in all files")
        return [(name, "text") for name in first[0]]

    def open(self, connection: duckdb.DuckDBPyConnection, used: Sequence[str]) -> str:
        """One reading per order of columns; columns go by number, as DuckDB does not tell A from a in names."""
        alike: defaultdict[tuple[tuple[str, ...], str], list[str]] = defaultdict(list)
        for file in self._files:
            alike[_header(file)].append(file)
        readings = []
        for (names, separator), files in alike.items():
            wanted = ", ".join(f"x{names.index(name)} AS {quoted_name(name)}" for name in used)
            types = ", ".join(f"'x{number}': 'VARCHAR'" for number in range(len(names)))
            readings.append(
                f"SELECT {wanted} FROM read_csv([{', '.join(map(quoted_text, files))}], auto_detect = false, "
                f"header = true, delim = {quoted_text(separator)}, quote = '\"', escape = '\"', "
                f"columns = {{{types}}}, strict_mode = true, null_padding = false)"
            )
        return f"({' UNION ALL '.join(readings)}) AS records"


def _header(file: str) -> tuple[tuple[str, ...], str]:
    """The names in the first line, and the separator that gives most of them."""
    import pyarrow as pa

    with pa.input_stream(file, compression="detect") as stream:
        lines = io.StringIO(stream.read(_LONGEST_HEADER).decode("utf-8-sig", errors="ignore"), newline="")
    separator = max(_SEPARATORS, key=lambda mark: _fields(lines, mark).__len__())
    names = _fields(lines, separator)
    return tuple(names), separator


def _fields(lines: io.StringIO, separator: str) -> list[str]:
    lines.seek(0)
    return next(csv.reader(lines, delimiter=separator), [])


class ParquetFiles:
    """Parquet files with the same columns; those in the names of folders (year=2024) count as text."""

    def __init__(self, files: Sequence[str]) -> None:
        self._source = f"read_parquet([{', '.join(map(quoted_text, files))}], hive_types_autocast = false)"
        self.name = f"file {Path(files[0]).name!r}" + (f" and {len(files) - 1:,} more" if len(files) > 1 else "")

    def columns(self, connection: duckdb.DuckDBPyConnection) -> Columns:
        """From the first file's footer."""
        found = described(connection, self._source)
        if len({name.casefold() for name, _ in found}) < len(found):
            raise DataError(self.name, expected="names of columns that differ not only in upper and lower case")
        return found

    def open(self, connection: duckdb.DuckDBPyConnection, used: Sequence[str]) -> str:
        """All files at once."""
        return self._source


class DuckDBFile:
    """A table, view or query of a DuckDB database file, opened for reading only."""

    def __init__(self, file: str, table: str | None, query: str | None) -> None:
        self.name = f"database {Path(file).name!r}"
        if (table is None) == (query is None):
            raise DataError(self.name, expected="a table or a query to read from it")
        self._file = file
        self._what = (
            f"({query}\n) AS asked" if query is not None else ".".join(map(quoted_name, (table or "").split(".")))
        )

    def columns(self, connection: duckdb.DuckDBPyConnection) -> Columns:
        """Of the table or query."""
        return described(connection, self.open(connection, ()))

    def open(self, connection: duckdb.DuckDBPyConnection, used: Sequence[str]) -> str:
        """Attach the file."""
        if not Path(self._file).is_file():
            raise DataError(self.name, expected="a file that is there")
        attached = connection.sql("SELECT database_name FROM duckdb_databases() WHERE database_name = 'records'")
        if not attached.fetchall():
            connection.execute(f"ATTACH {quoted_text(self._file)} AS records (READ_ONLY)")
            connection.execute("USE records")
        return self._what


class TableInMemory:
    """A pandas or polars data frame, a pyarrow table, reader or dataset, or a DuckDB relation."""

    def __init__(self, source: Any) -> None:
        self._library = type(source).__module__.partition(".")[0].lstrip("_")
        self._source = source
        self.name = f"{self._library} {type(source).__name__}"

    def columns(self, connection: duckdb.DuckDBPyConnection) -> Columns:
        """From the types of the table; DuckDB looks at each by itself, as it does not tell A from a in names."""
        with without_quotes(self.name, expected="columns of one type each"):
            empty = self._empty()
        found: Columns = []
        for number, name in enumerate(empty.schema.names):
            connection.register("described", empty.select([number]).rename_columns(["x"]))
            found.append((name, described(connection, "described")[0][1]))
        return found

    def open(self, connection: duckdb.DuckDBPyConnection, used: Sequence[str]) -> str:
        """The used columns, by number."""
        with without_quotes(self.name, expected="columns of one type each"):
            connection.register("numbered", self._numbered(used))
        wanted = ", ".join(f"x{number} AS {quoted_name(name)}" for number, name in enumerate(used))
        return f"(SELECT {wanted} FROM numbered) AS records"

    def _empty(self) -> Any:
        """An Arrow table with all columns and no record."""
        if self._library == "pandas":
            return _from_pandas(self._source.iloc[:0])
        if self._library == "polars":
            return self._source.head(0).lazy().collect().to_arrow()
        if self._library == "duckdb":
            return self._source.limit(0).to_arrow_table()
        return self._source.schema.empty_table()

    def _numbered(self, used: Sequence[str]) -> Any:
        """The used columns under the names x0, x1, ..., as something that DuckDB can scan once."""
        names = [f"x{number}" for number in range(len(used))]
        if self._library == "duckdb":
            pairs = [f"{quoted_name(old)} AS {new}" for old, new in zip(used, names, strict=True)]
            return self._source.select(", ".join(pairs)).to_arrow_reader(1 << 18)
        if self._library == "pandas":
            table = _from_pandas(self._source[list(used)])
        elif self._library == "polars":
            table = self._source.lazy().select(list(used)).collect().to_arrow()
        elif hasattr(self._source, "to_table"):
            table = self._source.to_table(columns=list(used))
        else:
            whole = self._source.read_all() if hasattr(self._source, "read_all") else self._source
            table = whole.select(list(used))
        return table.rename_columns(names)


def _from_pandas(frame: Any) -> Any:
    import pyarrow as pa

    columns = [_pandas_column(frame.iloc[:, number]) for number in range(frame.shape[1])]
    return pa.table(columns, names=[str(name) for name in frame.columns])


def _pandas_column(column: Any) -> Any:
    """A column of a data frame; one of Python objects counts as text, each written as the coding rule writes it."""
    import pyarrow as pa

    if column.dtype == object:
        return pa.array([_plain_text(value) for value in column], type=pa.string())
    array = pa.Array.from_pandas(column)
    kind = array.type
    return array.cast(kind.value_type) if pa.types.is_dictionary(kind) else array


def _plain_text(value: Any) -> str | None:
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
        return None
    if type(value).__name__ in ("bool", "bool_"):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)
