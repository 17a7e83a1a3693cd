"""Processes that race for a ledger, are killed, or run out of rights or room. Run by the fixture `drive`.

A Python of its own may fork, as it has one thread. What is asserted here fails the test that runs it.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sqlite3
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg  # before forking, so that children need not load it

from privcube import PureDP
from privcube.errors import GuaranteeError, LedgerError
from privcube.sensitive.ledger import DurableLedger, open_ledger

PLAN, ARTIFACT = "a" * 64, "b" * 64
TOTAL = PureDP(10**6)
_KILLS_PER_LEDGER = 50
_AT_ONCE = 5  # processes that charge one ledger while they are killed


def ledger_at(location: str, total: PureDP | None = TOTAL, dataset: str = "people.csv") -> DurableLedger:
    return open_ledger(location, dataset=dataset, total=total)


def forked(work: Callable[[Callable[[object], None]], None]) -> tuple[int, Any]:
    """Start a child; its number, and a file of the lines of JSON that it says."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, os.fdopen(reading)
    code = 1

    def say(value: object) -> None:
        os.write(writing, f"{json.dumps(value)}\n".encode())

    try:
        os.close(reading)
        work(say)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def ended(child: int) -> int:
    """How a child ended: its exit code, or minus the signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# Races


def race(location: str, processes: int, fits: int, attempts: int) -> list[list[int]]:
    """Processes that all create the ledger and charge it; the numbers that each was given."""
    gate, opened = os.pipe()

    def work(say: Callable[[object], None]) -> None:
        os.close(opened)
        os.read(gate, 1)  # until the parent lets go
        ledger = ledger_at(location, PureDP(1))
        for _ in range(attempts):
            try:
                say(ledger.charge(PLAN, PureDP(f"1/{fits}")).number)
            except GuaranteeError:
                break

    children = [forked(work) for _ in range(processes)]
    os.close(opened)
    numbers = [[json.loads(line) for line in lines] for _, lines in children]
    assert [ended(child) for child, _ in children] == [0] * processes
    return numbers


# Kills


class Steps:
    """Counts what a process does, and kills it at one of them."""

    def __init__(self, fatal: int) -> None:
        self.fatal, self.done = fatal, 0

    def step(self) -> None:
        self.done += 1
        if self.done == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*arguments: Any, **options: Any) -> Any:
            self.step()
            return function(*arguments, **options)

        return stepped

    def watch(self, location: str) -> None:
        """Count every call that may change something; before one is after the one before it."""
        for name in ("link", "unlink", "open", "close"):
            setattr(os, name, self.before(getattr(os, name)))
        if location.startswith("postgresql"):
            for name in ("execute", "commit", "close"):
                setattr(psycopg.Connection, name, self.before(getattr(psycopg.Connection, name)))
            return
        steps, connect = self, sqlite3.connect

        class Counted(sqlite3.Connection):
            execute = steps.before(sqlite3.Connection.execute)
            close = steps.before(sqlite3.Connection.close)

        setattr(sqlite3, "connect", partial(connect, factory=Counted))  # noqa: B010 - mypy knows the signature


def life(location: str, say: Callable[[object], None]) -> None:
    """Two releases from beginning to end; says after each operation what the ledger must know from then on."""
    ledger = ledger_at(location)
    say([])
    first = ledger.charge(PLAN, PureDP(1)).number
    say(["reserved"])
    ledger.commit(first, ARTIFACT, ".out.staged", "out")
    say(["committed"])
    ledger.publish(first)
    say(["published"])
    second = ledger.charge(PLAN, PureDP(1)).number
    say(["published", "reserved"])
    ledger.abandon(second)
    say(["published", "abandoned"])


LIVES = [
    [],
    ["reserved"],
    ["committed"],
    ["published"],
    ["published", "reserved"],
    ["published", "abandoned"],
]


def kill_at_every_step(locations: list[str], stride: int) -> int:
    """Kill a life at its first step, its second and so on, each on a ledger of its own; how many steps there are.

    With a stride, only at every second, third and so on.
    """
    for fatal, location in list(enumerate(locations, start=1))[::stride]:

        def work(say: Callable[[object], None], fatal: int = fatal, location: str = location) -> None:
            Steps(fatal).watch(location)
            life(location, say)

        child, lines = forked(work)
        said = [json.loads(line) for line in lines]
        end = ended(child)
        assert end in (0, -signal.SIGKILL), end
        ledger = ledger_at(location)
        found = [entry.state for entry in ledger.entries()]
        done = len(said) - 1  # the last operation that returned; the next one may or may not have happened
        assert found in LIVES[max(done, 0) : done + 2], (fatal, said, found)
        assert ledger.charge(PLAN, PureDP(1)).number == len(found) + 1
        if end == 0:
            assert said == LIVES
            return fatal - 1
    raise AssertionError("more steps than ledgers")


def kill_at_random(location: str, kills: int, first: int) -> list[int]:
    """Kill processes that charge a ledger at random moments; how many charges they were told of, for each ledger.

    Some are alone, others run at the same time, so that one dies while it holds the lock and others wait for it. A
    ledger is read whole at every step, so a new one is begun after some kills; they are numbered from the first.
    """
    begun = range(0, kills, _KILLS_PER_LEDGER)
    return [
        _kill_at_random(location, f"killed-{first + start}", min(_KILLS_PER_LEDGER, kills - start)) for start in begun
    ]


def _kill_at_random(location: str, dataset: str, kills: int) -> int:
    place = location if location.startswith("postgresql") else f"{location}-{dataset}"
    ledger = ledger_at(place, dataset=dataset)
    given: list[int] = []

    def work(say: Callable[[object], None]) -> None:
        try:
            own = ledger_at(place, dataset=dataset)
            while True:
                number = own.charge(PLAN, PureDP(1)).number
                say(number)
                own.commit(number, ARTIFACT, "s", "f")
                own.publish(number)
        except LedgerError as problem:  # on a busy machine, others may hold the lock for longer than it is waited for
            if "others keep it busy" not in str(problem):
                raise

    started = killed = 0
    while killed < kills:
        children = [forked(work) for _ in range(min(random.choice((1, _AT_ONCE)), kills - killed))]
        for child, lines in children:
            started += 1
            if started % 2 and (line := lines.readline()):  # else from its very beginning
                given.append(json.loads(line))
            time.sleep(random.uniform(0, 0.03 / len(children)))
            os.kill(child, signal.SIGKILL)
        for child, lines in children:
            with lines:
                given += [json.loads(line) for line in lines]
            end = ended(child)
            assert end in (0, -signal.SIGKILL), end
            killed += end != 0
        known = {entry.number for entry in ledger.entries()}
        assert set(given) <= known
        assert len(known) <= len(given) + started
    assert len(set(given)) == len(given)
    account = ledger.account()  # at once, as the server may still finish what a client asked before it was killed
    assert account.left == 10**6 - len(account.entries)
    return len(given)


# Power cuts


def recorded_life(location: str, synchronous: str) -> None:
    """A life that says aloud what the ledger must know, for strace to hear; syncs as told."""
    connect = sqlite3.connect

    class Told(sqlite3.Connection):
        def execute(self, statement: str, *arguments: Any) -> sqlite3.Cursor:
            return super().execute(statement.replace("= EXTRA", f"= {synchronous}"), *arguments)

    setattr(sqlite3, "connect", partial(connect, factory=Told))  # noqa: B010 - mypy knows the signature

    def say(state: object) -> None:
        os.write(1, f"{json.dumps(state)}\n".encode())

    life(location, say)
    os._exit(0)  # nothing more is said


# Rights and room


def full_disk(location: str) -> str:
    """Charge a ledger that cannot grow until it refuses; the sentence."""
    ledger = ledger_at(location)
    ledger.charge(PLAN, PureDP(1))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (Path(location).stat().st_size, hard))
    heads = []
    sentence = ""
    for _ in range(200):
        try:
            heads.append(ledger.charge(PLAN, PureDP(1)).head)
        except LedgerError as problem:
            sentence = str(problem)
            break
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    ledger.check()
    assert len(ledger.entries()) == 1 + len(heads)
    assert all(ledger.contains(head) for head in heads)
    ledger.charge(PLAN, PureDP(1))
    return sentence


@contextmanager
def somebody(folder: Path) -> Iterator[None]:
    """Become a user who has to ask for rights; the folder and its files are theirs."""
    if os.geteuid() == 0:
        for path in (folder, *folder.iterdir()):
            os.chown(path, 65534, 65534)
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)
    else:
        yield


def no_rights(folder_name: str) -> dict[str, str]:
    """What a ledger says whose file or folder is read-only. It can still be read."""
    folder = Path(folder_name)
    file = folder / "ledger.db"
    ledger_at(str(file)).charge(PLAN, PureDP(1))
    before = file.read_bytes()
    said = {}
    with somebody(folder):
        for case, file_mode, folder_mode in (("file", 0o444, 0o755), ("folder", 0o644, 0o555)):
            file.chmod(file_mode)
            folder.chmod(folder_mode)
            ledger = ledger_at(str(file))
            assert len(ledger.entries()) == 1
            try:
                ledger.charge(PLAN, PureDP(1))
            except LedgerError as problem:
                said[case] = str(problem)
        try:
            ledger_at(str(folder / "new.db"))
        except LedgerError as problem:
            said["new"] = str(problem)
        file.chmod(0o000)
        try:
            ledger_at(str(file))
        except LedgerError as problem:
            said["closed"] = str(problem)
    assert file.read_bytes() == before
    assert [path.name for path in folder.iterdir()] == ["ledger.db"]
    return said


if __name__ == "__main__":
    sys.stdout.write(json.dumps(globals()[sys.argv[1]](*json.loads(sys.argv[2]))))
