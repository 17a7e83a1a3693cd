"""A release with whole numbers: every table has a column `count` beside its estimates. Zone: RELEASED.

See THEORY section 5.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from privcube.accuracy.ranges import bounds
from privcube.algebra.lattice import Floats, Integers
from privcube.errors import Plain, PrivcubeError, QueryError, Told
from privcube.extras import load
from privcube.model.documents.spec import Spec
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Entry, Table, Workload, canonical, table_name
from privcube.progress import Progress, silent
from privcube.released.labels import axis_labels, column_names
from privcube.released.release import Form, Release, TableValues
from privcube.released.whole.facts import MOST_RECORDS, Facts, checked_facts
from privcube.released.whole.goals import check_workload, counted_tables, is_counted
from privcube.released.whole.records import Records
from privcube.released.whole.search import checked_effort, find_records


class WholeRelease(Release):
    """A release whose tables have a whole number for every cell as well, all of them counted from the same records.

    Counts are not negative, agree with each other at every level, and can occur together, since the records are there.
    They are not unbiased; `estimate`, `std_error` and the intervals around it remain those of the release.
    """

    def __init__(
        self,
        release: Release,
        effort: str,
        found: Records | None,
        published: Callable[[Table], Integers] | None = None,
        *,
        intervals: bool = False,
    ) -> None:
        """Take the records, or, if they are not known, what counts were published for the tables of the workload."""
        super().__init__(release.measurements, release.provenance, release.words, release.facts)
        self._recovered = release._recovered
        self.effort, self.found, self.intervals = effort, found, intervals  # whether tables have those of counts
        self._published = published
        self._counted: dict[Table, Integers] = {}

    @classmethod
    def of(cls, release: Release, effort: str, progress: Progress = silent) -> WholeRelease:
        """Look for records near the estimates without facts, whose errors are simpler; records honor facts anyway."""
        checked_effort(effort)
        release.recover(progress)
        return cls(release, effort, find_records(release.without_facts(), effort, release.facts, progress))

    def is_found_again(self, progress: Progress = silent) -> bool:
        """Whether the search, whose seed follows from the release, finds the same whole numbers again.

        If not, somebody changed them, or another version or processor found them.
        """
        plain = Release(self.measurements, self.provenance, self.words, self.facts)
        again = WholeRelease.of(plain, self.effort, progress)
        if self.found is not None and again.found is not None:
            pairs = ((self.found.codes, again.found.codes), (self.found.times, again.found.times))
            return all(np.array_equal(one, other) for one, other in pairs)
        tables = [table for table in self.workload if self.has_counts(table)]
        return all(np.array_equal(self.counts(table), again.counts(table)) for table in tables)

    def without_records(self) -> WholeRelease:
        """The same counts, without the records behind them, for a release that does not publish these."""
        return WholeRelease(self, self.effort, None, self.counts, intervals=self.intervals)

    def with_intervals(self) -> WholeRelease:
        """The same counts, and tables with columns `count_low` and `count_high`: `count_intervals` at 95 %."""
        return WholeRelease(self, self.effort, self.found, self._published, intervals=True)

    def counts(self, table: Sequence[Entry]) -> Integers:
        """The whole numbers of a table as an array; any table of the attributes that tables have, if records are there.

        A table that the measurements do not determine is a guess of the model.
        """
        wanted = canonical(self.workload.schema, table)
        if wanted not in self._counted:
            if self.found is not None:
                self._counted[wanted] = counts_of(self.found, self.workload, wanted)
            elif self._published is not None and wanted in self.workload:
                self._counted[wanted] = self._published(wanted)
            else:
                given = Plain("records were not published with these whole numbers")
                raise QueryError("count", expected="a table of the workload", given=given)
        return self._counted[wanted]

    def has_counts(self, table: Table) -> bool:
        """Whether a table has whole numbers: not sums of measures, nor what records were not published for."""
        names = attribute_names(self.workload)
        if not is_counted(table) or not all(Axis.of(entry).attribute in names for entry in table):
            return False
        return self.found is not None or table in self.workload

    def values(
        self, table: Sequence[Entry], confidence: float = 0.95, shares: Sequence[str] | str | None = None
    ) -> TableValues:
        """The numbers of a table as arrays, with whole numbers where they are known."""
        found = super().values(table, confidence, shares)
        if not self.has_counts(found.table):
            return found
        found = replace(found, count=self.counts(found.table))
        return replace(found, count_range=self._range(found)) if self.intervals else found

    def count_intervals(self, table: Sequence[Entry], confidence: float = 0.95) -> tuple[Integers, Integers]:
        """The least and the largest whole number that each true count can be, at the given confidence.

        They are the interval of the estimate, as far as a count of records can have its numbers: whole, not negative,
        no more than the known number of records; and `count`, if that lies outside. So they hold at least as often as
        the interval of the estimate does.
        """
        found = self.values(table, confidence)
        if found.count is None:
            raise QueryError("count", expected="a table with whole numbers", given=table_name(found.table))
        return self._range(found)

    def _range(self, found: TableValues) -> tuple[Integers, Integers]:
        assert found.count is not None
        low, high = found.estimate - found.margin, found.estimate + found.margin
        return count_range(low, high, found.count, self.facts.records)

    def count_errors(self, repetitions: int = 20, progress: Progress = silent) -> dict[Table, Floats]:
        """For every table of the workload, the root mean square error of each count, if the records found were true.

        A parametric bootstrap (`privcube.released.whole.bootstrap`): the search is repeated so many times, on fresh
        noise. It is too small for cells that were pulled to 0; no interval with a promised coverage follows from it.
        """
        from privcube.released.whole.bootstrap import count_errors

        return count_errors(self, self._known_records(), repetitions, progress)

    def records(self, *, form: Form = "pandas") -> Any:
        """The records behind the whole numbers: distinct rows of labels, and how often each of them occurs.

        They are made up so that their tables fit the release; no row is about a person.
        """
        found = self._known_records()
        schema, names = self.workload.schema, attribute_names(self.workload)
        columns: dict[str, Any] = {}
        for at, (name, column) in enumerate(zip(names, column_names(names), strict=True)):
            labels = axis_labels(schema, name)
            columns[column] = [labels[cell] for cell in found.codes[:, at].tolist()]
        columns["count"] = found.times
        if form == "pyarrow":
            import pyarrow

            return pyarrow.table(columns)
        return load(form, extra=form, purpose="records as a data frame").DataFrame(columns)

    def _known_records(self) -> Records:
        if self.found is None:
            raise QueryError("records", expected="a release published with records = true", given=Plain("none"))
        return self.found


def count_range(low: Floats, high: Floats, count: Integers, records: int | None) -> tuple[Integers, Integers]:
    """The ends of an interval as whole numbers that a count of so many records can be, with the published count inside.

    >>> [own.tolist() for own in count_range(np.array([-3.2, 4.1]), np.array([2.9, 9.7]), np.array([0, 11]), 10)]
    [[0, 5], [2, 11]]
    """
    most = float(MOST_RECORDS if records is None else records)
    least = np.clip(np.ceil(low), 0.0, most).astype(np.int64)
    largest = np.clip(np.floor(high), 0.0, most).astype(np.int64)
    return np.minimum(least, count), np.maximum(largest, count)


def checked_spec(spec: Spec) -> None:
    """Refuse facts and whole numbers of a spec that cannot be, before anything is charged."""
    checked_facts(spec.schema, facts_of(spec))
    if spec.whole is not None:
        check_workload(spec.workload)
        checked_effort(spec.whole.effort)


def facts_of(spec: Spec) -> Facts:
    """What a spec says is publicly known."""
    return Facts(spec.known.records, spec.known.impossible)


def as_specified(release: Release, spec: Spec, progress: Progress = silent) -> tuple[Release, PrivcubeError | None]:
    """The release with the facts and whole numbers of a spec, and with the records behind them if it wants these.

    It has been paid for. So if facts contradict it, or no records are found, it comes back as it is, with what is to be
    raised in the end.
    """
    kept, whole = release, spec.whole
    try:
        if facts := facts_of(spec):
            known = release.knowing(facts)
            known.recover(progress)
            kept = known
        if whole is not None:
            found = WholeRelease.of(kept, whole.effort, progress)
            found = found.with_intervals() if whole.count_intervals else found
            kept = found if whole.records else found.without_records()
    except Exception as failure:  # whatever it is, a mistake of ours or too little memory, the release is kept
        missing = "whole numbers" if kept is not release or not facts_of(spec) else "what is known"
        note = f"The release was charged, and published without {missing}; `privcube whole` adds them."
        problem = failure
        if not isinstance(problem, PrivcubeError):
            expected = f"a search without a mistake of ours (please report it: {type(failure).__name__})"
            problem = QueryError(missing, expected=expected)
            problem.__cause__ = failure
        problem.add_note(Told(note))
        return kept, problem
    return kept, None


def attribute_names(workload: Workload) -> tuple[str, ...]:
    """The attributes that some table of counts has, in schema order: those that records have."""
    used = {Axis.of(entry).attribute for table in counted_tables(workload) for entry in table}
    return tuple(name for name in workload.schema.names if name in used)


def counts_of(records: Records, workload: Workload, table: Table) -> Integers:
    """A table counted from records, in exact whole numbers."""
    names, schema = attribute_names(workload), workload.schema
    axes = [Axis.of(entry) for entry in table]
    for axis in axes:
        if axis.attribute not in names:
            raise QueryError("count", expected="attributes that records have", given=axis.attribute, available=names)
    sizes = [schema[name].cells for name in names]
    counts = records.counts(sizes, [names.index(axis.attribute) for axis in axes])
    for at, axis in enumerate(axes):
        counts = np.moveaxis(_asked(schema, axis, np.moveaxis(counts, at, 0)), 0, at)
    return counts


def _asked(schema: Schema, axis: Axis, counts: Integers) -> Integers:
    """The groups or ranges of an axis, from counts with its cells first."""
    attribute = schema[axis.attribute]
    if axis.queries != "cells":
        first, last = bounds(axis.queries, attribute.ordered_cells)
        running = np.concatenate([np.zeros_like(counts[:1]), np.cumsum(counts[: attribute.ordered_cells], axis=0)])
        return np.asarray(running[last] - running[first])
    if axis.level is None:
        return counts
    partition = attribute.partition(axis.level)
    sums = np.zeros((partition.cells, *counts.shape[1:]), dtype=np.int64)
    np.add.at(sums, np.asarray(partition.group_of), counts)
    return sums
