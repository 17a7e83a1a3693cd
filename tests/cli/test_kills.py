"""kill -9 of a whole release, at every step and at any moment: every release is accounted for, no file is missing.

PRIVCUBE_KILLS says how many random moments are tried (4 here, 300 in `make audit`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from privcube import Spec
from privcube.pipeline import ledger_status, recover_ledger
from privcube.released.artifact.verification import verify

KILLS = int(os.environ.get("PRIVCUBE_KILLS", "4"))
DRIVER = """
import os, signal, sys
from pathlib import Path
import privcube.pipeline as pipeline
from privcube import Spec
from privcube.sensitive.engines.local import LocalEngine
from privcube.sensitive.gate import SystemNoise
from privcube.sensitive.ledger import DurableLedger

owner, name, moment = sys.argv[1:4]
place = {"ledger": DurableLedger, "engine": LocalEngine, "noise": SystemNoise}.get(owner, pipeline)
original = getattr(place, name)

def killed(*arguments, **named):
    if moment == "after":
        original(*arguments, **named)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(place, name, killed)
pipeline.publish(Spec.read("spec.toml"))
"""
STEPS = [
    (owner, name, moment)
    for owner, name in (
        ("engine", "count"),
        ("ledger", "charge"),
        ("noise", "laplace"),
        ("pipeline", "measure"),
        ("pipeline", "stage"),
        ("ledger", "commit"),
        ("pipeline", "_rename"),
        ("ledger", "publish"),
    )
    for moment in ("before", "after")
]


def check(folder: Path) -> str:
    """What recovery makes of the release; the artifact is there if and only if the ledger says it is published."""
    spec = Spec.read(folder / "spec.toml")
    if not (folder / "ledger.db").exists():
        assert not (folder / "out").exists()
        return "nothing"
    before = ledger_status(spec, folder=folder)
    if (folder / "out").exists():
        assert any(entry.state in ("committed", "published") for entry in before.entries)
    recover_ledger(spec, folder=folder)
    after = ledger_status(spec, folder=folder)
    assert after.remaining == before.remaining
    states = [entry.state for entry in after.entries]
    assert (folder / "out").is_dir() == ("published" in states)
    if "published" in states:
        assert all(found.passed for found in verify(folder / "out"))
    assert set(states) <= {"published", "abandoned"}
    return states[-1] if states else "nothing"


@pytest.mark.parametrize(("owner", "name", "moment"), STEPS)
def test_a_kill_at_every_step(ready: Path, owner: str, name: str, moment: str) -> None:
    ended = subprocess.run([sys.executable, "-c", DRIVER, owner, name, moment], cwd=ready, check=False)
    assert ended.returncode == -signal.SIGKILL
    committed = [("ledger", "commit", "after"), ("pipeline", "_rename", "before"), ("pipeline", "_rename", "after")]
    published = (owner, name, moment) in [*committed, ("ledger", "publish", "before"), ("ledger", "publish", "after")]
    before = [("engine", "count", "before"), ("engine", "count", "after"), ("ledger", "charge", "before")]
    uncharged = (owner, name, moment) in [*before, ("pipeline", "measure", "before")]
    assert check(ready) == ("published" if published else "nothing" if uncharged else "abandoned")


def test_kills_at_any_moment(ready: Path, program: Path) -> None:
    """The moments are spread over the time that a release takes, from its start to after its end."""
    start = time.perf_counter()
    subprocess.run([program, "release", "spec.toml"], cwd=ready, check=True, capture_output=True)
    whole = time.perf_counter() - start
    assert check(ready) == "published"
    for kill in range(KILLS):
        folder = ready / f"run{kill}"
        folder.mkdir()
        for name in ("spec.toml", "people.csv"):
            (folder / name).write_bytes((ready / name).read_bytes())
        process = subprocess.Popen(
            [program, "release", "spec.toml"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(whole * (0.3 + 0.8 * kill / max(KILLS - 1, 1)))
        process.kill()
        process.wait()
        check(folder)
