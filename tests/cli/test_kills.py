"""kill -9 of a whole release, at every step and at any moment: every release is accounted for, no file is missing.

PRIVCUBE_KILLS says how many random moments are tried (24 here, more in `make audit`): a quarter each for whole releases
and for charges alone (tests/ledger), with ledgers in files and in PostgreSQL. Of whole releases at most 500 each are
killed: one takes as long as many charges, which then make up the number.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from factory_postgres import server

Kill = Callable[..., Any]

KILLS = min(int(os.environ.get("PRIVCUBE_KILLS", "24")) // 4, 500)
PUBLISHED = [
    ("ledger", "commit", "after"),
    ("pipeline", "_rename", "before"),
    ("pipeline", "_rename", "after"),
    ("ledger", "publish", "before"),
    ("ledger", "publish", "after"),
]
UNCHARGED = [
    ("engine", "count", "before"),
    ("engine", "count", "after"),
    ("ledger", "charge", "before"),
    ("pipeline", "measure", "before"),
]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.xdist_group("postgres"))])
def kill(request: pytest.FixtureRequest, ready: Path) -> Kill:
    """Run a function of killing.py on a folder that is ready for a release, with its ledger in a file or a database."""
    if request.param == "postgresql":
        name = f"kills_{os.getpid()}_{request.node.name.partition('[')[0][-40:]}"
        with server().connect() as connection:
            connection.execute(f"CREATE DATABASE {name}")
        spec = ready / "spec.toml"
        url = server().url("postgres", None, name)
        spec.write_text(spec.read_text(encoding="utf-8").replace("ledger.db", url), encoding="utf-8")

    def run(function: str, *arguments: object) -> Any:
        script = Path(__file__).with_name("killing.py")
        command = [sys.executable, "-W", "error", script, function, json.dumps([str(ready), *arguments])]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return run


def test_a_kill_at_every_step(kill: Kill) -> None:
    found = kill("at_every_step")
    assert len(found) == 16
    for *step, outcome in found:
        charged = "published" if tuple(step) in PUBLISHED else "abandoned"
        assert outcome == ("nothing" if tuple(step) in UNCHARGED else charged), step


def test_kills_at_any_moment(kill: Kill) -> None:
    found = kill("at_any_moment", KILLS)
    assert found.get("killed", 0) + found.get("too late", 0) == KILLS
    assert found.get("killed", 0) > 0
