"""The engine for data larger than one machine. Zone: SENSITIVE."""

from __future__ import annotations

from privcube.sensitive.engine import Engine


class SparkEngine:
    """Counts a DataFrame."""


def spark_table(table: str, query: str | None) -> Engine:
    """The engine for a table of the active session."""
    raise NotImplementedError
