"""Whatever text a spec.toml holds, reading it raises a PrivcubeError or gives a spec that reads back as itself."""

from __future__ import annotations

import copy
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privcube.errors import PrivcubeError
from privcube.model.documents.spec import Spec

MANY = 10 if "PRIVCUBE_ATTACK" in os.environ else 1  # `make attack`
FULL = (Path(__file__).parent / "full.toml").read_text(encoding="utf-8")
DOCUMENT = tomllib.loads(FULL)

Place = tuple[str | int, ...]


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Everything in a document, tables and lists and what they hold."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*place, key)
        yield from places(item, (*place, key))


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
        middle = draw(
            st.one_of(
                st.sampled_from(SCRAPS), st.just(""), st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
            )
        )
        text = text[:start] + middle + text[start + length :]
    return text


@settings(max_examples=120 * MANY, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
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


@settings(max_examples=120 * MANY, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(list(places(DOCUMENT))), junk), min_size=1, max_size=3))
def test_mutated_values_raise_nothing_else(changes: list[tuple[Place, Any]]) -> None:
    """Always TOML, so that the checks behind the parser are reached."""
    document = copy.deepcopy(DOCUMENT)
    for place, value in changes:
        inside: Any = document
        try:
            for part in place[:-1]:
                inside = inside[part]
            if isinstance(inside, dict) != isinstance(place[-1], str):
                continue  # an earlier change put a table where a list was
            inside[place[-1]] = copy.deepcopy(value)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took the place away
    text = tomli_w.dumps(document)
    try:
        spec = Spec.from_toml(text)
    except PrivcubeError:
        return
    assert Spec.from_toml(spec.to_toml()) == spec
