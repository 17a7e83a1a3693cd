"""`privcube whole` and `[output] whole_numbers`: from a spec, or added to a release that was made without them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import privcube as pc
from privcube.cli.main import cli
from privcube.pipeline import ledger_objection, publish
from privcube.released.whole import facts as whole_facts
from privcube.released.whole.facts import Facts
from privcube.released.whole.records import Records
from privcube.released.whole.release import WholeRelease

SPEC = """
[data]
source = "people.csv"
dataset = "people"
[privacy]
epsilon = "1"
ledger = "ledger.db"
total_epsilon = "9"
[[attributes]]
name = "sex"
values = ["F", "M"]
[[attributes]]
name = "age"
bins = [0, 15, 40, 100]
levels = [{ name = "stage", bins = [0, 40, 100] }]
[workload]
all_kway = [1, 2]
"""
FACTS = """
[output]
whole_numbers = true
records = true
effort = "fast"
[known]
records = 40
[[impossible]]
sex = "F"
age = { stage = "[40, 100)" }
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    rows = [f"{'F' if number % 3 else 'M'},{number * 7 % 100}" for number in range(40)]
    (tmp_path / "people.csv").write_text("\n".join(["sex,age", *rows]) + "\n")
    (tmp_path / "spec.toml").write_text(SPEC)
    (tmp_path / "facts.toml").write_text(SPEC + FACTS)
    return tmp_path


