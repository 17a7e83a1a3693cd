"""Queries that try to do more than select records, on every engine that takes queries.

Each is refused with a fixed sentence, or its records are counted like any others. Afterward the table is as it was, no
file was written, and no word of a record or of another file was said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest
from canaries import WORD, Surroundings, assert_no_canary, everything_said
from factories import Columns, arrow_table
from factory_postgres import server
from holders import request_for

from privcube import Attribute
from privcube.errors import DataError
from privcube.sensitive.engine import Engine
from privcube.sensitive.sources import engine_for

RECORDS: Columns = {"a": ("text", ["x", "y", WORD]), "b": ("integer", [0, 1, 1])}
REQUEST = request_for([Attribute("a", values=["x", "y"], other="category"), Attribute("b", size=2)], [("a", "b")])
COUNTED = [[1, 0], [0, 1], [0, 1]]


@dataclass(frozen=True)
class Place:
    """A table `kept` with the records, which the user of the query owns, a way to ask, and a look at what is there."""

    ask: Callable[[str], Engine]
    contents: Callable[[], object]


def on_postgresql(folder: Path) -> Place:
    with server().connect() as connection:
        connection.execute("DROP TABLE IF EXISTS kept")
        connection.execute(f"CREATE TABLE kept AS VALUES ('x', 0), ('y', 1), ('{WORD}', 1)")
        connection.execute("ALTER TABLE kept RENAME column1 TO a")
        connection.execute("ALTER TABLE kept RENAME column2 TO b")
        connection.execute("ALTER TABLE kept OWNER TO keeper; GRANT CREATE ON SCHEMA public TO keeper")

    def contents() -> object:
        with server().connect() as connection:
            objects = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1"
            large = "SELECT oid FROM pg_largeobject_metadata"
            asked = ("SELECT * FROM kept ORDER BY 1", objects, large)
            return [connection.execute(query).fetchall() for query in asked]

    return Place(lambda query: engine_for(server().url(), None, query), contents)


def on_duckdb(folder: Path) -> Place:
    file = folder / "people.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.register("given", arrow_table(RECORDS))
        connection.execute("CREATE TABLE kept AS SELECT * FROM given; CREATE SEQUENCE turns")
    return Place(lambda query: engine_for(file, None, query), file.read_bytes)


def on_spark(folder: Path) -> Place:
    from factory_spark import make, spark_session

    catalog = spark_session().catalog
    if not catalog.tableExists("kept"):
        make(RECORDS, folder)[0].createOrReplaceTempView("kept")
    return Place(
        lambda query: engine_for("spark:", None, query),
        lambda: list(map(catalog.tableExists, ("kept", "taken"))),
    )


PLACES = {"postgresql": on_postgresql, "duckdb": on_duckdb, "spark": on_spark}

# In these, {folder} is a folder that is watched and {file} a file in it.
EVERYWHERE = {
    "nothing": " ; ",
    "a comment alone": "-- SELECT * FROM kept",
    "no SQL": "SELECT FROM WHERE",
    "a table that is not there": "SELECT * FROM not_there",
    "a column that is not there": "SELECT not_there, a, b FROM kept",
    "two statements": "SELECT * FROM kept; SELECT * FROM kept",
    "a statement behind a comment": "SELECT * FROM kept -- all\n; DROP TABLE kept",
    "a copy in disguise": "SELECT * FROM kept ); COPY (SELECT * FROM kept) TO '{folder}/leak.csv'; (SELECT * FROM kept",
    "out of the parenthesis": "SELECT * FROM kept) AS one, (SELECT 1 AS c",
    "out by a comment": "SELECT * FROM kept) AS asked --",
    "an open comment": "SELECT * FROM kept /* and the rest",
    "an open comment and a way out": "SELECT * FROM kept) AS asked /*",
    "an open quotation": "SELECT * FROM kept WHERE a = 'x",
    "an open name": 'SELECT * FROM kept WHERE "a',
    "an open dollar": "SELECT * FROM kept WHERE a = $$x",
    "a semicolon inside": "SELECT * FROM (SELECT * FROM kept;)",
    "a deletion": "DELETE FROM kept",
    "an insertion": "INSERT INTO kept SELECT * FROM kept",
    "an update": "UPDATE kept SET b = 0",
    "a deletion inside": "WITH gone AS (DELETE FROM kept RETURNING *) SELECT * FROM gone",
    "an insertion inside": "SELECT * FROM (INSERT INTO kept VALUES ('x', 0) RETURNING *) AS new",
    "a new table": "CREATE TABLE taken AS SELECT * FROM kept",
    "a new table by a selection": "SELECT * INTO taken FROM kept",
    "a new view": "CREATE VIEW taken AS SELECT * FROM kept",
    "no table any more": "DROP TABLE kept",
    "no view any more": "DROP VIEW kept",
    "a setting": "SET x = 1",
    "an explanation that runs": "EXPLAIN ANALYZE SELECT * FROM kept",
    "a copy": "COPY kept TO '{folder}/leak.csv'",
    "a prepared statement": "PREPARE later AS SELECT * FROM kept",
    "a zero byte": "SELECT * FROM kept \0; DROP TABLE kept",
    "a surrogate": "SELECT * FROM kept WHERE a = '\ud800'",
}
SOME_PLACE = {
    "postgresql": {
        "a file": "SELECT pg_read_file('{file}') AS a, 0 AS b",
        "a folder": "SELECT pg_ls_dir('{folder}') AS a, 0 AS b",
        "a large object": "SELECT a, lo_from_bytea(0, a::bytea)::int AS b FROM kept",
        "a large object of a file": "SELECT lo_import('{file}')::text AS a, 0 AS b",
        "a file of a large object": "SELECT a, lo_export(1, '{folder}/leak') AS b FROM kept",
        "another connection": "SELECT * FROM dblink('dbname=postgres', 'DROP TABLE kept') AS t(a text, b int)",
        "a change as text": "SELECT query_to_xml('DELETE FROM kept', true, true, '')::text AS a, 0 AS b",
        "no longer for reading only": "SELECT a, b FROM kept, set_config('transaction_read_only', 'off', true)",
        "a program": "COPY kept TO PROGRAM 'cat > {folder}/leak'",
        "a block of code": "DO $$ BEGIN DELETE FROM kept; END $$",
        "a call": "CALL no_such()",
        "locked rows": "SELECT * FROM kept FOR UPDATE",
        "a parameter": "SELECT a, $1::int AS b FROM kept",
        "the end of the transaction": "COMMIT",
        "a dollar quotation and a way out": "SELECT $a$x$a$ AS a, 0 AS b) AS asked; DROP TABLE kept; SELECT (1",
        "a notice": "NOTIFY channel, 'records'",
        "a merge": "MERGE INTO kept USING kept AS k ON true WHEN MATCHED THEN DELETE",
    },
    "duckdb": {
        "a text file": "SELECT content AS a, 0 AS b FROM read_text('{file}')",
        "a file of the system": "SELECT column0 AS a, 0 AS b FROM read_csv('/etc/passwd')",
        "a file by its name": "SELECT 'x' AS a, 0 AS b FROM '{file}'",
        "a guess at a file": "SELECT Delimiter AS a, 0 AS b FROM sniff_csv('{file}')",
        "a folder": "SELECT file AS a, 0 AS b FROM glob('{folder}/*')",
        "text that is a query": "SELECT * FROM query('SELECT content AS a, 0 AS b FROM read_text(''{file}'')')",
        "text that is a copy": "SELECT * FROM query('COPY kept TO ''{folder}/leak.csv''')",
        "another database": "ATTACH '{folder}/leak.duckdb' AS leak",
        "an extension": "INSTALL httpfs",
        "a loaded extension": "LOAD httpfs",
        "all of it": "EXPORT DATABASE '{folder}/leak'",
        "columns made of data": "PIVOT kept ON a",
        "columns made of data, inside": "SELECT * FROM (PIVOT kept ON a USING count(*)) AS p",
        "columns made of data, in front": "WITH p AS (PIVOT kept ON a) SELECT * FROM p",
        "columns made of data, in SQL's words": "SELECT * FROM kept PIVOT (count(*) FOR a IN (SELECT a FROM kept))",
        "a variable": "SET VARIABLE a = (SELECT max(a) FROM kept)",
        "a pragma": "PRAGMA database_size",
        "a call": "CALL enable_logging(storage := 'file', storage_path := '{folder}/leak')",
        "a log": "SELECT 'x' AS a, 0 AS b FROM enable_logging(storage := 'file', storage_path := '{folder}/leak')",
        "a profile": "SET profiling_output = '{folder}/leak'",
        "a turn": "SELECT a, nextval('turns') AS b FROM kept",
        "a checkpoint": "CHECKPOINT",
        "a dollar quotation and a way out": "SELECT $$x$$ AS a, 0 AS b) AS asked; DROP TABLE kept; SELECT (1",
        "a merge": "MERGE INTO kept USING kept AS k ON true WHEN MATCHED THEN DELETE",
    },
    "spark": {
        "a script": "SELECT TRANSFORM(a, b) USING 'cat' AS (a STRING, b INT) FROM kept",
        "a script inside": "SELECT * FROM (SELECT TRANSFORM(a, b) USING 'cat' AS (a STRING, b INT) FROM kept) AS t",
        "a script in a condition": "SELECT * FROM kept WHERE a IN (SELECT TRANSFORM(a) USING 'cat' AS (a) FROM kept)",
        "a method of Java": "SELECT reflect('java.lang.System', 'setProperty', 'leak', a) AS a, b FROM kept",
        "a method of Java, by its other name": "SELECT java_method('java.lang.System', 'getenv', a) AS a, b FROM kept",
        "a method of Java that may fail": "SELECT try_reflect('java.lang.System', 'getenv', a) AS a, b FROM kept",
        "a method of Java in a condition": "SELECT * FROM kept WHERE EXISTS (SELECT 1 FROM kept AS k WHERE "
        "reflect('java.lang.System', 'setProperty', 'leak', k.a) IS NULL)",
        "a method of Java in front": "WITH t AS (SELECT java_method('java.lang.System', 'getenv', a) AS a, b FROM "
        "kept) SELECT * FROM t",
        "a method of Java among values": "SELECT * FROM VALUES (reflect('java.lang.System', 'gc'), 0) AS t(a, b)",
        "a method of Java, put together": "SELECT IDENTIFIER('refl' || 'ect')('java.lang.System', 'getenv', a) AS a, 0 "
        "AS b FROM kept",
        "a folder": "INSERT OVERWRITE DIRECTORY '{folder}/leak' USING csv SELECT * FROM kept",
        "a jar": "ADD JAR '{file}'",
        "a function": "CREATE TEMPORARY FUNCTION f AS 'no.such.Class'",
        "a cache": "CACHE TABLE taken AS SELECT * FROM kept",
        "columns made of data": "SELECT * FROM kept PIVOT (count(*) FOR a IN (SELECT a FROM kept))",
        "text that is a statement": "EXECUTE IMMEDIATE 'DROP VIEW kept'",
        "a program of statements": "BEGIN DROP VIEW kept; SELECT 1; END",
    },
}  # fmt: skip
FAIR_EVERYWHERE = {
    "comments": "SELECT /* ); DROP TABLE kept; ( */ a, -- ); (\n b FROM kept",
    "a semicolon and a comment at the end": "SELECT * FROM kept ; \n ; -- ) AS asked; DROP TABLE kept",
    "text that looks like SQL": "SELECT a, b FROM kept WHERE a <> '); DROP TABLE kept; --'",
    "a query in front": "WITH t AS (SELECT a, b FROM kept) SELECT a, b FROM t",
    "parentheses": "((SELECT a, b FROM kept))",
    "a union": "SELECT a, b FROM kept WHERE b = 0 UNION ALL (SELECT a, b FROM kept WHERE b = 1)",
}
FAIR_SOMEWHERE = {
    "postgresql": {
        "dollar quotations": "SELECT a, b FROM kept WHERE a <> $leak$); DROP TABLE kept; --$leak$",
        "a function with a name like theirs": "SELECT a, b FROM (SELECT a, b, 1 AS pg_read_file FROM kept) AS t",
    },
    "duckdb": {
        "dollar quotations": "SELECT a, b FROM kept WHERE a <> $leak$); DROP TABLE kept; --$leak$",
        "all columns by a pattern": "SELECT COLUMNS(*) FROM kept",
        "text that is a query": "SELECT * FROM query('SELECT * FROM kept')",
        "text that is a table": "SELECT * FROM query_table('kept')",
        "a table first": "FROM kept",
    },
    "spark": {
        "a column with a name like theirs": "SELECT a, b FROM (SELECT a, b, 1 AS `reflect(x)`, "
        "'ScriptTransformation CallMethodViaReflection' AS c FROM kept)",
    },
}


def cases(everywhere: dict[str, str], somewhere: dict[str, dict[str, str]]) -> list[object]:
    return [
        pytest.param(place, query, id=f"{place}: {name}", marks=marks)
        for place in PLACES
        for marks in ([] if place == "duckdb" else [pytest.mark.xdist_group(place.replace("postgresql", "postgres"))],)
        for name, query in {**everywhere, **somewhere[place]}.items()
    ]


def counted(place: Place, query: str) -> list[list[int]]:
    engine = place.ask(query)
    engine.prepare(REQUEST)
    counts: list[list[int]] = engine.count(REQUEST).for_the_gate(("a", "b")).tolist()
    return counts


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Path]:
    """A folder in which a file must stay alone."""
    folder = tmp_path / "watched"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)  # PostgreSQL may run as another user
    (folder / "secret.csv").write_text(f"a,b\n{WORD},0\n")
    yield folder
    assert [file.name for file in folder.rglob("*")] == ["secret.csv"]


@pytest.mark.parametrize(("place", "query"), cases(EVERYWHERE, SOME_PLACE))
def test_a_hostile_query_is_refused_and_changes_nothing(
    place: str, query: str, tmp_path: Path, watched: Path, surroundings: Surroundings
) -> None:
    made = PLACES[place](tmp_path)
    before = made.contents()
    hostile = query.replace("{folder}", str(watched)).replace("{file}", str(watched / "secret.csv"))
    with pytest.raises(DataError) as caught:
        counted(made, hostile)
    assert made.contents() == before
    # Before version 16 of PostgreSQL, a transaction for reading only may make large objects; it is undone at its end.
    undone = ("column 'b'",) if "lo_from_bytea" in query else ()
    assert str(caught.value).startswith(("query of ", "Spark query: ", "Spark: ", *undone))
    assert_no_canary(everything_said(caught.value) + surroundings.said())


@pytest.mark.parametrize(("place", "query"), cases(FAIR_EVERYWHERE, FAIR_SOMEWHERE))
def test_a_fair_query_that_looks_hostile_is_counted(place: str, query: str, tmp_path: Path) -> None:
    assert counted(PLACES[place](tmp_path), query) == COUNTED
