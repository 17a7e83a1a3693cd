"""Measurements with the names of their groups and rows, so that others can work with them. Zone: RELEASED.

A folder of CSV files says what every noisy number counts, in words and as weights on cells, how its noise was drawn,
and what the published numbers are as weights on the same cells. That is S, y, the variances and Q of the paper (section
3): least squares on these files alone gives the published estimates, and README.md has the few lines that do it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from privcube.algebra.hashing import bucket_and_sign
from privcube.algebra.lattice import Integers
from privcube.arrow import column_of
from privcube.errors import ArtifactError, Plain
from privcube.model.frame import Frame
from privcube.model.groups import (
    BlockGroup,
    Group,
    GroupPart,
    MatrixGroup,
    SketchGroup,
    group_rows,
    is_structured,
    product_groups,
    row_weights,
)
from privcube.model.measures.measure import scale_of
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import PureDP
from privcube.model.workload import Axis, table_name
from privcube.progress import WRITING, Progress, told
from privcube.released.artifact.manifest import mechanism_of
from privcube.released.artifact.table_files import csv_bytes, safe_text
from privcube.released.exports.functions import Functions, runs_of
from privcube.released.exports.measurements_readme import readme
from privcube.released.labels import shown_labels
from privcube.released.release import Release

MOST_LINES: Final = 20_000_000  # of rows.csv

Term = dict[str, int]  # for each attribute of a product, the number of its function


def measurement_files(release: Release, progress: Progress) -> dict[str, bytes]:
    """The files of the folder."""
    plan = release.plan
    functions = _functions(release)
    rows, measured = [], []
    lines, start = 0, 0
    for number, group in told(list(enumerate(plan.groups)), WRITING, progress):
        own = _named_rows(plan, functions, group)
        weights = row_weights(plan.frame, group)
        answers = release.measurements.answers[start : start + len(weights)]
        start += len(weights)
        rows.append(_row_lines(number, own))
        lines += len(rows[-1])
        if lines > MOST_LINES:
            raise ArtifactError("measurements", expected=f"at most {MOST_LINES:,} lines", given=Plain("more"))
        measured.append(_measured(plan, number, answers, weights, _words(own, functions)))
    published = _published(release, functions)  # before the functions are written, as it adds some
    return {
        "README.md": readme(release).encode(),
        "groups.csv": csv_bytes(_groups(plan)),
        "measurements.csv": csv_bytes(pa.concat_tables(measured)),
        "rows.csv": csv_bytes(pa.concat_tables(rows)),
        "functions.csv": csv_bytes(_weights(functions)),
        "cells.csv": csv_bytes(_cells(functions)),
        "tables.csv": csv_bytes(_tables(release)),
        "published.csv": csv_bytes(published),
    }


def _functions(release: Release) -> dict[str, Functions]:
    plan, schema = release.plan, release.workload.schema
    frame = plan.frame if is_structured(plan.groups) else Frame(schema, "natural")
    return {attribute.name: Functions(frame, attribute, release.words) for attribute in schema}


# Rows


class _Products(NamedTuple):
    """Rows that are products: for each attribute, the function of every row."""

    of_attribute: dict[str, Integers]
    rows: int


_Rows = _Products | list[list[Term]]  # or, for every row, a sum of products


def _named_rows(plan: Plan, functions: Mapping[str, Functions], group: Group) -> _Rows:
    """What the rows of a group are."""
    if isinstance(group, SketchGroup):
        names = list(functions)
        bucket, sign = bucket_and_sign(group.partition, group.buckets, plan.workload.schema.domain_size)
        return [_terms(functions, names, np.where(bucket == own, sign, 0)) for own in range(group.buckets)]
    if isinstance(group, MatrixGroup):
        return [_terms(functions, group.attributes, row) for row in group.matrix]
    if isinstance(group, BlockGroup):
        return [row for block in group.blocks for row in _block(functions, block.contrasted, block.matrix)]
    owners = plan.frame.axis_owners
    parts: dict[str, list[GroupPart]] = {}
    for part in group:
        parts.setdefault(owners[part.axis], []).append(part)
    numbers = {name: functions[name].measured(own) for name, own in parts.items()}
    shape = [len(own) for own in numbers.values()]
    places = np.unravel_index(np.arange(int(np.prod(shape))), shape) if shape else ()
    found = {name: own[place] for (name, own), place in zip(numbers.items(), places, strict=True)}
    return _Products(found, int(np.prod(shape)))


def _terms(functions: Mapping[str, Functions], names: Sequence[str], row: Integers) -> list[Term]:
    """A row over the joint cells of some attributes: for cells of all but the last one, a function of the last."""
    *others, last = names
    by_last = row.reshape(-1, functions[last].cells)
    found = []
    for at in np.flatnonzero(np.any(by_last != 0, axis=1)).tolist():
        place = np.unravel_index(at, [functions[name].cells for name in others]) if others else ()
        single = {
            name: functions[name].number(((cell, cell, 1.0),))
            for name, cell in zip(others, map(int, place), strict=True)
        }
        found.append({**single, last: functions[last].number(runs_of(by_last[at]))})
    return found or [{last: functions[last].number(())}]  # a row of zeros, such as an empty bucket


def _block(functions: Mapping[str, Functions], contrasted: Sequence[str], matrix: MatrixGroup) -> Iterator[list[Term]]:
    """The rows of a matrix, each times all products of Helmert rows of the contrasted attributes."""
    numbers = [functions[name].measured([GroupPart(_axis(functions[name]), 1, "helmert")]) for name in contrasted]
    for row in matrix.matrix:
        own = _terms(functions, matrix.attributes, row)
        for place in np.ndindex(*(len(each) for each in numbers)):
            times = {name: int(each[at]) for name, each, at in zip(contrasted, numbers, place, strict=True)}
            yield [{**term, **times} for term in own]


def _axis(own: Functions) -> int:
    ((axis, _),) = own.frame.footprint(own.attribute)
    return axis


def _row_lines(number: int, rows: _Rows) -> Any:
    """The lines of rows.csv for a group."""
    if isinstance(rows, _Products):
        names = list(rows.of_attribute)
        every = np.repeat(np.arange(rows.rows, dtype=np.int64), len(names))
        term = np.zeros(len(every), dtype=np.int64)
        attribute = np.tile(np.arange(len(names), dtype=np.int64), rows.rows)
        function = np.stack(list(rows.of_attribute.values()), axis=1).ravel() if names else every
    else:
        lines = [
            (row, term, name, own)
            for row, terms in enumerate(rows)
            for term, product in enumerate(terms)
            for name, own in product.items()
        ]
        names = list(dict.fromkeys(line[2] for line in lines))
        place = {name: at for at, name in enumerate(names)}
        found = np.array([(row, term, place[name], own) for row, term, name, own in lines], dtype=np.int64)
        every, term, attribute, function = np.ascontiguousarray(found.reshape(-1, 4).T)
    texts = pa.array([safe_text(name) for name in names], pa.string())
    return pa.table(
        {
            "group": column_of(np.full(len(every), number)),
            "row": column_of(every),
            "term": column_of(term),
            "attribute": texts.take(column_of(attribute)),
            "function": column_of(function),
        }
    )


def _words(rows: _Rows, functions: Mapping[str, Functions]) -> list[str]:
    """What every row of a group counts, in words."""
    texts: dict[str, dict[int, str]] = {}

    def text(name: str, number: int) -> str:
        known = texts.setdefault(name, {})
        if number not in known:
            known[number] = f"{name}: {functions[name].text_of(number)}"
        return known[number]

    if isinstance(rows, _Products):
        if not rows.of_attribute:
            return ["all records"]
        columns = [[text(name, at) for at in own.tolist()] for name, own in rows.of_attribute.items()]
        return ["; ".join(own) for own in zip(*columns, strict=True)]
    found = []
    for terms in rows:
        shown = "; ".join(text(name, at) for name, at in terms[0].items())
        found.append(shown if len(terms) < 2 else f"{shown} (and {len(terms) - 1} more products)")
    return found


# Numbers


def _measured(plan: Plan, number: int, answers: Integers, weights: Sequence[int], words: Sequence[str]) -> Any:
    """The lines of measurements.csv for a group."""
    parts, variance = plan.parts[number], float(plan.noise_variance(number))
    return pa.table(
        {
            "group": column_of(np.full(len(answers), number)),
            "row": column_of(np.arange(len(answers))),
            "counts": pa.array([safe_text(text) for text in words], pa.string()),
            "answer": column_of(answers),
            "value": column_of(answers / parts),
            "variance": column_of(np.array(weights, dtype=np.float64) * variance),
            "slice": pa.array(_slices(plan, number), pa.int64()),
        }
    )


def _slices(plan: Plan, number: int) -> list[int | None]:
    """For a group that speaks only about what lies beyond its slices, the slice of every row; else nothing."""
    if plan.told_by is None or plan.told_by[number] < 0:
        return [None] * group_rows(plan.frame, plan.groups[number])
    group, teller = product_groups([plan.groups[number], plan.groups[int(plan.told_by[number])]])
    level_of = {part.axis: part.level for part in teller}
    found = np.zeros(1, dtype=np.int64)
    for part in group:
        sizes = plan.frame.sizes[part.axis]
        slices = sizes[level_of.get(part.axis, 0)]
        own = np.arange(sizes[part.level]) // (sizes[part.level] // slices)
        found = (found[:, None] * slices + own).ravel()
    return [*found.tolist()]


def _groups(plan: Plan) -> Any:
    """What every group measures, and how its noise was drawn."""
    pure = isinstance(plan.guarantee, PureDP)
    lines = []
    for bundle, (groups, law) in enumerate(zip(plan.noised_together, plan.noise_laws, strict=True)):
        for number in groups:
            told = -1 if plan.told_by is None else int(plan.told_by[number])
            lines.append(
                {
                    "group": number,
                    "measures": safe_text(group_words(plan, plan.groups[number])),
                    "rows": group_rows(plan.frame, plan.groups[number]),
                    "bundle": bundle,
                    "share": _exact(Fraction(plan.shares[bundle], plan.denominator)),
                    "noise": mechanism_of(plan, len(groups), law),
                    "parameter": "scale" if pure else "variance",
                    "drawn": _exact(plan.drawn_scale(number) if pure else plan.drawn_variance(number)),
                    "parts": plan.parts[number],
                    "told_by": None if told < 0 else told,
                }
            )
    lines.sort(key=lambda line: int(str(line["group"])))
    types = {"told_by": pa.int64()}
    return pa.table({name: pa.array([line[name] for line in lines], types.get(name)) for name in lines[0]})


def _exact(number: Fraction) -> str:
    return str(number)


_KINDS: Final = {
    "cells": "",
    "contrast": "halves of ",
    "helmert": "contrasts of ",
    "squares": "squares of contrasts of ",
}


def group_words(plan: Plan, group: Group) -> str:
    """What a group measures: cells of attributes and levels, differences between them, or rows of a matrix.

    >>> from privcube import PureDP, Schema, Workload, plan
    >>> made = plan(Workload.tables(Schema.from_sizes({"sex": 2, "age": 3}), [("sex", "age")]), PureDP(1), "marginals")
    >>> [group_words(made, group) for group in made.groups]
    ['sex x age']
    """
    if isinstance(group, SketchGroup):
        return f"partition {group.partition} of all combinations, {group.buckets:,} sums with signs"
    if isinstance(group, MatrixGroup):
        return f"a matrix over {' x '.join(group.attributes)}"
    if isinstance(group, BlockGroup):
        return f"matrices over {' x '.join(group.attributes)}, times contrasts of other attributes"
    if not group:
        return "total"
    return " x ".join(_part_words(plan.frame, part) for part in group)


def _part_words(frame: Frame, part: GroupPart) -> str:
    name, attribute = frame.axis_owners[part.axis], frame.schema[frame.axis_owners[part.axis]]
    axes = [axis for axis, _ in frame.footprint(attribute)]
    depth = len(frame.fan_outs[part.axis])
    if len(axes) > 1:
        return f"{_KINDS[part.kind]}bit {axes.index(part.axis) + 1} of {name}"
    if part.level == depth:
        return f"{_KINDS[part.kind]}{name}"
    levels = frame.levels_of(attribute)
    at = f"{name} by {levels[depth - 1 - part.level]}" if levels else f"{name} by level {part.level} of a tree"
    return f"{_KINDS[part.kind]}{at}"


# Cells and published numbers


def _weights(functions: Mapping[str, Functions]) -> Any:
    lines = [
        (name, number, first, last, weight)
        for name, own in functions.items()
        for number, runs in enumerate(own.runs, start=1)
        for first, last, weight in runs or [(0, 0, 0.0)]
    ]
    return _columns(["attribute", "function", "first", "last", "weight"], lines)


def _cells(functions: Mapping[str, Functions]) -> Any:
    lines = []
    for name, own in functions.items():
        value_at = dict(zip(own.positions.tolist(), zip(own.attribute.labels, own.labels, strict=True), strict=True))
        for cell in range(own.cells):
            code, label = value_at.get(cell, ("", ""))
            lines.append((name, cell, "" if cell in value_at else "padding", str(code), label))
    return _columns(["attribute", "cell", "padding", "value", "label"], lines)


def _tables(release: Release) -> Any:
    lines: list[tuple[Any, ...]] = []
    for number, table in enumerate(release.workload, start=1):
        axes = [(axis.attribute, axis.level or "", str(axis.queries)) for axis in map(Axis.of, table)]
        lines += [(number, table_name(table), *own) for own in axes or [("", "", "")]]
    return _columns(["number", "table", "attribute", "level", "queries"], lines)


def _published(release: Release, functions: Mapping[str, Functions]) -> Any:
    schema, lines = release.workload.schema, []
    for entry in dict.fromkeys(entry for table in release.workload for entry in table):
        axis = Axis.of(entry)
        numbers = functions[axis.attribute].published(entry, scale_of(schema, (entry,)))
        labels = shown_labels(schema, release.words, entry)
        key = (axis.attribute, axis.level or "", axis.queries)
        lines += [(*key, at, str(label), own) for at, (label, own) in enumerate(zip(labels, numbers, strict=True))]
    return _columns(["attribute", "level", "queries", "number", "label", "function"], lines)


def _columns(names: Sequence[str], lines: Sequence[tuple[Any, ...]]) -> Any:
    """A table of these lines, with text that is safe in a spreadsheet."""
    columns = list(zip(*lines, strict=True)) if lines else [()] * len(names)
    made = [
        pa.array([safe_text(value) for value in own], pa.string()) if own and isinstance(own[0], str) else pa.array(own)
        for own in columns
    ]
    return pa.table(made, names=list(names))
