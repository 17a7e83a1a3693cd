"""spec.toml: every spec reads back as itself, every mistake is refused with its path, nothing else escapes."""

from __future__ import annotations

import copy
import time
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privcube.errors import GuaranteeError, PrivcubeError, SpecError
from privcube.model.guarantee import ZCDP, ApproxDP, PureDP
from privcube.model.levels import Level
from privcube.model.options import PlanOptions
from privcube.model.spec import DataSource, LedgerTerms, Spec
from privcube.model.workload import Axis

FULL = """
[data]
source = "postgresql://db/adult"
table = "adult"
person = "patient"
max_rows_per_person = 3

[privacy]
epsilon = "0.5"
delta = 1e-6
neighbors = "replace_one"
calibration = "classic"
ledger = "ledger.db"
total_epsilon = "4"
total_delta = "1e-5"

[[attributes]]
name = "sex"
values = ["Female", "Male"]
missing = "category"
other = "category"
draft = true

[[attributes]]
name = "age"
bins = [0, 17.5, "30", 65, 120]
underflow = "clamp"
overflow = "category"
[[attributes.levels]]
name = "adult"
bins = [0, 17.5, 120]

[[attributes]]
name = "city"
values = ["LA", "SF", "NYC"]
ordered = false
[[attributes.levels]]
name = "state"
groups = {CA = ["LA", "SF"], NY = ["NYC"]}

[[attributes]]
name = "code"
size = 12
[[attributes.levels]]
name = "three"
width = 3

[workload]
all_kway = [1, 2]
kway_plus_half = [1]
kway_plus_attribute = [{k = 1, attribute = "sex"}]
full_cube = true
closure = [["sex", {attribute = "age", level = "adult"}]]
prefixes = [["age"]]
ranges = [["code", "age"]]
tables = [["sex", "age"], {attributes = ["city", {attribute = "code", queries = "ranges"}], weight = 2.5}, []]

[plan]
strategy = "residual"
effort = "fast"
budgets = "uniform"
recovery = "direct"

[output]
path = "results"
"""

DOCUMENT = tomllib.loads(FULL)

