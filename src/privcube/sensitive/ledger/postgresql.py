"""Ledgers in a PostgreSQL database, for several machines. Zone: SENSITIVE.

One table holds the events of all ledgers, told apart by their data sets. Writers take turns by an advisory lock, read
in READ COMMITTED once they have it, so that they see all that was committed, and commit with synchronous_commit on. If
the lock failed, the primary key would still refuse a second event in the same place.

Errors of the driver may quote the URL; each is replaced by one sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from privcube import extras
from privcube.errors import LedgerError
from privcube.sensitive.ledger.account import Row

_PATIENCE: Final = 30  # seconds to wait for the server, and for other writers
_LOCK: Final = int.from_bytes(b"privcube")  # of the whole database, so that two ledgers can be made at once
_EXISTS: Final = "SELECT to_regclass('privcube_ledger_events') IS NOT NULL"
_CREATE: Final = """
CREATE TABLE privcube_ledger_events (
    dataset text NOT NULL,
    sequence bigint NOT NULL,
    previous text NOT NULL,
    event text NOT NULL,
    hash text NOT NULL,
    PRIMARY KEY (dataset, sequence)
)"""
_SELECT: Final = (
    "SELECT sequence, previous, event, hash FROM privcube_ledger_events WHERE dataset = %s ORDER BY sequence"
)
_INSERT: Final = (
    "INSERT INTO privcube_ledger_events (dataset, sequence, previous, event, hash) VALUES (%s, %s, %s, %s, %s)"
)
_SETTINGS: Final = """
SELECT set_config('synchronous_commit', 'on', true),
    set_config('lock_timeout', %(patience)s, true),
    set_config('idle_in_transaction_session_timeout', %(patience)s, true)
"""  # the last one frees the lock of a machine that is gone
_EXPECTED: Final = {  # by SQLSTATE; without one, there was no connection
    None: "a database that can be reached, and a user that may log in",
    "23505": "one writer at a time; another one was faster, try again",
    "25006": "a database that can be written",
    "42501": "a user that may read and add rows of privcube_ledger_events, and may create it if it is not there",
    "53100": "room on the disk",
    "55P03": f"to be free within {_PATIENCE} seconds; others keep it busy",
}


class PostgreSQLStore:
    """The events of one data set's ledger in a database."""

    def __init__(self, url: str, dataset: str) -> None:
        self._url, self._dataset = url, dataset
        self.name = f"ledger {_without_password(url)!r}"

    def rows(self) -> list[Row]:
        """All events; none if the table or its rows are not there."""
        with self._connection() as connection:
            return self._rows(connection) if _has_table(connection) else []

    def create(self, first: Row) -> None:
        """Make the table, unless there is one, and the ledger in it, unless there is one."""
        with self._locked() as connection:
            if not _has_table(connection):
                connection.execute(_CREATE)
            if not self._rows(connection):
                self._insert(connection, first)

    @contextmanager
    def writing(self) -> Iterator[tuple[list[Row], Callable[[Row], object]]]:
        """While nobody else can write: all events, and a way to add the next."""
        with self._locked() as connection:
            yield self._rows(connection), lambda row: self._insert(connection, row)

    @contextmanager
    def _locked(self) -> Iterator[Any]:
        with self._connection() as connection:
            connection.execute(_SETTINGS, {"patience": f"{_PATIENCE}s"})
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            yield connection

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        """A connection with one transaction, which is committed at the end or undone."""
        psycopg = _driver()
        try:
            with psycopg.connect(self._url, connect_timeout=_PATIENCE, client_encoding="utf8") as connection:
                connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
                yield connection
        except psycopg.Error as problem:
            expected = _EXPECTED.get(problem.sqlstate, "a PostgreSQL database in order")
            raise LedgerError(self.name, expected=expected) from None

    def _rows(self, connection: Any) -> list[Row]:
        return [Row(*row) for row in connection.execute(_SELECT, [self._dataset])]

    def _insert(self, connection: Any, row: Row) -> None:
        connection.execute(_INSERT, [self._dataset, *row])


def _has_table(connection: Any) -> bool:
    return bool(connection.execute(_EXISTS).fetchone()[0])


def _without_password(url: str) -> str:
    psycopg = _driver()
    try:
        parts = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        raise LedgerError("ledger", expected="a URL such as postgresql://user@host/database") from None
    return f"postgresql://{parts.get('host', '')}/{parts.get('dbname', '')}"


def _driver() -> Any:
    return extras.load("psycopg", extra="postgres", purpose="a ledger in PostgreSQL")
