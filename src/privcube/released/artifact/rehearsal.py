"""What can be known of an artifact before there is one: whether a folder takes it and has room. Zone: RELEASED.

A release that fails after its charge has spent budget for nothing. So the folder is tried first: files of the longest
names are made in it, synced and removed, and the room on the disk is compared with what the plan says will be written.
"""

from __future__ import annotations

import shutil
from collections import Counter
from math import prod
from pathlib import Path
from typing import Final

from privcube.errors import ArtifactError, Plain
from privcube.model.plan import Plan
from privcube.model.publication.words import Words
from privcube.model.workload import Axis
from privcube.released.artifact.folder import CHECKSUMS, TABLES, cannot_write, synced_files, synced_folder
from privcube.released.artifact.store import file_names
from privcube.released.labels import NUMBERS, axis_labels, labeled, shown_labels
from privcube.released.page.document import carried_bytes
from privcube.released.page.html import script, style
from privcube.released.presentation.codebook import codebook_rows

_CSV_NUMBER: Final = 12  # bytes of a rounded number with sign, point and comma
_PARQUET_NUMBER: Final = 8
_TRUST: Final = 13  # bytes of how far to trust a number
_BLOCK: Final = 4096  # what a file takes at least, its end included
_STATEMENTS: Final = 16 * _BLOCK
_TABLE_IN_PAGE: Final = 60  # bytes of a table in the list of index.html


def rehearse(plan: Plan, folder: Path, words: Words | None = None) -> None:
    """Refuse an empty folder that cannot take the artifact of a plan; leave it empty."""
    names = [*file_names(plan.workload), CHECKSUMS]
    longest = [folder / max((name for name in names if name.startswith(start)), key=len) for start in ("", TABLES)]
    needed, free = space_needed(plan, words), shutil.disk_usage(folder).free
    if free < needed:
        raise ArtifactError(
            "output", expected=f"about {_megabytes(needed)} of room on its disk", given=Plain(_megabytes(free))
        )
    try:
        (folder / TABLES).mkdir()
        for file in dict.fromkeys(longest):
            file.write_bytes(b"\0")
        synced_files(longest)
        for place in (folder / TABLES, folder, folder.parent):
            synced_folder(place)
        for file in dict.fromkeys(longest):
            file.unlink()
        (folder / TABLES).rmdir()
    except OSError as problem:
        raise cannot_write("output", problem) from None


def space_needed(plan: Plan, words: Words | None = None) -> int:
    """About how many bytes the artifact of a plan takes: rather more than less, up to twice as many."""
    workload, said = plan.workload, Words() if words is None else words
    tables = sum(_table_bytes(plan, said, axes) * times for axes, times in Counter(map(_axes, workload)).items())
    about = sum(sum(map(len, row)) + 16 for row in codebook_rows(workload.schema, said))
    documents = len(plan.to_json()) + 2 * about + len(workload) * 500 + 2 * _BLOCK * len(workload)
    page = len(script()) + len(style()) + carried_bytes(workload) + _TABLE_IN_PAGE * len(workload)
    return tables + documents + 8 * plan.rows + _STATEMENTS + page


def _axes(table: tuple[str | Axis, ...]) -> tuple[Axis, ...]:
    return tuple(map(Axis.of, table))


def _table_bytes(plan: Plan, words: Words, axes: tuple[Axis, ...]) -> int:
    """Labels of average length, six numbers and perhaps a count for each cell, as CSV and as Parquet."""
    schema = plan.workload.schema
    labels = [axis_labels(schema, axis) for axis in labeled(axes)]
    cells = prod(map(len, labels))
    shown = [own for own in (shown_labels(schema, words, axis) for axis in labeled(axes)) if not isinstance(own, range)]
    text = sum(-(-sum(len(str(label).encode()) + 3 for label in own) // len(own)) for own in [*labels, *shown])
    return cells * (text + len(labels) + _TRUST + (_CSV_NUMBER + _PARQUET_NUMBER) * (len(NUMBERS) + 1))


def _megabytes(count: int) -> str:
    return f"{-(-count // 10**6):,} MB"
