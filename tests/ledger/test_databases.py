"""Ledgers in PostgreSQL: several in one database, rights, durability, and sentences without passwords."""

from __future__ import annotations

import psycopg
import pytest

from privcube import PureDP
from privcube.errors import LedgerError
from privcube.sensitive.ledger import DurableLedger, open_ledger

PLAN = "a" * 64


def ledger_at(url: str, dataset: str = "people.csv", total: PureDP | None = PureDP(1)) -> DurableLedger:  # noqa: B008
    return open_ledger(url, dataset=dataset, total=total)


def test_data_sets_have_their_own_ledgers(database: str) -> None:
    people = ledger_at(database)
    animals = ledger_at(database, "animals.csv", PureDP(2))
    people.charge(PLAN, PureDP("0.4"))
    animals.charge(PLAN, PureDP("1.5"))
    assert (people.remaining * 10, animals.remaining * 10) == (6, 5)
    assert (len(people.entries()), len(animals.entries())) == (1, 1)
    assert not people.contains(animals.head)
    with pytest.raises(LedgerError, match="does not exist"):
        ledger_at(database, "plants.csv", None)


def test_rows_of_another_ledger_do_not_pass_for_its_own(database: str) -> None:
    ledger_at(database)
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE privcube_ledger_events SET dataset = 'animals.csv'")
    with pytest.raises(LedgerError, match=r"its own data set, 'people\.csv' .*, given 'animals\.csv'"):
        ledger_at(database, "animals.csv")


def test_tables_are_made_in_the_current_schema(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE SCHEMA custodian")
    ledger_at(f"{database}&options=-csearch_path%3Dcustodian")
    with psycopg.connect(database) as connection:
        found = connection.execute("SELECT schemaname, tablename FROM pg_tables WHERE tablename LIKE 'privcube%'")
        assert found.fetchall() == [("custodian", "privcube_ledger_events")]


def test_every_commit_waits_for_the_disk(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the session is set up not to, and to read old snapshots."""
    seen = []
    commit = psycopg.Connection.commit

    def watched(connection: psycopg.Connection) -> None:
        if connection.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone() == (1,):
            seen.append(connection.execute("SHOW synchronous_commit").fetchone())
            seen.append(connection.execute("SHOW transaction_isolation").fetchone())
        commit(connection)

    monkeypatch.setattr(psycopg.Connection, "commit", watched)
    careless = "-csynchronous_commit=off -cdefault_transaction_isolation=serializable"
    ledger_at(f"{database}&options={careless.replace('=', '%3D').replace(' ', '%20')}").charge(PLAN, PureDP(1))
    assert seen == [("on",), ("read committed",)] * 2


def test_a_user_who_may_only_read_and_add_can_charge(database: str) -> None:
    ledger_at(database)
    with psycopg.connect(database) as connection:
        connection.execute("DROP ROLE IF EXISTS clerk")
        connection.execute("CREATE ROLE clerk LOGIN")
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    clerk = database.replace("postgres@", "clerk@")
    with pytest.raises(LedgerError, match="a user that may read and add rows of privcube_ledger_events"):
        ledger_at(clerk)
    with psycopg.connect(database) as connection:
        connection.execute("GRANT SELECT ON privcube_ledger_events TO clerk")
    reader = ledger_at(clerk)
    with pytest.raises(LedgerError, match="a user that may read and add rows of privcube_ledger_events"):
        reader.charge(PLAN, PureDP("0.1"))
    with psycopg.connect(database) as connection:
        connection.execute("GRANT INSERT ON privcube_ledger_events TO clerk")
    assert reader.charge(PLAN, PureDP("0.1")).number == 1
    assert ledger_at(clerk, "animals.csv").remaining == 1
    with psycopg.connect(database) as connection:
        connection.execute("DROP OWNED BY clerk")


def test_a_database_that_cannot_be_written(database: str) -> None:
    ledger_at(database)
    reader = ledger_at(f"{database}&options=-cdefault_transaction_read_only%3Don")
    assert reader.remaining == 1
    with pytest.raises(LedgerError, match="expected a database that can be written"):
        reader.charge(PLAN, PureDP("0.1"))


def test_the_primary_key_refuses_what_slips_past_the_lock(database: str) -> None:
    ledger = ledger_at(database)
    with pytest.raises(LedgerError, match="another one was faster"), ledger._store.writing() as (rows, insert):
        insert(rows[-1])
    assert ledger.remaining == 1


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("postgresql://me:hunter2@127.0.0.1:1/books", r"ledger 'postgresql://127\.0\.0\.1/books': .* can be reached"),
        ("postgresql://me:hunter2@/books?host=/nowhere", "ledger 'postgresql:///nowhere/books': .* can be reached"),
        ("postgresql://me:hunter2@[::1/books", r"ledger: expected a URL such as postgresql://user@host/database"),
        ("postgres://me:hunter2@h/d?hunter2=1", r"ledger: expected a URL such as postgresql://user@host/database"),
    ],
)
def test_a_database_that_cannot_be_reached_gives_no_password_away(url: str, sentence: str) -> None:
    with pytest.raises(LedgerError, match=sentence) as caught:
        ledger_at(url)
    assert "hunter2" not in str(caught.value)


def test_an_unknown_role_or_database(database: str) -> None:
    for url in (database.replace("postgres@", "nobody:hunter2@"), database.replace("/test_", "/missing_")):
        with pytest.raises(LedgerError, match="a database that can be reached, and a user that may log in") as caught:
            ledger_at(url)
        assert "hunter2" not in str(caught.value)
