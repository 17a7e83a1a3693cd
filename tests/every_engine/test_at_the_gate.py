"""Every engine at the gate: what is charged, when, and how far a count has come."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from canaries import NUMBER, WORD, Surroundings, assert_no_canary, everything_said
from factories import Columns
from holders import Holder, request_for
from reference import counted

from privcube import Attribute, PureDP, Schema, Workload, plan
from privcube.errors import DataError
from privcube.model.privacy.guarantee import Guarantee
from privcube.progress import COUNTING, READING
from privcube.sensitive.gate import measure

SCHEMA = Schema(
    [
        Attribute("a", values=["x", "y"], other="category"),
        Attribute("b", size=3),
        Attribute("c", bins=[0, 1, 2], overflow="clamp"),
    ]
)
PLAN = plan(Workload.all_kway(SCHEMA, 2), PureDP(1), "marginals")
ROWS = 60
RECORDS: Columns = {
    "a": ("text", ["x", "y", WORD] * 20),
    "b": ("integer", [0, 1, 2, 2] * 15),
    "c": ("float", [0.5, float(NUMBER)] * 30),
    "unused": ("text", [WORD] * ROWS),
}


class Book:
    """A ledger that is never empty."""

    def __init__(self) -> None:
        self.charges: list[str] = []

    def afford(self, digest: str, guarantee: Guarantee) -> None:
        pass

    def charge(self, digest: str, guarantee: Guarantee) -> None:
        self.charges.append(digest)


class NoNoise:
    """Zeros."""

    def laplace(self, scale: object, count: int) -> np.ndarray:
        return np.zeros(count, dtype=np.int64)


def test_one_charge_and_news_of_how_far_the_count_has_come(
    source: Holder, tmp_path: Path, surroundings: Surroundings
) -> None:
    book, heard = Book(), []
    engine = source.engine(RECORDS, tmp_path)
    found = measure(PLAN, engine, book, noise_from=NoNoise(), progress=lambda *news: heard.append(news))
    assert book.charges == [PLAN.digest]
    tables = [("a", "b"), ("a", "c"), ("b", "c")]
    expected = counted(request_for(SCHEMA, tables), source.told(RECORDS))
    np.testing.assert_array_equal(found.answers, np.concatenate([expected[table].ravel() for table in tables]))
    for stage in (READING, COUNTING):
        done = [number for told, number, _ in heard if told == stage]
        assert done == sorted(done)
    assert {stage for stage, *_ in heard} <= {READING, COUNTING}
    assert [news for news in heard if news[0] == COUNTING][-1] == (COUNTING, 3, 3)
    read = [number for stage, number, _ in heard if stage == READING][-1:]
    assert read in ([], [ROWS]) or (source.name.startswith("spark") and read[0] <= ROWS)  # Spark is asked now and then
    assert_no_canary(surroundings.said() + repr(engine) + repr(found))


def test_a_missing_column_costs_nothing(source: Holder, tmp_path: Path) -> None:
    book = Book()
    columns = {name: column for name, column in RECORDS.items() if name != "b"}
    with pytest.raises(DataError, match="expected one column named 'b', given none"):
        measure(PLAN, source.engine(columns, tmp_path), book)
    assert book.charges == []


def test_a_failure_among_the_records_costs_nothing(source: Holder, tmp_path: Path) -> None:
    book = Book()
    columns = {**RECORDS, "b": ("integer", [*[0] * (ROWS - 1), NUMBER])}
    with pytest.raises(DataError, match="column 'b'") as caught:
        measure(PLAN, source.engine(columns, tmp_path), book)
    assert book.charges == []
    assert_no_canary(everything_said(caught.value))
