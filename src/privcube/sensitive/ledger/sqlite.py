"""A ledger in an SQLite file. Zone: SENSITIVE.

Durable. Transactions use the rollback journal with synchronous=EXTRA: SQLite syncs the journal, the file, and the
folder in which the journal was deleted, before COMMIT returns. (FULL leaves out the folder: after a power cut, the
journal could be back and undo the charge.) The file alone is the ledger: one that another program has given a
write-ahead log is refused, as a copy without the log would lack the last charges.

Whole or absent. A ledger is made under another name and linked to its own, which fails if that exists. So a file that
is empty or cut short was a ledger once and is refused, never started afresh; of two processes that create, one wins.

Nothing else in it. The schema must be the one table, as it was made: a trigger could delete or change events, a view
could stand for other ones.

The file is opened by SQLite alone: POSIX drops a process's locks on a file when any descriptor of it is closed.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from privcube.errors import LedgerError, Plain
from privcube.sensitive.ledger.account import Row

_PATIENCE: Final = 30.0  # seconds to wait for other writers
_CREATE: Final = """
CREATE TABLE privcube_ledger_events (
    sequence INTEGER PRIMARY KEY,
    previous TEXT NOT NULL,
    event TEXT NOT NULL,
    hash TEXT NOT NULL
)"""
_TABLE: Final = "privcube_ledger_events"
_SCHEMA: Final = "SELECT type, name, sql FROM sqlite_master ORDER BY name <> ?, name"  # ours first
_SELECT: Final = "SELECT sequence, previous, event, hash FROM privcube_ledger_events ORDER BY sequence"
_INSERT: Final = "INSERT INTO privcube_ledger_events (sequence, previous, event, hash) VALUES (?, ?, ?, ?)"
_DAMAGED: Final = "a whole ledger; this file is damaged"
_ALONE: Final = "a file that is all of it, without a write-ahead log (PRAGMA journal_mode = DELETE puts that back)"
_EXPECTED: Final = {
    sqlite3.SQLITE_BUSY: f"to be free within {_PATIENCE:.0f} seconds; others keep it busy",
    sqlite3.SQLITE_READONLY: "a file and a folder that can be written",
    sqlite3.SQLITE_CANTOPEN: "a file that can be opened",
    sqlite3.SQLITE_FULL: "room on the disk",
    sqlite3.SQLITE_IOERR: "a disk with room that can be read and written",
    sqlite3.SQLITE_ERROR: "a ledger; this file is none",  # a database without our table, or an empty file
    sqlite3.SQLITE_NOTADB: "a ledger; this file is none, or is damaged",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
}


class SQLiteStore:
    """The events of one ledger in a file of its own."""

    def __init__(self, location: str) -> None:
        if "\0" in location:
            raise LedgerError("ledger", expected="the path of a file", given=location)
        self._path = Path(location).absolute()  # once: the working directory may change
        self.name = f"ledger {self._path.name!r}"

    def rows(self) -> list[Row]:
        """All events; none if there is no file."""
        with self._plainly():
            if not os.path.lexists(self._path):
                return []
            if self._path.is_dir():
                raise LedgerError(self.name, expected="a file", given=Plain("a folder"))
            with closing(_connect(self._path)) as connection:
                return self._rows(connection)

    def names(self) -> list[str]:
        """None: there is one ledger in a file, and the file tells it apart from others."""
        return []

    def create(self, first: Row, permit: Callable[[Mapping[str, list[Row]]], None]) -> None:
        """Make the file, unless there is one."""
        permit({})
        with self._plainly():
            descriptor, name = tempfile.mkstemp(prefix=f".{self._path.name}.", dir=self._path.parent)
            os.close(descriptor)
            try:
                with closing(_connect(Path(name))) as connection, _transaction(connection):
                    connection.execute(_CREATE)
                    connection.execute(_INSERT, first)
                with suppress(FileExistsError):
                    self._path.hardlink_to(name)  # in the folder for good with the first charge, which syncs it
            finally:
                Path(name).unlink()

    @contextmanager
    def writing(self) -> Iterator[tuple[list[Row], Callable[[Row], object]]]:
        """While nobody else can write: all events, and a way to add the next."""
        with self._plainly(), closing(_connect(self._path)) as connection, _transaction(connection):
            yield self._rows(connection), partial(connection.execute, _INSERT)

    def _rows(self, connection: sqlite3.Connection) -> list[Row]:
        """All events of a file that is sound: a damaged page could hide the last ones, which the chain cannot tell."""
        connection.text_factory = lambda text: text.decode("utf-8", "replace")  # bytes that are no text: a bad event
        if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise LedgerError(self.name, expected=_DAMAGED)
        if connection.execute("PRAGMA journal_mode").fetchone() == ("wal",):
            raise LedgerError(self.name, expected=_ALONE)
        self._require_schema(connection)
        return [Row(*row) for row in connection.execute(_SELECT)]

    def _require_schema(self, connection: sqlite3.Connection) -> None:
        """The one table, as it was made, and nothing that could change its rows by itself."""
        found = connection.execute(_SCHEMA, [_TABLE]).fetchall()
        if not found or found[0][1] != _TABLE:
            raise LedgerError(self.name, expected=_EXPECTED[sqlite3.SQLITE_ERROR])
        for kind, name, made_by in found:
            if (kind, name, made_by) != ("table", _TABLE, _CREATE.strip()):
                raise LedgerError(
                    self.name,
                    expected=f"the table {_TABLE} as it was made, and nothing else",
                    given=Plain(f"a {kind} {name!r}" if name != _TABLE else f"another {kind}"),
                )

    @contextmanager
    def _plainly(self) -> Iterator[None]:
        """One sentence for whatever goes wrong in SQLite or with the file."""
        try:
            yield
        except sqlite3.Error as problem:
            code = getattr(problem, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            raise LedgerError(self.name, expected=_EXPECTED.get(code, "a file that SQLite can use")) from None
        except UnicodeDecodeError:  # SQLite quotes a damaged name in its message
            raise LedgerError(self.name, expected=_DAMAGED) from None
        except OSError as problem:
            reason = problem.strerror or "an error of the system"
            raise LedgerError(self.name, expected="a file that can be made or opened", given=Plain(reason)) from None


def _connect(path: Path) -> sqlite3.Connection:
    """Open a file that exists; each operation has its own connection."""
    return sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=_PATIENCE, isolation_level=None)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Hold the only lock for writing; what is not committed is undone when the connection closes."""
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("PRAGMA fullfsync = ON")  # where a sync does not reach the disk: macOS
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.execute("COMMIT")
