"""Sources that DuckDB reads for the local engine: Parquet, tables in memory, DuckDB databases. Zone: SENSITIVE."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from privcube.errors import DataError, Plain
from privcube.sensitive.coding import quoted_name, quoted_text
from privcube.sensitive.duckdb_session import Columns, described
from privcube.sensitive.refusals import without_quotes
from privcube.sensitive.selects import select_from

if TYPE_CHECKING:
    import duckdb

READABLE: Final = "records that can be read to the end"
_WITH_FRACTIONS: Final[tuple[Any, ...]] = (float, np.floating, Decimal)


def found_files(pattern: str) -> list[str]:
    """The files of a path, a folder or a pattern with * and ?, in order."""
    path = Path(pattern)
    if path.is_dir():
        inside = {file: file.relative_to(path).parts for file in path.rglob("*") if file.is_file()}
        found = sorted(
            str(file) for file, parts in inside.items() if not any(part.startswith(("_", ".")) for part in parts)
        )
    else:
        found = [pattern] if path.is_file() else sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207
    if not found:
        raise DataError(f"data {pattern!r}", expected="a file, or a pattern that fits files", given=Plain("none found"))
    return found


def listed_files(files: Sequence[str]) -> str:
    """Files for DuckDB, which would take * and ? and [ for a pattern, and ~ for the home folder."""
    return f"[{', '.join(quoted_text(glob.escape(str(Path(file).absolute()))) for file in files)}]"


def numbered_columns(source: str, columns: Sequence[str]) -> str:
    """Some columns of a source as x0, x1, ..."""
    return f"(SELECT {', '.join(f'{column} AS x{number}' for number, column in enumerate(columns))} FROM {source})"


def _refuse_twins(subject: str, names: Sequence[str]) -> None:
    if len({name.casefold() for name in names}) < len(names):
        raise DataError(subject, expected="names of columns that differ, and not only in upper and lower case")


class ParquetFiles:
    """Parquet files with the same columns; those in the names of folders (year=2024) count as text."""

    expected: Final = READABLE
    facts: Final = None

    def __init__(self, files: Sequence[str]) -> None:
        self._files = files
        self.name = f"file {Path(files[0]).name!r}" + (f" and {len(files) - 1:,} more" if len(files) > 1 else "")

    def columns(self, connection: duckdb.DuckDBPyConnection) -> Columns:
        """From the footers of all files, as DuckDB would turn each column into the first file's type."""
        import pyarrow.parquet as pq

        found = [described(connection, _parquet([file])) for file in self._files]
        for file, columns in zip(self._files, found, strict=True):
            folders = [part.partition("=")[0] for part in Path(file).absolute().parts[:-1] if "=" in part]
            _refuse_twins(self.name, [*pq.read_schema(file).names, *dict.fromkeys(folders)])
            if dict(columns) != dict(found[0]):
                raise DataError(self.name, expected="the same columns, of the same kinds, in all files")
        return found[0]

    def open(self, connection: duckdb.DuckDBPyConnection, used: Sequence[str]) -> str:
        """All files at once."""
        return f"{numbered_columns(_parquet(self._files), list(map(quoted_name, used)))} AS records"


def _parquet(files: Sequence[str]) -> str:
    return f"read_parquet({listed_files(files)}, hive_types_autocast = false, union_by_name = true)"


class DuckDBFile:
    """A table, view or query of a DuckDB database file. Nothing else opens such files.

    A query is code that its author writes and the custodian trusts, but it is kept to what it is for. It must parse as
    one SELECT by itself, before it is put into any statement. PIVOT does not: DuckDB runs it to learn its columns, and
    columns must be known without data. The file is opened for reading only, and from then on the session reaches no
    other file, network or extension, and no setting of it can be changed.
    """

    expected: Final = READABLE
    facts: Final = None

    def __init__(self, file: str | Path, table: str | None, query: str | None) -> None:
        self._file = Path(file)
        asked = select_from(f"DuckDB database {self._file.name!r}", table, query)
        self.name, self._statement = asked.name, asked.statement

    def columns(self, connection: duckdb.DuckDBPyConnection) -> Columns:
        """The columns of the table or query, which is bound, not run."""
        from duckdb import StatementType

        self._attach(connection)
        with without_quotes(self.name, expected="something that is there, can be read and is one SELECT"):
            if [parsed.type for parsed in connection.extract_statements(self._statement)] != [StatementType.SELECT]:
                raise DataError(self.name, expected="one SELECT")
            _refuse_twins(self.name, connection.sql(self._statement).columns)
            return described(connection, self._asked)

    def open(self, connection: duckdb.DuckDBPyConnection, used: Sequence[str]) -> str:
        """The used columns of the table or query."""
        self._attach(connection)
        return f"{numbered_columns(self._asked, list(map(quoted_name, used)))} AS records"

    @property
    def _asked(self) -> str:
        return f"({self._statement}\n) AS asked"

    def _attach(self, connection: duckdb.DuckDBPyConnection) -> None:
        if not self._file.is_file():
            raise DataError(self.name, expected="a file that is there")
        attached = connection.sql("SELECT database_name FROM duckdb_databases() WHERE database_name = 'records'")
        if not attached.fetchall():
            with without_quotes(self.name, expected="a DuckDB file that can be read and that nobody is writing to"):
                connection.execute(f"ATTACH {quoted_text(str(self._file))} AS records (READ_ONLY)")
                connection.execute("USE records")
                connection.execute("SET enable_external_access = false")
                connection.execute("SET lock_configuration = true")


class TableInMemory:
    """A pandas or polars data frame, a pyarrow table, reader or dataset, a DuckDB relation, or any other Arrow stream.

    An Arrow stream is what has `__arrow_c_stream__`; it is asked for its batches once, as it may have them only once.
    """

    expected: Final = READABLE
    facts: Final = None

    def __init__(self, source: Any) -> None:
        self._stream: Any = None
        self._library = type(source).__module__.partition(".")[0].lstrip("_")
        self._source = source
        self._spent = False  # a reader gives its records once
        self.name = f"{self._library} {type(source).__name__}"

    def columns(self, connection: duckdb.DuckDBPyConnection) -> Columns:
        """From the types of the table; DuckDB looks at each by itself, as it does not tell A from a in names."""
        if self._spent:
            raise DataError(self.name, expected="a reader that was not read before")
        with without_quotes(self.name, expected="columns of one type each"):
            empty = self._empty()
        if self._library == "duckdb":
            _refuse_twins(self.name, self._source.columns)
        found: Columns = []
        for number, name in enumerate(empty.schema.names):
            connection.register("described", empty.select([number]).rename_columns(["x"]))
            found.append((name, described(connection, "described")[0][1]))
        return found

    def open(self, connection: duckdb.DuckDBPyConnection, used: Sequence[str]) -> str:
        """The used columns, by number."""
        with without_quotes(self.name, expected="columns of one type each"):
            connection.register("numbered", self._numbered(used))
        return "numbered"

    def _empty(self) -> Any:
        """An Arrow table with all columns and no record."""
        if self._library == "pandas":
            return _from_pandas(self._source.iloc[:0])
        if self._library == "polars":
            return self._source.head(0).lazy().collect().to_arrow()
        if self._library == "duckdb":
            return self._source.limit(0).to_arrow_table()
        if self._library == "pyarrow":
            return self._source.schema.empty_table()
        if hasattr(self._source, "__arrow_c_schema__"):
            return _schema(self._source).empty_table()
        return self._opened().schema.empty_table()

    def _opened(self) -> Any:
        import pyarrow as pa

        if self._stream is None:
            self._stream = pa.RecordBatchReader.from_stream(self._source)
        return self._stream

    def _numbered(self, used: Sequence[str]) -> Any:
        """The used columns under the names x0, x1, ..., as something that DuckDB can scan once."""
        names = [f"x{number}" for number in range(len(used))]
        if self._library == "duckdb":
            pairs = [f"{quoted_name(old)} AS {new}" for old, new in zip(used, names, strict=True)]
            return self._source.select(", ".join(pairs)).to_arrow_reader(1 << 18)
        if self._library == "pandas":
            present = list(map(str, self._source.columns))
            table = _from_pandas(self._source.iloc[:, [present.index(name) for name in used]])
        elif self._library == "polars":
            from polars.selectors import by_name  # a plain name may be taken for a pattern

            table = self._source.lazy().select(by_name(name) for name in used).collect().to_arrow()
        elif self._library != "pyarrow":
            self._spent = True
            return _renamed(self._opened(), used)
        elif hasattr(self._source, "scanner"):
            return _scanned(self._source, used)
        elif hasattr(self._source, "read_next_batch"):
            self._spent = True
            return _renamed(self._source, used)
        else:
            table = self._source.select(list(used))
        return table.rename_columns(names)


def _schema(source: Any) -> Any:
    import pyarrow as pa

    return pa.schema(source)


def _scanned(dataset: Any, used: Sequence[str]) -> Any:
    from pyarrow.compute import field

    return dataset.scanner(columns={f"x{number}": field(name) for number, name in enumerate(used)}).to_reader()


def _renamed(reader: Any, used: Sequence[str]) -> Any:
    import pyarrow as pa

    fields = [reader.schema.field(name).with_name(f"x{number}") for number, name in enumerate(used)]
    batches = (
        pa.RecordBatch.from_arrays(batch.select(list(used)).columns, schema=pa.schema(fields)) for batch in reader
    )
    return pa.RecordBatchReader.from_batches(pa.schema(fields), batches)


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
    if isinstance(value, _WITH_FRACTIONS) and abs(value) < 2**53 and value == int(value):
        return str(int(value))
    return str(value)