def run(*words: str) -> str:
    done = CliRunner().invoke(cli, list(words), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(autouse=True)
def any_facts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The records have combinations that the spec calls impossible."""
    if "contradict" not in request.node.name:
        monkeypatch.setattr(whole_facts, "FAR", math.inf)


def test_a_spec_asks_for_whole_numbers(place: Path) -> None:
    run("release", str(place / "facts.toml"))
    found = pc.Release.open(place / "out")
    assert isinstance(found, WholeRelease)
    assert int(found.counts(())) == 40
    assert found.counts(("sex", "age"))[0, 2] == 0
    assert found.found is not None
    assert "count" in run("show", str(place / "out"), "sex")
    rows = json.loads(run("show", str(place / "out"), "sex", "--json"))["rows"]
    assert [row["count"] for row in rows] == found.counts(("sex",)).tolist()
    assert "pass  ledger" in run("verify", str(place / "out"), "--spec", str(place / "facts.toml"))


def test_whole_numbers_are_added_later_and_the_ledger_knows_the_release(place: Path) -> None:
    run("release", str(place / "spec.toml"))
    said = run("whole", str(place / "out"), "--records", "--intervals", "--effort", "fast")
    assert "whole numbers" in said
    assert str(place / "out-whole") in said
    before, after = pc.Release.open(place / "out"), pc.Release.open(place / "out-whole")
    assert not isinstance(before, WholeRelease)
    assert isinstance(after, WholeRelease)
    assert "at least  at most" in run("show", str(place / "out-whole"), "sex")
    row = json.loads(run("show", str(place / "out-whole"), "sex", "--json"))["rows"][0]
    assert 0 <= row["count_low"] <= row["count"] <= row["count_high"]
    assert "pass  ledger" in run("verify", str(place / "out-whole"), "--spec", str(place / "spec.toml"))
    spec = pc.Spec.read(place / "spec.toml")
    answers = after.measurements.answers.copy()
    answers[0] += 1
    other = pc.Release(type(after.measurements)(after.plan, answers), after.provenance).whole("fast")
    other.save(place / "other")
    objection = ledger_objection(spec, pc.Release.open(place / "other"), place / "other", folder=place)
    assert objection == "these are not the bytes of release 1"


def test_whole_numbers_that_somebody_else_added_are_not_vouched_for(place: Path) -> None:
    run("release", str(place / "spec.toml"))
    honest = pc.Release.open(place / "out")
    found = honest.whole("fast").found
    assert found is not None
    for name, times, code in (("little", found.times + 1, 3), ("much", found.times * 1_000, 1)):
        forged = WholeRelease(honest, "fast", Records.of(found.codes, times))
        for records in (forged, forged.without_records()):
            folder = place / f"{name}-{records.found is None}"
            records.save(folder)
            words = ["verify", str(folder), "--spec", str(place / "spec.toml")]
            done = CliRunner().invoke(cli, words)
            assert done.exit_code == code, done.output
            assert "part  ledger" in done.output
            assert ("standard errors of the estimates" in done.output) == (code == 1)
            assert CliRunner().invoke(cli, [*words, "--strict"]).exit_code == 1


def test_facts_that_the_release_contradicts_are_not_verified(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("release", str(place / "spec.toml"))
    with monkeypatch.context() as patch:
        patch.setattr(whole_facts, "FAR", math.inf)
        pc.Release.open(place / "out").knowing(Facts(records=90_000)).save(place / "forged")
    failed = [check for check in pc.verify(place / "forged") if not check.passed]
    assert [check.name for check in failed] == ["tables"]
    assert "expected about as many as were measured" in failed[0].detail


def test_facts_of_a_spec_are_honored_later(place: Path) -> None:
    run("release", str(place / "spec.toml"))
    run("whole", str(place / "out"), "--spec", str(place / "facts.toml"), "--output", str(place / "new"))
    found = pc.Release.open(place / "new")
    assert isinstance(found, WholeRelease)
    assert found.counts(("sex", "age"))[0, 2] == 0
    assert found.counts(("sex",)).sum() == found.facts.records == 40
    assert not (place / "new" / "records.parquet").exists()


def test_facts_that_somebody_else_added_are_not_those_of_the_release(place: Path) -> None:
    """They move all estimates, and everything else about the forged release is right."""
    run("release", str(place / "spec.toml"))
    honest = pc.Release.open(place / "out")
    for number, facts in enumerate([Facts(records=90_000), Facts(impossible=[{"sex": ["F"]}])]):
        honest.knowing(facts).save(place / f"forged-{number}")
        honest.knowing(facts).whole("fast").save(place / f"whole-{number}")
        for name in (f"forged-{number}", f"whole-{number}"):
            assert all(check.passed for check in pc.verify(place / name))
            forged = pc.Release.open(place / name)
            assert not np.allclose(forged.values(("sex",)).estimate, honest.values(("sex",)).estimate, atol=5)
            objection = ledger_objection(pc.Spec.read(place / "spec.toml"), forged, place / name, folder=place)
            assert objection == "it was given facts that neither release 1 nor the spec states"


def test_facts_of_the_spec_may_be_added_later(place: Path) -> None:
    run("release", str(place / "spec.toml"))
    run("whole", str(place / "out"), "--spec", str(place / "facts.toml"), "--output", str(place / "new"))
    found = pc.Release.open(place / "new")
    assert ledger_objection(pc.Spec.read(place / "facts.toml"), found, place / "new", folder=place) is None
    assert ledger_objection(pc.Spec.read(place / "spec.toml"), found, place / "new", folder=place) is not None


def test_specs_come_back(place: Path) -> None:
    text = (SPEC + FACTS).replace("records = true", "records = true\ncount_intervals = true", 1)
    spec = pc.Spec.from_toml(text)
    assert pc.Spec.from_toml(spec.to_toml()) == spec
    assert spec.whole is not None
    assert spec.whole.count_intervals
    assert spec.known.records == 40


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("whole_numbers = true", "whole_numbers = false", "output.records: expected whole_numbers = true"),
        ("records = 40", "records = -1", "records: expected a whole number from 0 to 2^50"),
        (
            "whole_numbers = true\nrecords = true",
            "count_intervals = true",
            "output.count_intervals: expected whole_num",
        ),
        ('effort = "fast"', 'effort = "endless"', "effort: expected a known name"),
        ('sex = "F"', 'sex = "X"', "expected one of its labels"),
        ('sex = "F"', 'six = "F"', "expected attributes of the schema"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_charged(place: Path, old: str, new: str, message: str) -> None:
    (place / "facts.toml").write_text((SPEC + FACTS).replace(old, new))
    done = CliRunner().invoke(cli, ["release", str(place / "facts.toml")])
    assert done.exception is not None
    assert message in str(done.exception)
    assert not (place / "ledger.db").exists()
    assert not (place / "out").exists()


def test_facts_improve_estimates_without_whole_numbers(place: Path) -> None:
    facts = FACTS[FACTS.index("[known]") :]
    (place / "facts.toml").write_text(SPEC + facts)
    out = publish(pc.Spec.read(place / "facts.toml"), folder=place)
    found = pc.Release.open(out)
    assert not isinstance(found, WholeRelease)
    assert found.honors_facts
    own, plain = found.values(("sex", "age")), found.without_facts().values(("sex", "age"))
    assert own.estimate[0, 2] == own.std_error[0, 2] == 0
    assert float(own.estimate.sum()) == pytest.approx(40)
    assert (own.std_error < plain.std_error).all()
    assert found.query({"sex": "F"}).std_error < found.without_facts().query({"sex": "F"}).std_error
    assert all(check.passed for check in pc.verify(out))
    assert "exactly 40 records and that the combinations listed" in " ".join((out / "PRIVACY.md").read_text().split())
    assert "pass  ledger" in run("verify", str(out), "--spec", str(place / "facts.toml"))
    run("whole", str(out), "--effort", "fast", "--records")
    added = pc.Release.open(place / "out-whole")
    assert isinstance(added, WholeRelease)
    assert int(added.counts(("sex",)).sum()) == 40
    assert "pass  ledger" in run("verify", str(place / "out-whole"), "--spec", str(place / "facts.toml"))


def test_publish_without_records_leaves_them_out(place: Path) -> None:
    (place / "facts.toml").write_text((SPEC + FACTS).replace("records = true", "records = false"))
    out = publish(pc.Spec.read(place / "facts.toml"), folder=place)
    assert not (out / "records.parquet").exists()
    assert all(check.passed for check in pc.verify(out))
