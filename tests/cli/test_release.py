"""From records to published tables, and the ledger that pays for them, on good and bad input."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from privcube import PureDP, Spec, pipeline
from privcube.errors import LedgerError
from privcube.model.documents.plans import digest_of
from privcube.sensitive.engines.local import LocalEngine
from privcube.sensitive.ledger import DurableLedger

Command = Callable[..., subprocess.CompletedProcess[str]]
Here = Callable[..., Any]
Said = Callable[..., str]
Write = Callable[..., Path]

LEDGER = 'epsilon = "1"\nledger = "ledger.db"\ntotal_epsilon = "2.5"'
MARGINALS = 'strategy = "marginals"'


def _remaining(said: Said) -> str:
    remaining = json.loads(said("ledger", "spec.toml", "--json"))["remaining"]
    assert isinstance(remaining, str)
    return remaining


def _files(folder: Path) -> set[str]:
    return {file.relative_to(folder).as_posix() for file in folder.rglob("*")}


# All of it, through the installed command


def test_from_init_to_ledger(privcube: Command, said: Said, ready: Path) -> None:
    """A release and its check as a user runs them; what others read, in this process."""

    def run(*arguments: str) -> str:
        result = privcube(*arguments)
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout

    said("plan", "spec.toml", "--save", "plan.json")
    text = run("release", "spec.toml", "--plan", "plan.json")
    assert text.splitlines() == [
        "Published   out: 3 tables, 32 cells",
        "Guarantee   epsilon = 1 (pure), adding or removing one row",
        "Ledger      created for data set people-2030 with total epsilon = 2.5 (pure), adding or removing one row",
        "Ledger      epsilon 1.5 of 2.5 left after 1 release",
        "Next        privcube show out; privcube verify out --spec spec.toml",
    ]
    assert "sex x age" in said("show", "out")
    assert "sex  estimate  margin  std. error" in said("show", "out", "sex")
    assert "Estimate" in said("query", "out", "sex=F", "age=3..7")
    assert run("verify", "out", "--spec", "spec.toml").endswith("out: all checks passed\n")
    assert said("export", "out", "--format", "csv", "--to", "tables.csv") == "wrote 3 tables to tables.csv\n"
    assert "epsilon 1.5 of 2.5; 1 is spent" in said("ledger", "spec.toml")
    assert "out is unchanged" in said("ledger", "check", "spec.toml")
    assert {file.name for file in ready.iterdir()} == {
        "people.csv", "spec.toml", "plan.json", "ledger.db", "out", "tables.csv",
    }  # fmt: skip


@pytest.mark.parametrize("target", ["full", "file", "file/below"])
def test_demo_needs_a_folder_of_its_own(refused_here: Said, tmp_path: Path, target: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine", encoding="utf-8")
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    before = _files(tmp_path)
    assert "folder" in refused_here("demo", target)
    assert _files(tmp_path) == before


# release


def test_release_as_json(said: Said, ready: Path) -> None:
    found = json.loads(said("release", "spec.toml", "--json", "--output", "elsewhere"))
    assert found == {
        "folder": "elsewhere",
        "tables": 3,
        "cells": 32,
        "guarantee": "epsilon = 1 (pure), adding or removing one row",
        "amounts": {"epsilon": "1"},
        "warnings": [],
        "ledger": {
            "dataset": "people-2030",
            "guarantee": "epsilon = 2.5 (pure), adding or removing one row",
            "releases": 1,
            "currency": "epsilon",
            "total": "2.5",
            "remaining": "1.5",
        },
    }
    assert (ready / "elsewhere").is_dir()
    assert not (ready / "out").exists()


def test_a_spec_in_another_folder(said: Said, ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths in a spec are relative to it, options to where the command is run."""
    (ready / "here").mkdir()
    monkeypatch.chdir(ready / "here")
    assert "Published   ../out" in said("release", "../spec.toml")
    assert "Published   mine" in said("release", "../spec.toml", "--output", "mine")
    assert (ready / "out").is_dir()
    assert (ready / "here" / "mine").is_dir()
    assert " ../out " in said("ledger", "../spec.toml")


def test_a_release_without_a_ledger_says_so(said: Said, write_spec: Write, write_people: Callable[[], Path]) -> None:
    write_people()
    write_spec(plan=MARGINALS)
    assert "nothing records what was spent" in said("release", "spec.toml")


