"""Weights of a measured or published number on the cells of an attribute, as runs of equal ones. Zone: RELEASED.

A row of a group is a product of such functions, one per attribute, or a sum of such products. Cells are those of the
frame's axes, with padding (`privcube.model.frame`); of plans with explicit rows, the values of the attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from privcube.accuracy.published import cell_rows, published_rows
from privcube.accuracy.ranges import bounds
from privcube.algebra.lattice import Floats, Integers
from privcube.algebra.residuals import helmert_rows, square_rows
from privcube.errors import ArtifactError, Plain
from privcube.model.attribute import Attribute
from privcube.model.frame import Frame
from privcube.model.groups import GroupPart
from privcube.model.matrices.rows import padded_size
from privcube.model.publication.words import Words
from privcube.model.workload import Axis

Runs = tuple[tuple[int, int, float], ...]  # first cell, last cell, weight of each; other cells have weight 0

MOST_RUNS: Final = 5_000_000  # of all functions of an attribute
_MOST_NAMED: Final = 3  # values, or runs of them, that are named one by one


def runs_of(weights: Floats | Integers) -> Runs:
    """Weights as runs of equal ones.

    >>> runs_of(np.array([0, 1, 1, -2, 0]))
    ((1, 2, 1.0), (3, 3, -2.0))
    """
    starts = np.concatenate([[0], np.flatnonzero(np.diff(weights)) + 1, [len(weights)]])
    pairs = zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    return tuple((first, end - 1, float(weights[first])) for first, end in pairs if weights[first])


class Functions:
    """The functions on the cells of one attribute that rows and published numbers use, numbered from 1."""

    def __init__(self, frame: Frame, attribute: Attribute, words: Words) -> None:
        self.frame, self.attribute = frame, attribute
        self.cells = padded_size(frame, attribute.name)
        self.positions = np.asarray(frame.positions(attribute), dtype=np.int64)  # of the values among the cells
        self.labels = [str(label) for label in words.labels(frame.schema, attribute.name)]
        self._order = np.argsort(self.positions)
        self._places = self.positions[self._order]
        self.runs: list[Runs] = []  # all functions, in the order of their numbers
        self._numbers: dict[Runs, int] = {}
        self._size = 0
        self._of_parts: dict[tuple[GroupPart, ...], Integers] = {}
        self._named = self._level_names(words)

    def number(self, runs: Runs) -> int:
        """The number of a function, which is now among those used."""
        if runs not in self._numbers:
            self.runs.append(runs)
            self._numbers[runs] = len(self.runs)
            self._size += len(runs)
            if self._size > MOST_RUNS:
                expected = f"rows of at most {MOST_RUNS:,} runs of cells per attribute"
                raise ArtifactError(f"measurements of {self.attribute.name!r}", expected=expected, given=Plain("more"))
        return self._numbers[runs]

    def measured(self, parts: Sequence[GroupPart]) -> Integers:
        """The functions of the rows of a group along its parts that belong to this attribute, in order."""
        key = tuple(parts)
        if key not in self._of_parts:
            self._of_parts[key] = np.array([self.number(runs) for runs in self._rows(key)], dtype=np.int64)
        return self._of_parts[key]

    def _rows(self, parts: Sequence[GroupPart]) -> Iterable[Runs]:
        axes = [axis for axis, _ in self.frame.footprint(self.attribute)]
        if len(axes) == 1 and parts[0].kind != "squares":
            return _axis_runs(self.frame.sizes[axes[0]], parts[0])
        of_axis = {part.axis: part for part in parts}
        found: Floats = np.ones((1, 1))
        for axis in axes:
            found = np.asarray(np.kron(found, _axis_rows(self.frame.sizes[axis], of_axis.get(axis))), dtype=np.float64)
        return map(runs_of, found)

    def published(self, entry: str | Axis, scale: float = 1.0) -> list[int]:
        """The functions of the numbers of an entry of a table, in order; `scale` is what sums are in units of."""
        axis, source = Axis.of(entry), self.frame.source(self.attribute, Axis.of(entry).level)
        if axis.queries in ("prefixes", "ranges") and cell_rows(self.frame, self.attribute, source) is None:
            firsts, ends = bounds(axis.queries, self.attribute.ordered_cells)  # a matrix of them would be large
            pairs = zip(firsts.tolist(), ends.tolist(), strict=True)
            return [self.number(((first, end - 1, 1.0),)) for first, end in pairs]
        rows = published_rows(self.frame, entry)
        if rows is None:
            size = self.frame.nested_sizes(self.attribute, source)[-1]
            below = self.cells // size
            return [self.number(((at * below, (at + 1) * below - 1, 1.0),)) for at in range(size)]
        return [self.number(runs_of(np.repeat(row * scale, self.cells // len(row)))) for row in rows]

    # Words

    def text_of(self, number: int) -> str:
        """What a function gives to the values of the attribute, in words."""
        found = []
        for first, last, weight in self.runs[number - 1]:
            low, end = np.searchsorted(self._places, [first, last + 1]).tolist()
            if low < end:
                found.append((weight, self._run_text(low, end)))
        if not found:
            return "no value"
        sums = all(weight == 1 for weight, _ in found)
        shown = [text if sums else _weighted(weight, text, at == 0) for at, (weight, text) in enumerate(found)]
        cut = shown[: 2 * _MOST_NAMED]
        more = [f"and {len(shown) - len(cut)} more"] if len(shown) > len(cut) else []
        return (" or " if sums else " ").join([*cut, *more])

    def _run_text(self, low: int, end: int) -> str:
        if (low, end) in self._named:
            return self._named[low, end]
        own = [self.labels[at] for at in self._order[low:end][: _MOST_NAMED + 1].tolist()]
        if len(own) <= _MOST_NAMED:
            return own[0] if len(own) == 1 else f"({' or '.join(own)})"
        return f"({end - low} values, {own[0]} ... {self.labels[int(self._order[end - 1])]})"

    def _level_names(self, words: Words) -> dict[tuple[int, int], str]:
        """What stretches of values are called that are a group of a level, or all."""
        found = {(0, len(self.labels)): "any value"} if len(self.labels) > 1 else {}
        for level in self.attribute.level_names:
            group_of = np.asarray(self.attribute.partition(level).group_of)[self._order]
            starts = np.concatenate([[0], np.flatnonzero(np.diff(group_of)) + 1, [len(group_of)]]).tolist()
            if len(starts) - 1 > len(set(group_of.tolist())):
                continue  # groups that lie apart on the axis
            labels = words.labels(self.frame.schema, self.attribute.name, level)
            for low, end in pairwise(starts):
                if end - low > 1:
                    found.setdefault((low, end), str(labels[int(group_of[low])]))
        return found


def _weighted(weight: float, text: str, leads: bool) -> str:
    sign = "-" if weight < 0 else "" if leads else "+"
    times = "" if abs(weight) == 1 else f"{abs(weight):g} x "
    return f"{sign} {times}{text}".strip()


def _axis_runs(sizes: Sequence[int], part: GroupPart) -> Iterable[Runs]:
    """The rows of a part that is alone on its attribute: cells, or Helmert rows below every cell one level up."""
    below = sizes[-1] // sizes[part.level]
    if part.kind == "cells":
        return [((at * below, (at + 1) * below - 1, 1.0),) for at in range(sizes[part.level])]
    above, children = sizes[part.level - 1], sizes[part.level] // sizes[part.level - 1]
    starts = [node * children * below for node in range(above)]
    return [
        ((start, start + j * below - 1, 1.0), (start + j * below, start + (j + 1) * below - 1, float(-j)))
        for start in starts
        for j in range(1, children)
    ]


_ROWS_OF: Final[dict[str, Callable[[int], Integers]]] = {
    "contrast": helmert_rows,
    "helmert": helmert_rows,
    "squares": square_rows,
}


def _axis_rows(sizes: Sequence[int], part: GroupPart | None) -> Floats:
    """The rows of a part as a matrix over the cells of its axis; without a part, the sum of all cells."""
    if part is None:
        return np.ones((1, sizes[-1]))
    if part.kind == "cells":
        return np.asarray(np.kron(np.eye(sizes[part.level]), np.ones((1, sizes[-1] // sizes[part.level]))))
    rows = _ROWS_OF[part.kind](sizes[part.level] // sizes[part.level - 1]).astype(np.float64)
    wide = np.kron(rows, np.ones((1, sizes[-1] // sizes[part.level])))
    return np.asarray(np.kron(np.eye(sizes[part.level - 1]), wide), dtype=np.float64)
