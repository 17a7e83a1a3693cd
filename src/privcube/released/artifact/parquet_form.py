"""Reading Parquet of a known form: nothing undeclared is accepted, nothing large unpacked. Zone: RELEASED.

The form is given by bytes that privcube itself writes for the same table. A file of the same library version can be
compared byte for byte. A file of another version cannot, because libraries encode the same values differently; it must
have the same columns, types, row groups and compression, and no metadata of its own.

A few bytes of Parquet can stand for any amount of text: one long label, repeated by reference. So text is read as
references, and spelled out only if no label is longer than the longest one of the form.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from privcube.errors import ArtifactError, Plain
from privcube.released.artifact.parquet_footer import row_groups

_WRITER: Final = re.compile(r"parquet-cpp-arrow version [0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}")
_MOST_UNPACKED: Final = 64  # times the size of a file: snappy and the encodings in use stay far below


class Reading(NamedTuple):
    """A table as read from Parquet, and whether the library that wrote it is the one in use."""

    table: Any
    same_writer: bool


def read_parquet(content: bytes, form: bytes, subject: str) -> Reading:
    """Read a file that has the form of another.

    In this thread alone: another may still hold on to the bytes when Python ends, which then aborts the process.
    """
    try:
        with _opened(form) as own, _opened(content) as file:
            _require_form(file, own, len(content), subject)
            if row_groups(content) != row_groups(form):
                expected = "the row groups and compression in use"
                raise ArtifactError(subject, expected=expected, given=Plain("different ones"))
            read = file.read(use_threads=False)
            longest = _longest_text(own.read(use_threads=False))
            if any(mine > most for mine, most in zip(_longest_text(read), longest, strict=True)):
                raise ArtifactError(subject, expected="the declared labels", given=Plain("longer ones"))
            plain = pa.table([_spelled_out(column) for column in read.columns], names=read.column_names)
            return Reading(plain, file.metadata.created_by == own.metadata.created_by)
    except (pa.ArrowException, OSError, ValueError, MemoryError):
        raise ArtifactError(subject, expected="readable Parquet", given=Plain("something else")) from None


def _opened(content: bytes) -> Any:
    footer = pyarrow.parquet.read_metadata(pa.BufferReader(content))
    texts = [footer.schema.column(at).path for at in range(footer.num_columns)]
    return pyarrow.parquet.ParquetFile(pa.BufferReader(content), metadata=footer, read_dictionary=texts)


def _require_form(file: Any, own: Any, size: int, subject: str) -> None:
    """Refuse a file whose footer declares anything else than the form's."""
    footer, expected = file.metadata, own.metadata
    if footer.num_rows != expected.num_rows or not footer.schema.equals(expected.schema):
        wanted = f"{expected.num_rows:,} rows and the columns of the plan"
        raise ArtifactError(subject, expected=wanted, given=Plain("different ones"))
    if footer.metadata is not None or not _WRITER.fullmatch(footer.created_by or ""):
        raise ArtifactError(subject, expected="no metadata but the name of the library", given=Plain("more"))
    unpacked = sum(footer.row_group(at).total_byte_size for at in range(footer.num_row_groups))
    if not 0 <= unpacked <= _MOST_UNPACKED * size:
        raise ArtifactError(subject, expected="data in proportion to the file", given=Plain("far more"))


def _longest_text(table: Any) -> list[int]:
    """The longest text in every column, 0 where there is none."""
    return [
        max(
            (
                pyarrow.compute.max(pyarrow.compute.binary_length(chunk.dictionary)).as_py() or 0
                for chunk in column.chunks
            ),
            default=0,
        )
        if pa.types.is_dictionary(column.type)
        else 0
        for column in table.columns
    ]


def _spelled_out(column: Any) -> Any:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