def test_releases_beyond_the_total_are_refused(said: Said, refused_here: Said, ready: Path) -> None:
    said("release", "spec.toml", "--output", "one")
    said("release", "spec.toml", "--output", "two")
    before = _files(ready)
    sentence = refused_here("release", "spec.toml", "--output", "three")
    assert "costs at most what is left, 0.5" in sentence
    assert "one that costs 1" in sentence
    assert _files(ready) == before
    assert _remaining(said) == "0.5"


def test_an_output_that_exists_costs_nothing(said: Said, refused_here: Said, ready: Path) -> None:
    said("release", "spec.toml")
    content = {name: (ready / "out" / name).read_bytes() for name in _files(ready / "out") if "." in name}
    assert "nothing is overwritten" in refused_here("release", "spec.toml")
    (ready / "file").write_text("mine", encoding="utf-8")
    assert "nothing is overwritten" in refused_here("release", "spec.toml", "--output", "file")
    assert _remaining(said) == "1.5"
    assert content == {name: (ready / "out" / name).read_bytes() for name in content}


def test_an_output_that_cannot_be_made_costs_nothing(said: Said, refused_here: Said, ready: Path) -> None:
    said("release", "spec.toml")
    refused_here("release", "spec.toml", "--output", "no/such/folder")
    refused_here("release", "spec.toml", "--output", "spec.toml/out")
    assert _remaining(said) == "1.5"


@pytest.mark.parametrize(
    "output", ["ledger.db", "./a/../ledger.db", "link.db", "ledger.db-journal", "ledger.db/out", "people.csv/out"]
)
def test_an_output_in_the_place_of_ledger_or_records_costs_nothing(
    refused_here: Said, ready: Path, output: str
) -> None:
    """Also before there is a ledger; it is not even made."""
    (ready / "a").mkdir()
    (ready / "link.db").symlink_to("ledger.db")
    before = _files(ready)
    assert f"output {str(ready / output)!r}: expected " in refused_here("release", "spec.toml", "--output", output)
    assert _files(ready) == before


def test_an_output_around_the_ledger_costs_nothing(refused_here: Said, ready: Path) -> None:
    spec = ready / "spec.toml"
    spec.write_text(spec.read_text(encoding="utf-8").replace("ledger.db", "out/ledger.db"), encoding="utf-8")
    assert "expected a folder apart from the ledger" in refused_here("release", "spec.toml")


def test_an_output_among_the_records_costs_nothing(refused_here: Said, ready: Path) -> None:
    """The next release would take the tables for records."""
    (ready / "data").mkdir()
    (ready / "people.csv").rename(ready / "data" / "people.csv")
    spec = ready / "spec.toml"
    spec.write_text(spec.read_text(encoding="utf-8").replace('"people.csv"', '"data"'), encoding="utf-8")
    before = _files(ready)
    assert "expected a folder apart from the records" in refused_here("release", "spec.toml", "--output", "data/out")
    assert _files(ready) == before


def test_a_disk_without_room_costs_nothing(refused_here: Said, ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _files(ready)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=20_000))
    assert "output: expected about 1 MB of room on its disk" in refused_here("release", "spec.toml")
    assert _files(ready) == before


