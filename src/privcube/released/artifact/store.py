"""The artifact: a folder that can be published as it is. Zone: RELEASED.

    index.html              the tables to look at in a browser, with the statement and the codebook
    PRIVACY.md              the privacy statement, for people
    registry.yaml           the privacy statement, for OpenDP's registry
    release.json            what was released, in fields that reveal nothing about the data
    plan.json               what was measured, and with how much noise
    words.json              what the publisher says about it: titles, descriptions, labels
    codebook.csv            what attributes and values are called, for spreadsheets
    measurements.parquet    the noisy whole numbers, positive and negative, from which all tables follow
    records.parquet         synthetic records behind the whole numbers, if these were wanted
    tables.csv, tables.json the list of tables
    tables/                 every table as CSV and as Parquet
    SHA256SUMS              checksums of all of these

The same release always gives the same bytes, without times or random names. A folder with the final name always holds
the whole artifact: it is written under another name, synced to disk, and renamed.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from privcube.errors import ArtifactError, DeclarationError, Plain, PrivcubeError, counted
from privcube.model.documents.words import words_document, words_in
from privcube.model.plan import Plan
from privcube.model.publication.words import Words
from privcube.model.workload import Axis, Workload, table_cells, table_name
from privcube.progress import WRITING, Progress, silent, told
from privcube.released.artifact.folder import (
    CHECKSUMS,
    MEASUREMENTS,
    TABLES,
    Contents,
    cannot_write,
    checksums_text,
    new_folder,
    nothing_left,
    synced_files,
    synced_folder,
    write_file,
)
from privcube.released.artifact.manifest import CONFIDENCE, manifest, older_format, provenance_from, stated_in
from privcube.released.artifact.registry import registry_record
from privcube.released.artifact.statements import privacy_statement
from privcube.released.labels import NUMBERS
from privcube.released.release import Release, number_columns
from privcube.released.whole.facts import Facts

__all__ = ["artifact_digest", "bytes_objection", "is_unchanged", "open_release", "save", "stage", "synced_folder"]

PAGE: Final = "index.html"
STATEMENT: Final = "PRIVACY.md"
REGISTRY: Final = "registry.yaml"
MANIFEST: Final = "release.json"
PLAN: Final = "plan.json"
WORDS: Final = "words.json"
CODEBOOK: Final = "codebook.csv"
RECORDS: Final = "records.parquet"
INDEX: Final = ("tables.csv", "tables.json")


# Writing


def save(release: Release, folder: str | Path, progress: Progress = silent) -> None:
    """Write the artifact of a release to a new folder, all of it or nothing."""
    target = Path(folder)
    if os.path.lexists(target):
        expected = "a new folder (nothing is overwritten)"
        raise ArtifactError(str(target), expected=expected, given=Plain("an existing one"))
    with new_folder(target) as staged:
        stage(release, staged, progress)


def stage(release: Release, folder: Path, progress: Progress = silent) -> str:
    """Write the artifact durably to a new or empty folder, and return its digest."""
    try:
        folder.mkdir(exist_ok=True)
        if any(folder.iterdir()):
            raise ArtifactError(str(folder), expected="a new folder", given=Plain("one with files in it"))
    except OSError as problem:
        raise cannot_write("artifact", problem) from None
    with nothing_left(folder, "artifact"):
        (folder / TABLES).mkdir()
        digests = {}
        release.recover(progress)
        for name, content in _files(release, progress):
            write_file(folder / name, content)
            digests[name] = hashlib.sha256(content).hexdigest()
        write_file(folder / CHECKSUMS, checksums_text(digests).encode())
        synced_files([folder / name for name in [*digests, CHECKSUMS]], progress)
        for place in (folder / TABLES, folder, folder.parent):
            synced_folder(place)
    return artifact_digest(folder)


def artifact_digest(folder: Path) -> str:
    """The SHA-256 of the checksums file, which identifies all bytes of an unchanged artifact."""
    return hashlib.sha256(Contents.of(folder).text(CHECKSUMS).encode()).hexdigest()


def is_unchanged(folder: Path, digest: str | None) -> bool:
    """Whether a folder is an artifact with this digest, and every file in it is unchanged."""
    try:
        require_unchanged(Contents.of(folder))
        return artifact_digest(folder) == digest
    except ArtifactError:
        return False


def bytes_objection(release: Release, folder: Path, digest: str | None, known: Facts) -> str | None:
    """Why the bytes of an artifact are not those with a digest; None if they are, or were before something was added.

    Whole numbers may be added later, and the facts of the spec. Anybody could add others, and move all estimates.
    """
    from privcube.released.artifact.whole_files import has_facts
    from privcube.released.whole.release import WholeRelease

    if is_unchanged(folder, digest):
        return None
    plain = [release.facts] if isinstance(release, WholeRelease) else []
    for number, facts in enumerate([*plain, *([Facts()] if release.facts else [])]):
        with tempfile.TemporaryDirectory(prefix="privcube-") as place:
            again = Release(release.measurements, release.provenance, release.words, facts)
            if stage(again, Path(place) / f"again-{number}") == digest:
                added = f"it was given facts that neither release {release.provenance.get('entry')} nor the spec states"
                return None if facts == release.facts or has_facts(release, known) else added
    return f"these are not the bytes of release {release.provenance.get('entry')}"


def file_names(workload: Workload, whole: Mapping[str, Any] | None = None) -> list[str]:
    """The files of an artifact, except for the checksums; `whole` is what its manifest says of whole numbers."""
    from privcube.released.artifact.table_files import file_stems

    tables = [f"{TABLES}/{stem}.{kind}" for stem in file_stems(workload) for kind in ("csv", "parquet")]
    records = [RECORDS] if whole is not None and whole.get("with_records") is True else []
    documents = [PAGE, STATEMENT, REGISTRY, MANIFEST, PLAN, WORDS, CODEBOOK, MEASUREMENTS, *INDEX]
    return sorted([*documents, *records, *tables])


def _files(release: Release, progress: Progress) -> Iterator[tuple[str, bytes]]:
    # Imported here because pyarrow takes half a second to load, and ledger commands import this module.
    from privcube.released.artifact.table_files import (
        TableWriter,
        codebook_bytes,
        csv_bytes,
        file_stems,
        index_table,
        measurements_bytes,
    )
    from privcube.released.artifact.whole_files import Distance, known_document, records_bytes, whole_document
    from privcube.released.page.document import PageNumbers, page_document
    from privcube.released.page.html import page_bytes
    from privcube.released.whole.release import WholeRelease

    plan, writer, std_errors = release.plan, TableWriter(release.workload.schema, release.words), []
    carried = PageNumbers(plan, facts=bool(release.facts))
    apart = Distance()
    named = list(zip(file_stems(release.workload), release.workload, strict=True))
    for stem, table in told(named, WRITING, progress):
        values = release.values(table, CONFIDENCE)
        std_errors.append(float(np.sqrt(np.mean(values.std_error**2))))
        numbers = number_columns(values)
        apart.add(numbers)
        carried.add(numbers)
        yield f"{TABLES}/{stem}.csv", writer.csv(table, numbers)
        yield f"{TABLES}/{stem}.parquet", writer.parquet(table, numbers)
    rows = index_rows(release.workload, std_errors, release.words)
    yield INDEX[0], csv_bytes(index_table(rows))
    yield INDEX[1], json_text(rows).encode()
    whole = whole_document(release, apart.value) if isinstance(release, WholeRelease) else None
    if isinstance(release, WholeRelease) and release.found is not None:
        yield RECORDS, records_bytes(release.workload, release.found)
    files, known = [*file_names(release.workload, whole), CHECKSUMS], known_document(release)
    stated = manifest(plan, release.provenance, files, known=known, whole=whole)
    yield MANIFEST, json_text(stated).encode()
    yield PLAN, plan_text(plan).encode()
    yield WORDS, words_text(release.words).encode()
    yield CODEBOOK, codebook_bytes(release.workload.schema, release.words)
    yield MEASUREMENTS, measurements_bytes(release.measurements)
    statement = privacy_statement(plan, stated, release.words)
    yield STATEMENT, statement.encode()
    yield PAGE, page_bytes(page_document(plan, release.words, stated, statement, carried.errors, carried.found))
    yield REGISTRY, registry_record(plan, stated, release.words).encode()


def json_text(document: Any) -> str:
    """A document as ASCII JSON, one field per line."""
    return json.dumps(document, indent=1) + "\n"


def plan_text(plan: Plan) -> str:
    """The plan as written in an artifact."""
    return plan.to_json() + "\n"


def words_text(words: Words) -> str:
    """The words as written in an artifact."""
    return json_text(words_document(words))


def index_rows(workload: Workload, std_errors: list[float], words: Words) -> list[dict[str, Any]]:
    """The rows of tables.json: each table's number, name, title, axes, cells, standard error of a cell, and files."""
    from privcube.released.artifact.table_files import file_stems

    axes = [[Axis.of(entry) for entry in table] for table in workload]
    return [
        {
            "number": number,
            "table": table_name(table),
            "title": words.table_title(table),
            "axes": [axis._asdict() for axis in own],
            "cells": table_cells(workload.schema, table),
            "std_error": std_error,
            "csv": f"{TABLES}/{stem}.csv",
            "parquet": f"{TABLES}/{stem}.parquet",
        }
        for number, (table, own, std_error, stem) in enumerate(
            zip(workload, axes, std_errors, file_stems(workload), strict=True), start=1
        )
    ]


