"""Words: they are text that every program can show, about what exists; and open-ended bins read like it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcube import Attribute, Axis, Dates, Level, Schema, Words, Workload
from privcube.errors import PrivcubeError, WordsError
from privcube.model.documents.spec import Spec
from privcube.model.documents.words import words_document, words_in
from privcube.model.publication.readings import readings
from privcube.model.publication.words import AttributeWords

STAGE = Level("stage", bins=[0, 65, 120])
SCHEMA = Schema(
    [
        Attribute("sex", values=["f", "m"], missing="category"),
        Attribute("age", bins=[0, 18, 65, 120], overflow="clamp", missing="category", levels=[STAGE]),
        Attribute("born", values=[True, False]),
    ]
)
WORKLOAD = Workload.all_kway(SCHEMA, 2) | Workload.tables(SCHEMA, [("sex",), ("age",)])
SPEC = """
[about]
title = "Discharges"
unit = "stays"
[data]
source = "x.csv"
[privacy]
epsilon = "1"
[[attributes]]
name = "sex"
values = ["f", "m"]
missing = "category"
title = "Sex"
labels = { f = "Women", m = "Men", "(missing)" = "Unknown" }
[[attributes]]
name = "age"
bins = [0, 18, 65, 120]
overflow = "clamp"
labels = ["Children", "Adults", "Old people"]
[[attributes.levels]]
name = "stage"
bins = [0, 65, 120]
title = "Stage of life"
labels = { "[0, 65)" = "Younger" }
[workload]
all_kway = [1]
tables = [{ attributes = ["age", "sex"], weight = 2, title = "Who they were" },
  { attributes = ["sex"], title = "Sexes" }]
