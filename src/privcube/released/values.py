"""The numbers of a table, and of a query, with their errors. Zone: RELEASED."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from privcube.algebra.lattice import Floats, Integers
from privcube.errors import QueryError
from privcube.extras import load
from privcube.model.workload import Table
from privcube.released.labels import COUNTS, MEANS, NUMBERS, SHARES
from privcube.released.presentation.numbers import confidence_text, end_of
from privcube.released.ratios import Ratios

Form = Literal["pandas", "polars", "pyarrow"]

_AS_PANDAS: Final = 'a table as a pandas data frame (form="pyarrow" works without pandas, form="polars" with polars)'


@dataclass(frozen=True)
class Answer:
    """A published count with its error bars."""

    estimate: float
    std_error: float
    low: float
    high: float
    confidence: float

    def __str__(self) -> str:
        margin = end_of("high", self.high - self.estimate, 1)
        return f"{self.estimate:z,.1f} ± {margin:,.1f} ({confidence_text(self.confidence)})"


@dataclass(frozen=True, eq=False)
class TableValues:
    """The numbers of a table: estimates, standard errors, and the half-widths of both kinds of intervals.

    The arrays have one axis per attribute; a measure has none.
    """

    table: Table
    estimate: Floats
    std_error: Floats
    margin: Floats
    margin_all: Floats
    count: Integers | None = None  # whole numbers, if the release has them
    count_range: tuple[Integers, Integers] | None = None  # the least and the largest that each can be, if wanted
    shares: Ratios | None = None  # if they are asked for
    means: Ratios | None = None  # of a table of sums, where the measurements determine them


def number_columns(values: TableValues) -> dict[str, Floats | Integers]:
    """The numbers of a table, one array per column, in the order of its cells."""
    estimate, std_error = values.estimate.ravel(), values.std_error.ravel()
    margin, margin_all = values.margin.ravel(), values.margin_all.ravel()
    columns = (estimate, std_error, estimate - margin, estimate + margin, estimate - margin_all, estimate + margin_all)
    ends = () if values.count_range is None else values.count_range
    whole = () if values.count is None else (values.count, *ends)
    counted = {name: column.ravel() for name, column in zip(COUNTS, whole, strict=False)}
    means = () if values.means is None else (values.means.estimate, values.means.low, values.means.high)
    averaged = {name: column.ravel() for name, column in zip(MEANS, means, strict=False)}
    return {**dict(zip(NUMBERS, columns, strict=True)), **averaged, **counted, **share_columns(values)}


def taken_in(tables: Sequence[TableValues]) -> Sequence[str]:
    """Names of columns that some of these tables have beside those that every table has."""
    return () if all(own.shares is None for own in tables) else SHARES


def share_columns(values: TableValues) -> dict[str, Floats]:
    """The shares of a table, if they were asked for; NaN where they are not determined."""
    if values.shares is None:
        return {}
    found = values.shares
    columns = (found.estimate, found.low, found.high, found.low_all, found.high_all)
    return {name: column.ravel() for name, column in zip(SHARES, columns, strict=True)}


def in_form(columns: dict[str, Any], form: Form, shares: Sequence[str]) -> Any:
    """Columns as a data frame; shares that are not determined are NaN in pandas and missing in other forms."""
    if form == "pandas":
        return load("pandas", extra="pandas", purpose=_AS_PANDAS).DataFrame(columns)
    for name in shares:
        columns[name] = [None if np.isnan(share) else share for share in columns[name].tolist()]
    if form == "polars":
        return load("polars", extra="polars", purpose="tables as polars").DataFrame(columns)
    if form == "pyarrow":
        import pyarrow

        return pyarrow.table(columns)
    raise QueryError("form", expected="a known form", given=form, available=("pandas", "polars", "pyarrow"))
