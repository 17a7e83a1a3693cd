"""Every engine cleans alike: spellings, dates, and records that are left out, with and without persons."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cleaning import DATES, TEXTS, VALUES, spellings_and_dates
from factories import Columns
from holders import KEY, Holder, request_for
from reference import DROPPED, code_of, coded, counted, refused_columns

from privcube import Attribute, Dates, Schema
from privcube.errors import DataError
from privcube.sensitive.engine import CountRequest


def assert_equal(holder: Holder, folder: Path, request: CountRequest, columns: Columns) -> None:
    told = holder.told(columns)
    assert not refused_columns(request, told)
    found, expected = holder.count(columns, folder, request), counted(request, told)
    wrong = [names for names in request.tables if not np.array_equal(found.for_the_gate(names), expected[names])]
    assert not wrong


WHOLE_GRID = ("parquet", "postgresql table", "spark")  # one for each program that codes


def test_spellings_and_dates(source: Holder, tmp_path: Path) -> None:
    """All of them where values are coded by another program, else two for each column: how it is held may differ."""
    attributes, columns = spellings_and_dates()
    if source.name not in WHOLE_GRID:
        by_column = {name: [one for one in attributes if one.column == name] for name in columns}
        attributes = [one for own in by_column.values() for one in (own[0], own[-1])]
    assert_equal(source, tmp_path, request_for(attributes), columns)


def test_the_grid_has_something_in_most_cells() -> None:
    """Otherwise the test above would say little."""
    attributes, columns = spellings_and_dates()
    for attribute in attributes:
        kind, values = columns[attribute.column]
        codes = {code_of(attribute, kind, value) for value in values}
        assert len(codes) >= 2, attribute.name


DROPPING: list[dict[str, Any]] = [
    {"values": ["yes", "no"], "raw": {"yes": ["Y", "1"]}, "missing": "drop", "other": "category", "column": "texts"},
    {"values": ["yes", "no"], "trim": True, "missing": "category", "other": "drop", "column": "texts"},
    {"bins": [0, 1, 50], "underflow": "drop", "overflow": "drop", "missing": "category", "other": "drop",
     "column": "numbers"},
    {"dates": Dates(by="month", first="2024-01", last="2024-12"), "underflow": "drop", "overflow": "clamp",
     "missing": "drop", "other": "drop", "column": "days"},
    {"size": 5, "missing": "drop", "other": "drop", "column": "codes"},
]  # fmt: skip
CONDITIONS: list[dict[str, Any]] = [
    {},
    {"texts": ["yes", "Yes", "1", "no", "99"]},
    {"numbers": {"from": 0, "below": 8}, "days": {"first": "2024-01-01"}},
    {"a": ["yes"], "instants": {"last": "2024-06-30"}, "codes": [1, 0, 7]},
]


def dropping(holder: Holder, seed: int) -> tuple[list[Attribute], Columns, dict[str, Any]]:
    """Attributes, a table by chance, and conditions on it."""
    chance = random.Random(seed)
    declared = chance.sample(DROPPING, 2)
    attributes = [Attribute(name, **own) for name, own in zip("ab", declared, strict=True)]
    attributes.append(Attribute("strict", values=["x"]))  # refuses what other attributes drop
    columns: Columns = {
        name: (kind, [chance.choice(values) for _ in range(200)]) for name, (kind, values) in VALUES.items()
    }
    where = dict(CONDITIONS[seed % len(CONDITIONS)])
    if "a" in where and attributes[0].values is None:
        del where["a"]
    drafted = request_of(attributes, where, None)
    columns["strict"] = "text", ["x"] * 200
    kept = coded(drafted, holder.told(columns))
    columns["strict"] = "text", ["x" if record is not None else "not declared" for record in kept]
    columns["who"] = "text", [f"p{chance.randrange(25)}" if record is not None else None for record in kept]
    return attributes, columns, where


def request_of(attributes: list[Attribute], where: dict[str, Any], person: str | None) -> CountRequest:
    """All pairs of the first and the last attribute: the one between them is in no table, and drops all the same."""
    tables = ((), ("a",), ("strict",), ("a", "strict"))
    return CountRequest(Schema(attributes, where=where), tables, person, 3, KEY)


@pytest.mark.parametrize(("seed", "person"), [(0, None), (1, "who"), (2, "who"), (3, None), (7, "who")])
def test_dropped_records_count_nowhere(coder: Holder, seed: int, person: str | None, tmp_path: Path) -> None:
    """Not even where they would be refused, or name nobody; the bound on rows per person comes after."""
    attributes, columns, where = dropping(coder, seed)
    request = request_of(attributes, where, person)
    records = coded(request, coder.told(columns))
    assert None in records
    assert any(records)
    assert_equal(coder, tmp_path, request, columns)


def test_many_blocks_drop_alike(coder: Holder, tmp_path: Path) -> None:
    """A database that counts block by block drops the same records in each."""
    chance = random.Random(5)
    attributes = [Attribute(f"a{at}", size=40, missing="drop" if at % 2 else "category") for at in range(6)]
    columns: Columns = {
        attribute.name: ("integer", [chance.choice([None, *range(40)]) for _ in range(300)]) for attribute in attributes
    }
    tables = [(), *((one.name, other.name) for one, other in pairwise(attributes))]
    assert_equal(coder, tmp_path, request_for(attributes, tables), columns)


def test_timestamps_need_dates(coder: Holder, tmp_path: Path) -> None:
    columns: Columns = {"when": VALUES["moments"]}
    if coder.told(columns)["when"][0] == "timestamp":
        engine = coder.engine(columns, tmp_path)
        with pytest.raises(DataError, match=r"column 'when': expected dates declared for it"):
            engine.prepare(request_for([Attribute("when", values=["2024-01-31 00:00:00"])]))


def test_a_column_of_another_name_is_missed_by_that_name(coder: Holder, tmp_path: Path) -> None:
    engine = coder.engine({"sex": ("text", ["F"])}, tmp_path)
    with pytest.raises(DataError, match="expected one column named 'SEX_CD', given none"):
        engine.prepare(request_for([Attribute("sex", values=["F"], column="SEX_CD")]))


def test_the_reference_drops_and_cleans() -> None:
    """The twin itself does what it is for."""
    attribute = Attribute(
        "a", values=["yes"], raw={"yes": ["Y"]}, case="fold", trim=True, other="drop", missing="category"
    )
    assert [code_of(attribute, "text", text) for text in (" YES", "y", "?", "")] == [0, 0, DROPPED, 1]
    assert TEXTS
    assert DATES
