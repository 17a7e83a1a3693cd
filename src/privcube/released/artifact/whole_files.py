"""Facts and whole numbers in an artifact: the records, what the manifest says, and what can be checked. Zone: RELEASED.

`records.parquet` has distinct rows of labels and how often each of them occurs. The manifest states the public facts
that were used and whether estimates honor them, the effort, whether counts have intervals, and how far they are from
the estimates: the root mean square, over all cells, of (count - estimate) / std_error.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from privcube.algebra.lattice import Floats, Integers
from privcube.arrow import array_of, column_of
from privcube.errors import ArtifactError, Plain, PrivcubeError
from privcube.model.schema import Schema
from privcube.model.workload import Table, Workload, table_cells
from privcube.released.artifact.folder import TABLES, Contents
from privcube.released.artifact.parquet_form import read_parquet
from privcube.released.artifact.store import RECORDS
from privcube.released.artifact.table_files import TableWriter, file_stems
from privcube.released.labels import COUNT, COUNTS, NUMBERS, Label, column_names
from privcube.released.release import Release
from privcube.released.selection import selected_cells
from privcube.released.whole.facts import MOST_RECORDS, Facts, impossible_cells
from privcube.released.whole.records import Records
from privcube.released.whole.release import WholeRelease, attribute_names
from privcube.released.whole.search import checked_effort

_KNOWN_FIELDS: Final = ("records", "impossible", "in_estimates")
_FIELDS: Final = ("effort", "with_records", "distance")
_INTERVALS: Final = "count_intervals"  # only there, and true, if tables have them
_DIGITS: Final = 6  # of the stated distance
_MOST_ROWS: Final = 2**21  # four times as many as the search can find: a hostile file must not fill the memory
_ROOM: Final = 2**16  # bytes by which a file may exceed twice its form


class Distance:
    """The root mean square of (count - estimate) / std_error, added up table by table."""

    def __init__(self) -> None:
        self._squares, self._cells, self.largest = 0.0, 0, 0.0  # in standard errors, or in records if that is less

    def add(self, numbers: Mapping[str, Floats | Integers]) -> None:
        """Add a table; one without counts adds nothing."""
        if COUNT in numbers:
            off = np.abs(numbers[COUNT] - numbers["estimate"]) / np.maximum(numbers["std_error"], 1.0)
            self.largest = max(self.largest, float(off.max(initial=0.0)))
            known = numbers["std_error"] > 0
            apart = (numbers[COUNT] - numbers["estimate"])[known] / numbers["std_error"][known]
            self._squares += float(np.sum(apart**2))
            self._cells += apart.size

    @property
    def value(self) -> float:
        """The distance, to a few digits."""
        return float(f"{math.sqrt(self._squares / max(self._cells, 1)):.{_DIGITS}g}")


# What the manifest says


def whole_document(release: WholeRelease, distance: float) -> dict[str, Any]:
    """How whole numbers were made, for the manifest."""
    made = {"effort": release.effort, "with_records": release.found is not None, "distance": distance}
    return {**made, _INTERVALS: True} if release.intervals else made


def count_columns(document: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns of whole numbers, by what the manifest says of them."""
    return COUNTS if _INTERVALS in document else COUNTS[:1]


