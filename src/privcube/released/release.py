"""A release: published tables with their error bars, made from measurements alone. Zone: RELEASED.

`Release(measurements)` recovers the tables of the workload so that they agree. `table` returns any table that the
measurements determine, even one that was not requested, at any declared level no finer than what was measured; `query`
counts over labels, ranges and levels. Both come with error bars: `std_error` is exact, and intervals hold with at least
the stated confidence over the noise, per number and, in the columns that end in `_all`, for all numbers of a table.
If facts are given (`privcube.released.whole.facts`), estimates are conditioned on them, and vary less.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from privcube.accuracy.known.conditioned import Conditioned
from privcube.accuracy.predictor import Predictor
from privcube.algebra.lattice import Floats
from privcube.errors import QueryError
from privcube.extras import load
from privcube.model.attribute import Attribute
from privcube.model.measurements import Measurements
from privcube.model.measures.asked import cells_of, measured_axis
from privcube.model.measures.measure import cell_weights, measure_of, scale_of
from privcube.model.plan import Plan
from privcube.model.publication.words import Words
from privcube.model.workload import Axis, Entry, Table, Workload, canonical, table_cells, table_name
from privcube.progress import Progress, silent
from privcube.released.clamping import Clamped, clamped_in, lacking
from privcube.released.labels import COUNT, SHARES, axis_labels, column_names, labeled
from privcube.released.means import Mean, mean_of, means_of, part_and_whole
from privcube.released.quantiles import Quantile, checked_part, ordered_attribute, quantile_in, selections
from privcube.released.ratios import Ratios, Share, places_over, share_of, shares_of
from privcube.released.selection import Selection, at_level, selected_weights, weighted_entries
from privcube.released.values import Answer as Answer
from privcube.released.values import Form as Form
from privcube.released.values import TableValues as TableValues
from privcube.released.values import in_form as _in_form
from privcube.released.values import number_columns as number_columns
from privcube.released.values import share_columns as share_columns
from privcube.released.whole.facts import Facts, agreeing, checked_facts, predictor_given

if TYPE_CHECKING:
    from pathlib import Path

    import xarray

    from privcube.released.whole.release import WholeRelease

_EVERYBODY: Final[Mapping[str, Selection]] = MappingProxyType({})
_MOST_SHOWN: Final = 50  # tables shown in a notebook, to keep its output short
_ROUNDING: Final = 1e-6  # added to intervals, so that rounding of an estimate does not put a true count outside


class Release:
    """Tables that agree, with error bars."""

    def __init__(
        self, measurements: Measurements, provenance: Mapping[str, Any] | None = None,
        words: Words | None = None, facts: Facts | None = None,
    ) -> None:  # fmt: skip
        self.measurements = measurements
        self.words = Words() if words is None else words.for_workload(measurements.plan.workload)  # by the publisher
        self.facts = checked_facts(measurements.plan.workload.schema, facts or Facts())  # what is publicly known
        self.provenance: Mapping[str, Any] = MappingProxyType(dict(provenance or {}))  # ledger entry and head, if any
        self._recovered: dict[Table, Floats] | None = None

    @property
    def plan(self) -> Plan:
        """What was measured, with how much noise."""
        return self.measurements.plan

    @property
    def workload(self) -> Workload:
        """The requested tables."""
        return self.plan.workload

    @property
    def agrees(self) -> bool:
        """Whether all tables agree where they overlap; direct recovery does not ensure it."""
        return self.plan.sources is None

    def recover(self, progress: Progress = silent) -> None:
        """Recover all tables of the workload now, unless already done, instead of when the first one is requested."""
        if self._recovered is None:
            self._recovered = self._recover(list(dict.fromkeys(map(self._predictor.source, self.workload))), progress)

    def with_words(self, words: Words) -> Release:
        """The same release with other titles, descriptions and labels."""
        made = copy(self)
        made.words = words.for_workload(self.workload)
        return made

    def values(
        self, table: Sequence[Entry], confidence: float = 0.95, shares: Sequence[str] | str | None = None
    ) -> TableValues:
        """The numbers of a table as arrays, one axis per attribute; for `shares` see `table`."""
        wanted = canonical(self.workload.schema, table)
        estimate = self._estimate(wanted)
        errors = self._predictor.errors(wanted)
        alone = errors.half_widths(confidence) + _ROUNDING
        together = errors.half_widths(1 - (1 - confidence) / max(estimate.size, 1)) + _ROUNDING
        found = TableValues(
            wanted,
            self._in_units(wanted, estimate),
            self._in_units(wanted, np.sqrt(errors.variances)),
            self._in_units(wanted, alone),
            self._in_units(wanted, together),
        )
        if measured_axis(wanted) is not None:
            if shares is not None:
                raise QueryError("shares", expected="a table without a measure", given=table_name(wanted))
            return found if measure_of(wanted) is None else replace(found, means=self._means(wanted, confidence))
        if shares is None:
            return found
        return replace(
            found, shares=shares_of(self._predictor, wanted, estimate, places_over(wanted, shares), confidence)
        )

    def estimates(self, table: Sequence[Entry]) -> Floats:
        """The estimates of a table alone, as an array with one axis per attribute."""
        wanted = canonical(self.workload.schema, table)
        return self._in_units(wanted, self._estimate(wanted))

    def table(
        self,
        table: Sequence[Entry] | str,
        *,
        confidence: float = 0.95,
        shares: Sequence[str] | str | None = None,
        form: Form = "pandas",
    ) -> Any:
        """A table in long form: a column per attribute with its labels, then the numbers.

        The columns `low` and `high` bound each number with the given confidence, `low_all` and `high_all` all at once.
        A table is a sequence of names, pairs of attribute and level, or `Axis` objects, or a text: "sex x age.stage".
        With `shares` there are five more columns: `share`, and `share_low` to `share_high_all` for its intervals. They
        are shares of the "total", or add up to 1 over the attributes named, such as ["sex"]; "row" stands for the last
        attribute of the table, "column" for all others. A share of what may be no records is not determined, and empty.

        >>> import pyarrow
        >>> from privcube import Attribute, Level, PureDP, Schema, Workload, plan, release
        >>> region = Level("region", groups={"x": ["a", "b"], "y": ["c"]})
        >>> schema = Schema([Attribute("area", values=["a", "b", "c"], levels=[region])])
        >>> records = pyarrow.table({"area": ["a", "b", "b", "c"]})
        >>> made = release(plan(Workload.tables(schema, [("area",)]), PureDP(1000)), records)
        >>> made.table([("area", "region")])[["area by region", "estimate"]].round().to_dict("list")
        {'area by region': ['x', 'y'], 'estimate': [3.0, 1.0]}
        """
        found = self.values(table, confidence, shares)
        columns: dict[str, Any] = {}
        also = () if found.shares is None else SHARES
        labels = [axis_labels(self.workload.schema, entry) for entry in labeled(found.table)]
        places = np.unravel_index(np.arange(found.estimate.size), found.estimate.shape) if labels else ()
        for name, own, place in zip(column_names(found.table, also), labels, places, strict=True):
            columns[name] = [own[at] for at in place]
        columns |= number_columns(found)
        return _in_form(columns, form, also)

    def to_xarray(self, table: Sequence[Entry] | str, *, confidence: float = 0.95) -> xarray.Dataset:
        """A table as an xarray Dataset with `estimate`, `std_error`, `low` and `high`, to slice and sum by label."""
        found = self.values(table, confidence)
        names = column_names(found.table)
        labels = {
            name: list(axis_labels(self.workload.schema, entry))
            for name, entry in zip(names, labeled(found.table), strict=True)
        }
        arrays = {
            "estimate": found.estimate,
            "std_error": found.std_error,
            "low": found.estimate - found.margin,
            "high": found.estimate + found.margin,
            **({} if found.count is None else {COUNT: found.count}),
        }
        library: Any = load("xarray", extra="xarray", purpose="tables as xarray")
        made: xarray.Dataset = library.Dataset({key: (names, array) for key, array in arrays.items()}, coords=labels)
        return made

    def query(self, where: Mapping[str, Selection], *, measure: str | None = None, confidence: float = 0.95) -> Answer:
        """The number of records with these labels, ranges and levels, and its exact standard error.

        {"sex": "F", "age": [30, 40]} counts the records with that label and with an age from 30 to below 40. See
        `privcube.released.selection` for all forms of a selection. With a measure, its sum over these records.
        """
        scale = 1.0
        if measure is None:
            table, (weights,) = self._asked([where])
        else:
            scale = scale_of(self.workload.schema, (Axis(self._measure(measure).name, queries="sum"),))
            table, (weights,) = self._asked([where], {measure: cell_weights(self._measure(measure), "sum")[None]})
            if not self._predictor.determines(table):  # the sums may be there without the parts that they consist of
                table, (weights,) = self._asked([where], {measure: np.ones((1, 1))})
        estimate = float(np.sum(weights * self._estimate(table))) * scale
        law = self._predictor.query_law(table, weights)
        margin = (law.half_width(confidence) + _ROUNDING) * scale
        return Answer(estimate, law.variance**0.5 * scale, estimate - margin, estimate + margin, confidence)

    def mean(self, measure: str, where: Mapping[str, Selection] = _EVERYBODY, *, confidence: float = 0.95) -> Mean:
        """The mean of a measure over the records with these labels, ranges and levels, with an interval.

        It is not determined, and NaN, if there may be no such records.
        """
        own = self._measure(measure)
        table, (part, whole) = self._asked([where, where], {measure: np.stack(part_and_whole(own))})
        return mean_of(self._predictor, own, table, self._estimate(table), part, whole, confidence)

    def _measure(self, name: str) -> Attribute:
        known = self.workload.schema.measures
        if name not in known:
            raise QueryError("measure", expected="a measure of the release", given=name, available=known)
        return self.workload.schema[name]

    def clamped(
        self, measure: str, by: str, where: Mapping[str, Selection] = _EVERYBODY, *, confidence: float = 0.95
    ) -> Clamped:
        """What a sum lacks as numbers beyond its range count as its ends, from an attribute whose bins go beyond it."""
        rows, opens = lacking(self._measure(measure), self.workload.schema[by])
        table, weights = self._asked([where] * 3, {by: rows})
        return clamped_in(self._predictor, table, self._estimate(table), weights, opens, confidence)

    def share(
        self, where: Mapping[str, Selection], of: Mapping[str, Selection] = _EVERYBODY, *, confidence: float = 0.95
    ) -> Share:
        """The part of the records that meet `of` (by default, all) which also meet `where`, with an interval.

        {"sex": "F"} of {"age": [30, 40]} is the part of women among those from 30 to below 40; NaN if not determined.
        """
        table, (part, whole) = self._asked([where, of])
        return share_of(self._predictor, table, self._estimate(table), part * whole, whole, confidence)

    def quantile(
        self, attribute: str, part: float = 0.5, where: Mapping[str, Selection] = _EVERYBODY, *,
        confidence: float = 0.95,
    ) -> Quantile:  # fmt: skip
        """Where a part of the records is reached in the order of an attribute: by default, the median.

        A number for bins, else a label, with an interval; not determined if there may be no records that meet `where`.
        """
        own, part = ordered_attribute(self.workload.schema, attribute), checked_part(part)
        for chosen in selections(self.workload.schema, own, where):
            table, parts = self._at_levels(chosen)
            if self._predictor.determines(table):
                break
        return quantile_in(self._predictor, own, table, self._estimate(table), parts, part, confidence)

    def whole(
        self,
        effort: str = "normal",
        *,
        records: int | None = None,
        impossible: Sequence[Mapping[str, Selection]] = (),
        progress: Progress = silent,
    ) -> WholeRelease:
        """The release with whole numbers: tables with a column `count`, and the records that they are counted from.

        It costs no privacy. `effort` is "fast", "normal" or "thorough". `records` is their number, if it is public, and
        `impossible` lists combinations that cannot occur; estimates honor them as well.
        >>> import pyarrow
        >>> from privcube import PureDP, Schema, Workload, plan, release
        >>> schema = Schema.from_sizes({"a": 2, "b": 2})
        >>> data = pyarrow.table({"a": [0, 0, 0, 1], "b": [0, 1, 1, 1]})
        >>> made = release(plan(Workload.all_kway(schema, 2), PureDP(1000)), data).whole()
        >>> made.table(("a", "b"))["count"].tolist(), made.records().values.tolist()
        ([1, 2, 0, 1], [[0, 0, 1], [0, 1, 2], [1, 1, 1]])
        """
        from privcube.released.whole.release import WholeRelease

        known = self.knowing(facts) if (facts := Facts(records, impossible)) else self
        return WholeRelease.of(known, effort, progress)

    def knowing(self, facts: Facts) -> Release:
        """The same release, with estimates that honor what is publicly known; refuse what it contradicts.

        >>> from privcube import PureDP, Schema, Workload, plan
        >>> made = plan(Workload.all_kway(Schema.from_sizes({"a": 3}), 1), PureDP(1), "marginals")
        >>> release = Release(Measurements(made, np.array([2, 64, 35])))
        >>> known = release.knowing(Facts(records=98, impossible=[{"a": 0}]))
        >>> known.estimates(("a",)).round(6).tolist(), known.values(("a",)).std_error.round(2).tolist()
        ([0.0, 63.5, 34.5], [0.0, 0.96, 0.96])
        """
        return Release(self.measurements, self.provenance, self.words, agreeing(self, facts))

    def save(self, folder: str | Path, *, progress: Progress = silent) -> None:
        """Write the artifact: tables, measurements, plan, statements, checksums. The folder must be new."""
        from privcube.released.artifact.store import save

        save(self, folder, progress)

    @classmethod
    def open(cls, folder: str | Path) -> Release:
        """Read an artifact, after comparing its files with their checksums."""
        from privcube.released.artifact.store import open_release

        return open_release(folder)

    # Estimates and errors

    @cached_property
    def _predictor(self) -> Predictor:
        return predictor_given(self.plan, self.facts)

    @property
    def honors_facts(self) -> bool:
        """Whether estimates are conditioned on the facts; not if these are many, or tables have sums or disagree."""
        return isinstance(self._predictor, Conditioned)

    def without_facts(self) -> Release:
        """The same release, with estimates that nothing but the measurements went into."""
        return Release(self.measurements, self.provenance, self.words) if self.facts else self

    def _recover(self, sources: Sequence[Table], progress: Progress = silent) -> dict[Table, Floats]:
        found = self._predictor.recover(sources, self.measurements.counts, progress)
        for counts in found.values():
            counts.setflags(write=False)  # callers get views; what is saved later must be what was recovered
        return found

    def _estimate(self, table: Table) -> Floats:
        self.recover()
        assert self._recovered is not None
        source = self._predictor.source(table)
        if source not in self._recovered:
            if not self._predictor.determines(table):
                raise self._refused(table)
            self._recovered |= self._recover([source])
        return self._predictor.derived(table, self._recovered[source])

    def _typical_error(self, table: Table) -> float:
        return float(np.sqrt(np.mean(self._predictor.variances(table)))) * scale_of(self.workload.schema, table)

    def _means(self, table: Table, confidence: float) -> Ratios | None:
        if not self._predictor.determines(cells := cells_of(table)):
            return None
        return means_of(self._predictor, self.workload.schema, table, self._estimate(cells), confidence)

    def _in_units(self, table: Table, numbers: Floats) -> Floats:
        """Numbers of a table without the axis of a measure, and sums in the units of the measure."""
        if (axis := measured_axis(table)) is None:
            return numbers
        return np.asarray(np.squeeze(numbers, axis=table.index(axis)) * scale_of(self.workload.schema, table))

    def _asked(
        self, wheres: Sequence[Mapping[str, Selection]], measured: Mapping[str, Floats] = MappingProxyType({})
    ) -> tuple[Table, list[Floats]]:
        """Queries as weights on one table: of cells, or of levels if cells were not measured; or of published sums."""
        schema = self.workload.schema
        chosen = dict(measured)  # per attribute, a row of weights on cells for each query
        for number, where in enumerate(wheres):
            for name, selection in where.items():
                if name in measured:
                    raise QueryError(f"measure {name!r}", expected="conditions on other columns than what is added up")
                rows = chosen.setdefault(name, np.ones((len(wheres), schema[name].cells)))
                rows[number] = selected_weights(schema[name], selection)
        table, parts = self._at_levels(chosen)
        weights: list[Floats] = [np.ones(()) for _ in wheres]
        for rows in parts:
            weights = [np.multiply.outer(own, row) for own, row in zip(weights, rows, strict=True)]
        return table, weights

    def _at_levels(self, chosen: Mapping[str, Floats]) -> tuple[Table, list[Floats]]:
        """A table with these attributes, and rows of weights on its cells, or on groups if cells were not measured."""
        parts = weighted_entries(self.workload.schema, chosen)
        coarser = [at_level(self.plan.frame, entry, own) for entry, own in parts]
        of_cells, of_groups = (tuple([entry for entry, _ in some]) for some in (parts, coarser))
        if not self._predictor.determines(of_cells) and self._predictor.determines(of_groups):
            return of_groups, [own for _, own in coarser]
        return of_cells, [own for _, own in parts]

    def _refused(self, table: Table) -> QueryError:
        """An error that lists the tables with the most similar attributes first."""
        names = _attributes(table)
        near = sorted(self.workload, key=lambda other: len(names ^ _attributes(other)))
        expected = "a table that the measurements determine" if self.agrees else "a table of the workload"
        return QueryError(table_name(table), expected=expected, available=map(table_name, near))

    # Notebooks

    def __repr__(self) -> str:
        return f"<release of {len(self.workload):,} tables, {self.plan.guarantee}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(table_name(table))}</td><td>{table_cells(self.workload.schema, table):,}</td>"
            f"<td>{self._typical_error(table):,.1f}</td></tr>"
            for table in list(self.workload)[:_MOST_SHOWN]
        )
        return (
            f"<p><b>privcube release</b>: {html.escape(str(self.plan.guarantee))}</p><table><thead><tr><th>table</th>"
            f"<th>cells</th><th>standard error of a cell</th></tr></thead><tbody>{rows}</tbody></table>"
        )


def _attributes(table: Table) -> frozenset[str]:
    return frozenset(Axis.of(entry).attribute for entry in table)
