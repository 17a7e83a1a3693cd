"""DuckDB as privcube uses it: a session of its own, and its names of types. Zone: SENSITIVE.

The local engine reads and codes in such a session, and so does every worker of Spark.

A sort by person that needs more than the session's memory goes to files, which hold persons and codes. They are in a
folder that only its owner can read, and that is removed at the end, also of a session that fails. After a kill or a
power cut it stays; so each session first removes the folders that nobody uses. A session in use holds a lock on its
folder, which the system releases however the process ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from privcube.model.attribute import Attribute
from privcube.sensitive.coding import ColumnKind
from privcube.sensitive.counting import code_bytes

if TYPE_CHECKING:
    import duckdb

Columns = list[tuple[str, ColumnKind | None]]  # names, and what kind each column is: None if it cannot be coded

_MEMORY: Final = "1GB"  # a sort by person that needs more goes to a private temporary folder
_OVERFLOW: Final = "privcube-overflow-"
_CODE_TYPES: Final = {1: "UTINYINT", 2: "USMALLINT", 4: "UINTEGER"}


@contextmanager
def connected() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB of our own: quiet, bounded, without extensions from elsewhere; its overflow folder is removed."""
    import duckdb

    _remove_unused_folders()
    with _overflow_folder() as folder:
        settings: dict[str, Any] = {
            "memory_limit": _MEMORY,
            "temp_directory": folder,
            "autoinstall_known_extensions": False,
            "preserve_insertion_order": False,
            "python_enable_replacements": False,  # a name that is no table must not be looked up among variables
        }
        connection = duckdb.connect(":memory:", config=settings)
        try:
            # In notebooks without ipywidgets it is off, and cannot be set.
            if connection.execute("SELECT current_setting('enable_progress_bar')").fetchone() == (True,):
                connection.execute("SET enable_progress_bar = false")
            # Ranges in Parquet files leave NaN out, and DuckDB believes that there is none (duckdb issue 25521).
            connection.execute("SET disabled_optimizers = 'statistics_propagation'")
            yield connection
        finally:
            connection.close()


@contextmanager
def _overflow_folder() -> Iterator[str]:
    """A new folder that is locked while it is in use, and removed afterward."""
    while True:
        folder = tempfile.mkdtemp(prefix=_OVERFLOW)
        lock = _locked(folder, wait=True)  # None where a file system has no locks; then nobody can take it for unused
        if Path(folder).exists():
            break
        if lock is not None:  # another session took it for unused before it was locked
            os.close(lock)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _remove_unused_folders() -> None:
    """Remove the folders that sessions of this user left when they were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_OVERFLOW}*"):
        lock = _locked(str(folder), wait=False)
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _locked(folder: str, *, wait: bool) -> int | None:
    """A descriptor that holds the lock of a folder of this user, or None if there is no such folder or no lock on it.

    What lies in a folder for all may be a link, or another user's.
    """
    descriptor = None
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        if os.fstat(descriptor).st_uid == os.geteuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            return descriptor
    except OSError:
        pass
    if descriptor is not None:
        os.close(descriptor)
    return None


def column_kind(kind: str) -> ColumnKind | None:
    """What DuckDB calls a type, as the coding rule sees it; None for what cannot be coded.

    >>> [column_kind(kind) for kind in ("VARCHAR", "UTINYINT", "DECIMAL(9,2)", "DATE", "ENUM('a')", "INTEGER[]")]
    ['text', 'integer', 'decimal', 'text', 'text', None]
    """
    if kind.endswith("]"):
        return None
    plain = kind.partition("(")[0]
    if plain in ("VARCHAR", "ENUM", "UUID", "DATE", '"NULL"'):  # the last: a column of nothing but nulls
        return "text"
    if plain.endswith(("INT", "INTEGER")):
        return "integer"
    if plain in ("FLOAT", "DOUBLE"):
        return "float"
    if plain.startswith("TIMESTAMP"):
        return "instant" if "WITH TIME ZONE" in kind or plain == "TIMESTAMPTZ" else "timestamp"
    return {"DECIMAL": "decimal", "BOOLEAN": "boolean"}.get(plain)  # type: ignore[return-value]


def described(connection: duckdb.DuckDBPyConnection, source: str) -> Columns:
    """The columns of anything that can be selected from; the query is bound, not run."""
    relation = connection.sql(f"SELECT * FROM {source} LIMIT 0")
    return [(name, column_kind(str(kind))) for name, kind in zip(relation.columns, relation.types, strict=True)]


def narrow_codes(attributes: Sequence[Attribute]) -> str:
    """SQL for the codes c0, c1, ... of these attributes as columns of as few bytes as hold them."""
    return ", ".join(
        f"CAST(c{number} AS {_CODE_TYPES[code_bytes(attribute.codes)]}) AS c{number}"
        for number, attribute in enumerate(attributes)
    )