# Keys whose absence has a meaning of its own: a default, or one way of several to ask for tables.
OPTIONAL = {
    *("data.table", "privacy.neighbors", "privacy.calibration"),
    *("plan", "plan.strategy", "plan.effort", "plan.budgets", "plan.recovery", "output", "output.path"),
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
    "data.person": "data: expected person and max_rows_per_person together",
    "data.max_rows_per_person": "data: expected person and max_rows_per_person together",
    "privacy": "privacy: expected a value",
    "privacy.epsilon": "calibration: expected to be left out unless epsilon and delta are given",
    "privacy.delta": "calibration: expected to be left out unless epsilon and delta are given",
    "privacy.ledger": "privacy: expected a ledger to hold the total",
    "privacy.total_epsilon": "total of the ledger, privacy budget: expected epsilon alone, epsilon and delta",
    "privacy.total_delta": "privacy: expected a total in the amounts of the release: total_epsilon, total_delta",
    "attributes": "attributes: expected a value",
    **{f"attributes[{index}].name": f"attributes[{index}].name: expected a value" for index in range(4)},
    "attributes[0].values": "attribute 'sex': expected one of values, size and bins",
    "attributes[1].bins": "attribute 'age': expected one of values, size and bins",
    "attributes[2].values": "attribute 'city': expected one of values, size and bins",
    "attributes[3].size": "attribute 'code': expected one of values, size and bins",
    "attributes[1].levels": "level of 'age': expected a declared level, given 'adult'",
    **{f"attributes[{i}].levels[0].name": f"attributes[{i}].levels[0].name: expected a value" for i in (1, 2, 3)},
    "attributes[1].levels[0].bins": "level 'adult': expected one of groups, width and bins",
    "attributes[2].levels[0].groups": "level 'state': expected one of groups, width and bins",
    "attributes[2].levels[0].groups.CA": "attribute 'city', level 'state': expected a group for every member",
    "attributes[2].levels[0].groups.NY": "attribute 'city', level 'state': expected a group for every member",
    "attributes[3].levels[0].width": "level 'three': expected one of groups, width and bins",
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


def minimal(privacy: str = 'epsilon = "1"', data: str = "", attribute: str = "size = 3", more: str = "") -> str:
    return (
        f'[data]\nsource = "x.csv"\n{data}\n[privacy]\n{privacy}\n[[attributes]]\nname = "a"\n{attribute}\n'
        f"[workload]\nall_kway = [1]\n{more}"
    )


def test_full_document_is_read() -> None:
    spec = Spec.from_toml(FULL)
    assert spec.data == DataSource(source="postgresql://db/adult", table="adult", person="patient")
    protected = {"neighbors": "replace_one", "max_rows_per_person": 3}
    assert spec.guarantee == ApproxDP("1/2", "1/1000000", **protected, calibration="classic")
    assert spec.ledger == LedgerTerms(path="ledger.db", total=ApproxDP(4, "1e-5", **protected))
    assert spec.schema.names == ("sex", "age", "city", "code")
    assert spec.schema.drafts == ("sex",)
    assert spec.schema["age"].bins == (0, Fraction(35, 2), 30, 65, 120)
    assert spec.schema["age"].labels[-1] == ">= 120"
    assert spec.schema["city"].levels == (Level("state", groups={"CA": ["LA", "SF"], "NY": ["NYC"]}),)
    assert spec.options == PlanOptions(strategy="residual", effort="fast", budgets="uniform", recovery="direct")
    assert spec.output == "results"
    assert spec.workload.weight(("city", Axis("code", queries="ranges"))) == 2.5
    assert len(spec.workload) == 2 * 3 * 3 * 3 + 3
    assert Spec.from_toml(spec.to_toml()) == spec


def test_defaults() -> None:
    spec = Spec.from_toml(minimal())
    assert (spec.guarantee, spec.ledger, spec.options, spec.output) == (PureDP(1), None, PlanOptions(), "out")
    attribute = spec.schema["a"]
    assert (attribute.missing, attribute.other, attribute.draft, attribute.ordered) == ("refuse", "refuse", False, True)


def test_amounts_are_exact_however_written() -> None:
    for amount in ('"0.1"', "0.1", '"1/10"', "1e-1"):
        assert Spec.from_toml(minimal(f"epsilon = {amount}")).guarantee == PureDP(Fraction(1, 10))


# Keys


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
    refused = 0
    for value in WRONG:
        try:
            Spec.from_toml(changed(place, value))
        except PrivcubeError as problem:
            refused += 1
            assert len(str(problem)) < 600
    assert refused >= 9


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
        (("workload", "tables", 0), "sex", "workload.tables[0]"),
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


# Contradictions


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (minimal(data='person = "p"'), "person and max_rows_per_person together.*person alone"),
        (minimal(data="max_rows_per_person = 2"), "max_rows_per_person alone"),
        (minimal(data="max_rows_per_person = 1"), "max_rows_per_person alone"),
        (minimal(data='person = "a"\nmax_rows_per_person = 2'), "data.person: .*not an attribute to publish"),
        (minimal(data='table = "t"\nquery = "select 1"'), "a table or a query, given 'both'"),
        (minimal('epsilon = 1\ntotal_epsilon = "2"'), "a ledger to hold the total"),
        (minimal('epsilon = 1\nledger = "l"\ntotal_epsilon = "0.5"'), "privacy.total_epsilon: expected at least .* 1,"),
        (minimal('epsilon = 1\nledger = "l"\ntotal_rho = "2"'), "amounts of the release: total_epsilon.*total_rho"),
        (
            minimal('epsilon = 1\nledger = "l"\ntotal_epsilon = 2\ntotal_delta = 0.1'),
            "given 'total_epsilon, total_delta'",
        ),
        (
            minimal('epsilon = 1\ndelta = 1e-6\nledger = "l"\ntotal_epsilon = 2\ntotal_delta = 1e-7'),
            "privacy.total_delta",
        ),
        (minimal('epsilon = 1\ndelta = 1e-6\nledger = "l"\ntotal_epsilon = 2'), "total_epsilon, total_delta"),
        (minimal('epsilon = 1\nledger = "l"\ntotal_delta = 0.1'), "total of the ledger"),
        (minimal("epsilon = 1\nrho = 1"), "given 'epsilon and rho'"),
        (minimal("delta = 1e-6"), "given 'delta'"),
        (minimal(""), "given 'none of them'"),
        (minimal('epsilon = 1\ncalibration = "classic"'), "calibration"),
        (minimal().replace("all_kway = [1]", ""), "workload: expected at least one table"),
        (minimal(more='tables = [["a"], ["a"]]'), "a twice"),
        (minimal(more='tables = [["b"]]'), "attributes of the schema, given 'b'"),
        (minimal(more='kway_plus_attribute = [{attribute = "a"}]'), r"kway_plus_attribute\[0\].k: expected a value"),
        (minimal(attribute="size = 3\nvalues = [1]"), "values and size"),
        (minimal(attribute="size = 3\n[[attributes]]\nname = 'a'\nsize = 2"), "'a' twice"),
    ],
)
def test_contradictions_are_refused(text: str, message: str) -> None:
    with pytest.raises(PrivcubeError, match=message):
        Spec.from_toml(text)


