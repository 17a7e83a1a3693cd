"""The whole command line on a database server and on Spark: release, verify, query."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from factory_postgres import FACTORIES as DATABASES
from factory_postgres import server

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
    write_spec(data=f'source = {json.dumps(str(source))}\ndataset = "people"\n{what}', privacy=PRIVACY)
    assert published(said, tmp_path) == pytest.approx(500, abs=0.01)


@pytest.mark.xdist_group("postgres")
def test_a_source_that_is_respelled_finds_no_second_total(
    said: Said, refused_here: Said, write_spec: Callable[..., Path], write_people: Callable[[], Path], tmp_path: Path
) -> None:
    """A ledger in a database: 24 were once spent of 4, by six spellings of one path."""
    with server().connect() as connection:
        connection.execute(f"CREATE DATABASE respelled_{os.getpid()}")
    url = server().url("postgres", None, f"respelled_{os.getpid()}")
    write_people()

    def spec(source: str, declared: str) -> None:
        privacy = f"epsilon = 2\ntotal_epsilon = 4\nledger = {json.dumps(url)}"
        write_spec(data=f"source = {json.dumps(source)}\n{declared}", privacy=privacy, plan='strategy = "marginals"')

    spec("people.csv", 'dataset = "people-2030"')
    said("release", "spec.toml", "--output", "one")
    spec(str(tmp_path / "people.csv"), 'dataset = "people-2030"')
    said("release", "spec.toml", "--output", "two")
    for source in ("./people.csv", ".//people.csv", "people.csv", str(tmp_path / "people.csv")):
        for declared in ("", 'dataset = "people-2030"', 'dataset = "People-2030"', 'dataset = "fresh"'):
            spec(source, declared)
            sentence = refused_here("release", "spec.toml")
            assert "data set" in sentence or "what is left, 0," in sentence
    assert "people-2030" in refused_here("ledger", "spec.toml")
    spec("people.csv", 'dataset = "people-2030"')
    found = json.loads(said("ledger", "spec.toml", "--json"))
    assert (found["spent"], len(found["releases"])) == ("4", 2)


@pytest.mark.xdist_group("spark")
def test_release_from_spark(said: Said, write_spec: Callable[..., Path], tmp_path: Path) -> None:
    import pandas as pd
    from factory_spark import spark_session

    spark_session()
    pd.DataFrame({name: values for name, (_, values) in PEOPLE.items()}).to_parquet(tmp_path / "people.parquet")
    query = f"SELECT * FROM parquet.`{tmp_path}/people.parquet`"
    write_spec(data=f'source = "spark:"\ndataset = "people"\nquery = {json.dumps(query)}\n{UNIT}', privacy=PRIVACY)
    assert published(said, tmp_path) == pytest.approx(500, abs=0.01)
