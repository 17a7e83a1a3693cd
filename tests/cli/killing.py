"""Whole releases that are killed, each in a child of one process that has loaded everything. Run by test_kills.py.

A child costs what a release costs, not what it takes to start Python. Nothing is run before forking, only loaded:
libraries that are run start threads, and a child would not have them. What is asserted here fails the test.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psycopg

import privcube.pipeline as pipeline
from privcube import Spec
from privcube.errors import LedgerError
from privcube.model.documents.spec import is_url
from privcube.pipeline import ledger_status, recover_ledger
from privcube.released.artifact.verification import verify
from privcube.sensitive.engines.local import LocalEngine
from privcube.sensitive.gate import SystemNoise
from privcube.sensitive.ledger import DurableLedger

MEMORY: Final = "/dev/shm"  # killed processes do not care, and syncs cost nothing
LOCK: Final = int.from_bytes(b"privcube")
STEPS: Final = [
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


def in_child(work: Callable[[], object]) -> tuple[int, Any]:
    """Run something in a child; how it ended (minus the signal that killed it), and what it returned, by JSON."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            os.close(reading)
            os.write(writing, json.dumps(work()).encode())
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as lines:
        said = lines.read()
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return ended, json.loads(said) if ended == 0 else None


def releases(folder: Path) -> None:
    """Publish the release of a folder."""
    os.chdir(folder)
    pipeline.publish(Spec.read("spec.toml"))


def check(folder: Path) -> str:
    """What recovery makes of the release; the artifact is there if and only if the ledger says it is published."""
    spec = Spec.read(folder / "spec.toml")
    try:
        before = ledger_status(spec, folder=folder)
    except LedgerError as problem:
        if "a release creates it" not in str(problem):
            raise
        assert not (folder / "out").exists()
        return "nothing"
    if (folder / "out").exists():
        assert any(entry.state in ("committed", "published") for entry in before.entries)
    recover_ledger(spec, folder=folder)
    after = ledger_status(spec, folder=folder)
    assert after.remaining == before.remaining == after.total.capacity - sum(entry.cost for entry in after.entries)
    states = [entry.state for entry in after.entries]
    assert (folder / "out").is_dir() == ("published" in states)
    if "published" in states:
        assert all(found.passed for found in verify(folder / "out"))
    assert set(states) <= {"published", "abandoned"}
    return states[-1] if states else "nothing"


def _loaded(folder: Path) -> list[str]:
    """All modules that a release and its check load."""
    releases(folder)
    check(folder)
    return sorted(sys.modules)


class Scene:
    """A folder for every release that is killed, with records and spec, and its ledger, empty."""

    def __init__(self, template: str) -> None:
        self._template = Path(template)
        ledger = Spec.read(self._template / "spec.toml").ledger
        assert ledger is not None
        self._database = ledger.path if is_url(ledger.path) else None
        for name in self._outcome(_loaded):
            importlib.import_module(name)
        threads = [(each / "comm").read_text().strip() for each in Path("/proc/self/task").iterdir()]
        assert set(threads[1:]) <= {"jemalloc_bg_thd"}, threads  # this one knows how to be forked
        start = time.perf_counter()
        self._outcome(releases)
        self.seconds = time.perf_counter() - start

    def _outcome(self, work: Callable[[Path], object]) -> Any:
        folder = self._new_folder()
        ended, said = in_child(lambda: work(folder))
        assert ended == 0
        self._remove(folder)
        return said

    def killed(self, work: Callable[[Path], object]) -> tuple[bool, str]:
        """Run a release that may be killed; whether it was, and what recovery made of it."""
        folder = self._new_folder()
        ended, _ = in_child(lambda: work(folder))
        assert ended in (0, -signal.SIGKILL, -signal.SIGALRM), ended
        self._wait()
        checked, found = in_child(lambda: check(folder))
        assert checked == 0
        assert ended != 0 or found == "published"
        self._remove(folder)
        return ended != 0, found

    def _new_folder(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="kills-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
        for name in ("spec.toml", "people.csv"):
            shutil.copy(self._template / name, folder)
        return folder

    def _wait(self) -> None:
        """Until the server has finished what a client asked of it before it was killed: it then held the lock."""
        if self._database is not None:
            with psycopg.connect(self._database) as connection:
                connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])

    def _remove(self, folder: Path) -> None:
        shutil.rmtree(folder)
        if self._database is not None:
            with psycopg.connect(self._database) as connection:
                connection.execute("DROP TABLE IF EXISTS privcube_ledger_events")


def at_steps_and_moments(template: str, owners: list[str], kills: int) -> tuple[object, object]:
    """Both, in one process that has loaded everything."""
    scene = Scene(template)
    return at_every_step(scene, owners), at_any_moment(scene, kills)


def at_every_step(scene: Scene, owners: list[str]) -> list[tuple[str, str, str, str]]:
    """What recovery makes of a release that is killed before or after each of its steps, of those with these owners."""
    found = []
    for owner, name, moment in STEPS:
        if owner not in owners:
            continue

        def work(folder: Path, owner: str = owner, name: str = name, moment: str = moment) -> None:
            places: dict[str, Any] = {"ledger": DurableLedger, "engine": LocalEngine, "noise": SystemNoise}
            place = places.get(owner, pipeline)
            original = getattr(place, name)

            def killed(*arguments: Any, **named: Any) -> None:
                if moment == "after":
                    original(*arguments, **named)
                os.kill(os.getpid(), signal.SIGKILL)

            setattr(place, name, killed)
            releases(folder)

        was_killed, outcome = scene.killed(work)
        assert was_killed
        found.append((owner, name, moment, outcome))
    return found


def at_any_moment(scene: Scene, kills: int) -> dict[str, int]:
    """What recovery makes of releases that are killed at moments spread over the time that one takes, and after it.

    The alarm is not caught: the system ends the process on the spot, as kill -9 does.
    """
    outcomes: Counter[str] = Counter()
    for kill in range(kills):
        moment = scene.seconds * (0.01 + 1.1 * kill / kills)

        def work(folder: Path, moment: float = moment) -> None:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, moment)
            releases(folder)
            signal.setitimer(signal.ITIMER_REAL, 0)

        was_killed, outcome = scene.killed(work)
        outcomes["killed" if was_killed else "too late"] += 1
        outcomes[outcome] += 1
    return dict(outcomes)


if __name__ == "__main__":
    result = globals()[sys.argv[1]](*json.loads(sys.argv[2]))
    sys.stdout.write(json.dumps(result))