[output]
decimals = 1
"""


# In a spec


def test_a_spec_has_words() -> None:
    spec = Spec.from_toml(SPEC)
    assert spec.words.about == {"title": "Discharges", "unit": "stays"}
    assert list(spec.words.labels(spec.schema, "sex")) == ["Women", "Men", "Unknown"]
    assert list(spec.words.labels(spec.schema, "age")) == ["Children", "Adults", "Old people"]
    assert list(spec.words.labels(spec.schema, "age", "stage")) == ["Younger", "65 and over"]
    assert spec.words.table_title(("sex", "age")) == "Who they were"
    assert spec.words.table_title(("age",)) == "Stays by age"
    assert spec.words.axis_title(Axis("age", "stage")) == "Stage of life"
    assert spec.workload.weight(("sex", "age")) == 2
    assert Spec.from_toml(spec.to_toml()) == spec


def test_words_change_neither_schema_nor_workload() -> None:
    spec = Spec.from_toml(SPEC)
    keys = ("title", "unit", "labels", "decimals")
    bare = "\n".join(line for line in SPEC.splitlines() if not line.startswith(keys))
    bare = bare.replace(', title = "Who they were"', "").replace(', title = "Sexes"', "")
    plain = Spec.from_toml(bare)
    assert plain.words == Words()
    assert (plain.schema, plain.workload) == (spec.schema, spec.workload)


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_labels_from_a_file(tmp_path: Path, ending: str) -> None:
    text = {"csv": 'value,label\nf,"Women, girls"\nm,Men\n', "json": '{"f": "Women, girls", "m": "Men"}'}[ending]
    (tmp_path / f"sex.{ending}").write_text(text, encoding="utf-8")
    old = '{ f = "Women", m = "Men", "(missing)" = "Unknown" }'
    (tmp_path / "spec.toml").write_text(SPEC.replace(old, f'"sex.{ending}"'), encoding="utf-8")
    spec = Spec.read(tmp_path / "spec.toml")
    assert list(spec.words.labels(spec.schema, "sex")) == ["Women, girls", "Men", "(missing)"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'm = "Men"',
            'mm = "Men"',
            "labels of 'sex': expected values that are declared, given 'mm'; did you mean 'm'?",
        ),
        ('m = "Men"', 'm = "Women"', "labels that differ, given 'Women' for f and m"),
        ('m = "Men"', 'm = ""', "non-empty text of at most 300 characters"),
        ('m = "Men"', "m = 3", "non-empty text of at most 300 characters"),
        ('"Children", ', "", "3 labels, in the order of the values, given 2"),
        ('title = "Sex"', 'title = "age"', "titles that differ"),
        ('title = "Sex"', "title = 1", "attribute 'sex', title: expected non-empty text"),
        ('title = "Sex"', 'titel = "Sex"', r"attributes\[0\].titel: expected a known key \(did you mean 'title'\?\)"),
        ('title = "Sex"', 'title = "Se\\u0007x"', "without control"),
        ('title = "Sex"', 'title = "Se\\u202ex"', "marks that change the direction"),
        ('unit = "stays"', 'units = "stays"', "did you mean 'unit'"),
        ('unit = "stays"', f'unit = "{"s" * 301}"', "at most 300 characters"),
        ("decimals = 1", "decimals = -1", "decimals: expected a whole number from 0 to 10"),
        ('title = "Sexes"', "title = 7", "title of a table"),
        ('labels = { "[0, 65)"', 'labels = { "[0, 66)"', "did you mean '\\[0, 65\\)'"),
        ('labels = ["Children", "Adults", "Old people"]', 'labels = "no.csv"', "a readable file"),
        ('labels = ["Children", "Adults", "Old people"]', "labels = 3", "a table such as"),
    ],
)
def test_what_cannot_be_used_is_refused(old: str, new: str, message: str) -> None:
    assert old in SPEC
    with pytest.raises(PrivcubeError, match=message):
        Spec.from_toml(SPEC.replace(old, new))


# As an object


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"attributes": {"sez": {"title": "x"}}}, "did you mean 'sex'"),
        ({"attributes": {"age": {"levels": {"stages": {"title": "x"}}}}}, "did you mean 'stage'"),
        ({"attributes": {"sex": {"labels": {"f": None}}}}, "expected text"),
        ({"attributes": {"sex": {"label": {}}}}, "did you mean 'labels'"),
        ({"attributes": {"sex": 3}}, "privcube.AttributeWords"),
        ({"attributes": {"sex": {"labels": {"f": "(missing)"}}}}, "labels that differ"),
        ({"attributes": {"age": {"labels": {"[0, 18)": "65 and over"}}}}, "labels that differ"),
        ({"tables": {("born",): "x"}}, "a table of the workload"),
        ({"tables": {("sex",): None}}, "expected text"),
        ({"decimals": True}, "decimals"),
    ],
)
def test_words_are_about_what_exists(words: dict[str, Any], message: str) -> None:
    with pytest.raises(WordsError, match=message):
        Words(**words).for_workload(WORKLOAD)


def test_tables_are_named_in_any_way() -> None:
    words = Words(tables={"age x sex": "Both"}).for_workload(WORKLOAD)  # type: ignore[dict-item]
    assert words.table_title(("sex", "age")) == "Both"


def test_booleans_are_labeled_by_their_text() -> None:
    words = Words(attributes={"born": AttributeWords(labels={"true": "Born here"})}).for_workload(WORKLOAD)
    assert list(words.labels(SCHEMA, "born")) == ["Born here", False]


def test_categories_keep_their_labels_at_every_level() -> None:
    words = Words(attributes={"age": {"labels": {"(missing)": "Age unknown"}}})
    assert list(words.labels(SCHEMA, "age", "stage")) == ["0 to under 65", "65 and over", "Age unknown"]


# As cells read by themselves


@pytest.mark.parametrize(
    ("attribute", "level", "expected"),
    [
        (Attribute("a", bins=[0, 18, 65]), None, ["0 to under 18", "18 to under 65"]),
        (Attribute("a", bins=[0, 18, 65], underflow="clamp", overflow="clamp"), None, ["under 18", "18 and over"]),
        (Attribute("a", bins=[0, 18], underflow="clamp", overflow="clamp"), None, ["all"]),
        (
            Attribute("a", bins=[0, 18, 65], underflow="category", overflow="category", levels=[Level("l", width=2)]),
            "l",
            ["0 to under 65", "under 0", "65 and over"],
        ),
        (Attribute("a", bins=[0, 20_000], overflow="category"), None, ["0 to under 20,000", "20,000 and over"]),
        (
            Attribute("a", dates=Dates(by="year", first=2020, last=2022), overflow="clamp", underflow="category"),
            None,
            ["before 2020", "2020", "2021", "2022 and after"],
        ),
        (Attribute("a", size=5, levels=[Level("l", width=2)]), "l", ["0 to 1", "2 to 3", "4"]),
        (
            Attribute("a", bins=[0, 1, 2], levels=[Level("l", groups={"all of it": ["[0, 1)", "[1, 2)"]})]),
            "l",
            ["all of it"],
        ),
    ],
)
def test_cells_read_like_what_is_counted_in_them(attribute: Attribute, level: str | None, expected: list[str]) -> None:
    assert list(readings(attribute, level)) == expected


# Written down


def test_words_survive_being_written_down() -> None:
    spec = Spec.from_toml(SPEC)
    assert words_in(words_document(spec.words), spec.workload) == spec.words


_TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.sampled_from(["=1+2", "\u202e", "<script>", "\x00", "a\nb", "אב", "f", "x" * 301]),
)
_ANY = st.recursive(
    st.one_of(st.none(), st.integers(-2, 12), _TEXTS), lambda own: st.lists(own, max_size=3), max_leaves=4
)
_SAID = st.dictionaries(
    st.one_of(st.sampled_from(["title", "labels", "levels", "description"]), _TEXTS),
    st.one_of(_ANY, st.dictionaries(st.one_of(st.sampled_from(["f", "m", "stage"]), _TEXTS), _ANY, max_size=2)),
    max_size=3,
)
_DOCUMENTS = st.dictionaries(
    st.one_of(st.sampled_from(["title", "description", "unit", "tables", "decimals", "format"]), _TEXTS),
    st.one_of(_ANY, st.lists(st.fixed_dictionaries({"axes": _ANY, "title": _ANY}), max_size=2)),
    max_size=4,
)


@settings(max_examples=80, deadline=None)
@given(_DOCUMENTS, st.dictionaries(st.one_of(st.sampled_from(["sex", "age"]), _TEXTS), _SAID, max_size=2))
def test_hostile_documents_are_refused_with_our_own_errors(document: dict[str, Any], said: dict[str, Any]) -> None:
    whole = {"format": "privcube words 1", **document, **({"attributes": said} if said else {})}
    try:
        words = words_in(whole, WORKLOAD)
    except PrivcubeError:
        return
    assert words_in(words_document(words), WORKLOAD) == words
    for name in SCHEMA.names:
        shown = list(map(str, words.labels(SCHEMA, name)))
        assert len(set(shown)) == len(shown)
