"""The engine for data larger than one machine. Zone: SENSITIVE.

Workers of Spark code and count each partition (`privcube.sensitive.engines.spark_workers`); the partial counts are
summed on the cluster and come to the driver piece by piece. With a person column, the coded records are first sent to
where all of a person's are, and the first few by their keyed hash are kept. Spark's log is off meanwhile, as it
quotes records.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from privcube.errors import DataError, MissingExtraError
from privcube.extras import load
from privcube.progress import COUNTING, READING, Progress, silent
from privcube.sensitive.coding import DUCKDB, ColumnKind, coded_records, ranked_records
from privcube.sensitive.counting import checked_cells, tables_within
from privcube.sensitive.counts import ExactCounts
from privcube.sensitive.cover import cover_by_measures
from privcube.sensitive.duckdb_session import narrow_codes
from privcube.sensitive.engine import CountRequest, Engine
from privcube.sensitive.engines.spark_workers import (
    FIRST_REFUSED,
    PACKED,
    PIECE,
    PIECES,
    UNREADABLE,
    Work,
    count_coded,
    count_packed,
    ignore,
    pack_coded,
    sum_pieces,
    tell_version,
    unpacked_counts,
)
from privcube.sensitive.measures.dividing import divided_places
from privcube.sensitive.refusals import checked_kinds, refuse_nobody, refuse_values, without_quotes
from privcube.sensitive.selects import without_end
from privcube.version import __version__

if TYPE_CHECKING:
    from privcube.sensitive.engines.spark_workers import Batches

_PIECES_SUMMED: Final = 64  # by one task
_PARTIAL_CELLS: Final = 1 << 32  # counted by all tasks together; above this, tasks are made fewer
_PULSE: Final = 0.25  # seconds between looks at how much was read
_PATIENCE: Final = 20.0  # seconds for the tasks of a job that failed to end
_READABLE: Final = "records that can be read to the end, and memory for all tables on every worker"
_KINDS: Final[dict[str, ColumnKind]] = {
    **dict.fromkeys(("StringType", "CharType", "VarcharType", "DateType"), "text"),
    **dict.fromkeys(("ByteType", "ShortType", "IntegerType", "LongType"), "integer"),
    **dict.fromkeys(("FloatType", "DoubleType"), "float"),
    "TimestampType": "instant",
    "TimestampNTZType": "timestamp",
    "DecimalType": "decimal",
    "BooleanType": "boolean",
}
_RUNS_CODE: Final = re.compile(r'"class":"[\w.$]*\.(ScriptTransformation|CallMethodViaReflection)"')
_LOGS_IN_USE: Final = threading.Lock()  # one at a time switches them off and on again


class SparkEngine:
    """Counts the records of a DataFrame, which must be the same whenever it is evaluated."""

    def __init__(self, dataframe: Any, name: str = "Spark DataFrame") -> None:
        self._dataframe = dataframe
        self._name = name

    def prepare(self, request: CountRequest) -> None:
        """Check columns, types and the size of the tables, and that workers know privcube; no record is read."""
        with _quiet(self._dataframe.sparkSession):
            self._work(request)
            _check_workers(self._dataframe.sparkSession)

    def count(self, request: CountRequest, progress: Progress = silent) -> ExactCounts:
        """Count on the cluster, sum there, bring the sums here."""
        session = self._dataframe.sparkSession
        with _quiet(session):
            work = self._work(request)
            cells = np.zeros(work.cells, dtype=np.int64)
            pieces, tables = -(-work.cells // PIECE), len(work.tables)
            flags = set()
            with without_quotes(self._name, expected=_READABLE):
                read = _shared_number(session)
                summed = self._summed(request, work, ignore if read is None else read.add)
                received = _received(summed, lambda: progress(READING, 0 if read is None else read.value, None))
                for done, (piece, counts) in enumerate(received, start=1):
                    if piece < 0:
                        flags.add(piece)
                        continue
                    cells[piece * PIECE : (piece + 1) * PIECE] = unpacked_counts(counts, work.cells, piece)
                    progress(COUNTING, tables * done // pieces, tables)
        self._check(request, flags)
        progress(COUNTING, tables, tables)  # pieces of nothing but zeros are not sent
        return request.exact_counts(tables_within(cells, work.sizes, work.tables))

    def _work(self, request: CountRequest) -> Work:
        with without_quotes(self._name, expected="a DataFrame of a running session"):
            is_stream = self._dataframe.isStreaming
            columns = [(field.name, _KINDS.get(type(field.dataType).__name__)) for field in self._dataframe.schema]
        if is_stream:
            raise DataError(self._name, expected="records that are all there, not a stream")
        kinds = checked_kinds(self._name, request, columns)
        sizes = tuple(attribute.cells for attribute in request.attributes)
        tables = tuple(request.positions)
        all_cells = checked_cells(sizes, tables)
        blocks = tuple(cover_by_measures(sizes, tables, divided_places(request.attributes)))
        return Work(_coding_query(request, kinds), sizes, request.attributes, tables, blocks, all_cells)

    def _summed(self, request: CountRequest, work: Work, report: Callable[[int], None]) -> Any:
        """A DataFrame of the pieces of the counts."""
        records = self._records(request)
        context = _context(self._dataframe.sparkSession)
        most = max(2 * context.defaultParallelism if context else 1, _PARTIAL_CELLS // max(work.cells, PIECE))
        if request.person is None:
            counted = _mapped(records.coalesce(most), partial(count_coded, work, report), PIECES)
        else:
            packed = _mapped(records, partial(pack_coded, work, report), PACKED)
            kept = _first_of_each_person(packed, request.max_rows_per_person)
            counted = _mapped(kept.coalesce(most), partial(count_packed, work), PIECES)
        tasks = -(-work.cells // (PIECE * _PIECES_SUMMED))
        return _mapped(counted.repartition(tasks, "piece"), partial(sum_pieces, work.cells), PIECES)

    def _records(self, request: CountRequest) -> Any:
        """The used columns as x0, x1, ...; they go by number, as names may have dots and Spark takes A for a."""
        names = self._dataframe.columns
        numbered = self._dataframe.toDF(*(f"x{number}" for number in range(len(names))))
        used = numbered.select(*(f"x{names.index(name)}" for name in request.columns))
        return used.toDF(*(f"x{number}" for number in range(len(request.columns))))

    def _check(self, request: CountRequest, flags: set[int]) -> None:
        """Refuse what the workers refused: the first attribute in schema order."""
        if UNREADABLE in flags:
            raise DataError(self._name, expected=_READABLE)
        if flags:
            number = FIRST_REFUSED - max(flags)
            if number < len(request.attributes):
                raise refuse_values(request.attributes[number])
            raise refuse_nobody(str(request.person))


def spark_table(table: str, query: str | None) -> Engine:
    """The engine for a table or a query of the active session; one is started if there is none."""
    session_class = load("pyspark.sql", extra="spark", purpose="Spark tables").SparkSession
    if bool(table) == (query is not None):
        raise DataError("Spark", expected="a table or a query to read")
    with without_quotes("Spark", expected="a running session, or Java 17 or later (see JAVA_HOME) to start one"):
        session = session_class.getActiveSession()
        if session is None:
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # rather than the first python3 on the path
            session = (
                session_class.builder.appName("privcube").config("spark.ui.showConsoleProgress", "false").getOrCreate()
            )
    name = f"Spark table {table!r}" if query is None else "Spark query"
    with _quiet(session), without_quotes(name, expected="one that the Spark session can read"):
        dataframe = session.table(table) if query is None else _asked(session, without_end(query))
    return SparkEngine(dataframe, name)


def _asked(session: Any, query: str) -> Any:
    """The DataFrame of what parses as one query by itself and runs nothing but the query.

    Inside a SELECT nothing but a query is understood, and no command is run. But a query may hand records to a script
    (TRANSFORM ... USING) or to any static method of Java (reflect, java_method, try_reflect). In the analyzed plan,
    where views and names are resolved, these are nodes of two classes. Spark Connect parses on its server instead.
    """
    if _context(session) is not None:
        session._jsparkSession.sessionState().sqlParser().parseQuery(query)
    dataframe = session.sql(f"SELECT * FROM ({query}\n) AS asked")
    if _context(session) is not None and _RUNS_CODE.search(dataframe._jdf.queryExecution().analyzed().toJSON()):
        raise DataError("Spark query", expected="one that runs no script and no method of Java")
    return dataframe


def _coding_query(request: CountRequest, kinds: dict[str, ColumnKind]) -> str:
    """The coding of the columns x0, x1, ... of `records`."""
    numbers = {name: f"x{number}" for number, name in enumerate(request.columns)}
    dialect = replace(DUCKDB, column=numbers.__getitem__)
    codes = narrow_codes(request.attributes)
    if request.person is None:
        records = coded_records("records", request.attributes, kinds, dialect, request.filters)
        return f"SELECT {codes} FROM ({records}) AS coded"
    ranked = ranked_records(
        "records", request.attributes, kinds, dialect,
        person=request.person, key=request.key, filters=request.filters,
    )  # fmt: skip
    return f"SELECT {codes}, nobody, person, unhex(place) AS place FROM ({ranked}) AS ranked"


def _received(summed: Any, pulse: Callable[[], None]) -> Iterator[Any]:
    """The rows of a DataFrame; until the first is there, which is when all is counted, the pulse beats."""

    def begin() -> Iterator[Any]:
        rows = iter(summed.toLocalIterator(prefetchPartitions=True))
        return chain(list(islice(rows, 1)), rows)

    pyspark = load("pyspark", extra="spark", purpose="Spark tables")
    inherits = pyspark.inheritable_thread_target(summed.sparkSession)  # such as the pool of a fair scheduler
    with ThreadPoolExecutor(1) as pool:
        beginning = pool.submit(inherits(begin))
        while wait([beginning], timeout=_PULSE).not_done:
            pulse()
    rows: Iterator[Any] = beginning.result()
    return rows


def _mapped(dataframe: Any, function: Callable[[Batches], Batches], schema: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # about pandas 3, which Arrow batches do not pass through
        return dataframe.mapInArrow(function, schema)


def _first_of_each_person(packed: Any, most: int) -> Any:
    """The flags and codes of at most `most` records of each person (`privcube.sensitive.units`), and of each flag."""
    functions = load("pyspark.sql.functions", extra="spark", purpose="Spark tables")
    window = load("pyspark.sql.window", extra="spark", purpose="Spark tables").Window
    turn = functions.row_number().over(window.partitionBy("flag", "person").orderBy("place"))
    return packed.select("flag", "codes", turn.alias("turn")).where(f"turn <= {most:d}").select("flag", "codes")


def _check_workers(session: Any) -> None:
    """Have a worker load privcube: if it cannot, that must be found before anything is charged."""
    versions = []
    with suppress(Exception):
        versions = [row[0] for row in _mapped(session.range(1), tell_version, "version string").collect()]
    if versions != [__version__]:
        raise MissingExtraError(
            "workers of Spark", expected=f"privcube[spark] {__version__} in their Python (see PYSPARK_PYTHON)"
        )


def _context(session: Any) -> Any:
    """The SparkContext; None with Spark Connect, where it is in another process."""
    return None if ".connect." in type(session).__module__ else session.sparkContext


def _shared_number(session: Any) -> Any:
    """A number that workers add to, if they can."""
    context = _context(session)
    return None if context is None else context.accumulator(0)


@contextmanager
def _quiet(session: Any) -> Iterator[None]:
    """Switch the logs of Spark off, here and on its machines, and on again when no task is left that may still write.

    `setLogLevel` would not do: loggers with a level of their own stay as they are, and the level before is not known.
    """
    with _LOGS_IN_USE, ExitStack() as afterwards:
        for logger in _python_loggers():
            afterwards.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.CRITICAL + 1)
        with suppress(Exception):  # without a session that runs, what comes next fails and says so
            context = _context(session)
            log4j = context._jvm.org.apache.logging.log4j
            log = log4j.LogManager.getContext(False)
            before = [(logger, logger.getExplicitLevel()) for logger in log.getConfiguration().getLoggers().values()]
            afterwards.callback(_switch_on, context, log, before)
            for logger, _ in before:
                logger.setLevel(log4j.Level.OFF)
            log.updateLoggers()
            context._jsc.sc().schedulerBackend().updateExecutorsLogLevel("OFF")
        yield


def _python_loggers() -> list[logging.Logger]:
    """The loggers that receive every exception, with the values it quotes."""
    made = load("pyspark.logger", extra="spark", purpose="Spark tables").PySparkLogger.getLogger
    return [logging.getLogger("py4j"), made("SQLQueryContextLogger"), made("DataFrameQueryContextLogger")]


def _switch_on(context: Any, log: Any, before: Sequence[tuple[Any, Any]]) -> None:
    with suppress(Exception):
        executors = context._jsc.sc().statusTracker().getExecutorInfos
        deadline = time.monotonic() + _PATIENCE
        while any(executor.numRunningTasks() for executor in executors()) and time.monotonic() < deadline:
            time.sleep(0.05)
        for logger, level in before:
            logger.setLevel(level)
        log.updateLoggers()
        level = log.getConfiguration().getRootLogger().getLevel().name()
        context._jsc.sc().schedulerBackend().updateExecutorsLogLevel(level)
