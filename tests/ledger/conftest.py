"""Where ledgers are kept in these tests: in files, and in a PostgreSQL server that is started for them."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.ledger.postgresql_server import quick_folder, running

Tamper = Callable[..., None]
_NUMBERS = count()


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder that every user may look into."""
    made = quick_folder()
    made.chmod(0o755)
    yield made
    made.chmod(0o755)
    shutil.rmtree(made)


@pytest.fixture(scope="session")
def _server() -> Iterator[tuple[str, Callable[[], None]]]:
    """A PostgreSQL server of our own: its URL, and a way to crash it and start it again.

    `tools/mutants.py` has started one already, which is not to be crashed.
    """
    started = os.environ.get("PRIVCUBE_TEST_SERVER")
    if started:
        yield started, lambda: pytest.fail("a server that others use is not crashed")
    else:
        with running() as server:
            yield server


@pytest.fixture(scope="session")
def postgresql(_server: tuple[str, Callable[[], None]]) -> str:
    """The URL of a PostgreSQL server of our own."""
    return _server[0]


@pytest.fixture
def crash_server(_server: tuple[str, Callable[[], None]]) -> Callable[[], None]:
    """Stop the server at once, as a power cut would, and start it again."""
    return _server[1]


@pytest.fixture
def database(postgresql: str) -> Iterator[str]:
    """The URL of an empty database."""
    import psycopg

    name = f"test_{os.getpid()}_{next(_NUMBERS)}"
    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield postgresql.replace("/postgres?", f"/{name}?")
    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def location(request: pytest.FixtureRequest, folder: Path) -> str:
    """Where a ledger may be created: a file, and then a database."""
    if request.param == "sqlite":
        return str(folder / "ledger.db")
    return str(request.getfixturevalue("database"))


@pytest.fixture
def tamper(location: str) -> Tamper:
    """Run SQL on the tables behind the ledger's back."""

    def run(*statements: str) -> None:
        if location.startswith("postgresql"):
            import psycopg

            with psycopg.connect(location) as connection:
                for statement in statements:
                    connection.execute(statement)
        else:
            with closing(sqlite3.connect(location)) as file, file:
                for statement in statements:
                    file.execute(statement)

    return run


@pytest.fixture
def drive() -> Callable[..., Any]:
    """Run a function of driver.py in a Python of its own, which may fork and kill; what it returns."""

    def run(name: str, *arguments: object) -> Any:
        script = Path(__file__).with_name("driver.py")
        result = subprocess.run(
            [sys.executable, "-W", "error", script, name, json.dumps(arguments)],
            capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return run
