"""SDMX-CSV 2.0: a table as observations of a dataflow, with identifiers and labels. Zone: RELEASED.

Components and codes have identifiers, and after a colon their labels, as the form of SDMX-CSV with `labels=both` has
them. OBS_VALUE is the estimate; its errors are attributes, and OBS_STATUS is "A" for a normal value and "U" for one of
low reliability (codelist CL_OBS_STATUS). See https://github.com/sdmx-twg/sdmx-csv.

Labels that a spreadsheet could treat as a formula are made safe, as in every CSV; identifiers start with a letter.
"""

from __future__ import annotations

import csv
import io
from typing import Final

from privcube.released.artifact.table_files import safe_text
from privcube.released.exports.identifiers import identifiers
from privcube.released.presentation.tables import PublishedTable, number_titles
from privcube.released.release import Release

_AGENCY: Final = "PRIVCUBE"
_TAKEN: Final = ("STRUCTURE", "STRUCTURE_ID", "ACTION", "OBS_VALUE", "OBS_STATUS")
_STATUS: Final = {"ok": "A: Normal value", "uncertain": "U: Low reliability", "holds zero": "U: Low reliability"}


def sdmx_bytes(release: Release, table: PublishedTable) -> bytes:
    """A table as SDMX-CSV."""
    titles = number_titles()
    errors = [name for name in table.numbers if name != "estimate"]
    taken = (*_TAKEN, *(name.upper() for name in errors))
    ids = identifiers([column.name for column in table.columns], taken)
    (flow,) = identifiers([f"t {table.name}"])
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
        writer.writerow([*line, *own, estimate, _STATUS[word], *others])
    return out.getvalue().encode()
