"""What an outsider can check about an artifact, without the data. Zone: RELEASED.

Nothing in the folder is trusted. A check that cannot be made counts as failed and says why; the only exception raised
is an ArtifactError, and only if there is no folder at all. The checks show that the folder is what a run of privcube
would write for some noisy numbers: every file is written again and compared byte for byte. Where that cannot be done,
because another version wrote a file, the check is made in part and says so, and fails if `strict`. So do files that the
publisher added: they are named as not covered. That the noisy numbers came from the data with fresh noise is the word
of the custodian and of the ledger.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np

from privcube.accuracy.errors.predictions import require_predictions
from privcube.accuracy.privacy import privacy_cost, verify_privacy
from privcube.errors import ArtifactError, Plain, PrivcubeError, listed, quoted
from privcube.model.amounts import shown
from privcube.model.measures.asked import measured_axis
from privcube.model.workload import Axis, axis_cells
from privcube.progress import Progress, silent
from privcube.released.artifact.checks.additivity import PublishedTable, compared_margins
from privcube.released.artifact.checks.artifact import Artifact, Beside, Finding, InPart, require_bytes, require_none
from privcube.released.artifact.checks.page import checked_page
from privcube.released.artifact.checks.whole import checked_counts
from privcube.released.artifact.folder import CHECKSUMS, MEASUREMENTS, TABLES, Contents
from privcube.released.artifact.manifest import FORMAT, noise_of, provenance_from
from privcube.released.artifact.registry import registry_facts, registry_record
from privcube.released.artifact.statements import privacy_statement, statement_facts
from privcube.released.artifact.store import (
    CODEBOOK,
    INDEX,
    MANIFEST,
    PLAN,
    RECORDS,
    REGISTRY,
    STATEMENT,
    WORDS,
    file_names,
    index_rows,
    json_text,
    plan_text,
    words_text,
)
from privcube.released.artifact.table_files import codebook_bytes, csv_bytes, index_table, measurements_bytes
from privcube.released.artifact.whole_files import records_bytes
from privcube.released.labels import COUNT, MEANS, NUMBERS, labeled
from privcube.released.whole.facts import agreeing
from privcube.version import __version__

_LITTER: Final = re.compile(rf"{TABLES}/(\.DS_Store|\._.*|Thumbs\.db|desktop\.ini)")  # of file managers
_TOLERANCE: Final = 1e-6  # relative difference allowed between published and recomputed numbers
_SAME_IN_OLDER: Final = ("checksums", "plan", "budget", "noise", "ledger head")  # checks that hold for older formats
_MOST_BITS: Final = 200  # of a fraction shown in full; longer ones would be unreadable
_FEW_BITS: Final = 20  # of a scale of noise, which nobody adds up; plan.json has it exactly


@dataclass(frozen=True)
class Check:
    """A check: its name, whether it passed, a sentence on what was found, and whether something was left unchecked.

    Files that the publisher put beside those of the release are not covered by it: they are named, and fail a check
    only if `strict`.
    """

    name: str
    passed: bool
    detail: str
    partial: bool = False
    beside: bool = False  # there are files of the publisher's own


def verify(folder: str | Path, *, strict: bool = False, progress: Progress = silent) -> list[Check]:
    """Run every check of an artifact that needs no data; if `strict`, one that can be made only in part fails."""
    artifact = Artifact(Contents.of(Path(folder)), progress)
    if artifact.older is not None:
        checks = {"format": _older, **{name: check for name, check in _CHECKS.items() if name in _SAME_IN_OLDER}}
        return [_made(name, check, artifact, strict) for name, check in checks.items()]
    return [_made(name, check, artifact, strict) for name, check in _CHECKS.items()]


def _made(name: str, check: Callable[[Artifact], Finding], artifact: Artifact, strict: bool) -> Check:
    try:
        found = check(artifact)
    except PrivcubeError as problem:
        return Check(name, False, str(problem))
    except Exception as problem:  # a hostile file may break any library; that, too, is a finding
        return Check(name, False, f"could not be checked because the artifact is broken: {type(problem).__name__}")
    if isinstance(found, str):
        return Check(name, True, found)
    if isinstance(found, Beside):
        return Check(name, not strict, f"{found.found}; not covered: {found.others}", beside=True)
    return Check(name, not strict, f"{found.found}; NOT CHECKED: {found.unchecked}", partial=True)


def _older(artifact: Artifact) -> Finding:
    """Say what an older artifact is: its files have other columns and words than those that are written today."""
    found = f"an artifact of the older format {artifact.older!r} (this version writes {FORMAT!r})"
    wrote = artifact.stated["privcube"]
    return InPart(found, f"tables, statements and files; verify them with the version that wrote it, privcube {wrote}")


# Checks: each returns what it found, or raises an error that says what is wrong


def _files(artifact: Artifact) -> Finding:
    """Compare the names of files; others are the publisher's own, unless they lie among the tables."""
    contents = artifact.contents
    expected = {*file_names(artifact.plan.workload, artifact.whole), CHECKSUMS}
    present, listed_files = set(contents.sizes), {*contents.checksums, CHECKSUMS}
    require_none((listed_files | expected) - present, f"every file of the plan and of {CHECKSUMS}", "no such file")
    require_none(expected ^ listed_files, f"{CHECKSUMS} to list the files of the plan", "different ones")
    others = {*(present - expected), *contents.strange}
    tables = {name for name in others if name.startswith(f"{TABLES}/")}
    added = {name for name in tables if name in contents.strange or not _LITTER.fullmatch(name)}
    require_none(map(quoted, added), f"only tables of the plan in {TABLES}/", "more")
    found = f"{len(expected):,} files, all of them listed and none missing"
    return Beside(found, listed(map(quoted, sorted(others)))) if others else f"{found}, and no others"


