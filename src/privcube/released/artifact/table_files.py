"""Tables and measurements as CSV and Parquet, the same bytes every time. Zone: RELEASED.

CSV is made to be opened in a spreadsheet, which takes text for a formula if it starts with one of = + - @, perhaps
behind blanks. Such text gets an apostrophe in front, in column names as well (OWASP, CSV injection). Where a
semicolon or a tab separates cells, text may start a cell in its middle: there, too. Text that has apostrophes in front
of such a start gets one more, so that taking one away gives back the true text. Parquet has the true text.
"""

from __future__ import annotations

import io
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from privcube.algebra.lattice import Floats, Integers
from privcube.arrow import array_of, column_of
from privcube.errors import ArtifactError, Plain
from privcube.model.groups import group_rows
from privcube.model.measurements import Measurements
from privcube.model.plan import Plan
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Table, Workload, table_name
from privcube.released.labels import NUMBERS, Label, axis_labels, column_names
from privcube.released.release import TableValues

_BLANKS: Final = "[^\\S\t\r\n]|[\u200b\u2060\ufeff]"
_STARTS_FORMULA: Final = re.compile(f"(^|[;|\t\r\n])(?='*(?:{_BLANKS})*[=+\\-@\t\r\uff1d\uff0b\uff0d\uff20])")
_LONGEST_SLUG: Final = 60


# Names


def file_stems(workload: Workload) -> list[str]:
    """A file name for every table: its number, and what is left of its name in plain letters and digits.

    >>> file_stems(Workload.tables(Schema.from_sizes({"../Größe": 2, "=a": 2}), [(), ("../Größe", "=a")]))
    ['0001-total', '0002-groe-x-a']
    """
    width = max(4, len(str(len(workload))))
    return [f"{number:0{width}}-{_slug(table_name(table))}" for number, table in enumerate(workload, start=1)]


