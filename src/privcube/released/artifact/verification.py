"""What an outsider can check about an artifact, without the data. Zone: RELEASED.

Nothing in the folder is trusted. A check that cannot be made counts as failed and says why; the only exception raised
is an ArtifactError, and only if there is no folder at all. The checks show that the folder is what a run of privcube
would write for some noisy numbers: every file is written again and compared byte for byte. Where that cannot be done,
because another version wrote a file or the publisher added one, the check is made in part and says so, and fails if
`strict`. That the noisy numbers came from the data with fresh noise is the word of the custodian and of the ledger.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from privcube.accuracy.direct import recovery_coefficients
from privcube.accuracy.matrix_structure import structure_of
from privcube.accuracy.privacy import privacy_cost, verify_privacy
from privcube.algebra.lattice import Floats, Integers
from privcube.errors import ArtifactError, Plain, PrivcubeError, listed, quoted
from privcube.model.amounts import shown
from privcube.model.measurements import Measurements
from privcube.model.plan import Plan
from privcube.model.workload import axis_cells
from privcube.progress import CHECKING, Progress, Work, silent
from privcube.released.artifact.additivity import PublishedTable, compared_margins
from privcube.released.artifact.folder import CHECKSUMS, MEASUREMENTS, TABLES, Contents
from privcube.released.artifact.manifest import CONFIDENCE, manifest, noise_of, provenance_from, stated_in
from privcube.released.artifact.parquet_form import Reading
from privcube.released.artifact.statements import privacy_statement, registry_facts, registry_record, statement_facts
from privcube.released.artifact.store import (
    INDEX,
    MANIFEST,
    PLAN,
    RECORDS,
    REGISTRY,
    STATEMENT,
    file_names,
    index_rows,
    json_text,
    plan_text,
    read_plan,
)
from privcube.released.artifact.table_check import Published, published_table
from privcube.released.artifact.table_files import (
    TableWriter,
    csv_bytes,
    file_stems,
    index_table,
    measurements_bytes,
    read_measurements,
)
from privcube.released.artifact.whole_check import checked_counts
from privcube.released.artifact.whole_files import read_records, records_bytes, terms_in
from privcube.released.labels import COUNT, NUMBERS
from privcube.released.release import Release, number_columns
from privcube.released.whole.records import Records
from privcube.released.whole.release import counts_of
from privcube.version import __version__

_TOLERANCE: Final = 1e-6  # relative difference allowed between published and recomputed numbers
_MOST_BITS: Final = 200  # of a fraction shown in full; longer ones would be unreadable


@dataclass(frozen=True)
class Check:
    """A check: its name, whether it passed, a sentence on what was found, and whether something was left unchecked."""

    name: str
    passed: bool
    detail: str
    partial: bool = False


class _InPart(NamedTuple):
    """What a check found, and what it could not compare."""

    found: str
    unchecked: str


_Finding = str | _InPart


def verify(folder: str | Path, *, strict: bool = False, progress: Progress = silent) -> list[Check]:
    """Run every check of an artifact that needs no data; if `strict`, one that can be made only in part fails."""
    artifact = _Artifact(Contents.of(Path(folder)), progress)
    return [_made(name, check, artifact, strict) for name, check in _CHECKS.items()]


def _made(name: str, check: Callable[[_Artifact], _Finding], artifact: _Artifact, strict: bool) -> Check:
    try:
        found = check(artifact)
    except PrivcubeError as problem:
        return Check(name, False, str(problem))
    except Exception as problem:  # a hostile file may break any library; that, too, is a finding
        return Check(name, False, f"could not be checked because the artifact is broken: {type(problem).__name__}")
    if isinstance(found, str):
        return Check(name, True, found)
    return Check(name, not strict, f"{found.found}; NOT CHECKED: {found.unchecked}", partial=True)


class _Artifact:
    """An artifact that is read on demand; what cannot be read raises an error on every access."""

    def __init__(self, contents: Contents, progress: Progress) -> None:
        self.contents = contents
        self._progress = progress

    @cached_property
    def work(self) -> Work:
        """The progress: every table is worked out again, and compared with its files."""
        return Work(self._progress, CHECKING, 2 * len(self.plan.workload))

    @cached_property
    def plan(self) -> Plan:
        return read_plan(self.contents)

    @cached_property
    def measured(self) -> tuple[Measurements, Reading]:
        return read_measurements(self.contents, self.plan)

    @cached_property
    def stated(self) -> dict[str, Any]:
        return stated_in(self.contents.document(MANIFEST))

    @cached_property
    def expected(self) -> dict[str, Any]:
        """What the manifest must state, given the plan and what it says of version and ledger."""
        files = [*file_names(self.plan.workload, self.whole), CHECKSUMS]
        return manifest(self.plan, provenance_from(self.stated), files, self.stated["privcube"], self.whole)

    @cached_property
    def whole(self) -> dict[str, Any] | None:
        """What the manifest says of whole numbers, if there are any."""
        if "whole" in self.stated:
            terms_in(self.stated["whole"])
        return self.stated.get("whole")

    @cached_property
    def records(self) -> Records | None:
        """The records behind the whole numbers, if they were published."""
        published = self.whole is not None and self.whole["with_records"]
        return read_records(self.contents, self.plan.workload) if published else None

    @cached_property
    def release(self) -> Release:
        made = Release(self.measured[0], provenance_from(self.stated))
        made.recover(self._progress)
        return made

    @cached_property
    def tables(self) -> list[Published]:
        """Every table of the plan, as published and worked out again."""
        writer, found = TableWriter(self.plan.workload.schema), []
        named = zip(file_stems(self.plan.workload), self.plan.workload, self.again, strict=True)
        for stem, table, again in named:
            found.append(published_table(self.contents, writer, stem, table, again))
            self.work.add()
        return found

    @cached_property
    def again(self) -> list[dict[str, Floats | Integers]]:
        """The numbers of every table, recomputed from plan and measurements, and counts from the records."""
        release, found = self.release, []
        for table in self.plan.workload:
            numbers = number_columns(release.values(table, CONFIDENCE))
            if self.records is not None:
                numbers[COUNT] = counts_of(self.records, self.plan.workload, table).ravel()
            elif self.whole is not None:  # nothing to compute them from
                numbers[COUNT] = np.zeros(numbers["estimate"].size, dtype=np.int64)
            found.append(numbers)
            self.work.add()
        return found


# Checks: each returns what it found, or raises an error that says what is wrong


def _files(artifact: _Artifact) -> _Finding:
    contents = artifact.contents
    expected = {*file_names(artifact.plan.workload, artifact.whole), CHECKSUMS}
    present, listed_files = set(contents.sizes), {*contents.checksums, CHECKSUMS}
    _require_none((listed_files | expected) - present, f"every file of the plan and of {CHECKSUMS}", "no such file")
    _require_none(expected ^ listed_files, f"{CHECKSUMS} to list the files of the plan", "different ones")
    others = {*(present - expected), *contents.strange}
    _require_none(
        (quoted(name) for name in others if name.startswith(f"{TABLES}/")),
        f"only tables of the plan in {TABLES}/",
        "more",
    )
    found = f"{len(expected):,} files, all of them listed and none missing"
    if others:
        return _InPart(found, f"{listed(map(quoted, sorted(others)))}, which the release does not have")
    return f"{found}, and no others"


def _checksums(artifact: _Artifact) -> _Finding:
    changed = artifact.contents.changed()
    given = "a different one (a file or the list was changed)"
    _require_none(changed, f"the SHA-256 listed in {CHECKSUMS}", given)
    return f"{len(artifact.contents.checksums):,} files have the SHA-256 listed in {CHECKSUMS}"


def _plan(artifact: _Artifact) -> _Finding:
    plan = artifact.plan
    if not artifact.contents.holds(PLAN, plan_text(plan).encode()):
        raise ArtifactError(PLAN, expected="the plan and nothing else", given=Plain("more, or another order"))
    return f"{PLAN} matches its digest {plan.digest}"


def _budget(artifact: _Artifact) -> _Finding:
    plan = artifact.plan
    verify_privacy(plan)
    cost, limit = _ratio(privacy_cost(plan)), _ratio(plan.guarantee.capacity)
    return f"in exact fractions, the noise costs {plan.guarantee.currency} {cost} and the guarantee allows {limit}"


def _ratio(amount: Fraction) -> str:
    long = max(amount.numerator, amount.denominator).bit_length() > _MOST_BITS
    return f"about {shown(amount)}" if long else str(amount)


def _manifest(artifact: _Artifact) -> _Finding:
    stated, expected = artifact.stated, artifact.expected
    for field in expected:
        if stated[field] != expected[field]:
            raise ArtifactError(f"{MANIFEST}, {field}", expected="what follows from the plan", given=stated[field])
    _require_bytes(artifact, MANIFEST, json_text(expected).encode())
    return f"{MANIFEST} states the guarantee, the noise and the files of the plan, and nothing else"


def _statements(artifact: _Artifact) -> _Finding:
    """Compare the statements word for word; if another version wrote them in other words, check their facts."""
    plan, stated, in_other_words = artifact.plan, artifact.expected, []
    for name, text, facts in (
        (STATEMENT, privacy_statement, statement_facts),
        (REGISTRY, registry_record, registry_facts),
    ):
        found = artifact.contents.text(name)
        if found == text(plan, stated):
            continue
        words = " ".join(found.split())
        if stated["privcube"] == __version__ or not all(fact in words for fact in facts(plan)):
            raise ArtifactError(name, expected="what follows from the plan", given=Plain("something else"))
        in_other_words.append(name)
    if in_other_words:
        return _InPart(
            f"{STATEMENT} and {REGISTRY} state the amounts, the unit and the digest of the plan",
            f"the other words of {' and '.join(in_other_words)}, said to be written by privcube {stated['privcube']} "
            f"(this is {__version__}): read them with care, or verify with that version",
        )
    return f"{STATEMENT} and {REGISTRY} say what follows from the plan"


def _noise(artifact: _Artifact) -> _Finding:
    noise, answers = noise_of(artifact.plan), artifact.measured[0].answers
    ends = f"{_ratio(noise.smallest)} to {_ratio(noise.largest)}"
    rows = f"{len(answers):,} whole numbers, one per row of the plan"
    return f"{rows}, with {noise.mechanism} noise of {noise.parameter} {ends}"


def _estimates(artifact: _Artifact) -> _Finding:
    _require_numbers(artifact, ("estimate",), "the numbers recovered from the measurements")
    return f"{len(artifact.tables):,} tables equal those recovered again from the measurements{_digits(artifact)}"


def _digits(artifact: _Artifact) -> str:
    """In how many numbers a published table differs from ours, where it does."""
    other = sum(found.other_digits for found in artifact.tables)
    return f", to a millionth: {other:,} numbers have other last digits than here" if other else ", digit for digit"


def _errors(artifact: _Artifact) -> _Finding:
    _require_numbers(artifact, NUMBERS[1:], "the standard errors and intervals that follow from the plan")
    if not np.allclose(artifact.plan.table_variances, _predicted(artifact.plan), rtol=_TOLERANCE, atol=0):
        raise ArtifactError(PLAN, expected="the predicted variances that follow from it", given=Plain("different ones"))
    return "standard errors, intervals and what the plan predicted follow from its noise"


def _predicted(plan: Plan) -> Floats:
    """The predicted variance of a cell of every table, worked out again."""
    asked, of_each = (plan.workload, plan.frame, plan.groups), plan.noise_variances()
    direct = None if plan.sources is None else recovery_coefficients(*asked, plan.sources).times(of_each)
    return structure_of(*asked, told_by=plan.told_by).table_variances(of_each) if direct is None else direct


def _require_numbers(artifact: _Artifact, names: tuple[str, ...], expected: str) -> None:
    wrong = []
    for found in artifact.tables:
        off = _TOLERANCE * float(found.again["std_error"].max())
        if not all(np.allclose(found.numbers[name], found.again[name], rtol=_TOLERANCE, atol=off) for name in names):
            wrong.append(found.file)
    _require_none(wrong, expected, "different ones")


def _agreement(artifact: _Artifact) -> _Finding:
    if not artifact.release.agrees:
        return "skipped: direct recovery adds up every table separately, so they need not agree"
    compared = compared_margins(artifact.plan.workload.schema, _published(artifact, "estimate"))
    if compared is None:
        return "skipped: too many margins; tables recovered from the same measurements agree"
    return f"tables agree wherever they overlap, {compared:,} margins compared"


def _published(artifact: _Artifact, name: str) -> list[PublishedTable]:
    """One column of every table, as an array with an axis per attribute."""
    schema, found = artifact.plan.workload.schema, []
    for own in artifact.tables:
        shape = [axis_cells(schema, entry) for entry in own.table]
        found.append(PublishedTable(own.file, own.table, own.numbers[name].reshape(shape).astype(np.float64)))
    return found


def _whole(artifact: _Artifact) -> _Finding:
    if artifact.whole is None:
        return "skipped: the release has none"
    found = checked_counts(artifact.plan.workload, artifact.tables, artifact.whole, artifact.records)
    if artifact.records is None:
        compared_margins(artifact.plan.workload.schema, _published(artifact, COUNT), tolerance=0.0)
        return _InPart(found, f"whether records with these tables exist, as there is no {RECORDS}")
    if not artifact.contents.holds(RECORDS, records_bytes(artifact.plan.workload, artifact.records)):
        return _InPart(found, f"the encoding of {RECORDS}, by another version of the library")
    return found


def _bytes(artifact: _Artifact) -> _Finding:
    """Compare the files of numbers with what is written for these numbers and the declared labels."""
    measured, reading = artifact.measured
    wrong = [name for found in artifact.tables for name in found.wrong]
    if reading.same_writer and not artifact.contents.holds(MEASUREMENTS, measurements_bytes(measured)):
        wrong.append(MEASUREMENTS)
    _require_none(wrong, "the declared labels and the same numbers, as privcube writes them", "other bytes")
    others = [found.file for found in artifact.tables if not found.same_writer]
    if others or not reading.same_writer:
        names = [*([] if reading.same_writer else [MEASUREMENTS]), *others]
        return _InPart(
            "labels are as declared, CSV and Parquet files have the same numbers, and CSV files are right to the byte",
            f"the encoding of {listed(names)}, by another version of the library (columns, types and values are right)",
        )
    return "measurements and tables are, byte for byte, what is written for their numbers and the declared labels"


def _index(artifact: _Artifact) -> _Finding:
    found = artifact.contents.document(INDEX[1])
    std_errors = [float(np.sqrt(np.mean(again["std_error"] ** 2))) for again in artifact.again]
    if not isinstance(found, list) or len(found) != len(std_errors) or not all(map(_same_error, found, std_errors)):
        wanted = "the tables of the plan and their standard errors"
        raise ArtifactError(INDEX[1], expected=wanted, given=Plain("different ones"))
    rows = index_rows(artifact.plan.workload, [row["std_error"] for row in found])
    _require_bytes(artifact, INDEX[1], json_text(rows).encode())
    _require_bytes(artifact, INDEX[0], csv_bytes(index_table(rows)))
    return f"{INDEX[0]} and {INDEX[1]} list the tables of the plan"


def _same_error(row: Any, std_error: float) -> bool:
    found = row.get("std_error") if isinstance(row, dict) else None
    return isinstance(found, float) and math.isclose(found, std_error, rel_tol=_TOLERANCE)


def _require_bytes(artifact: _Artifact, name: str, content: bytes) -> None:
    if not artifact.contents.holds(name, content):
        raise ArtifactError(name, expected="what follows from the plan, byte for byte", given=Plain("other bytes"))


def _ledger_head(artifact: _Artifact) -> _Finding:
    provenance = provenance_from(artifact.stated)
    entry, head = provenance.get("entry"), provenance.get("head")
    return "no ledger was kept: nothing to check" if head is None else f"entry {entry}, head {head}"


def _require_none(wrong: Iterable[str], expected: str, given: str) -> None:
    """Raise an error if any file is wrong, naming all of them."""
    names = sorted(wrong)
    if names:
        raise ArtifactError(listed(names), expected=expected, given=Plain(given))


_CHECKS: Final[dict[str, Callable[[_Artifact], _Finding]]] = {
    "files": _files,
    "checksums": _checksums,
    "plan": _plan,
    "budget": _budget,
    "release.json": _manifest,
    "statements": _statements,
    "noise": _noise,
    "tables": _estimates,
    "errors": _errors,
    "agreement": _agreement,
    "whole numbers": _whole,
    "bytes": _bytes,
    "index": _index,
    "ledger head": _ledger_head,
}
