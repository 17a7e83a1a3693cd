"""Every key of a spec.toml: left out, misspelt or of another type, it is refused with its path."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from privcube.errors import PrivcubeError, SpecError
from privcube.model.documents.spec import Spec

FULL = (Path(__file__).parent / "full.toml").read_text(encoding="utf-8")
DOCUMENT = tomllib.loads(FULL)

# Keys whose absence has a meaning of its own: a default, or one way of several to ask for tables.
OPTIONAL = {
    *("data.dataset", "data.table", "privacy.neighbors", "privacy.calibration"),
    *("plan", "plan.strategy", "plan.effort", "plan.budgets", "plan.recovery"),
    *("plan.objective", "output", "output.path"),
    *("attributes[0].missing", "attributes[0].other", "attributes[0].draft", "attributes[2].ordered"),
    *("attributes[1].underflow", "attributes[1].overflow", "attributes[2].levels", "attributes[3].levels"),
    *("workload.all_kway", "workload.kway_plus_half", "workload.kway_plus_attribute", "workload.full_cube"),
    *("workload.closure", "workload.prefixes", "workload.ranges", "workload.tables"),
    *("workload.closure[0][1].level", "workload.tables[1].weight", "workload.tables[1].attributes[1].queries"),
}

# What the refusal begins with when any other key is left out.
MISSED = {
    "data": "data: expected a value",
    "data.source": "data.source: expected a value",
    "data.person": "data: expected both person and max_rows_per_person",
    "data.max_rows_per_person": "data: expected both person and max_rows_per_person",
    "privacy": "privacy: expected a value",
    "privacy.epsilon": "calibration: expected none unless epsilon and delta are given",
    "privacy.delta": "calibration: expected none unless epsilon and delta are given",
    "privacy.ledger": "privacy: expected a ledger that the total applies to",
    "privacy.total_epsilon": "total of the ledger, privacy budget: expected epsilon alone, epsilon and delta",
    "privacy.total_delta": "privacy: expected a total in the amounts of the release: total_epsilon, total_delta",
    "attributes": "attributes: expected a value",
    **{f"attributes[{index}].name": f"attributes[{index}].name: expected a value" for index in range(4)},
    "attributes[0].values": "attribute 'sex': expected one of values, size, bins and dates",
    "attributes[1].bins": "attribute 'age': expected one of values, size, bins and dates",
    "attributes[2].values": "attribute 'city': expected one of values, size, bins and dates",
    "attributes[3].size": "attribute 'code': expected one of values, size, bins and dates",
    "attributes[1].levels": "level of 'age': expected a declared level, given 'adult'",
    **{f"attributes[{i}].levels[0].name": f"attributes[{i}].levels[0].name: expected a value" for i in (1, 2, 3)},
    "attributes[1].levels[0].bins": "level 'adult': expected one of groups, width, bins and by",
    "attributes[2].levels[0].groups": "level 'state': expected one of groups, width, bins and by",
    "attributes[2].levels[0].groups.CA": "attribute 'city', level 'state': expected a group for every member",
    "attributes[2].levels[0].groups.NY": "attribute 'city', level 'state': expected a group for every member",
    "attributes[3].levels[0].width": "level 'three': expected one of groups, width, bins and by",
    "workload": "workload: expected a value",
    "workload.kway_plus_attribute[0].k": "workload.kway_plus_attribute[0].k: expected a value",
    "workload.kway_plus_attribute[0].attribute": "workload.kway_plus_attribute[0].attribute: expected a value",
    "workload.closure[0][1].attribute": "workload.closure.attribute: expected a value",
    "workload.tables[1].attributes": "workload.tables[1].attributes: expected a value",
    "workload.tables[1].attributes[1].attribute": "workload.tables[1].attributes.attribute: expected a value",
}

Place = tuple[str | int, ...]


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Every key of a document, inside lists too."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if isinstance(value, dict):
            yield (*place, key)
        yield from places(item, (*place, key))


def tables(value: Any, place: Place = ()) -> Iterator[Place]:
    """Every table of a document in which keys are fixed, inside lists too."""
    if isinstance(value, dict) and place[-1:] != ("groups",):
        yield place
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from tables(item, (*place, key))


def written(place: Place) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")


def at(document: dict[str, Any], place: Place) -> Any:
    for part in place:
        document = document[part]
    return document


def changed(place: Place, value: Any = None, *, delete: bool = False) -> str:
    """The full document with one key set or deleted, as TOML."""
    document = copy.deepcopy(DOCUMENT)
    parent = at(document, place[:-1])
    if delete:
        del parent[place[-1]]
    else:
        parent[place[-1]] = value
    return tomli_w.dumps(document)


def test_every_key_is_accounted_for() -> None:
    assert {written(place) for place in places(DOCUMENT)} == OPTIONAL | set(MISSED)


@pytest.mark.parametrize("place", [place for place in places(DOCUMENT) if written(place) in OPTIONAL], ids=written)
def test_optional_keys_may_be_left_out(place: Place) -> None:
    """And leaving them out is noticed, except where the default was written out."""
    unchanged = {"attributes[2].ordered"}
    assert (Spec.from_toml(changed(place, delete=True)) == Spec.from_toml(FULL)) is (written(place) in unchanged)


@pytest.mark.parametrize("place", [place for place in places(DOCUMENT) if written(place) in MISSED], ids=written)
def test_other_keys_are_missed_by_name(place: Place) -> None:
    with pytest.raises(PrivcubeError) as refusal:
        Spec.from_toml(changed(place, delete=True))
    assert str(refusal.value).startswith(MISSED[written(place)])


@pytest.mark.parametrize("place", list(tables(DOCUMENT)), ids=lambda place: written(place) or "root")
def test_unknown_key_in_every_table(place: Place) -> None:
    text = changed((*place, "zzz"), 1)
    with pytest.raises(SpecError) as refusal:
        Spec.from_toml(text)
    path = refusal.value.subject
    assert path.endswith("zzz")
    for part in place:
        assert str(part) in path or isinstance(part, int)
    assert "available: " in str(refusal.value)


@pytest.mark.parametrize(
    ("place", "path", "near"),
    [
        (("privacy", "epsilom"), "privacy.epsilom", "epsilon"),
        (("privacy", "dleta"), "privacy.dleta", "delta"),
        (("privacy", "neighbours"), "privacy.neighbours", "neighbors"),
        (("privacy", "total_epsilom"), "privacy.total_epsilom", "total_epsilon"),
        (("data", "max_row_per_person"), "data.max_row_per_person", "max_rows_per_person"),
        (("attribute",), "attribute", "attributes"),
        (("attributes", 1, "over_flow"), "attributes[1].over_flow", "overflow"),
        (("attributes", 2, "levels", 0, "group"), "attributes[2].levels[0].group", "groups"),
        (("workload", "all_k_way"), "workload.all_k_way", "all_kway"),
        (("workload", "tables", 1, "weights"), "workload.tables[1].weights", "weight"),
        (("plan", "stategy"), "plan.stategy", "strategy"),
        (("output", "paht"), "output.paht", "path"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_misspelt_key_gets_the_nearest(place: Place, path: str, near: str) -> None:
    """A misspelt privacy setting that is ignored would fail open."""
    with pytest.raises(SpecError) as refusal:
        Spec.from_toml(changed(place, 1))
    assert refusal.value.subject == path
    assert f"did you mean {near!r}?" in str(refusal.value)


@pytest.mark.parametrize("key", ["seed", "random_state"])
@pytest.mark.parametrize("section", ["privacy", "plan", "data", "output"])
def test_seed_is_refused_with_its_remark(section: str, key: str) -> None:
    with pytest.raises(SpecError, match=rf"^{section}\.{key}: .*cannot be seeded"):
        Spec.from_toml(changed((section, key), 1))


def test_strange_keys_make_one_short_line() -> None:
    for key in ("k" * 10**6, '"a\\nb\\u0007"', '""'):
        with pytest.raises(SpecError) as refusal:
            Spec.from_toml(f"{key} = 1\n")
        assert len(str(refusal.value)) < 400
        assert str(refusal.value).isprintable()


# Types


WRONG = [1, -1, 0, 1.5, float("nan"), True, "", "zzz", [], [1], [[]], [""], [[[]]], {}, {"zzz": 1}, [{}], 2**70]


@pytest.mark.parametrize("place", list(places(DOCUMENT)), ids=written)
def test_wrong_types_for_every_key(place: Place) -> None:
    """A value of another type is refused, or read as what it says; nothing but PrivcubeError is ever raised."""
    messages = []
    for value in WRONG:
        try:
            Spec.from_toml(changed(place, value))
        except PrivcubeError as problem:
            messages.append(str(problem))
    assert len(messages) >= len(WRONG) // 2
    assert max(map(len, messages)) < 600


@pytest.mark.parametrize(
    ("place", "value", "path"),
    [
        (("data", "source"), 5, "data.source"),
        (("data", "source"), " ", "data.source"),
        (("data", "max_rows_per_person"), "3", "data.max_rows_per_person"),
        (("data", "max_rows_per_person"), True, "data.max_rows_per_person"),
        (("data", "max_rows_per_person"), 0, "max_rows_per_person"),
        (("data",), [], "data"),
        (("privacy", "neighbors"), ["add_remove", "replace_one"], "privacy.neighbors"),
        (("privacy", "neighbors"), "bounded", "neighbors"),
        (("privacy", "epsilon"), [1], "epsilon"),
        (("privacy", "epsilon"), True, "epsilon"),
        (("privacy", "epsilon"), float("nan"), "epsilon"),
        (("privacy", "total_delta"), "x", "total of the ledger, delta"),
        (("privacy", "ledger"), 1, "privacy.ledger"),
        (("attributes",), {}, "attributes"),
        (("attributes",), [1], "attributes"),
        (("attributes",), [], "schema"),
        (("attributes", 0, "draft"), "yes", "attributes[0].draft"),
        (("attributes", 0, "missing"), True, "attributes[0].missing"),
        (("attributes", 0, "values"), "FM", "attribute 'sex', values"),
        (("attributes", 3, "size"), "12", "attribute 'code', size"),
        (("attributes", 3, "levels", 0, "width"), "3", "attributes[3].levels[0].width"),
        (("workload", "all_kway"), 2, "workload.all_kway"),
        (("workload", "all_kway"), [True], "workload.all_kway"),
        (("workload", "all_kway"), [9], "k"),
        (("workload", "full_cube"), 1, "workload.full_cube"),
        (("workload", "prefixes"), ["age"], "workload.prefixes"),
        (("workload", "tables", 0), 5, "workload.tables[0]"),
        (("workload", "tables", 1, "weight"), "2", "workload.tables[1].weight"),
        (("workload", "tables", 1, "weight"), float("nan"), "workload.tables[1].weight"),
        (("workload", "tables", 1, "weight"), float("inf"), "workload.tables[1].weight"),
        (("workload", "tables", 1, "weight"), -(10**400), "workload.tables[1].weight"),
        (("workload", "tables", 1, "weight"), 10**400, "workload.tables[1].weight"),
        (("workload", "tables", 1, "weight"), 0, "workload.tables[1].weight"),
        (("workload", "kway_plus_attribute", 0, "k"), "1", "workload.kway_plus_attribute[0].k"),
        (("plan", "strategy"), 1, "plan.strategy"),
        (("plan", "strategy"), "fourrier", "strategy"),
        (("output",), "out", "output"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_value_is_named(place: Place, value: object, path: str) -> None:
    with pytest.raises(PrivcubeError) as refusal:
        Spec.from_toml(changed(place, value))
    assert refusal.value.subject == path