def _slug(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub("[^a-z0-9]+", "-", plain).strip("-")[:_LONGEST_SLUG].rstrip("-") or "table"


def safe_text(text: str) -> str:
    """Text that no spreadsheet takes for a formula.

    >>> [safe_text(text) for text in ("=1+2", " -x", "'=1", "a-b", "x;@y", "[-5, -1)")]
    ["'=1+2", "' -x", "''=1", 'a-b', "x;'@y", '[-5, -1)']
    """
    return _STARTS_FORMULA.sub(r"\1'", text)


# Tables


def number_columns(values: TableValues) -> dict[str, Floats]:
    """The numbers of a table, one array each, in the order of its cells."""
    estimate, std_error = values.estimate.ravel(), values.std_error.ravel()
    margin, margin_all = values.margin.ravel(), values.margin_all.ravel()
    columns = (estimate, std_error, estimate - margin, estimate + margin, estimate - margin_all, estimate + margin_all)
    return dict(zip(NUMBERS, columns, strict=True))


class TableWriter:
    """Tables over one schema as bytes; remembers the labels of every entry."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._true: dict[str | Axis, Any] = {}
        self._safe: dict[str | Axis, Any] = {}

    def labels(self, table: Table) -> Any:
        """The columns of the attributes with their true labels: text, whole numbers or booleans."""
        return _crossed(column_names(table), [self._true_labels(entry) for entry in table])

    def safe_labels(self, table: Table) -> Any:
        """The same with text, in the names as well, that is safe in a spreadsheet."""
        names = [safe_text(name) for name in column_names(table)]
        return _crossed(names, [self._safe_labels(entry) for entry in table])

    def arrow(self, values: TableValues) -> Any:
        """The table with its true labels."""
        return _with_numbers(self.labels(values.table), values)

    def parquet(self, values: TableValues) -> bytes:
        """The table as Parquet."""
        return parquet_bytes(self.arrow(values))

    def csv(self, values: TableValues) -> bytes:
        """The table as CSV for spreadsheets: text in quotes and safe, numbers with a point."""
        return csv_bytes(_with_numbers(self.safe_labels(values.table), values))

    def _true_labels(self, entry: str | Axis) -> Any:
        if entry not in self._true:
            self._true[entry] = _label_array(axis_labels(self._schema, entry))
        return self._true[entry]

    def _safe_labels(self, entry: str | Axis) -> Any:
        if entry not in self._safe:
            true = self._true_labels(entry)
            is_text = pa.types.is_string(true.type)
            self._safe[entry] = column_of([safe_text(text) for text in true.to_pylist()]) if is_text else true
        return self._safe[entry]


def _crossed(names: Sequence[str], labels: Sequence[Any]) -> Any:
    """All combinations of labels, the last of them changing fastest."""
    shape = [len(own) for own in labels]
    places = np.unravel_index(np.arange(math.prod(shape)), shape) if names else ()
    columns = [own.take(column_of(place)) for own, place in zip(labels, places, strict=True)]
    return pa.table(columns, names=names)


def _with_numbers(labels: Any, values: TableValues) -> Any:
    numbers = [column_of(column) for column in number_columns(values).values()]
    return pa.table([*labels.columns, *numbers], names=[*labels.column_names, *NUMBERS])


def index_table(rows: Sequence[Mapping[str, Any]]) -> Any:
    """The list of tables for spreadsheets: their names safe, their axes left to the columns of the tables."""
    fields = [name for name in rows[0] if name != "axes"]
    return pa.table({name: column_of([_safe(row[name]) for row in rows]) for name in fields})


def _safe(value: Any) -> Any:
    return safe_text(value) if isinstance(value, str) else value


def _label_array(labels: Sequence[Label]) -> Any:
    if isinstance(labels, range):
        return column_of(np.arange(labels.start, labels.stop))
    if len({type(label) for label in labels}) > 1:  # codes, and (other) or (missing)
        return column_of([str(label) for label in labels])
    return column_of(labels)


def csv_bytes(table: Any) -> bytes:
    """An arrow table as CSV. Its text must be safe by now."""
    out = io.BytesIO()
    pyarrow.csv.write_csv(table, out, pyarrow.csv.WriteOptions(quoting_style="needed"))
    return out.getvalue()


def parquet_bytes(table: Any) -> bytes:
    """An arrow table as Parquet, with nothing in it but the table and the name of the library."""
    out = io.BytesIO()
    pyarrow.parquet.write_table(table, out, compression="snappy", store_schema=False)
    return out.getvalue()


def read_table(path: Path, subject: str, columns: Sequence[str], cells: int) -> Any:
    """A table of so many cells from Parquet, read only after its shape was found right."""
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            if (file.metadata.num_rows, file.schema_arrow.names) != (cells, list(columns)):
                raise ArtifactError(
                    subject, expected=f"{cells:,} rows and the columns of the plan", given=Plain("others")
                )
            return file.read()
    except (pa.ArrowException, OSError, ValueError, MemoryError):
        raise ArtifactError(subject, expected="Parquet that can be read", given=Plain("something else")) from None


def read_csv(path: Path, subject: str, types: Mapping[str, str]) -> Any:
    """A table from CSV with columns of these types."""
    try:
        found = pyarrow.csv.read_csv(path, convert_options=pyarrow.csv.ConvertOptions(column_types=types))
    except (pa.ArrowException, OSError, ValueError, MemoryError):
        raise ArtifactError(subject, expected="CSV that can be read", given=Plain("something else")) from None
    if found.column_names != list(types):
        raise ArtifactError(subject, expected="the columns of the plan", given=Plain("others"))
    return found


# Measurements


def measurements_bytes(measured: Measurements) -> bytes:
    """The noisy whole numbers as Parquet: group and row of the plan, and the answer, 8 bytes each."""
    groups, rows = _places(measured.plan)
    table = pa.table({"group": column_of(groups), "row": column_of(rows), "answer": column_of(measured.answers)})
    out = io.BytesIO()
    places = dict.fromkeys(("group", "row"), "DELTA_BINARY_PACKED")
    pyarrow.parquet.write_table(
        table,
        out,
        compression="none",
        use_dictionary=False,
        column_encoding={**places, "answer": "PLAIN"},
        store_schema=False,
    )
    return out.getvalue()


def read_measurements(path: Path, plan: Plan) -> Measurements:
    """Measurements of a plan from Parquet. A file too short for the plan's rows is refused before any is read."""
    subject, size = path.name, path.stat().st_size
    if plan.rows > size // 8:
        raise ArtifactError(subject, expected="8 bytes for each of the plan's rows", given=Plain(f"{size:,} in all"))
    table = read_table(path, subject, ("group", "row", "answer"), plan.rows)
    if any(column.type != pa.int64() or column.null_count for column in table.columns):
        raise ArtifactError(subject, expected="whole numbers of 64 bits", given=Plain("others"))
    found = [array_of(column) for column in table.columns]
    if not all(np.array_equal(own, place) for own, place in zip(found, _places(plan), strict=False)):
        raise ArtifactError(subject, expected="the groups and rows of the plan, in order", given=Plain("others"))
    return Measurements(plan, found[2])


def _places(plan: Plan) -> tuple[Integers, Integers]:
    """The group of every measurement, and its row in it."""
    counts = [group_rows(plan.frame, group) for group in plan.groups]
    groups = np.repeat(np.arange(len(counts)), counts)
    return groups, np.arange(len(groups)) - np.repeat(np.cumsum([0, *counts[:-1]]), counts)
