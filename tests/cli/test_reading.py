"""A release is read again: verify, show, query, export, and what the shell completes."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from privcube import PureDP, Release, plan, release
from privcube.cli.commands.query import show_answer, show_share
from privcube.model.measurements import Measurements
from privcube.released.means import Mean
from privcube.released.ratios import Share
from privcube.released.release import Answer
from privcube.sensitive.ledger import open_ledger
from privcube.version import __version__

Command = Callable[..., subprocess.CompletedProcess[str]]
Here = Callable[..., Any]
Said = Callable[..., str]
Write = Callable[..., Path]

LEDGER = 'epsilon = "1"\nledger = "ledger.db"\ntotal_epsilon = "2.5"'
MARGINALS = 'strategy = "marginals"'


@pytest.fixture
def released(said: Said, ready: Path) -> Path:
    """A folder in which `out` is a release."""
    said("release", "spec.toml")
    return ready


def _files(folder: Path) -> set[str]:
    return {file.relative_to(folder).as_posix() for file in folder.rglob("*")}


# verify


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_a_flipped_byte_is_found_and_named(said: Said, here: Here, ready: Path) -> None:
    said("release", "spec.toml")
    for name in sorted(_files(ready / "out")):
        file = ready / "out" / name
        if not file.is_file():
            continue
        content = file.read_bytes()
        _flip(file)
        result = here("verify", "out")
        assert result.code == 1, (name, result)
        failed = [line for line in result.out.splitlines() if line.startswith("FAIL")]
        assert failed
        assert any(name in line for line in failed), (name, failed)
        file.write_bytes(content)
    assert said("verify", "out").endswith("out: all checks passed\n")


def test_verify_as_json(said: Said, here: Here, ready: Path) -> None:
    said("release", "spec.toml")
    found = json.loads(said("verify", "out", "--spec", "spec.toml", "--json"))
    assert found["passed"] is True
    assert found["checks"][-1]["check"] == "ledger"
    assert all(check["passed"] for check in found["checks"])
    (ready / "out" / "release.json").unlink()
    result = here("verify", "out", "--json")
    assert result.code == 1
    assert json.loads(result.out)["passed"] is False


NOT_ALL = "out: NOT ALL CHECKED: no check failed, but 2 checks could be made only in part"


def test_files_of_the_publisher_are_named_and_fail_only_if_strict(said: Said, here: Here, ready: Path) -> None:
    said("release", "spec.toml")
    (ready / "out" / "README").write_text("hello")
    result = here("verify", "out")
    assert result.code == 0
    assert "not covered: 'README'" in result.out.splitlines()[0]
    assert result.out.splitlines()[-1] == "out: all checks passed; files beside the release are not covered"
    result = here("verify", "out", "--json")
    assert result.code == 0
    found = json.loads(result.out)
    assert (found["passed"], found["partial"], found["files_not_covered"]) == (True, False, True)
    result = here("verify", "out", "--strict")
    assert result.code == 1
    assert result.out.endswith("out: 1 check failed\n")


def test_a_forger_who_claims_another_version_does_not_get_a_zero(said: Said, here: Here, ready: Path) -> None:
    """The promise of a statement is turned around, everything else fits, and the version excuses the other words."""
    said("release", "spec.toml")
    out = ready / "out"
    statement, manifest = out / "PRIVACY.md", out / "release.json"
    statement.write_text(statement.read_text(encoding="utf-8") + "\nNobody is protected.\n", encoding="utf-8")
    sums = out / "SHA256SUMS"

    def seal() -> None:
        for file in (statement, manifest):
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            lines = sums.read_text(encoding="utf-8").splitlines()
            changed = [f"{digest}  {file.name}" if line.endswith(f"  {file.name}") else line for line in lines]
            sums.write_text("\n".join(changed) + "\n", encoding="utf-8")

    seal()
    assert here("verify", "out").code == 1
    stated = manifest.read_text(encoding="utf-8")
    manifest.write_text(stated.replace(f'"privcube": "{__version__}"', '"privcube": "0.0.1"'), encoding="utf-8")
    seal()
    result = here("verify", "out")
    assert result.code == 3
    assert "NOT CHECKED: the other words of PRIVACY.md" in result.out
    assert result.out.splitlines()[-1] == NOT_ALL
    assert here("verify", "out", "--strict").code == 1


def test_verify_asks_the_ledger(said: Said, here: Here, ready: Path) -> None:
    said("release", "spec.toml", "--output", "one")
    shutil.copy(ready / "ledger.db", ready / "old.db")
    said("release", "spec.toml", "--output", "two")
    shutil.copy(ready / "old.db", ready / "ledger.db")  # a backup is restored
    assert said("verify", "one", "--spec", "spec.toml").endswith("one: all checks passed\n")
    result = here("verify", "two", "--spec", "spec.toml")
    assert result.code == 1
    assert "FAIL  ledger: the ledger does not contain the charge for this release" in result.out
    assert result.out.endswith("two: 1 check failed\n")


def _with_receipt(folder: Path, other: Path, **changed: object) -> Release:
    """A release with another's receipt."""
    return Release(Release.open(folder).measurements, {**Release.open(other).provenance, **changed})


