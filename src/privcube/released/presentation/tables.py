"""A table as it is published: titles, codes, labels, rounded numbers, how far to trust them. Zone: RELEASED."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privcube.model.measures.measure import measure_of
from privcube.model.publication.words import code_text
from privcube.model.workload import Table, table_name
from privcube.released.labels import axis_labels, column_names, labeled, shown_labels
from privcube.released.presentation.numbers import (
    RELIABILITY,
    decimals_by_column,
    published_numbers,
    reliability,
    rounded,
)
from privcube.released.release import Release, TableValues, number_columns
from privcube.released.values import taken_in


@dataclass(frozen=True, eq=False)
class Column:
    """An attribute of a table: its name as a column, its title, and what its cells are called and read like."""

    name: str
    title: str
    codes: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class PublishedTable:
    """A table for people: every column of numbers in the order of its cells, the last attribute changing fastest."""

    table: Table
    name: str
    title: str
    unit: str  # of the numbers: what is counted, or the measure that is added up
    columns: tuple[Column, ...]
    numbers: dict[str, Any]  # rounded; whole numbers are int64
    margins: Any  # half-widths of intervals, rounded up
    trust: NDArray[np.int64]  # places in `RELIABILITY`
    places: dict[str, int]  # decimals of every column

    @property
    def decimals(self) -> int:
        """The decimals of estimates and their errors."""
        return self.places["estimate"]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many cells each attribute has."""
        return tuple([len(column.codes) for column in self.columns])

    @property
    def cells(self) -> int:
        """How many numbers the table has."""
        return len(self.trust)

    def cells_along(self) -> list[list[int]]:
        """For every attribute, the cell of each number."""
        if not self.columns:
            return []
        return [own.tolist() for own in np.unravel_index(np.arange(self.cells), self.shape)]

    def reliability(self) -> list[str]:
        """How far to trust each number, in words."""
        return [RELIABILITY[at] for at in self.trust.tolist()]


def published(release: Release, values: TableValues) -> PublishedTable:
    """A table of a release, as it is published."""
    schema, words = release.workload.schema, release.words
    columns = [
        Column(
            name,
            words.axis_title(entry),
            tuple(map(code_text, axis_labels(schema, entry))),
            tuple(map(code_text, shown_labels(schema, words, entry))),
        )
        for name, entry in zip(column_names(values.table, taken_in([values])), labeled(values.table), strict=True)
    ]
    numbers, measure = number_columns(values), measure_of(values.table)
    places = decimals_by_column(numbers, words)
    return PublishedTable(
        table=values.table,
        name=table_name(values.table),
        title=words.table_title(values.table),
        unit=(words.unit or "records")
        if measure is None
        else words.attribute(measure).unit or words.axis_title(measure),
        columns=tuple(columns),
        numbers=published_numbers(numbers, places),
        margins=rounded("high", values.margin.ravel(), places["estimate"]),
        trust=reliability(numbers, words, counts=measure is None),
        places=places,
    )


def number_titles() -> dict[str, str]:
    """What the columns of numbers are called."""
    return {
        "estimate": "Estimate",
        "std_error": "Standard error",
        "low": "Lower end, 95 %",
        "high": "Upper end, 95 %",
        "low_all": "Lower end, all at once",
        "high_all": "Upper end, all at once",
        "mean": "Mean",
        "mean_low": "Lower end of the mean, 95 %",
        "mean_high": "Upper end of the mean, 95 %",
        "count": "Whole number",
        "share": "Share",
        "share_low": "Lower end of the share, 95 %",
        "share_high": "Upper end of the share, 95 %",
        "share_low_all": "Lower end of the share, all at once",
        "share_high_all": "Upper end of the share, all at once",
        "count_low": "Least it can be",
        "count_high": "Largest it can be",
        "reliability": "Reliability",
    }
