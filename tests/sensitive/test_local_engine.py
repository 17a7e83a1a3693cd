"""The local engine: bounded memory, news of progress, nothing left behind, and what is refused before it is charged."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from holders import request_for

from privcube import Attribute, PureDP, Schema, Workload, errors, plan
from privcube.progress import COUNTING, READING
from privcube.sensitive import counting
from privcube.sensitive.duckdb_session import connected
from privcube.sensitive.engine import CountRequest
from privcube.sensitive.engines.local import LocalEngine
from privcube.sensitive.gate import measure
from privcube.sensitive.scans import ParquetFiles
from privcube.sensitive.sources import engine_for

ROWS = 600_000
ATTRIBUTES = [Attribute("a", size=300), Attribute("b", size=7), Attribute("c", size=70_000)]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    chance = np.random.default_rng(8)
    table = pa.table({attribute.name: chance.integers(0, attribute.cells, ROWS) for attribute in ATTRIBUTES})
    file = tmp_path_factory.mktemp("large") / "large.parquet"
    pq.write_table(table, file)
    return file, table


def test_many_batches_in_little_memory(large: tuple[Path, pa.Table], monkeypatch: pytest.MonkeyPatch) -> None:
    """Several rounds of counting; each table as numpy counts it, and news that grow to all records and all tables."""
    rounds, counted = [], counting.TableCounter._count_gathered
    monkeypatch.setattr(
        counting.TableCounter, "_count_gathered", lambda counter: (rounds.append(counter._rows), counted(counter))[1]
    )
    file, table = large
    request = request_for(ATTRIBUTES, [("a", "b"), ("c",), ("b", "c"), ()])
    heard: list[tuple[str, int, int | None]] = []
    found = LocalEngine(ParquetFiles([str(file)]), codes_in_memory=1).count(request, lambda *news: heard.append(news))
    codes = {name: table[name].to_numpy() for name in table.column_names}
    for names in request.tables:
        expected = np.zeros([request.schema[name].cells for name in names], dtype=np.int64)
        np.add.at(expected, tuple(codes[name] for name in names), 1) if names else expected.fill(ROWS)
        np.testing.assert_array_equal(found.for_the_gate(names), expected)
    assert sum(rounds) == ROWS
    assert len([rows for rows in rounds if rows]) >= 2
    read = [done for stage, done, _ in heard if stage == READING]
    assert len(read) >= 2
    assert all(low < high for low, high in pairwise(read))
    assert read[-1] == ROWS
    assert heard[-1] == (COUNTING, 4, 4)


def test_nothing_is_left_behind(large: tuple[Path, pa.Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are sorted by person, if need be on disk: in a folder of its own, which is gone afterwards."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with connected() as connection:
        (folder,) = tmp_path.iterdir()
        assert connection.sql("SELECT current_setting('temp_directory')").fetchall() == [(str(folder),)]
    request = request_for(ATTRIBUTES[:2], [("a", "b")], person="c", max_rows=2)
    engine = engine_for(large[1].slice(0, 50_000))
    engine.prepare(request)
    assert engine.count(request).for_the_gate(("a", "b")).sum() <= 50_000
    bad = request_for([Attribute("a", size=299)])
    with pytest.raises(errors.DataError):
        engine.count(bad)
    assert list(tmp_path.iterdir()) == []


KILLED = """
import sys
from privcube.sensitive import duckdb_session
duckdb_session._MEMORY = "60MB"
with duckdb_session.connected() as connection:
    turn = "row_number() OVER (PARTITION BY 'canary-' || (i % 100000) ORDER BY md5(i::VARCHAR))"
    reader = connection.sql(f"SELECT {turn} FROM range(1000000) t(i)").to_arrow_reader(1000)
    reader.read_next_batch()
    print("sorted", flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_session_leaves_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sort that went to disk, in a process that is killed; while it runs, nobody touches its files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"sorted\n"
        (folder,) = tmp_path.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        with connected():
            assert any(b"canary-" in file.read_bytes() for file in folder.iterdir())
        process.kill()
    assert list(tmp_path.iterdir()) == [folder]
    with connected() as connection:
        assert not folder.exists()
        assert connection.sql("SELECT 1").fetchall() == [(1,)]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("end", ["counted", "refused", "forgotten"])
def test_a_prepared_session_is_used_once_and_closed(end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the count, by a request that is refused, or with an engine that nobody uses any more."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    engine = engine_for(pa.table({"a": [0, 1, 1]}))
    request = request_for([Attribute("a", size=2)], [("a",)])
    engine.prepare(request)
    (folder,) = tmp_path.iterdir()
    engine.prepare(request)
    assert list(tmp_path.iterdir()) == [folder]
    if end == "counted":
        assert engine.count(request).for_the_gate(("a",)).tolist() == [1, 2]
    elif end == "refused":
        with pytest.raises(errors.DataError, match="'z'"):
            engine.prepare(request_for([Attribute("z", size=2)], [("z",)]))
    else:
        del engine
    assert list(tmp_path.iterdir()) == []


def test_links_and_files_of_others_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("kept")
    (tmp_path / "temp" / "privcube-overflow-link").symlink_to(tmp_path / "mine")
    (tmp_path / "temp" / "privcube-overflow-file").write_text("kept")
    (tmp_path / "temp" / "privcube-overflow-others").mkdir()
    real = os.fstat
    others = (tmp_path / "temp" / "privcube-overflow-others").stat().st_ino

    def owned(descriptor: int) -> object:
        found = real(descriptor)
        return SimpleNamespace(st_uid=found.st_uid + 1) if found.st_ino == others else found

    monkeypatch.setattr(os, "fstat", owned)
    before = sorted(tmp_path.rglob("*"))
    with connected():
        assert len(sorted(tmp_path.rglob("*"))) == len(before) + 1
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_is_removed_before_it_is_locked_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    make, made = tempfile.mkdtemp, []

    def removed_once(prefix: str) -> str:
        made.append(make(prefix=prefix))
        if len(made) == 1:
            Path(made[0]).rmdir()
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", removed_once)
    with connected() as connection:
        assert connection.sql("SELECT current_setting('temp_directory')").fetchall() == [(made[1],)]
    assert len(made) == 2


def test_nothing_is_printed_or_logged(
    large: tuple[Path, pa.Table], capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.NOTSET)
    engine_for(large[0]).count(request_for(ATTRIBUTES))
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


class Book:
    """A ledger that writes down."""

    def __init__(self) -> None:
        self.charges = 0

    def afford(self, digest: str, guarantee: object) -> None:
        pass

    def charge(self, digest: str, guarantee: object) -> None:
        self.charges += 1


@pytest.mark.parametrize(
    "problem", ["file gone", "not Parquet", "cut off", "type", "person's type", "column", "column twice", "reader read"]
)
def test_what_can_be_seen_without_records_costs_nothing(problem: str, tmp_path: Path) -> None:
    schema = Schema([Attribute("a", values=["x", "y"]), Attribute("b", size=3)])
    table = pa.table({"a": ["x", "y"], "b": [1, 2], "who": ["ann", "bob"]})
    if problem == "type":
        table = table.set_column(1, "b", pa.array([[1], [2]]))
    if problem == "person's type":
        table = table.set_column(2, "who", pa.array([1.5, 2.5]))
    if problem == "column":
        table = table.drop_columns(["b"])
    if problem == "column twice":
        table = table.append_column("b", pa.array([1, 2]))
    file = tmp_path / "people.parquet"
    pq.write_table(table, file)
    engine = engine_for(file)
    if problem == "file gone":
        file.unlink()
    if problem == "not Parquet":
        file.write_text("a,b,who\nx,1,ann\n")
    if problem == "cut off":
        file.write_bytes(file.read_bytes()[:-20])
    if problem == "reader read":
        engine = engine_for(table.to_reader())
        engine.count(request_for(schema))
    book = Book()
    made = plan(Workload.all_kway(schema, 1), PureDP(1), "marginals")
    with pytest.raises(errors.DataError):
        measure(made, engine, book, person="who")
    assert book.charges == 0


def test_tables_too_large_to_count_cost_nothing() -> None:
    schema = Schema([Attribute("a", size=10**6), Attribute("b", size=10**6)])
    request = CountRequest(schema, (("a", "b"),), None, 1, b"key")
    engine = engine_for(pd.DataFrame({"a": [1], "b": [1]}))
    for act in (engine.prepare, engine.count):
        with pytest.raises(errors.PlanError, match="cells in all"):
            act(request)


def test_tables_out_of_order_cost_nothing() -> None:
    schema = Schema([Attribute("a", size=2), Attribute("b", size=2)])
    engine = engine_for(pd.DataFrame({"a": [1], "b": [1]}))
    with pytest.raises(errors.PlanError, match="in the order of the schema"):
        engine.prepare(CountRequest(schema, (("b", "a"),), None, 1, b"key"))


def test_the_same_rows_of_a_person_whatever_the_threads_and_the_order(tmp_path: Path) -> None:
    """Batches come in any order; what is kept depends on a person's rows and the key alone."""
    chance = np.random.default_rng(4)
    table = pa.table({"who": chance.integers(0, 500, 20_000), "a": chance.integers(0, 50, 20_000)})
    request = request_for([Attribute("a", size=50)], [("a",)], person="who", max_rows=3)
    found = []
    for turned in (table, table.take(chance.permutation(len(table)))):
        pq.write_table(turned, tmp_path / "people.parquet", row_group_size=500)
        found.append(engine_for(tmp_path / "people.parquet").count(request).for_the_gate(("a",)).tolist())
    assert found[0] == found[1]
    other = CountRequest(request.schema, request.tables, "who", 3, b"another key")
    assert engine_for(table).count(other).for_the_gate(("a",)).tolist() != found[0]
