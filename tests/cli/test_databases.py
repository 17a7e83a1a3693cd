"""The whole command line on a database server and on Spark: release, verify, query."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from factory_postgres import FACTORIES as DATABASES

Said = Callable[..., str]
PEOPLE = {
    "sex": ("text", ["F", "M"] * 500),
    "age": ("integer", [number * 7 % 10 for number in range(1000)]),
}
UNIT = 'unit = "row of the query"'
PRIVACY = 'epsilon = "1000000"\nledger = "ledger.db"\ntotal_epsilon = "1000000"'


def published(said: Said, tmp_path: Path) -> float:
    """Release and verify; the number of women."""
    said("release", "spec.toml")
    said("verify", "out", "--spec", "spec.toml")
    return float(json.loads(said("query", "out", "sex=F", "--json"))["estimate"])


@pytest.mark.xdist_group("postgres")
@pytest.mark.parametrize("kind", DATABASES)
def test_release_from_a_database(kind: str, said: Said, write_spec: Callable[..., Path], tmp_path: Path) -> None:
    source, table, query = DATABASES[kind](PEOPLE, tmp_path)
    what = f"table = {json.dumps(table)}" if table else f"query = {json.dumps(query)}\n{UNIT}"
    write_spec(data=f"source = {json.dumps(str(source))}\n{what}", privacy=PRIVACY)
    assert published(said, tmp_path) == pytest.approx(500, abs=0.01)


@pytest.mark.xdist_group("spark")
def test_release_from_spark(said: Said, write_spec: Callable[..., Path], tmp_path: Path) -> None:
    import pandas as pd
    from factory_spark import spark_session

    spark_session()
    pd.DataFrame({name: values for name, (_, values) in PEOPLE.items()}).to_parquet(tmp_path / "people.parquet")
    query = f"SELECT * FROM parquet.`{tmp_path}/people.parquet`"
    write_spec(data=f'source = "spark:"\nquery = {json.dumps(query)}\n{UNIT}', privacy=PRIVACY)
    assert published(said, tmp_path) == pytest.approx(500, abs=0.01)
