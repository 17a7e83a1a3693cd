"""Footers of Parquet files: what they say of row groups, as pyarrow reads it; and no change of one ends the process."""

from __future__ import annotations

import io
import os
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcube.errors import ArtifactError
from privcube.released.artifact.parquet_footer import RowGroup, row_groups
from privcube.released.artifact.parquet_form import read_parquet

LONGER = [{"compression": "snappy", "version": "1.0"}] if "PRIVCUBE_ATTACK" in os.environ else []
CODES = {"none": 0, "snappy": 1, "gzip": 2, "zstd": 6}


def written(table: pa.Table, **options: Any) -> bytes:
    made = io.BytesIO()
    pq.write_table(table, made, **options)
    return made.getvalue()


def small(**options: Any) -> bytes:
    table = pa.table(
        {"label": ["x", "y", "y", None], "count": np.arange(4), "share": [0.5, 1, 2, 3], "flag": [True] * 4}
    )
    return written(table, store_schema=False, **options)


def footer_of(content: bytes) -> tuple[int, int]:
    size = int.from_bytes(content[-8:-4], "little")
    return len(content) - 8 - size, len(content) - 8


@settings(max_examples=25)
@given(
    st.integers(0, 40),
    st.integers(1, 20),
    st.integers(1, 11),
    st.sampled_from(sorted(CODES)),
    st.sampled_from(["1.0", "2.6"]),
    st.booleans(),
)
def test_row_groups_are_those_that_pyarrow_reads(
    rows: int, at_once: int, columns: int, compression: str, version: str, indexed: bool
) -> None:
    table = pa.table({f"c{at}": np.arange(rows) for at in range(columns)})
    made = written(table, row_group_size=at_once, compression=compression, version=version, write_page_index=indexed,
                   store_schema=False)  # fmt: skip
    footer = pq.read_metadata(io.BytesIO(made))
    expected = [footer.row_group(at).num_rows for at in range(footer.num_row_groups)]
    assert row_groups(made) == [RowGroup(own, (CODES[compression],) * columns) for own in expected]


@pytest.mark.parametrize("options", [{"compression": "none"}, *LONGER], ids=str)
def test_a_changed_bit_of_a_footer_is_an_error_of_ours_or_does_no_harm(options: dict[str, Any]) -> None:
    """pyarrow ended the process for one in a hundred, when it was asked how a column is compressed."""
    content = small(**options)
    first, last = footer_of(content)
    refused = 0
    for at in range(first, last):
        for bit in range(8):
            changed = bytearray(content)
            changed[at] ^= 1 << bit
            try:
                read_parquet(bytes(changed), content, "a table")
            except ArtifactError:
                refused += 1
    assert 4 * (last - first) < refused < 8 * (last - first)


@given(st.binary(max_size=60), st.integers(0, 2**10))
def test_any_footer_is_read_or_refused_with_an_error(noise: bytes, place: int) -> None:
    content = small()
    first, last = footer_of(content)
    at = first + place % (last - first)
    footer = content[first:at] + noise + content[at + len(noise) : last]
    with suppress(ValueError):
        row_groups(content[:first] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def footed(footer: bytes) -> bytes:
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"


LIST, STRUCT, NUMBER, TEXT = 0x09, 0x0C, 0x05, 0x08


def field(step: int, kind: int) -> bytes:
    return bytes([step << 4 | kind])


def one_column(chunk: bytes) -> bytes:
    """A footer with a row group of 3 rows and a column with these fields."""
    group = field(1, LIST) + bytes([0x1C]) + chunk + field(2, NUMBER) + b"\x06" + b"\0"
    return footed(field(4, LIST) + bytes([0x1C]) + group + b"\0")


DESCRIPTION = field(3, STRUCT) + field(4, NUMBER) + b"\x02"


def test_what_is_declared_is_read() -> None:
    assert row_groups(one_column(DESCRIPTION + b"\0" + b"\0")) == [RowGroup(3, (1,))]


@pytest.mark.parametrize(
    "content",
    {
        "nothing": b"",
        "no end": footed(field(4, LIST) + b"\0\0")[:-1] + b"E",
        "a footer longer than the file": b"PAR1" + b"\0" + (2).to_bytes(4, "little") + b"PAR1",
        "more after it": footed(field(4, LIST) + b"\x0c\0\0"),
        "no row groups": footed(b"\0"),
        "row groups that are a number": footed(field(4, NUMBER) + b"\x02\0"),
        "row groups that are numbers": footed(field(4, LIST) + b"\x15\x02\0"),
        "texts of the file": footed(field(4, LIST) + b"\x0c" + field(1, LIST) + b"\x0c\0"),
        "a column in another file": one_column(
            field(1, TEXT) + b"\x01a" + field(2, STRUCT) + DESCRIPTION[1:] + b"\0\0"
        ),
        "a column without description": one_column(field(2, NUMBER) + b"\x02\0"),
        "an encrypted column": one_column(DESCRIPTION + b"\0" + field(6, TEXT) + b"\x01a\0"),
        "texts of a column": one_column(DESCRIPTION + field(4, LIST) + b"\x0c\0" + b"\0"),
        "no compression": one_column(field(3, STRUCT) + b"\0" + b"\0"),
        "a compression that is a text": one_column(field(3, STRUCT) + field(4, TEXT) + b"\x01a\0" + b"\0"),
        "a compression that is a truth": one_column(field(3, STRUCT) + field(4, 1) + b"\0" + b"\0"),
        "a field twice": footed(field(4, LIST) + b"\x0c" + b"\x09\x08\x0c\0"),
        "a field before": footed(field(4, LIST) + b"\x0c" + b"\x09\x02\x0c\0"),
        "a number without end": footed(field(1, NUMBER) + b"\xff" * 11 + b"\0"),
        "a type that is none": footed(field(1, 13) + b"\0"),
        "a map": footed(field(1, 11) + b"\0\0"),
        "a text of 2^60 bytes": footed(field(6, TEXT) + b"\x80" * 8 + b"\x10" + b"\0"),
        "a list of 2^60 structs": footed(field(4, LIST) + b"\xfc" + b"\x80" * 8 + b"\x10" + b"\0"),
        "structs within structs": footed(field(1, STRUCT) * 40 + b"\0" * 41),
        "lists within lists": footed(field(2, LIST) + b"\x19" * 40 + b"\0" * 41),
    }.items(),
    ids=lambda given: given[0],
)
def test_what_is_not_declared_is_refused(content: tuple[str, bytes]) -> None:
    with pytest.raises(ValueError, match="expected"):
        row_groups(content[1])


def test_texts_of_a_column_are_refused_in_a_file_that_pyarrow_reads() -> None:
    """Another library version may write them; nobody declared them."""
    field_with_text = pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "1", "secret": "word"})
    made = written(pa.table({"a": [1]}, schema=pa.schema([field_with_text])), store_schema=False)
    plain = written(pa.table({"a": [1]}), store_schema=False)
    with pytest.raises(ArtifactError):
        read_parquet(made, plain, "a table")
