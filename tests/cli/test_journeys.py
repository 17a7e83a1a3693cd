"""What newcomers meet first, from an empty folder to the end: a file that does not fit, a query that multiplies rows,
a file with semicolons.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from privcube.sensitive import gate

Said = Callable[..., str]
Write = Callable[..., Path]
LEDGER = 'epsilon = "1"\nledger = "ledger.db"\ntotal_epsilon = "2"'
ATTRIBUTES = (
    '[[attributes]]\nname = "sex"\nvalues = ["F", "M"]\n\n[[attributes]]\nname = "age"\nbins = [0, 18, 65, 120]\n'
)
QUERY = "SELECT id, sex, age FROM people CROSS JOIN range(1000) AS days(day)"


def test_two_ages_out_of_range(said: Said, refused_here: Said, write_spec: Write, tmp_path: Path) -> None:
    """Three tries cost nothing, `check` says what is wrong, and with its lines there is one release and one charge."""
    rows = "".join(f"{'FM'[number % 2]},{number % 100}\n" for number in range(500))
    (tmp_path / "people.csv").write_text(f"sex,age\n{rows}F,-1\nM,999\n", encoding="utf-8")
    write_spec(privacy=LEDGER, attributes=ATTRIBUTES, plan='strategy = "marginals"')
    assert "may stop the release: sex, age." in " ".join(said("plan", "spec.toml").split())
    for _ in range(3):
        sentence = refused_here("release", "spec.toml")
        assert "column 'age'" in sentence
        assert "(`privcube check` says how many). Nothing was charged" in sentence
    before = json.loads(said("ledger", "spec.toml", "--json"))
    assert (before["spent"], before["releases"]) == ("0", [])

    told = said("check", "spec.toml")
    assert "  age: 1 below the range, 1 above it\n" in told
    assert "Release     would stop" in told
    suggested = re.findall(r"^  \[\[attributes\]\] age:  (.*)$", told, flags=re.MULTILINE)
    assert [line.split(" = ")[0] for line in suggested] == ["underflow", "overflow"]
    write_spec(
        privacy=LEDGER, attributes=ATTRIBUTES + "\n".join(suggested), plan='strategy = "marginals"'
    )  # the lines as they are printed
    assert "Release     would not stop" in said("check", "spec.toml")
    assert "Ledger      epsilon 1 of 2 left after 1 release" in said("release", "spec.toml")
    after = json.loads(said("ledger", "spec.toml", "--json"))
    assert [(entry["state"], entry["cost"]) for entry in after["releases"]] == [("published", "1")]
    assert said("verify", "out", "--spec", "spec.toml").endswith("all checks passed\n")


class _Still:
    """No noise, to see what enters the mechanism, with the scale of the noise for each of its numbers."""

    def __init__(self) -> None:
        self.scales: list[Fraction] = []

    def laplace(self, scale: Fraction, count: int) -> Any:
        self.scales += [scale] * count
        return np.zeros(count, dtype=np.int64)


def test_a_query_that_multiplies_rows(
    said: Said, refused_here: Said, write_spec: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused without a unit; with a person, what a person moves is what the noise is made for."""
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS SELECT i AS id, 'F' AS sex, i AS age FROM range(10) AS t(i)")
    data = f'source = "people.duckdb"\ndataset = "people"\nquery = "{QUERY}"'
    written = {"privacy": LEDGER, "plan": 'strategy = "marginals"'}
    write_spec(data=data, **written)
    for command in ("check", "plan", "release"):
        assert 'person and max_rows_per_person, or unit = "row of the query"' in refused_here(command, "spec.toml")
    assert not (tmp_path / "ledger.db").exists()

    write_spec(data=f'{data}\nperson = "id"\nmax_rows_per_person = 2', **written)
    assert "10 have more than 2, which leaves out 9,980 rows" in said("check", "spec.toml")
    unit = "adding or removing one person with at most 2 rows"
    assert f"Guarantee   epsilon = 1 (pure), {unit}" in said("plan", "spec.toml")
    entered = []

    def measure(*arguments: Any, **options: Any) -> Any:
        still = _Still()
        made = gate.measure(*arguments, **options, noise_from=still)
        entered.append((made.answers.tolist(), still.scales))
        return made

    monkeypatch.setattr("privcube.pipeline.measure", measure)
    assert unit in said("release", "spec.toml")
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.execute("DELETE FROM people WHERE id = 7")
    said("release", "spec.toml", "--output", "neighbor")
    (answers, scales), (neighbors, _) = entered
    moved = [abs(answer - neighbor) for answer, neighbor in zip(answers, neighbors, strict=True)]
    assert sum(moved) == 3 * 2  # three tables, two rows each
    assert 0.9 < sum(move / scale for move, scale in zip(moved, scales, strict=True)) <= 1  # epsilon, in fractions
    statement = " ".join((tmp_path / "out" / "PRIVACY.md").read_text(encoding="utf-8").split())
    assert "The protected unit is one person" in statement
    assert "at most 2 rows" in statement
    assert said("verify", "out", "--spec", "spec.toml").endswith("all checks passed\n")


