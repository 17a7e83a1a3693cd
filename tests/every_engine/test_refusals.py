"""What the policies refuse stops every engine alike, with a sentence that names the column and nothing else."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from adversarial import BINS
from canaries import LONG, NUMBER, WORD, Surroundings, assert_no_canary, everything_said
from holders import Holder, request_for
from reference import refused_columns

from privcube import Attribute
from privcube.errors import DataError

ROWS = 30
WORDS = {"values": ["x", "y"]}
IN_BINS = {"bins": BINS}
ALL_BUT = {"missing": "category", "other": "category", "underflow": "category", "overflow": "clamp"}

REFUSED: dict[
    str, tuple[dict[str, Any], str, Any, Any]
] = {  # declaration, kind, a value that is refused, one that is not
    "null": (WORDS | {"other": "category"}, "text", None, "x"),
    "blank": (WORDS | {"other": "category"}, "text", " \t\n", "x"),
    "undeclared text": (WORDS | {"missing": "category"}, "text", WORD, "x"),
    "integer beside a run": ({"values": [1, 2, 3]}, "integer", NUMBER, 2),
    "undeclared decimal": ({"values": [1, 5]}, "decimal", Decimal(NUMBER) + Decimal("0.25"), Decimal(5)),
    "code above the size": ({"size": 9}, "integer", NUMBER, 8),
    "fraction": ({"size": 9}, "float", NUMBER + 0.5, 8.0),
    "boolean among words": (WORDS, "boolean", True, None),
    "date among words": (WORDS, "date", date(2024, 2, 29), None),
    "NaN": (IN_BINS | ALL_BUT | {"missing": "refuse"}, "float", float("nan"), 1.5),
    "too small": (IN_BINS | ALL_BUT | {"underflow": "refuse"}, "float", -float(NUMBER), 1.5),
    "too large": (IN_BINS | ALL_BUT | {"overflow": "refuse"}, "integer", NUMBER, 1),
    "long number": (IN_BINS | ALL_BUT | {"overflow": "refuse"}, "text", str(LONG)[:29], "1.5"),
    "infinite": (IN_BINS | ALL_BUT | {"overflow": "refuse"}, "float", float("inf"), 1.5),
    "no number": (IN_BINS | ALL_BUT | {"other": "refuse"}, "text", f"{LONG} {WORD}", "1.5"),
}


@pytest.mark.parametrize("case", ["undeclared text", "NaN"])
def test_a_refused_value_is_not_told(source: Holder, case: str, tmp_path: Path, surroundings: Surroundings) -> None:
    assert_refused(source, case, tmp_path, surroundings)


@pytest.mark.parametrize("case", REFUSED)
def test_no_refused_value_is_told(coder: Holder, case: str, tmp_path: Path, surroundings: Surroundings) -> None:
    assert_refused(coder, case, tmp_path, surroundings)


def assert_refused(holder: Holder, case: str, folder: Path, surroundings: Surroundings) -> None:
    """One refused value among many records, with canaries in a column that is not even used."""
    declared, kind, bad, good = REFUSED[case]
    missing = {"missing": "category"} if good is None else {}
    attributes = [
        Attribute("fine", size=2),
        Attribute("the column", **declared, **missing),
        Attribute("unused", values=["z"]),
    ]
    columns = {
        "fine": ("integer", [0, 1] * (ROWS // 2)),
        "the column": (kind, [*[good] * (ROWS - 7), bad, *[good] * 6]),
        "unused": ("text", [f"{WORD} {NUMBER} {LONG}"] * ROWS),
    }
    request = request_for(attributes, [("fine", "the column"), ()])
    assert refused_columns(request, holder.told(columns)) == {"the column"}
    with pytest.raises(DataError) as caught:
        holder.count(columns, folder, request)
    assert str(caught.value).startswith("column 'the column': expected only declared values in every record")
    assert_no_canary(everything_said(caught.value) + surroundings.said())


@pytest.mark.parametrize("nobody", [None, " \t"])
def test_a_record_without_a_person_is_refused(
    source: Holder, nobody: str | None, tmp_path: Path, surroundings: Surroundings
) -> None:
    attributes = [Attribute("a", size=2)]
    columns = {"who": ("text", [*[WORD] * 8, nobody, WORD]), "a": ("integer", [0, 1] * 5)}
    request = request_for(attributes, person="who", max_rows=2)
    with pytest.raises(DataError, match=r"column 'who': expected a person in every record") as caught:
        source.count(columns, tmp_path, request)
    assert_no_canary(everything_said(caught.value) + surroundings.said())


def test_a_refused_record_is_seen_beyond_the_rows_of_a_person_that_count(source: Holder, tmp_path: Path) -> None:
    """Whether data is refused does not depend on the key that chooses rows."""
    attributes = [Attribute("a", size=2)]
    columns = {"who": ("integer", [7] * 50), "a": ("integer", [0, 1] * 24 + [0, 2])}
    request = request_for(attributes, person="who", max_rows=1)
    with pytest.raises(DataError, match=r"column 'a'"):
        source.count(columns, tmp_path, request)


def test_persons_are_named_by_text_or_integers(source: Holder, tmp_path: Path) -> None:
    columns = {"who": ("float", [1.5, 2.0]), "a": ("integer", [0, 1])}
    told, _ = source.told(columns)["who"]
    request = request_for([Attribute("a", size=2)], person="who")
    engine = source.engine(columns, tmp_path)
    if told == "text":
        engine.prepare(request)
    else:
        with pytest.raises(DataError, match=r"column 'who': expected text or integers, to name persons"):
            engine.prepare(request)


def test_a_missing_column_is_seen_before_counting(source: Holder, tmp_path: Path, surroundings: Surroundings) -> None:
    """Also one that no table asks for; the columns that are there are not listed, as they may be a record."""
    columns = {"who": ("text", [WORD]), "a": ("text", [WORD]), f"{WORD} c": ("integer", [NUMBER])}
    attributes = [Attribute("a", values=["x"]), Attribute("b", values=["x"])]
    request = request_for(attributes, [("a",)], person="who")
    engine = source.engine(columns, tmp_path)
    with pytest.raises(DataError, match="expected one column named 'b', given none") as caught:
        engine.prepare(request)
    assert_no_canary(everything_said(caught.value) + surroundings.said())
    with pytest.raises(DataError, match="expected one column named 'whom', given none"):
        engine.prepare(request_for(attributes[:1], person="whom"))


def test_upper_and_lower_case_are_not_the_same_name(holder: Holder, tmp_path: Path) -> None:
    engine = holder.engine({"Age": ("integer", [1, 2])}, tmp_path)
    with pytest.raises(DataError, match="expected one column named 'age', given none"):
        engine.prepare(request_for([Attribute("age", size=3)]))