def test_contradictions_are_refused_in_code_too() -> None:
    """What to_toml could not say would come back as a weaker guarantee."""
    spec = Spec.from_toml(minimal())
    with pytest.raises(SpecError, match=r"data\.person"):
        replace(spec, guarantee=PureDP(1, max_rows_per_person=3))
    with pytest.raises(SpecError, match="a table or a query"):
        DataSource(source="x", table="t", query="q")
    with pytest.raises(SpecError, match="total_epsilon"):
        replace(spec, ledger=LedgerTerms(path="l", total=PureDP("0.5")))
    with pytest.raises(SpecError, match="amounts of the release"):
        replace(spec, ledger=LedgerTerms(path="l", total=ZCDP(5)))
    with pytest.raises(SpecError, match="unit of the release, adding or removing one row, given 'replacing one row'"):
        replace(spec, ledger=LedgerTerms(path="l", total=PureDP(5, neighbors="replace_one")))
    assert replace(spec, ledger=LedgerTerms(path="l", total=PureDP(1))).ledger is not None


# Files


def test_reads_a_file_with_and_without_mark(tmp_path: Path) -> None:
    for name, encoding in (("plain.toml", "utf-8"), ("marked.toml", "utf-8-sig")):
        (tmp_path / name).write_text(FULL, encoding=encoding)
        assert Spec.read(tmp_path / name) == Spec.from_toml(FULL)
        assert Spec.read(str(tmp_path / name)) == Spec.from_toml(FULL)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(FULL.replace("Female", "Fémale").encode("latin-1"))
    (tmp_path / "wide.toml").write_bytes(FULL.encode("utf-16"))
    (tmp_path / "folder.toml").mkdir()
    for name, message in (
        ("latin.toml", "text in UTF-8"),
        ("wide.toml", "text in UTF-8"),
        ("folder.toml", "a file that can be read"),
        ("absent.toml", "a file that can be read, given 'No such file"),
        ("zero\0byte.toml", "a file that can be read"),
        ("x" * 5000, "a file that can be read"),
    ):
        with pytest.raises(SpecError, match=message):
            Spec.read(tmp_path / name)


