"""Forty awkward files: each is counted as pandas counts it, or refused with a sentence that says what to write.

Where they apply, their rows are counted alike by PostgreSQL and Spark.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from awkward import CASES, CITY, LABELS, NUMBER, WHEN, frame
from factories import Columns
from holders import Holder, holders, request_for

from privcube import Attribute
from privcube.errors import PrivcubeError
from privcube.model.columns.text_files import TextFile
from privcube.sensitive.sources import engine_for


def by_pandas(attribute: Attribute, column: pd.Series, decimal: str) -> list[int]:
    """What pandas makes of a column, by the labels of the attribute."""
    values = column.astype(object).where(column.notna(), None)
    absent = values.map(lambda value: value is None or (isinstance(value, str) and not value.strip()))
    if attribute.bins is not None:
        texts = values.map(lambda value: value.replace(decimal, ".") if isinstance(value, str) else value)
        numbers = pd.to_numeric(texts, errors="coerce").astype(float)
        found = pd.cut(numbers, [float(edge) for edge in attribute.bins], right=False, labels=False)
        cells = found.where(found.notna(), len(attribute.bins) - 1)
    elif attribute.dates is not None:
        form = {"iso": "%Y-%m-%d", "day first": "%d.%m.%Y"}[attribute.dates.format]
        texts = values.map(lambda value: value.replace("/", ".") if isinstance(value, str) else value)
        moments = pd.to_datetime(texts, errors="coerce", format=form if texts.map(type).eq(str).any() else None)
        labels = list(attribute.labels)
        other = labels.index("(other)")
        months = ["" if pd.isna(moment) else f"{moment:%Y-%m}" for moment in moments]
        outside = {True: 0, False: other - 1}  # before and after
        cells = pd.Series(
            [
                other if not month else labels.index(month) if month in labels else outside[month < "2024-01"]
                for month in months
            ],
            index=values.index,
        )
    else:
        cells = values.map(lambda value: LABELS.index(value) if value in LABELS else len(LABELS))
    cells = cells.where(~absent, attribute.cells - 1).astype(int)
    return np.bincount(cells, minlength=attribute.cells).tolist()


@pytest.mark.parametrize("name", CASES)
def test_an_awkward_file_is_counted_as_pandas_counts_it_or_refused_in_words(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    file = case.make(tmp_path)
    request = request_for(case.attributes, [(attribute.name,) for attribute in case.attributes])

    def counted() -> list[list[int]]:
        engine = engine_for(file, case.table, None, TextFile(**case.written) if case.written else None)
        engine.prepare(request)
        counts = engine.count(request)
        return [counts.for_the_gate((attribute.name,)).tolist() for attribute in case.attributes]

    if case.refused is not None:
        with pytest.raises(PrivcubeError, match=case.refused):
            counted()
        return
    data = frame(case, file)
    decimal = case.pandas.get("decimal", ".")
    assert counted() == [by_pandas(attribute, data[attribute.column], decimal) for attribute in case.attributes]


def test_there_are_forty() -> None:
    assert len(CASES) >= 40


def _held(column: pd.Series) -> tuple[str, list[Any]]:
    """A column as a database holds it: texts, decimals, dates or timestamps."""
    values: list[Any] = [None if pd.isna(value) else value for value in column.astype(object)]
    example = next((value for value in values if value is not None), "")
    if isinstance(example, str):
        return "text", values
    if isinstance(example, pd.Timestamp):
        kind = "timestamp" if example.tzinfo is None else "instant"
        return kind, [None if value is None else value.to_pydatetime() for value in values]
    if isinstance(example, date):
        return "date", values
    return "decimal", [None if value is None else Decimal(str(value)) for value in values]


DATABASES = [held for held in holders(local=()) if held.id in ("postgresql table", "spark")]  # type: ignore[attr-defined]


@pytest.mark.parametrize("holder", DATABASES)
@pytest.mark.parametrize("attributes", [(CITY, NUMBER), (WHEN,)], ids=["places", "dates"])
def test_the_rows_of_awkward_files_count_alike_in_databases(
    holder: Holder, attributes: tuple[Attribute, ...], tmp_path: Path
) -> None:
    """All files with these attributes and one kind of column, in one table: counts add up, and few queries do."""
    tables: dict[tuple[str, ...], Columns] = {}
    expected: dict[tuple[str, ...], Any] = {}
    for name, case in CASES.items():
        if case.refused is not None or case.attributes != attributes or "decimal" in case.written:
            continue
        (tmp_path / name).mkdir()
        data = frame(case, case.make(tmp_path / name))
        whole: Columns = {}
        for attribute in attributes:
            whole[attribute.column] = _held(data[attribute.column])
        kinds = tuple(kind for kind, _ in whole.values())
        joined = tables.setdefault(kinds, {column: (kind, []) for column, (kind, _) in whole.items()})
        for column, (_, values) in whole.items():
            joined[column][1].extend(values)
        counts = [np.array(by_pandas(attribute, data[attribute.column], ".")) for attribute in attributes]
        expected[kinds] = [sum(pair) for pair in zip(expected.get(kinds, [0] * len(counts)), counts, strict=True)]
    assert len(tables) >= 2
    request = request_for(attributes, [(attribute.name,) for attribute in attributes])
    for kinds, columns in tables.items():
        found = holder.count(columns, tmp_path, request)
        for attribute, counts in zip(attributes, expected[kinds], strict=True):
            assert found.for_the_gate((attribute.name,)).tolist() == counts.tolist(), kinds
