"""The engine for files and tables on this machine, the default. Zone: SENSITIVE.

DuckDB reads and codes (`privcube.sensitive.coding`), in batches and in all threads; numpy counts all tables of a batch
at once (`privcube.sensitive.counting`). Text files are read as text: no type or separator is guessed from records.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from privcube.arrow import array_of
from privcube.model.attribute import Attribute
from privcube.progress import READING, Progress, silent
from privcube.sensitive.coding import DUCKDB, ColumnKind, Dialect, counted_records
from privcube.sensitive.counting import CODES_IN_MEMORY, Codes, TableCounter, checked_cells
from privcube.sensitive.counts import ExactCounts
from privcube.sensitive.duckdb_session import Columns, connected, narrow_codes
from privcube.sensitive.engine import CountRequest
from privcube.sensitive.measures.dividing import divided_places
from privcube.sensitive.reading.inquiry import Inquiry, Rows
from privcube.sensitive.refusals import checked_kinds, refuse_nobody, refuse_values, without_quotes

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_BATCH: Final = 1 << 18


class Scan(Protocol):
    """Records that DuckDB can read."""

    @property
    def name(self) -> str:
        """How messages call it."""

    @property
    def expected(self) -> str:
        """What records must be like to be read to the end."""

    @property
    def facts(self) -> dict[str, str] | None:
        """How text files are written, for people; None if it is none."""

    def columns(self, connection: duckdb.DuckDBPyConnection) -> Columns:
        """The names of the columns and what kind each is, None if it cannot be coded; no record is read."""

    def open(self, connection: duckdb.DuckDBPyConnection, used: Sequence[str]) -> str:
        """What to select these columns FROM, under the names x0, x1, ..."""


class LocalEngine:
    """Counts the records of one scan."""

    def __init__(self, scan: Scan, codes_in_memory: int = CODES_IN_MEMORY) -> None:
        self.scan = scan
        self._codes_in_memory = codes_in_memory
        self._prepared: tuple[duckdb.DuckDBPyConnection, Callable[[], object]] | None = None

    def prepare(self, request: CountRequest) -> None:
        """Check that the source can be opened and has the columns, and that the tables are not too large.

        The session stays open for `count`: to open another takes longer than to count a small file.
        """
        checked_cells([attribute.cells for attribute in request.attributes], request.positions)
        connection, close = self._session()
        try:
            self._columns(connection, request)
        except BaseException:
            close()
            raise
        self._prepared = connection, close

    def count(self, request: CountRequest, progress: Progress = silent) -> ExactCounts:
        """Read, code and count, batch by batch."""
        sizes = [attribute.cells for attribute in request.attributes]
        divided = divided_places(request.attributes)
        counter = TableCounter(sizes, request.positions, progress, self._codes_in_memory, divided=divided)
        connection, close = self._session()
        try:
            kinds = self._columns(connection, request)
            with without_quotes(self.scan.name, expected="a source that can be read"):
                source = self.scan.open(connection, request.columns)
            numbers = {name: f"x{number}" for number, name in enumerate(request.columns)}
            numbered = replace(DUCKDB, column=numbers.__getitem__)  # by name, DuckDB does not tell A from a
            done = 0
            for batch in coded_batches(connection, source, kinds, request, self.scan, numbered):
                counter.add(batch)
                done += len(batch[0])
                progress(READING, done, None)
        finally:
            close()
        return request.exact_counts(counter.finish())

    @contextmanager
    def inquiry(self) -> Iterator[Inquiry]:
        """Open the source for questions."""
        with connected() as connection:
            with without_quotes(self.scan.name, expected="a source that can be read"):
                columns = self.scan.columns(connection)

            def opened(used: Sequence[str]) -> tuple[str, Dialect]:
                with without_quotes(self.scan.name, expected="a source that can be read"):
                    source = self.scan.open(connection, used)
                numbers = {name: f"x{number}" for number, name in enumerate(used)}
                return source, replace(DUCKDB, column=numbers.__getitem__)

            def rows(query: str) -> Rows:
                with without_quotes(self.scan.name, expected=self.scan.expected):
                    return connection.sql(query).fetchall()

            yield Inquiry(self.scan.name, columns, opened, rows, self.scan.facts)

    def _session(self) -> tuple[duckdb.DuckDBPyConnection, Callable[[], object]]:
        """The session that was prepared, or a new one, and what closes it; it is closed when the engine is gone."""
        if self._prepared is not None:
            prepared, self._prepared = self._prepared, None
            return prepared
        session = ExitStack()
        return session.enter_context(connected()), weakref.finalize(self, session.close)

    def _columns(self, connection: duckdb.DuckDBPyConnection, request: CountRequest) -> dict[str, ColumnKind]:
        with without_quotes(self.scan.name, expected="a source that can be read"):
            columns = self.scan.columns(connection)
        return checked_kinds(self.scan.name, request, columns)


def coded_batches(
    connection: duckdb.DuckDBPyConnection,
    source: str,
    kinds: dict[str, ColumnKind],
    request: CountRequest,
    scan: Scan,
    dialect: Dialect = DUCKDB,
) -> Iterator[list[Codes]]:
    """The codes of all records that count, in batches; stops at the first that a policy refuses."""
    attributes = request.attributes
    records = counted_records(source, attributes, kinds, dialect, request)
    nobody = ", nobody" if request.person is not None else ""
    query = f"SELECT {narrow_codes(attributes)}{nobody} FROM ({records}) AS counted"
    with without_quotes(scan.name, expected=scan.expected):
        for batch in connection.sql(query).to_arrow_reader(_BATCH):
            if batch.num_rows:
                yield checked_codes(batch, attributes, request.person)


def checked_codes(batch: pa.RecordBatch, attributes: Sequence[Attribute], person: str | None) -> list[Codes]:
    """The codes of a batch as arrays; refused if one is null, or if a record names nobody."""
    for number, attribute in enumerate(attributes):
        if batch.column(number).null_count:
            raise refuse_values(attribute)
    if person is not None and batch.column(len(attributes)).true_count:
        raise refuse_nobody(person)
    return [array_of(batch.column(number)) for number in range(len(attributes))]
