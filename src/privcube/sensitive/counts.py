"""Exact counts in an opaque type: they can be measured by the gate and nothing else. Zone: SENSITIVE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from privcube.errors import Plain, PlanError
from privcube.model.schema import Schema

LARGEST_TOTAL: Final = 2**62


class ExactCounts:
    """Tables of exact counts by attributes; shows, compares, copies and pickles as nothing."""

    __slots__ = ("_tables",)

    _tables: dict[tuple[str, ...], NDArray[np.int64]]

    def __init__(self, schema: Schema, tables: Mapping[tuple[str, ...], NDArray[np.int64]]) -> None:
        """Refuse what is not a table of counts; messages name attributes, never numbers."""
        for names, counts in tables.items():
            subject = f"counts of {' x '.join(names) or 'all records'}"
            if not isinstance(counts, np.ndarray) or counts.dtype != np.int64:
                raise PlanError(subject, expected="whole numbers of 64 bits")
            if counts.shape != tuple(schema[name].cells for name in names):
                raise PlanError(subject, expected="one count per cell of the declared attributes")
            if counts.size and (int(counts.min()) < 0 or int(counts.max()) > LARGEST_TOTAL):
                raise PlanError(subject, expected="counts from 0 to 2^62")
            if (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum()) > LARGEST_TOTAL:
                raise PlanError(subject, expected="at most 2^62 records in all")
        object.__setattr__(self, "_tables", dict(tables))

    def for_the_gate(self, names: tuple[str, ...]) -> NDArray[np.int64]:
        """One table, for the gate."""
        if names not in self._tables:
            raise PlanError("engine", expected=f"a table of {' x '.join(names) or 'all records'}", given=Plain("none"))
        return self._tables[names]

    def __repr__(self) -> str:
        return "<exact counts, not shown>"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise TypeError("exact counts cannot be changed")

    def __reduce__(self) -> NoReturn:
        raise TypeError("exact counts cannot be pickled or copied")

    def __eq__(self, other: object) -> NoReturn:
        raise TypeError("exact counts cannot be compared")

    __hash__ = None  # type: ignore[assignment]
