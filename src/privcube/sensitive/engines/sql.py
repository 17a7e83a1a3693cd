"""The engine that has PostgreSQL count its own table, view or query, through psycopg. Zone: SENSITIVE.

The database codes the records (`privcube.sensitive.coding`) and counts each block of the cover by one plain GROUP BY on
whole numbers made of the codes; the tables are summed from the blocks here. With a person column, or if there would be
many blocks, the database codes the records once, groups them if they can say little, and they are counted here as they
come. All is read in one read-only snapshot. What a driver says never leaves this module, as it may quote records.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privcube.errors import DataError
from privcube.extras import load
from privcube.model.attribute import Attribute
from privcube.progress import COUNTING, READING, Progress, silent
from privcube.sensitive.coding import POSTGRESQL, ColumnKind, counted_records
from privcube.sensitive.counting import Counts, TableCounter, checked_cells, code_bytes, summed
from privcube.sensitive.counts import ExactCounts
from privcube.sensitive.cover import Block, Positions, cover_by_measures
from privcube.sensitive.engine import CountRequest
from privcube.sensitive.measures.dividing import (
    assembled,
    cell_and_more,
    checked_parts,
    divided_places,
    records_of,
    subsets,
)
from privcube.sensitive.reading.inquiry import Inquiry, Rows
from privcube.sensitive.refusals import checked_kinds, refuse_nobody, refuse_values, without_quotes
from privcube.sensitive.selects import select_from

Numbers = NDArray[np.int64]

_BATCH: Final = 1 << 18
_MANY_TABLES: Final = 2_000  # beyond, the cover takes long to find and has many blocks
_MOST_SCANS: Final = 4  # blocks that are counted one by one (benchmarks/sql_counting.py)
_LARGEST_GROUPED: Final = 1 << 20  # combinations of codes; where there are more, few records say the same
_LARGEST_WORD: Final = 1 << 62


def postgresql_engine(url: str, table: str | None, query: str | None) -> SqlEngine:
    """The engine for a table, a view or a query of a PostgreSQL database."""
    database = PostgreSQLDatabase(url)
    asked = select_from(database.name, table, query)
    return SqlEngine(database, asked.name, asked.statement)


class SqlEngine:
    """Counts what one SELECT gives."""

    def __init__(self, database: PostgreSQLDatabase, name: str, statement: str, most_scans: int = _MOST_SCANS) -> None:
        self._database = database
        self._name = name
        self._statement = statement
        self._most_scans = most_scans

    def prepare(self, request: CountRequest) -> None:
        """Check the login, the columns, the size of the tables, and that the database can code; read no record."""
        checked_cells(_sizes(request), request.positions)
        with self._database.snapshot() as connection:
            kinds = self._kinds(connection, request)
            query, _ = self._grouped(request, kinds, request.attributes)
            with without_quotes(self._name, expected="a database that can code the declared values and count"):
                list(self._database.numbers(connection, f"{query} LIMIT 0"))

    def count(self, request: CountRequest, progress: Progress = silent) -> ExactCounts:
        """Count by blocks, or as the records come."""
        sizes = _sizes(request)
        checked_cells(sizes, request.positions)
        by_blocks = request.person is None and len(request.tables) <= _MANY_TABLES
        blocks = cover_by_measures(sizes, request.positions, divided_places(request.attributes)) if by_blocks else None
        with self._database.snapshot() as connection:
            kinds = self._kinds(connection, request)
            if blocks is not None and len(blocks) <= self._most_scans:
                counts = self._count_there(connection, request, kinds, blocks, progress)
            else:
                counts = self._count_here(connection, request, kinds, blocks, progress)
        return request.exact_counts(counts)

    @contextmanager
    def inquiry(self) -> Iterator[Inquiry]:
        """Open the source for questions, in one snapshot."""
        with self._database.snapshot() as connection:
            with without_quotes(self._name, expected="something that is there, can be read and is one SELECT"):
                columns = self._database.columns(connection, self._statement)

            def rows(query: str) -> Rows:
                with without_quotes(self._name, expected="records that can be read, by a connection that lasts"):
                    return list(connection.execute(query))

            source = f"({self._statement}\n) AS asked"
            yield Inquiry(self._name, columns, lambda used: (source, POSTGRESQL), rows)

    def _kinds(self, connection: Any, request: CountRequest) -> dict[str, ColumnKind]:
        with without_quotes(self._name, expected="something that is there, can be read and is one SELECT"):
            columns = self._database.columns(connection, self._statement)
        return checked_kinds(self._name, request, columns)

    def _count_there(
        self,
        connection: Any,
        request: CountRequest,
        kinds: dict[str, ColumnKind],
        blocks: Sequence[Block],
        progress: Progress,
    ) -> dict[Positions, Counts]:
        """One GROUP BY per block; even without a table of attributes one is coded, so that its policies are kept."""
        counts: dict[Positions, Counts] = {}
        everywhere = divided_places(request.attributes)
        for block in blocks:
            places = block.attributes or (0,)
            attributes = [request.attributes[place] for place in places]
            divided = divided_places(attributes)
            checked_parts(tuple(divided), divided)
            shape = [attribute.cells for attribute in attributes]
            sums = {which: np.zeros(shape, dtype=np.int64) for which in subsets(tuple(divided))}
            with closing(self._groups(connection, request, kinds, attributes, tuple(divided))) as groups:
                for codes, times in groups:
                    for own, added in zip(sums.values(), np.atleast_2d(times.T), strict=True):
                        np.add.at(own, tuple(codes), added)
            whole = assembled(sums, tuple(range(len(places))), divided)
            for table in block.tables:
                counts[table] = records_of(summed(whole, places, table), places, table, everywhere)
            progress(COUNTING, len(counts), len(request.tables))
        return counts

    def _count_here(
        self,
        connection: Any,
        request: CountRequest,
        kinds: dict[str, ColumnKind],
        blocks: Sequence[Block] | None,
        progress: Progress,
    ) -> dict[Positions, Counts]:
        """Code all records by one query and count them here."""
        sizes, divided = _sizes(request), divided_places(request.attributes)
        counter = TableCounter(sizes, request.positions, progress, blocks=blocks, divided=divided)
        done = 0
        with closing(self._groups(connection, request, kinds, request.attributes)) as groups:
            for codes, times in groups:
                narrow = [
                    code.astype(f"u{code_bytes(attribute.codes)}")
                    for code, attribute in zip(codes, request.attributes, strict=True)
                ]
                ends = np.cumsum(times)
                for start in range(0, int(ends[-1]), _BATCH):
                    records = np.arange(start, min(start + _BATCH, int(ends[-1])))
                    group = np.searchsorted(ends, records, side="right")
                    counter.add([code[group] for code in narrow])
                done += int(ends[-1])
                progress(READING, done, None)
        return counter.finish()

    def _groups(
        self,
        connection: Any,
        request: CountRequest,
        kinds: dict[str, ColumnKind],
        attributes: Sequence[Attribute],
        measures: tuple[int, ...] = (),
    ) -> Generator[tuple[list[Numbers], Numbers], None, None]:
        """Codes of records, and how many records each stands for, in batches.

        With measures there are cells in place of their codes, and beside the number of records what
        `privcube.sensitive.measures.dividing` asks for, a column for each set of measures.
        """
        query, radices = self._grouped(request, kinds, attributes, measures)
        sums = len(subsets(measures))
        with (
            without_quotes(self._name, expected="records that can be read, by a connection that lasts to the end"),
            closing(self._database.numbers(connection, query)) as batches,
        ):
            for batch in batches:
                digits = unpacked(batch[:, :-sums], radices)
                for attribute, digit, radix in zip(attributes, digits, radices, strict=False):
                    if np.any(digit == radix - 1):
                        raise refuse_values(attribute)
                if request.person is not None and np.any(digits[-1]):
                    raise refuse_nobody(request.person)
                yield digits[: len(attributes)], batch[:, -sums:] if measures else batch[:, -1]

    def _grouped(
        self,
        request: CountRequest,
        kinds: dict[str, ColumnKind],
        attributes: Sequence[Attribute],
        measures: tuple[int, ...] = (),
    ) -> tuple[str, list[int]]:
        """The query for groups of codes, and the radices of its numbers: one digit more for what is refused."""
        source, dialect = f"({self._statement}\n) AS asked", POSTGRESQL
        divided = {place: cell_and_more(attributes[place], f"c{place}") for place in measures}
        codes = [divided[place][0] if place in divided else f"c{place}" for place in range(len(attributes))]
        most = [own.cells if place in divided else own.codes for place, own in enumerate(attributes)]
        digits = [f"COALESCE({code}, {size})" for code, size in zip(codes, most, strict=True)]
        radices = [size + 1 for size in most]
        records = counted_records(source, attributes, kinds, dialect, request)
        if request.person is not None:
            digits.append("CASE WHEN nobody THEN 1 ELSE 0 END")
            radices.append(2)
        words = packed(digits, radices)
        parts = [
            " * ".join(f"CAST(COALESCE({divided[place][1]}, 0) AS {_narrowest(attributes, which)})" for place in which)
            for which in subsets(measures)[1:]
        ]
        if math.prod(most) > _LARGEST_GROUPED:
            wide = [f"CAST({own} AS INT8)" for own in ("1", *parts)]
            return f"SELECT {', '.join([*words, *wide])} FROM ({records}) AS counted", radices
        places = ", ".join(str(number + 1) for number in range(len(words)))
        sums = [f"CAST(sum({own}) AS INT8)" for own in parts]
        return f"SELECT {', '.join([*words, 'count(*)', *sums])} FROM ({records}) AS counted GROUP BY {places}", radices


def _sizes(request: CountRequest) -> list[int]:
    return [attribute.cells for attribute in request.attributes]


def _narrowest(attributes: Sequence[Attribute], which: Sequence[int]) -> str:
    """The narrowest whole number that holds the parts of one record; PostgreSQL adds those of 32 bits up fastest."""
    grids = [grid for place in which if (grid := attributes[place].grid) is not None]
    return "INT4" if math.prod(grid.parts for grid in grids) < 2**31 else "INT8"


def packed(digits: Sequence[str], radices: Sequence[int]) -> list[str]:
    """SQL for digits of mixed radix as few whole numbers of 64 bits.

    >>> packed(["c0", "c1"], [3, 4])
    ['(CAST(c0 AS INT8) * 4 + CAST(c1 AS INT8))']
    """
    words = []
    for run in _runs(radices):
        word = f"CAST({digits[run[0]]} AS INT8)"
        for place in run[1:]:
            word = f"({word} * {radices[place]} + CAST({digits[place]} AS INT8))"
        words.append(word)
    return words


def unpacked(words: Numbers, radices: Sequence[int]) -> list[Numbers]:
    """The digits of each row of numbers.

    >>> unpacked(np.array([[11], [4]]), [3, 4])
    [array([2, 1]), array([3, 0])]
    """
    digits: list[Numbers] = []
    for rest, run in zip(words.T, _runs(radices), strict=True):
        found = []
        for place in reversed(run):
            rest, digit = np.divmod(rest, radices[place])
            found.append(digit)
        digits += reversed(found)
    return digits


def _runs(radices: Sequence[int]) -> list[range]:
    """Which digits share a number."""
    runs, size = [range(0)], 1
    for place, radix in enumerate(radices):
        if runs[-1] and size * radix <= _LARGEST_WORD:
            runs[-1], size = range(runs[-1].start, place + 1), size * radix
        else:
            runs, size = [*runs, range(place, place + 1)], radix
    return runs[1:]


class PostgreSQLDatabase:
    """PostgreSQL 12 or later, through psycopg."""

    def __init__(self, url: str) -> None:
        self._psycopg = load("psycopg", extra="postgres", purpose="records in PostgreSQL")
        self._url = f"postgresql:{url.partition(':')[2]}"
        try:
            told = self._psycopg.conninfo.conninfo_to_dict(self._url)
        except self._psycopg.Error:
            told = {"port": "unknown"}
        # of a password with @ or / in it, libpq takes a part for the host or the database: it must not be shown
        clear = not any("@" in str(told.get(key, "")) for key in ("host", "dbname"))
        if not clear or not str(told.get("port", 0)).replace(",", "").isdigit():
            raise DataError(
                "source",
                expected="a URL such as postgresql://user@host:5432/database, with other signs as %40 and so on",
            )
        self._settings = {**_CONNECTION, **{key: told[key] for key in _CONNECTION if key in told}}
        self.name = "PostgreSQL database" + "".join(
            f"{word}{told[key]!r}" for word, key in ((" ", "dbname"), (" on ", "host")) if key in told
        )

    @contextmanager
    def snapshot(self) -> Iterator[Any]:
        """A transaction for reading only; settings of the server or the user that change texts are overruled."""
        connection = self._connect()
        try:
            with without_quotes(self.name, expected="a server that takes commands"):
                connection.isolation_level = self._psycopg.IsolationLevel.REPEATABLE_READ
                connection.read_only = True
                for setting in _SETTINGS:
                    connection.execute(f"SET LOCAL {setting}")
            yield connection
        finally:
            connection.close()

    def columns(self, connection: Any, statement: str) -> list[tuple[str, ColumnKind | None]]:
        """From the description of a result without rows, in which a domain is the type it is made of.

        The server first parses the statement alone, as one command: it must not be able to end the parenthesis that it
        is put into. In the binary format, too, the server takes one command only: nothing can follow a query.
        """
        if connection.pgconn.prepare(b"", statement.encode()).status != self._psycopg.pq.ExecStatus.COMMAND_OK:
            raise self._psycopg.ProgrammingError  # what the server says may quote records, so it is left out
        found = connection.execute(f"SELECT * FROM ({statement}\n) AS asked LIMIT 0", binary=True).description
        texts = "SELECT CAST(oid AS INT8) FROM pg_catalog.pg_type WHERE typtype = 'e' OR typcategory = 'S'"
        kinds: dict[int, ColumnKind] = {oid: "text" for (oid,) in connection.execute(texts)}
        kinds |= _KINDS
        return [(column.name, kinds.get(column.type_code)) for column in found]

    def numbers(self, connection: Any, query: str) -> Generator[Numbers, None, None]:
        """Rows as they come: unlike a cursor on the server, this lets it count in parallel."""
        size = 1_000 if self._psycopg.pq.version() >= 170_000 else 1  # rows at a time, which older libraries cannot
        with connection.cursor() as cursor, closing(cursor.stream(query, binary=True, size=size)) as rows:
            while batch := list(islice(rows, _BATCH)):
                yield np.array(batch, dtype=np.int64)

    def _connect(self) -> Any:
        try:
            return self._psycopg.connect(self._url, **self._settings)
        except self._psycopg.Error as error:
            asked = error.pgconn is not None and error.pgconn.used_password
        login = "a user, password and database that the server accepts"
        raise DataError(self.name, expected=login if asked else f"a server that answers there, and {login}")


_SETTINGS: Final = (
    "client_encoding = 'UTF8'", "datestyle = 'ISO'", "timezone = 'UTC'", "standard_conforming_strings = on",
)  # fmt: skip
_CONNECTION: Final[dict[str, Any]] = {
    "connect_timeout": 10,
    "keepalives_idle": 30,  # seconds; then a server that is gone is noticed within another 30
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "application_name": "privcube",
}
_KINDS: Final[dict[int, ColumnKind]] = {
    16: "boolean",
    20: "integer", 21: "integer", 23: "integer",
    700: "float", 701: "float",
    1700: "decimal",
    1082: "text", 2950: "text",  # date, uuid
    1114: "timestamp", 1184: "instant",
}  # fmt: skip
