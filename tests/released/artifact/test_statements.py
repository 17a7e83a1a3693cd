"""What PRIVACY.md and registry.yaml say of the unit and of records that are left out."""

from __future__ import annotations

import pytest

from privcube import ZCDP, Attribute, PureDP, Schema, Spec, Workload, plan
from privcube.model.privacy.guarantee import Guarantee
from privcube.model.publication.words import Words
from privcube.released.artifact.registry import registry_record
from privcube.released.artifact.statements import privacy_statement

STATED = {"ledger": None, "total": None, "privcube": "0"}
BY_RECORD = "That is decided for each record by itself, so whether the records of a unit count is protected"


def said(schema: Schema, guarantee: Guarantee) -> tuple[str, str]:
    """PRIVACY.md on one line, and the record for registries."""
    made = plan(Workload.all_kway(schema, 1), guarantee, "marginals")
    return " ".join(privacy_statement(made, STATED, Words()).split()), registry_record(made, STATED, Words())


def schema_of(where: str, sex: str = "", age: str = "") -> Schema:
    return Spec.from_toml(
        f"""
        [data]
        source = "people.csv"
        {where}
        [privacy]
        epsilon = "1"
        [[attributes]]
        name = "sex"
        values = ["F", "M"]
        {sex}
        [[attributes]]
        name = "age"
        bins = [0, 18, 120]
        {age}
        [workload]
        all_kway = [1]
        """
    ).schema


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (schema_of('where = {year = ["2030"]}'), "those that do not meet its conditions on columns"),
        (schema_of("", sex='missing = "drop"'), "those with values that an attribute leaves out"),
        (schema_of("", age='overflow = "drop"'), "those with values that an attribute leaves out"),
        (
            schema_of('where = {year = ["2030"]}', sex='other = "drop"'),
            "those that do not meet its conditions on columns and those with values that an attribute leaves out",
        ),
    ],
    ids=["where", "missing", "overflow", "both"],
)
def test_records_that_are_left_out_are_told(schema: Schema, words: str) -> None:
    statement, record = said(schema, PureDP(1))
    sentence = f"Not all records count: {words} are left out, as plan.json states. {BY_RECORD}"
    assert sentence in statement
    assert sentence in record
    for name in ("sex", "year", "2030"):  # no name or value of the schema
        assert name not in statement


@pytest.mark.parametrize("policies", ['missing = "category"', 'other = "category"', ""])
def test_where_all_records_count_nothing_is_said(policies: str) -> None:
    statement, record = said(schema_of("", sex=policies, age='overflow = "clamp"'), PureDP(1))
    assert "Not all records count" not in statement
    assert "Not all records count" not in record


def test_one_row_is_called_a_person_only_under_a_condition() -> None:
    """A plan is the same whether people are told apart, and at most one row of each counts, or not."""
    schema = Schema([Attribute("a", size=2)])
    under_a_condition = "A person is protected as a whole if at most one row about this person counts, and less than"
    statement, record = said(schema, PureDP(1))
    assert "The protected unit is one row of the data." in statement
    assert under_a_condition in statement
    assert under_a_condition in record
    for guarantee, unit in [
        (PureDP(1, max_rows_per_person=2), "The protected unit is one person, with at most 2 rows in the data."),
        (PureDP(1, row="row of the query"), "The protected unit is one row of the query."),
    ]:
        statement, _ = said(schema, guarantee)
        assert unit in statement
        assert under_a_condition not in statement


@pytest.mark.parametrize("guarantee", [PureDP, ZCDP])
def test_the_number_of_records_is_said_to_be_published(guarantee: type[PureDP] | type[ZCDP]) -> None:
    """If no neighbor has another number of them; nothing else is said of it otherwise."""
    schema = schema_of("")
    statement, _ = said(schema, guarantee(1, neighbors="replace_one"))
    assert "The number of records is not protected" in statement
    assert "It is published, practically without noise" in statement
    dropping = schema_of("", sex='other = "drop"')
    for other in (
        said(schema, guarantee(1)),
        said(schema, guarantee(1, neighbors="replace_one", max_rows_per_person=2)),
        said(dropping, guarantee(1, neighbors="replace_one")),
    ):
        assert "The number of records is not protected" not in other[0]
