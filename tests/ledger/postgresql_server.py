"""A PostgreSQL server of our own, for tests of ledgers."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from postgresql_programs import in_wheel, of_system, wheel


def quick_folder() -> Path:
    """A folder in memory if there is one: killed processes do not care, and syncs cost nothing."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="ledger-", dir=memory if os.access(memory, os.W_OK) else None))


@contextmanager
def running() -> Iterator[tuple[str, Callable[[], None]]]:
    """A server: its URL, and a way to crash it and start it again."""
    packages = wheel()
    programs = of_system() if packages is None else in_wheel(packages)
    home = quick_folder()
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
    try:
        yield f"postgresql://postgres@/postgres?host={home}", crash
    finally:
        stop()
        shutil.rmtree(home)
