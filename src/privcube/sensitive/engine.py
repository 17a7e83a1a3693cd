"""What an engine does: one question, exact counts for these attribute sets. Zone: SENSITIVE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from privcube.model.guarantee import Guarantee
from privcube.model.schema import Schema
from privcube.sensitive.counts import ExactCounts


@dataclass(frozen=True)
class CountRequest:
    """Which tables to count, under which schema; and, with a person column, how many rows of each person.

    `key` decides which rows of a person with too many are kept (`privcube.sensitive.units`); it is drawn for the
    release and says nothing about the data.
    """

    schema: Schema
    tables: tuple[tuple[str, ...], ...]
    person: str | None
    max_rows_per_person: int
    key: bytes


class Engine(Protocol):
    """Counts records where they are."""

    def prepare(self, request: CountRequest) -> None:
        """Check what can be checked without reading a record: the file is there, the columns are."""

    def count(self, request: CountRequest) -> ExactCounts:
        """Count. Errors name attributes, never values or counts."""


class Ledger(Protocol):
    """Records what is spent, before it is spent."""

    def charge(self, digest: str, guarantee: Guarantee) -> None:
        """Take the cost of a plan out of the budget, durably, or refuse."""
