"""The engine for coded records in memory: the plainest one, which the others must equal.."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np

from privcube.errors import PlanError
from privcube.model.schema import Schema
from privcube.progress import COUNTING, Progress, silent
from privcube.sensitive.counts import ExactCounts
from privcube.sensitive.engine import CountRequest
from privcube.sensitive.units import Codes, kept_rows


class CodedRecords:
    """Records as cell numbers per attribute, in schema order; with persons, (person, codes) pairs."""

    def __init__(self, schema: Schema, rows: Iterable[Codes], persons: Iterable[Hashable] | None = None) -> None:
        self._schema = schema
        self._rows = list(rows)
        self._persons = None if persons is None else list(persons)

    def prepare(self, request: CountRequest) -> None:
        """Check the schema and the person column; no record is looked at."""
        if request.schema != self._schema:
            raise PlanError("records", expected="the schema they were coded by")
        if request.person is not None and self._persons is None:
            raise PlanError(f"person {request.person!r}", expected="records with a person each")

    def count(self, request: CountRequest, progress: Progress = silent) -> ExactCounts:
        """Count the rows that the bound on rows per person leaves."""
        used = [self._schema.position(attribute.name) for attribute in request.attributes]
        rows = [tuple(row[place] for place in used) for row in self._rows]
        if request.person is not None and self._persons is not None:
            pairs = zip(self._persons, rows, strict=True)
            rows = list(kept_rows(pairs, request.max_rows_per_person, request.key))
        codes = np.array(rows, dtype=np.int64).reshape(len(rows), len(used))
        sizes = [attribute.cells for attribute in request.attributes]
        if np.any(codes < 0) or np.any(codes >= np.array(sizes)):
            raise PlanError("records", expected="codes of declared cells")
        tables = {}
        for table in request.positions:
            counts = np.zeros([sizes[place] for place in table], dtype=np.int64)
            if table:
                np.add.at(counts, tuple(codes[:, place] for place in table), 1)
            else:
                counts.fill(len(codes))
            tables[table] = counts
        progress(COUNTING, len(tables), len(tables))
        return request.exact_counts(tables)
