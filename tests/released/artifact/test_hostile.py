"""Hostile artifacts, plans and specs: nothing but a PrivcubeError, and no memory beyond proportion.

`PRIVCUBE_ATTACK` multiplies the number of mutants: 20,000 in `make attack`, by processes that try up to 2,500 each.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privcube import Attribute, PureDP, Release, Schema, Workload, plan
from privcube.errors import PrivcubeError
from privcube.model.documents.json_reader import strict_json
from privcube.model.measurements import Measurements
from privcube.released.artifact.folder import checksums_text
from privcube.released.artifact.verification import verify

DRIVER = Path(__file__).with_name("hostile_driver.py")
TIMES = int(os.environ.get("PRIVCUBE_ATTACK", "1"))
SEED = int(os.environ.get("PRIVCUBE_SEED", "0"))
MUTANTS = 40 * TIMES if TIMES > 1 else 20
AT_ONCE = 2_500  # in one process, after the documents that ask for much


@pytest.mark.parametrize("start", range(0, MUTANTS, AT_ONCE))
def test_hostile_documents_raise_our_own_errors_within_memory(start: int) -> None:
    count = min(AT_ONCE, MUTANTS - start)
    done = subprocess.run(
        [sys.executable, str(DRIVER), f"{SEED} {start}", str(count)],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert json.loads(done.stdout) == {"mutants": count, "failures": []}


@pytest.mark.parametrize(
    "text",
    ['{"a": 1, "a": 1}', "NaN", "[Infinity]", "-Infinity", "1e999", "[" * 10**5, "9" * 5_000, "1." + "0" * 999, ""],
)
def test_json_that_readers_take_differently_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        strict_json(text)


# Parquet that unpacks to much more than it takes

MANY = Schema(
    [Attribute("a", values=[f"a{i}" for i in range(200)]), Attribute("b", values=[f"b{i}" for i in range(150)])]
)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("large") / "out"
    made = plan(Workload.tables(MANY, [("a", "b")]), PureDP(1), "marginals")
    Release(Measurements(made, np.arange(made.rows))).save(place)
    return place


def seal(place: Path) -> None:
    names = [path.relative_to(place).as_posix() for path in place.rglob("*.*")]
    (place / "SHA256SUMS").write_text(
        checksums_text({name: hashlib.sha256((place / name).read_bytes()).hexdigest() for name in names})
    )


@pytest.mark.parametrize("compression", ["snappy", "zstd", "none"])
@pytest.mark.parametrize("writer", [b"", b"9"])
def test_a_long_label_is_not_repeated_in_memory(compression: str, writer: bytes, large: Path) -> None:
    """60,000 characters in 30,000 rows are 1.8 GB, in a file of a few kilobytes."""
    path = large / "tables" / "0001-a-x-b.parquet"
    content = path.read_bytes()
    table = pq.read_table(path)
    labels = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(table), np.int32)), pa.array(["x" * 60_000]))
    out = io.BytesIO()
    pq.write_table(table.set_column(0, "a", labels), out, compression=compression, store_schema=False)
    bomb = out.getvalue()
    if writer:
        at = bomb.rindex(b"parquet-cpp-arrow version ") + len(b"parquet-cpp-arrow version ")
        end = bomb.index(b".", bomb.index(b".", at) + 1) + 1
        bomb = bomb[:end] + writer + bomb[end + 1 :]
    path.write_bytes(bomb)
    seal(large)
    before = pa.default_memory_pool().max_memory()
    found = {check.name: check.detail for check in verify(large) if not check.passed}
    grown = pa.default_memory_pool().max_memory() - before
    path.write_bytes(content)
    assert "tables/0001-a-x-b.parquet: expected" in found["bytes"]
    assert grown < 50 * 2**20


def test_a_file_far_larger_than_its_table_is_not_read(large: Path) -> None:
    path = large / "tables" / "0001-a-x-b.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:-8] + bytes(20 * 2**20) + content[-8:])
    seal(large)
    found = {check.name: check.detail for check in verify(large) if not check.passed}
    path.write_bytes(content)
    assert "bytes, given" in found["bytes"]


def test_attributes_that_write_out_their_codes_have_fewer() -> None:
    assert Attribute("a", size=10**8).cells == 10**8
    with pytest.raises(PrivcubeError, match="at most 2,000,000 codes"):
        Attribute("a", size=10**7, missing="category")
