"""A schema is declared, looked up by name, and not used before a person has confirmed what was drafted from data."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privcube.errors import DraftError, SchemaError
from privcube.model.attribute import Attribute
from privcube.model.levels import Level
from privcube.model.schema import Schema, _without_repeats

ADULT = Schema.from_sizes({"age": 85, "sex": 2, "race": 5, "education": 16})

names = st.text(
    st.characters(exclude_categories=["Cc", "Cn", "Cs"]),
    min_size=1,
    max_size=20,
).filter(str.strip)


def test_looks_up_by_name() -> None:
    assert ADULT.names == ("age", "sex", "race", "education")
    assert ADULT.shape == (85, 2, 5, 16)
    assert ADULT.domain_size == 85 * 2 * 5 * 16
    assert [ADULT.position(name) for name in ADULT.names] == [0, 1, 2, 3]
    assert ADULT["race"] == Attribute("race", size=5)
    assert [attribute.name for attribute in ADULT] == list(ADULT.names)
    assert len(ADULT) == 4


def test_domain_size_is_not_rounded() -> None:
    assert Schema.from_sizes({f"a{i}": 10 for i in range(50)}).domain_size == 10**50


def test_unknown_attribute_names_a_near_one() -> None:
    with pytest.raises(SchemaError, match=r"given 'eduction'; did you mean 'education'\?.*available: age, sex, race"):
        ADULT["eduction"]


@pytest.mark.parametrize("name", ["", None, 0, ["age"], ("age",)])
def test_refuses_lookup(name: object) -> None:
    with pytest.raises(SchemaError, match="name in the schema"):
        ADULT[name]


def test_refuses_attributes() -> None:
    with pytest.raises(SchemaError, match="at least one attribute"):
        Schema([])
    with pytest.raises(SchemaError, match="at least one attribute"):
        Schema.from_sizes({})
    with pytest.raises(SchemaError, match="'sex' twice"):
        Schema([Attribute("sex", size=2), Attribute("age", size=3), Attribute("sex", size=2)])
    with pytest.raises(SchemaError, match=r"privcube\.Attribute objects"):
        Schema(["sex"])
    with pytest.raises(SchemaError, match="a mapping"):
        Schema.from_sizes([("sex", 2)])


# Domain JSON


@given(st.dictionaries(names, st.integers(1, 10**8), min_size=1, max_size=6))
def test_domain_json_round_trip(sizes: dict[str, int]) -> None:
    schema = Schema.from_sizes(sizes)
    assert Schema.from_domain_json(schema.to_domain_json()) == schema
    assert Schema.from_domain_json(json.dumps(sizes)) == schema  # private-pgm escapes what is not ASCII
    assert json.loads(schema.to_domain_json()) == sizes


def test_domain_json_counts_every_cell() -> None:
    schema = Schema([Attribute("sex", values=["F", "M"], missing="category"), Attribute("age", bins=[0, 18, 65])])
    assert json.loads(schema.to_domain_json()) == {"sex": 3, "age": 2}


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "null", "[]", "5", "NaN", '"age"', '[["age", 85]]', '{"age": 85} x', "{'age': 85}", "\ufeff{}"),
        *("{}", '{"age": "85"}', '{"age": 85.0}', '{"age": true}', '{"age": null}', '{"age": [85]}', '{"age": 1e999}'),
        *('{"age": 0}', '{"age": -1}', '{"age": NaN}', '{"age": {"size": 85}}', '{"": 2}', '{"\\ud800": 2}'),
        *("[" * 10**5, '{"a":' * 10**5, '{"age": 1' + "0" * 10**4 + "}"),
    ],
    ids=lambda text: text[:20],
)
def test_refuses_domain_json(text: str) -> None:
    with pytest.raises(SchemaError) as refusal:
        Schema.from_domain_json(text)
    assert len(str(refusal.value)) < 300


def test_refuses_repeated_keys() -> None:
    """json keeps the last of two equal keys in silence; a schema that loses an attribute must not."""
    with pytest.raises(SchemaError, match="'age' twice"):
        Schema.from_domain_json('{"age": 85, "sex": 2, "age": 2}')


def test_the_search_for_a_repeated_key_is_not_quadratic() -> None:
    comparisons = 0

    class Name(str):
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal comparisons
            comparisons += 1
            return str.__eq__(self, other)

    names = [Name(f"a{i}") for i in range(2000)]
    with pytest.raises(SchemaError, match="'a1999' twice"):
        _without_repeats([(name, 2) for name in [*names, Name("a1999")]])
    assert comparisons < 10 * len(names)


# Drafts

DRAFTED = Schema(
    [
        Attribute("sex", values=["F", "M"], missing="category", draft=True),
        Attribute("age", bins=[0, "17.5", 65, 90], overflow="clamp", levels=[Level("adult", bins=[0, "17.5", 90])]),
        Attribute("grade", values=["A", "B", "C"], ordered=True, other="category", draft=True),
    ]
)


def test_drafts_are_refused_by_name() -> None:
    assert DRAFTED.drafts == ("sex", "grade")
    with pytest.raises(DraftError, match="drafts of sex, grade"):
        DRAFTED.require_confirmed()


def test_confirmed_changes_nothing_else() -> None:
    confirmed = DRAFTED.confirmed()
    confirmed.require_confirmed()
    assert confirmed.drafts == ()
    assert confirmed != DRAFTED
    for before, after in zip(DRAFTED, confirmed, strict=True):
        assert replace(after, draft=before.draft) == before
        assert (after.labels, after.partitions) == (before.labels, before.partitions)
    assert DRAFTED.drafts == ("sex", "grade")


def test_declared_schema_needs_no_confirmation() -> None:
    ADULT.require_confirmed()
    assert ADULT.confirmed() == ADULT