def test_verify_finds_forgeries_that_carry_a_receipt(said: Said, here: Here, ready: Path) -> None:
    """Each is whole: all files follow from its measurements, with their checksums. Only the ledger can tell."""
    said("release", "spec.toml", "--output", "one")
    said("release", "spec.toml", "--output", "two")
    said("verify", "one", "--spec", "spec.toml")
    said("verify", "two", "--spec", "spec.toml")
    honest = Release.open(ready / "one")
    expensive = plan(honest.workload, PureDP(1000), strategy="marginals")
    again = release(honest.plan, ready / "people.csv")
    shifted = Measurements(honest.plan, honest.measurements.answers + 5000)
    paid = open_ledger(str(ready / "ledger.db"), dataset="people-2030", total=None)
    forged = {
        "epsilon 1000": (
            Release(release(expensive, ready / "people.csv").measurements, honest.provenance),
            "release 1 was charged for another plan",
        ),
        "plus 5,000": (Release(shifted, honest.provenance), "these are not the bytes of release 1"),
        "drawn once more": (Release(again.measurements, honest.provenance), "these are not the bytes of release 1"),
        "the noise of another": (_with_receipt(ready / "two", ready / "one"), "these are not the bytes of release 1"),
        "another number": (
            _with_receipt(ready / "one", ready / "one", entry=2), "the receipt is that of release 1, not 2",
        ),
        "no release": (_with_receipt(ready / "one", ready / "one", head=paid.head), "does not contain the charge"),
        "another total": (
            _with_receipt(ready / "one", ready / "one", total={"epsilon": "1"}), "the ledger has another total",
        ),
    }  # fmt: skip
    for name, (made, sentence) in forged.items():
        made.save(ready / name)
        assert said("verify", name).endswith(f"{name}: all checks passed\n")
        result = here("verify", name, "--spec", "spec.toml")
        assert result.code == 1
        (line,) = [line for line in result.out.splitlines() if line.startswith("FAIL")]
        assert line.startswith("FAIL  ledger: ")
        assert sentence in line


def test_verify_wants_bytes_that_were_committed(said: Said, here: Here, ready: Path) -> None:
    """A charge alone says nothing about what was made of it."""
    said("release", "spec.toml", "--output", "one")
    ledger = open_ledger(str(ready / "ledger.db"), dataset="people-2030", total=None)
    made = release(Release.open(ready / "one").plan, ready / "people.csv", ledger)
    made.save(ready / "out")
    for state in ("reserved", "abandoned"):
        result = here("verify", "out", "--spec", "spec.toml")
        assert result.code == 1
        assert f"FAIL  ledger: release 2 is {state}: no bytes of it were ever published" in result.out
        if state == "reserved":
            ledger.abandon(2)
    assert [entry.source for entry in ledger.entries()] == ["people.csv", str(ready / "people.csv")]


