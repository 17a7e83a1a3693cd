"""Ledgers in files: damaged, replaced and foreign ones are refused, and every charge is synced."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from privcube import PureDP
from privcube.errors import LedgerError
from privcube.sensitive.ledger import DurableLedger, find_ledger, open_ledger
from privcube.sensitive.ledger.account import Row
from privcube.sensitive.ledger.sqlite import SQLiteStore

PLAN, ARTIFACT = "a" * 64, "b" * 64


def ledger_at(file: Path, total: PureDP | None = PureDP(1)) -> DurableLedger:  # noqa: B008
    return open_ledger(str(file), dataset="people.csv", total=total)


@pytest.fixture
def file(folder: Path) -> Path:
    """A ledger with two releases."""
    made = folder / "ledger.db"
    ledger = ledger_at(made)
    ledger.charge(PLAN, PureDP("0.25"))
    ledger.commit(1, ARTIFACT, "s", "f")
    ledger.publish(1)
    ledger.charge(PLAN, PureDP("0.25"))
    return made


def test_the_file_is_all_there_is(file: Path) -> None:
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_every_commit_is_synced_to_the_disk_and_the_folder(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    class Watched(sqlite3.Connection):
        def execute(self, statement: str, *arguments: object) -> sqlite3.Cursor:  # type: ignore[override]
            if statement == "COMMIT":
                pragmas = ("synchronous", "journal_mode")
                seen.append([super(Watched, self).execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas])
            return super().execute(statement, *arguments)

    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *arguments, **options: connect(*arguments, factory=Watched, **options)
    )
    ledger_at(file).charge(PLAN, PureDP("0.1"))
    ledger_at(file.with_name("new.db"))
    assert seen == [[3, "delete"]] * 2  # 3 is EXTRA


def test_a_write_ahead_log_is_refused_until_it_is_put_back(file: Path) -> None:
    """Another program can switch it on for good. A copy of the file alone then lacks what is in the log."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        for use in (lambda: ledger_at(file), lambda: SQLiteStore(str(file)).rows()):
            with pytest.raises(LedgerError, match="without a write-ahead log"):
                use()
        with pytest.raises(LedgerError, match="without a write-ahead log"), SQLiteStore(str(file)).writing():
            pass
        connection.execute("PRAGMA journal_mode = DELETE")
    assert ledger_at(file).remaining == Fraction(1, 2)


def test_a_flipped_bit_is_found_or_means_nothing(file: Path) -> None:
    """Most of the file is unused; a flip there must change nothing at all.

    The heads of pages are tried bit by bit: with one fewer in the number of cells, the last event would be gone and the
    rest a good chain.
    """
    head, whole = ledger_at(file).head, file.read_bytes()
    heads = [(page + place, bit) for page in range(0, len(whole), 4096) for place in range(12) for bit in range(8)]
    found = 0
    for place, bit in [*((place, place % 8) for place in range(0, len(whole), 17)), *heads]:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << bit
        file.write_bytes(damaged)
        try:
            assert ledger_at(file, None).head == head
        except LedgerError:
            found += 1
    assert found > 100


def test_a_flipped_bit_in_an_event_is_found(file: Path) -> None:
    ledger_at(file).check()
    with closing(sqlite3.connect(file)) as connection:
        events = [row[0] for row in connection.execute("SELECT event FROM privcube_ledger_events")]
    whole = file.read_bytes()
    for number, event in enumerate(events):
        start = whole.index(event.encode())
        for place in range(start, start + len(event), 17):
            damaged = bytearray(whole)
            damaged[place] ^= 0x80 >> place % 8
            file.write_bytes(damaged)
            with pytest.raises(LedgerError, match=rf"event {number}: expected the hash"):
                ledger_at(file)


