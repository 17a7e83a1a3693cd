"""Tables, conditions and accuracies as people write them."""

from __future__ import annotations

import pytest

from privcube import Attribute, Axis, Level, PureDP, Schema, Workload, plan
from privcube.cli.conditions import conditions_from
from privcube.cli.expectations import Accuracy
from privcube.errors import PrivcubeError
from privcube.model.schema import parts_of
from privcube.model.workload import canonical
from privcube.released.selection import selected_cells

SCHEMA = Schema(
    [
        Attribute("sex", values=["F", "M"]),
        Attribute("age", bins=[0, "0.5", 15, 65], levels=[Level("stage", bins=[0, 15, 65])], overflow="category"),
        Attribute("rooms", values=[1, 2, 3, 5]),
        Attribute("code", size=20),
        Attribute("ok", values=[True, False]),
        Attribute("a x b", values=["1, 2", "1", "2", "x=y", "p..q"]),
        Attribute("c.d=e", size=2),
    ]
)
STAGE = Axis("age", "stage")


@pytest.mark.parametrize(
    ("words", "table"),
    [
        (["sex"], ("sex",)),
        (["age", "sex"], ("sex", "age")),
        (["sex x age"], ("sex", "age")),
        (["sex x age", "rooms"], ("sex", "age", "rooms")),
        (["age.stage"], (STAGE,)),
        (["age by stage"], (STAGE,)),
        (["rooms x age by stage x sex"], ("sex", STAGE, "rooms")),
        (["a x b"], ("a x b",)),
        (["sex x a x b x c.d=e"], ("sex", "a x b", "c.d=e")),
        (["prefixes of code"], (Axis("code", queries="prefixes"),)),
        (["sex", "ranges of age"], ("sex", Axis("age", queries="ranges"))),
        (["total"], ()),
    ],
)
def test_tables_by_name(words: list[str], table: tuple[object, ...]) -> None:
    assert canonical(SCHEMA, words) == table


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["sxe"], "did you mean 'sex'?"),
        (["sex x agee"], "did you mean 'age'?"),
        (["age.stag"], "did you mean 'stage'?"),
        (["age by stag"], "did you mean 'stage'?"),
        (["sex.stage"], "level of 'sex'"),
        (["sex", "sex"], "every attribute once"),
        (["age", "age.stage"], "every attribute once"),
        (["ranges of sex"], "ordered"),
        (["total", "sex"], "available: sex"),
        ([""], "available: sex"),
        (["sex x "], "available: sex"),
    ],
)
def test_wrong_tables_are_refused_with_a_hint(words: list[str], hint: str) -> None:
    with pytest.raises(PrivcubeError, match="expected") as caught:
        canonical(SCHEMA, words)
    assert hint in str(caught.value)


def test_an_attribute_called_total_is_that_attribute() -> None:
    assert canonical(Schema.from_sizes({"total": 2}), ["total"]) == ("total",)


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("sex=F", [0]),
        ("sex = F", [0]),
        ("sex=F,M", [0, 1]),
        ("sex=M, F", [0, 1]),
        ("age=0..15", [0, 1]),
        ("age=0.5..65", [1, 2]),
        ("age=1/2..15", [1]),
        ("age=..15", [0, 1]),
        ("age=15..", [2]),
        ("age=..", [0, 1, 2]),
        ("age=[0.5, 15)", [1]),
        ("age=[0, 0.5),[15, 65)", [0, 2]),
        ("age=[0, 0.5)..[0.5, 15)", [0, 1]),
        ("age=>= 65", [3]),
        ("age=[15, 65)..>= 65", [2, 3]),
        ("age.stage=[0, 15)", [0, 1]),
        ("age by stage=[0, 15),[15, 65)", [0, 1, 2]),
        ("rooms=3", [2]),
        ("rooms=2..5", [1, 2, 3]),
        ("rooms=1,5", [0, 3]),
        ("code=7", [7]),
        ("code=7..9", [7, 8, 9]),
        ("code=18..", [18, 19]),
        ("code=1,19", [1, 19]),
        ("ok=true", [0]),
        ("ok=False", [1]),
        ("a x b=1, 2", [0]),
        ("a x b=1,2", [1, 2]),
        ("a x b=2,1, 2", [0, 2]),
        ("a x b=x=y", [3]),
        ("a x b=p..q", [4]),
        ("c.d=e=1", [1]),
    ],
)
def test_conditions(text: str, cells: list[int]) -> None:
    ((name, selection),) = conditions_from(SCHEMA, [text]).items()
    assert selected_cells(SCHEMA[name], selection) == cells


