"""Many processes never overspend one ledger, and killing them loses nothing that was acknowledged."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest
from power_loss import can_record, images, recorded, restored

from privcube import PureDP
from privcube.errors import LedgerError
from privcube.sensitive.ledger import find_ledger, open_ledger

LIVES = [
    [],
    ["reserved"],
    ["committed"],
    ["published"],
    ["published", "reserved"],
    ["published", "abandoned"],
]  # what the ledger says after each operation of `driver.life`
Drive = Callable[..., Any]
# For a file and for a database, what is left after the kills of whole releases (tests/cli/test_kills.py).
KILLS = int(os.environ.get("PRIVCUBE_KILLS", "12"))
KILLS = KILLS // 2 - min(KILLS // 4, 500)
LONG = KILLS >= 50
STRIDE = 1 if LONG else 3  # between the steps at which a process is killed
RACES = [(2, 14), (4, 8), (8, 5), (16, 3)] if LONG else [(3, 10), (12, 3)]  # processes, and how often each tries


@pytest.mark.parametrize(("processes", "attempts"), RACES)
def test_a_race_spends_the_total_and_no_more(drive: Drive, location: str, processes: int, attempts: int) -> None:
    """All create it, all charge 1/24 of it, and together they try more often than fits."""
    numbers = drive("race", location, processes, 24, attempts)
    assert sorted(number for given in numbers for number in given) == list(range(1, 25))
    ledger = open_ledger(location, dataset="people.csv", total=None)
    ledger.check()
    assert ledger.remaining == 0
    assert len(ledger.entries()) == 24


def test_killed_at_every_step_in_a_file(drive: Drive, folder: Path) -> None:
    steps = drive("kill_at_every_step", [str(folder / f"{number}.db") for number in range(150)], STRIDE)
    assert steps > 40  # statements and system calls that the test really stopped at


def test_killed_at_every_step_in_a_database(drive: Drive, database: str) -> None:
    names = [f"s{number}" for number in range(150)]
    with psycopg.connect(database, autocommit=True) as connection:
        for name in names:
            connection.execute(f"CREATE SCHEMA {name}")
    steps = drive("kill_at_every_step", [f"{database}&options=-csearch_path%3D{name}" for name in names], STRIDE)
    assert steps > 40


def test_killed_at_random_moments(drive: Drive, location: str) -> None:
    starts = range(0, KILLS, 250)  # each process for itself may take ten minutes
    given = [drive("kill_at_random", location, min(250, KILLS - start), start) for start in starts]
    assert sum(map(sum, given)) >= KILLS // 2  # every other one was waited for


def test_charges_survive_a_crash_of_the_server(database: str, crash_server: Callable[[], None]) -> None:
    """The server is stopped without a chance to write anything, and takes up its log.

    That this can lose something shows by a row that was committed without waiting for the disk.
    """
    careless = f"{database}&options=-csynchronous_commit%3Doff"
    ledger = open_ledger(careless, dataset="people.csv", total=PureDP(1))
    receipts = [ledger.charge("a" * 64, PureDP("0.1")) for _ in range(5)]
    with psycopg.connect(careless) as connection:
        connection.execute("CREATE TABLE control (value integer)")
    crash_server()
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT to_regclass('control')").fetchone() == (None,)
    ledger.check()
    assert ledger.remaining == Fraction(1, 2)
    assert all(ledger.contains(receipt.head) for receipt in receipts)


@pytest.mark.skipif(not can_record(), reason="system calls are recorded by strace")
@pytest.mark.parametrize("synchronous", ["EXTRA", "FULL", "OFF"] if LONG else ["EXTRA", "OFF"])
def test_a_power_cut_loses_no_charge(folder: Path, tmp_path: Path, synchronous: str) -> None:
    """At every moment, whatever part of the unsynced writes survives. With fewer syncs than ours, charges are lost."""
    script, place = str(Path(__file__).with_name("driver.py")), str(folder / "ledger.db")
    calls = recorded(folder, tmp_path / "calls", script, "recorded_life", json.dumps([place, synchronous]))
    shutil.rmtree(folder)
    found: list[list[str]] = []
    expected = []
    for said, image in images(calls, folder, random.Random(1)):
        restored(image, folder)
        expected.append(LIVES[max(said - 1, 0) : said + 1])
        found.append(states(place))
    assert len(found) > 200
    lost = [each for each, allowed in zip(found, expected, strict=True) if each not in allowed]
    assert (lost == []) == (synchronous == "EXTRA"), lost


def states(place: str) -> list[str]:
    """How far the releases of a ledger have come; nothing if it was never created."""
    try:
        return [entry.state for entry in find_ledger(place, dataset="people.csv", total=None).entries()]
    except LedgerError as problem:
        return [] if "a release creates it" in str(problem) else ["damaged"]


def test_a_full_disk_refuses_the_charge_and_loses_nothing(drive: Drive, folder: Path) -> None:
    assert "room" in drive("full_disk", str(folder / "ledger.db"))


def test_a_read_only_ledger_can_be_read_but_not_charged(drive: Drive, folder: Path) -> None:
    said = drive("no_rights", str(folder))
    assert said == {
        "file": "ledger 'ledger.db': expected a file and a folder that can be written",
        "folder": "ledger 'ledger.db': expected a file and a folder that can be written",
        "new": "ledger 'new.db': expected a file that can be made or opened, given Permission denied",
        "closed": "ledger 'ledger.db': expected a file that can be opened",
    }