def test_large_files_are_refused_quickly(tmp_path: Path) -> None:
    (tmp_path / "large.toml").write_bytes(b"# padding\n" * 2**20)
    start = time.perf_counter()
    with pytest.raises(SpecError, match="at most 4 MiB"):
        Spec.read(tmp_path / "large.toml")
    with pytest.raises(SpecError, match="at most 4 MiB"):
        Spec.from_toml("#" * (10 * 2**20))
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[[[[",
        "a = " + "[" * 10**5,
        "a = " + "{a=" * 10**5,
        "[" * 10**5,
        minimal("epsilon = 1" + "0" * 10_000),
        minimal("epsilon = 0x1" + "0" * 10_000),
        minimal("epsilon = 1e" + "9" * 30),
        minimal("epsilon." + "a." * 2000 + "a = 1"),
        minimal("epsilon = 1979-05-27"),
        minimal(attribute="values = [0x1" + "0" * 5000 + ", 0x1" + "0" * 5000 + "]"),
        minimal(attribute="size = 0x1" + "0" * 10_000),
        minimal(attribute="bins = [0, 0x1" + "0" * 10_000 + "]"),
        minimal(attribute="bins = [0, 1, 2]\n[[attributes.levels]]\nname = 'l'\nbins = []"),
        minimal(attribute="size = 4\n[[attributes.levels]]\nname = 'l'\nwidth = -0"),
        minimal(more="all_kway = [1]"),
        minimal(more="kway_plus_half = [0x1" + "0" * 10_000 + "]"),
        minimal('epsilon = 1\nepsilon = "1"'),
        "\x00",
        "\ud800 = 1",
        "a = '\ud800'",
    ],
    ids=lambda text: repr(text[-24:]),
)
def test_hostile_text_is_refused(text: str) -> None:
    with pytest.raises(PrivcubeError) as refusal:
        Spec.from_toml(text)
    assert len(str(refusal.value)) < 600


def test_total_errors_keep_their_kind() -> None:
    with pytest.raises(GuaranteeError, match="^total of the ledger, epsilon"):
        Spec.from_toml(minimal('epsilon = 1\nledger = "l"\ntotal_epsilon = "1e999"'))


# Fuzzing

SCRAPS = [
    *(
        "[",
        "]",
        "{",
        "}",
        '"',
        "'",
        "=",
        ".",
        ",",
        "\n",
        "#",
        "\\",
        "-",
        "0",
        "1",
        "9",
        "e",
        "_",
        " ",
        "\t",
        "\x00",
        "é",
    ),
    *(
        "nan",
        "inf",
        "-inf",
        "true",
        "[]",
        "{}",
        '""',
        "0x1F",
        "1e400",
        "1979-05-27",
        "[[data]]",
        "[privacy]",
        "'''",
        "rho",
    ),
    *(" = 1\n", "[[attributes]]\n", "levels = []\n", "9" * 30, "epsilon.a = 1\n", "tables = [[[]]]\n", "-0.0", "1/0"),
]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """The full text after a few cuts, copies and insertions, mostly still TOML."""
    text = FULL
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        length = draw(st.sampled_from([0, 0, 1, 1, 2, 5, 20, 200]))
        middle = draw(st.one_of(st.sampled_from(SCRAPS), st.just(""), st.text(max_size=3)))
        text = text[:start] + middle + text[start + length :]
    return text


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutated())
def test_mutated_text_raises_nothing_else(text: str) -> None:
    try:
        spec = Spec.from_toml(text)
    except PrivcubeError:
        return
    assert Spec.from_toml(spec.to_toml()) == spec


leaves = st.one_of(
    st.integers(),
    st.floats(),
    st.booleans(),
    st.text(max_size=5),
    st.sampled_from(["sex", "age", "city", "code", "adult", "category", "clamp", "ranges", "a", 2**70, 10**400]),
)
junk = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["name", "attribute", "attributes", "weight", "k", "groups", "x"]), inner, max_size=3
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(list(places(DOCUMENT))), junk), min_size=1, max_size=3))
def test_mutated_values_raise_nothing_else(changes: list[tuple[Place, Any]]) -> None:
    """Always TOML, so that the checks behind the parser are reached."""
    document = copy.deepcopy(DOCUMENT)
    for place, value in changes:
        try:
            at(document, place[:-1])[place[-1]] = copy.deepcopy(value)
        except (KeyError, IndexError, TypeError):
            continue
    text = tomli_w.dumps(document)
    try:
        spec = Spec.from_toml(text)
    except PrivcubeError:
        return
    assert Spec.from_toml(spec.to_toml()) == spec