def _words(artifact: Artifact) -> Finding:
    """Whether the words are words about this plan; nobody can check whether they are true."""
    require_bytes(artifact, WORDS, words_text(artifact.words).encode())
    require_bytes(artifact, CODEBOOK, codebook_bytes(artifact.plan.workload.schema, artifact.words))
    about = "the attributes, values and tables of the plan"
    return f"{WORDS} and {CODEBOOK} are about {about}; what they say of them is the publisher's word"


def _checksums(artifact: Artifact) -> Finding:
    changed = artifact.contents.changed()
    given = "a different one (a file or the list was changed)"
    require_none(changed, f"the SHA-256 listed in {CHECKSUMS}", given)
    return f"{len(artifact.contents.checksums):,} files have the SHA-256 listed in {CHECKSUMS}"


def _plan(artifact: Artifact) -> Finding:
    plan = artifact.plan
    if not artifact.contents.holds(PLAN, plan_text(plan).encode()):
        raise ArtifactError(PLAN, expected="the plan and nothing else", given=Plain("more, or another order"))
    return f"{PLAN} matches its digest {plan.digest}"


def _budget(artifact: Artifact) -> Finding:
    plan = artifact.plan
    verify_privacy(plan)
    cost, limit = _ratio(privacy_cost(plan)), _ratio(plan.guarantee.capacity)
    return f"in exact fractions, the noise costs {plan.guarantee.currency} {cost} and the guarantee allows {limit}"


def _ratio(amount: Fraction, most_bits: int = _MOST_BITS) -> str:
    long = max(amount.numerator, amount.denominator).bit_length() > most_bits
    return f"about {shown(amount)}" if long else str(amount)


def _manifest(artifact: Artifact) -> Finding:
    stated, expected = artifact.stated, artifact.expected
    for field in expected:
        if stated[field] != expected[field]:
            raise ArtifactError(f"{MANIFEST}, {field}", expected="what follows from the plan", given=stated[field])
    require_bytes(artifact, MANIFEST, json_text(expected).encode())
    return f"{MANIFEST} states the guarantee, the noise and the files of the plan, and nothing else"


