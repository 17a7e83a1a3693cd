"""The coding rule as DuckDB runs it: every record gets the code that the plain reference gives it, or none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from adversarial import DECLARATIONS, VALUES, every_policy
from factories import ARROW_TYPES
from reference import REFUSED, code_of

from privcube import Attribute
from privcube.errors import SchemaError
from privcube.sensitive.coding import DUCKDB, coded_records, kept_records, quoted_name, quoted_text
from privcube.sensitive.units import kept_rows


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        yield opened


def codes(
    connection: duckdb.DuckDBPyConnection, attributes: Sequence[Attribute], kind: str, array: pa.Array
) -> list[list[int | None]]:
    """The codes of a column by each of some attributes."""
    connection.register("given", pa.table([array] * len(attributes), names=[a.name for a in attributes]))
    records = connection.sql(coded_records("given", attributes, {a.name: kind for a in attributes}, DUCKDB))
    return [list(column) for column in zip(*records.fetchall(), strict=True)]


@pytest.mark.parametrize("kind", VALUES)
def test_every_value_under_every_policy(connection: duckdb.DuckDBPyConnection, kind: str) -> None:
    """What is refused is NULL; the reference refuses something, accepts something, for every kind."""
    attributes = [
        *every_policy(),
        *(Attribute(title, **declared) for title, declared in DECLARATIONS.items()),
        *(
            Attribute(f"{title} all", **declared, missing="category", other="category")
            for title, declared in DECLARATIONS.items()
        ),
    ]
    values = VALUES[kind]
    found = codes(connection, attributes, "text" if kind == "date" else kind, pa.array(values, type=ARROW_TYPES[kind]))
    expected = [[code_of(attribute, kind, value) for value in values] for attribute in attributes]
    wrong = [
        (attribute.name, value, got, right)
        for attribute, column, wanted in zip(attributes, found, expected, strict=True)
        for value, got, right in zip(values, column, wanted, strict=True)
        if got != right
    ]
    assert not wrong
    seen = {code is REFUSED for column in expected for code in column}
    assert seen == {True, False}


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()])
def test_integers_of_every_width(connection: duckdb.DuckDBPyConnection, kind: pa.DataType) -> None:
    """A run of integers is found by subtraction, which must not leave the width of the column."""
    limits = (
        (2 ** (kind.bit_width - ("uint" not in str(kind)))) - 1,
        0 if "uint" in str(kind) else -(2 ** (kind.bit_width - 1)),
    )
    values = [None, 0, 1, 2, 100, 127, *limits]
    attributes = [
        Attribute("low", values=list(range(-(2**63), -(2**63) + 3)), other="category"),
        Attribute("around zero", values=list(range(-100, 128)), other="category"),
        Attribute("high", values=list(range(2**63 - 3, 2**63)), other="category"),
        Attribute("size", size=100_000_000, other="refuse", missing="refuse"),
        Attribute("bins", bins=[-1, 1, 128, 2**64], underflow="clamp", overflow="clamp", missing="category"),
    ]
    found = codes(connection, attributes, "integer", pa.array(values, type=kind))
    assert found == [[code_of(attribute, "integer", value) for value in values] for attribute in attributes]


def test_short_floats_are_taken_as_they_are(connection: duckdb.DuckDBPyConnection) -> None:
    """0.1 in 32 bits is more than 0.1."""
    attribute = Attribute("x", bins=["0", "0.1", "0.2"])
    array = pa.array([0.1, 0.05, 0.15], type=pa.float32())
    assert codes(connection, [attribute], "float", array) == [[1, 0, 1]]


def test_many_values_and_many_bins(connection: duckdb.DuckDBPyConnection) -> None:
    words = Attribute("words", values=[f"w{number}" for number in range(20_000)], other="category")
    bins = Attribute("bins", bins=list(range(1001)), overflow="category")
    assert codes(connection, [words], "text", pa.array(["w19999", "w0", "w20000"])) == [[19_999, 0, 20_000]]
    assert codes(connection, [bins], "float", pa.array([0.0, 999.5, 1000.0, 37.0])) == [[0, 999, 1000, 37]]


def test_text_with_a_nul_character_is_read_to_its_end(connection: duckdb.DuckDBPyConnection) -> None:
    attribute = Attribute("x", values=["a"], other="category", missing="category")
    assert codes(connection, [attribute], "text", pa.array(["a", "a\0", "\0", " \0"])) == [[0, 1, 1, 1]]


def test_bytes_that_are_no_text_are_no_declared_value(connection: duckdb.DuckDBPyConnection) -> None:
    """Arrow does not look whether text is UTF-8."""
    raw = b"a\xff\xfe"
    offsets = pa.array([0, 1, 3], pa.int32()).buffers()[1]
    array = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(raw)])
    attribute = Attribute("x", values=["a"], other="category")
    assert codes(connection, [attribute], "text", array) == [[0, 1]]


@pytest.mark.parametrize("max_rows", [1, 2, 7, 10_000])
def test_the_rows_kept_are_those_of_the_reference(connection: duckdb.DuckDBPyConnection, max_rows: int) -> None:
    attributes = [Attribute("a", size=5), Attribute("b", values=["x", "y"])]
    rows = [(f"p{n % 13}" if n % 3 else "crowd", n % 5, "xy"[n * 7 % 2]) for n in range(500)]
    connection.register("given", pa.table(list(map(pa.array, zip(*rows, strict=True))), names=["who", "a", "b"]))
    query = kept_records(
        "given",
        attributes,
        {"who": "text", "a": "integer", "b": "text"},
        DUCKDB,
        person="who",
        max_rows=max_rows,
        key=b"k",
    )
    found = connection.sql(query).fetchall()
    pairs = [(who, (a, "xy".index(b))) for who, a, b in rows]
    assert sorted(row[:2] for row in found) == sorted(kept_rows(pairs, max_rows, b"k"))
    assert not any(nobody for *_, nobody in found)


@pytest.mark.parametrize("quote", [quoted_name, quoted_text])
@pytest.mark.parametrize(
    "text", ["a", 'a "b"', "it's", '"; DROP TABLE given; --', "'; DROP TABLE given; --", "\\", "", "\n"]
)
def test_names_and_texts_come_back_as_they_went_in(
    connection: duckdb.DuckDBPyConnection, quote: Any, text: str
) -> None:
    if quote is quoted_text:
        assert connection.sql(f"SELECT {quoted_text(text)}").fetchall() == [(text,)]
    elif text:
        assert connection.sql(f"SELECT 1 AS {quoted_name(text)}").columns == [text]


@pytest.mark.parametrize("quote", [quoted_name, quoted_text])
def test_a_nul_character_cannot_be_quoted(quote: Any) -> None:
    with pytest.raises(SchemaError, match="NUL"):
        quote("a\0b")
