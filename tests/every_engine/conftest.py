"""Every test that asks for a `holder` runs once for each way of holding a table: local ones, PostgreSQL, Spark.

One that asks for a `source` runs once for each kind of source: not for every way of writing a CSV file or a data frame.
One that asks for a `coder` runs once for each program that codes: all local ones use the same, so that two of them do,
and so do the workers of Spark. One that asks for an `inquired` has Spark as well, which cannot be asked.
"""

from __future__ import annotations

import pytest
from canaries import Surroundings
from holders import holders


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "holder" in metafunc.fixturenames:
        metafunc.parametrize("holder", holders())
    if "source" in metafunc.fixturenames:
        local = ("csv", "parquet", "pandas-objects", "polars-lazy", "pyarrow-reader", "duckdb-table", "duckdb-query")
        metafunc.parametrize("source", holders(local=local))
    if "coder" in metafunc.fixturenames:
        metafunc.parametrize("coder", holders(local=("csv", "parquet"), spark=False))
    if "inquired" in metafunc.fixturenames:
        metafunc.parametrize("inquired", holders(local=("csv", "parquet")))


@pytest.fixture
def surroundings(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> Surroundings:
    """What is printed, logged or warned of while a test runs."""
    return Surroundings(capfd, caplog, recwarn)
