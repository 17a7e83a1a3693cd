"""Both stores behave alike: opening, charging, refusing, and noticing what was changed behind the ledger's back."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import cycle, islice

import psycopg
import pytest

from privcube import ZCDP, ApproxDP, PureDP
from privcube.errors import GuaranteeError, LedgerError
from privcube.model.privacy.guarantee import Guarantee
from privcube.sensitive.ledger import DurableLedger, Entry, open_ledger, postgresql, sqlite

Tamper = Callable[..., None]

PLAN, ARTIFACT = "a" * 64, "b" * 64


def ledger_at(location: str, total: Guarantee | None = PureDP(1), dataset: str = "people.csv") -> DurableLedger:  # noqa: B008
    return open_ledger(location, dataset=dataset, total=total)


def known(ledger: DurableLedger) -> tuple[object, ...]:
    return (ledger.dataset, ledger.total, ledger.remaining, ledger.head, ledger.entries())


def test_a_release_from_reservation_to_publication(location: str) -> None:
    ledger = ledger_at(location)
    opened = ledger.head
    receipt = ledger.charge(PLAN, PureDP("0.3"), "January 2030 \udc80.csv")
    assert receipt == (1, ledger.head)
    ledger.commit(1, ARTIFACT, "/out/.staged-é", "/out/final \udc80")
    ledger.publish(1)
    assert ledger.charge(PLAN, PureDP("0.7")).number == 2
    ledger.abandon(2)
    for seen in (ledger, ledger_at(location), ledger_at(location, None)):
        seen.check()
        one, two = seen.entries()
        assert one == Entry(
            number=1,
            state="published",
            plan=PLAN,
            guarantee=PureDP("0.3"),
            cost=Fraction(3, 10),
            times=one.times,
            head=receipt.head,
            source="January 2030 \udc80.csv",
            artifact=ARTIFACT,
            staged="/out/.staged-é",
            final="/out/final \udc80",
        )
        assert list(one.times) == ["reserved", "committed", "published"]
        assert all(timedelta(0) <= datetime.now(UTC) - time < timedelta(minutes=5) for time in one.times.values())
        assert (two.state, two.source, two.artifact, two.staged, two.final) == ("abandoned", None, None, None, None)
        assert (seen.dataset, seen.total, seen.remaining) == ("people.csv", PureDP(1), 0)
        assert all(map(seen.contains, (opened, receipt.head, seen.head)))
        assert not seen.contains("0" * 64)


def test_a_refused_charge_says_what_is_left_and_changes_nothing(location: str) -> None:
    ledger = ledger_at(location)
    ledger.charge(PLAN, PureDP("0.7"))
    before = known(ledger)
    with pytest.raises(GuaranteeError, match=r"at most what is left, 0\.3, given one that costs 0\.4"):
        ledger.charge(PLAN, PureDP("0.4"))
    with pytest.raises(LedgerError, match="release 1: expected to be committed before it is published"):
        ledger.publish(1)
    assert known(ledger) == before
    ledger.charge(PLAN, PureDP("0.3"))
    assert ledger.remaining == 0


@pytest.mark.parametrize("total", [PureDP("1/7"), ZCDP("0.123456789"), ApproxDP(3, "1e-6", max_rows_per_person=5)])
def test_many_parts_of_every_kind_fit_exactly(location: str, total: Guarantee) -> None:
    ledger = ledger_at(location, total)
    capacity = total.rho if isinstance(total, ApproxDP) else ledger.remaining  # as the first release decides
    parts = list(islice(cycle([1, 2, 3, 5, 8]), 30))
    part = PureDP if isinstance(total, PureDP) else ZCDP
    for share in parts:
        ledger.charge(PLAN, part(capacity * share / sum(parts), max_rows_per_person=total.max_rows_per_person))
    assert ledger_at(location, total).remaining == 0
    with pytest.raises(GuaranteeError, match=r"what is left, (rho )?0,"):
        ledger.charge(PLAN, part("1e-12", max_rows_per_person=total.max_rows_per_person))
    assert len(ledger.entries()) == 30


# Opening


def test_a_missing_ledger_needs_a_total(location: str) -> None:
    for _ in range(2):
        with pytest.raises(LedgerError, match="a total to create it with, as it does not exist"):
            ledger_at(location, None)
    ledger_at(location)
    assert ledger_at(location, None).total == PureDP(1)


@pytest.mark.parametrize(
    "total",
    [
        PureDP("1.000000000001"),
        PureDP("0.5"),
        ZCDP(1),
        ApproxDP(1, "1e-6"),
        PureDP(1, neighbors="replace_one"),
        PureDP(1, max_rows_per_person=2),
    ],
)
def test_another_total_or_unit_is_refused(location: str, total: Guarantee) -> None:
    ledger = ledger_at(location)
    before = known(ledger)
    with pytest.raises(LedgerError, match=r"its own total, epsilon = 1 \(pure\), adding or removing one row, given "):
        ledger_at(location, total)
    assert known(ledger) == before


def test_a_release_for_another_unit_is_refused(location: str) -> None:
    ledger = ledger_at(location)
    with pytest.raises(GuaranteeError, match="the unit of the total"):
        ledger.charge(PLAN, PureDP("0.1", max_rows_per_person=2))
    assert ledger.remaining == 1


def test_a_total_that_cannot_be_accounted_for_makes_no_ledger(location: str) -> None:
    with pytest.raises(GuaranteeError, match="calibration"):
        ledger_at(location, ApproxDP(1, "1e-6", calibration="classic"))
    with pytest.raises(LedgerError, match="does not exist"):
        ledger_at(location, None)


@pytest.mark.parametrize(
    "dataset",
    ["", "a\nb", "a\0b", "\udc80", "postgresql://me:hunter2@host/db", "postgresql://host/db?user=me&password=hunter2"],
)
def test_names_of_data_sets_are_printable_and_messages_quote_no_password(location: str, dataset: str) -> None:
    with pytest.raises(LedgerError, match="data set: expected a name") as caught:
        ledger_at(location, dataset=dataset)
    assert "hunter2" not in str(caught.value)


# Concurrency


def test_one_object_serves_many_threads(location: str) -> None:
    ledger = ledger_at(location)
    accepted = []

    def work(_: int) -> None:
        for _ in range(6):
            try:
                accepted.append(ledger.charge(PLAN, PureDP("1/20")).number)
            except GuaranteeError:
                assert ledger.remaining == 0

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert sorted(accepted) == list(range(1, 21))


def test_an_event_that_comes_while_reading_is_no_alarm(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = ledger_at(location)
    read = ledger._store.rows

    def overtaken() -> object:
        rows = read()
        monkeypatch.undo()
        ledger.charge(PLAN, PureDP("0.5"))  # as another thread might
        return rows

    monkeypatch.setattr(ledger._store, "rows", overtaken)
    assert ledger.remaining == 1
    assert ledger.remaining == Fraction(1, 2)


def test_a_charge_waits_for_a_busy_ledger_and_then_says_so(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = ledger_at(location)

    def held() -> ExitStack:
        stack = ExitStack()
        if location.startswith("postgresql"):
            other = stack.enter_context(psycopg.connect(location))
            other.execute("SELECT pg_advisory_xact_lock(%s)", [int.from_bytes(b"privcube")])
        else:
            writer = stack.enter_context(closing(sqlite3.connect(location, check_same_thread=False)))
            writer.execute("BEGIN IMMEDIATE")
        return stack

    waiting = held()
    timer = threading.Timer(0.3, waiting.close)
    timer.start()
    ledger.charge(PLAN, PureDP("0.1"))
    timer.join()
    monkeypatch.setattr(sqlite, "_PATIENCE", 0.1)
    monkeypatch.setattr(postgresql, "_PATIENCE", 1)
    with held(), pytest.raises(LedgerError, match="to be free within 30 seconds; others keep it busy"):
        ledger.charge(PLAN, PureDP("0.1"))
    assert [entry.cost for entry in ledger.entries()] == [Fraction(1, 10)]


# Changes behind the ledger's back


TABLE = "privcube_ledger_events"
CHANGES = {
    "a smaller amount": (1, f"UPDATE {TABLE} SET event = replace(event, '\"0.25\"', '\"0.05\"') WHERE sequence = 1"),
    "a smaller cost": (4, f"UPDATE {TABLE} SET event = replace(event, '1/4', '1/9') WHERE sequence = 4"),
    "a larger total": (0, f"UPDATE {TABLE} SET event = replace(event, '1/1', '9/1')"),
    "another digest": (2, f"UPDATE {TABLE} SET event = replace(event, 'bbbb', 'bbbc') WHERE sequence = 2"),
    "another hash": (2, f"UPDATE {TABLE} SET hash = substr(hash, 2) || substr(hash, 1, 1) WHERE sequence = 2"),
    "the first event gone": (0, f"DELETE FROM {TABLE} WHERE sequence = 0"),
    "a middle event gone": (2, f"DELETE FROM {TABLE} WHERE sequence = 2"),
    "a middle event gone and the gap closed": (
        2,
        f"DELETE FROM {TABLE} WHERE sequence = 2",
        f"UPDATE {TABLE} SET sequence = 2 WHERE sequence = 3",
        f"UPDATE {TABLE} SET sequence = 3 WHERE sequence = 4",
    ),
    "two events swapped": (
        2,
        f"UPDATE {TABLE} SET sequence = 99 WHERE sequence = 2",
        f"UPDATE {TABLE} SET sequence = 2 WHERE sequence = 3",
        f"UPDATE {TABLE} SET sequence = 3 WHERE sequence = 99",
    ),
    "the last event once more": (5, f"UPDATE {TABLE} SET sequence = 6 WHERE sequence = 5"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_rows_are_found_and_nothing_is_charged(
    location: str, tamper: Tamper, change: tuple[int, *tuple[str, ...]]
) -> None:
    ledger = ledger_at(location)
    ledger.charge(PLAN, PureDP("0.25"))
    ledger.commit(1, ARTIFACT, "s", "f")
    ledger.publish(1)
    ledger.charge(PLAN, PureDP("0.25"))
    ledger.abandon(2)
    ledger.check()
    bad, *statements = change
    tamper(*statements)
    for attempt in (
        ledger.check,
        lambda: ledger.remaining,
        lambda: ledger.charge(PLAN, PureDP("0.1")),
        lambda: ledger_at(location),
    ):
        with pytest.raises(LedgerError, match=rf"event {bad}\b"):
            attempt()


def test_events_gone_from_the_end_show_by_a_later_head(location: str, tamper: Tamper) -> None:
    ledger = ledger_at(location)
    older = ledger.charge(PLAN, PureDP("0.5")).head
    newer = ledger.charge(PLAN, PureDP("0.5")).head
    tamper(f"DELETE FROM {TABLE} WHERE sequence = 2")
    for attempt in (ledger.check, lambda: ledger.charge(PLAN, PureDP("0.5"))):
        with pytest.raises(LedgerError, match="expected all events that it had before, given not all: an older copy"):
            attempt()
    reopened = ledger_at(location)
    reopened.check()
    assert reopened.contains(older)
    assert not reopened.contains(newer)


# What a database might do by itself

DELETES = {
    "sqlite": (f"CREATE TRIGGER forget AFTER INSERT ON {TABLE} BEGIN DELETE FROM {TABLE} WHERE sequence > 0; END",),
    "postgresql": (
        f"CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN DELETE FROM {TABLE} WHERE sequence > 0; RETURN NULL; END $$",
        f"CREATE TRIGGER forget AFTER INSERT ON {TABLE} EXECUTE FUNCTION forget()",
    ),
}
SELF_ACTING = {
    "sqlite": {
        "a trigger that deletes": (*DELETES["sqlite"], "a trigger 'forget'"),
        "a trigger that ignores": (
            f"CREATE TRIGGER skip BEFORE INSERT ON {TABLE} BEGIN SELECT RAISE(IGNORE); END", "a trigger 'skip'",
        ),
        "a view": (
            f"ALTER TABLE {TABLE} RENAME TO hidden", f"CREATE VIEW {TABLE} AS SELECT * FROM hidden", "another view",
        ),
        "a column more": (f"ALTER TABLE {TABLE} ADD COLUMN note TEXT", "another table"),
        "a key that replaces": (
            f"ALTER TABLE {TABLE} RENAME TO old",
            f"CREATE TABLE {TABLE} (sequence INTEGER PRIMARY KEY ON CONFLICT REPLACE, previous, event, hash)",
            f"INSERT INTO {TABLE} SELECT * FROM old", "DROP TABLE old", "another table",
        ),
        "a table more": ("CREATE TABLE notes (note TEXT)", "a table 'notes'"),
    },
    "postgresql": {
        "a trigger that deletes": (*DELETES["postgresql"], "a trigger 'forget'"),
        "a rule": (f"CREATE RULE skip AS ON INSERT TO {TABLE} DO INSTEAD NOTHING", "a rule 'skip'"),
        "a view": (
            f"ALTER TABLE {TABLE} RENAME TO hidden", f"CREATE VIEW {TABLE} AS SELECT * FROM hidden", "a table 'v p'",
        ),
        "row security": (f"ALTER TABLE {TABLE} ENABLE ROW LEVEL SECURITY", "a table 'r p row security'"),
        "lost in a crash": (f"ALTER TABLE {TABLE} SET UNLOGGED", "a table 'r u'"),
        "an heir": (f"CREATE TABLE more () INHERITS ({TABLE})", "a heir 'more'"),
        "no key": (f"ALTER TABLE {TABLE} DROP CONSTRAINT {TABLE}_pkey", "one without its key"),
        "a column more": (f"ALTER TABLE {TABLE} ADD COLUMN note text", "a column 'note text'"),
    },
}  # fmt: skip
CASES = [(kind, case) for kind, cases in SELF_ACTING.items() for case in cases]


@pytest.mark.parametrize(("location", "case"), CASES, indirect=["location"], ids=[" ".join(case) for case in CASES])
def test_what_could_change_events_by_itself_is_noticed_before_a_charge(
    location: str, tamper: Tamper, case: str
) -> None:
    ledger = ledger_at(location)
    ledger.charge(PLAN, PureDP("0.5"))
    *statements, sentence = SELF_ACTING["postgresql" if location.startswith("postgresql") else "sqlite"][case]
    tamper(*statements)
    for attempt in (
        ledger.check,
        lambda: ledger.charge(PLAN, PureDP("0.1")),
        lambda: ledger.commit(1, ARTIFACT, "s", "f"),
        lambda: ledger_at(location),
    ):
        with pytest.raises(LedgerError, match=f"privcube_ledger_events as it was made, and nothing .*{sentence}"):
            attempt()


def test_an_event_that_is_gone_after_the_commit_is_no_charge(
    location: str, tamper: Tamper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database may take back what it has committed, by ways that no schema shows: the charge is read once more."""
    ledger = ledger_at(location)
    ledger.charge(PLAN, PureDP("0.1"))
    read = ledger._store.rows

    def forgetful() -> object:
        tamper(f"DELETE FROM {TABLE} WHERE sequence = 2")
        return read()

    monkeypatch.setattr(ledger._store, "rows", forgetful)
    with pytest.raises(LedgerError, match="expected to keep the event that was added, given a ledger without it"):
        ledger.charge(PLAN, PureDP("0.9"))
    monkeypatch.undo()
    with pytest.raises(LedgerError, match="all events that it had before"):
        ledger.check()