def test_verify_of_what_is_no_release(refused_here: Said, ready: Path) -> None:
    refused_here("verify", "nowhere")
    refused_here("verify", "spec.toml")
    (ready / "empty").mkdir()
    assert "the folder of a release" in refused_here("verify", "empty")
    refused_here("verify", ".")
    for command in ("show", "query"):
        refused_here(command, "nowhere")
        refused_here(command, "empty")


def test_verify_without_a_ledger(said: Said, here: Here, write_spec: Write, write_people: Callable[[], Path]) -> None:
    write_people()
    write_spec(plan=MARGINALS)
    said("release", "spec.toml")
    said("verify", "out")
    write_spec(plan=MARGINALS, privacy=LEDGER)
    result = here("verify", "out", "--spec", "spec.toml")
    assert result.code == 1
    assert "made without a ledger" in result.out


# show and query


def test_show_lists_the_tables(said: Said, released: Path) -> None:
    lines = said("show", "out").splitlines()
    assert lines[0] == "Guarantee   epsilon = 1 (pure), adding or removing one row"
    assert lines[1] == "Tables      3 tables, 32 cells"
    assert [line.split()[0] for line in lines[3:]] == ["table", "sex", "age", "sex"]
    assert said("show", "out", "--rows", "1").endswith("... and 2 more tables (--rows 0 lists all)\n")
    found = json.loads(said("show", "out", "--json"))
    assert [table["cells"] for table in found["tables"]] == [2, 10, 20]


def test_show_says_what_the_release_says(said: Said, released: Path) -> None:
    table = Release.open(released / "out").table(("sex", "age"), confidence=0.9)
    found = json.loads(said("show", "out", "age", "sex", "--json", "--confidence", "0.9"))
    assert found["table"] == "sex x age"
    assert [list(row["labels"].values()) for row in found["rows"]] == table[["sex", "age"]].to_numpy().tolist()
    for column in ("estimate", "std_error", "low", "high", "low_all", "high_all"):
        assert [row[column] for row in found["rows"]] == pytest.approx(table[column].tolist())
    listed = json.loads(said("show", "out", "--json"))["tables"][2]
    assert listed["std_error"] == pytest.approx(float((table["std_error"] ** 2).mean()) ** 0.5)


def test_show_prints_aligned_columns(said: Said, released: Path) -> None:
    lines = said("show", "out", "sex x age", "--long", "--rows", "12").splitlines()
    assert lines[0] == "sex x age: 20 cells; each margin holds with 95% confidence"
    table = lines[2:15]
    assert len({line.index("±") for line in table[1:]}) == 1
    assert lines[15] == "... and 8 more lines (--rows 0 shows all)"
    assert "hold for all 20 numbers at once with 95% confidence" in lines[-1]
    assert said("show", "out", "total").splitlines()[0] == "total: 1 cell; each margin holds with 95% confidence"


def test_show_by_rows_and_columns(said: Said, refused_here: Said, released: Path) -> None:
    lines = said("show", "out", "sex", "age").splitlines()
    wide = said("show", "out", "sex", "age", "--columns", "sex").splitlines()
    assert wide[2].split() == ["age", "/", "sex", "F", "M"]
    assert len([line for line in wide if "±" in line]) == 10 + 1
    assert all(len(line) <= 80 for line in (*lines, *wide))
    assert "one of two attributes" in refused_here("show", "out", "sex", "--columns", "sex")
    assert "did you mean 'age'" in refused_here("show", "out", "sex", "age", "--columns", "agee")