@pytest.mark.parametrize(
    ("texts", "hint"),
    [
        (["sex"], "attribute=value"),
        (["=F"], "an attribute"),
        (["sxe=F"], "did you mean 'sex'?"),
        (["age.stag=x"], "did you mean 'age.stage'?"),
        (["sex=X"], "available: F, M"),
        (["sex="], "available: F, M"),
        (["sex=F,"], "available: F, M"),
        (["sex=F..M"], "an order"),
        (["age=1..15"], "two of its edges"),
        (["age=15..0"], "low below high"),
        (["age=a..b"], "a finite number"),
        (["age=1e99999999..15"], "a finite number"),
        (["rooms=1..4"], "one of its labels"),
        (["rooms=5..1"], "first label to come before the last"),
        (["code=20"], "one of its labels"),
        (["code=-1"], "one of its labels"),
        (["code=" + "9" * 5000], "one of its labels"),
        (["code=٣"], "one of its labels"),
        (["age.stage=[0, 65)"], "one of its groups"),
        (["sex=F", "sex=M"], "every attribute once"),
        (["age=0..15", "age.stage=[0, 15)"], "every attribute once"),
    ],
)
def test_wrong_conditions_are_refused_with_a_hint(texts: list[str], hint: str) -> None:
    with pytest.raises(PrivcubeError, match="expected") as caught:
        [selected_cells(SCHEMA[name], chosen) for name, chosen in conditions_from(SCHEMA, texts).items()]
    assert hint in str(caught.value)


def test_parts_prefer_the_longest_known_name() -> None:
    assert parts_of("a,b,c", ",", {"a,b": 1, "a": 2, "c": 3}.get) == [1, 3]
    assert parts_of("b,a,", ",", {"a": 2}.get) == ["b", 2, ""]


@pytest.mark.parametrize(
    ("text", "margin", "confidence", "table"),
    [
        ("50 at 95% on sex x age", 50, 0.95, ("sex", "age")),
        ("+-50 at 95 % on sex", 50, 0.95, ("sex",)),
        ("+/- 50 at 99.9 %", 50, 0.999, None),
        ("± 1,000", 1000, 0.95, None),
        ("0.5 on age by stage", 0.5, 0.95, (STAGE,)),
    ],
)
def test_accuracies(text: str, margin: float, confidence: float, table: object) -> None:
    found = Accuracy.from_text(SCHEMA, text)
    assert (found.margin, found.table) == (margin, table)
    assert found.confidence == pytest.approx(confidence)


@pytest.mark.parametrize(
    "text", ["", "much", "0 at 95%", "-5", "50 at 95", "50 at 100%", "50 at 0%", "50 on", "5..0", "50 on sxe", "50at"]
)
def test_wrong_accuracies_are_refused(text: str) -> None:
    with pytest.raises(PrivcubeError, match="expected"):
        Accuracy.from_text(SCHEMA, text)


def test_a_plan_knows_no_table_that_it_does_not_determine() -> None:
    from privcube.planning.targets import margins

    schema = Schema.from_sizes({"a": 2, "b": 3})
    for recovery in ("optimal", "direct"):
        made = plan(Workload.all_kway(schema, 1), PureDP(1), "marginals", recovery=recovery)
        with pytest.raises(PrivcubeError, match="a x b: expected a table"):
            margins(made, [("a", "b")], 0.95)
