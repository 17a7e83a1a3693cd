"""A release: published tables with their error bars, made from measurements alone. Zone: RELEASED.

`Release(measurements)` recovers the tables of the workload so that they agree. `table` gives any table that the
measurements determine, also one that was not asked for, at any declared level that is no finer than what was measured;
`query` counts over labels, ranges and levels. Both say how far off they may be: `std_error` is exact, and intervals
hold with the stated confidence over the noise, per number and, in the columns ending in `_all`, for all numbers of a
table at once.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from privcube.accuracy.agreement import added_up, recovered_table
from privcube.accuracy.closed_form import ErrorBars, interval_factor
from privcube.accuracy.drawn import drawn_table_variances
from privcube.accuracy.explicit import ExplicitBars
from privcube.accuracy.layout import cells_table
from privcube.accuracy.published import padded_cells, published_rows
from privcube.accuracy.recovery import published_cells, recover
from privcube.algebra.lattice import Floats
from privcube.errors import QueryError
from privcube.extras import load
from privcube.model.frame import Frame
from privcube.model.groups import is_structured
from privcube.model.measurements import Measurements
from privcube.model.plan import Plan
from privcube.model.workload import Axis, Entry, Table, Workload, axis_cells, canonical, table_name
from privcube.progress import Progress, silent
from privcube.released.labels import axis_labels, column_names
from privcube.released.selection import Selection, selected_cells

if TYPE_CHECKING:
    from pathlib import Path

    import xarray

Form = Literal["pandas", "polars", "pyarrow"]

_AS_PANDAS: Final = 'a table as a pandas data frame (form="pyarrow" works without pandas, form="polars" with polars)'
_LAPLACE: Final = 3.0  # excess kurtosis, assumed where it is not worked out
_MANY_PAIRS: Final = 1_000_000  # tables times groups, beyond which tables of one shape share their kurtosis


@dataclass(frozen=True)
class Answer:
    """A published count with its error bars."""

    estimate: float
    std_error: float
    low: float
    high: float
    confidence: float

    def __str__(self) -> str:
        return f"{self.estimate:,.1f} ± {self.high - self.estimate:,.1f} ({self.confidence:.0%})"


@dataclass(frozen=True, eq=False)
class TableValues:
    """The numbers of one table: estimates, standard errors, and the half-widths of both kinds of interval."""

    table: Table
    estimate: Floats
    std_error: Floats
    margin: Floats
    margin_all: Floats


class Release:
    """Tables that agree, with error bars."""

    def __init__(self, measurements: Measurements, provenance: Mapping[str, Any] | None = None) -> None:
        self.measurements = measurements
        self.provenance = dict(provenance or {})  # ledger entry and head, if any
        self._tables: dict[Table, Floats] | None = None

    @property
    def plan(self) -> Plan:
        """What was measured, with how much noise."""
        return self.measurements.plan

    @property
    def workload(self) -> Workload:
        """The tables that were asked for."""
        return self.plan.workload

    @property
    def agrees(self) -> bool:
        """Whether all tables agree on what they share; direct recovery does not see to it."""
        return self.plan.sources is None

    def recover(self, progress: Progress = silent) -> None:
        """Work out all tables of the workload, unless this was done; else it is done when a table is asked for."""
        if self._tables is None:
            self._tables = self._all_tables(progress)

    def values(self, table: Sequence[Entry], confidence: float = 0.95) -> TableValues:
        """The numbers of a table as arrays, one axis per attribute."""
        wanted = canonical(self.workload.schema, table)
        estimate = self._estimate(wanted)
        variances, kurtosis = self._errors(wanted)
        std_error = np.sqrt(np.broadcast_to(variances, estimate.shape))
        alone = interval_factor(kurtosis, confidence)
        together = interval_factor(kurtosis, 1 - (1 - confidence) / max(estimate.size, 1))
        return TableValues(wanted, estimate, std_error, alone * std_error, together * std_error)

    def table(self, table: Sequence[Entry] | str, *, confidence: float = 0.95, form: Form = "pandas") -> Any:
        """A table in long form: a column per attribute with its labels, then the numbers.

        The columns `low` and `high` bound each number with the given confidence, `low_all` and `high_all` all of them.
        An entry is a name, a pair of attribute and level, or an `Axis`.

        >>> import pyarrow
        >>> from privcube import Attribute, Level, PureDP, Schema, Workload, plan, release
        >>> region = Level("region", groups={"x": ["a", "b"], "y": ["c"]})
        >>> schema = Schema([Attribute("area", values=["a", "b", "c"], levels=[region])])
        >>> records = pyarrow.table({"area": ["a", "b", "b", "c"]})
        >>> made = release(plan(Workload.tables(schema, [("area",)]), PureDP(1000)), records)
        >>> made.table([("area", "region")])[["area by region", "estimate"]].round().to_dict("list")
        {'area by region': ['x', 'y'], 'estimate': [3.0, 1.0]}
        """
        found = self.values((table,) if isinstance(table, str) else table, confidence)
        columns: dict[str, Any] = {}
        labels = [axis_labels(self.workload.schema, entry) for entry in found.table]
        places = np.unravel_index(np.arange(found.estimate.size), found.estimate.shape) if labels else ()
        for name, own, place in zip(column_names(found.table), labels, places, strict=True):
            columns[name] = [own[at] for at in place]
        flat = {name: getattr(found, name).ravel() for name in ("estimate", "std_error", "margin", "margin_all")}
        columns |= {
            "estimate": flat["estimate"],
            "std_error": flat["std_error"],
            "low": flat["estimate"] - flat["margin"],
            "high": flat["estimate"] + flat["margin"],
            "low_all": flat["estimate"] - flat["margin_all"],
            "high_all": flat["estimate"] + flat["margin_all"],
        }
        if form == "pandas":
            return load("pandas", extra="pandas", purpose=_AS_PANDAS).DataFrame(columns)
        if form == "polars":
            return load("polars", extra="polars", purpose="tables as polars").DataFrame(columns)
        if form == "pyarrow":
            import pyarrow

            return pyarrow.table(columns)
        raise QueryError("form", expected="one of them", given=form, available=("pandas", "polars", "pyarrow"))

    def to_xarray(self, table: Sequence[Entry] | str, *, confidence: float = 0.95) -> xarray.Dataset:
        """A table as an xarray Dataset with `estimate`, `std_error`, `low` and `high`; slice and sum it by label."""
        found = self.values((table,) if isinstance(table, str) else table, confidence)
        names = column_names(found.table)
        labels = {
            name: list(axis_labels(self.workload.schema, entry)) for name, entry in zip(names, found.table, strict=True)
        }
        arrays = {
            "estimate": found.estimate,
            "std_error": found.std_error,
            "low": found.estimate - found.margin,
            "high": found.estimate + found.margin,
        }
        library: Any = load("xarray", extra="xarray", purpose="tables as xarray")
        made: xarray.Dataset = library.Dataset({key: (names, array) for key, array in arrays.items()}, coords=labels)
        return made

    def query(self, where: Mapping[str, Selection], *, confidence: float = 0.95) -> Answer:
        """How many records have these labels, ranges and levels, with its exact standard error.

        {"sex": "F", "age": [30, 40]} counts the records with that label and with an age from 30 to below 40. See
        `privcube.released.selection` for all forms of a selection.
        """
        schema = self.workload.schema
        chosen = {schema[name].name: selected_cells(schema[name], selection) for name, selection in where.items()}
        parts: list[tuple[str | Axis, Floats]] = []
        for name in (name for name in schema.names if name in chosen):
            own = np.zeros(schema[name].cells)
            own[chosen[name]] = 1.0
            parts.append((name, own))
        table, weights = self._asked(parts)
        estimate = float(np.sum(weights * self._estimate(table)))
        variance, kurtosis = self._query_errors(table, weights)
        margin = interval_factor(kurtosis, confidence) * variance**0.5
        return Answer(estimate, variance**0.5, estimate - margin, estimate + margin, confidence)

    def save(self, folder: str | Path, *, progress: Progress = silent) -> None:
        """Write the artifact: tables, measurements, plan, statements, checksums. The folder must be new."""
        from privcube.released.artifact.store import save

        save(self, folder, progress)

    @classmethod
    def open(cls, folder: str | Path) -> Release:
        """Read an artifact; what it says is checked against its checksums."""
        from privcube.released.artifact.store import open_release

        return open_release(folder)

    # Estimates

    def _all_tables(self, progress: Progress) -> dict[Table, Floats]:
        """Every table of the workload; structured ones as cells."""
        answers = self.measurements.answers.astype(np.float64)
        if not self._closed_form:
            return recover(self.plan, answers, progress)
        return self._recover_cells(list(dict.fromkeys(cells_table(table) for table in self.workload)), progress)

    @property
    def _recovered(self) -> dict[Table, Floats]:
        """Those, and whatever else was asked for since."""
        self.recover()
        assert self._tables is not None
        return self._tables

    def _recover_cells(self, tables: Sequence[Table], progress: Progress = silent) -> dict[Table, Floats]:
        return published_cells(self.plan, tables, self.measurements.answers.astype(np.float64), progress)

    @cached_property
    def _closed_form(self) -> bool:
        return self.plan.sources is None and is_structured(self.plan.groups)

    def _estimate(self, table: Table) -> Floats:
        if table in self._recovered:
            return self._recovered[table]
        if self._explicit is not None:
            if not self._explicit.determined(table):
                raise self._refused(table, "a table that the measurements determine")
            return self._explicit.estimate(table, self.measurements.answers.astype(np.float64))
        if not self._closed_form:
            raise self._refused(table, "a table of the workload, as recovery was not by closed form")
        cells = recovered_table(self.plan.frame, table)
        if cells not in self._recovered:
            if not self._is_determined(cells):
                raise self._refused(table, "a table that the measurements determine")
            self._recovered[cells] = self._recover_cells([cells])[cells]
        return added_up(self.plan.frame, table, self._recovered[cells])

    def _asked(self, parts: Sequence[tuple[str | Axis, Floats]]) -> tuple[Table, Floats]:
        """A query as weights on a table: of cells, or of levels where cells were not measured."""
        coarser = [_at_level(self.plan.frame, entry, own) for entry, own in parts]
        cells, groups = (tuple([entry for entry, _ in chosen]) for chosen in (parts, coarser))
        by_levels = self._closed_form and not self._is_determined(cells) and self._is_determined(groups)
        weights = np.ones(())
        for _, own in coarser if by_levels else parts:
            weights = np.multiply.outer(weights, own)
        return (groups if by_levels else cells), weights

    def _is_determined(self, table: Table) -> bool:
        return self._bars_for(table).determined(table)

    def _refused(self, table: Table, expected: str) -> QueryError:
        """An error that names tables with the same attributes first."""
        names = _attributes(table)
        near = sorted(self.workload, key=lambda other: len(names ^ _attributes(other)))
        return QueryError(table_name(table), expected=expected, available=map(table_name, near))

    # Errors

    @cached_property
    def _known_bars(self) -> dict[Table, ErrorBars]:
        asked = ErrorBars(self.plan, list(self.workload))
        return dict.fromkeys([cells_table(table) for table in self.workload], asked)

    def _bars_for(self, table: Table) -> ErrorBars:
        cells = recovered_table(self.plan.frame, table)
        if cells not in self._known_bars:
            self._known_bars[cells] = ErrorBars(self.plan, [cells])
        return self._known_bars[cells]

    @cached_property
    def _explicit(self) -> ExplicitBars | None:
        return ExplicitBars(self.plan) if self.plan.sources is None and not self._closed_form else None

    @cached_property
    def _kurtosis_of_shape(self) -> dict[tuple[int, ...], float]:
        return {}

    def _errors(self, table: Table) -> tuple[Floats, float]:
        """The variance of every number of a table, and the excess kurtosis of its errors."""
        if self._explicit is not None:
            return self._explicit.variances(table), self._explicit.cell_kurtosis(table)
        if not self._closed_form:
            return np.asarray(self._mean_variances[table]), _LAPLACE
        bars, frame = self._bars_for(table), self.plan.frame
        few = len(self.workload) * len(self.plan.groups) <= _MANY_PAIRS
        if few or recovered_table(frame, table) != cells_table(table):
            return bars.variances(table), bars.cell_kurtosis(table)
        shape = tuple(padded_cells(frame, entry) for entry in table)
        if shape not in self._kurtosis_of_shape:
            self._kurtosis_of_shape[shape] = bars.cell_kurtosis(table)
        return bars.variances(table), self._kurtosis_of_shape[shape]

    @cached_property
    def _mean_variances(self) -> dict[Table, float]:
        return dict(zip(self.workload, drawn_table_variances(self.plan).tolist(), strict=True))

    def _query_errors(self, table: Table, weights: Floats) -> tuple[float, float]:
        if self._explicit is not None:
            return self._explicit.query_variance(table, weights), self._explicit.kurtosis(table, weights)
        if not self._closed_form:
            if np.count_nonzero(weights) != 1:
                raise QueryError("query", expected="a single cell, as recovery was not by closed form")
            return self._mean_variances[table], _LAPLACE
        padded = weights
        for at, entry in enumerate(table):
            rows = published_rows(self.plan.frame, entry)
            if rows is not None:
                padded = np.moveaxis(np.tensordot(rows, padded, axes=(0, at)), 0, at)
        bars = self._bars_for(table)
        variance = bars.query_variance(table, padded)
        return variance, bars.kurtosis(table, padded)

    # Notebooks

    def __repr__(self) -> str:
        return f"<release of {len(self.workload):,} tables, {self.plan.guarantee}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(table_name(table))}</td><td>{math.prod(self._shape(table)):,}</td>"
            f"<td>{float(np.sqrt(np.mean(self._errors(table)[0]))):,.1f}</td></tr>"
            for table in list(self.workload)[:50]
        )
        return (
            f"<p><b>privcube release</b>: {html.escape(str(self.plan.guarantee))}</p><table><thead><tr><th>table</th>"
            f"<th>cells</th><th>standard error of a cell</th></tr></thead><tbody>{rows}</tbody></table>"
        )

    def _shape(self, table: Table) -> tuple[int, ...]:
        return tuple(axis_cells(self.workload.schema, entry) for entry in table)


def _attributes(table: Table) -> frozenset[str]:
    return frozenset(entry if isinstance(entry, str) else entry.attribute for entry in table)


def _at_level(frame: Frame, entry: str | Axis, weights: Floats) -> tuple[str | Axis, Floats]:
    """Weights on the cells of an attribute as weights on its coarsest level of which they take whole groups."""
    if isinstance(entry, str) and frame.keeps_levels(entry):
        attribute = frame.schema[entry]
        for level in reversed(attribute.level_names):
            groups = np.asarray(attribute.partition(level).group_of)
            own = weights[np.unique(groups, return_index=True)[1]]
            if np.array_equal(own[groups], weights):
                return Axis(entry, level), own
    return entry, weights
