"""Every engine counts what the plain reference counts, cell for cell, on tables that are hard to read alike."""

from __future__ import annotations

import os
import random
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from adversarial import (
    NAMES,
    VALUES,
    accepted,
    every_declaration_and_kind,
    every_policy,
    random_attribute,
    random_table,
)
from factories import Columns
from holders import Holder, request_for
from reference import counted, refused_columns

from privcube import Attribute
from privcube.sensitive.engine import CountRequest


def assert_equal(holder: Holder, folder: Path, request: CountRequest, columns: Columns) -> None:
    told = holder.told(columns)
    assert not refused_columns(request, told)
    found, expected = holder.count(columns, folder, request), counted(request, told)
    wrong = [names for names in request.tables if not np.array_equal(found.for_the_gate(names), expected[names])]
    assert not wrong


WHOLE_GRID = ("csv", "parquet", "pandas-objects", "postgresql table", "spark")  # every program that codes, and more


def test_every_declaration_over_every_kind_of_column(holder: Holder, tmp_path: Path) -> None:
    """All of them where values are coded by another program; a third where columns are only held otherwise."""
    attributes, columns = every_declaration_and_kind()
    if holder.name not in WHOLE_GRID:
        attributes = [one for at, one in enumerate(attributes) if (at + at // len(VALUES)) % 3 == 0]
        assert {columns[one.name][0] for one in attributes} == set(VALUES)
        columns = {one.name: columns[one.name] for one in attributes}
    assert_equal(holder, tmp_path, request_for(attributes), columns)


def test_every_policy_lets_through_what_it_should(coder: Holder, tmp_path: Path) -> None:
    attributes, columns = [], {}
    rows = len(VALUES["text"])
    for number, attribute in enumerate(every_policy()):
        kind = ("text", "float", "integer", "decimal")[number % 4 if attribute.bins else 0]
        values = accepted(coder, attribute, kind)
        attributes.append(attribute)
        columns[attribute.name] = kind, [values[row % len(values)] for row in range(rows)]
    assert_equal(coder, tmp_path, request_for(attributes), columns)


@pytest.mark.parametrize("seed", range(2 * int(os.environ.get("PRIVCUBE_ATTACK", "1"))))
def test_random_schemas_tables_and_persons(source: Holder, seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    names = chance.sample(NAMES, chance.randint(2, 6))
    attributes = [random_attribute(chance, name) for name in names]
    columns = random_table(chance, source, attributes, rows=chance.choice([40, 300]))
    possible = [subset for size in range(min(4, len(names) + 1)) for subset in combinations(names, size)]
    tables = chance.sample(possible, min(len(possible), 12))
    person = None
    if seed % 2:
        rows = len(columns[names[0]][1])
        person = "who"
        kind, people = chance.choice(
            [("text", ["ann", "bob ", " bob", "01", "1", "\u00e9", "e\u0301"]), ("integer", [1, 7, -3])]
        )
        columns = {"who": (kind, [chance.choice(people) for _ in range(rows)]), **columns}
    assert_equal(source, tmp_path, request_for(attributes, tables, person, max_rows=5), columns)


def test_names_that_are_hard_to_quote(source: Holder, tmp_path: Path) -> None:
    """Each column has its own values, so that one read in place of another is seen."""
    attributes = [Attribute(name, size=len(NAMES)) for name in NAMES]
    columns = {name: ("integer", [at, at, (at + 1) % len(NAMES)]) for at, name in enumerate(NAMES)}
    pairs = list(zip(NAMES[::2], NAMES[1::2], strict=False))
    assert_equal(source, tmp_path, request_for(attributes, [*pairs, (NAMES[-1],)], person="none", max_rows=2), columns)


def test_no_record(holder: Holder, tmp_path: Path) -> None:
    attributes = [Attribute("a", values=["x"]), Attribute("b", bins=[0, 1, 2]), Attribute("c", values=[True, False])]
    columns = {"a": ("text", []), "b": ("float", []), "c": ("boolean", [])}
    assert_equal(holder, tmp_path, request_for(attributes, [(), ("a",), ("a", "b", "c")]), columns)


def test_one_record_of_which_nothing_but_the_total_is_asked(source: Holder, tmp_path: Path) -> None:
    attributes = [Attribute("a", values=["x", "y"]), Attribute("b", size=3)]
    columns = {"a": ("text", ["y"]), "b": ("integer", [99])}  # b is not looked at
    assert_equal(source, tmp_path, request_for(attributes, [()]), columns)


def test_a_person_column_that_is_counted_too(source: Holder, tmp_path: Path) -> None:
    columns = {"who": ("text", ["ann"] * 5 + ["bob"] * 3 + ["cy"]), "a": ("integer", [0, 1, 2, 0, 1, 2, 2, 2, 0])}
    attributes = [Attribute("who", values=["ann", "bob", "cy"]), Attribute("a", size=3)]
    assert_equal(source, tmp_path, request_for(attributes, [("who", "a"), ("who",)], person="who", max_rows=2), columns)


def test_the_same_rows_of_a_person_are_kept(source: Holder, tmp_path: Path) -> None:
    """A person with 600 rows, some with a few, many with one; ids that only look alike are different persons."""
    chance = random.Random(11)
    ids = (
        ["crowd"] * 600
        + [f"p{number % 40}" for number in range(150)]
        + ["7", "07", "7.0", "7 ", "Crowd", "CROWD", "\u00e9", "e\u0301"]
    )
    chance.shuffle(ids)
    columns = {
        "who": ("text", ids),
        "a": ("integer", [chance.randrange(7) for _ in ids]),
        "b": ("text", [chance.choice("xyz") for _ in ids]),
        "unused": ("text", [chance.choice("xyz") for _ in ids]),
    }
    attributes = [
        Attribute("a", size=7),
        Attribute("b", values=["x", "y", "z"]),
        Attribute("unused", values=["x", "y", "z"]),
    ]
    request = request_for(attributes, [("a", "b"), ("a",), ()], person="who", max_rows=3)
    assert_equal(source, tmp_path, request, columns)
