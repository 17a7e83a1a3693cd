"""Cleaning in a spec: it reads back as it was written, files of values are part of it, and nonsense is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import privcube as pc
from privcube import Spec
from privcube.errors import PrivcubeError, SpecError

SPEC = """
[data]
source = "people.csv"
encoding = "windows-1252"
separator = "tab"
decimal = ","
where = {{ country = ["DE", "AT"], age = {{ from = 18, below = "65.5" }}, admitted = {{ first = 2024-01-01 }} }}
[privacy]
epsilon = 1
[[attributes]]
name = "smokes"
column = "SMK_CD"
trim = true
case = "fold"
values = ["yes", "no"]
raw = {{ yes = ["Y", "1"], "(missing)" = ["?"] }}
missing = "drop"
other = "drop"
[[attributes]]
name = "admitted"
dates = {{ by = "month", first = "2024-01", last = 2024-12-01, format = "day first" }}
underflow = "drop"
overflow = "clamp"
levels = [{{ name = "quarter", by = "quarter" }}]
[[attributes]]
name = "weekday"
column = "admitted"
dates = {{ by = "weekday" }}
[[attributes]]
name = "diagnosis"
{values}
[workload]
all_kway = [1]
"""


def spec(values: str = 'values = ["x"]', folder: Path = Path()) -> Spec:
    return Spec.from_toml(SPEC.format(values=values), folder=folder)


def test_a_spec_with_cleaning_reads_back_as_it_was_written() -> None:
    read = spec()
    assert Spec.from_toml(read.to_toml()) == read
    assert read.data.text.separator == "\t"
    assert [attribute.name for attribute in read.schema.filters] == ["country", "age", "admitted", "smokes", "admitted"]
    assert read.schema["admitted"].partition("quarter").labels == ("2024-Q1", "2024-Q2", "2024-Q3", "2024-Q4")


def test_a_plan_contains_cleaning_and_its_digest_covers_it() -> None:
    read = spec()
    plan = pc.plan(read.workload, read.guarantee, strategy="marginals")
    again = pc.Plan.from_json(plan.to_json())
    assert again.workload.schema == read.schema
    assert again.digest == plan.digest
    others = [
        SPEC.replace('["DE", "AT"]', '["DE"]'),
        SPEC.replace('"?"', '"!"'),
        SPEC.replace("trim = true", "trim = false"),
    ]
    for text in others:
        other = Spec.from_toml(text.format(values='values = ["x"]'))
        assert pc.plan(other.workload, other.guarantee, strategy="marginals").digest != plan.digest


FILES = {
    "codes.csv": "value\nI10\nE11\n",
    "codes.json": json.dumps(["I10", "E11"]),
}
LABELED = {
    "labeled.csv": "chapter;value;label\n9;I10;hypertension\n9;I11;hypertension\n4;E11;diabetes\n",
    "labeled.json": json.dumps({"I10": "hypertension", "I11": "hypertension", "E11": "diabetes"}),
}


@pytest.mark.parametrize("name", [*FILES, *LABELED])
def test_values_from_a_file(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text((FILES | LABELED)[name], encoding="utf-8-sig")
    (tmp_path / "spec.toml").write_text(SPEC.format(values=f'values_from = "{name}"'))
    read = Spec.read(tmp_path / "spec.toml")
    diagnosis = read.schema["diagnosis"]
    if name in FILES:
        assert diagnosis.values == ("I10", "E11")
    else:
        assert diagnosis.values == ("hypertension", "diabetes")
        assert dict(diagnosis.spellings)["I11"] == 0
        assert dict(diagnosis.spellings)["E11"] == 1
    assert Spec.from_toml(read.to_toml()) == read  # the values themselves are written
    assert "values_from" not in read.to_toml()


def test_five_thousand_codes(tmp_path: Path) -> None:
    (tmp_path / "icd.csv").write_text("value\n" + "".join(f"C{number:04d}\n" for number in range(5_000)))
    assert spec('values_from = "icd.csv"', tmp_path).schema["diagnosis"].cells == 5_000


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b""),
        ("a.csv", b"value\n"),
        ("a.csv", b"value,label\nI10\n"),
        ("a.csv", b"\xff\xfe"),
        ("a.csv", b'value\n"I10\n'),
        ("a.csv", b"value\nI10\nI10\n"),
        ("a.csv", b"value\n \n"),
        ("a.json", b""),
        ("a.json", b"3"),
        ("a.json", b"[" * 100_000),
        ("a.json", b"[[1]]"),
        ("a.json", b'{"a": 1}'),
        ("a.json", b"[]"),
        ("a.json", b'["a", 1]'),
        ("a.txt", b"x\n"),
        ("missing.csv", None),
        ("../a.csv", None),
    ],
)
def test_bad_files_of_values_are_refused(name: str, content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(PrivcubeError) as refusal:
        spec(f'values_from = "{name}"', tmp_path)
    assert len(str(refusal.value)) < 500


def test_a_plan_cannot_name_a_file_of_values() -> None:
    read = spec()
    document = json.loads(pc.plan(read.workload, read.guarantee, strategy="marginals").to_json())
    document.pop("digest")
    del document["attributes"][3]["values"]
    document["attributes"][3]["values_from"] = "/etc/passwd.csv"
    from privcube.model.documents.plans import digest_of

    with pytest.raises(SpecError, match="values_from: expected a known key"):
        pc.Plan.from_json(json.dumps({**document, "digest": digest_of(document)}))


@pytest.mark.parametrize(
    "where",
    [
        '"country = 1"',
        "[]",
        "{ country = [] }",
        '{ country = "DE" }',
        "{ country = {} }",
        "{ age = { from = 1, last = 2 } }",
        "{ age = { from = 5, below = 5 } }",
        '{ age = { from = "x" } }',
        '{ day = { first = "2024-13-01" } }',
        '{ day = { first = "2024-02-01", last = "2024-01-01" } }',
        '{ smokes = ["maybe"] }',
        '{ country = ["DE", "DE"] }',
        "{ country = [1.5] }",
        '{ country = ["DE", 1] }',
        '{ "" = ["x"] }',
        "{ age = { from = nan } }",
    ],
)
def test_conditions_that_make_no_sense_are_refused(where: str) -> None:
    line = next(line for line in SPEC.splitlines() if line.startswith("where"))
    text = SPEC.replace(line, "where = WHERE").format(values='values = ["x"]').replace("WHERE", where)
    with pytest.raises(PrivcubeError, match="where"):
        Spec.from_toml(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"windows-1252"', '"klingon"'),
        ('"windows-1252"', '"rot13"'),
        ('"windows-1252"', "5"),
        ('"tab"', '"x"'),
        ('"tab"', '","#'),
        ('"tab"', '""'),
        ('decimal = ","', 'decimal = ";"'),
        ('"fold"', '"upper"'),
        ("trim = true", 'trim = "yes"'),
        ('by = "month", first', 'by = "moon", first'),
        ('first = "2024-01"', 'first = "2024-1"'),
        ('format = "day first"', 'format = "%d"'),
        ('by = "weekday"', 'by = "weekday", first = "2024-01-01"'),
        ('by = "weekday"', ""),
        ('name = "quarter", by = "quarter"', 'name = "q", by = "week"'),
        ('column = "SMK_CD"', 'column = ""'),
        ('yes = ["Y", "1"]', 'maybe = ["Y"]'),
        ('["?"]', '["Y"]'),
        ("last = 2024-12-01", "last = 2023-01-01"),
    ],
)
def test_cleaning_that_makes_no_sense_is_refused(old: str, new: str) -> None:
    assert old in SPEC
    text = SPEC.replace(old, new, 1).format(values='values = ["x"]')
    if new == '","#':
        assert Spec.from_toml(text).data.text.separator == ","  # commas in numbers are then in quotes
        return
    with pytest.raises(PrivcubeError):
        Spec.from_toml(text)
