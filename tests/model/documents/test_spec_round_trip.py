"""Any spec that can be declared is written as TOML and reads back equal: nothing is lost or changed on the way."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, get_args

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privcube.model import options
from privcube.model.attribute import Attribute
from privcube.model.documents.request import WorkloadRequest
from privcube.model.documents.spec import DataSource, LedgerTerms, Spec
from privcube.model.levels import Level
from privcube.model.privacy.guarantee import ZCDP, ApproxDP, Guarantee, PureDP
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Entry, canonical

Draw = Callable[[st.SearchStrategy[Any]], Any]

printable = st.one_of(
    st.sampled_from(
        ["it's", 'a "quote"', "back\\slash", "C:\\new\\table", "'''", '"""', "é", "日本", "🙂", "#", "[x]", "a.b", " "]
    ),
    st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=8),
).filter(
    lambda text: (
        text.strip()
        and all(ord(char) >= 32 and ord(char) != 127 for char in text)
        and text not in ("(other)", "(missing)")
    )  # taken, where these categories are asked for
)
policy = st.sampled_from(["refuse", "category"])
range_policy = st.sampled_from(["refuse", "category", "clamp"])
edges = st.lists(
    st.one_of(
        st.integers(-(10**20), 10**20).map(Fraction),
        st.decimals(-1000, 1000, places=3).map(Fraction),
        st.fractions(-5, 5, max_denominator=50),
    ),
    min_size=2,
    max_size=6,
    unique=True,
).map(sorted)


@st.composite
def grouped(draw: Draw, members: list[Any], names: list[str]) -> tuple[Level, ...]:
    """One or no level of named groups, each member in one of them."""
    if len(members) < 2 or not draw(st.booleans()):
        return ()
    labels = draw(st.lists(printable, min_size=1, max_size=len(members) - 1, unique=True))
    groups: dict[str, list[Any]] = {label: [member] for label, member in zip(labels, members, strict=False)}
    for member in members[len(labels) :]:
        groups[draw(st.sampled_from(labels))].append(member)
    return (Level(names[0], groups=groups),)


@st.composite
def attributes(draw: Draw, name: str) -> Attribute:
    level_names = draw(st.lists(printable.filter(lambda text: text != name), min_size=2, max_size=2, unique=True))
    common = {"missing": draw(policy), "other": draw(policy), "draft": draw(st.booleans())}
    kind = draw(st.sampled_from(["text", "integers", "booleans", "size", "bins"]))
    if kind == "size":
        size = draw(st.integers(1, 30))
        width = draw(st.integers(2, 5))
        levels = [Level(level_names[0], width=width)] if size > 1 and draw(st.booleans()) else []
        if levels and size > width and draw(st.booleans()):
            levels.append(Level(level_names[1], width=2 * width))
        return Attribute(name, size=size, levels=levels, **common)
    if kind == "bins":
        cuts = draw(edges)
        inner = draw(st.lists(st.sampled_from(cuts[1:-1]), unique=True)) if len(cuts) > 2 else []
        coarse = [cuts[0], *sorted(inner), cuts[-1]]
        levels = [Level(level_names[0], bins=coarse)] if len(coarse) < len(cuts) and draw(st.booleans()) else []
        ends = {"underflow": draw(range_policy), "overflow": draw(range_policy)}
        return Attribute(name, bins=cuts, levels=levels, **ends, **common)
    values = draw(
        {
            "text": st.lists(printable, min_size=1, max_size=5, unique=True),
            "integers": st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5, unique=True),
            "booleans": st.sampled_from([[False, True], [True, False], [True], [False]]),
        }[kind]
    )
    ordered = draw(st.sampled_from([None, False, True]))
    return Attribute(name, values=values, levels=draw(grouped(values, level_names)), ordered=ordered, **common)


@st.composite
def entries(draw: Draw, schema: Schema) -> tuple[Entry, ...]:
    """A table in the words of an asker: attributes in any order, plain, at a level, or by ranges."""
    table: list[Entry] = []
    for name in draw(st.lists(st.sampled_from(schema.names), unique=True)):
        attribute = schema[name]
        choices: list[Entry] = [name, Axis(name), *(Axis(name, level) for level in attribute.level_names)]
        if attribute.ordered:
            choices += [Axis(name, queries="prefixes"), Axis(name, queries="ranges")]
        table.append(draw(st.sampled_from(choices)))
    return tuple(table)