def test_a_file_cut_short_is_refused_and_never_started_afresh(file: Path) -> None:
    whole = file.read_bytes()
    for size in [*range(0, len(whole), 1000), *range(0, len(whole), 4096), len(whole) - 1]:
        file.write_bytes(whole[:size])
        with pytest.raises(LedgerError, match=r"ledger 'ledger\.db'"):
            ledger_at(file)
        assert file.read_bytes() == whole[:size]


def test_an_old_copy_lacks_the_head_of_a_later_artifact(file: Path) -> None:
    ledger = ledger_at(file)
    before = ledger.head
    copy = shutil.copy(file, file.with_name("copy.db"))
    head = ledger.charge(PLAN, PureDP("0.1")).head
    shutil.copy(copy, file)
    with pytest.raises(LedgerError, match="an older copy or another ledger is in its place"):
        ledger.charge(PLAN, PureDP("0.1"))
    restored = ledger_at(file)
    assert restored.contains(before)
    assert not restored.contains(head)


def test_a_new_ledger_in_the_same_place_has_no_head_in_common(file: Path) -> None:
    ledger = ledger_at(file)
    file.unlink()
    assert not ledger_at(file).contains(ledger_at(file.with_name("other.db")).head)
    with pytest.raises(LedgerError, match="another ledger is in its place"):
        ledger.charge(PLAN, PureDP("0.1"))


def test_a_ledger_that_is_gone_is_not_charged(file: Path) -> None:
    ledger = ledger_at(file)
    file.unlink()
    with pytest.raises(LedgerError, match="expected a file that can be opened"):
        ledger.charge(PLAN, PureDP("0.1"))
    with pytest.raises(LedgerError, match="no event"):
        ledger.check()
    assert not file.exists()