@pytest.mark.parametrize("step", ["write_bytes", "fsync"])
def test_a_folder_that_takes_no_files_costs_nothing(
    refused_here: Said, ready: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Folders can be made in it, but the names are too long, say, or it cannot be synced."""
    before = _files(ready)

    def fail(*_: object) -> None:
        raise OSError(36, "File name too long")

    monkeypatch.setattr(*((Path, step, fail) if step == "write_bytes" else (os, step, fail)))
    assert "output: expected a writable location, given File name too long" in refused_here("release", "spec.toml")
    assert _files(ready) == before


@pytest.mark.parametrize(
    ("old", "new"),
    [('"M"]', '"M", "X"]'), ('epsilon = "1"', 'epsilon = "0.5"'), ("all_kway = [1, 2]", "all_kway = [2]")],
    ids=["schema", "guarantee", "workload"],
)
def test_a_spec_edited_after_the_plan_is_refused(
    said: Said, refused_here: Said, ready: Path, old: str, new: str
) -> None:
    said("plan", "spec.toml", "--save", "plan.json")
    spec = ready / "spec.toml"
    text = spec.read_text(encoding="utf-8")
    assert old in text
    spec.write_text(text.replace(old, new, 1), encoding="utf-8")
    assert "the spec was changed" in refused_here("release", "spec.toml", "--plan", "plan.json")
    assert not (ready / "out").exists()
    assert not (ready / "ledger.db").exists()


def test_a_plan_that_was_edited_is_refused(said: Said, refused_here: Said, ready: Path) -> None:
    said("plan", "spec.toml", "--save", "plan.json")
    file = ready / "plan.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**document, "denominator": document["denominator"] // 2}), encoding="utf-8")
    assert "the plan was changed" in refused_here("release", "spec.toml", "--plan", "plan.json")
    assert "a readable file" in refused_here("release", "spec.toml", "--plan", "nowhere.json")
    file.write_bytes(b"\xff\xfe")
    assert "text that is not UTF-8" in refused_here("release", "spec.toml", "--plan", "plan.json")


FORGED: dict[str, dict[str, Any]] = {  # what somebody may write who knows how to work out a digest
    "determine every table": {
        "groups": [[[0, 1, "cells"]]] * 30,
        "shares": [1] * 30,
        "denominator": 30,
        "bundles": None,
    },
    "the predicted variances": {"predicted_variance_per_cell": [1.5, 1.5, 1.5]},
}


@pytest.mark.parametrize("problem", FORGED)
def test_a_plan_that_says_too_little_or_other_than_it_does_is_refused_before_the_charge(
    said: Said, refused_here: Said, ready: Path, problem: str
) -> None:
    """Its tables could not be recovered, or its release not be verified, after it was paid for."""
    said("plan", "spec.toml", "--save", "plan.json")
    file = ready / "plan.json"
    document = {**json.loads(file.read_text(encoding="utf-8")), **FORGED[problem]}
    for key in ("digest", *(["laws"] if problem == "determine every table" else [])):
        document.pop(key, None)
    file.write_text(json.dumps({**document, "digest": digest_of(document)}), encoding="utf-8")
    message = refused_here("release", "spec.toml", "--plan", "plan.json")
    assert problem in message
    assert "Nothing was charged" in message
    assert not (ready / "out").exists()


def test_a_plan_printed_by_plan_is_taken_too(said: Said, ready: Path) -> None:
    (ready / "plan.json").write_text(said("plan", "spec.toml", "--json"), encoding="utf-8")
    said("release", "spec.toml", "--plan", "plan.json")


def test_data_that_is_missing_or_lacks_a_column_costs_nothing(said: Said, refused_here: Said, ready: Path) -> None:
    said("release", "spec.toml", "--output", "one")
    data = ready / "people.csv"
    data.rename(ready / "moved.csv")
    before = _files(ready)
    assert "people.csv" in refused_here("release", "spec.toml")
    assert _files(ready) == before
    data.write_text("sex,height\nF,1\n", encoding="utf-8")
    assert "one column named 'age'" in refused_here("release", "spec.toml")
    assert _remaining(said) == "1.5"
    assert not (ready / "out").exists()


def test_a_value_that_is_refused_costs_nothing_and_is_not_quoted(said: Said, refused_here: Said, ready: Path) -> None:
    """Three times, as a new user tries: the budget is still whole."""
    with (ready / "people.csv").open("a", encoding="utf-8") as stream:
        stream.write("CANARY,3\n")
    for _ in range(3):
        sentence = refused_here("release", "spec.toml")
        assert "column 'sex'" in sentence
        assert "CANARY" not in sentence
        assert sentence.endswith(". Nothing was charged\n")
    assert _remaining(said) == "2.5"
    assert json.loads(said("ledger", "spec.toml", "--json"))["releases"] == []
    assert not (ready / "out").exists()
    assert not [name for name in _files(ready) if "staged" in name]


CHARGED = "The budget was charged: epsilon 1, as release 1 of the ledger"
FAILURES = {
    "counting": ("privcube.sensitive.engines.local.LocalEngine.count", "Nothing was charged", "2.5"),
    "answering": ("privcube.sensitive.gate.exact_answers", "Nothing was charged", "2.5"),
    "charging": (
        "privcube.sensitive.ledger.DurableLedger.charge",
        "Whether the budget was charged is not known; `privcube ledger` shows it",
        "2.5",
    ),
    "drawing": ("privcube.sensitive.gate.SystemNoise.laplace", CHARGED, "1.5"),
    "writing": ("privcube.pipeline.stage", CHARGED, "1.5"),
    "naming": ("privcube.pipeline._rename", CHARGED, "1.5"),
}
RAISED = {
    "refused": (LedgerError("it", expected="to work"), 2, "privcube: it: expected to work. "),
    "of the system": (OSError(5, "broken"), 2, "privcube: expected to read and write, given 'broken'. "),
    "inside": (RuntimeError("CANARY"), 70, "internal error RuntimeError; please report it with these lines. "),
    "interrupted": (KeyboardInterrupt(), 130, "privcube: interrupted. "),
}


@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize("place", FAILURES)
def test_every_failure_says_what_was_charged(
    here: Here, said: Said, ready: Path, monkeypatch: pytest.MonkeyPatch, place: str, raised: str
) -> None:
    """Whatever is raised wherever, and what it says is what the ledger has."""
    problem, code, begins = RAISED[raised]
    name, told, remaining = FAILURES[place]

    def fail(*_: object, **__: object) -> None:
        raise problem

    with monkeypatch.context() as patch:
        problem.__notes__ = ["CANARY of a library"]
        patch.setattr(name, fail)
        result = here("release", "spec.toml")
    assert result.code == code
    assert begins + told in result.err
    assert "CANARY" not in result.out + result.err
    assert _remaining(said) == remaining


def test_a_release_that_cannot_be_paid_for_counts_nothing(
    said: Said, refused_here: Said, ready: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        said("release", "spec.toml", "--output", name)
    ledger = (ready / "ledger.db").read_bytes()
    monkeypatch.setattr("privcube.sensitive.engines.local.LocalEngine.count", None)
    assert "costs at most what is left, 0.5" in refused_here("release", "spec.toml")
    assert (ready / "ledger.db").read_bytes() == ledger


def test_of_two_releases_that_both_could_be_paid_for_the_second_charges_nothing(
    said: Said, refused_here: Said, ready: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process charges while this one counts."""
    said("release", "spec.toml", "--output", "one")
    count = LocalEngine.count

    def meanwhile(*arguments: Any) -> Any:
        monkeypatch.undo()
        monkeypatch.chdir(ready)
        ledger_of(ready).charge("a" * 64, PureDP(1))
        return count(*arguments)

    monkeypatch.setattr(LocalEngine, "count", meanwhile)
    sentence = refused_here("release", "spec.toml")
    assert "costs at most what is left, 0.5" in sentence
    assert "Nothing was charged" in sentence
    assert _remaining(said) == "0.5"
    assert not (ready / "out").exists()


def ledger_of(folder: Path) -> DurableLedger:
    return pipeline._open(Spec.read(folder / "spec.toml"), folder)


def test_a_plan_warns_of_values_that_may_stop_its_release(said: Said, ready: Path) -> None:
    warning = "Warning     Values that are missing or undeclared may stop the release: "
    assert f"{warning}sex, age. If" in said("plan", "spec.toml")
    spec = ready / "spec.toml"
    text = spec.read_text(encoding="utf-8")
    policies = 'missing = "category"\nother = "category"'
    spec.write_text(text.replace('name = "sex"', f'name = "sex"\n{policies}'), encoding="utf-8")
    assert f"{warning}age. If" in said("plan", "spec.toml")
    spec.write_text(text.replace('name = "', f'{policies}\nname = "'), encoding="utf-8")
    assert "Warning" not in said("plan", "spec.toml")


def test_drafts_are_refused(said: Said, refused_here: Said, ready: Path) -> None:
    (ready / "spec.toml").unlink()
    said("init", "--from", "people.csv")
    assert "confirmed" in refused_here("release", "spec.toml")


# Ledgers


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anything")
def test_a_ledger_that_cannot_be_written(said: Said, refused_here: Said, ready: Path) -> None:
    said("release", "spec.toml", "--output", "one")
    (ready / "ledger.db").chmod(0o444)
    assert "ledger" in refused_here("release", "spec.toml")
    assert not (ready / "out").exists()
    assert _remaining(said) == "1.5"


def test_a_ledger_that_sqlite_takes_for_read_only(
    said: Said, refused_here: Said, ready: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for root, who may write anything: the file is opened read-only."""
    said("release", "spec.toml", "--output", "one")
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda name, **options: connect(name.replace("mode=rw", "mode=ro"), **options)
    )
    assert "can be written" in refused_here("release", "spec.toml")
    assert not (ready / "out").exists()
    assert _remaining(said) == "1.5"


def _edit(spec: Path, old: str, new: str) -> None:
    text = spec.read_text(encoding="utf-8")
    assert old in text
    spec.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize("declared", ['dataset = "others"', 'dataset = "People-2030"', ""])
def test_the_ledger_of_another_data_set(said: Said, refused_here: Said, ready: Path, declared: str) -> None:
    said("release", "spec.toml", "--output", "one")
    _edit(ready / "spec.toml", 'dataset = "people-2030"', declared)
    for command in (["release"], ["ledger"], ["ledger", "check"], ["ledger", "recover"]):
        sentence = refused_here(*command, "spec.toml")
        assert "its own data set, 'people-2030' ([data] dataset = \"people-2030\" in the spec)" in sentence
    assert not (ready / "out").exists()


def test_a_file_that_is_moved_and_the_next_one_charge_the_same_ledger(said: Said, ready: Path) -> None:
    said("release", "spec.toml", "--output", "one")
    (ready / "moved").mkdir()
    (ready / "people.csv").rename(ready / "moved" / "february.csv")
    _edit(ready / "spec.toml", "people.csv", "moved/february.csv")
    assert "Ledger      epsilon 0.5 of 2.5 left after 2 releases" in said("release", "spec.toml", "--output", "two")
    found = json.loads(said("ledger", "--json", "spec.toml"))
    assert found["dataset"] == "people-2030"
    assert [release["source"] for release in found["releases"]] == ["people.csv", "moved/february.csv"]
    assert "  moved/february.csv  two " in said("ledger", "spec.toml")


def test_no_ledger_is_made_for_a_data_set_without_a_name(refused_here: Said, ready: Path) -> None:
    _edit(ready / "spec.toml", 'dataset = "people-2030"', "")
    sentence = refused_here("release", "spec.toml")
    assert 'expected a data set to create it for: [data] dataset = "discharges-2026" in the spec' in sentence
    assert _files(ready) == {"people.csv", "spec.toml"}


@pytest.mark.parametrize(
    "content", [b"", b"no ledger", b"SQLite format 3\0" + b"\0" * 200], ids=["empty", "text", "cut"]
)
def test_a_file_that_is_no_ledger(refused_here: Said, ready: Path, content: bytes) -> None:
    (ready / "ledger.db").write_bytes(content)
    for command in ("release", "ledger"):
        assert "ledger.db" in refused_here(command, "spec.toml")
    assert (ready / "ledger.db").read_bytes() == content
    assert not (ready / "out").exists()


def test_a_ledger_that_is_not_there(refused_here: Said, ready: Path, write_spec: Write) -> None:
    assert "a release creates it" in refused_here("ledger", "spec.toml")
    assert not (ready / "ledger.db").exists()
    write_spec()
    assert "a ledger in the spec" in refused_here("ledger", "spec.toml")


def test_the_ledger_lists_what_happened(said: Said, ready: Path) -> None:
    said("release", "spec.toml", "--output", "one")
    text = said("ledger", "spec.toml")
    assert text == said("ledger", "show", "spec.toml")
    assert "Ledger      ledger.db\nData        people-2030\nTotal       epsilon = 2.5 (pure)" in text
    (line,) = [line.split() for line in text.splitlines() if line.startswith("1 ")]
    assert (line[0], line[2], line[-3], line[-2], line[-1]) == ("1", "published", "one", "1", "1.5")
    found = json.loads(said("ledger", "--json", "spec.toml"))
    (entry,) = found["releases"]
    assert (found["total"], found["spent"], found["remaining"]) == ("2.5", "1", "1.5")
    assert entry["state"] == "published"
    assert entry["folder"] == str(ready / "one")
    assert set(entry["times"]) == {"reserved", "committed", "published"}
    assert said("ledger", "recover", "spec.toml").startswith("nothing to recover")


@pytest.mark.parametrize(
    "arguments", [["chekc", "spec.toml"], ["a.toml", "b.toml"], []], ids=["misspelt", "two", "none"]
)
def test_ledger_commands_that_are_none(here: Here, arguments: list[str]) -> None:
    result = here("ledger", *arguments)
    assert result.code == 2
    assert "No such command" in result.err or "Usage: privcube ledger" in result.out + result.err


def test_a_ledger_in_mu_squared(said: Said, write_spec: Write, write_people: Callable[[], Path]) -> None:
    write_people()
    write_spec(privacy='epsilon = "1"\ndelta = "1e-6"\nledger = "l.db"\ntotal_epsilon = "2"\ntotal_delta = "1e-6"')
    assert "Ledger      mu^2 0.1" in (shown := said("release", "spec.toml"))
    assert "Room        a release of up to epsilon 1." in shown
    assert "Left        mu^2 0.1" in (shown := said("ledger", "spec.toml"))
    assert "Next        a release of up to epsilon 1." in shown
    document = json.loads(said("ledger", "spec.toml", "--json"))
    assert document["currency"] == "mu^2"
    assert Fraction(document["spent"]) == sum(Fraction(each["cost"]) for each in document["releases"])


def test_a_ledger_in_rho(said: Said, write_spec: Write, write_people: Callable[[], Path]) -> None:
    """Discrete noise, as it was drawn when the ledger was made; a release of today is then paid in rho as well."""
    write_people()
    privacy = 'epsilon = "1"\ndelta = "1e-6"\nledger = "l.db"\ntotal_epsilon = "2"\ntotal_delta = "1e-6"'
    write_spec(privacy=f'{privacy}\ncalibration = "zcdp"')
    assert "Ledger      rho 0.0" in (shown := said("release", "spec.toml"))
    assert "(through zCDP: rho adds up)" in shown
    write_spec(privacy=privacy)
    assert "Ledger      rho 0.0" in said("release", "spec.toml", "--output", "two")
    assert "Left        rho 0.0" in said("ledger", "spec.toml")


def test_a_plan_is_pure_only_if_no_more_is_left_for_others(
    said: Said, write_spec: Write, write_people: Callable[[], Path]
) -> None:
    """A pure plan takes a larger part of a total; it is taken where the release takes all of it anyway."""
    write_people()
    write_spec(privacy='epsilon = "0.5"\ndelta = "1e-6"\nledger = "l.db"\ntotal_epsilon = "1"\ntotal_delta = "1e-6"')
    assert "epsilon = 0.5, delta = 0.000001" in said("plan", "spec.toml")
    assert "Ledger      mu^2 0.0" in said("release", "spec.toml")
    write_spec(privacy='epsilon = "1"\ndelta = "1e-6"\nledger = "m.db"\ntotal_epsilon = "1"\ntotal_delta = "1e-6"')
    assert "epsilon = 1 (pure)" in said("plan", "spec.toml")
    shown = said("release", "spec.toml", "--output", "two")
    assert "Guarantee   epsilon = 1 (pure)" in shown
    assert "Ledger      epsilon 0 of 1 left after 1 release" in shown
    assert "Room        none: the total is spent" in shown


def test_check_finds_a_folder_that_was_changed_or_moved(said: Said, here: Here, ready: Path) -> None:
    said("release", "spec.toml")
    (ready / "out").rename(ready / "moved")
    assert "missing from out" in said("ledger", "check", "spec.toml")
    (ready / "moved").rename(ready / "out")
    (ready / "out" / "release.json").write_text("{}", encoding="utf-8")
    result = here("ledger", "check", "spec.toml")
    assert result.code == 1
    assert "CHANGED, out is not what was published" in result.out


def test_recovery_publishes_the_very_bytes_after_a_crash_before_the_rename(
    said: Said, ready: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies after the commit; everything it would have cleaned up stays, as after kill -9."""
    code = (
        "import os, sys, privcube.pipeline as pipeline\n"
        "pipeline._rename = lambda staged, final: os._exit(9)\n"
        "from privcube.cli.main import main\n"
        "sys.argv = ['privcube', 'release', 'spec.toml']\n"
        "main()\n"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ready, check=False).returncode == 9
    (staged,) = [name for name in ready.iterdir() if "staged" in name.name]
    bytes_of = {name: (staged / name).read_bytes() for name in _files(staged) if (staged / name).is_file()}
    assert "If none is running, clean up with: privcube ledger recover spec.toml" in said("ledger", "spec.toml")
    assert said("ledger", "recover", "spec.toml") == "release 1: published\n"
    assert bytes_of == {name: (ready / "out" / name).read_bytes() for name in bytes_of}
    assert not staged.exists()
    assert said("verify", "out", "--spec", "spec.toml").endswith("all checks passed\n")


# Names, interruption, errors inside


def test_names_reach_no_terminal_raw(
    said: Said, write_spec: Write, write_people: Callable[[], Path], tmp_path: Path
) -> None:
    """U+202E turns text around, U+200B has no width: names may have them, terminals do not get them."""
    write_people()
    odd = "a\\u202eb\\u200bc"
    write_spec(attributes=f'[[attributes]]\nname = "{odd}"\nvalues = ["F", "M"]', workload="all_kway = [1]")
    data = (tmp_path / "people.csv").read_text(encoding="utf-8").replace("sex", "a\u202eb\u200bc", 1)
    (tmp_path / "people.csv").write_text(data, encoding="utf-8")
    texts = [
        said("release", "spec.toml"),
        said("show", "out"),
        said("show", "out", "--json"),
        said("show", "out", "a\u202eb\u200bc"),
        said("query", "out", "a\u202eb\u200bc=F"),
        said("plan", "spec.toml", "--compare", "--count", "--accuracy", "5"),
        said("plan", "spec.toml", "--json"),
    ]
    assert all(text.replace("\n", "").replace("±", "+").isprintable() for text in texts)
    assert "a\\u202eb\\u200bc" in texts[1]


def test_a_folder_whose_name_colors_the_terminal(here: Here) -> None:
    for command in ("show", "query", "verify"):
        result = here(command, "\x1b[31mout\x9b")
        assert result.code == 2
        assert "\x1b" not in result.err
        assert "\x9b" not in result.err


def test_an_error_inside_is_told_without_its_words(here: Here, ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library's message may quote records; where it happened may be told."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("CANARY")

    monkeypatch.setattr("privcube.pipeline.publish", fail)
    result = here("release", "spec.toml")
    assert result.code == 70
    assert "internal error RuntimeError" in result.err
    assert "release.py" in result.err
    assert "CANARY" not in result.out + result.err


def test_a_full_disk_is_one_sentence(here: Here, ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "out/tables")

    monkeypatch.setattr("privcube.pipeline.publish", fail)
    result = here("release", "spec.toml")
    assert result.code == 2
    assert result.err == "privcube: file 'out/tables': expected to read and write, given 'No space left on device'\n"


SLOW = """
import signal, sys, time, privcube.sensitive.engines.local as local
from privcube.sensitive.refusals import without_quotes
def slow(*arguments):
    print("reading", flush=True)
    {wait}
local.coded_batches = slow
from privcube.cli.main import main
sys.argv = ["privcube", "release", "spec.toml"]
signal.signal(signal.SIGINT, signal.default_int_handler)  # where these tests run, interrupts may be ignored
main()
"""
WAITS = {
    "in Python": "time.sleep(60)",
    "in a library that takes it for its own error": "with without_quotes('file', 'records'):\n"
    "        try:\n"
    "            time.sleep(60)\n"
    "        except KeyboardInterrupt:\n"
    "            raise RuntimeError('interrupted') from None",
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_an_interrupted_release(ready: Path, said: Said, wait: str) -> None:
    """Ctrl-C while records are read: one sentence, code 130, nothing left and nothing charged."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW.format(wait=wait)],
        cwd=ready,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 130
    assert out == ""
    assert err.strip() == "privcube: interrupted. Nothing was charged"
    assert _remaining(said) == "2.5"
    assert not [name for name in _files(ready) if "staged" in name or name == "out"]


@pytest.mark.parametrize(("delta", "noise"), [("1e-9", "pure"), ("0.05", "rounded")])
def test_an_exact_calibration_from_plan_to_verify(
    said: Said, write_spec: Write, write_people: Callable[[], Path], delta: str, noise: str
) -> None:
    """Whichever noise is better: the release says which guarantee it has, and verify recomputes it from the folder."""
    write_people()
    folder = write_spec(privacy=f'epsilon = "1"\ndelta = "{delta}"\ncalibration = "exact"').parent
    guarantee = "Guarantee   epsilon = 1 (pure)" if noise == "pure" else "Guarantee   epsilon = 1, delta = 0.05"
    assert guarantee in said("plan", "spec.toml", "--save", "plan.json")
    assert guarantee in said("release", "spec.toml", "--plan", "plan.json")
    statement = " ".join((folder / "out" / "PRIVACY.md").read_text(encoding="utf-8").split())
    assert ("pure differential privacy" in statement) is (noise == "pure")
    assert ("rounded to the nearest whole number" in statement) is (noise == "rounded")
    assert ("the noise costs mu^2" in said("verify", "out")) is (noise == "rounded")
