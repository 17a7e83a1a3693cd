"""The folder that is checked, read on demand, and what a check can find. Zone: RELEASED."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from privcube.algebra.lattice import Floats, Integers
from privcube.errors import ArtifactError, Plain, listed
from privcube.model.measurements import Measurements
from privcube.model.plan import Plan
from privcube.model.publication.words import Words
from privcube.progress import CHECKING, Progress, Work
from privcube.released.artifact.checks.tables import Published, published_table
from privcube.released.artifact.folder import CHECKSUMS, Contents
from privcube.released.artifact.manifest import CONFIDENCE, manifest, older_format, provenance_from, stated_in
from privcube.released.artifact.parquet_form import Reading
from privcube.released.artifact.store import MANIFEST, file_names, read_plan, read_words
from privcube.released.artifact.table_files import TableWriter, file_stems, read_measurements
from privcube.released.artifact.whole_files import count_columns, effort_in, facts_in, known_document, read_records
from privcube.released.labels import COUNT
from privcube.released.release import Release, number_columns
from privcube.released.whole.goals import is_counted
from privcube.released.whole.records import Records
from privcube.released.whole.release import counts_of


class InPart(NamedTuple):
    """What a check found, and what it could not compare."""

    found: str
    unchecked: str


class Beside(NamedTuple):
    """What a check found, and what the publisher has put beside it."""

    found: str
    others: str


Finding = str | InPart | Beside


_Found = TypeVar("_Found")


class _Once(cached_property[_Found]):
    """A property that is worked out once, also if that fails: each check that needs it then fails alike."""

    def __get__(self, artifact: Artifact, owner: type[Any] | None = None) -> _Found:  # type: ignore[override]
        failures = vars(artifact).setdefault("_failures", {})
        if self.attrname in failures:
            raise failures[self.attrname]
        try:
            return super().__get__(artifact, owner)
        except Exception as problem:
            failures[self.attrname] = problem
            raise


class Artifact:
    """An artifact that is read on demand; what cannot be read raises an error on every access."""

    def __init__(self, contents: Contents, progress: Progress) -> None:
        self.contents = contents
        self._progress = progress

    @_Once
    def work(self) -> Work:
        """The progress: every table is worked out again, and compared with its files."""
        return Work(self._progress, CHECKING, 2 * len(self.plan.workload))

    @_Once
    def plan(self) -> Plan:
        return read_plan(self.contents)

    @_Once
    def measured(self) -> tuple[Measurements, Reading]:
        return read_measurements(self.contents, self.plan)

    @_Once
    def stated(self) -> dict[str, Any]:
        return stated_in(self.contents.document(MANIFEST))

    @_Once
    def older(self) -> str | None:
        """The format of the artifact, if it is an older one; an unreadable manifest has none."""
        try:
            return older_format(self.contents.document(MANIFEST))
        except ArtifactError:
            return None

    @_Once
    def expected(self) -> dict[str, Any]:
        """What the manifest must state, given the plan and what it says of version and ledger."""
        files = [*file_names(self.plan.workload, self.whole), CHECKSUMS]
        version, known = self.stated["privcube"], known_document(self.release)
        return manifest(self.plan, provenance_from(self.stated), files, version, known=known, whole=self.whole)

    @_Once
    def whole(self) -> dict[str, Any] | None:
        """What the manifest says of whole numbers, if there are any."""
        if "whole" in self.stated:
            effort_in(self.stated["whole"])
        return self.stated.get("whole")

    @_Once
    def records(self) -> Records | None:
        """The records behind the whole numbers, if they were published."""
        published = self.whole is not None and self.whole["with_records"]
        return read_records(self.contents, self.plan.workload) if published else None

    @_Once
    def words(self) -> Words:
        return read_words(self.contents, self.plan)

    @_Once
    def release(self) -> Release:
        made = Release(self.measured[0], provenance_from(self.stated), self.words, facts_in(self.stated))
        made.recover(self._progress)
        return made

    @_Once
    def tables(self) -> list[Published]:
        """Every table of the plan, as published and worked out again."""
        writer, found = TableWriter(self.plan.workload.schema, self.words), []
        named = zip(file_stems(self.plan.workload), self.plan.workload, self.again, strict=True)
        for stem, table, again in named:
            found.append(published_table(self.contents, writer, stem, table, again))
            self.work.add()
        return found

    @_Once
    def again(self) -> list[dict[str, Floats | Integers]]:
        """The numbers of every table, recomputed from plan and measurements, and counts from the records."""
        release, found = self.release, []
        for table in self.plan.workload:
            numbers = number_columns(release.values(table, CONFIDENCE))
            if self.whole is not None and is_counted(table):
                nothing = np.zeros(numbers["estimate"].size, dtype=np.int64)  # where there is nothing to compute from
                numbers |= dict.fromkeys(count_columns(self.whole), nothing)
                if self.records is not None:
                    numbers[COUNT] = counts_of(self.records, self.plan.workload, table).ravel()
            found.append(numbers)
            self.work.add()
        return found


def require_bytes(artifact: Artifact, name: str, content: bytes) -> None:
    """Raise an error if a file has other bytes than these."""
    if not artifact.contents.holds(name, content):
        raise ArtifactError(name, expected="what follows from the plan, byte for byte", given=Plain("other bytes"))


def require_none(wrong: Iterable[str], expected: str, given: str) -> None:
    """Raise an error if any file is wrong, naming all of them."""
    names = sorted(wrong)
    if names:
        raise ArtifactError(listed(names), expected=expected, given=Plain(given))
