"""Ledgers in a PostgreSQL database, for several machines. Zone: SENSITIVE.

One table holds the events of all ledgers, told apart by their data sets. Writers take turns by an advisory lock, read
in READ COMMITTED once they have it, so that they see all that was committed, and commit with synchronous_commit on. If
the lock failed, the primary key would still refuse a second event in the same place. The table must be as it was made:
a trigger or a rule could delete or change events, row security could hide some, an unlogged table is lost in a crash.

Errors of the driver may quote the URL; each is replaced by one sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any, Final

from privcube import extras
from privcube.errors import LedgerError, Plain
from privcube.sensitive.ledger.account import Row

_PATIENCE: Final = 30  # seconds to wait for the server, and for other writers
_LOCK: Final = int.from_bytes(b"privcube")  # of the whole database, so that two ledgers can be made at once
_SCHEMA: Final = """
SELECT kind, found FROM (
    SELECT 1, 'table', concat_ws(' ', relkind, relpersistence, CASE WHEN relrowsecurity THEN 'row security' END)
        FROM pg_class WHERE oid = to_regclass('privcube_ledger_events')
    UNION ALL SELECT attnum + 1, 'column', attname || ' ' || atttypid::regtype || repeat(' set', attnotnull::int)
        FROM pg_attribute WHERE attrelid = to_regclass('privcube_ledger_events') AND attnum > 0 AND NOT attisdropped
    UNION ALL SELECT 2000, 'key', pg_get_constraintdef(oid)
        FROM pg_constraint WHERE conrelid = to_regclass('privcube_ledger_events') AND contype <> 'n'
    UNION ALL SELECT 2001, 'trigger', tgname
        FROM pg_trigger WHERE tgrelid = to_regclass('privcube_ledger_events') AND NOT tgisinternal
    UNION ALL SELECT 2002, 'rule', rulename FROM pg_rewrite WHERE ev_class = to_regclass('privcube_ledger_events')
    UNION ALL SELECT 2003, 'heir', inhrelid::regclass::text
        FROM pg_inherits WHERE to_regclass('privcube_ledger_events') IN (inhparent, inhrelid)
) AS parts (place, kind, found) ORDER BY place, found
"""
_MADE: Final = [
    ("table", "r p"),  # an ordinary table that survives a crash
    ("column", "dataset text set"),
    ("column", "sequence bigint set"),
    ("column", "previous text set"),
    ("column", "event text set"),
    ("column", "hash text set"),
    ("key", "PRIMARY KEY (dataset, sequence)"),
]
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
_ALL: Final = "SELECT dataset, sequence, previous, event, hash FROM privcube_ledger_events ORDER BY dataset, sequence"
_NAMES: Final = "SELECT DISTINCT dataset FROM privcube_ledger_events ORDER BY dataset"
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
            return self._rows(connection) if self._has_table(connection) else []

    def names(self) -> list[str]:
        """The data sets that have a ledger in this database."""
        with self._connection() as connection:
            return [name for (name,) in connection.execute(_NAMES)] if self._has_table(connection) else []

    def create(self, first: Row, permit: Callable[[Mapping[str, list[Row]]], None]) -> None:
        """Make the table, unless there is one, and the ledger in it, unless there is one."""
        with self._locked() as connection:
            if not self._has_table(connection):
                connection.execute(_CREATE)
            ledgers: dict[str, list[Row]] = {}
            for dataset, *row in connection.execute(_ALL):
                ledgers.setdefault(dataset, []).append(Row(*row))
            if self._dataset not in ledgers:
                permit(ledgers)
                self._insert(connection, first)

    @contextmanager
    def writing(self) -> Iterator[tuple[list[Row], Callable[[Row], object]]]:
        """While nobody else can write: all events, and a way to add the next."""
        with self._locked() as connection:
            self._has_table(connection)
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

    def _has_table(self, connection: Any) -> bool:
        """Whether the table is there, as it was made, with nothing on it that could change or hide its rows."""
        found = connection.execute(_SCHEMA).fetchall()
        for made, part in zip_longest(_MADE, found):
            if found and made != part:
                kind, name = made if part is None else part
                raise LedgerError(
                    self.name,
                    expected="the table privcube_ledger_events as it was made, and nothing on it",
                    given=Plain(f"one without its {kind} {name!r}" if part is None else f"a {kind} {name!r}"),
                )
        return bool(found)

    def _rows(self, connection: Any) -> list[Row]:
        return [Row(*row) for row in connection.execute(_SELECT, [self._dataset])]

    def _insert(self, connection: Any, row: Row) -> None:
        connection.execute(_INSERT, [self._dataset, *row])


def _without_password(url: str) -> str:
    psycopg = _driver()
    try:
        parts = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        raise LedgerError("ledger", expected="a URL such as postgresql://user@host/database") from None
    return f"postgresql://{parts.get('host', '')}/{parts.get('dbname', '')}"


def _driver() -> Any:
    return extras.load("psycopg", extra="postgres", purpose="a ledger in PostgreSQL")
