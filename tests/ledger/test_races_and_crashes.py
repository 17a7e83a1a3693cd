"""Many processes never overspend one ledger, and killing them loses nothing that was acknowledged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from privcube.sensitive.ledger import open_ledger

Drive = Callable[..., Any]


@pytest.mark.parametrize(("processes", "attempts"), [(2, 14), (4, 8), (8, 5), (16, 3)])
def test_a_race_spends_the_total_and_no_more(drive: Drive, location: str, processes: int, attempts: int) -> None:
    """All create it, all charge 1/24 of it, and together they try more often than fits."""
    numbers = drive("race", location, processes, 24, attempts)
    assert sorted(number for given in numbers for number in given) == list(range(1, 25))
    ledger = open_ledger(location, dataset="people.csv", total=None)
    ledger.check()
    assert ledger.remaining == 0
    assert len(ledger.entries()) == 24


def test_killed_at_every_step_in_a_file(drive: Drive, folder: Path) -> None:
    steps = drive("kill_at_every_step", [str(folder / f"{number}.db") for number in range(100)])
    assert steps > 40  # statements and system calls that the test really stopped at


def test_killed_at_every_step_in_a_database(drive: Drive, database: str) -> None:
    names = [f"s{number}" for number in range(100)]
    with psycopg.connect(database, autocommit=True) as connection:
        for name in names:
            connection.execute(f"CREATE SCHEMA {name}")
    steps = drive("kill_at_every_step", [f"{database}&options=-csearch_path%3D{name}" for name in names])
    assert steps > 40


def test_killed_at_random_moments(drive: Drive, location: str) -> None:
    given = drive("kill_at_random", location, 25)
    assert len(set(given)) == len(given) > 0


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
