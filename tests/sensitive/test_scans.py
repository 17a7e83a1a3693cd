"""Files, folders, databases and tables in memory: that what is read is what was named, all of it, and only that."""

from __future__ import annotations

import gzip
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from factories import FACTORIES, TELLS_UPPER_FROM_LOWER_CASE, Stream
from holders import request_for

from privcube import Attribute
from privcube.errors import DataError
from privcube.sensitive import scans
from privcube.sensitive.duckdb_session import column_kind
from privcube.sensitive.engine import CountRequest
from privcube.sensitive.scans import found_files
from privcube.sensitive.sources import engine_for

LETTERS = [Attribute("a", values=["x", "y", "z"]), Attribute("b", size=4, missing="category", other="category")]


def counts(source: Any, request: CountRequest, *of_a_database: str | None) -> list[Any]:
    """The first table, after everything has been checked."""
    engine = engine_for(source, *of_a_database)
    engine.prepare(request)
    return engine.count(request).for_the_gate(request.tables[0]).tolist()


def counts_of_a(source: Any, *of_a_database: str | None) -> list[int]:
    return counts(source, request_for(LETTERS, [("a",)]), *of_a_database)


# Paths


@pytest.mark.parametrize(
    "name", ["data[1].csv", "st*r.csv", "wh?t.csv", "~home.csv", "it's.csv", "{x,y}.csv", "a b.csv"]
)
def test_a_file_named_like_a_pattern_is_that_file_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB would read data1.csv in place of data[1].csv, and both files for st*r.csv."""
    monkeypatch.chdir(tmp_path)
    for other in ("data1.csv", "star.csv", "what.csv", "home.csv", "x.csv", "y.csv"):
        Path(other).write_text("a,b\nz,1\n")
    Path(name).write_text("a,b\nx,1\ny,2\n")
    assert counts_of_a(name) == counts_of_a(tmp_path / name) == [1, 1, 0]
    Path("folder[1]").mkdir()
    pq.write_table(pa.table({"a": ["x", "y"], "b": [1, 2]}), "folder[1]/part.parquet")
    assert counts_of_a("folder[1]") == [1, 1, 0]


def test_hidden_files_and_folders_are_left_out(tmp_path: Path) -> None:
    """What notebooks, Spark and version control leave in a folder would be counted twice."""
    for name in (".ipynb_checkpoints/a.csv", "_temporary/0/a.csv", ".hidden.csv", "_SUCCESS", "inner/a.csv", "a.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a,b\nx,1\n")
    assert counts_of_a(tmp_path) == [2, 0, 0]
    hidden = tmp_path / ".ipynb_checkpoints"
    assert found_files(str(hidden)) == [str(hidden / "a.csv")]  # named by the user, it is not hidden


def test_patterns_find_files_in_order(tmp_path: Path) -> None:
    for name in ("2.csv", "1.csv", "sub/3.csv", "1.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    shown = [Path(file).relative_to(tmp_path).as_posix() for file in found_files(str(tmp_path / "**" / "*.csv"))]
    assert shown == ["1.csv", "2.csv", "sub/3.csv"]
    assert len(found_files(str(tmp_path / "?.csv"))) == 2
    with pytest.raises(DataError, match="none found"):
        found_files(str(tmp_path / "[89].csv"))


def test_names_of_folders_are_no_columns_of_text_files(tmp_path: Path) -> None:
    """DuckDB would put the folder's 3 in place of the column."""
    folder = tmp_path / "f1=3" / "b=3"
    folder.mkdir(parents=True)
    (folder / "people.csv").write_text("a,b\nx,1\n")
    request = request_for(LETTERS, [("b",)])
    assert counts(folder / "people.csv", request) == [0, 1, 0, 0, 0, 0]


# Text files


