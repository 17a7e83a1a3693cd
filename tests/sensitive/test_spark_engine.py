"""The Spark engine on a real Spark: several partitions, many tables, failures that quote records."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from factories import arrow_table
from factory_spark import LOG_KEY, dataframe_of, spark_session
from holders import request_for
from pyspark.logger import PySparkLogger

from privcube import Attribute
from privcube.errors import DataError, MissingExtraError, PlanError
from privcube.progress import COUNTING, READING
from privcube.sensitive.engine import CountRequest
from privcube.sensitive.engines import spark as spark_engine
from privcube.sensitive.engines.spark import SparkEngine, spark_table
from privcube.sensitive.engines.spark_workers import FIRST_REFUSED, PIECE, UNREADABLE, Work, count_coded, sum_pieces
from privcube.sensitive.sources import engine_for

pytestmark = pytest.mark.xdist_group("spark")

CANARY = "canary9c41"


@pytest.fixture(scope="module")
def spark() -> Any:
    return spark_session()


def numbers(spark: Any, rows: int, partitions: int = 3) -> Any:
    """Records that Spark makes by itself: `id` from 0."""
    return spark.range(0, rows, 1, partitions)


def assert_equal(found: Any, expected: Any, request: CountRequest) -> None:
    wrong = [
        table for table in request.tables if not np.array_equal(found.for_the_gate(table), expected.for_the_gate(table))
    ]
    assert not wrong


# Equal counts


@pytest.mark.parametrize(("rows", "person"), [(2_000, None), (2_000, "who"), (5, None), (0, "who")])
def test_partitions_make_no_difference(rows: int, person: str | None) -> None:
    """Seven partitions, most of them empty if there are five records; persons have records in all of them.

    Spark makes Java of its plans here, as it does for its users.
    """
    spark_session().conf.set("spark.sql.codegen.wholeStage", "true")
    chance = np.random.default_rng(rows)
    attributes, columns = [], {}
    for number in range(6):
        size = int(chance.integers(1, 9))
        attributes.append(Attribute(f"a{number}", size=size, missing="category"))
        codes = chance.integers(0, size + 1, size=rows).tolist()
        columns[f"a{number}"] = "integer", [None if code == size else code for code in codes]
    columns["who"] = "text", [f"p{number}" for number in chance.integers(0, 90, size=rows)]
    names = [attribute.name for attribute in attributes]
    tables = [table for size in range(4) for table in combinations(names, size)]
    request = request_for(attributes, tables, person, max_rows=7)
    found = SparkEngine(dataframe_of(columns).repartition(7)).count(request)
    spark_session().conf.set("spark.sql.codegen.wholeStage", "false")
    assert_equal(found, engine_for(arrow_table(columns)).count(request), request)


@pytest.mark.parametrize("person", [None, "who"])
def test_partitions_of_many_batches(spark: Any, person: str | None) -> None:
    """More records than Arrow, DuckDB and the packing of codes take at a time; a size of more than one byte."""
    rows = 300_000
    records = numbers(spark, rows, 1).selectExpr("id % 7 AS a", "(id * 7919) % 300 AS b", "id AS who")
    attributes = [Attribute("a", size=7), Attribute("b", size=300)]
    request = request_for(attributes, [("a", "b"), ()], person)
    found = SparkEngine(records).count(request)
    ids = np.arange(rows)
    expected = np.zeros((7, 300), dtype=np.int64)
    np.add.at(expected, (ids % 7, ids * 7919 % 300), 1)
    assert np.array_equal(found.for_the_gate(("a", "b")), expected)
    assert found.for_the_gate(()) == rows


def test_thousands_of_tables_in_pieces(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """5,456 tables in three pieces, each summed by a task of its own; progress moves on and ends at all of them."""
    monkeypatch.setattr(spark_engine, "_PIECES_SUMMED", 1)
    rows, sizes = 3_000, [4] * 33
    records = numbers(spark, rows).selectExpr(
        *(f"(id * {number * number + 1}) % 4 AS a{number}" for number in range(33))
    )
    attributes = [Attribute(f"a{number}", size=size) for number, size in enumerate(sizes)]
    request = request_for(attributes, list(combinations([attribute.name for attribute in attributes], 3)))
    assert len(request.tables) == 5_456
    told: list[tuple[str, int, int | None]] = []
    found = SparkEngine(records).count(request, lambda *progress: told.append(progress))
    ids = np.arange(rows)
    codes = {f"a{number}": ids * (number * number + 1) % 4 for number in range(33)}
    for table in request.tables[::7]:
        expected = np.zeros((4, 4, 4), dtype=np.int64)
        np.add.at(expected, tuple(codes[name] for name in table), 1)
        assert np.array_equal(found.for_the_gate(table), expected), table
    counting = [(done, total) for stage, done, total in told if stage == COUNTING]
    assert len(counting) > 2
    assert counting == sorted(counting)
    assert counting[-1] == (5_456, 5_456)
    reading = [done for stage, done, total in told if stage == READING and total is None]
    assert len(reading) + len(counting) == len(told)
    assert reading == sorted(reading)
    assert all(done <= rows for done in reading)


def test_columns_go_by_number(spark: Any) -> None:
    """Spark takes A for a, and a dot for a field; a level may be called as a column is called inside."""
    names = ["a", "A", "a.b", "`a`", "x0", 'x1"; DROP', "turn", "flag"]
    records = (
        numbers(spark, 30)
        .selectExpr(*(f"(id + {at}) % 8 AS c{at}" for at in range(8)), "id AS PERSON")
        .toDF(*names, "p.q")
    )
    attributes = [Attribute(name, size=8) for name in names]
    request = request_for(attributes, [(name,) for name in names], person="p.q")
    found = SparkEngine(records).count(request)
    for at, name in enumerate(names):
        assert found.for_the_gate((name,)).tolist() == np.bincount((np.arange(30) + at) % 8, minlength=8).tolist()


@pytest.mark.parametrize("person", [None, "who"])
def test_text_that_is_not_unicode(spark: Any, person: str | None) -> None:
    """It is not declared; two persons named by different bytes are two."""
    records = numbers(spark, 30).selectExpr(
        "CAST(CASE id % 2 WHEN 0 THEN X'ff41' ELSE X'41' END AS STRING) AS a",
        "CAST(CASE id % 3 WHEN 0 THEN X'fe' WHEN 1 THEN X'ff' ELSE X'c3' END AS STRING) AS who",
    )
    request = request_for([Attribute("a", values=["A"], other="category")], person=person, max_rows=2)
    found = SparkEngine(records).count(request)
    assert found.for_the_gate(()) == (30 if person is None else 6)
    assert person is not None or found.for_the_gate(("a",)).tolist() == [15, 15]


# What is refused


def test_the_first_refused_attribute_is_named_wherever_it_is(spark: Any) -> None:
    """The second attribute is refused in the first partition, the first one only in the last."""
    records = numbers(spark, 900).selectExpr(
        "CASE WHEN id = 899 THEN 7 ELSE 0 END AS a", f"CASE WHEN id = 0 THEN '{CANARY}' ELSE 'x' END AS b", "id AS who"
    )
    attributes = [Attribute("a", size=2), Attribute("b", values=["x"])]
    for person in (None, "who"):
        with pytest.raises(DataError, match="column 'a': expected only declared values"):
            SparkEngine(records).count(request_for(attributes, person=person))
        with pytest.raises(DataError, match="column 'b': expected only declared values") as caught:
            SparkEngine(records).count(request_for(attributes, [("b",)], person=person))
        assert CANARY not in str(caught.value)


def unreadable(spark: Any) -> Any:
    """Every record raises."""
    return numbers(spark, 10).selectExpr(f"CAST(raise_error('{CANARY}') AS INT) AS a", "array(id) AS b", "id AS c")


def test_no_record_is_read_beforehand(spark: Any) -> None:
    request = request_for([Attribute("a", size=2)], [("a",)])
    SparkEngine(unreadable(spark)).prepare(request)
    with pytest.raises(DataError):
        SparkEngine(unreadable(spark)).count(request)


@pytest.mark.parametrize(
    ("column", "kind"),
    [("b", "array"), ("nothing", "void"), ("bytes", "binary"), ("pair", "struct")],
)
def test_types_that_cannot_be_coded_are_refused_beforehand(spark: Any, column: str, kind: str) -> None:
    records = unreadable(spark).selectExpr("*", "NULL AS nothing", "X'00' AS bytes", "named_struct('x', 1) AS pair")
    assert records.schema[column].dataType.typeName() == kind
    with pytest.raises(DataError, match=f"column '{column}': expected text, numbers, booleans or dates"):
        SparkEngine(records).prepare(request_for([Attribute(column, values=["x"])], [(column,)]))


def test_what_does_not_fit_is_refused_beforehand(spark: Any) -> None:
    records = unreadable(spark)
    with pytest.raises(DataError, match="Spark DataFrame: expected one column named 'd', given none"):
        SparkEngine(records).prepare(request_for([Attribute("c", size=2), Attribute("d", size=2)], [("c",)]))
    with pytest.raises(DataError, match="one column named 'a', given several"):
        SparkEngine(records.toDF("a", "b", "a")).prepare(request_for([Attribute("a", size=2)]))
    with pytest.raises(PlanError, match="cells in all"):
        SparkEngine(records).prepare(request_for([Attribute("a", size=50_000), Attribute("c", size=50_000)]))
    stream = spark.readStream.format("rate").load()
    with pytest.raises(DataError, match="not a stream"):
        SparkEngine(stream).prepare(request_for([Attribute("value", size=2)]))


def test_workers_with_another_privcube_are_refused_beforehand(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_engine, "__version__", "0.0.0")
    with pytest.raises(
        MissingExtraError, match=r"workers of Spark: expected privcube\[spark\] 0\.0\.0 in their Python"
    ):
        SparkEngine(numbers(spark, 3)).prepare(request_for([Attribute("id", size=3)]))


# Failures that quote records


def bad_cast(spark: Any, folder: Path) -> Any:
    """One record, in the last partition, that Spark cannot cast; it says so with the value."""
    text = f"CASE WHEN id = 2999 THEN '{CANARY}' ELSE '1' END"
    return numbers(spark, 3_000).selectExpr(f"CAST(concat({text}, '') AS INT) AS a", "id AS who")


def bad_line(spark: Any, folder: Path) -> Any:
    """One line of a text file that is not as declared."""
    (folder / "people.csv").write_text("1,5\n" * 2_000 + f"{CANARY},6\n")
    reader = spark.read.schema("a INT, who BIGINT").option("mode", "FAILFAST")
    return reader.csv(str(folder / "people.csv"))


def bad_function(spark: Any, folder: Path) -> Any:
    """A function of the user's that raises in a worker."""

    def raises(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if 2999 in batch.column(0).to_pylist():
                raise ValueError("canary" + "9c41")
            yield pa.record_batch({"a": batch.column(0), "who": batch.column(0)})

    return spark_engine._mapped(numbers(spark, 3_000), raises, "a BIGINT, who BIGINT")


def said_by_spark(spark: Any) -> str:
    """All that the JVM and the workers wrote so far."""
    return Path(spark.conf.get(LOG_KEY)).read_text(encoding="utf-8", errors="replace")


PYTHON_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j")


class Listener(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.heard += self.format(record)


@pytest.fixture
def listener() -> Iterator[Listener]:
    """Hears all that Spark's Python library logs; it keeps that from the root, where pytest listens."""
    one = Listener()
    levels = {}
    for logger in map(PySparkLogger.getLogger, PYTHON_LOGGERS):
        levels[logger] = logger.level
        logger.addHandler(one)
        logger.setLevel(logging.DEBUG)
    yield one
    for logger, level in levels.items():
        logger.removeHandler(one)
        logger.setLevel(level)


def log_levels(spark: Any) -> list[str]:
    """Of all loggers, Java's and Python's."""
    manager = spark.sparkContext._jvm.org.apache.logging.log4j.LogManager
    loggers = manager.getContext(False).getConfiguration().getLoggers().values()
    java = [f"{logger.getName()} {logger.getLevel()}" for logger in loggers]
    return java + [f"{name} {logging.getLogger(name).level}" for name in PYTHON_LOGGERS]


@pytest.mark.parametrize(("bad", "person"), [(bad_cast, None), (bad_line, "who"), (bad_function, "who")])
def test_a_failure_half_way_is_one_sentence(
    spark: Any,
    bad: Callable[[Any, Path], Any],
    person: str | None,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    listener: Listener,
) -> None:
    records = bad(spark, tmp_path)
    request = request_for([Attribute("a", bins=[0, 5_000], other="category")], [("a",), ()], person)
    before, levels = said_by_spark(spark), log_levels(spark)
    capfd.readouterr()
    listener.heard = ""
    with pytest.raises(DataError) as caught:
        SparkEngine(records).count(request)
    logged = listener.heard
    assert str(caught.value) == (
        "Spark DataFrame: expected records that can be read to the end, and memory for all tables on every worker"
    )
    said = said_by_spark(spark).removeprefix(before)
    assert CANARY not in said + logged + "".join(capfd.readouterr()) + repr(caught.value.__context__)
    assert log_levels(spark) == levels


def test_the_same_failure_is_told_everywhere_without_the_engine(spark: Any, tmp_path: Path, listener: Listener) -> None:
    """The test above looks in the right places: Spark's log, and what its Python library logs."""
    records = bad_cast(spark, tmp_path)
    before = said_by_spark(spark)
    listener.heard = ""
    with pytest.raises(Exception, match=CANARY):
        records.collect()
    assert CANARY in said_by_spark(spark).removeprefix(before)
    assert CANARY in listener.heard


# Tables and queries of a session


def test_a_table_and_a_query(spark: Any) -> None:
    numbers(spark, 10).selectExpr("id % 2 AS a", "id").createOrReplaceTempView("`odd people`")
    request = request_for([Attribute("a", size=2)], [("a",)])
    sources = [
        ("spark:", None, "SELECT * FROM `odd people` WHERE id < 7 -- of ten"),
        ("spark:`odd people`", None, None),
        ("spark:", "`odd people`", None),
    ]
    for source, expected in zip(sources, ([4, 3], [5, 5], [5, 5]), strict=True):
        engine = engine_for(*source)
        engine.prepare(request)
        assert engine.count(request).for_the_gate(("a",)).tolist() == expected


def test_tables_and_queries_that_cannot_be_read(spark: Any, capfd: pytest.CaptureFixture[str]) -> None:
    numbers(spark, 1).createOrReplaceTempView("kept")
    with pytest.raises(DataError, match="Spark: expected a table or a query to read"):
        spark_table("", None)
    with pytest.raises(DataError, match="Spark: expected a table or a query to read"):
        spark_table("kept", "SELECT 1")
    with pytest.raises(DataError, match="Spark table 'no_such': expected one that the Spark session can read"):
        spark_table("no_such", None)
    with pytest.raises(DataError, match="Spark query: expected one that the Spark session can read"):
        spark_table("", "SELECT nothing FROM nowhere")
    with pytest.raises(DataError, match="Spark query: expected one that runs no script and no method of Java"):
        spark_table("", "SELECT TRANSFORM(id) USING 'cat' AS (a) FROM kept")
    assert spark.table("kept").count() == 1
    assert capfd.readouterr().err == ""


def test_a_machine_without_java(tmp_path: Path) -> None:
    code = (
        "from privcube.errors import DataError\n"
        "from privcube.sensitive.engines.spark import spark_table\n"
        "try:\n    spark_table('people', None)\nexcept DataError as error:\n    print(error)\n"
    )
    bare = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_REMOTE")}
    for tool in ("bash", "dirname", "env", "python3"):
        (tmp_path / tool).symlink_to(
            next(path for path in map(Path, (f"/bin/{tool}", f"/usr/bin/{tool}", sys.executable)) if path.exists())
        )
    result = subprocess.run(
        [sys.executable, "-c", code], env={**bare, "PATH": str(tmp_path)}, capture_output=True, text=True, timeout=600
    )
    assert result.stdout == "Spark: expected a running session, or Java 17 or later (see JAVA_HOME) to start one\n"


def test_a_machine_without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'privcube\[spark\]'"):
        spark_table("people", None)


# Workers, without Spark


def row(piece: int, counts: bytes) -> pa.RecordBatch:
    return pa.record_batch({"piece": pa.array([piece], pa.int64()), "counts": pa.array([counts], pa.binary())})


def test_pieces_of_any_width_are_summed() -> None:
    cells = PIECE + 2  # the second piece has two cells
    given = [
        row(1, np.array([255, 1], dtype="<u1").tobytes()),
        row(1, np.array([1, 65_535], dtype="<u2").tobytes()),
        row(1, np.array([2**40, 2**62 - 2**40], dtype="<u8").tobytes()),
        row(0, np.ones(PIECE, dtype="<u1").tobytes()),
        row(FIRST_REFUSED, b""),
        row(FIRST_REFUSED, b""),
    ]
    sums = {batch["piece"][0].as_py(): batch["counts"][0].as_py() for batch in sum_pieces(cells, iter(given))}
    assert set(sums) == {0, 1, FIRST_REFUSED}
    assert np.frombuffer(sums[1], dtype="<u8").tolist() == [2**40 + 256, 2**62 - 2**40 + 65_536]
    assert sums[0] == b"\1" * PIECE


def test_workers_raise_nothing() -> None:
    """Not even if what they get is not what they expect: it becomes a flag."""
    work = Work("SELECT no_such_column FROM records", (2,), (), ((0,),), (), 2)
    coded = list(count_coded(work, lambda rows: None, iter([pa.record_batch({"x0": [CANARY]})])))
    summed = list(sum_pieces(2, iter([row(0, b"123")])))
    for batches in (coded, summed):
        assert [batch["piece"].to_pylist() for batch in batches] == [[UNREADABLE]]
        assert CANARY not in str([batch.to_pylist() for batch in batches])
