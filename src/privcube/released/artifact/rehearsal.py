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
from privcube.model.workload import Axis
from privcube.released.artifact.folder import CHECKSUMS, TABLES, cannot_write, synced_files, synced_folder
from privcube.released.artifact.store import file_names
from privcube.released.labels import NUMBERS, axis_labels, labeled
from privcube.released.page.document import carried_bytes
from privcube.released.page.html import script, style

_CSV_NUMBER: Final = 20  # bytes of a number with sign, point and comma: most have 15 to 17 digits
_PARQUET_NUMBER: Final = 8
_BLOCK: Final = 4096  # what a file takes at least, its end included
_STATEMENTS: Final = 12 * _BLOCK
_TABLE_IN_PAGE: Final = 60  # bytes of a table in the list of index.html


def rehearse(plan: Plan, folder: Path) -> None:
    """Refuse an empty folder that cannot take the artifact of a plan; leave it empty."""
    names = [*file_names(plan.workload), CHECKSUMS]
    longest = [folder / max((name for name in names if name.startswith(start)), key=len) for start in ("", TABLES)]
    needed, free = space_needed(plan), shutil.disk_usage(folder).free
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


def space_needed(plan: Plan) -> int:
    """About how many bytes the artifact of a plan takes: rather more than less, up to twice as many."""
    workload = plan.workload
    tables = sum(_table_bytes(plan, axes) * times for axes, times in Counter(map(_axes, workload)).items())
    documents = len(plan.to_json()) + len(workload) * 400 + 2 * _BLOCK * len(workload)
    page = len(script()) + len(style()) + carried_bytes(workload) + _TABLE_IN_PAGE * len(workload)
    return tables + documents + 8 * plan.rows + _STATEMENTS + page


def _axes(table: tuple[str | Axis, ...]) -> tuple[Axis, ...]:
    return tuple(map(Axis.of, table))


def _table_bytes(plan: Plan, axes: tuple[Axis, ...]) -> int:
    """Labels of average length, six numbers and perhaps a count for each cell, as CSV and as Parquet."""
    labels = [axis_labels(plan.workload.schema, axis) for axis in labeled(axes)]
    cells = prod(map(len, labels))
    text = sum(-(-sum(len(str(label).encode()) + 3 for label in own) // len(own)) for own in labels)
    return cells * (text + len(labels) + (_CSV_NUMBER + _PARQUET_NUMBER) * (len(NUMBERS) + 1))


def _megabytes(count: int) -> str:
    return f"{-(-count // 10**6):,} MB"