def test_a_ledger_of_another_data_set_is_refused(file: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(LedgerError, match=r"its own data set, 'people\.csv' .*, given 'animals\.csv'"):
        open_ledger(str(file), dataset="animals.csv", total=PureDP(1))
    assert file.read_bytes() == before


def test_an_emptied_ledger_is_not_opened_again(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("DELETE FROM privcube_ledger_events")
    with pytest.raises(LedgerError, match="given no event: it was emptied"):
        ledger_at(file)


@pytest.mark.parametrize("content", [b"", b"epsilon = 1\n", b"SQLite format 3\0" + b"x" * 4096, bytes(8192)])
def test_a_file_that_is_no_ledger_is_left_alone(folder: Path, content: bytes) -> None:
    file = folder / "ledger.db"
    file.write_bytes(content)
    with pytest.raises(LedgerError, match=r"ledger 'ledger\.db': expected a (whole )?ledger; this file is"):
        ledger_at(file)
    assert file.read_bytes() == content
    assert [path.name for path in folder.iterdir()] == [file.name]


def test_another_database_is_left_alone(folder: Path) -> None:
    file = folder / "people.db"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE people (name TEXT)")
    before = file.read_bytes()
    with pytest.raises(LedgerError, match="expected a ledger; this file is none"):
        ledger_at(file)
    assert file.read_bytes() == before


def test_a_folder_is_no_ledger(folder: Path) -> None:
    with pytest.raises(LedgerError, match="expected a file, given a folder"):
        ledger_at(folder)


def test_a_folder_that_is_missing_is_not_made(folder: Path) -> None:
    with pytest.raises(LedgerError, match="given No such file or directory"):
        ledger_at(folder / "missing" / "ledger.db")
    assert not list(folder.iterdir())


def test_a_link_to_nowhere_is_not_followed(folder: Path) -> None:
    link = folder / "ledger.db"
    link.symlink_to(folder / "elsewhere.db")
    with pytest.raises(LedgerError, match="expected a file that can be opened"):
        ledger_at(link)
    assert [path.name for path in folder.iterdir()] == [link.name]


@pytest.mark.parametrize("name", ["a b?mode=memory#x%41&.db", "é\udc80.db", ":memory:"])
def test_odd_names_are_names(folder: Path, name: str) -> None:
    file = folder / name
    ledger_at(file).charge(PLAN, PureDP(1))
    assert ledger_at(file).remaining == 0
    assert [path.name for path in folder.iterdir()] == [name]


def test_a_relative_name_is_not_lost_when_the_working_directory_changes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    ledger = ledger_at(Path("ledger.db"))
    monkeypatch.chdir("/")
    assert ledger.charge(PLAN, PureDP(1)).number == 1


@pytest.mark.parametrize("location", ["mysql://me:hunter2@host/db", "a\0b", "sqlite:///ledger.db"])
def test_other_places_are_refused(location: str) -> None:
    with pytest.raises(LedgerError, match=r"ledger: expected (a file or postgresql|the path of a file)") as caught:
        open_ledger(location, dataset="people.csv", total=PureDP(1))
    assert "hunter2" not in str(caught.value)


def test_who_only_read_notices_an_older_copy(folder: Path) -> None:
    path = folder / "ledger.db"
    writer = open_ledger(str(path), dataset="people-2030", total=PureDP(1))
    older = path.read_bytes()
    writer.charge("a" * 64, PureDP("0.1"))
    reader = find_ledger(str(path), dataset="people-2030", total=None)
    path.write_bytes(older)
    with pytest.raises(LedgerError, match="an older copy or another ledger is in its place"):
        reader.check()


def test_a_salt_has_128_bits(folder: Path) -> None:
    open_ledger(str(folder / "ledger.db"), dataset="people-2030", total=PureDP(1))
    (first,) = SQLiteStore(str(folder / "ledger.db")).rows()
    assert len(json.loads(first.event)["salt"]) == 32


@pytest.mark.parametrize("name", ["", "a\x07", "mysql://me:secret@host/db", "mysql://host/db?password=secret"])
def test_names_that_cannot_be_shown_are_refused(name: str, folder: Path) -> None:
    with pytest.raises(LedgerError, match=r"data set: expected a name (in printable characters|without a password)"):
        find_ledger(str(folder / "ledger.db"), dataset=None, total=None, source=name)


def test_other_ledgers_of_the_place_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SQLiteStore, "names", lambda self: ["births"])
    place = str(folder / "ledger.db")
    for act, dataset, total in (
        (find_ledger, "people-2030", None),
        (open_ledger, "people-2030", None),
        (open_ledger, None, PureDP(1)),
    ):
        with pytest.raises(LedgerError, match="births"):
            act(place, dataset=dataset, total=total, source="people.csv")


def test_sources_of_other_ledgers_are_held_against_a_new_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    births = open_ledger(str(folder / "births.db"), dataset="births", total=PureDP(1))
    births.charge("a" * 64, PureDP("0.1"), "people.csv")
    others = {"births": SQLiteStore(str(folder / "births.db")).rows()}
    monkeypatch.setattr(SQLiteStore, "create", lambda self, first, permit: permit(others))
    with pytest.raises(LedgerError, match="the one that this source was charged to, 'births'"):
        open_ledger(str(folder / "new.db"), dataset="people-2030", total=PureDP(1), source="people.csv")


def test_a_name_that_is_no_address_is_a_name(folder: Path) -> None:
    with pytest.raises(LedgerError, match="expected an existing ledger"):
        find_ledger(str(folder / "ledger.db"), dataset=None, total=None, source="http://[")


def test_a_charge_of_somebody_else_right_after_is_none_of_ours(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between a charge and its reading back, another process may charge, too."""
    ours, theirs = ledger_at(folder / "ledger.db"), ledger_at(folder / "ledger.db")
    read = SQLiteStore.rows

    def charged_meanwhile(store: SQLiteStore) -> list[Row]:
        monkeypatch.setattr(SQLiteStore, "rows", read)
        theirs.charge(PLAN, PureDP("0.25"))
        return read(store)

    monkeypatch.setattr(SQLiteStore, "rows", charged_meanwhile)
    assert ours.charge(PLAN, PureDP("0.25")).number == 1
    assert ours.remaining == Fraction(1, 2)