def _statements(artifact: Artifact) -> Finding:
    """Compare the statements word for word; if another version wrote them in other words, check their facts."""
    plan, stated, in_other_words = artifact.plan, artifact.expected, []
    for name, text, facts in (
        (STATEMENT, privacy_statement(plan, stated, artifact.words), statement_facts),
        (REGISTRY, registry_record(plan, stated, artifact.words), registry_facts),
    ):
        found = artifact.contents.text(name)
        if found == text:
            continue
        words = " ".join(found.split())
        if stated["privcube"] == __version__ or not all(fact in words for fact in facts(plan)):
            raise ArtifactError(name, expected="what follows from the plan", given=Plain("something else"))
        in_other_words.append(name)
    if in_other_words:
        return InPart(
            f"{STATEMENT} and {REGISTRY} state the amounts, the unit and the digest of the plan",
            f"the other words of {' and '.join(in_other_words)}, said to be written by privcube {stated['privcube']} "
            f"(this is {__version__}): read them with care, or verify with that version",
        )
    return f"{STATEMENT} and {REGISTRY} say what follows from the plan"


def _noise(artifact: Artifact) -> Finding:
    noise, answers = noise_of(artifact.plan), artifact.measured[0].answers
    ends = f"{_ratio(noise.smallest, _FEW_BITS)} to {_ratio(noise.largest, _FEW_BITS)}"
    rows = f"{len(answers):,} whole numbers, one per row of the plan"
    return f"{rows}, with {noise.mechanism} noise of {noise.parameter} {ends}"


def _estimates(artifact: Artifact) -> Finding:
    agreeing(artifact.release, artifact.release.facts)
    _require_numbers(artifact, ("estimate",), "the numbers recovered from the measurements")
    found = f"{len(artifact.tables):,} tables equal those recovered again from the measurements"
    other = sum(table.other_digits for table in artifact.tables)
    if other:  # another processor may have recovered them; CSV files are rounded, so they do not tell
        return InPart(
            f"{found}, to a millionth: {other:,} numbers have other last digits than here",
            f"the last digits of {other:,} numbers",
        )
    return f"{found}, digit for digit"


def _errors(artifact: Artifact) -> Finding:
    _require_numbers(artifact, (*NUMBERS[1:], *MEANS), "the standard errors and intervals that follow from the plan")
    require_predictions(artifact.plan)
    return "standard errors, intervals and what the plan predicted follow from its noise"


def _require_numbers(artifact: Artifact, names: tuple[str, ...], expected: str) -> None:
    wrong = []
    for found in artifact.tables:
        off = _TOLERANCE * float(found.again["std_error"].max())
        for name in names:
            if name in found.again and not np.allclose(
                found.numbers[name], found.again[name], rtol=_TOLERANCE, atol=off, equal_nan=True
            ):
                wrong.append(found.file)
    require_none(set(wrong), expected, "different ones")


def _agreement(artifact: Artifact) -> Finding:
    if not artifact.release.agrees:
        return "skipped: direct recovery adds up every table separately, so they need not agree"
    compared = 0
    for tables in _by_measure(_published(artifact, "estimate")):
        found = compared_margins(artifact.plan.workload.schema, tables)
        if found is None:
            return "skipped: too many margins; tables recovered from the same measurements agree"
        compared += found
    return f"tables agree wherever they overlap, {compared:,} margins compared"


def _by_measure(tables: list[PublishedTable]) -> list[list[PublishedTable]]:
    """Counts, and sums and counts of each measure, each compared with their like; without the axis of the measure."""
    found: dict[Axis | None, list[PublishedTable]] = {}
    for own in tables:
        kept = labeled(own.table)
        shape = [size for size, entry in zip(own.counts.shape, own.table, strict=True) if entry in kept]
        alike = found.setdefault(measured_axis(own.table), [])
        alike.append(PublishedTable(own.file, kept, own.counts.reshape(shape)))
    return list(found.values())


