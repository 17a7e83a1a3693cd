"""The SQL engine on a real PostgreSQL server and on DuckDB files: one snapshot, any server, no word of the driver's."""

from __future__ import annotations

import logging
import random
import socket
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest
from canaries import NUMBER, WORD, Surroundings, assert_no_canary, chain, everything_said
from factories import Columns, arrow_table
from factory_postgres import PASSWORD, Server, duckdb_sql, new_table, quoted, server
from holders import request_for

from privcube import Attribute
from privcube.errors import DataError, PlanError
from privcube.progress import COUNTING, READING
from privcube.sensitive.counts import ExactCounts
from privcube.sensitive.engine import CountRequest
from privcube.sensitive.engines.sql import PostgreSQLDatabase, SqlEngine, packed, unpacked
from privcube.sensitive.sources import engine_for

pytestmark = pytest.mark.xdist_group("postgres")

BY_BLOCKS, AS_THEY_COME = 10**9, 0
SOME = {"a": ("text", ["x", "y", "y"]), "b": ("integer", [0, 1, 1])}
DECLARED = [Attribute("a", values=["x", "y"]), Attribute("b", size=2)]


@pytest.fixture
def running() -> Iterator[Server]:
    """The server; afterwards, no connection of the engine is left on it.

    A connection ends at the server a moment after it is closed here. Two minutes are for one that never ends.
    """
    yield server()
    until = time.monotonic() + 120
    with server().connect() as connection:
        while connection.execute(OURS).fetchall():
            assert time.monotonic() < until, "a connection was left open"
            time.sleep(0.02)


OURS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'privcube'"