@pytest.mark.parametrize(
    "raw",
    [
        b"a,b\nx,1\ny,2\n",
        b"a,b\r\nx,1\r\ny,2\r\n",
        b"a,b\rx,1\ry,2\r",
        b"a,b\nx,1\ny,2",
        b"\xef\xbb\xbfa,b\nx,1\ny,2\n",
        b'\xef\xbb\xbf"a","b"\n"x","1"\n"y","2"\n',
        b"b;a\n1;x\n2;y\n",
        b"a|b\nx|1\ny|2\n",
        b"a\tb\nx\t1\ny\t2\n",
        b"a,b\n\nx,1\n\ny,2\n\n",
        b'a,"x\ny",b\nx,7,1\ny,7,2\n',
        b'a,b,"c;d;e;f"\nx,1,\ny,2,"a\n,b"\n',
        b"a,b,c,c\nx,1,,\ny,2,,\n",
    ],
)
def test_ways_to_write_the_same_table(raw: bytes, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_bytes(raw)
    assert counts(file, request_for(LETTERS, [("a", "b")])) == [[0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0], [0] * 6]


def test_a_blank_line_in_a_file_of_one_column_is_a_missing_value(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text('b\n1\n\n2\n""\n')
    assert counts(tmp_path / "people.csv", request_for(LETTERS[1:], [("b",)])) == [0, 1, 1, 0, 0, 2]


@pytest.mark.parametrize(
    "raw",
    [b"a,b\nx\n", b"a,b\nx,1,2\n", b'a,b\n"x"y,1\n', b'a,b\n"x,1\n', b"a,b\nx,1\r\ny,2\n"],
    ids=["too few", "too many", "after a quote", "quote left open", "mixed ends of lines"],
)
def test_broken_lines_stop_the_count(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_bytes(raw)
    with pytest.raises(DataError, match=r"file 'people.csv': expected records that can be read to the end"):
        counts_of_a(tmp_path / "people.csv")


@pytest.mark.parametrize("raw", [b"\n\na,b\nx,1\n", b"x,1\ny,2\n"])
def test_files_without_a_header_are_refused_before_counting(raw: bytes, tmp_path: Path) -> None:
    """The first line is not quoted: it may be a record."""
    (tmp_path / "people.csv").write_bytes(raw)
    with pytest.raises(DataError, match=r"^file 'people.csv': expected one column named 'a', given none$"):
        engine_for(tmp_path / "people.csv").prepare(request_for(LETTERS))


def test_bytes_that_are_not_of_the_encoding_say_what_to_write(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_bytes(b"")
    (tmp_path / "latin.csv").write_bytes(b"a,b\n\xff,1\n")
    (tmp_path / "wide.csv").write_bytes("a,b\nx,1\n".encode("utf-16"))
    request = request_for(LETTERS)
    for name, advice in (
        ("empty", "expected a header with the names of the columns, given an empty file"),
        ("latin", 'expected text in utf-8; .* encoding = "windows-1252"'),
        ("wide", 'expected text in utf-8; .* encoding = "utf-16"'),
    ):
        with pytest.raises(DataError, match=advice):
            engine_for(tmp_path / f"{name}.csv").prepare(request)


def test_files_with_other_columns_are_refused_before_counting(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,b\nx,1\n")
    (tmp_path / "2.csv").write_text("a,c\nx,1\n")
    with pytest.raises(DataError, match="expected the same columns in all files"):
        engine_for(tmp_path).prepare(request_for(LETTERS))


@pytest.mark.parametrize(
    ("ending", "kept"),
    [(".csv.gz", 1.0), (".CSV.GZ", 0.99), (".csv.gz", 0.6), (".CSV.ZST", 1.0), (".csv.zst", 0.99), (".CSV.ZST", 0.6)],
)
def test_a_compressed_file_counts_whole_or_not_at_all(ending: str, kept: float, tmp_path: Path) -> None:
    """DuckDB takes what is there of a zstd file that was cut off for the whole."""
    rows = 150_000  # more than is looked at for the header
    text = "a,b\n" + "".join(f"{'xyz'[number % 3]},{number * 7919 % 104729}\n" for number in range(rows))
    file = tmp_path / f"people{ending}"
    if ending.lower().endswith("gz"):
        file.write_bytes(gzip.compress(text.encode()))
    else:
        with pa.output_stream(str(tmp_path / "written"), compression="zstd") as stream:
            stream.write(text.encode())
        file.write_bytes((tmp_path / "written").read_bytes())
    whole = file.read_bytes()
    file.write_bytes(whole[: int(kept * len(whole))])
    if kept == 1:
        assert counts_of_a(file) == [rows // 3] * 3
    else:
        with pytest.raises(DataError, match="can be read"):
            counts_of_a(file)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_a_last_line_longer_than_a_buffer_is_not_left_out(ending: str, tmp_path: Path) -> None:
    """DuckDB reads such a file without its last record, and says nothing; elsewhere in a file it is refused."""
    content, file = b"a,b\nx,1\n" + b"z" * 33_000_000 + b",1\n", tmp_path / f"people{ending}"
    file.write_bytes(gzip.compress(content, 1) if ending.endswith("gz") else content)
    with pytest.raises(DataError, match="can be read to the end"):
        counts_of_a(file)


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_long_last_line_is_read(end: str, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(f"a,b\nx,1\nx,{'z' * 1_900_000}{end}")
    assert counts_of_a(tmp_path / "people.csv") == [2, 0, 0]


def test_fields_that_span_lines_in_a_file_read_by_several_threads(tmp_path: Path) -> None:
    rows = 60_000
    filler = '"line\n,x,\n""quoted""\n' + "-" * 300 + '"'
    with (tmp_path / "people.csv").open("w") as file:
        file.write("c,a,b\n")
        file.writelines(f"{filler},{'xyz'[number % 3]},1\n" for number in range(rows))
    assert counts_of_a(tmp_path / "people.csv") == [rows // 3] * 3


# Parquet


def test_files_are_not_read_as_the_first_one_s_types(tmp_path: Path) -> None:
    """DuckDB would turn 17.6 into 18 to fit a first file of integers."""
    pq.write_table(pa.table({"age": pa.array([17], pa.int64())}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"age": pa.array([17.6])}), tmp_path / "2.parquet")
    with pytest.raises(DataError, match="expected the same columns, of the same kinds, in all files"):
        engine_for(tmp_path).prepare(request_for([Attribute("age", bins=[0, 18, 100])]))


@pytest.mark.parametrize("more", [{"a": ["x"]}, {"a": ["x"], "b": [1], "c": [1]}])
def test_parquet_files_with_other_columns_are_refused(more: dict[str, list], tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": ["x"], "b": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table(more), tmp_path / "2.parquet")
    with pytest.raises(DataError, match="expected the same columns"):
        engine_for(tmp_path).prepare(request_for(LETTERS))


def test_integers_and_floats_of_several_widths_in_several_files(tmp_path: Path) -> None:
    values = [Attribute("i", values=[5, 2**40]), Attribute("f", bins=["0", "0.1", "0.2"])]
    for number, (whole, real, value) in enumerate([(pa.int8(), pa.float32(), 5), (pa.int64(), pa.float64(), 2**40)]):
        table = pa.table({"f": pa.array([0.1], real), "i": pa.array([value], whole)})
        pq.write_table(table.select(["f", "i"][:: 1 - 2 * number]), tmp_path / f"{number}.parquet")
    assert counts(tmp_path, request_for(values, [("i", "f")])) == [[0, 1], [0, 1]]


def test_columns_in_the_names_of_folders_are_text(tmp_path: Path) -> None:
    for letter, year in (("x", "07"), ("y", "7")):
        (tmp_path / f"a={letter}" / f"year={year}").mkdir(parents=True)
        pq.write_table(pa.table({"b": [1, 2]}), tmp_path / f"a={letter}" / f"year={year}" / "part.parquet")
    attributes = [*LETTERS, Attribute("year", values=["7", "07"])]
    assert counts(tmp_path, request_for(attributes, [("a", "year")])) == [[0, 2], [2, 0], [0, 0]]


def test_a_column_both_in_a_file_and_in_the_name_of_its_folder_is_refused(tmp_path: Path) -> None:
    """DuckDB would take the folder's."""
    (tmp_path / "A=y").mkdir()
    pq.write_table(pa.table({"a": ["x"], "b": [1]}), tmp_path / "A=y" / "part.parquet")
    with pytest.raises(DataError, match="expected names of columns that differ"):
        engine_for(tmp_path).prepare(request_for(LETTERS))


@pytest.mark.parametrize("nan", [float("nan"), -float("nan")])
def test_nan_in_a_parquet_file_is_missing_whatever_range_the_file_states(nan: float, tmp_path: Path) -> None:
    """The range that Arrow writes leaves NaN out; DuckDB takes it to be all there is (duckdb issue 25521)."""
    pq.write_table(pa.table({"x": pa.array([1.0, nan, None, 2.0, nan])}), tmp_path / "nan.parquet")
    for declared in (
        {"bins": [0, 5], "overflow": "category"},
        {"bins": [0, 5], "underflow": "clamp"},
        {"values": [1, 2]},
    ):
        attribute = Attribute("x", **declared, missing="category", other="category")
        found = counts(tmp_path / "nan.parquet", request_for([attribute], [("x",)]))
        assert found[-1] == 3
        assert sum(found) == 5


# Names


@pytest.mark.parametrize("name", TELLS_UPPER_FROM_LOWER_CASE)
def test_names_that_differ_in_case_only(name: str, tmp_path: Path) -> None:
    """DuckDB takes them for the same name."""
    columns = {
        "ID": ("text", ["p", "p", "q"]),
        "a": ("text", ["x", "y", "x"]),
        "A": ("text", ["y", "y", "x"]),
        "id": ("text", "xyz"),
    }
    request = request_for([Attribute("A", values=["x", "y"]), Attribute("a", values=["x", "y"])], [("A", "a")], "ID", 1)
    found = engine_for(FACTORIES[name](columns, tmp_path)[0]).count(request).for_the_gate(("A", "a"))
    assert found.sum() == 2
    assert (found <= [[1, 0], [1, 1]]).all()


def test_names_that_differ_in_case_only_are_refused_where_duckdb_cannot_tell_them(tmp_path: Path) -> None:
    table = pa.table([["x"], ["y"], [1]], names=["a", "A", "b"])
    pq.write_table(table, tmp_path / "people.parquet")
    duckdb.connect(str(tmp_path / "people.duckdb")).close()
    relation = duckdb.connect().sql("SELECT 'x' AS a, 'y' AS \"A\", 1 AS b")
    query = "SELECT 'x' AS a, 'y' AS \"A\", 1 AS b"
    for source in ((tmp_path / "people.parquet",), (tmp_path / "people.duckdb", None, query), (relation,)):
        with pytest.raises(
            DataError, match="expected names of columns that differ, and not only in upper and lower case"
        ):
            engine_for(*source).prepare(request_for(LETTERS))


def duplicated(folder: Path) -> dict[str, tuple]:
    """Two columns named a, in every source that can have them."""
    table = pa.table([["x"], ["y"], [1]], names=["a", "a", "b"])
    (folder / "people.csv").write_text("a,a,b\nx,y,1\n")
    pq.write_table(table, folder / "people.parquet")
    duckdb.connect(str(folder / "people.duckdb")).close()
    query = "SELECT 'x' AS a, 'y' AS a, 1 AS b"
    return {
        "csv": (folder / "people.csv",),
        "parquet": (folder / "people.parquet",),
        "duckdb": (folder / "people.duckdb", None, query),
        "relation": (duckdb.connect().sql(query),),
        "pandas": (pd.DataFrame([["x", "y", 1]], columns=["a", "a", "b"]),),
        "pyarrow": (table,),
        "reader": (table.to_reader(),),
        "dataset": (ds.dataset(table),),
    }


@pytest.mark.parametrize("name", ["csv", "parquet", "duckdb", "relation", "pandas", "pyarrow", "reader", "dataset"])
def test_a_column_that_is_there_twice_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"expected one column named 'a', given several|expected names of columns that differ"
    ):
        engine_for(*duplicated(tmp_path)[name]).prepare(request_for(LETTERS))


def test_columns_of_a_data_frame_may_be_numbers() -> None:
    frame = pd.DataFrame({0: ["x", "y"], 1: [1, 2], ("t", 2): [3, 3]})
    request = request_for([Attribute("0", values=["x", "y"]), Attribute("1", size=4), Attribute("('t', 2)", size=4)])
    engine = engine_for(frame)
    engine.prepare(request)
    assert engine.count(request).for_the_gate(("1",)).tolist() == [0, 1, 1, 0]
    twice = pd.DataFrame([["x", "y"]], columns=[0, "0"])
    with pytest.raises(DataError, match="one column named '0', given several"):
        engine_for(twice).prepare(request_for([Attribute("0", values=["x", "y"])]))


# Tables in memory


def test_a_reader_is_read_once() -> None:
    """What is left of it, nothing, would be counted as an empty table."""
    request = request_for(LETTERS, [("a",)])
    engine = engine_for(pa.table({"a": ["x"], "b": [1]}).to_reader())
    engine.prepare(request)
    engine.prepare(request)
    assert engine.count(request).for_the_gate(("a",)).tolist() == [1, 0, 0]
    for again in (engine.prepare, engine.count):
        with pytest.raises(DataError, match="expected a reader that was not read before"):
            again(request)


def some_frames() -> dict[str, Any]:
    table = pa.table({"a": ["x", "y", "x"], "c": [0, 0, 0], "b": [1, None, 3]})
    return {
        "pyarrow": table,
        "batches": pa.concat_tables([table[:1], table[1:]]),
        "reader": table.to_reader(),
        "pandas": table.to_pandas(),
        "pandas categorical": table.to_pandas().astype({"a": "category"}),
        "polars": pl.from_arrow(table),
        "polars categorical": pl.from_arrow(table).cast({"a": pl.Categorical}),
    }


@pytest.mark.parametrize("name", some_frames())
def test_any_frame_with_an_arrow_stream_is_a_source(name: str) -> None:
    """What has nothing else is asked for its records once, whatever is done with it first."""
    request = request_for(LETTERS, [("a", "b")])
    source = Stream(some_frames()[name])
    engine = engine_for(source)
    engine.prepare(request)
    engine.prepare(request)
    found = engine.count(request).for_the_gate(("a", "b")).tolist()
    assert found == counts(some_frames()[name], request) == counts(some_frames()["pyarrow"], request)
    assert list(map(sum, found)) == [2, 1, 0]
    assert source.asked == 1
    with pytest.raises(DataError, match="factories Stream: expected a reader that was not read before"):
        engine.count(request)


def test_a_stream_that_tells_its_schema_is_not_asked_for_records_before_the_count() -> None:
    class Told(Stream):
        def __arrow_c_schema__(self) -> object:
            return self._frame.schema.__arrow_c_schema__()

    source = Told(some_frames()["pyarrow"])
    engine, request = engine_for(source), request_for(LETTERS, [("a",)])
    engine.prepare(request)
    assert source.asked == 0
    assert engine.count(request).for_the_gate(("a",)).tolist() == [2, 1, 0]


@pytest.mark.parametrize("frame", [pl.Series("a", ["x"]), pa.chunked_array([["x"]]), "no frame"])
def test_a_stream_of_something_else_is_refused_in_preparing(frame: Any) -> None:
    with pytest.raises(DataError, match="factories Stream: expected columns of one type each"):
        engine_for(Stream(frame)).prepare(request_for(LETTERS))


def test_a_reader_is_streamed() -> None:
    """Forty batches of a megabyte each are not all there when the last is asked for."""
    before = pa.total_allocated_bytes()
    held = []

    def batches() -> Any:
        for number in range(40):
            held.append(pa.total_allocated_bytes() - before)
            yield pa.record_batch({"c": [0] * 1000, "a": ["xyz"[number % 3]] * 1000, "b": ["-" * 1000] * 1000})

    schema = pa.schema([("c", pa.int64()), ("a", pa.string()), ("b", pa.string())])
    request = request_for(LETTERS, [("a", "b")])
    found = counts(pa.RecordBatchReader.from_batches(schema, batches()), request)
    assert [row[4] for row in found] == [14_000, 13_000, 13_000]
    assert len(held) == 40
    assert max(held) < 10 << 20


def test_a_dataset_of_several_files(tmp_path: Path) -> None:
    for number in range(5):
        pq.write_table(
            pa.table({"a": ["x"] * 100, "b": [1] * 100, "n": [number] * 100}), tmp_path / f"{number}.parquet"
        )
    assert counts_of_a(ds.dataset(tmp_path)) == [500, 0, 0]


def test_objects_are_written_as_the_rule_says() -> None:
    """Whatever the class of a number: without a fraction it is an integer, not-a-number is missing."""
    objects = [1, np.int8(1), 1.0, np.float32(1), np.float64(1), Decimal("1.00"), "1", np.str_("1")]
    none = [None, float("nan"), np.nan, pd.NA, pd.NaT, Decimal("nan"), "", " "]
    others = [1.5, Decimal("1.5"), "1.0", float("inf"), Decimal("-Infinity"), [1], b"1", True, 10**30, object()]
    frame = pd.DataFrame({"x": pd.Series([*objects, *none, *others], dtype=object)})
    attribute = Attribute("x", values=[1], other="category", missing="category")
    assert counts(frame, request_for([attribute], [("x",)])) == [len(objects), len(others), len(none)]
    flags = pd.DataFrame({"x": pd.Series([True, np.True_, "True", "TRUE", "true", False, None, 1, "t"], dtype=object)})
    attribute = Attribute("x", values=[False, True], other="category", missing="category")
    assert counts(flags, request_for([attribute], [("x",)])) == [1, 5, 2, 1]


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"x": pa.nulls(3)}),
        pl.DataFrame({"x": [None, None, None]}),
        pd.DataFrame({"x": [None, None, None]}),
        pd.DataFrame({"x": [float("nan")] * 3}),
        pd.DataFrame({"x": pd.Categorical([None] * 3)}),
        "SELECT NULL AS x FROM range(3)",
    ],
    ids=["pyarrow", "polars", "pandas", "pandas floats", "pandas categorical", "duckdb"],
)
def test_a_column_of_nothing_but_nulls_is_all_missing(table: Any) -> None:
    table = duckdb.connect().sql(table) if isinstance(table, str) else table
    for declared in ({"values": ["a"]}, {"size": 1}, {"bins": [0, 1]}, {"values": [True]}):
        attribute = Attribute("x", **declared, missing="category")
        assert counts(table, request_for([attribute], [("x",)])) == [0, 3]


UNSUPPORTED = {
    "list": pa.array([[1]]),
    "struct": pa.array([{"i": 1}]),
    "map": pa.array([[("k", 1)]], type=pa.map_(pa.string(), pa.int64())),
    "binary": pa.array([b"1"]),
    "time": pa.array([0], type=pa.time64("us")),
    "duration": pa.array([0], type=pa.duration("us")),
}
NOT_THERE = [("parquet", "duration"), ("polars", "map")]  # Parquet holds integers instead; polars has no maps


@pytest.mark.parametrize("holder", ["pyarrow", "parquet", "duckdb", "pandas", "polars"])
def test_types_that_cannot_be_coded_are_refused_before_counting(holder: str, tmp_path: Path) -> None:
    """Only where they are used: another column of that type does no harm."""
    kinds = [kind for kind in UNSUPPORTED if (holder, kind) not in NOT_THERE]
    table = pa.table({**{kind: UNSUPPORTED[kind] for kind in kinds}, "b": [1]})
    source: Any = table
    if holder == "parquet":
        source = tmp_path / "people.parquet"
        pq.write_table(table, source)
    elif holder == "duckdb":
        source = duckdb.connect().from_arrow(table)
    elif holder == "pandas":
        source = table.to_pandas(types_mapper=pd.ArrowDtype)
    elif holder == "polars":
        source = pl.from_arrow(table)
    engine = engine_for(source)
    engine.prepare(request_for([Attribute("b", size=2)]))
    for kind in kinds:
        with pytest.raises(DataError, match=f"column '{kind}': expected text, numbers, booleans or dates in it"):
            engine.prepare(request_for([Attribute(kind, values=["1"])]))


def test_kinds_of_columns() -> None:
    assert {column_kind(kind) for kind in ("TINYINT", "BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT")} == {"integer"}
    assert {column_kind(kind) for kind in ("TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP_S")} == {"timestamp"}
    assert column_kind("TIMESTAMP WITH TIME ZONE") == "instant"
    assert {column_kind(kind) for kind in ("BLOB", "TIME", "JSON", "STRUCT(a INTEGER)", "VARCHAR[]", "BIT")} == {None}
    assert column_kind("ENUM('a]', 'b[]')") == "text"


# DuckDB databases


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = tmp_path / "people.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE TABLE people AS SELECT 'x' AS a, 1 AS b UNION ALL SELECT 'y', 2")
        connection.execute("CREATE VIEW adults AS SELECT * FROM people WHERE b = 2")
        connection.execute("CREATE TABLE collated (who VARCHAR COLLATE NOCASE, flag VARCHAR COLLATE NOCASE)")
        connection.execute("INSERT INTO collated VALUES ('ann', 'True'), ('ANN', 'tRue'), ('bob', 'false')")
    return file


def test_tables_views_and_queries(database: Path) -> None:
    assert counts_of_a(database, "people") == counts_of_a(database, "main.people") == [1, 1, 0]
    assert counts_of_a(database, "adults") == [0, 1, 0]
    assert counts_of_a(database, None, "SELECT upper('y') AS c, a, b FROM people WHERE b = 1 -- one") == [1, 0, 0]
    assert counts_of_a(database, None, "FROM people LIMIT 1") in ([1, 0, 0], [0, 1, 0])


@pytest.mark.parametrize(
    "query", ["DROP TABLE people", "SELECT 1; DROP TABLE people", "DELETE FROM people", "SELECT nothing", ""]
)
def test_what_is_no_query_is_refused_before_counting(database: Path, query: str) -> None:
    with pytest.raises(DataError, match=r"query of DuckDB database 'people.duckdb': expected .*one SELECT"):
        engine_for(database, None, query).prepare(request_for(LETTERS))
    assert counts_of_a(database, "people") == [1, 1, 0]


def test_a_table_that_is_not_there_is_not_looked_for_among_variables(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB would take a data frame that happens to have the name, in the function or module that calls it."""
    monkeypatch.setattr(scans, "absent", pd.DataFrame({"a": ["x"], "b": [1]}), raising=False)
    for table in ("absent", "absent.csv", "/etc/passwd"):
        with pytest.raises(DataError, match="expected something that is there, can be read"):
            engine_for(database, table).prepare(request_for(LETTERS))


def test_collations_of_columns_play_no_role(database: Path) -> None:
    """ann and ANN are two persons, and tRue is no way to write true."""
    attribute = Attribute("flag", values=[True, False], other="category")
    request = request_for([attribute], [("flag",)], person="who", max_rows=1)
    assert counts(database, request, "collated") == [1, 1, 1]


@pytest.mark.parametrize("raw", [b"", b"no database", b"SQLite format 3\x00" + b"\x00" * 100])
def test_what_is_no_database_is_refused_before_counting(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "people.db").write_bytes(raw)
    with pytest.raises(DataError, match=r"of DuckDB database 'people.db': expected a DuckDB file that can be read"):
        engine_for(tmp_path / "people.db", "people").prepare(request_for(LETTERS))


def test_a_database_that_is_gone_is_refused_before_counting(database: Path) -> None:
    engine = engine_for(database, "people")
    database.unlink()
    with pytest.raises(DataError, match="expected a file that is there"):
        engine.prepare(request_for(LETTERS))
