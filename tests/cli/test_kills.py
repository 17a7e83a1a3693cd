"""kill -9 of a whole release, at every step and at any moment: every release is accounted for, no file is missing.

PRIVCUBE_KILLS says how many random moments are tried (8 here, more in `make audit`): a quarter each for whole releases
and for charges alone (tests/ledger), with ledgers in files and in PostgreSQL. Of whole releases at most 500 each are
killed: one takes as long as many charges, which then make up the number. Here, steps that have nothing to do with the
ledger are killed with one in a file only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from factory_postgres import server

KILLS = min(int(os.environ.get("PRIVCUBE_KILLS", "8")) // 4, 500)
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
EVERYBODY = ["engine", "ledger", "noise", "pipeline"]
STEPS = {"engine": 2, "ledger": 6, "noise": 2, "pipeline": 6}


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgresql", marks=pytest.mark.xdist_group("postgres"))])
def test_kills_at_every_step_and_at_any_moment(store: str, ready: Path) -> None:
    """On a folder that is ready for a release, with its ledger in a file or a database."""
    owners = EVERYBODY
    if store == "postgresql":
        name = f"kills_{os.getpid()}"
        with server().connect() as connection:
            connection.execute(f"CREATE DATABASE {name}")
        spec = ready / "spec.toml"
        url = server().url("postgres", None, name)
        spec.write_text(spec.read_text(encoding="utf-8").replace("ledger.db", url), encoding="utf-8")
        owners = EVERYBODY if KILLS > 3 else ["ledger"]
    script = Path(__file__).with_name("killing.py")
    asked = json.dumps([str(ready), owners, KILLS])
    command = [sys.executable, "-W", "error", script, "at_steps_and_moments", asked]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    steps, moments = json.loads(result.stdout)
    assert len(steps) == sum(STEPS[owner] for owner in owners)
    for *step, outcome in steps:
        charged = "published" if tuple(step) in PUBLISHED else "abandoned"
        assert outcome == ("nothing" if tuple(step) in UNCHARGED else charged), step
    assert moments.get("killed", 0) + moments.get("too late", 0) == KILLS
    assert moments.get("killed", 0) > 0