# Reading


def open_release(folder: str | Path) -> Release:
    """Read an artifact, after comparing its files with their checksums."""
    from privcube.released.artifact.table_files import read_measurements

    contents = Contents.of(Path(folder))
    require_unchanged(contents)
    plan = read_plan(contents)
    stated = stated_in(contents.document(MANIFEST))
    older = older_format(stated) is not None
    if stated["plan"] != plan.digest:
        raise ArtifactError(f"{MANIFEST}, plan", expected=f"the digest of {PLAN}", given=stated["plan"])
    measured, _ = read_measurements(contents, plan)
    words = Words() if older and WORDS not in contents.checksums else read_words(contents, plan)
    if "known" not in stated and "whole" not in stated:
        return Release(measured, provenance_from(stated), words)
    from privcube.released.artifact.whole_files import facts_in, open_whole

    made = Release(measured, provenance_from(stated), words, facts_in(stated))
    return made if "whole" not in stated else open_whole(made, contents, stated["whole"])


def require_unchanged(contents: Contents) -> None:
    """Refuse an artifact with a file that is missing or does not match its checksum."""
    wanted = [PLAN, MANIFEST, MEASUREMENTS]
    if MANIFEST in contents.checksums and older_format(contents.document(MANIFEST)) is None:
        wanted.append(WORDS)
    for name in wanted:
        if name not in contents.checksums:
            raise ArtifactError(CHECKSUMS, expected=f"a checksum of {name}", given=Plain("none"))
    for name in contents.changed():
        contents.path(name)
        changed = Plain("a different one (a file or the list was changed)")
        raise ArtifactError(name, expected=f"the SHA-256 listed in {CHECKSUMS}", given=changed)


