"""Questions about a source that are not counts for a release: how its columns are filled, what occurs. Zone: SENSITIVE.

`privcube check` and `privcube init --from` ask them. The answers are exact, for the custodian's eyes only; nothing that
is published can be made from them, as no module of RELEASED can import this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from privcube.errors import DataError
from privcube.sensitive.coding import Dialect
from privcube.sensitive.duckdb_session import Columns
from privcube.sensitive.engine import Engine

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Inquiry:
    """A source that is open for questions."""

    name: str
    columns: Columns
    opened: Callable[[Sequence[str]], tuple[str, Dialect]]  # what to select these columns from, and how
    rows: Callable[[str], Rows]  # the answer to one SELECT
    text_file: dict[str, str] | None = None  # how text files are written, for people


@contextmanager
def inquiry_into(engine: Engine) -> Iterator[Inquiry]:
    """A source as an inquiry, if its engine can be asked."""
    asked = getattr(engine, "inquiry", None)
    if asked is None:
        raise DataError(
            "source",
            expected="files, a table in memory, DuckDB or PostgreSQL; of a Spark table, look over a part: "
            "dataframe.limit(1_000_000).toArrow()",
        )
    with asked() as inquiry:
        yield inquiry
