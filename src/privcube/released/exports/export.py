"""Tables of a release as files for other programs. Zone: RELEASED.

A format makes one file of all tables, or a folder with a file for each. CSV and Parquet hold one long table: several
tables are stacked, with columns that name the table, and attributes that a table lacks are left empty. Text that a
spreadsheet would treat as a formula is made safe in every kind of CSV (`privcube.released.artifact.table_files`), and
marked as text in Excel.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from privcube.arrow import column_of
from privcube.errors import ArtifactError, Plain, QueryError
from privcube.model.measures.asked import measured_axis
from privcube.model.workload import Axis, Entry, Table, canonical, table_name
from privcube.progress import ERROR_BARS, WRITING, Progress, silent, told
from privcube.released.artifact.folder import (
    new_folder,
    synced_files,
    synced_folder,
    write_alone,
    write_file,
)
from privcube.released.artifact.manifest import CONFIDENCE
from privcube.released.artifact.table_files import (
    TableWriter,
    codebook_bytes,
    csv_bytes,
    new_name,
    parquet_bytes,
    safe_text,
)
from privcube.released.exports.csvw import csvw_files
from privcube.released.exports.excel import excel_bytes
from privcube.released.exports.json_stat import json_stat_bytes
from privcube.released.exports.measurements import measurement_files
from privcube.released.exports.px import PxWriter
from privcube.released.exports.sdmx_csv import SdmxWriter
from privcube.released.labels import IN_ORDER, column_names, labeled
from privcube.released.presentation.tables import PublishedTable, published
from privcube.released.release import Release, TableValues
from privcube.released.report.content import MOST_TABLES, Report, report_of
from privcube.released.report.page import report_html
from privcube.released.report.pdf import report_pdf
from privcube.released.values import taken_in

_FORMAT_OF: Final = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".xlsx": "xlsx",
    ".json": "json-stat",
    ".px": "px",
    ".html": "report-html",
    ".pdf": "report-pdf",
}  # by a file's suffix

_WITHOUT_TABLES: Final = ("codebook", "measurements")  # formats that have no estimates

Files = bytes | Mapping[str, bytes]


def export(
    release: Release,
    path: str | Path,
    tables: Iterable[Sequence[Entry]] | None = None,
    *,
    format: str | None = None,
    shares: Sequence[str] | str | None = None,
    progress: Progress = silent,
) -> None:
    """Write tables to a new file or folder, by default all of the release.

    The format is "csv", "parquet", "xlsx", "json-stat", "px", "sdmx-csv", "csvw", "codebook", "measurements",
    "report-html" or "report-pdf"; by default, the end of the file's name says which. Of "px" and "sdmx-csv", several
    tables are a folder of files; "csvw" and "measurements" always are. With `shares`, tables of counts have columns
    with shares and their intervals, as in `Release.table`; where they would add up over attributes that a table lacks,
    it has none.
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
    if os.path.lexists(target):
        raise ArtifactError(str(target), expected="a new file (nothing is overwritten)", given=Plain("an existing one"))
    wanted = list(dict.fromkeys(canonical(release.workload.schema, table) for table in tables))
    if format is None and kind == "px" and len(wanted) > 1:
        expected = 'one table, or format = "px" and the name of a folder for several'
        raise ArtifactError(str(target), expected=expected, given=len(wanted))
    if shares is not None and all(_shares_in(table, shares) is None for table in wanted):
        available = ("total", "row", "column", *release.workload.schema.names)
        raise QueryError("shares", expected="attributes of a table of counts", given=shares, available=available)
    values: list[TableValues] = []
    if kind not in _WITHOUT_TABLES:
        release.recover(progress)
        listed = told(wanted, ERROR_BARS, progress)
        values = [release.values(table, CONFIDENCE, _shares_in(table, shares)) for table in listed]
    made = FORMATS[kind](release, values, progress)
    if isinstance(made, bytes):
        write_alone(target, made)
    else:
        _write_folder(target, made, progress)


def _shares_in(table: Table, shares: Sequence[str] | str | None) -> Sequence[str] | str | None:
    """The shares that a table can have of those asked for: of its total, if it has no rows and columns."""
    if shares is None or measured_axis(table) is not None or not table:
        return None
    if shares in ("row", "column"):
        return shares if len(table) > 1 else "total"
    names = [Axis.of(entry).attribute for entry in table]
    asked = [shares] if isinstance(shares, str) else shares
    return shares if shares == "total" or all(name in names for name in asked) else None


def _write_folder(target: Path, files: Mapping[str, bytes], progress: Progress) -> None:
    """Write a new folder, all of it or nothing."""
    with new_folder(target) as staged:
        staged.mkdir()
        for name, content in files.items():
            write_file(staged / name, content)
        synced_files([staged / name for name in files], progress)
        synced_folder(staged)


# CSV and Parquet


def _csv(release: Release, values: list[TableValues], progress: Progress) -> bytes:
    writer = TableWriter(release.workload.schema, release.words, taken_in(values))
    if len(values) == 1:
        return writer.csv_of(values[0])
    return csv_bytes(_stacked(release, values, writer.shown, progress, safe=True))


