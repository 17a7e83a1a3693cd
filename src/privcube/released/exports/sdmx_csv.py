"""SDMX-CSV 2.0: a table as observations of a dataflow, with identifiers and labels. Zone: RELEASED.

Components and codes have identifiers, and after a colon their labels, as the form of SDMX-CSV with `labels=both` has
them. OBS_VALUE is the estimate; its errors are attributes, and OBS_STATUS is "A" for a normal value and "U" for one of
low reliability (codelist CL_OBS_STATUS). See https://github.com/sdmx-twg/sdmx-csv.

Labels that a spreadsheet could treat as a formula are made safe, as in every CSV; identifiers start with a letter.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from privcube.model.workload import Axis, Table
from privcube.released.artifact.table_files import safe_text
from privcube.released.exports.identifiers import axis_identifiers, identifiers, table_identifiers
from privcube.released.labels import labeled
from privcube.released.presentation.tables import PublishedTable, number_titles
from privcube.released.release import Release

_AGENCY: Final = "PRIVCUBE"
_TAKEN: Final = ("STRUCTURE", "STRUCTURE_ID", "ACTION", "OBS_VALUE", "OBS_STATUS")
_STATUS: Final = {"ok": "A: Normal value", "uncertain": "U: Low reliability", "holds zero": "U: Low reliability"}


class SdmxWriter:
    """Tables of a release as SDMX-CSV: each is a dataflow of its own, and a dimension is the same in all of them."""

    def __init__(self, release: Release, tables: Sequence[Table]) -> None:
        """Name all tables of the release, and these."""
        self._flows = table_identifiers(release.workload, tables)
        self._dimensions = axis_identifiers(release.workload, tables, (*_TAKEN, *number_titles()))

    def bytes_of(self, release: Release, table: PublishedTable) -> bytes:
        """A table."""
        return _written(table, self._flows[table.table], self._dimensions)


def _written(table: PublishedTable, flow: str, dimensions: Mapping[Axis, str]) -> bytes:
    titles = number_titles()
    errors = [name for name in table.numbers if name != "estimate"]
    ids = [dimensions[Axis.of(entry)] for entry in labeled(table.table)]
    header = [
        "STRUCTURE",
        "STRUCTURE_ID",
        "ACTION",
        *(f"{own}: {column.title}" for own, column in zip(ids, table.columns, strict=True)),
        "OBS_VALUE",
        "OBS_STATUS: Observation status",
        *(f"{name.upper()}: {titles.get(name, name)}" for name in errors),
    ]
    codes = [
        [safe_text(f"{own}: {label}") for own, label in zip(identifiers(column.codes), column.labels, strict=True)]
        for column in table.columns
    ]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(map(safe_text, header))
    labels = zip(
        *([own[at] for at in place] for own, place in zip(codes, table.cells_along(), strict=True)), strict=True
    )
    cells = labels if codes else [()]
    numbers = zip(*(table.numbers[name].tolist() for name in ("estimate", *errors)), strict=True)
    for own, (estimate, *others), word in zip(cells, numbers, table.reliability(), strict=True):
        line = ["dataflow", f"{_AGENCY}:{flow}(1.0)", "I"]
        writer.writerow([*line, *own, _known(estimate), _STATUS[word], *map(_known, others)])
    return out.getvalue().encode()


def _known(number: Any) -> Any:
    """A number, or nothing where it is not determined."""
    return None if isinstance(number, float) and math.isnan(number) else number