def read_plan(contents: Contents) -> Plan:
    """Read the plan of an artifact, checked like any other, against its own digest and against the sizes of the files.

    A small plan can ask for any number of rows and cells. Nothing is worked out unless the folder has room for them.
    """
    from privcube.released.artifact.table_files import file_stems

    text = contents.text(PLAN)
    try:
        plan = Plan.from_json(text)
    except PrivcubeError as problem:
        raise ArtifactError(PLAN, expected="a plan", given=Plain(str(problem))) from None
    _require_room(contents, MEASUREMENTS, plan.rows, 8)
    for stem, cells in zip(file_stems(plan.workload), plan.workload.sizes, strict=True):
        _require_room(contents, f"{TABLES}/{stem}.csv", cells, len(NUMBERS))
    return plan


def read_words(contents: Contents, plan: Plan) -> Words:
    """Read the words of an artifact, checked against the tables of its plan."""
    try:
        return words_in(contents.document(WORDS), plan.workload)
    except DeclarationError as problem:
        raise ArtifactError(WORDS, expected="words about the plan", given=Plain(str(problem))) from None


def _require_room(contents: Contents, name: str, numbers: int, least: int) -> None:
    """Refuse a file with fewer than the least possible bytes for each of its rows."""
    contents.path(name)
    if numbers > contents.sizes[name] // least:
        expected = f"at least {least} bytes for each of {counted(numbers)} rows"
        raise ArtifactError(name, expected=expected, given=Plain(f"{contents.sizes[name]:,} in all"))