def counts_in(stated: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns of whole numbers that a manifest says there are, if any."""
    if "whole" not in stated:
        return ()
    effort_in(stated["whole"])
    return count_columns(stated["whole"])


def known_document(release: Release) -> dict[str, Any] | None:
    """What was publicly known, for the manifest; None if nothing was."""
    schema, facts = release.workload.schema, release.facts
    if not facts:
        return None
    impossible = [
        {name: [schema[name].labels[cell] for cell in selected_cells(schema[name], own)] for name, own in one.items()}
        for one in facts.impossible
    ]
    return {"records": facts.records, "impossible": impossible, "in_estimates": release.honors_facts}


def has_facts(release: Release, facts: Facts) -> bool:
    """Whether the facts of a release are these, however they are written."""
    try:
        return known_document(release) == known_document(release.knowing(facts))
    except PrivcubeError:  # about another schema
        return False


def facts_in(stated: Mapping[str, Any]) -> Facts:
    """What was publicly known, from the manifest."""
    if "known" not in stated:
        return Facts()
    document = stated["known"]
    if not isinstance(document, dict) or set(document) != set(_KNOWN_FIELDS):
        raise ArtifactError("release.json, known", expected=f"the fields {', '.join(_KNOWN_FIELDS)}")
    return Facts(document["records"], document["impossible"])


def effort_in(document: Any) -> str:
    """How whole numbers were made, from the manifest."""
    if not isinstance(document, dict) or set(document) - {_INTERVALS} != set(_FIELDS):
        raise ArtifactError("release.json, whole", expected=f"the fields {', '.join(_FIELDS)}")
    distance = document["distance"]
    if document.get(_INTERVALS, True) is not True:
        raise ArtifactError(
            "release.json, whole", expected=f"{_INTERVALS} = true or nothing", given=document[_INTERVALS]
        )
    if type(document["with_records"]) is not bool or type(distance) is not float or not 0 <= distance < math.inf:
        raise ArtifactError(
            "release.json, whole", expected="with_records and a distance", given=Plain("something else")
        )
    if not isinstance(document["effort"], str):
        raise ArtifactError("release.json, whole", expected="an effort", given=document["effort"])
    return checked_effort(document["effort"])


# Records


def records_bytes(workload: Workload, records: Records) -> bytes:
    """The records as Parquet: labels of every attribute, and how often the row occurs, 8 bytes each."""
    writer, names = TableWriter(workload.schema), attribute_names(workload)
    columns = [
        writer.labels((name,)).column(0).take(column_of(records.codes[:, at].astype(np.int64)))
        for at, name in enumerate(names)
    ]
    own = column_names(names)
    table = pa.table([*columns, column_of(records.times)], names=[*own, COUNT])
    out = io.BytesIO()
    pyarrow.parquet.write_table(
        table,
        out,
        compression={**dict.fromkeys(own, "snappy"), COUNT: "none"},
        use_dictionary=own,
        column_encoding={COUNT: "PLAIN"},
        store_schema=False,
    )
    return out.getvalue()


def read_records(contents: Contents, workload: Workload) -> Records:
    """The records of an artifact: distinct rows in order, with the declared labels."""
    content = contents.content(RECORDS)
    try:
        rows = pyarrow.parquet.read_metadata(pa.BufferReader(content)).num_rows
    except (pa.ArrowException, OSError, ValueError):
        raise ArtifactError(RECORDS, expected="readable Parquet", given=Plain("something else")) from None
    if not 0 <= 8 * rows <= len(content) or rows > _MOST_ROWS:
        expected = f"at most {_MOST_ROWS:,} rows, each of at least 8 bytes"
        raise ArtifactError(RECORDS, expected=expected, given=Plain("something else"))
    names, writer = attribute_names(workload), TableWriter(workload.schema)
    longest = [_longest(workload.schema[name].labels) for name in names]
    form = Records(np.tile(np.array(longest, dtype=np.int64), (rows, 1)), np.ones(rows, dtype=np.int64))
    found = read_parquet(content, records_bytes(workload, form), RECORDS).table
    codes = np.zeros((rows, len(names)), dtype=np.int64)
    for at, (name, column) in enumerate(zip(names, column_names(names), strict=True)):
        labels = writer.labels((name,)).column(0).combine_chunks()
        places = pa.compute.index_in(found[column], value_set=labels)
        if places.null_count:
            raise ArtifactError(RECORDS, expected=f"declared labels of {name!r}", given=Plain("others"))
        codes[:, at] = array_of(places)
    if found[COUNT].null_count:
        raise ArtifactError(RECORDS, expected="whole numbers", given=Plain("missing ones"))
    times = np.asarray(array_of(found[COUNT]), dtype=np.int64)
    if float(times.sum(dtype=np.float64)) > MOST_RECORDS:  # sums of more could come round to any number
        raise ArtifactError(RECORDS, expected="at most 2^50 records", given=Plain("more"))
    own = Records.of(codes, times)
    if len(own.times) != rows or not np.array_equal(own.codes, codes) or int(times.min(initial=1)) < 1:
        raise ArtifactError(RECORDS, expected="distinct rows in order, each at least once", given=Plain("others"))
    return own


def _longest(labels: Sequence[Label]) -> int:
    """The cell with the longest label, by which the form of a file allows for all of them."""
    return max(range(len(labels)), key=lambda cell: len(str(labels[cell]).encode()))


def require_facts(records: Records, workload: Workload, facts: Facts) -> None:
    """Refuse records that do not honor what is known."""
    if facts.records is not None and records.total != facts.records:
        raise ArtifactError(RECORDS, expected=f"{facts.records:,} records, as is known", given=records.total)
    attributes = [workload.schema[name] for name in attribute_names(workload)]
    if not impossible_cells(attributes, facts.impossible).allows(records.codes).all():
        raise ArtifactError(RECORDS, expected="no impossible combination", given=Plain("some"))


# Reading


def open_whole(release: Release, contents: Contents, document: Any) -> WholeRelease:
    """A release with the whole numbers of its artifact: of the records if they are there, else of the tables."""
    effort, columns = effort_in(document), count_columns(document)
    intervals = len(columns) > 1
    if document["with_records"]:
        return WholeRelease(release, effort, read_records(contents, release.workload), intervals=intervals)
    stem_of = dict(zip(release.workload, file_stems(release.workload), strict=True))
    writer, schema = TableWriter(release.workload.schema), release.workload.schema

    def read(table: Table) -> Integers:
        return _read_counts(contents, writer, schema, table, f"{TABLES}/{stem_of[table]}.parquet", columns)

    return WholeRelease(release, effort, None, read, intervals=intervals)


def _read_counts(
    contents: Contents, writer: TableWriter, schema: Schema, table: Table, name: str, columns: Sequence[str]
) -> Integers:
    cells = table_cells(schema, table)
    shape = [len(writer.labels((entry,))) for entry in table]
    zeros: dict[str, Floats | Integers] = dict.fromkeys(NUMBERS, np.zeros(cells))
    zeros |= dict.fromkeys(columns, np.zeros(cells, dtype=np.int64))
    form = writer.parquet(table, zeros)
    content = contents.content(name, 2 * len(form) + 8 * cells * len(zeros) + _ROOM)
    found = read_parquet(content, form, name).table[COUNT]
    if found.null_count:
        raise ArtifactError(name, expected="whole numbers", given=Plain("missing ones"))
    return np.asarray(array_of(found), dtype=np.int64).reshape(shape)
