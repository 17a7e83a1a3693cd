"""Where ledgers are kept in these tests: in files, and in a PostgreSQL server that is started for them."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

Tamper = Callable[..., None]
_NUMBERS = count()


def _quick_folder() -> Path:
    """A folder in memory if there is one: killed processes do not care, and syncs cost nothing."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="ledger-", dir=memory if os.access(memory, os.W_OK) else None))


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder that every user may look into."""
    made = _quick_folder()
    made.chmod(0o755)
    yield made
    made.chmod(0o755)
    shutil.rmtree(made)


@pytest.fixture(scope="session")
def _server() -> Iterator[tuple[str, Callable[[], None]]]:
    """A PostgreSQL server of our own: its URL, and a way to crash it and start it again."""
    found = importlib.util.find_spec("pgserver")
    assert found is not None, "pgserver is one of the development tools"
    assert found.origin is not None
    programs = Path(found.origin).parent / "pginstall" / "bin"
    home = _quick_folder()
    data = home / "data"
    other: dict[str, Any] = {}
    if os.geteuid() == 0:  # PostgreSQL does not run as root
        shutil.chown(home, "nobody")
        other = {"user": "nobody", "extra_groups": []}

    def run(program: str, *arguments: str) -> None:
        # Output goes to a file: a pipe would be kept open by the server.
        with (home / "output").open("ab") as output:
            subprocess.run(
                [programs / program, "-D", data, *arguments],
                cwd=home, check=True, timeout=600, stdout=output, stderr=output, **other,
            )  # fmt: skip

    run("initdb", "--auth=trust", "--encoding=utf8", "--username=postgres", "--no-sync")
    # Nothing that was not waited for is written soon, so that a crash loses it.
    options = f"-h '' -k {home} -c wal_writer_delay=10s"

    def start() -> None:
        run("pg_ctl", "--wait", "--log", str(home / "log"), "--options", options, "start")

    def stop() -> None:
        run("pg_ctl", "--wait", "--mode=immediate", "stop")

    def crash() -> None:
        stop()
        start()

    start()
    yield f"postgresql://postgres@/postgres?host={home}", crash
    stop()
    shutil.rmtree(home)


@pytest.fixture(scope="session")
def postgresql(_server: tuple[str, Callable[[], None]]) -> str:
    """The URL of a PostgreSQL server of our own."""
    return _server[0]


@pytest.fixture
def crash_server(_server: tuple[str, Callable[[], None]]) -> Callable[[], None]:
    """Stop the server at once, as a power cut would, and start it again."""
    return _server[1]


@pytest.fixture
def database(postgresql: str) -> str:
    """The URL of an empty database."""
    import psycopg

    name = f"test_{os.getpid()}_{next(_NUMBERS)}"
    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgresql.replace("/postgres?", f"/{name}?")


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
