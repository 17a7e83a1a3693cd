"""`check` finds what is there, on every engine that can be asked, and tells it to nobody but the one who asks."""

from __future__ import annotations

import copy
import json
import os
import pickle
import random
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from adversarial import NAMES, VALUES, accepted, random_attribute
from factories import Columns
from holders import Holder, request_for
from reference import code_of, coded, refused_columns

import privcube as pc
from privcube.errors import DataError, PrivcubeError
from privcube.model.columns.text_files import TextFile
from privcube.model.documents.draft_text import draft_text
from privcube.sensitive.reading.checking import look_over
from privcube.sensitive.reading.drafting import draft_of
from privcube.sensitive.reading.report import DataReport

COLUMNS: Columns = {
    "who": ("text", ["ann", "ann", "ann", "bob", "cy", None, "dee", "eve"]),
    "SEX": ("text", ["F", "f", " F", "M", "x", "x", None, "NA"]),
    "age": ("integer", [-1, 5, 200, 300, 40, 41, 42, None]),
    "when": ("text", ["2024-01-31", "31.01.2024", "2023-12-31", "2024-02-01", "", "2025-01-01", "2024-03-03", "never"]),
    "country": ("text", ["DE", "DE", "DE", "DE", "DE", "AT", "DE", "FR"]),
}
SCHEMA = pc.Schema(
    [
        pc.Attribute("sex", values=["F", "M"], column="SEX"),
        pc.Attribute("age", bins=[0, 50, 100], overflow="drop", missing="drop"),
        pc.Attribute("when", dates=pc.Dates(by="month", first="2024-01", last="2024-12")),
        pc.Attribute("Country", values=["DE", "AT"]),
    ],
    where={"country": ["DE", "AT"]},
)


def report_on(holder: Holder, folder: Path) -> DataReport:
    engine = holder.engine(COLUMNS, folder)
    return look_over(engine, SCHEMA, person="who", max_rows_per_person=2, text=TextFile())


def test_what_is_found(inquired: Holder, tmp_path: Path) -> None:
    if inquired.name == "spark":
        with pytest.raises(DataError, match="limit"):
            report_on(inquired, tmp_path)
        return
    report = report_on(inquired, tmp_path)
    sex, age, when, country = report.columns
    assert (report.records, report.outside, report.dropped, report.counted) == (8, 1, 2, 5)
    assert (sex.missing, sex.undeclared, sex.padded, sex.cased) == (1, 4, 1, 1)
    assert sex.frequent[0] == ("x", 2)
    assert sex.advice == (
        "trim = true",
        'case = "fold"',
        'missing = "category"  # or "drop"',
        'other = "category"  # or "drop"',
    )
    assert (age.missing, age.undeclared, age.below, age.above) == (0, 0, 1, 2)
    assert age.advice == ('underflow = "clamp"  # or "drop"',)
    assert (when.missing, when.undeclared, when.below, when.above) == (1, 1, 1, 1)
    assert 'dates = {..., format = "day first"}' in when.advice
    assert country.problem == "no such column, but 'country'"
    assert country.advice == ('column = "country"',)
    assert report.person is not None
    assert (report.person.people, report.person.largest, report.person.without_name) == (4 - 1, 2, 1)
    assert (report.person.above_bound, report.person.rows_lost) == (0, 0)
    assert report.refused


def test_a_report_shows_nothing_by_itself(tmp_path: Path) -> None:
    engine_columns = {name: values for name, (_, values) in COLUMNS.items()}
    import pyarrow as pa

    from privcube.sensitive.sources import engine_for

    report = look_over(
        engine_for(pa.table(engine_columns)), SCHEMA, person="who", max_rows_per_person=1, text=TextFile()
    )
    assert report.person is not None
    assert report.person.rows_lost == 1
    assert "x" not in repr(report).replace("not shown", "")
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            way(report)
    with pytest.raises(TypeError):
        json.dumps(report)
    assert json.loads(json.dumps(report.document))["counted"] == report.counted
    assert any("most often" in line for line in report.lines())


@pytest.mark.parametrize("seed", range(int(os.environ.get("PRIVCUBE_ATTACK", "1")) * 2))
def test_random_schemas_over_random_columns(coder: Holder, seed: int, tmp_path: Path) -> None:
    """Whatever is declared and there: a report that agrees with the plain twin, and a draft that is a spec."""
    chance = random.Random(seed)
    attributes = [random_attribute(chance, name) for name in chance.sample(NAMES, 4)]
    columns: Columns = {}
    for attribute in attributes:
        kind = chance.choice(list(VALUES))
        values = VALUES[kind] if chance.random() < 0.4 else accepted(coder, attribute, kind) or VALUES[kind]
        columns[attribute.name] = kind, [chance.choice(values) for _ in range(150)]
    columns["who"] = "text", [chance.choice(["ann", "bob", "cy", None if seed % 3 else "dee"]) for _ in range(150)]
    engine = coder.engine(columns, tmp_path)
    asked = partial(look_over, engine, pc.Schema(attributes), person="who", max_rows_per_person=2, text=TextFile())
    report = asked()
    request, told = (
        request_for(attributes, [(attribute.name,) for attribute in attributes], "who", 2),
        coder.told(columns),
    )
    kept = [record for record in coded(request, told) if record is not None]
    assert (report.records, report.counted) == (150, len(kept))
    assert report.refused or not refused_columns(request, told)
    if not any(attribute.drops for attribute in attributes):
        assert report.refused == bool(refused_columns(request, told))
    for attribute, found in zip(attributes, report.columns, strict=True):
        kind, values = told[attribute.column]
        telling = replace(attribute, missing="category", other="category")
        codes = [code_of(telling, kind, value) for value in values]
        assert found.missing == codes.count(telling.codes - 1)
        assert found.undeclared == codes.count(telling.codes - 2)
    assert "\n".join(report.lines())
    try:
        draft = draft_of(engine)
    except PrivcubeError:
        return
    text = draft_text({"source": "people.csv"}, draft.attributes, draft.left_out, draft.person)
    assert pc.Spec.from_toml(text).schema.drafts == tuple(attribute.name for attribute in draft.attributes)
