"""A year of monthly files: one spec, one plan, one data set, one ledger."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Said = Callable[..., str]
Write = Callable[..., Path]
MONTHS = [f"2030-{month:02}" for month in range(1, 13)]
WIDEST = 100  # columns of a terminal


@pytest.fixture
def months(tmp_path: Path, write_spec: Write) -> Path:
    """Twelve files of people, and a spec for the first of them with a total for the year."""
    (tmp_path / "in").mkdir()
    for month in MONTHS:
        rows = "".join(f"{number},{'FM'[number % 2]},{number % 10}\n" for number in range(50))
        (tmp_path / "in" / f"{month}.csv").write_text(f"id,sex,age\n{rows}", encoding="utf-8")
    write_spec(
        data='source = "in/2030-01.csv"\ndataset = "people-2030"\nperson = "id"\nmax_rows_per_person = 2',
        privacy='epsilon = "0.25"\nledger = "ledger.db"\ntotal_epsilon = "3.1"',
        plan='strategy = "marginals"',
    )
    return tmp_path


def test_a_year_of_months(said: Said, refused_here: Said, months: Path) -> None:
    """Each costs a quarter, the ledger tells after each what is left, and refuses the thirteenth."""
    said("plan", "spec.toml", "--save", "plan.json")
    for number, month in enumerate(MONTHS, 1):
        source, output = f"in/{month}.csv", f"tables-{month}"
        written = said("release", "spec.toml", "--plan", "plan.json", "--source", source, "--output", output)
        left = f"{3.1 - 0.25 * number:.2f}".rstrip("0")
        assert f"epsilon {left} of 3.1 left after {number} release" in written
        if number in (1, 11):
            assert "would not stop" in said("check", "spec.toml", "--source", source)
            fit = "11 more like it fit" if number == 1 else "1 more like it fits"
            expected = f"Next        may spend up to epsilon {left}; a release of this spec costs 0.25, {fit}\n"
            assert expected in said("ledger", "spec.toml")
    document = json.loads(said("ledger", "spec.toml", "--json"))
    assert document["next"] == {"cost": "0.25", "fitting": 0}
    assert (document["spent"], document["remaining"]) == ("3", "0.1")
    assert [entry["source"] for entry in document["releases"]] == [f"in/{month}.csv, by id" for month in MONTHS]
    assert [entry["left_after"] for entry in document["releases"]][:3] == ["2.85", "2.6", "2.35"]
    text = said("ledger", "spec.toml")
    assert "Next        may spend up to epsilon 0.1; a release of this spec costs 0.25, that does not fit\n" in text
    header, *lines = [line.split() for line in text.splitlines()[-13:]]
    assert header == ["release", "date", "state", "source", "folder", "epsilon", "left"]
    today = document["releases"][0]["times"]["reserved"][:10]
    by_id = ["by", "id"]
    assert lines[0] == ["1", today, "published", "in/2030-01.csv,", *by_id, "tables-2030-01", "0.25", "2.85"]
    assert [line[0] for line in lines] == [str(number) for number in range(1, 13)]
    assert lines[-1][-2:] == ["0.25", "0.1"]
    assert "what is left, 0.1, given one that costs 0.25. Nothing was charged" in refused_here(
        "release", "spec.toml", "--source", "in/2030-12.csv", "--output", "again"
    )
    assert said("verify", "tables-2030-07", "--spec", "spec.toml").endswith("all checks passed\n")


def test_long_names_and_guarantees_of_several_kinds_fit_a_terminal(
    said: Said, months: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = months / "spec.toml"
    text = spec.read_text(encoding="utf-8")
    total = 'epsilon = "0.25"\ndelta = "1e-6"\nledger = "ledger.db"\ntotal_epsilon = "3.1"\ntotal_delta = "1e-6"'
    long = months / ("discharges-of-all-hospitals-" * 3)
    long.mkdir()
    (months / "in" / "2030-01.csv").rename(long / "january.csv")
    spec.write_text(
        text.replace('epsilon = "0.25"\nledger = "ledger.db"\ntotal_epsilon = "3.1"', total), encoding="utf-8"
    )
    monkeypatch.chdir(months / "in")  # paths are relative to where the command is run
    said("release", "../spec.toml", "--source", f"../{long.name}/january.csv", "--output", "../tables-of-january-2030")
    pure = 'epsilon = "0.25"\nledger = "ledger.db"'  # and no total, as the ledger has one
    spec.write_text(spec.read_text(encoding="utf-8").replace(total, pure), encoding="utf-8")
    said("release", "../spec.toml", "--source", str(months / "in" / "2030-02.csv"), "--output", "two")
    written = said("ledger", "../spec.toml")
    header, first, second = written.splitlines()[-3:]
    assert header.split()[3:] == ["source", "folder", "epsilon,", "delta", "mu^2", "left"]
    assert " discharges-of-a...  ...ry-2030  0.25, 0.000001 " in first
    assert "  two         0.25   " in second
    assert max(map(len, (header, first, second))) <= WIDEST
    releases = json.loads(said("ledger", "../spec.toml", "--json"))["releases"]
    assert [entry["source"] for entry in releases] == [
        f"{long.name}/january.csv, by id",
        f"{months}/in/2030-02.csv, by id",
    ]


@pytest.mark.parametrize("source", ["", "missing.csv", "a\0b"])
def test_a_source_that_is_none(refused_here: Said, months: Path, source: str) -> None:
    for command in ("check", "release"):
        refused_here(command, "spec.toml", "--source", source)
    assert not (months / "out").exists()


@pytest.mark.parametrize(
    "parts",
    [
        {"data": 'source = "a\\u0000b"'},
        {"output": 'path = "a\\u0000b"'},
        {"privacy": 'epsilon = "1"\nledger = "a\\u0000b"\ntotal_epsilon = "1"'},
    ],
    ids=str,
)
def test_a_place_with_a_zero_byte(refused_here: Said, write_spec: Write, parts: dict[str, str]) -> None:
    write_spec(**parts)
    assert "a path without zero bytes" in refused_here("release", "spec.toml")


def test_a_spec_that_the_total_cannot_pay_for(said: Said, months: Path) -> None:
    said("release", "spec.toml")
    spec = months / "spec.toml"
    text = spec.read_text(encoding="utf-8")
    spec.write_text(text.replace('\ntotal_epsilon = "3.1"', '\ndelta = "1e-6"'), encoding="utf-8")
    assert "would be refused, as its guarantee is not one that the total can pay" in said("ledger", "spec.toml")
    assert json.loads(said("ledger", "spec.toml", "--json"))["next"] is None