def test_a_file_with_semicolons(said: Said, refused_here: Said, tmp_path: Path) -> None:
    """A draft in another language: encoding, semicolons, commas, dates, identifiers, remarks."""
    rows = "".join(
        f"P{number // 2:05};{'WM'[number % 2]};{140 + number / 10:.1f};{'Köln' if number % 3 else 'Bonn'};"
        f"{number % 28 + 1:02}.{number % 12 + 1:02}.2026;Text {number}\n".replace(".", ",", 1)
        for number in range(400)
    )
    text = f"Patient;Geschlecht;Größe;Stadt;Aufnahme;Bemerkung\n{rows}"
    (tmp_path / "patienten märz.csv").write_text(text, encoding="windows-1252")
    file = "patienten märz.csv"
    assert "--encoding windows-1252 of `privcube init`" in refused_here("init", "--from", file)
    said("init", "first.toml", "--from", file, "--encoding", "windows-1252")
    assert "draft it again with `privcube init --decimal ,`" in (tmp_path / "first.toml").read_text(encoding="utf-8")
    told = said("init", "--from", file, "--encoding", "windows-1252", "--decimal", ",")
    assert "next: check that its values are public knowledge, remove `draft = true`" in told
    draft = (tmp_path / "spec.toml").read_text(encoding="utf-8")
    assert 'dataset = "patienten-marz"' in draft
    assert 'person = "Patient"' in draft
    assert re.findall("# Left out: column '(.*?)'", draft) == ["Patient", "Bemerkung"]
    assert re.findall('^name = "(.*)"', draft, flags=re.MULTILINE) == ["Geschlecht", "Größe", "Stadt", "Aufnahme"]
    assert "Drafted from data, not yet confirmed: Geschlecht, Größe" in said("plan", "spec.toml", "--effort", "fast")
    assert "given drafts of Geschlecht, Größe, Stadt, Aufnahme. Nothing was charged" in refused_here(
        "release", "spec.toml"
    )

    confirmed = draft.replace("draft = true\n", "").replace("max_rows_per_person = 1 ", "max_rows_per_person = 2 ")
    (tmp_path / "spec.toml").write_text(confirmed, encoding="utf-8")
    told = said("check", "spec.toml")
    assert "separator ';', decimal ','" in told
    assert "Persons     200 in column Patient, with up to 2 rows each; 0 have more than 2" in told
    assert "Release     would not stop" in told
    published = said("release", "spec.toml", "--effort", "fast")
    assert "created for data set patienten-marz with total epsilon = 4" in published
    assert "under 145" in said("show", "out", "Größe")
    assert said("verify", "out", "--spec", "spec.toml").endswith("all checks passed\n")
