"""The engine for files and tables on this machine, the default. Zone: SENSITIVE.

DuckDB reads and codes (`privcube.sensitive.coding`), in batches and in all threads; numpy counts all tables of a batch
at once (`privcube.sensitive.counting`). Text files are read as text: no type or separator is guessed from records.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from privcube.model.attribute import Attribute
from privcube.sensitive.coding import DUCKDB, ColumnKind, coded_records, kept_records
from privcube.sensitive.counting import Codes, TableCounter, code_bytes
from privcube.sensitive.counts import ExactCounts
from privcube.sensitive.engine import CountRequest
from privcube.sensitive.progress import READING, Progress, silent
from privcube.sensitive.refusals import checked_kinds, refuse_nobody, refuse_values, without_quotes

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_BATCH: Final = 1 << 18
_MEMORY: Final = "1GB"  # for DuckDB; a sort by person that needs more goes to a private temporary folder
_CODE_TYPES: Final = {1: "UTINYINT", 2: "USMALLINT", 4: "UINTEGER"}


class Scan(Protocol):
    """Records that DuckDB can read."""

    @property
    def name(self) -> str:
        """How messages call it."""

    def columns(self, connection: duckdb.DuckDBPyConnection) -> list[tuple[str, ColumnKind | None]]:
        """The names of the columns and what kind each is, None if it cannot be coded; no record is read."""

    def open(self, connection: duckdb.DuckDBPyConnection, used: Sequence[str]) -> str:
        """What to select these columns FROM."""


class LocalEngine:
    """Counts the records of one scan."""

    def __init__(self, scan: Scan, codes_in_memory: int | None = None) -> None:
        self._scan = scan
        self._limits = {} if codes_in_memory is None else {"codes_in_memory": codes_in_memory}

    def prepare(self, request: CountRequest) -> None:
        """Check that the source can be opened and has the columns."""
        with connected() as connection:
            self._columns(connection, request)

    def count(self, request: CountRequest, progress: Progress = silent) -> ExactCounts:
        """Read, code and count, batch by batch."""
        sizes = [attribute.cells for attribute in request.attributes]
        counter = TableCounter(sizes, request.positions, progress, **self._limits)
        with connected() as connection:
            kinds = self._columns(connection, request)
            with without_quotes(self._scan.name, expected="a source that can be read"):
                source = self._scan.open(connection, request.columns)
            done = 0
            for batch in coded_batches(connection, source, kinds, request, self._scan.name):
                counter.add(batch)
                done += len(batch[0])
                progress(READING, done, None)
        return request.exact_counts(counter.finish())

    def _columns(self, connection: duckdb.DuckDBPyConnection, request: CountRequest) -> dict[str, ColumnKind]:
        with without_quotes(self._scan.name, expected="a source that can be read"):
            columns = self._scan.columns(connection)
        return checked_kinds(self._scan.name, request, columns)


def coded_batches(
    connection: duckdb.DuckDBPyConnection,
    source: str,
    kinds: dict[str, ColumnKind],
    request: CountRequest,
    name: str,
) -> Iterator[list[Codes]]:
    """The codes of all records that count, in batches; stops at the first that a policy refuses."""
    attributes = request.attributes
    if request.person is None:
        records = coded_records(source, attributes, kinds, DUCKDB)
    else:
        records = kept_records(
            source, attributes, kinds, DUCKDB,
            person=request.person, max_rows=request.max_rows_per_person, key=request.key,
        )  # fmt: skip
    columns = [
        f"CAST(c{number} AS {_CODE_TYPES[code_bytes(attribute.cells)]}) AS c{number}"
        for number, attribute in enumerate(attributes)
    ]
    query = f"SELECT {', '.join(columns)}{', nobody' if request.person is not None else ''} FROM ({records}) AS counted"
    with without_quotes(name, expected="records that can be read to the end"):
        reader = connection.sql(query).to_arrow_reader(_BATCH)
        for batch in reader:
            if batch.num_rows:
                yield checked_codes(batch, attributes, request.person)


def checked_codes(batch: pa.RecordBatch, attributes: Sequence[Attribute], person: str | None) -> list[Codes]:
    """The codes of a batch as arrays; refused if one is null, or if a record names nobody."""
    for number, attribute in enumerate(attributes):
        if batch.column(number).null_count:
            raise refuse_values(attribute)
    if person is not None and np.any(batch.column(len(attributes)).to_numpy(zero_copy_only=False)):
        raise refuse_nobody(person)
    return [batch.column(number).to_numpy() for number in range(len(attributes))]


@contextmanager
def connected() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB of our own: quiet, bounded, without extensions from elsewhere; its overflow folder is removed."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix="privcube-") as folder:
        settings: dict[str, Any] = {
            "memory_limit": _MEMORY,
            "temp_directory": folder,
            "autoinstall_known_extensions": False,
            "preserve_insertion_order": False,
        }
        connection = duckdb.connect(":memory:", config=settings)
        try:
            connection.execute("SET enable_progress_bar = false")
            yield connection
        finally:
            connection.close()
