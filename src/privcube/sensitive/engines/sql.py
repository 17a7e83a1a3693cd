"""The engine that pushes counting down into a database. Zone: SENSITIVE."""

from __future__ import annotations

from privcube.sensitive.engine import Engine


def sql_engine(url: str, table: str | None, query: str | None) -> Engine:
    """The engine for a database."""
    raise NotImplementedError
