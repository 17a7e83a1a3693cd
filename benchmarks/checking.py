"""How long `privcube check` takes beside counting: 10 million records, 16 attributes, Parquet and CSV.

Ratios in one run, on data where all is declared and where one value in a thousand is not, which takes a second pass.
`--rows` scales it down.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from privcube import Attribute, Schema
from privcube.model.columns.text_files import TextFile
from privcube.sensitive.engine import CountRequest
from privcube.sensitive.reading.checking import look_over
from privcube.sensitive.sources import engine_for

SIZES = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 16]


def table(rows: int, undeclared: float) -> pa.Table:
    """Words and numbers, and a few that are not declared."""
    generator = np.random.default_rng(1)
    columns: dict[str, Any] = {}
    for number, size in enumerate(SIZES):
        codes = generator.integers(0, size, rows, dtype=np.int32)
        if undeclared:
            codes[generator.random(rows) < undeclared] = size
        words = pa.array([f"w{code}" for code in range(size + 1)])
        columns[f"a{number}"] = codes if number % 2 else pa.DictionaryArray.from_arrays(codes, words).cast(pa.string())
    return pa.table(columns)


def schema() -> Schema:
    other: Any = {"other": "category", "missing": "category"}
    return Schema(
        Attribute(f"a{number}", size=size, **other)
        if number % 2
        else Attribute(f"a{number}", values=[f"w{code}" for code in range(size)], **other)
        for number, size in enumerate(SIZES)
    )


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    rows = parser.parse_args().rows
    declared = schema()
    request = CountRequest(declared, tuple(combinations(declared.names, 2)), None, 1, b"k" * 32)
    print(f"{rows:,} records, {len(SIZES)} attributes; counting is all two-way tables")
    with tempfile.TemporaryDirectory() as folder:
        for share in (0.0, 0.001):
            data = table(rows, share)
            parquet, text = str(Path(folder) / "people.parquet"), str(Path(folder) / "people.csv")
            pq.write_table(data, parquet)
            pc.write_csv(data, text)
            del data
            for file in (parquet, text):
                counting = seconds(lambda file=file: engine_for(file).count(request))  # type: ignore[misc]
                checking = seconds(  # type: ignore[misc]
                    lambda file=file: look_over(
                        engine_for(file), declared, person=None, max_rows_per_person=1, text=TextFile()
                    )
                )
                print(
                    f"{Path(file).suffix:9} {share:.1%} undeclared: counting {counting:6.1f} s, "
                    f"check {checking:6.1f} s, ratio {checking / counting:.2f}"
                )


if __name__ == "__main__":
    main()
