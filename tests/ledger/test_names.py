"""A ledger is found by its data set: respelling a source finds no fresh total, and moving a file loses none."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import psycopg
import pytest

from privcube import ApproxDP, PureDP
from privcube.errors import GuaranteeError, LedgerError
from privcube.model.documents.spec import DataSource, source_name
from privcube.sensitive.ledger import DurableLedger, find_ledger, open_ledger
from privcube.sensitive.ledger.names import not_its_own, require_fresh

PLAN = "a" * 64
# Tables and rows as version 0.1 wrote them, when ledgers were named by the source of their first release.
OLD_ROWS = json.loads(Path(__file__).with_name("format_1.json").read_text(encoding="utf-8"))
OLD_FILE = """CREATE TABLE privcube_ledger_events (
    sequence INTEGER PRIMARY KEY,
    previous TEXT NOT NULL,
    event TEXT NOT NULL,
    hash TEXT NOT NULL
)"""
OLD_TABLE = """CREATE TABLE privcube_ledger_events (
    dataset text NOT NULL,
    sequence bigint NOT NULL,
    previous text NOT NULL,
    event text NOT NULL,
    hash text NOT NULL,
    PRIMARY KEY (dataset, sequence)
)"""
OLD_SOURCE = DataSource(source="postgresql://ann:pw@db/hospital", query="SELECT * FROM stays", person="patient_id")
OLD_NAME = "postgresql://db/hospital, query SELECT * FROM stays, by patient_id"
OLD_TOTAL = ApproxDP(3, "1e-6", calibration="zcdp", neighbors="replace_one", max_rows_per_person=3)
OLD_LEFT = Fraction(4915103288341738872276040449563, 30000000000000000000000000000000)


def ledger_at(
    location: str,
    dataset: str | None,
    source: str | None = None,
    total: PureDP | ApproxDP | None = PureDP(1),  # noqa: B008
) -> DurableLedger:
    return open_ledger(location, dataset=dataset, total=total, source=source)


@pytest.fixture
def old(location: str) -> str:
    """Where a ledger of the first format is."""
    if location.startswith("postgresql"):
        with psycopg.connect(location) as connection:
            connection.execute(OLD_TABLE)
            for row in OLD_ROWS:
                connection.execute("INSERT INTO privcube_ledger_events VALUES (%s, %s, %s, %s, %s)", [OLD_NAME, *row])
    else:
        with closing(sqlite3.connect(location)) as file, file:
            file.execute(OLD_FILE)
            file.executemany("INSERT INTO privcube_ledger_events VALUES (?, ?, ?, ?)", OLD_ROWS)
    return location


# Old ledgers


@pytest.mark.parametrize("dataset", [None, OLD_NAME], ids=["named by its source", "named in the spec"])
def test_an_old_ledger_is_read_and_continued(old: str, dataset: str | None) -> None:
    """With the spelling of its source, or with its name declared, and then for any source."""
    source = source_name(OLD_SOURCE) if dataset is None else "moved.csv"
    for total in (OLD_TOTAL, replace(OLD_TOTAL, calibration="exact"), None):  # a spec of today says exact
        ledger = ledger_at(old, dataset, source, total)
        assert (ledger.dataset, ledger.total, ledger.remaining) == (OLD_NAME, OLD_TOTAL, OLD_LEFT)
    assert [entry.state for entry in ledger.entries()] == ["published", "abandoned", "committed"]
    assert [entry.source for entry in ledger.entries()] == [None] * 3
    receipt = ledger.charge(PLAN, PureDP("0.1", neighbors="replace_one", max_rows_per_person=3), source)
    ledger.publish(3)
    again = ledger_at(old, dataset, source, None)
    assert again.remaining == OLD_LEFT - Fraction(1, 200)
    assert (again.entries()[3].source, again.entries()[3].head) == (source, receipt.head)


def test_an_old_ledger_is_not_left_behind_when_its_source_is_respelled(old: str) -> None:
    """Without a declared data set there is no fresh total, and with a new name there is none for the same source."""
    respelled = source_name(DataSource(source="postgresql://DB/hospital", query="SELECT * FROM stays"))
    with pytest.raises(LedgerError, match="postgresql://db/hospital, query SELECT"):
        ledger_at(old, None, respelled, OLD_TOTAL)
    with pytest.raises(LedgerError, match="postgresql://db/hospital, query SELECT"):
        ledger_at(old, "stays", source_name(OLD_SOURCE), OLD_TOTAL)
    assert ledger_at(old, OLD_NAME, None, None).remaining == OLD_LEFT


# New ledgers


def test_every_source_of_a_data_set_charges_the_same_total(location: str) -> None:
    sources = ["people.csv", "./people.csv", "moved/people.csv", "2030-02.csv", "postgresql://db/x, table people", None]
    for number, source in enumerate(sources, start=1):
        ledger = ledger_at(location, "people-2030", source)
        assert ledger.charge(PLAN, PureDP("1/6"), source).number == number
    with pytest.raises(GuaranteeError, match="at most what is left, 0,"):
        ledger_at(location, "people-2030", "2030-03.csv").charge(PLAN, PureDP("1e-9"))
    assert [entry.source for entry in ledger.entries()] == sources


def test_no_ledger_is_made_without_a_declared_data_set(location: str) -> None:
    with pytest.raises(LedgerError, match=r'a data set to create it for: \[data\] dataset = "discharges-2026" in'):
        ledger_at(location, None, "people.csv")
    with pytest.raises(LedgerError, match="a total to create it with"):
        ledger_at(location, "people.csv", "people.csv", None)


def test_looking_for_a_ledger_makes_none(location: str) -> None:
    with pytest.raises(LedgerError, match=r"an existing ledger \(a release creates it\)"):
        find_ledger(location, dataset="people-2030", total=PureDP(1))
    with pytest.raises(LedgerError, match="a total to create it with"):
        ledger_at(location, "people-2030", total=None)
    ledger_at(location, "people-2030").charge(PLAN, PureDP("0.5"))
    assert find_ledger(location, dataset="people-2030", total=PureDP(1)).remaining == Fraction(1, 2)
    with pytest.raises(LedgerError, match="its own total"):
        find_ledger(location, dataset="people-2030", total=PureDP(2))


def test_a_ledger_of_a_declared_data_set_is_not_found_by_a_source(location: str) -> None:
    ledger_at(location, "people.csv", "people.csv")
    for source in ("people.csv", "./people.csv"):
        with pytest.raises(LedgerError, match=r"people\.csv"):
            ledger_at(location, None, source)
    with pytest.raises(LedgerError, match="data set: expected the name that the ledger has, given none"):
        ledger_at(location, None, None)


BAD_NAMES = [
    "", " ", "people 2030", "people-2030 ", "People-2030", "PEOPLE-2030", "people-2030\n", "people\u20112030",
    "\u0440eople-2030", "people-\uff12030", "people-2030\u200b", "-people", "people.", ".people", "../people", "a/b",
    "people,2030", "p\u00e9ople", "p" * 101, "x\0", "postgresql://db/x",
]  # fmt: skip


@pytest.mark.parametrize("dataset", BAD_NAMES)
def test_names_that_look_like_others_open_no_ledger(location: str, dataset: str) -> None:
    with pytest.raises(LedgerError, match="data set: expected a name"):
        ledger_at(location, dataset)
    ledger = ledger_at(location, "people-2030")
    ledger.charge(PLAN, PureDP("0.5"))
    with pytest.raises(LedgerError, match=r"data set: expected a name|its own data set, 'people-2030'"):
        ledger_at(location, dataset)


@pytest.mark.parametrize("dataset", ["a", "7", "people-2030", "people.csv", "a_b-c.d", "p" * 100])
def test_plain_names_are_kept(location: str, dataset: str) -> None:
    ledger_at(location, dataset).charge(PLAN, PureDP(1))
    assert ledger_at(location, dataset).remaining == 0


def test_a_file_is_one_ledger_and_says_whose(folder: Path) -> None:
    place = str(folder / "ledger.db")
    ledger_at(place, "people-2030").charge(PLAN, PureDP("0.5"))
    for other in ("people-2031", "people_2030", "People-2030"):
        words = rf"its own data set, 'people-2030' \(\[data\] dataset = \"people-2030\" in the spec\), given '{other}'"
        with pytest.raises(LedgerError, match=words):
            ledger_at(place, other)
    (folder / "ledger.db").rename(folder / "moved.db")
    assert ledger_at(str(folder / "moved.db"), "people-2030").remaining == Fraction(1, 2)


@pytest.mark.parametrize("other", ["people_2030", "people.2030", "people2030", "people--2030", "peo-ple-2030"])
def test_a_name_much_like_another_opens_no_second_total(database: str, other: str) -> None:
    ledger_at(database, "people-2030").charge(PLAN, PureDP(1))
    with pytest.raises(LedgerError, match="a name unlike that of another ledger here, 'people-2030'"):
        ledger_at(database, other)
    assert ledger_at(database, "animals-2030").remaining == 1


@pytest.mark.parametrize("spelling", ["people.csv", "./people.csv", "People.csv", ".//people.csv"])
def test_a_source_that_was_charged_opens_no_second_total(database: str, spelling: str) -> None:
    """The old attack, through a new name: in one database another name would be another total."""
    ledger_at(database, "people-2030", "people.csv").charge(PLAN, PureDP(1), "people.csv")
    with pytest.raises(LedgerError, match="the one that this source was charged to, 'people-2030', given 'fresh'"):
        ledger_at(database, "fresh", spelling)
    assert ledger_at(database, "animals-2030", "animals.csv").remaining == 1


def test_a_misspelled_name_is_told_what_there_is(database: str) -> None:
    ledger_at(database, "people-2030")
    for dataset, total in (("poeple-2030", None), (None, PureDP(1))):
        with pytest.raises(LedgerError, match="available: people-2030"):
            ledger_at(database, dataset, "x.csv", total)


def test_a_damaged_ledger_beside_it_stops_a_new_one(database: str) -> None:
    """It may have charged this very source."""
    ledger_at(database, "people-2030")
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE privcube_ledger_events SET event = replace(event, '1/1', '2/1')")
    with pytest.raises(LedgerError, match="data set 'people-2030', event 0"):
        ledger_at(database, "animals-2030")


@pytest.mark.parametrize(
    ("name", "source", "refused"),
    [
        ("births", "births.csv", None),
        ("births", None, None),
        ("births", "", None),
        ("people_2030", "may.csv", "a name unlike that of another ledger here, 'people-2030'"),
        ("births", "./January.csv", "the one that this source was charged to, 'people-2030'"),
        ("births", "people-2030", "the one that this source was charged to, 'people-2030'"),
    ],
)
def test_a_name_beside_others(name: str, source: str | None, refused: str | None) -> None:
    others = {"deaths": [""], "people-2030": ["january.csv", ""]}
    if refused is None:
        require_fresh(name, source, others)
    else:
        with pytest.raises(LedgerError, match=refused):
            require_fresh(name, source, others)


def test_a_name_is_shown_as_it_is_written_in_a_spec() -> None:
    assert '[data] dataset = "Bevölkerung"' in str(not_its_own("ledger", "Bevölkerung", "people"))
