"""Sources in databases: a real PostgreSQL server, started once per test process, and DuckDB files read through SQL.

As PostgreSQL does not run as root, root's tests run it as nobody, and a copy of it where it comes from a wheel,
whatever the permissions of the checkout are. A shell waits beside the server and ends it when the test process is gone,
however that happens.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import psycopg
from factories import Columns, Source, arrow_table
from postgresql_programs import in_wheel, of_system, wheel

PASSWORD = "s3cret/p@ss"
TYPES = {
    "text": "TEXT", "integer": "INT8", "float": "FLOAT8", "boolean": "BOOLEAN", "decimal": "NUMERIC", "date": "DATE",
    "timestamp": "TIMESTAMP", "instant": "TIMESTAMPTZ",
}  # fmt: skip
OPTIONS = ["--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync", "--no-instructions"]
CLEAN_UP = 'read -r line; kill -INT "$1"; while kill -0 "$1" 2> /dev/null; do sleep 0.05; done; rm -rf "$2"'
_numbers = count()


class Server:
    """A PostgreSQL server on a socket in a folder of its own; `keeper` needs the password, others none."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="privcube-postgres-"))
        self.data = self.folder / "data"
        self.data.mkdir()
        programs, as_user = self._programs()
        command: list[str | Path] = [programs / "initdb", "-D", self.data, "-U", "postgres", *OPTIONS]
        subprocess.run(command, cwd=self.data, check=True, capture_output=True, timeout=600, **as_user)
        (self.data / "pg_hba.conf").write_text("local all keeper scram-sha-256\nlocal all all trust\n")
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
        command = [programs / "postgres", "-D", self.data, "-k", self.data, "-h", "", "-F"]
        self._process = subprocess.Popen(command, cwd=self.data, **quiet, **as_user)
        waiting: list[str | Path] = ["/bin/sh", "-c", CLEAN_UP, "sh", str(self._process.pid), self.folder]
        self._cleaner = subprocess.Popen(waiting, stdin=subprocess.PIPE, **quiet)
        atexit.register(self.stop)
        self._await()
        with self.connect() as connection:
            connection.execute(f"CREATE ROLE keeper LOGIN PASSWORD '{PASSWORD}'")
            connection.execute("GRANT pg_read_all_data TO keeper")

    def url(self, user: str = "keeper", password: str | None = PASSWORD, database: str = "postgres") -> str:
        """Where the server is, for a user."""
        login = user if password is None else f"{user}:{quote(password, safe='')}"
        return f"postgresql://{login}@/{quote(database)}?host={quote(str(self.data), safe='')}"

    def connect(self, database: str = "postgres") -> psycopg.Connection:
        """A connection that may do anything."""
        return psycopg.connect(self.url("postgres", None, database), autocommit=True)

    def stop(self) -> None:
        """End the server and remove its files."""
        assert self._cleaner.stdin is not None
        self._cleaner.stdin.close()
        self._process.wait(600)
        self._cleaner.wait(600)

    def _programs(self) -> tuple[Path, dict[str, Any]]:
        packages = wheel()
        as_user: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self.folder.chmod(0o755)
            os.chown(self.data, nobody.pw_uid, nobody.pw_gid)
            as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            if packages is not None:
                for name in ("pgserver", "pgserver.libs"):
                    if (packages / name).exists():
                        shutil.copytree(packages / name, self.folder / name)
                packages = self.folder
        return of_system() if packages is None else in_wheel(packages), as_user

    def _await(self) -> None:
        while True:
            try:
                self.connect().close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None, "PostgreSQL did not start"
                time.sleep(0.02)


@cache
def server() -> Server:
    """The server of this process; starting it takes a second."""
    return Server()


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def new_table(columns: Columns) -> str:
    """A table of the server with these columns, under a name of its own."""
    name = f'people "{next(_numbers)}"; --'
    declared = ", ".join(f"{quoted(column)} {TYPES[kind]}" for column, (kind, _) in columns.items())
    with server().connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {quoted(name)} ({declared})")
        with cursor.copy(f"COPY {quoted(name)} FROM STDIN") as copy:
            for row in zip(*(values for _, values in columns.values()), strict=True):
                copy.write_row(row)
    return name


def postgresql_table(columns: Columns, folder: Path) -> Source:
    """A table."""
    return server().url(), new_table(columns), None


def postgresql_query(columns: Columns, folder: Path) -> Source:
    """A query, written as people do."""
    return server().url(), None, f"SELECT * FROM {quoted(new_table(columns))} -- of all; really\n;\n"


def duckdb_sql(columns: Columns, folder: Path) -> Source:
    """A table of a DuckDB file."""
    file = folder / f"people-{next(_numbers)}.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.register("given", arrow_table(columns))
        connection.execute("CREATE TABLE people AS SELECT * FROM given")
    return f"duckdb://{file}", "people", None


FACTORIES: dict[str, Callable[[Columns, Path], Source]] = {
    "postgresql table": postgresql_table,
    "postgresql query": postgresql_query,
    "duckdb sql": duckdb_sql,
}