def _published(artifact: Artifact, name: str) -> list[PublishedTable]:
    """One column of every table that has it, as an array with an axis per attribute."""
    schema, found = artifact.plan.workload.schema, []
    for own in artifact.tables:
        if name not in own.numbers:
            continue
        shape = [axis_cells(schema, entry) for entry in own.table]
        found.append(PublishedTable(own.file, own.table, own.numbers[name].reshape(shape).astype(np.float64)))
    return found


def _whole(artifact: Artifact) -> Finding:
    if artifact.whole is None:
        return "the release has none"
    workload, facts = artifact.plan.workload, artifact.release.facts
    found = checked_counts(workload, artifact.tables, artifact.whole, facts, artifact.records)
    if artifact.records is None:
        compared_margins(artifact.plan.workload.schema, _published(artifact, COUNT), tolerance=0.0)
        return InPart(found, f"whether records with these tables exist, as there is no {RECORDS}")
    if not artifact.contents.holds(RECORDS, records_bytes(artifact.plan.workload, artifact.records)):
        return InPart(found, f"the encoding of {RECORDS}, by another version of the library")
    return found


def _bytes(artifact: Artifact) -> Finding:
    """Compare the files of numbers with what is written for these numbers and the declared labels."""
    measured, reading = artifact.measured
    wrong = [name for found in artifact.tables for name in found.wrong]
    if reading.same_writer and not artifact.contents.holds(MEASUREMENTS, measurements_bytes(measured)):
        wrong.append(MEASUREMENTS)
    require_none(wrong, "the declared labels and the same numbers, as privcube writes them", "other bytes")
    others = [found.file for found in artifact.tables if not found.same_writer]
    if others or not reading.same_writer:
        names = [*([] if reading.same_writer else [MEASUREMENTS]), *others]
        return InPart(
            "labels are as declared, CSV and Parquet files have the same numbers, and CSV files are right to the byte",
            f"the encoding of {listed(names)}, by another version of the library (columns, types and values are right)",
        )
    return "measurements and tables are, byte for byte, what is written for their numbers and the declared labels"


def _index(artifact: Artifact) -> Finding:
    found = artifact.contents.document(INDEX[1])
    std_errors = [float(np.sqrt(np.mean(again["std_error"] ** 2))) for again in artifact.again]
    if not isinstance(found, list) or len(found) != len(std_errors) or not all(map(_same_error, found, std_errors)):
        wanted = "the tables of the plan and their standard errors"
        raise ArtifactError(INDEX[1], expected=wanted, given=Plain("different ones"))
    rows = index_rows(artifact.plan.workload, [row["std_error"] for row in found], artifact.words)
    require_bytes(artifact, INDEX[1], json_text(rows).encode())
    require_bytes(artifact, INDEX[0], csv_bytes(index_table(rows)))
    return f"{INDEX[0]} and {INDEX[1]} list the tables of the plan"


def _same_error(row: Any, std_error: float) -> bool:
    found = row.get("std_error") if isinstance(row, dict) else None
    return isinstance(found, float) and math.isclose(found, std_error, rel_tol=_TOLERANCE)


def _ledger_head(artifact: Artifact) -> Finding:
    provenance = provenance_from(artifact.stated)
    entry, head = provenance.get("entry"), provenance.get("head")
    return "no ledger was kept: nothing to check" if head is None else f"entry {entry}, head {head}"


_CHECKS: Final[dict[str, Callable[[Artifact], Finding]]] = {
    "files": _files,
    "checksums": _checksums,
    "plan": _plan,
    "words": _words,
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
    "page": checked_page,
    "ledger head": _ledger_head,
}
