"""What an outsider can check about an artifact, without the data. Zone: RELEASED.

Nothing in the folder is trusted. A check that cannot be made counts as failed and says why; the only exception raised
is an ArtifactError, and only if there is no folder at all. The checks show that the folder is what a run of privcube
would write for some noisy numbers. That these came from the data with fresh noise is the word of the custodian and of
the ledger.
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

from privcube.accuracy.privacy import privacy_cost, verify_privacy
from privcube.algebra.lattice import Floats
from privcube.arrow import array_of
from privcube.errors import ArtifactError, Plain, PrivcubeError, counted, listed, quoted
from privcube.model.amounts import shown
from privcube.model.measurements import Measurements
from privcube.model.plan import Plan
from privcube.model.workload import Table, axis_cells, table_cells
from privcube.progress import CHECKING, Progress, Work, silent
from privcube.released.artifact.additivity import PublishedTable, compared_margins
from privcube.released.artifact.folder import CHECKSUMS, TABLES, Contents
from privcube.released.artifact.manifest import CONFIDENCE, manifest, noise_of, provenance_from
from privcube.released.artifact.statements import privacy_statement, registry_facts, registry_record, statement_facts
from privcube.released.artifact.store import (
    INDEX,
    MANIFEST,
    MEASUREMENTS,
    PLAN,
    REGISTRY,
    STATEMENT,
    file_names,
    index_rows,
    plan_text,
    read_plan,
)
from privcube.released.artifact.table_files import (
    TableWriter,
    file_stems,
    index_table,
    read_csv,
    read_measurements,
    read_table,
)
from privcube.released.labels import NUMBERS, column_names
from privcube.released.release import Release, number_columns
from privcube.version import __version__

_TOLERANCE: Final = 1e-6  # relative difference allowed between published and recomputed numbers
_MOST_BITS: Final = 200  # of a fraction shown in full; longer ones would be unreadable


@dataclass(frozen=True)
class Check:
    """A check: its name, whether it passed, and a sentence on what was found."""

    name: str
    passed: bool
    detail: str


def verify(folder: str | Path, *, progress: Progress = silent) -> list[Check]:
    """Run every check of an artifact that needs no data."""
    artifact = _Artifact(Contents.of(Path(folder)), progress)
    return [_made(name, check, artifact) for name, check in _CHECKS.items()]


def _made(name: str, check: Callable[[_Artifact], str], artifact: _Artifact) -> Check:
    try:
        return Check(name, True, check(artifact))
    except PrivcubeError as problem:
        return Check(name, False, str(problem))
    except Exception as problem:  # a hostile file may break any library; that, too, is a finding
        return Check(name, False, f"could not be checked because the artifact is broken: {type(problem).__name__}")


class _Found(NamedTuple):
    """A table as read from a file."""

    file: str
    table: Table
    content: Any

    def numbers(self, name: str) -> Floats:
        return np.asarray(array_of(self.content[name]), dtype=np.float64)

    def labels(self) -> list[Any]:
        return list(self.content.drop_columns(list(NUMBERS)).columns)


class _Artifact:
    """An artifact that is read on demand; what cannot be read raises an error on every access."""

    def __init__(self, contents: Contents, progress: Progress) -> None:
        self.contents = contents
        self._progress = progress

    @cached_property
    def work(self) -> Work:
        """The progress: every table is read, recomputed, and compared with its CSV file."""
        return Work(self._progress, CHECKING, 3 * len(self.plan.workload))

    @cached_property
    def plan(self) -> Plan:
        return read_plan(self.contents)

    @cached_property
    def measurements(self) -> Measurements:
        return read_measurements(self.contents.path(MEASUREMENTS), self.plan)

    @cached_property
    def provenance(self) -> dict[str, Any]:
        return provenance_from(self.contents.document(MANIFEST))

    @cached_property
    def release(self) -> Release:
        self.require_room()
        made = Release(self.measurements, self.provenance)
        made.recover(self._progress)
        return made

    @cached_property
    def tables(self) -> list[_Found]:
        """Every table of the plan, as read from its Parquet file."""
        self.require_room()
        schema, found = self.plan.workload.schema, []
        for stem, table in zip(file_stems(self.plan.workload), self.plan.workload, strict=True):
            file = f"{TABLES}/{stem}.parquet"
            columns = [*column_names(table), *NUMBERS]
            content = read_table(self.contents.path(file), file, columns, table_cells(schema, table))
            found.append(_Found(file, table, content))
            self.work.add()
        return found

    @cached_property
    def again(self) -> list[dict[str, Floats]]:
        """The numbers of every table, recomputed from plan and measurements."""
        release, found = self.release, []
        for table in self.plan.workload:
            found.append(number_columns(release.values(table, CONFIDENCE)))
            self.work.add()
        return found

    def require_room(self) -> None:
        """Refuse tables larger than their files before computing any: a small plan can ask for any number of cells."""
        schema = self.plan.workload.schema
        for stem, table in zip(file_stems(self.plan.workload), self.plan.workload, strict=True):
            file = f"{TABLES}/{stem}.csv"
            self.contents.path(file)
            if table_cells(schema, table) > self.contents.sizes[file] // len(NUMBERS):
                cells = counted(table_cells(schema, table))
                raise ArtifactError(file, expected=f"a row for each of {cells} cells", given=Plain("a smaller file"))


# Checks: each returns what it found, or raises an error that says what is wrong


def _files(artifact: _Artifact) -> str:
    contents = artifact.contents
    present, listed_files = set(contents.sizes), {*contents.checksums, CHECKSUMS}
    _require_none(map(quoted, contents.strange), "only files and tables/", "a link or something else")
    _require_none(listed_files - present, f"every file listed in {CHECKSUMS}", "no such file")
    _require_none(map(quoted, present - listed_files), f"only files listed in {CHECKSUMS}", "another file")
    expected = {*file_names(artifact.plan.workload), CHECKSUMS}
    _require_none(expected ^ listed_files, f"{CHECKSUMS} to list the files of the plan", "different ones")
    return f"{len(present):,} files, all of them listed, none missing and none extra"


def _checksums(artifact: _Artifact) -> str:
    changed = artifact.contents.changed()
    given = "a different one (a file or the list was changed)"
    _require_none(changed, f"the SHA-256 listed in {CHECKSUMS}", given)
    return f"{len(artifact.contents.checksums):,} files have the SHA-256 listed in {CHECKSUMS}"


def _plan(artifact: _Artifact) -> str:
    plan = artifact.plan
    if artifact.contents.text(PLAN) != plan_text(plan):
        raise ArtifactError(PLAN, expected="the plan and nothing else", given=Plain("more, or another order"))
    return f"{PLAN} matches its digest {plan.digest}"


def _budget(artifact: _Artifact) -> str:
    plan = artifact.plan
    verify_privacy(plan)
    cost, limit = _ratio(privacy_cost(plan)), _ratio(plan.guarantee.capacity)
    return f"in exact fractions, the noise costs {plan.guarantee.currency} {cost} and the guarantee allows {limit}"


def _ratio(amount: Fraction) -> str:
    long = max(amount.numerator, amount.denominator).bit_length() > _MOST_BITS
    return f"about {shown(amount)}" if long else str(amount)


def _manifest(artifact: _Artifact) -> str:
    stated = artifact.contents.document(MANIFEST)
    expected = manifest(artifact.plan, artifact.provenance, [*file_names(artifact.plan.workload), CHECKSUMS])
    for field in sorted({*stated, *expected} - {"privcube"}):
        if field not in expected or field not in stated or stated[field] != expected[field]:
            raise ArtifactError(f"{MANIFEST}, {field}", expected="what follows from the plan", given=stated.get(field))
    return f"{MANIFEST} states the guarantee, the noise and the files of the plan, and nothing else"


def _statements(artifact: _Artifact) -> str:
    """Compare the statements word for word if this version wrote them; otherwise, check their facts."""
    plan, stated = artifact.plan, artifact.contents.document(MANIFEST)
    same = stated["privcube"] == __version__
    for name, text, facts in (
        (STATEMENT, privacy_statement, statement_facts),
        (REGISTRY, registry_record, registry_facts),
    ):
        found = artifact.contents.text(name)
        right = found == text(plan, stated) if same else all(fact in " ".join(found.split()) for fact in facts(plan))
        if not right:
            raise ArtifactError(name, expected="what follows from the plan", given=Plain("something else"))
    return f"{STATEMENT} and {REGISTRY} say what follows from the plan" + ("" if same else " (facts only)")


def _noise(artifact: _Artifact) -> str:
    noise, answers = noise_of(artifact.plan), artifact.measurements.answers
    ends = f"{_ratio(noise.smallest)} to {_ratio(noise.largest)}"
    rows = f"{len(answers):,} whole numbers, one per row of the plan"
    return f"{rows}, with {noise.mechanism} noise of {noise.parameter} {ends}"


def _estimates(artifact: _Artifact) -> str:
    _require_numbers(artifact, ("estimate",), "the numbers recovered from the measurements")
    return f"{len(artifact.tables):,} tables equal those recovered again from the measurements"


def _errors(artifact: _Artifact) -> str:
    _require_numbers(artifact, NUMBERS[1:], "the standard errors and intervals that follow from the plan")
    return "standard errors and intervals follow from the plan's noise"


def _require_numbers(artifact: _Artifact, names: tuple[str, ...], expected: str) -> None:
    wrong = []
    for found, again in zip(artifact.tables, artifact.again, strict=True):
        off = _TOLERANCE * float(again["std_error"].max())
        if not all(np.allclose(found.numbers(name), again[name], rtol=_TOLERANCE, atol=off) for name in names):
            wrong.append(found.file)
    _require_none(wrong, expected, "different ones")


def _agreement(artifact: _Artifact) -> str:
    if not artifact.release.agrees:
        return "skipped: direct recovery adds up every table separately, so they need not agree"
    schema = artifact.plan.workload.schema
    tables = [
        PublishedTable(
            found.file,
            found.table,
            found.numbers("estimate").reshape([axis_cells(schema, entry) for entry in found.table]),
        )
        for found in artifact.tables
    ]
    compared = compared_margins(schema, tables)
    if compared is None:
        return "skipped: too many margins; tables recovered from the same measurements agree"
    return f"tables agree wherever they overlap, {compared:,} margins compared"


def _labels(artifact: _Artifact) -> str:
    """Parquet must have the declared labels, and CSV the same rows with text made safe."""
    wrong = []
    writer = TableWriter(artifact.plan.workload.schema)
    for found in artifact.tables:
        if found.labels() != writer.labels(found.table).columns:
            wrong.append(found.file)
        file = found.file.removesuffix(".parquet") + ".csv"
        labels = writer.safe_labels(found.table)
        types = {**dict.fromkeys(labels.column_names, "string"), **dict.fromkeys(NUMBERS, "float64")}
        rows = found._replace(file=file, content=read_csv(artifact.contents.path(file), file, types))
        same = all(np.array_equal(rows.numbers(name), found.numbers(name)) for name in NUMBERS)
        if not same or rows.labels() != [column.cast("string") for column in labels.columns]:
            wrong.append(file)
        artifact.work.add()
    _require_none(wrong, "the declared labels, and the same numbers in CSV and Parquet", "different ones")
    return "labels are as declared, and CSV and Parquet files have the same numbers"


def _index(artifact: _Artifact) -> str:
    std_errors = [float(np.sqrt(np.mean(again["std_error"] ** 2))) for again in artifact.again]
    expected, found = index_rows(artifact.plan.workload, std_errors), artifact.contents.document(INDEX[1])
    if not isinstance(found, list) or not all(map(_same_row, found, expected)) or len(found) != len(expected):
        wanted = "the tables of the plan and their standard errors"
        raise ArtifactError(INDEX[1], expected=wanted, given=Plain("different ones"))
    table = index_table(found)
    types = {field.name: str(field.type) for field in table.schema}
    if read_csv(artifact.contents.path(INDEX[0]), INDEX[0], types) != table:
        raise ArtifactError(INDEX[0], expected=f"the tables that {INDEX[1]} lists", given=Plain("different ones"))
    return f"{INDEX[0]} and {INDEX[1]} list the tables of the plan"


def _same_row(found: Any, expected: dict[str, Any]) -> bool:
    if not isinstance(found, dict) or not isinstance(found.get("std_error"), float):
        return False
    near = math.isclose(found["std_error"], expected["std_error"], rel_tol=_TOLERANCE)
    return near and {**found, "std_error": 0} == {**expected, "std_error": 0}


def _ledger_head(artifact: _Artifact) -> str:
    entry, head = artifact.provenance.get("entry"), artifact.provenance.get("head")
    return "no ledger was kept: nothing to check" if head is None else f"entry {entry}, head {head}"


def _require_none(wrong: Iterable[str], expected: str, given: str) -> None:
    """Raise an error if any file is wrong, naming all of them."""
    names = sorted(wrong)
    if names:
        raise ArtifactError(listed(names), expected=expected, given=Plain(given))


_CHECKS: Final[dict[str, Callable[[_Artifact], str]]] = {
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
    "labels": _labels,
    "index": _index,
    "ledger head": _ledger_head,
}
