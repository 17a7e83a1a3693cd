"""DuckDB as privcube uses it: a session of its own, and its names of types. Zone: SENSITIVE.

The local engine reads and codes in such a session, and so does every worker of Spark.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from privcube.model.attribute import Attribute
from privcube.sensitive.coding import ColumnKind
from privcube.sensitive.counting import code_bytes

if TYPE_CHECKING:
    import duckdb

Columns = list[tuple[str, ColumnKind | None]]  # names, and what kind each column is: None if it cannot be coded

_MEMORY: Final = "1GB"  # a sort by person that needs more goes to a private temporary folder
_CODE_TYPES: Final = {1: "UTINYINT", 2: "USMALLINT", 4: "UINTEGER"}


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
        f"CAST(c{number} AS {_CODE_TYPES[code_bytes(attribute.cells)]}) AS c{number}"
        for number, attribute in enumerate(attributes)
    )