def test_show_draws_bars_where_there_is_room(said: Said, released: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert any("█" in line or "#" in line for line in said("show", "out", "age").splitlines())
    monkeypatch.setenv("COLUMNS", "44")
    narrow = said("show", "out", "age").splitlines()
    assert not any("█" in line for line in narrow)
    assert all(len(line) <= 44 for line in narrow)


def test_wrong_tables(refused_here: Said, released: Path) -> None:
    assert "did you mean 'sex'?" in refused_here("show", "out", "sxe")
    assert "did you mean 'age'?" in refused_here("export", "out", "sex x agee", "--format", "csv", "--to", "t")
    assert not (released / "t").exists()


def test_query_says_what_the_release_says(said: Said, released: Path) -> None:
    expected = Release.open(released / "out").query({"sex": "F", "age": slice(3, 7)}, confidence=0.9)
    found = json.loads(said("query", "out", "sex=F", "age=3..7", "--confidence", "0.9", "--json"))
    assert found["conditions"] == ["sex=F", "age=3..7"]
    for name in ("estimate", "std_error", "low", "high", "confidence"):
        assert found[name] == pytest.approx(getattr(expected, name))
    lines = said("query", "out", "sex=F", "age=3..7").splitlines()
    assert lines[0] == "Count of    sex=F, age=3..7"
    assert [line.split()[0] for line in lines] == ["Count", "Estimate", "Interval", "Std."]
    assert said("query", "out").startswith("Count of    all records\n")


def test_wrong_queries(refused_here: Said, released: Path) -> None:
    assert "available: F, M" in refused_here("query", "out", "sex=X")
    assert "did you mean 'sex'?" in refused_here("query", "out", "sxe=F")


def test_intervals_are_rounded_outward_and_confidence_is_not_rounded(capsys: pytest.CaptureFixture[str]) -> None:
    show_answer(Answer(1_000.2, 150.0, 699.8, 1_300.6, 0.99999), ("sex=F",))
    shown = capsys.readouterr().out
    assert "1,000 ± 301\n" in shown
    assert "699 to 1,301, with 99.999% confidence\n" in shown
    show_share(Share(0.5, 0.24996, 0.75001, 0.95), ("sex=F",), ())
    assert "24.99 % to 75.01 %, with 95% confidence" in capsys.readouterr().out
    assert str(Share(0.5, 0.2496, 0.7501, 0.9999)) == "50.0%, from 24.9% to 75.1% (99.99%)"
    assert str(Answer(10.0, 1.0, 8.18, 11.82, 0.999)) == "10.0 ± 1.9 (99.9%)"
    assert str(Mean(1_234_567.8, 1_200_000.0, 1_300_000.0, 0.95)).startswith("1,234,570, from 1,200,000 to 1,300,000")


@pytest.mark.parametrize("value", ["0", "1", "-1", "nan", "high"])
def test_a_confidence_that_is_none(here: Here, value: str) -> None:
    assert here("query", "out", "--confidence", value).code == 2


# export


@pytest.mark.parametrize(
    ("kind", "target"), [("csv", "t.csv"), ("parquet", "t.pq"), ("xlsx", "t.xlsx"), ("json-stat", "t.json")]
)
def test_export(said: Said, refused_here: Said, released: Path, kind: str, target: str) -> None:
    assert said("export", "out", "--format", kind, "--to", target) == f"wrote 3 tables to {target}\n"
    assert (released / target).exists()
    before = {name: (released / name).read_bytes() for name in _files(released) if (released / name).is_file()}
    refused_here("export", "out", "--format", kind, "--to", target)
    assert before == {name: (released / name).read_bytes() for name in before}
    assert said("export", "out", "age x sex", "--format", kind, "--to", f"2{target}") == f"wrote 1 table to 2{target}\n"


def test_export_of_a_codebook_says_so(said: Said, released: Path) -> None:
    found = said("export", "out", "--format", "codebook", "--to", "codes.csv")
    assert re.fullmatch(r"wrote the codebook of \d attributes to codes.csv\n", found)


# Completion


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("privcube ver", "verify"),
        ("privcube plan spec.toml --strategy mar", "marginals"),
        ("privcube show out se", "sex x age"),
        ("privcube query out ag", "age="),
        ("privcube query out sex=", "sex=F"),
    ],
)
def test_the_shell_completes(privcube: Command, released: Path, line: str, found: str) -> None:
    result = privcube(_PRIVCUBE_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(len(line.split()) - 1))
    assert f"plain,{found}" in result.stdout.splitlines()
    assert result.stderr == ""


def test_nothing_is_completed_where_there_is_no_release(privcube: Command) -> None:
    result = privcube(_PRIVCUBE_COMPLETE="bash_complete", COMP_WORDS="privcube show nowhere se", COMP_CWORD="3")
    assert (result.stdout.strip(), result.stderr) == ("", "")