def _parquet(release: Release, values: list[TableValues], progress: Progress) -> bytes:
    writer = TableWriter(release.workload.schema, taken=taken_in(values))
    if len(values) == 1:
        return parquet_bytes(writer.arrow(values[0]))
    return parquet_bytes(_stacked(release, values, writer.arrow, progress))


def _stacked(
    release: Release,
    values: list[TableValues],
    as_arrow: Callable[[TableValues], Any],
    progress: Progress,
    safe: bool = False,
) -> Any:
    """Several tables as one, with columns that name the table."""
    entries = tuple(dict.fromkeys(entry for own in values for entry in labeled(own.table)))
    also = taken_in(values)
    name_of = dict(zip(entries, column_names(entries, also), strict=True))
    taken = set(name_of.values())
    which = new_name("table", taken)
    titled = [new_name("table title", taken)] if safe else []  # files for programs have names alone
    seen: dict[str, None] = {}
    parts = []
    for own in told(values, WRITING, progress):
        table = as_arrow(own)
        new = dict(
            zip(
                column_names(own.table, taken_in(values)), (name_of[entry] for entry in labeled(own.table)), strict=True
            )
        )
        names = [_renamed(name, new, safe) for name in table.column_names]
        seen |= dict.fromkeys(name for name in names if name not in IN_ORDER)
        name, title = table_name(own.table), release.words.table_title(own.table)
        shown = [safe_text(name), safe_text(title)] if safe else [name]
        named = table.rename_columns(names)
        for column, text in zip([which, *titled], shown, strict=True):
            named = named.append_column(column, column_of([text] * len(table)))
        parts.append(named)
    joined = pa.concat_tables(parts, promote_options="permissive")  # rounded numbers may be whole in one table alone
    numbers = [name for name in IN_ORDER if name in joined.column_names]
    return joined.select([which, *titled, *seen, *numbers])


def _renamed(name: str, new: Mapping[str, str], safe: bool) -> str:
    """A column of a table as it is called among those of all tables: an attribute, its labels, or numbers."""
    for old, own in new.items():
        shown, called = (safe_text(old), safe_text(own)) if safe else (old, own)
        if name == shown:
            return called
        if safe and name.rstrip("_") == safe_text(f"{old} label"):
            return safe_text(f"{own} label")
    return name


# One file for each table


def _each(
    release: Release,
    values: list[TableValues],
    progress: Progress,
    ending: str,
    content: Callable[[Release, PublishedTable], bytes],
) -> Files:
    """The file of one table, or a folder with those of several."""
    made = [content(release, published(release, own)) for own in told(values, WRITING, progress)]
    if len(made) == 1:
        return made[0]
    return {f"{number:04d}{ending}": own for number, own in enumerate(made, start=1)}


def _px(release: Release, values: list[TableValues], progress: Progress) -> Files:
    return _each(release, values, progress, ".px", PxWriter(release, [own.table for own in values]).bytes_of)


def _sdmx(release: Release, values: list[TableValues], progress: Progress) -> Files:
    return _each(release, values, progress, ".csv", SdmxWriter(release, [own.table for own in values]).bytes_of)


def _csvw(release: Release, values: list[TableValues], progress: Progress) -> Files:
    return csvw_files(release, values, progress)


def _published(release: Release, values: list[TableValues], progress: Progress) -> Iterator[PublishedTable]:
    yield from (published(release, own) for own in told(values, WRITING, progress))


def _xlsx(release: Release, values: list[TableValues], progress: Progress) -> bytes:
    return excel_bytes(release, values, _published(release, values, progress), progress)


def _json_stat(release: Release, values: list[TableValues], progress: Progress) -> bytes:
    return json_stat_bytes(release, list(_published(release, values, progress)))


def _report(release: Release, values: list[TableValues], progress: Progress) -> Report:
    shown = values[:MOST_TABLES]
    return report_of(release, list(_published(release, shown, progress)), len(values) - len(shown))


def _report_html(release: Release, values: list[TableValues], progress: Progress) -> bytes:
    return report_html(_report(release, values, progress))


def _report_pdf(release: Release, values: list[TableValues], progress: Progress) -> bytes:
    return report_pdf(_report(release, values, progress))


def _measurements(release: Release, values: list[TableValues], progress: Progress) -> Files:
    return measurement_files(release, progress)


def _codebook(release: Release, values: list[TableValues], progress: Progress) -> bytes:
    return codebook_bytes(release.workload.schema, release.words)


FORMATS: Final[dict[str, Callable[[Release, list[TableValues], Progress], Files]]] = {
    "csv": _csv,
    "parquet": _parquet,
    "xlsx": _xlsx,
    "json-stat": _json_stat,
    "px": _px,
    "sdmx-csv": _sdmx,
    "csvw": _csvw,
    "codebook": _codebook,
    "measurements": _measurements,
    "report-html": _report_html,
    "report-pdf": _report_pdf,
}