@st.composite
def requests(draw: Draw, schema: Schema) -> WorkloadRequest:
    some = st.lists(st.integers(0, len(schema) - 1), max_size=2).map(tuple)
    scales = [name for name in schema.names if schema[name].ordered]
    on_scale = st.lists(st.sampled_from(scales), min_size=1, unique=True).map(tuple) if scales else st.nothing()
    asked = draw(st.lists(entries(schema), max_size=3, unique_by=lambda table: canonical(schema, table)))
    weights = st.one_of(st.just(1.0), st.floats(1e-300, 1e300), st.integers(1, 10**20).map(float))
    parts: dict[str, Any] = {
        "all_kway": draw(st.lists(st.integers(0, len(schema)), max_size=2)),
        "kway_plus_half": draw(some),
        "kway_plus_attribute": draw(
            st.lists(st.tuples(st.integers(0, len(schema) - 1), st.sampled_from(schema.names)), max_size=2)
        ),
        "closure": draw(st.lists(entries(schema), max_size=2)),
        "prefixes": draw(st.lists(on_scale, max_size=2)) if scales else [],
        "ranges": draw(st.lists(on_scale, max_size=2)) if scales else [],
        "tables": [(table, draw(weights)) for table in asked],
    }
    nothing = not any(parts.values())
    return WorkloadRequest(
        **{key: tuple(value) for key, value in parts.items()}, full_cube=nothing or draw(st.booleans())
    )


budgets = st.fractions(Fraction(1, 10**9), 10**6, max_denominator=10**9)
chances = st.fractions(Fraction(1, 10**9), Fraction(999, 1000), max_denominator=10**9)


@st.composite
def guarantees(draw: Draw, rows: int) -> tuple[Guarantee, Guarantee]:
    """A guarantee and a ledger's total of its kind that it fits in."""
    protected = {"neighbors": draw(st.sampled_from(["add_remove", "replace_one"])), "max_rows_per_person": rows}
    spent, total = sorted((draw(budgets), draw(budgets)))
    kind = draw(st.sampled_from([PureDP, ApproxDP, ZCDP]))
    if kind is not ApproxDP:
        return kind(spent, **protected), kind(total, **protected)
    delta, most = sorted((draw(chances), draw(chances)))
    calibration = draw(st.sampled_from(["zcdp", "classic"]))
    return ApproxDP(spent, delta, **protected, calibration=calibration), ApproxDP(total, most, **protected)


@st.composite
def specs(draw: Draw) -> Spec:
    names = draw(st.lists(printable, min_size=1, max_size=3, unique=True))
    schema = Schema([draw(attributes(name)) for name in names])
    person = draw(st.one_of(st.none(), printable.filter(lambda text: text not in names)))
    rows = 1 if person is None else draw(st.integers(1, 1000))
    spent, total = draw(guarantees(rows))
    whence = draw(st.sampled_from([None, "table", "query"]))
    if whence == "query" and person is None:
        spent, total = (replace(guarantee, row="row of the query") for guarantee in (spent, total))
    return Spec(
        data=DataSource(
            source=draw(printable),
            dataset=draw(st.one_of(st.none(), printable)),
            person=person,
            **({whence: draw(printable)} if whence else {}),
        ),
        guarantee=spent,
        schema=schema,
        request=draw(requests(schema)),
        ledger=draw(
            st.sampled_from([None, LedgerTerms(path=draw(printable)), LedgerTerms(path=draw(printable), total=total)])
        ),
        options=options.PlanOptions(
            strategy=draw(st.sampled_from(get_args(options.Strategy))),
            budgets=draw(st.sampled_from(get_args(options.Budgets))),
            recovery=draw(st.sampled_from(get_args(options.Recovery))),
            effort=draw(st.sampled_from(get_args(options.Effort))),
        ),
        output=draw(printable),
    )


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(specs())
def test_reads_back_equal(spec: Spec) -> None:
    text = spec.to_toml()
    back = Spec.from_toml(text)
    assert back == spec
    assert repr(back.schema) == repr(spec.schema)  # True == 1 in Python: equality alone would not see the difference
    assert [attribute.labels for attribute in back.schema] == [attribute.labels for attribute in spec.schema]
    assert back.workload == spec.workload
    assert back.to_toml() == text


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(specs())
def test_written_amounts_are_exact(spec: Spec) -> None:
    """Amounts leave as text, never as a float that would round them."""
    privacy = tomllib.loads(spec.to_toml())["privacy"]
    for name, amount in spec.guarantee.amounts.items():
        assert isinstance(privacy[name], str)
        assert Fraction(privacy[name]) == amount
