"""What an outsider can check about an artifact, without the data. Zone: RELEASED.

Nothing in the folder is trusted. A check that cannot be made counts as failed, and says why; no file, however broken,
raises anything but an ArtifactError, and that only where there is no folder at all. The checks say that the folder is
what one run of privcube would write for some noisy numbers. That the numbers came from the data with fresh noise is the
custodian's word, and the ledger's.
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
    number_columns,
    read_csv,
    read_measurements,
    read_table,
)
from privcube.released.labels import NUMBERS, column_names
from privcube.released.release import Release
from privcube.version import __version__

_TOLERANCE: Final = 1e-6
_MOST_BITS: Final = 200  # of a fraction that is shown in full


@dataclass(frozen=True)
class Check:
    """One thing that was checked, whether it holds, and a sentence."""

    name: str
    passed: bool
    detail: str


def verify(folder: str | Path, *, progress: Progress = silent) -> list[Check]:
    """Check everything about an artifact that can be checked without the data."""
    artifact = _Artifact(Contents.of(Path(folder)), progress)
    return [_made(name, check, artifact) for name, check in _CHECKS.items()]


def _made(name: str, check: Callable[[_Artifact], str], artifact: _Artifact) -> Check:
    try:
        return Check(name, True, check(artifact))
    except PrivcubeError as problem:
        return Check(name, False, str(problem))
    except Exception as problem:  # a hostile file may break any library, and that, too, is an answer
        return Check(name, False, f"could not be checked, the artifact is broken: {type(problem).__name__}")


class _Found(NamedTuple):
    """A table as a file has it."""

    file: str
    table: Table
    content: Any

    def numbers(self, name: str) -> Floats:
        return np.asarray(array_of(self.content[name]), dtype=np.float64)

    def labels(self) -> list[Any]:
        return list(self.content.drop_columns(list(NUMBERS)).columns)


class _Artifact:
    """An artifact with what was read of it so far; what cannot be read raises every time it is asked for."""

    def __init__(self, contents: Contents, progress: Progress) -> None:
        self.contents = contents
        self._progress = progress

    @cached_property
    def work(self) -> Work:
        """Every table is read, worked out again, and compared with its CSV file."""
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
        """Every table of the plan with its file and what Parquet has in it."""
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
        """The numbers of every table, worked out again from plan and measurements."""
        release, found = self.release, []
        for table in self.plan.workload:
            found.append(number_columns(release.values(table, CONFIDENCE)))
            self.work.add()
        return found

    def require_room(self) -> None:
        """Refuse tables larger than their files before any is worked out: a few bytes can ask for any number."""
        schema = self.plan.workload.schema
        for stem, table in zip(file_stems(self.plan.workload), self.plan.workload, strict=True):
            file = f"{TABLES}/{stem}.csv"
            self.contents.path(file)
            if table_cells(schema, table) > self.contents.sizes[file] // len(NUMBERS):
                cells = counted(table_cells(schema, table))
                raise ArtifactError(file, expected=f"a row for each of {cells} cells", given=Plain("fewer bytes"))


# The checks, each of which returns what it found or raises what is wrong


def _files(artifact: _Artifact) -> str:
    contents = artifact.contents
    present, listed_files = set(contents.sizes), {*contents.checksums, CHECKSUMS}
    _require_none(map(quoted, contents.strange), "only files and tables/", "a link or something else")
    _require_none(listed_files - present, f"every file that {CHECKSUMS} lists", "none")
    _require_none(map(quoted, present - listed_files), f"only files that {CHECKSUMS} lists", "more")
    expected = {*file_names(artifact.plan.workload), CHECKSUMS}
    _require_none(expected ^ listed_files, f"{CHECKSUMS} to list the files of the plan", "others")
    return f"{len(present):,} files, all of them listed, none missing and none extra"


def _checksums(artifact: _Artifact) -> str:
    changed = artifact.contents.changed()
    _require_none(changed, f"the SHA-256 that {CHECKSUMS} lists", "another: one of them was changed")
    return f"{len(artifact.contents.checksums):,} files have the SHA-256 that {CHECKSUMS} lists"


def _plan(artifact: _Artifact) -> str:
    plan = artifact.plan
    if artifact.contents.text(PLAN) != plan_text(plan):
        raise ArtifactError(PLAN, expected="the plan and nothing else", given=Plain("more, or in another order"))
    return f"{PLAN} fits its digest {plan.digest}"


def _budget(artifact: _Artifact) -> str:
    plan = artifact.plan
    verify_privacy(plan)
    cost, limit = _ratio(privacy_cost(plan)), _ratio(plan.guarantee.capacity)
    return f"the noise costs {plan.guarantee.currency} {cost}, the guarantee allows {limit}, added up as fractions"


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
    """Word by word if this version wrote them; of other versions, the facts."""
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
    return f"{STATEMENT} and {REGISTRY} say what follows from the plan" + ("" if same else ", as far as facts go")


def _noise(artifact: _Artifact) -> str:
    noise, answers = noise_of(artifact.plan), artifact.measurements.answers
    ends = f"{_ratio(noise.smallest)} to {_ratio(noise.largest)}"
    rows = f"{len(answers):,} whole numbers, one per row of the plan"
    return f"{rows}, with {noise.mechanism} noise of {noise.parameter} {ends}"


def _estimates(artifact: _Artifact) -> str:
    _require_numbers(artifact, ("estimate",), "the numbers recovered from the measurements")
    return f"{len(artifact.tables):,} tables are what the measurements give when recovered again"


def _errors(artifact: _Artifact) -> str:
    _require_numbers(artifact, NUMBERS[1:], "the standard errors and intervals worked out from the plan")
    return "standard errors and intervals are what the plan's noise gives"


def _require_numbers(artifact: _Artifact, names: tuple[str, ...], expected: str) -> None:
    wrong = []
    for found, again in zip(artifact.tables, artifact.again, strict=True):
        off = _TOLERANCE * float(again["std_error"].max())
        if not all(np.allclose(found.numbers(name), again[name], rtol=_TOLERANCE, atol=off) for name in names):
            wrong.append(found.file)
    _require_none(wrong, expected, "others")


def _agreement(artifact: _Artifact) -> str:
    if not artifact.release.agrees:
        return "skipped: direct recovery adds up every table by itself, so they need not agree"
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
    """Parquet has the declared labels; CSV the same rows, with text made safe."""
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
    _require_none(wrong, "the declared labels, and the same numbers in CSV and Parquet", "others")
    return "labels are the declared ones, and CSV files have the numbers of the Parquet files"


def _index(artifact: _Artifact) -> str:
    std_errors = [float(np.sqrt(np.mean(again["std_error"] ** 2))) for again in artifact.again]
    expected, found = index_rows(artifact.plan.workload, std_errors), artifact.contents.document(INDEX[1])
    if not isinstance(found, list) or not all(map(_same_row, found, expected)) or len(found) != len(expected):
        raise ArtifactError(
            INDEX[1], expected="the tables of the plan and their standard errors", given=Plain("others")
        )
    table = index_table(found)
    types = {field.name: str(field.type) for field in table.schema}
    if read_csv(artifact.contents.path(INDEX[0]), INDEX[0], types) != table:
        raise ArtifactError(INDEX[0], expected=f"the tables that {INDEX[1]} lists", given=Plain("others"))
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
    """Refuse files, by name."""
    names = sorted(wrong)
    if names:
        raise ArtifactError(listed(names), expected=expected, given=given)


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
