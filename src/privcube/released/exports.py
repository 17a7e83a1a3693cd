"""Tables of a release as files for other programs: CSV, Parquet, Excel, JSON-stat. Zone: RELEASED.

CSV and Parquet hold one long table. Several tables are stacked, with a column that names the table, and attributes that
a table lacks are left empty. Excel gets one sheet per table, JSON-stat a collection. Text that a spreadsheet would
treat as a formula is made safe in CSV (`privcube.released.artifact.table_files`) and marked as text in Excel.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from math import isnan
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from privcube.arrow import column_of
from privcube.errors import ArtifactError, Plain
from privcube.extras import load
from privcube.model.workload import Entry, canonical, table_name
from privcube.progress import ERROR_BARS, PACKING, WRITING, Progress, silent, told
from privcube.released.artifact.folder import write_alone
from privcube.released.artifact.manifest import CONFIDENCE
from privcube.released.artifact.table_files import TableWriter, csv_bytes, parquet_bytes, safe_text
from privcube.released.labels import COUNT, MEANS, NUMBERS, axis_labels, column_names, labeled
from privcube.released.release import Release, TableValues, number_columns

_MOST_ROWS: Final = 1_048_576  # of a sheet, by Excel's limit
_FORMAT_OF: Final = {".csv": "csv", ".parquet": "parquet", ".xlsx": "xlsx", ".json": "json-stat"}  # by a file's suffix
_LONGEST_TITLE: Final = 31  # characters of a sheet's name, by Excel's limit


def export(
    release: Release,
    path: str | Path,
    tables: Iterable[Sequence[Entry]] | None = None,
    *,
    format: str | None = None,
    progress: Progress = silent,
) -> None:
    """Write tables to a new file, by default all of the release.

    The format is "csv", "parquet", "xlsx" or "json-stat"; by default, the end of the file's name says which.
    """
    target = Path(path)
    kind = _FORMAT_OF.get(target.suffix.lower()) if format is None else format
    if kind not in FORMATS:
        given = target.name if format is None else format
        expected = "a name that ends in " + ", ".join(_FORMAT_OF) if format is None else "a known format"
        raise ArtifactError("format", expected=expected, given=given, available=FORMATS)
    tables = list(release.workload if tables is None else tables)
    if not tables:
        raise ArtifactError("export", expected="at least one table", given=Plain("none"))
    if target.exists():
        raise ArtifactError(str(target), expected="a new file (nothing is overwritten)", given=Plain("an existing one"))
    wanted = list(dict.fromkeys(canonical(release.workload.schema, table) for table in tables))
    release.recover(progress)
    values = [release.values(table, CONFIDENCE) for table in told(wanted, ERROR_BARS, progress)]
    write_alone(target, FORMATS[kind](release, values, progress))


# CSV and Parquet


def _csv(release: Release, values: list[TableValues], progress: Progress) -> bytes:
    long = _long(release, values, progress)
    columns = {
        safe_text(name): column_of([text and safe_text(text) for text in long[name].to_pylist()])
        if pa.types.is_string(long[name].type)
        else long[name]
        for name in long.column_names
    }
    return csv_bytes(pa.table(columns))


def _parquet(release: Release, values: list[TableValues], progress: Progress) -> bytes:
    return parquet_bytes(_long(release, values, progress))


def _long(release: Release, values: list[TableValues], progress: Progress) -> Any:
    """One table as it is, or several tables stacked."""
    writer = TableWriter(release.workload.schema)
    tables = [writer.arrow(own) for own in told(values, WRITING, progress)]
    if len(tables) == 1:
        return tables[0]
    entries = tuple(dict.fromkeys(entry for own in values for entry in labeled(own.table)))
    name_of = dict(zip(entries, column_names(entries), strict=True))
    which = _new_name("table", name_of.values())
    parts = []
    for own, table in zip(values, tables, strict=True):
        attributes = labeled(own.table)
        numbers = table.column_names[len(attributes) :]
        named = table.rename_columns([*(name_of[entry] for entry in attributes), *numbers])
        parts.append(named.append_column(which, column_of([table_name(own.table)] * len(table))))
    joined = pa.concat_tables(parts, promote_options="default")
    numbers = [name for name in (*NUMBERS, *MEANS, COUNT) if name in joined.column_names]
    return joined.select([which, *name_of.values(), *numbers])


def _new_name(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name


# Excel


def _xlsx(release: Release, values: list[TableValues], progress: Progress) -> bytes:
    library = load("openpyxl", extra="excel", purpose="Excel files")
    book = library.Workbook(write_only=True)
    writer, titles = TableWriter(release.workload.schema), set[str]()
    for own in told(values, WRITING, progress):
        if own.estimate.size >= _MOST_ROWS:
            raise ArtifactError(table_name(own.table), expected=f"under {_MOST_ROWS:,} rows", given=own.estimate.size)
        sheet = book.create_sheet(_title(table_name(own.table), titles))
        table = writer.arrow(own)
        for row in (table.column_names, *zip(*(column.to_pylist() for column in table.columns), strict=True)):
            sheet.append([_cell(library, sheet, value) for value in row])
    progress(PACKING, 0, None)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def _cell(library: Any, sheet: Any, value: Any) -> Any:
    """A cell; text stays text, even if it looks like a formula."""
    if not isinstance(value, str):
        return value
    cell = library.cell.WriteOnlyCell(sheet, value=value)
    cell.data_type = "s"
    return cell


def _title(name: str, taken: set[str]) -> str:
    """A new name for a sheet, short and without the characters that Excel reserves."""
    plain = re.sub(r"[\\/?*\[\]:']+", " ", name).strip()[:_LONGEST_TITLE] or "table"
    title, number = plain, 1
    while title.casefold() in taken:
        number += 1
        title = f"{plain[: _LONGEST_TITLE - len(str(number)) - 1]} {number}"
    taken.add(title.casefold())
    return title


# JSON-stat


def _json_stat(release: Release, values: list[TableValues], progress: Progress) -> bytes:
    """A JSON-stat 2.0 dataset or collection; the last dimension separates estimates from their errors."""
    sets = [_dataset(release, own) for own in told(values, WRITING, progress)]
    document = sets[0]
    if len(sets) > 1:
        label = f"{len(sets):,} tables"
        document = {"version": "2.0", "class": "collection", "label": label, "link": {"item": sets}}
    return json.dumps(document, allow_nan=False).encode()


def _dataset(release: Release, values: TableValues) -> dict[str, Any]:
    names = column_names(values.table)
    measure = _new_name("measure", names)
    columns = number_columns(values)
    dimensions = {measure: {"label": measure, "category": {"index": list(columns)}}}
    for name, entry in zip(names, labeled(values.table), strict=True):
        labels = {str(at): str(label) for at, label in enumerate(axis_labels(release.workload.schema, entry))}
        dimensions[name] = {"label": name, "category": {"index": list(labels), "label": labels}}
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return {
        "version": "2.0",
        "class": "dataset",
        "label": table_name(values.table),
        "id": [*names, measure],
        "size": [*values.estimate.shape, len(columns)],
        "role": {"metric": [measure]},
        "dimension": dimensions,
        "value": [None if isnan(number) else number for row in rows for number in row],
    }


FORMATS: Final[dict[str, Callable[[Release, list[TableValues], Progress], bytes]]] = {
    "csv": _csv,
    "parquet": _parquet,
    "xlsx": _xlsx,
    "json-stat": _json_stat,
}
