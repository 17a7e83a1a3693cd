"""`privcube check` on the command line: it tells, charges nothing, writes nothing, and reaches no artifact."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LEDGER = 'epsilon = "1"\nledger = "ledger.db"\ntotal_epsilon = "2.5"'
CANARY = "canary7f3a"
PEOPLE = "sex,age\nF,1\nM,2\nf,3\n" + f"{CANARY},4\n" * 3 + ",77\n"
ATTRIBUTES = '[[attributes]]\nname = "sex"\nvalues = ["F", "M"]\n{}\n\n[[attributes]]\nname = "age"\nsize = 10\n{}'


def files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_report_for_people(said: Callable[..., str], tmp_path: Path, write_spec: Callable[..., Path]) -> None:
    (tmp_path / "people.csv").write_text(PEOPLE)
    write_spec(privacy=LEDGER)
    before = files(tmp_path)
    told = said("check", "spec.toml")
    assert "sex: 1 missing, 4 undeclared" in told
    assert f"most often '{CANARY}' (3)" in told
    assert "age: 1 undeclared" in told
    assert "Release     would stop" in told
    assert '  [[attributes]] sex:  case = "fold"' in told
    assert "Next        change the spec, then privcube check spec.toml\n" in told
    assert "do not publish it" in told
    assert files(tmp_path) == before  # no ledger, no charge, no file


def test_a_report_for_programs(said: Callable[..., str], tmp_path: Path, write_spec: Callable[..., Path]) -> None:
    (tmp_path / "people.csv").write_text(PEOPLE)
    write_spec()
    report = json.loads(said("check", "spec.toml", "--json"))
    assert report["attributes"][0]["frequent"][0] == [CANARY, 3]
    assert report["release_would_stop"] is True
    assert "do not publish" in report["warning"]


def test_three_tries_at_a_bad_file_end_well(
    here: Callable[..., Any], said: Callable[..., str], tmp_path: Path, write_spec: Callable[..., Path]
) -> None:
    """With the lines that check suggests, the release goes through; nothing of the report is in what it publishes."""
    (tmp_path / "people.csv").write_text(PEOPLE)
    write_spec(privacy=LEDGER)
    report = json.loads(said("check", "spec.toml", "--json"))
    lines = ["\n".join(attribute["advice"]) for attribute in report["attributes"]]
    write_spec(privacy=LEDGER, attributes=ATTRIBUTES.format(*lines))
    again = said("check", "spec.toml")
    assert "Release     would not stop" in again
    assert "Next        privcube plan spec.toml; privcube release spec.toml\n" in again
    result = here("release", "spec.toml", "--effort", "fast")
    assert result.code == 0, result.err
    published = files(tmp_path / "out")
    assert published
    assert not any(CANARY.encode() in content for content in published.values())
    assert CANARY.encode() not in (tmp_path / "ledger.db").read_bytes()


def test_what_cannot_be_read_is_one_sentence(
    refused_here: Callable[..., str], tmp_path: Path, write_spec: Callable[..., Path]
) -> None:
    write_spec()
    assert "data" in refused_here("check", "spec.toml")
    (tmp_path / "people.csv").write_bytes("sex;age\nÄ;1\n".encode("latin-1"))
    assert 'encoding = "windows-1252"' in refused_here("check", "spec.toml")


def test_texts_that_are_no_numbers_of_a_measure_are_told(
    said: Callable[..., str], tmp_path: Path, write_spec: Callable[..., Path]
) -> None:
    """Those of the cell after its knots, not those of a point of its grid; with signs, the line says what to do."""
    rows = ["2", "3", "n/a", "1,500.25", "12%", "7", ""]
    pay = '\n[[measures]]\nname = "{}"\nlow = 0\nhigh = 10\nstep = 1\nmissing = "category"\nother = "category"\n'
    (tmp_path / "people.csv").write_text("sex,pay,hours\n" + "".join(f'F,"{text}","1,5"\n' for text in rows))
    write_spec(
        attributes=ATTRIBUTES.split("\n\n")[0].format("") + "\n" + pay.format("pay") + pay.format("hours"),
        workload="all_kway = [1]",
    )
    told = said("check", "spec.toml")
    assert "most often '1,500.25' (1), '12%' (1), 'n/a' (1)\n" in told
    assert '[[attributes]] pay:  # "1,500.25" is no number here: take grouping and signs such as % out' in told
    assert "[[attributes]] hours" not in told
    (tmp_path / "people.csv").write_text("sex,pay,hours\n" + 'F,1,"1,5"\n' * 7)
    assert '[data]:  decimal = ","' in said("check", "spec.toml")


@pytest.mark.parametrize(
    ("fact", "told"),
    [
        ('sexx = "F"', "did you mean 'sex'?"),
        ('sex = "X"', "expected one of its labels"),
        ('sex = ["F", "M"]', "expected some combination that can occur"),
    ],
)
def test_facts_that_a_release_refuses_are_refused_before(
    refused_here: Callable[..., str], tmp_path: Path, write_spec: Callable[..., Path], fact: str, told: str
) -> None:
    (tmp_path / "people.csv").write_text("sex,age\nF,1\nM,2\n")
    spec = write_spec()
    spec.write_text(spec.read_text() + f"\n[[impossible]]\n{fact}\n")
    assert told in refused_here("check", "spec.toml")
    assert told in refused_here("plan", "spec.toml")


def test_the_reason_why_a_release_would_stop(
    said: Callable[..., str], tmp_path: Path, write_spec: Callable[..., Path]
) -> None:
    write_spec()
    (tmp_path / "people.csv").write_text("sex,age,sex\nF,1,F\nM,2,M\n")
    assert "Release     would stop: a column cannot be counted\n" in said("check", "spec.toml")
    (tmp_path / "people.csv").write_text("sex,age\nX,1\nM,2\n")
    assert "Release     would stop: a policy refuses values that occur\n" in said("check", "spec.toml")
    spec = tmp_path / "spec.toml"
    spec.write_text(spec.read_text().replace("[data]\n", '[data]\nperson = "id"\nmax_rows_per_person = 2\n'))
    (tmp_path / "people.csv").write_text("sex,age\nF,1\nM,2\n")
    assert "Release     would stop: no column names people\n" in said("check", "spec.toml")
