"""Tables and measurements as CSV and Parquet, the same bytes every time. Zone: RELEASED.

CSV files must be safe in a spreadsheet, which treats text as a formula if it starts with one of = + - @, perhaps after
blanks. Such text gets an apostrophe in front, in column names as well (OWASP, CSV injection), and also in the middle of
a text, where a semicolon or tab may start a new cell. Text that already has apostrophes there gets one more, so that
removing one restores the original.

CSV files are for people: where cells read otherwise than they are called in the schema, a column of labels follows;
numbers are rounded, and a column says how far to trust them (`privcube.released.presentation.numbers`). Parquet files
are for programs: they have the original text and all digits.
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
from privcube.model.publication.words import Words, code_text
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Table, Workload, table_name
from privcube.released.artifact.folder import MEASUREMENTS, Contents
from privcube.released.artifact.parquet_form import Reading, read_parquet
from privcube.released.labels import (
    IN_ORDER,
    RELIABILITY,
    Label,
    axis_labels,
    column_names,
    labeled,
    shown_labels,
)
from privcube.released.presentation import numbers as presented
from privcube.released.presentation.codebook import COLUMNS, codebook_rows
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
    """Writes tables over one schema as bytes, in a publisher's words; caches the labels of every entry."""

    def __init__(self, schema: Schema, words: Words | None = None, taken: Sequence[str] = ()) -> None:
        self._schema = schema
        self._taken = taken  # names that columns of attributes may not have, beside those that they never have
        self._words = Words() if words is None else words
        self._true: dict[str | Axis, Any] = {}
        self._safe: dict[str | Axis, list[Any]] = {}

    def labels(self, table: Table) -> Any:
        """The columns of the attributes, with the original labels: text, whole numbers or booleans."""
        return _crossed(column_names(table, self._taken), [[self._true_labels(entry)] for entry in labeled(table)])

    def safe_labels(self, table: Table) -> Any:
        """The columns of the attributes, with text that is safe in a spreadsheet, in the names as well.

        An attribute whose cells read otherwise than they are called has a second column, with labels.
        """
        columns = [self._safe_labels(entry) for entry in labeled(table)]
        taken, names = set(column_names(table, self._taken)), []
        for name, own in zip(column_names(table, self._taken), columns, strict=True):
            names += [name, *([] if len(own) == 1 else [new_name(f"{name} label", taken)])]
        return _crossed([safe_text(name) for name in names], columns)

    def arrow(self, values: TableValues) -> Any:
        """The table with its original labels."""
        return _with_numbers(self.labels(values.table), number_columns(values))

    def parquet(self, table: Table, numbers: Mapping[str, Floats | Integers]) -> bytes:
        """A table with these columns of numbers, as Parquet."""
        return parquet_bytes(_with_numbers(self.labels(table), numbers))

    def csv(self, table: Table, numbers: Mapping[str, Floats | Integers]) -> bytes:
        """A table with these columns of numbers, as CSV for spreadsheets: text quoted and safe, a decimal point."""
        return csv_bytes(_with_numbers(self.safe_labels(table), self.published(table, numbers)))

    def shown(self, values: TableValues) -> Any:
        """The table as CSV has it: safe text, labels, rounded numbers."""
        return _with_numbers(self.safe_labels(values.table), self.published(values.table, number_columns(values)))

    def csv_of(self, values: TableValues) -> bytes:
        """The table as CSV for spreadsheets."""
        return csv_bytes(self.shown(values))

    def published(self, table: Table, numbers: Mapping[str, Floats | Integers]) -> dict[str, Any]:
        """The columns of numbers as published, and how far to trust them."""
        found = presented.published_numbers(numbers, presented.decimals_by_column(numbers, self._words))
        for name, own in found.items():
            unknown = np.isnan(own)
            if unknown.any():  # not determined: an empty field
                found[name] = pa.array(own.tolist(), mask=unknown)
        words = column_of(list(presented.RELIABILITY))
        trust = presented.reliability(numbers, self._words, counts=labeled(table) == table)
        return {
            **found,
            RELIABILITY: words.take(column_of(trust)),
        }

    def _true_labels(self, entry: str | Axis) -> Any:
        if entry not in self._true:
            self._true[entry] = _label_array(axis_labels(self._schema, entry))
        return self._true[entry]

    def _safe_labels(self, entry: str | Axis) -> list[Any]:
        """What the cells are called, and what they read like if that is something else."""
        if entry not in self._safe:
            true = self._true_labels(entry)
            is_text = pa.types.is_string(true.type)
            safe = [column_of([safe_text(text) for text in true.to_pylist()]) if is_text else true]
            shown = shown_labels(self._schema, self._words, entry)
            if not isinstance(shown, range):
                called = list(map(code_text, axis_labels(self._schema, entry)))
                read = list(map(code_text, shown))
                safe += [] if read == called else [column_of(list(map(safe_text, read)))]
            self._safe[entry] = safe
        return self._safe[entry]


def _crossed(names: Sequence[str], labels: Sequence[Sequence[Any]]) -> Any:
    """All combinations of cells, the last one changing fastest; every attribute has one or more columns."""
    shape = [len(own[0]) for own in labels]
    places = np.unravel_index(np.arange(math.prod(shape)), shape) if names else ()
    columns = [one.take(column_of(place)) for own, place in zip(labels, places, strict=True) for one in own]
    return pa.table(columns, names=names)


def new_name(name: str, taken: set[str]) -> str:
    """A name that is not taken, and now is: with underscores at its end, if need be."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _with_numbers(labels: Any, numbers: Mapping[str, Any]) -> Any:
    names = [name for name in IN_ORDER if name in numbers]
    added = (numbers[name] for name in names)
    columns = [*labels.columns, *(own if isinstance(own, pa.Array) else column_of(own) for own in added)]
    return pa.table(columns, names=[*labels.column_names, *names])


def index_table(rows: Sequence[Mapping[str, Any]]) -> Any:
    """The list of tables for spreadsheets, with safe names, rounded errors and without axes."""
    fields = [name for name in rows[0] if name != "axes"]
    return pa.table({name: column_of([_shown(row[name]) for row in rows]) for name in fields})


def _shown(value: Any) -> Any:
    if isinstance(value, float):
        return float(presented.rounded("std_error", np.array([value]), max(2, presented.decimals_for(value)))[0])
    return safe_text(value) if isinstance(value, str) else value


def codebook_bytes(schema: Schema, words: Words) -> bytes:
    """The codebook as CSV, with text that is safe in a spreadsheet."""
    rows = [list(map(safe_text, row)) for row in codebook_rows(schema, words)]
    return csv_bytes(pa.table([column_of(list(own)) for own in zip(*rows, strict=True)], names=COLUMNS))


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