@pytest.fixture
def surroundings(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> Surroundings:
    said = Surroundings(capfd, caplog, recwarn)
    caplog.set_level(logging.DEBUG, "psycopg")
    return said


def run_on_server(*commands: str, database: str = "postgres") -> None:
    with server().connect(database) as connection:
        for command in commands:
            connection.execute(command)


def engine_of(statement: str, most_scans: int) -> SqlEngine:
    return SqlEngine(PostgreSQLDatabase(server().url()), "records", statement, most_scans)


def prepared_count(source: tuple[Any, ...], request: CountRequest) -> ExactCounts:
    engine = engine_for(*source)
    engine.prepare(request)
    return engine.count(request)


def refusal(run: Callable[[], object]) -> str:
    """What is said, if that is one sentence and nothing is kept of what it comes from."""
    with pytest.raises(DataError) as caught:
        run()
    assert list(chain(caught.value)) == [caught.value]
    assert "\n" not in str(caught.value)
    assert "ERROR" not in str(caught.value)
    assert PASSWORD not in everything_said(caught.value)
    return str(caught.value)


# Counts


def random_records(chance: random.Random, sizes: list[int], rows: int) -> tuple[list[Attribute], Columns]:
    attributes, columns = [], {"who": ("integer", [chance.randrange(rows // 3) for _ in range(rows)])}
    for number, size in enumerate(sizes):
        name = f"a{number}"
        if size == 1:
            attributes.append(Attribute(name, size=1))
            columns[name] = "integer", [0] * rows
        elif number % 2:
            attributes.append(Attribute(name, size=size, other="category"))
            columns[name] = "integer", [chance.randrange(size + 2) for _ in range(rows)]
        else:
            attributes.append(Attribute(name, values=[f"v{value}" for value in range(size)], missing="category"))
            columns[name] = "text", [chance.choice([None, "v0", f"v{chance.randrange(size)}"]) for _ in range(rows)]
    return attributes, columns


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param([2, 3, 4, 5, 6], id="few cells"),
        pytest.param([500, 400, 300, 200], id="many cells, several blocks"),
        pytest.param([1] * 62 + [2, 2], id="digits of two numbers"),
    ],
)
def test_every_way_of_counting_gives_the_same(sizes: list[int], running: Server) -> None:
    attributes, columns = random_records(random.Random(5), sizes, rows=900)
    names = [attribute.name for attribute in attributes]
    tables = [(), *combinations(names[-4:], 2), *combinations(names[-4:], 1)]
    if len(names) > 10:
        tables.append(tuple(names))
    table = new_table(columns)
    for person in (None, "who"):
        request = request_for(attributes, tables, person, max_rows=2)
        expected = prepared_count((arrow_table(columns),), request)
        for most_scans in (BY_BLOCKS, AS_THEY_COME):
            found = engine_of(f"SELECT * FROM {quoted(table)}", most_scans).count(request)
            for names in request.tables:
                assert np.array_equal(found.for_the_gate(names), expected.for_the_gate(names)), names


def test_a_cell_with_more_records_than_a_batch(running: Server) -> None:
    """Records that say the same come once; they are counted as often as they are."""
    statement = "SELECT CAST(g = 7 AS INT4) AS a, g % 2 AS b FROM generate_series(1, 600001) AS g"
    request = request_for([Attribute("a", size=2), Attribute("b", size=2)])
    told: list[tuple[str, int, int | None]] = []
    found = engine_of(statement, AS_THEY_COME).count(request, lambda *progress: told.append(progress))
    assert found.for_the_gate(("a", "b")).tolist() == [[300000, 300000], [0, 1]]
    assert told[0] == (READING, 600001, None)
    assert told[-1] == (COUNTING, 4, 4)


def test_an_older_library_gives_one_row_at_a_time(running: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psycopg.pq.version", lambda: 160_009)
    statement = "SELECT g % 2 AS a FROM generate_series(1, 5) AS g"
    found = engine_of(statement, AS_THEY_COME).count(request_for([Attribute("a", size=2)]))
    assert found.for_the_gate(("a",)).tolist() == [2, 3]


def test_progress_by_blocks(running: Server) -> None:
    told: list[tuple[str, int, int | None]] = []
    engine_of(THREE_BLOCKS, BY_BLOCKS).count(request_for(LARGE, PAIRS), lambda *progress: told.append(progress))
    assert told == [(COUNTING, done, 3) for done in (1, 2, 3)]


def test_numbers_made_of_digits() -> None:
    chance = random.Random(3)
    for radices in ([2], [7, 10**8, 10**8, 3], [2] * 130, [10**8] * 9, [chance.randrange(1, 99) for _ in range(60)]):
        rows = [[chance.randrange(radix) for radix in radices] for _ in range(20)]
        rows += [[0] * len(radices), [radix - 1 for radix in radices]]
        words = [duckdb.sql(f"SELECT {', '.join(packed(list(map(str, row)), radices))}").fetchall()[0] for row in rows]
        assert np.array_equal(np.array(unpacked(np.array(words, dtype=np.int64), radices)).T, rows)
        assert len(words[0]) <= len(radices) * 27 // 62 + 2


# Sources


ENDINGS = [
    "",
    ";",
    " ;; \n",
    " -- all",
    "; -- all of them; really",
    "\n;\n-- one\n  -- two\n",
    " /* all -- */",
    "\t\r\n",
]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("kind", ["postgresql", "duckdb"])
def test_a_query_may_end_as_people_write_it(kind: str, ending: str, running: Server, tmp_path: Path) -> None:
    query = f"WITH few AS (SELECT 'x'::text AS a, 0 AS b) SELECT *, ';' AS c, '--' AS \"d;\" FROM few{ending}"
    url = running.url() if kind == "postgresql" else duckdb_sql(SOME, tmp_path)[0]
    found = prepared_count((url, None, query), request_for(DECLARED))
    assert found.for_the_gate(("a", "b")).tolist() == [[1, 0], [0, 0]]


def test_views_schemas_and_names_that_are_hard_to_quote(running: Server) -> None:
    name, schema = 'a "view"; DROP TABLE c --', "s\" p'%s"
    run_on_server(
        f"CREATE SCHEMA {quoted(schema)}",
        f"CREATE VIEW {quoted(schema)}.{quoted(name)} AS SELECT * FROM {quoted(new_table(SOME))} WHERE b = 1",
    )
    found = prepared_count((running.url(), f"{schema}.{name}", None), request_for(DECLARED))
    assert found.for_the_gate(("a", "b")).tolist() == [[0, 0], [0, 2]]


@pytest.mark.parametrize("url", ["postgresql://keeper:hidden@db.example/people", "duckdb:///data/people.duckdb"])
@pytest.mark.parametrize(("table", "query"), [(None, None), ("people", "SELECT 1")])
def test_a_table_or_a_query(url: str, table: str | None, query: str | None) -> None:
    said = refusal(lambda: engine_for(url, table, query))
    assert "people" in said
    assert said.endswith(f"expected a table or a query to read from it, given {'both' if table else 'neither'}")
    assert "hidden" not in said


def test_columns_named_alike_are_refused(running: Server, tmp_path: Path) -> None:
    """DuckDB takes B for b; PostgreSQL does not."""
    on_duckdb, _, _ = duckdb_sql(SOME, tmp_path)
    query = "SELECT 'x' AS a, 1 AS \"B\", 0 AS b"
    request = request_for(DECLARED)
    assert "given several" in refusal(lambda: engine_for(running.url(), None, f"{query}, 1 AS b").prepare(request))
    assert "differ" in refusal(lambda: engine_for(on_duckdb, None, f"{query}, 1 AS b").prepare(request))
    assert "differ" in refusal(lambda: engine_for(on_duckdb, None, query).prepare(request))
    assert prepared_count((running.url(), None, query), request).for_the_gate(("b",)).tolist() == [1, 0]


# Refusals


@pytest.mark.parametrize("most_scans", [BY_BLOCKS, AS_THEY_COME])
def test_refused_values_are_seen_whatever_is_counted(most_scans: int, running: Server) -> None:
    columns = {"a": ("text", ["x", "z"]), "b": ("integer", [1, 2]), "who": ("text", ["ann", " "])}
    statement = f"SELECT * FROM {quoted(new_table(columns))}"
    for tables, person, named in (
        ([()], None, "column 'a': expected only declared values"),
        ([("b",)], None, "column 'b': expected only declared values"),
        ([("b",)], "who", "column 'b': expected only declared values"),
    ):
        request = request_for(DECLARED, tables, person)
        assert refusal(partial(engine_of(statement, most_scans).count, request)).startswith(named)
    request = request_for([Attribute("b", size=3)], person="who")
    assert "column 'who': expected a person" in refusal(partial(engine_of(statement, most_scans).count, request))


# What is checked before anything is charged


def broken(part: str) -> tuple[str, str]:
    """A URL that does not work, and what the message must name."""
    running = server()
    return {
        "password": (running.url(password="wr0ng"), "user, password and database"),
        "no password": (running.url(password=None), "user, password and database"),
        "user": (running.url(user="ghost", password=None), "a server that answers"),
        "database": (running.url(database="no such one"), "'no such one'"),
        "port": (f"postgres://keeper:{PASSWORD.encode().hex()}@localhost:1/people", "'people' on 'localhost'"),
        "host": ("postgresql://keeper:hidden@no.such.host.invalid/people", "'no.such.host.invalid'"),
    }[part]


@pytest.mark.parametrize("part", ["password", "no password", "user", "database", "port", "host"])
def test_a_login_that_fails(part: str, running: Server, surroundings: Surroundings) -> None:
    url, named = broken(part)
    said = refusal(lambda: engine_for(url, "people").prepare(request_for(DECLARED)))
    assert named in said
    assert "FATAL" not in said
    everything = said + surroundings.said()
    assert not [secret for secret in ("wr0ng", "hidden", PASSWORD, PASSWORD.encode().hex()) if secret in everything]


def test_a_server_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://keeper:hidden@127.0.0.1:{silent.getsockname()[1]}/people?connect_timeout=2&sslmode=disable"
        said = refusal(lambda: engine_for(url, "people").prepare(request_for(DECLARED)))
    assert "'people' on '127.0.0.1': expected a server that answers there" in said


@pytest.mark.parametrize("password", ["pa@ss", "pa/ss", "pa?ss", "pa%ss", "pa#ss@", "pa:ss/"])
def test_a_password_that_is_not_encoded_is_not_shown(password: str) -> None:
    url = f"postgresql://keeper:{password}@localhost:1/people"
    said = refusal(lambda: engine_for(url, "people").prepare(request_for(DECLARED)))
    assert "expected a URL such as postgresql://user@host:5432/database" in said or "on 'localhost'" in said
    assert "pa" not in said.replace("password", "").replace("database", "").replace("people", "")
    assert "ss" not in said.replace("password", "")


def test_tables_that_are_not_there_or_may_not_be_read(running: Server) -> None:
    run_on_server(
        "DROP ROLE IF EXISTS guest",
        "CREATE ROLE guest LOGIN",
        "CREATE TABLE IF NOT EXISTS closed AS SELECT 'x' AS a, 0 AS b",
    )
    for table in ("not there", "closed", "no.schema", ""):
        said = refusal(partial(engine_for(running.url("guest", None), table).prepare, request_for(DECLARED)))
        assert said.startswith(f"table {table!r} of PostgreSQL database 'postgres' on ")
        assert "something that is there, can be read" in said


def test_duckdb_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "text.duckdb").write_text("no database")
    url, _, _ = duckdb_sql(SOME, tmp_path)
    for source, expected in (
        (f"duckdb://{tmp_path}/none.duckdb", "a file that is there"),
        (f"duckdb://{tmp_path}/text.duckdb", "a DuckDB file that can be read"),
        ("duckdb://", "a file that is there"),
        (url, "one column named"),
    ):
        missing = request_for([*DECLARED, Attribute("c", size=2)])
        said = refusal(partial(engine_for(source, "people").prepare, missing))
        assert expected in said
        assert str(tmp_path) not in said


def test_tables_that_are_too_large_are_refused_before_the_server_is_asked() -> None:
    request = request_for([Attribute("a", size=10**8), Attribute("b", size=10**8)])
    with pytest.raises(PlanError, match="cells in all"):
        engine_for("postgresql://localhost:1/people", "people").prepare(request)


def test_values_that_the_server_cannot_hold_are_refused_before_the_charge(running: Server) -> None:
    """In a database of Latin letters, the others cannot even be asked for."""
    run_on_server("DROP DATABASE IF EXISTS latin", "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    run_on_server("CREATE TABLE people AS SELECT 'é' AS a, 0 AS b", database="latin")
    source = running.url(database="latin"), "people", None
    found = prepared_count(source, request_for([Attribute("a", values=["è", "é"]), Attribute("b", size=1)]))
    assert found.for_the_gate(("a",)).tolist() == [0, 1]
    greek = request_for([Attribute("a", values=["é", "λ"]), Attribute("b", size=1)])
    assert "can code the declared values" in refusal(lambda: engine_for(*source).prepare(greek))


@pytest.mark.parametrize("person", [None, "who"])
def test_nothing_is_read_before_the_charge(person: str | None, running: Server) -> None:
    """Every value of this view stops whoever reads it."""
    run_on_server(
        "CREATE OR REPLACE FUNCTION stops(n INT) RETURNS INT LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''read''; END'",
        "CREATE OR REPLACE VIEW traps AS SELECT stops(g) AS a, stops(g) AS who FROM generate_series(1, 3) AS g",
    )
    engine = engine_for(running.url(), "traps")
    request = request_for([Attribute("a", size=2)], person=person)
    engine.prepare(request)
    assert "a connection that lasts" in refusal(lambda: engine.count(request))


# One snapshot, and a server that goes away


LARGE = [Attribute(name, size=600) for name in "abc"]
PAIRS = [("a", "b"), ("a", "c"), ("b", "c")]
THREE_BLOCKS = "SELECT g % 600 AS a, g % 7 AS b, g % 11 AS c FROM generate_series(1, 2000) AS g"


@pytest.mark.parametrize(
    "change", ["INSERT INTO moving SELECT 1, 1, 1 FROM generate_series(1, 50)", "DELETE FROM moving"]
)
def test_changes_between_two_blocks_are_not_seen(change: str, running: Server) -> None:
    run_on_server("DROP TABLE IF EXISTS moving", f"CREATE TABLE moving AS {THREE_BLOCKS}")
    steps = []

    def at_each_block(stage: str, done: int, total: int | None) -> None:
        steps.append(done)
        run_on_server(change)

    found = engine_of("SELECT * FROM moving", BY_BLOCKS).count(request_for(LARGE, PAIRS), at_each_block)
    assert steps == [1, 2, 3]
    assert [int(found.for_the_gate(pair).sum()) for pair in PAIRS] == [2000] * 3


def test_a_query_cannot_change_anything(running: Server) -> None:
    run_on_server(
        "CREATE TABLE IF NOT EXISTS diary (n INT)",
        "CREATE OR REPLACE FUNCTION notes() RETURNS INT LANGUAGE sql AS 'INSERT INTO diary VALUES (1) RETURNING 0'",
        "GRANT ALL ON diary TO keeper",
    )
    request = request_for([Attribute("a", size=2)])
    assert "can be read" in refusal(lambda: engine_of("SELECT notes() AS a", BY_BLOCKS).count(request))
    with running.connect() as connection:
        assert connection.execute("SELECT count(*) FROM diary").fetchall() == [(0,)]


def test_a_server_that_goes_away_between_blocks(running: Server, capfd: pytest.CaptureFixture[str]) -> None:
    def end(stage: str, done: int, total: int | None) -> None:
        run_on_server(f"SELECT pg_terminate_backend(pid) FROM ({OURS}) AS ours")

    said = refusal(lambda: engine_of(THREE_BLOCKS, BY_BLOCKS).count(request_for(LARGE, PAIRS), end))
    assert said == "records: expected records that can be read, by a connection that lasts to the end"
    assert capfd.readouterr() == ("", "")


def test_a_server_that_goes_away_while_records_come(running: Server, capfd: pytest.CaptureFixture[str]) -> None:
    statement = "SELECT g % 600 AS a, g % 7 AS b, 5 AS c FROM generate_series(1, 2000000) AS g"

    def end(stage: str, done: int, total: int | None) -> None:
        assert stage == READING
        run_on_server(f"SELECT pg_terminate_backend(pid) FROM ({OURS}) AS ours")

    said = refusal(lambda: engine_of(statement, AS_THEY_COME).count(request_for(LARGE, PAIRS), end))
    assert said == "records: expected records that can be read, by a connection that lasts to the end"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("most_scans", [BY_BLOCKS, AS_THEY_COME])
def test_whoever_stops_the_count_leaves_no_query_behind(most_scans: int, running: Server) -> None:
    """The query would run for minutes; the fixture sees that it is gone."""

    def stop(stage: str, done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    statement = "SELECT g % 600 AS a, g % 7 AS b, 5 AS c FROM generate_series(1, 300000) AS g"
    if most_scans == AS_THEY_COME:
        slowly = "generate_series(1, 60000) AS g, LATERAL (SELECT pg_sleep(0.01 * sign(g))) AS slept"
        statement += f" UNION ALL SELECT 1, 1, 1 FROM {slowly}"
    with pytest.raises(KeyboardInterrupt):
        engine_of(statement, most_scans).count(request_for(LARGE, PAIRS), stop)


# Nothing is quoted


def fails_with_canaries(title: str) -> str:
    """Queries that make the server quote a record, in an error or a notice."""
    table = quoted(new_table({"a": ("text", [WORD]), "b": ("integer", [NUMBER])}))
    return {
        "cast": f"SELECT a, CAST(a AS INT4) AS b FROM {table}",
        "range": f"SELECT a, CAST(b AS INT2) AS b FROM {table}",
        "exception": f"SELECT a, cries(a) AS b FROM {table}",
        "notice": f"SELECT a, whispers(a) AS b FROM {table}",
        "index": f"SELECT a, (ARRAY[1])[CAST(a AS INT4)] AS b FROM {table}",
        "policy": f"SELECT * FROM {table}",
    }[title]


@pytest.mark.parametrize("most_scans", [BY_BLOCKS, AS_THEY_COME])
@pytest.mark.parametrize("title", ["cast", "range", "exception", "notice", "index", "policy"])
def test_no_record_is_quoted(title: str, most_scans: int, running: Server, surroundings: Surroundings) -> None:
    body = "'BEGIN RAISE {level} ''%'', a USING DETAIL = a, HINT = a; RETURN 5; END'"
    run_on_server(
        *(
            f"CREATE OR REPLACE FUNCTION {name}(a TEXT) RETURNS INT LANGUAGE plpgsql AS {body.format(level=level)}"
            for name, level in (("cries", "EXCEPTION"), ("whispers", "WARNING"))
        )
    )
    request = request_for([Attribute("a", values=["x"], other="category"), Attribute("b", size=2)])
    engine = engine_of(fails_with_canaries(title), most_scans)
    engine.prepare(request)
    with pytest.raises(DataError) as caught:
        engine.count(request)
    assert_no_canary(everything_said(caught.value) + surroundings.said() + repr(engine))
    assert list(chain(caught.value)) == [caught.value]


def test_duckdb_quotes_no_record_either(tmp_path: Path, surroundings: Surroundings) -> None:
    url, _, _ = duckdb_sql({"a": ("text", [WORD]), "b": ("integer", [NUMBER])}, tmp_path)
    request = request_for([Attribute("a", values=["x"], other="category"), Attribute("b", size=2)])
    for query in ("SELECT a, CAST(a AS INT4) AS b FROM people", "SELECT a, error(a)::INT4 AS b FROM people"):
        engine = engine_for(url, None, query)
        engine.prepare(request)
        with pytest.raises(DataError) as caught:
            engine.count(request)
        assert_no_canary(everything_said(caught.value) + surroundings.said())
        assert list(chain(caught.value)) == [caught.value]


# Types and settings of the server


def test_types_that_are_coded(running: Server) -> None:
    run_on_server(
        "DROP TABLE IF EXISTS typed",
        "DROP DOMAIN IF EXISTS grade",
        "DROP TYPE IF EXISTS mood",
        "CREATE TYPE mood AS ENUM ('sad', 'Glad')",
        "CREATE DOMAIN grade AS NUMERIC CHECK (VALUE > -5)",
        "CREATE TABLE typed (padded CHAR(5), short VARCHAR(9), title NAME, mood mood, id UUID, grade grade, "
        "ratio FLOAT4, small INT2, day DATE, amount NUMERIC, yes BOOLEAN)",
        "INSERT INTO typed VALUES "
        "('ab', ' ab ', 'n', 'Glad', '0A000000-0000-0000-0000-00000000000b', 3.00, 0.1, 1, '2024-02-29', 'NaN', true), "
        "('', 'ab', 'N', 'sad', '0a000000-0000-0000-0000-00000000000c', 1.5, 2, 0, '1999-12-31', 'Infinity', false), "
        "('  ', '', 'n', NULL, NULL, NULL, 'NaN', NULL, NULL, '-Infinity', NULL), "
        "('abcde', 'AB', 'n', 'sad', NULL, 'NaN', '-Infinity', -7, '0044-03-15 BC', 1e400, NULL), "
        "('ab   ', 'ab', 'n', 'sad', NULL, 4, 16777216, 1, 'infinity', -1e-400, NULL), "
        "('ab', 'ab', 'n', 'sad', NULL, 1e30, 2, 1, NULL, 7.5, NULL)",
    )
    loose: dict[str, Any] = {"missing": "category", "other": "category"}
    declared: dict[str, tuple[dict[str, Any], list[int]]] = {
        "padded": ({"values": ["ab", "ab   "]}, [3, 0, 1, 2]),
        "short": ({"values": ["ab", " ab "]}, [3, 1, 1, 1]),
        "title": ({"values": ["n"]}, [5, 1, 0]),
        "mood": ({"values": ["Glad", "sad", "glad"]}, [1, 4, 0, 0, 1]),
        "id": ({"values": ["0a000000-0000-0000-0000-00000000000b"]}, [1, 1, 4]),
        "grade": ({"values": [3, 4]}, [1, 1, 2, 2]),
        "ratio": ({"values": [2, 16777216]}, [2, 1, 2, 1]),
        "small": ({"size": 2}, [1, 3, 1, 1]),
        "day": ({"values": ["2024-02-29", "1999-12-31"]}, [1, 1, 2, 2]),
        "yes": ({"values": [True, False]}, [1, 1, 0, 4]),
        "amount": ({"bins": [-1, 0, 7], "underflow": "category", "overflow": "category"}, [1, 0, 1, 3, 0, 1]),
    }
    attributes = [Attribute(name, **how, **loose) for name, (how, _) in declared.items()]
    found = prepared_count((running.url(), "typed", None), request_for(attributes))
    counts = {name: found.for_the_gate((name,)).tolist() for name in declared}
    assert counts == {name: expected for name, (_, expected) in declared.items()}


TYPES_NOT_CODED = [
    "TIME", "INTERVAL", "INT4[]", "TEXT[]", "JSON", "JSONB", "BYTEA", "MONEY", "OID", "XML",
    "INET", "POINT", "BIT(3)", "INT4RANGE", "TSVECTOR", "pg_class",
]  # fmt: skip


def test_types_that_are_not_coded_are_refused_before_the_charge(running: Server) -> None:
    engine = engine_for(
        running.url(), None, "SELECT " + ", ".join(f"NULL::{t} AS {quoted(t)}" for t in TYPES_NOT_CODED)
    )
    for kind in TYPES_NOT_CODED:
        schema = [
            Attribute(kind, size=2, other="category"),
            *(Attribute(t, size=2) for t in TYPES_NOT_CODED if t != kind),
        ]
        said = refusal(partial(engine.prepare, request_for(schema, [(kind,)])))
        assert said.endswith(f"column {kind!r}: expected text, numbers, booleans or dates in it")


SETTINGS = {
    "standard_conforming_strings": "off", "client_encoding": "LATIN1", "timezone": "Asia/Tokyo",
    "extra_float_digits": "-15", "bytea_output": "escape", "intervalstyle": "sql_standard", "backslash_quote": "on",
    "escape_string_warning": "off", "default_transaction_isolation": "read committed", "quote_all_identifiers": "on",
    "array_nulls": "off", "enable_hashagg": "off", "xmloption": "document",
}  # fmt: skip


@pytest.fixture
def odd(running: Server) -> str:
    """The URL of a user with other settings than most."""
    run_on_server(
        "DROP ROLE IF EXISTS odd",
        "CREATE ROLE odd LOGIN IN ROLE pg_read_all_data",
        *(f"ALTER ROLE odd SET {name} = '{value}'" for name, value in SETTINGS.items()),
        "ALTER ROLE odd SET datestyle = 'German', 'DMY'",
        "ALTER ROLE odd SET search_path = pg_temp, public",
    )
    return running.url("odd", password=None)


def test_settings_of_the_server_make_no_difference(running: Server, odd: str) -> None:
    words = ["a\\b", "\\'", "é", "λ", "$1"]
    columns = {
        "word": ("text", [*words, "a\\\\b", "E"]),
        "day": ("date", [None, *[np.datetime64(f"2024-01-0{day}").item() for day in range(1, 7)]]),
        "ratio": ("float", [0.1, 0.3, 0.30000000000000004, 1e22, float("nan"), 2.0, -0.0]),
        "amount": ("decimal", [Decimal("0.1"), Decimal("17.99999999999999999999"), None, *map(Decimal, (18, 3, 2, 1))]),
    }
    loose: dict[str, Any] = {"missing": "category", "other": "category"}
    edges: dict[str, Any] = {"bins": ["0", "0.1", "0.3", "18"], "overflow": "category", "underflow": "category"}
    attributes = [
        Attribute("word", values=words, **loose),
        Attribute("day", values=["2024-01-02", "2024-01-05"], **loose),
        Attribute("ratio", **edges, **loose),
        Attribute("amount", **edges, **loose),
    ]
    table = new_table(columns)
    for person in (None, "word"):
        request = request_for(attributes, person=person)
        expected = prepared_count((arrow_table(columns),), request)
        for url in (running.url(), odd):
            found = prepared_count((url, table, None), request)
            for names in request.tables:
                assert np.array_equal(found.for_the_gate(names), expected.for_the_gate(names))


def test_the_settings_are_really_odd(odd: str) -> None:
    """The test above would mean nothing if they were not in force."""
    with psycopg.connect(odd) as connection:
        assert connection.execute("SELECT CAST(DATE '2024-01-02' AS TEXT), '\\\\'").fetchone() == ("02.01.2024", "\\")
