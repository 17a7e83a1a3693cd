"""Frozen-noise non-interference: neighbors give the same bytes everywhere.

The whole command line runs on data sets that differ in a few persons, each of whom is there or not (or is one or the
other): two that differ in one person are neighbors. The gate does its work on the records; then its noisy answers are
replaced by constants, as if the noise had made up for the difference. Whatever still differs between two runs is a
leak: a byte of the artifact, of stdout or stderr, the exit code, a file, an event of the ledger. And what enters the
mechanisms differs by no more than what the noise is made for.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privcube import Plan, PureDP, Spec
from privcube.model.groups import group_rows, row_weights
from privcube.model.measurements import Measurements
from privcube.model.sensitivity import largest_l1, squared_l2
from privcube.sensitive import gate

Here = Callable[..., Any]

SPEC = """
[data]
source = "people.csv"
dataset = "people-2030"
{person}

[privacy]
{privacy}
ledger = "ledger.db"

[[attributes]]
name = "sex"
values = ["F", "M"]
missing = "category"
other = "category"

[[attributes]]
name = "age"
bins = [0, 5, 15, 65, 120]
overflow = "clamp"
underflow = "category"
missing = "category"
{levels}

[workload]
all_kway = [1, 2]

[plan]
strategy = "{strategy}"
"""
PERSON = 'person = "id"\nmax_rows_per_person = 2'
MEASURE = """
[[measures]]
name = "years"
column = "age"
low = 0
high = 120
step = 0.5
missing = "category"
overflow = "category"
"""
LEVELS = '[[attributes.levels]]\nname = "stage"\nbins = [0, 15, 120]\n'


class Case(NamedTuple):
    """A spec, and how many persons come and go: n make 2^n data sets and n 2^(n-1) pairs of neighbors.

    PRIVCUBE_ATTACK adds persons: three more in `make attack`.
    """

    spec: str
    persons: int


CASES = {
    "rows, pure": Case(
        SPEC.format(person="", privacy='epsilon = "1"\ntotal_epsilon = "1"', levels="", strategy="marginals"), 3
    ),
    "persons, pure, levels": Case(
        SPEC.format(person=PERSON, privacy='epsilon = "1"\ntotal_epsilon = "3"', levels=LEVELS, strategy="clusters"), 3
    ),
    "persons, exchanged": Case(
        SPEC.format(
            person=PERSON,
            privacy='epsilon = "1"\ntotal_epsilon = "3"\nneighbors = "replace_one"',
            levels="",
            strategy="base_counts",
        ),
        2,
    ),
    "persons, exchanged, a matrix": Case(
        SPEC.format(
            person=PERSON,
            privacy='epsilon = "1"\ntotal_epsilon = "3"\nneighbors = "replace_one"',
            levels="",
            strategy="matrix",
        ),
        2,
    ),
    "persons, a measure": Case(
        SPEC.format(
            person=PERSON, privacy='epsilon = "1"\ntotal_epsilon = "3"', levels=MEASURE, strategy="marginals"
        ).replace("all_kway = [1, 2]", 'all_kway = [1, 2]\nmeasures = ["years"]'),
        2,
    ),
    "rows, a Gaussian matrix": Case(
        SPEC.format(person="", privacy='rho = "0.1"\ntotal_rho = "1"', levels="", strategy="matrix"), 2
    ),
    "rows, Gaussian": Case(
        SPEC.format(person="", privacy='rho = "0.1"\ntotal_rho = "1"', levels="", strategy="residual"), 2
    ),
}
assert sum(case.persons * 2 ** (case.persons - 1) for case in CASES.values()) >= 40
MORE = min(int(os.environ.get("PRIVCUBE_ATTACK", "1")) - 1, 3)

Rows = list[tuple[str, str]]


class _Still:
    """No noise: tests may look at what enters the mechanisms."""

    def laplace(self, scale: Fraction, count: int) -> Any:
        return np.zeros(count, dtype=np.int64)

    def gaussian(self, variance: Fraction, count: int) -> Any:
        return np.zeros(count, dtype=np.int64)

    def rounded_gaussian(self, variance: Fraction, count: int) -> Any:
        return np.zeros(count, dtype=np.int64)

    def max_norm(self, scale: Fraction, sizes: list[int]) -> Any:
        return [np.zeros(size, dtype=np.int64) for size in sizes]

    def rounded_max_norm(self, scales: list[Fraction], sizes: list[int], count: int) -> Any:
        return [np.zeros((count, size), dtype=np.int64) for size in sizes]

    def section(self, scale: Fraction, bound: list[int], free: list[int], count: int) -> Any:
        return [np.zeros((count, size), dtype=np.int64) for size in (1, *bound, *free)]

    def gram(self, dimension: int, left: Any, right: Any, squares: Any, which: Any, count: int) -> Any:
        return np.zeros((count, len(left)), dtype=np.int64)


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Plan, Any]]:
    """Freeze noise, salt, time and the key by which rows of a person are drawn; collect what enters the mechanisms."""
    seen: list[tuple[Plan, Any]] = []

    def frozen(plan: Plan, *arguments: Any, **options: Any) -> Measurements:
        exact = gate.measure(plan, *arguments, **options, noise_from=_Still())
        seen.append((plan, exact.answers))
        return Measurements(plan, np.arange(len(exact.answers), dtype=np.int64) % 97 - 20)

    monkeypatch.setattr("privcube.pipeline.measure", frozen)
    for place in ("privcube.sensitive.gate", "privcube.sensitive.ledger.durable"):
        monkeypatch.setattr(f"{place}.system_words", lambda count: np.full(count, 7, dtype=np.uint64))
    monkeypatch.setattr("privcube.sensitive.ledger.durable._now", lambda: datetime(2030, 1, 1, tzinfo=UTC))
    return seen


def _person(draw: np.random.Generator) -> Rows:
    """A person with one to five rows, now and then with values that are rare, odd or missing."""
    sexes = ["F", "M", "F", "M", "", "x", "=1+1", "CANARY"]
    ages = ["0", "7", "15", "64.5", "119", "", "-1", "121", "1e3"]
    return [(str(draw.choice(sexes)), str(draw.choice(ages))) for _ in range(draw.integers(1, 6))]


def _write(file: Path, people: dict[int, Rows], by_person: bool) -> None:
    """All rows of every person, or one row for each if rows are protected."""
    lines = ["id,sex,age"]
    for number, rows in people.items():
        lines += [f"p{number},{sex},{age}" for sex, age in (rows if by_person else rows[:1])]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _everything(here: Here, folder: Path) -> dict[str, Any]:
    """All that a release leaves behind and says, but for the data."""
    result = here("release", "spec.toml")
    files = {
        file.relative_to(folder).as_posix(): file.read_bytes() if file.is_file() else None
        for file in sorted(folder.rglob("*"))
        if file.stem != "people" and file.parent.stem != "people"
    }
    assert len(files) > (10 if result.code == 0 else 0)
    return {**files, "result": result}


@pytest.mark.parametrize("name", CASES)
def test_neighbors_give_the_same_bytes(here: Here, tmp_path: Path, entered: list[tuple[Plan, Any]], name: str) -> None:
    case, draw = CASES[name], np.random.default_rng(11)
    persons = case.persons + MORE
    (tmp_path / "spec.toml").write_text(case.spec, encoding="utf-8")
    versions: list[tuple[Rows, Rows]] = [
        (_person(draw) if "replace_one" in case.spec else [], _person(draw)) for _ in range(persons)
    ]
    seen: list[dict[str, Any]] = []
    exact: dict[tuple[int, ...], Any] = {}
    for choice in product((0, 1), repeat=persons):  # the first may be of nobody at all
        people = {number: versions[number][chosen] for number, chosen in enumerate(choice)}
        _write(tmp_path / "people.csv", people, "person =" in case.spec)
        found = _everything(here, tmp_path)
        assert found["result"].code == 0, found["result"]
        seen = seen or [found]
        assert found.keys() == seen[0].keys()
        assert [key for key, own in found.items() if own != seen[0][key]] == []
        exact[choice] = entered[-1][1]
        shutil.rmtree(tmp_path / "out")
        (tmp_path / "ledger.db").unlink()
    plan, moved = entered[-1][0], 0
    for choice, before in exact.items():
        for number in np.flatnonzero(np.array(choice) == 0):
            after = exact[(*choice[:number], 1, *choice[number + 1 :])]
            moved += bool(np.any(before != after))
            _require_within_sensitivity(plan, after - before)
    assert moved > persons * 2 ** (persons - 1) // 2


def _require_within_sensitivity(plan: Plan, change: Any) -> None:
    """Laplace noise is made for a change in L1, Gaussian noise for one in L2 (orthonormal rows)."""
    start = 0
    for group, parts in zip(plan.groups, plan.parts, strict=True):
        own = change[start : start + group_rows(plan.frame, group)].tolist()
        start += len(own)
        if isinstance(plan.guarantee, PureDP):
            assert sum(map(abs, own)) <= largest_l1(plan.guarantee, group) * parts
        else:
            weights = row_weights(plan.frame, group)
            worth = sum(Fraction(moved**2, weight) for moved, weight in zip(own, weights, strict=True))
            assert worth <= squared_l2(plan.guarantee, plan.frame, group) * parts**2
    assert start == len(change)


def test_what_is_read_from_the_same_artifact_is_the_same(
    here: Here, tmp_path: Path, entered: list[tuple[Plan, Any]]
) -> None:
    """The other commands see the artifact and the ledger only; on two neighbors, all of them."""
    said: list[list[Any]] = []
    (tmp_path / "spec.toml").write_text(CASES["persons, pure, levels"].spec, encoding="utf-8")
    draw = np.random.default_rng(5)
    people = {number: _person(draw) for number in range(20)}
    for _ in range(2):
        _write(tmp_path / "people.csv", people, by_person=True)
        results = [
            here(*arguments.split())
            for arguments in (
                "plan spec.toml --save plan.json",
                "release spec.toml --plan plan.json --json",
                "release spec.toml",
                "release spec.toml --output again",
                "release spec.toml --output more --json",
                "release spec.toml --output toomuch",
                "verify out --spec spec.toml",
                "show out",
                "show out sex age",
                "query out sex=F age=5..65",
                "export again --format csv --to t.csv",
                "ledger spec.toml --json",
                "ledger check spec.toml",
                "ledger recover spec.toml",
            )
        ]
        said.append(results)
        assert [result.code for result in results] == [0, 0, 2, 0, 0, 2, *[0] * 8], results
        for name in ("out", "again", "more"):
            shutil.rmtree(tmp_path / name)
        for name in ("plan.json", "ledger.db", "t.csv"):
            (tmp_path / name).unlink()
        people.pop(7, None)
    assert said[0] == said[1]
    assert len(entered) == 6


REFUSING = (
    CASES["persons, pure, levels"]
    .spec.replace('other = "category"', 'other = "refuse"')
    .replace("clusters", "marginals")
)
REFUSED: dict[str, dict[int, Rows]] = {
    "one record": {1: [("CANARY", "7")]},
    "one of two": {1: [("F", "7")], 2: [("x", "15")]},
    "many of many": {number: [("FMxy"[number % 4], str(number))] * 5 for number in range(100)},
    "beyond the rows that count": {1: [("F", "7")] * 20 + [("=1+1", "")]},
}


def test_a_refusal_tells_that_it_is_one_and_nothing_more(
    here: Here, tmp_path: Path, entered: list[tuple[Plan, Any]]
) -> None:
    """Whatever the value is, whoever has it and how often: the same message, and a ledger in which nothing happened."""
    (tmp_path / "spec.toml").write_text(REFUSING, encoding="utf-8")
    seen: list[dict[str, Any]] = []
    for people in REFUSED.values():
        _write(tmp_path / "people.csv", people, by_person=True)
        result = here("release", "spec.toml")
        assert result.code == 2
        assert result.err.endswith("refuse some that it has (`privcube check` says how many). Nothing was charged\n")
        assert not entered
        files = {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.name != "people.csv"}
        assert files.keys() == {"spec.toml", "ledger.db"}
        seen.append({**files, "result": result})
        (tmp_path / "ledger.db").unlink()
    assert all(each == seen[0] for each in seen)
    _write(tmp_path / "people.csv", {1: [("F", "7")]}, by_person=True)
    assert here("release", "spec.toml").code == 0


def test_no_value_stops_a_release_whose_policies_refuse_none(
    here: Here, tmp_path: Path, entered: list[tuple[Plan, Any]]
) -> None:
    """The same records, all of them odd, under policies that count them: everything is as for any other data."""
    spec = CASES["persons, pure, levels"].spec.replace("clusters", "marginals")
    spec = spec.replace(
        'missing = "category"\n[[attributes.levels]]', 'missing = "category"\nother = "category"\n[[attributes.levels]]'
    )
    assert not any(attribute.may_refuse for attribute in Spec.from_toml(spec).schema)
    (tmp_path / "spec.toml").write_text(spec, encoding="utf-8")
    found = []
    for people in ({1: [("F", "7")]}, *REFUSED.values(), {1: [("", "")]}, {1: [("x", 'words; "')]}):
        _write(tmp_path / "people.csv", {1: [("M", "NaN")], **people}, by_person=True)
        found.append(_everything(here, tmp_path))
        assert found[-1]["result"].code == 0, found[-1]["result"]
        shutil.rmtree(tmp_path / "out")
        (tmp_path / "ledger.db").unlink()
    assert all(each == found[0] for each in found)


# Engines


def _store(kind: str, folder: Path, people: dict[int, Rows]) -> str:
    """Put the records where an engine finds them, in the place of others; what the spec says of the place."""
    rows = [(f"p{number}", sex, float(age) if age else None) for number, own in people.items() for sex, age in own]
    table = pa.table(dict(zip(("id", "sex", "age"), map(list, zip(*rows, strict=True)), strict=True)))
    if kind in ("parquet", "spark"):
        pq.write_table(table, folder / "people.parquet")
        query = json.dumps(f"SELECT * FROM parquet.`{folder}/people.parquet`")
        return 'source = "people.parquet"' if kind == "parquet" else f'source = "spark:"\nquery = {query}'
    if kind == "duckdb":
        (folder / "people.duckdb").unlink(missing_ok=True)
        with duckdb.connect(str(folder / "people.duckdb")) as connection:
            connection.register("given", table)
            connection.execute("CREATE TABLE people AS SELECT * FROM given")
        return 'source = "people.duckdb"\ntable = "people"'
    from factory_postgres import server

    with server().connect() as connection:
        connection.execute("DROP TABLE IF EXISTS neighbors")
        connection.execute("CREATE TABLE neighbors (id TEXT, sex TEXT, age FLOAT8)")
        connection.cursor().executemany("INSERT INTO neighbors VALUES (%s, %s, %s)", rows)
    return f'source = {json.dumps(server().url())}\ntable = "neighbors"'


ENGINES = [
    "parquet",
    "duckdb",
    pytest.param("postgresql", marks=pytest.mark.xdist_group("postgres")),
    pytest.param("spark", marks=pytest.mark.xdist_group("spark")),
]


@pytest.mark.parametrize("refused", [False, True], ids=["released", "refused"])
@pytest.mark.parametrize("kind", ENGINES)
def test_neighbors_give_the_same_bytes_on_every_engine(
    here: Here, tmp_path: Path, entered: list[tuple[Plan, Any]], kind: str, refused: bool
) -> None:
    """Also where a release is refused before anything is charged, for a column that is not there."""
    if kind == "spark":
        from factory_spark import spark_session

        spark_session()
    draw = np.random.default_rng(3)
    everybody = {
        number: [(sex, age) for sex, age in _person(draw) if age != "1e3"] or [("F", "7")] for number in range(6)
    }
    seen: list[dict[str, Any]] = []
    for missing in range(2 + 2 * MORE):
        people = {number: rows for number, rows in everybody.items() if number != missing}
        place = _store(kind, tmp_path, people)
        spec = CASES["persons, pure, levels"].spec.replace('source = "people.csv"', place)
        (tmp_path / "spec.toml").write_text(spec.replace('"sex"', '"gender"') if refused else spec, encoding="utf-8")
        found = _everything(here, tmp_path)
        assert found["result"].code == (2 if refused else 0), found["result"]
        seen = seen or [found]
        assert [key for key in {**found, **seen[0]} if found.get(key) != seen[0].get(key)] == []
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        (tmp_path / "ledger.db").unlink(missing_ok=True)
    assert bool(entered) != refused
    if not refused:
        _require_moved(entered)


def _require_moved(entered: list[tuple[Plan, Any]]) -> None:
    """The answers before the noise did differ: otherwise equal bytes would say nothing."""
    assert any(np.any(answers != entered[0][1]) for _, answers in entered)


@pytest.mark.parametrize("place", ["stdout", "artifact"])
def test_a_leak_would_be_seen(
    here: Here, tmp_path: Path, entered: list[tuple[Plan, Any]], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The size of the data, said or written."""
    data = tmp_path / "people.csv"
    if place == "stdout":
        monkeypatch.setattr(
            "privcube.cli.commands.release.count_of", lambda number, noun: f"{data.stat().st_size} {noun}"
        )
    else:
        monkeypatch.setattr("privcube.released.artifact.store.plan_text", lambda plan: f"{data.stat().st_size}")
    (tmp_path / "spec.toml").write_text(CASES["rows, pure"].spec, encoding="utf-8")
    found = []
    for people in ({1: [("F", "7")]}, {1: [("F", "7")], 2: [("M", "15")]}):
        _write(data, people, by_person=False)
        found.append(_everything(here, tmp_path))
        shutil.rmtree(tmp_path / "out")
        (tmp_path / "ledger.db").unlink()
    differ = {key for key, own in found[0].items() if own != found[1][key]}
    assert differ >= ({"result"} if place == "stdout" else {"out/plan.json"})
    assert entered
