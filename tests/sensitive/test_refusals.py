"""Errors that stand for others: one sentence, and nothing of what they replace."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import pytest
from canaries import WORD, assert_no_canary, chain, everything_said
from holders import request_for

from privcube import Attribute
from privcube.errors import DataError, PlanError
from privcube.sensitive.refusals import Plain, checked_kinds, refuse_nobody, refuse_values, without_quotes


class LibraryError(Exception):
    """As a driver raises: with the record in text, arguments and attributes."""

    def __init__(self) -> None:
        super().__init__(f"cannot convert {WORD!r}", WORD)
        self.record = WORD
        self.add_note(f"in the record {WORD}")


def fails_deep_inside() -> None:
    try:
        raise ValueError(WORD)
    except ValueError as cause:
        raise LibraryError from cause


def test_nothing_is_left_of_a_library_s_error() -> None:
    with (
        pytest.raises(DataError, match=r"^file 'x': expected records$") as caught,
        without_quotes("file 'x'", expected="records"),
    ):
        fails_deep_inside()
    assert list(chain(caught.value)) == [caught.value]
    assert_no_canary(everything_said(caught.value))
    assert "LibraryError" not in "".join(traceback.format_exception(caught.value))


def test_nor_if_the_error_comes_out_of_a_generator() -> None:
    def records() -> Iterator[int]:
        with without_quotes("file 'x'", expected="records"):
            yield 1
            fails_deep_inside()

    with pytest.raises(DataError) as caught:
        list(records())
    assert list(chain(caught.value)) == [caught.value]


def test_errors_of_our_own_pass() -> None:
    with pytest.raises(PlanError, match="tables"), without_quotes("file 'x'", expected="records"):
        raise PlanError("tables", expected="fewer")


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interruption_passes(stop: type[BaseException]) -> None:
    with pytest.raises(stop), without_quotes("file 'x'", expected="records"):
        raise stop


def test_refused_values_name_the_column_and_its_policies() -> None:
    assert "missing and other" in str(refuse_values(Attribute("a", size=2)))
    assert "missing, other, underflow and overflow" in str(refuse_values(Attribute("a", bins=[0, 1])))
    assert str(refuse_nobody("who")).startswith("column 'who': expected a person")


def test_columns_that_fit_give_their_kinds() -> None:
    request = request_for([Attribute("a", size=2), Attribute("b", size=2)], [("a",)], person="who")
    found = checked_kinds(
        "file", request, [("who", "integer"), ("a", "text"), ("b", None), ("more", "float"), ("more", None)]
    )
    assert {name: found[name] for name in request.columns} == {"a": "text", "who": "integer"}


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ([("a", "text")], "expected one column named 'b', given none"),
        ([("a", "text"), ("b", "text"), ("a", "text")], "expected one column named 'a', given several"),
        ([("a", "text"), ("b", "text"), ("B", "text")], None),
        ([("a", "text"), ("b", None)], "file, column 'b': expected text, numbers, booleans or dates in it"),
    ],
)
def test_columns_that_do_not_fit(columns: list, sentence: str | None) -> None:
    request = request_for([Attribute("a", size=2), Attribute("b", size=2)])
    if sentence is None:
        assert set(checked_kinds("file", request, columns)) >= {"a", "b"}
    else:
        with pytest.raises(DataError, match=sentence):
            checked_kinds("file", request, columns)


@pytest.mark.parametrize("kind", ["float", "decimal", "boolean"])
def test_persons_need_names(kind: str) -> None:
    request = request_for([Attribute("a", size=2)], person="who")
    with pytest.raises(DataError, match="column 'who': expected text or integers"):
        checked_kinds("file", request, [("a", "text"), ("who", kind)])


def test_plain_text_is_shown_without_marks() -> None:
    assert str(DataError("file", expected="one", given=Plain("several"))).endswith("given several")
