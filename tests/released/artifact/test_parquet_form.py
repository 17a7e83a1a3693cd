"""Reading Parquet of a known form."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from privcube.released.artifact.parquet_form import read_parquet


def test_no_thread_is_left_that_holds_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that lets go of them while Python ends aborts the process: 11 of 60 queries ended with 134."""
    read, threads = pyarrow.parquet.ParquetFile.read, []

    def recorded(file: Any, *args: Any, use_threads: bool = True, **options: Any) -> Any:
        threads.append(use_threads)
        return read(file, *args, use_threads=use_threads, **options)

    monkeypatch.setattr(pyarrow.parquet.ParquetFile, "read", recorded)
    out = io.BytesIO()
    table = pa.table({"sex": ["F", "M"], "estimate": [1.5, 2.5]})
    pyarrow.parquet.write_table(table, out, compression="snappy", store_schema=False)

    assert read_parquet(out.getvalue(), out.getvalue(), "table").table.equals(table)
    assert threads == [False, False]
