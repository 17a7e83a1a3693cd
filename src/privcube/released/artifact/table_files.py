"""Tables and measurements as CSV and Parquet, the same bytes every time. Zone: RELEASED.

CSV files must be safe in a spreadsheet, which treats text as a formula if it starts with one of = + - @, perhaps after
blanks. Such text gets an apostrophe in front, in column names as well (OWASP, CSV injection), and also in the middle of
a text, where a semicolon or tab may start a new cell. Text that already has apostrophes there gets one more, so that
removing one restores the original. Parquet files have the original text.
"""

from __future__ import annotations

import io
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
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
from privcube.released.artifact.folder import MEASUREMENTS, Contents
from privcube.released.artifact.parquet_form import Reading, read_parquet
from privcube.released.labels import COUNT, MEANS, NUMBERS, Label, axis_labels, column_names, labeled
from privcube.released.release import TableValues, number_columns

_BLANKS: Final = "[^\\S\t\r\n]|[\u200b\u2060\ufeff]"
_STARTS_FORMULA: Final = re.compile(f"(^|[;|\t\r\n])(?='*(?:{_BLANKS})*[=+\\-@\t\r\uff1d\uff0b\uff0d\uff20])")
_ROOM: Final = 2**16  # bytes by which a file of measurements may exceed twice its own numbers
_LONGEST_SLUG: Final = 60  # characters of a table's name in its file name, which has at most 100 (`folder`)


# Names


def file_stems(workload: Workload) -> list[str]:
    """A file name for every table: its number, and its name reduced to plain letters and digits.

    >>> file_stems(Workload.tables(Schema.from_sizes({"../Größe": 2, "=a": 2}), [(), ("../Größe", "=a")]))
    ['0001-total', '0002-groe-x-a']
    """
    width = max(4, len(str(len(workload))))
    return [f"{number:0{width}}-{_slug(table_name(table))}" for number, table in enumerate(workload, start=1)]


def _slug(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub("[^a-z0-9]+", "-", plain).strip("-")[:_LONGEST_SLUG].rstrip("-") or "table"


def safe_text(text: str) -> str:
    """Escape a text so that no spreadsheet treats it as a formula.

    >>> [safe_text(text) for text in ("=1+2", " -x", "'=1", "a-b", "x;@y", "[-5, -1)")]
    ["'=1+2", "' -x", "''=1", 'a-b', "x;'@y", '[-5, -1)']
    """
    return _STARTS_FORMULA.sub(r"\1'", text)


# Tables


class TableWriter:
    """Writes tables over one schema as bytes; caches the labels of every entry."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._true: dict[str | Axis, Any] = {}
        self._safe: dict[str | Axis, Any] = {}

    def labels(self, table: Table) -> Any:
        """The columns of the attributes, with the original labels: text, whole numbers or booleans."""
        return _crossed(column_names(table), [self._true_labels(entry) for entry in labeled(table)])

    def safe_labels(self, table: Table) -> Any:
        """The columns of the attributes, with text that is safe in a spreadsheet, in the names as well."""
        names = [safe_text(name) for name in column_names(table)]
        return _crossed(names, [self._safe_labels(entry) for entry in labeled(table)])

    def arrow(self, values: TableValues) -> Any:
        """The table with its original labels."""
        return _with_numbers(self.labels(values.table), number_columns(values))

    def parquet(self, table: Table, numbers: Mapping[str, Floats | Integers]) -> bytes:
        """A table with these columns of numbers, as Parquet."""
        return parquet_bytes(_with_numbers(self.labels(table), numbers))

    def csv(self, table: Table, numbers: Mapping[str, Floats | Integers]) -> bytes:
        """A table with these columns of numbers, as CSV for spreadsheets: text quoted and safe, a decimal point."""
        return csv_bytes(_with_numbers(self.safe_labels(table), numbers))

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
    """All combinations of labels, the last one changing fastest."""
    shape = [len(own) for own in labels]
    places = np.unravel_index(np.arange(math.prod(shape)), shape) if names else ()
    columns = [own.take(column_of(place)) for own, place in zip(labels, places, strict=True)]
    return pa.table(columns, names=names)


def _with_numbers(labels: Any, numbers: Mapping[str, Floats | Integers]) -> Any:
    names = [name for name in (*NUMBERS, *MEANS, COUNT) if name in numbers]
    columns = [*labels.columns, *(column_of(numbers[name]) for name in names)]
    return pa.table(columns, names=[*labels.column_names, *names])


def index_table(rows: Sequence[Mapping[str, Any]]) -> Any:
    """The list of tables for spreadsheets, with safe names and without axes."""
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
    """An Arrow table as CSV; its text must already be safe."""
    out = io.BytesIO()
    pyarrow.csv.write_csv(table, out, pyarrow.csv.WriteOptions(quoting_style="needed"))
    return out.getvalue()


def parquet_bytes(table: Any) -> bytes:
    """An Arrow table as Parquet, with no metadata but the name of the library."""
    out = io.BytesIO()
    pyarrow.parquet.write_table(table, out, compression="snappy", store_schema=False)
    return out.getvalue()


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


def read_measurements(contents: Contents, plan: Plan) -> tuple[Measurements, Reading]:
    """A plan's measurements, and how they were read."""
    form = measurements_bytes(Measurements(plan, np.zeros(plan.rows, dtype=np.int64)))
    content = contents.content(MEASUREMENTS, 2 * len(form) + _ROOM)
    found = read_parquet(content, form, MEASUREMENTS)
    places = [array_of(found.table[name]) for name in ("group", "row")]
    if not all(np.array_equal(own, place) for own, place in zip(places, _places(plan), strict=True)):
        raise ArtifactError(MEASUREMENTS, expected="the plan's groups and rows in order", given=Plain("different ones"))
    if found.table["answer"].null_count:
        raise ArtifactError(MEASUREMENTS, expected="whole numbers", given=Plain("missing ones"))
    return Measurements(plan, array_of(found.table["answer"])), found


def _places(plan: Plan) -> tuple[Integers, Integers]:
    """The group of every measurement, and its row in that group."""
    counts = [group_rows(plan.frame, group) for group in plan.groups]
    groups = np.repeat(np.arange(len(counts)), counts)
    return groups, np.arange(len(groups)) - np.repeat(np.cumsum([0, *counts[:-1]]), counts)
