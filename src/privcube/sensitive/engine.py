"""What an engine does: one question, exact counts for these attribute sets. Zone: SENSITIVE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privcube.model.attribute import Attribute
from privcube.model.privacy.guarantee import Guarantee
from privcube.model.schema import Schema
from privcube.progress import Progress, silent
from privcube.sensitive.counts import ExactCounts
from privcube.sensitive.cover import Positions


@dataclass(frozen=True)
class CountRequest:
    """Which tables to count, under which schema; and, with a person column, how many rows of each person.

    `key` decides which rows of a person with too many are kept (`privcube.sensitive.units`); it is drawn for the
    release and says nothing about the data. Only attributes of these tables are coded and looked at,
    and those that can drop a record.
    """

    schema: Schema
    tables: tuple[tuple[str, ...], ...]
    person: str | None
    max_rows_per_person: int
    key: bytes

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        """The attributes of the tables, in schema order; the first one if only all records are counted."""
        used = {name for table in self.tables for name in table} or {self.schema.names[0]}
        return tuple(attribute for attribute in self.schema if attribute.name in used)

    @cached_property
    def filters(self) -> tuple[Attribute, ...]:
        """What can leave a record out, whether or not a table has it: the same records count in all tables."""
        return self.schema.filters

    @property
    def columns(self) -> list[str]:
        """The columns to read: of the attributes, of what drops records, and of the person."""
        person = [] if self.person is None else [self.person]
        looked_at = (*self.attributes, *self.filters)
        return list(dict.fromkeys([*(attribute.column for attribute in looked_at), *person]))

    @property
    def positions(self) -> list[Positions]:
        """The tables by the positions of their attributes among those used."""
        place = {attribute.name: number for number, attribute in enumerate(self.attributes)}
        return [tuple(place[name] for name in table) for table in self.tables]

    def exact_counts(self, counts: Mapping[Positions, NDArray[np.int64]]) -> ExactCounts:
        """Counts by positions as the counts that the gate takes."""
        return ExactCounts(
            self.schema, {table: counts[at] for table, at in zip(self.tables, self.positions, strict=True)}
        )


class Engine(Protocol):
    """Counts records where they are."""

    def prepare(self, request: CountRequest) -> None:
        """Check what can be checked without reading a record: the file is there, the columns are."""

    def count(self, request: CountRequest, progress: Progress = silent) -> ExactCounts:
        """Count. Errors name attributes, never values or counts."""


class Ledger(Protocol):
    """Records what is spent, before it is spent."""

    def afford(self, digest: str, guarantee: Guarantee) -> object:
        """Refuse what `charge` would refuse by now, and write nothing. Only `charge` decides."""

    def charge(self, digest: str, guarantee: Guarantee) -> object:
        """Take the cost of a plan out of the budget, durably, or refuse. The gate ignores what is returned."""
