"""Which cells of an attribute a query counts. Zone: RELEASED.

A selection is
- a label: "F", 3, "[18, 30)";
- a list or set of labels: any of them;
- two numbers [low, high] for an attribute with bins: from low to below high, both bin edges;
- a slice of labels of an ordered attribute: slice(3, 7) is 3, 4, 5, 6, 7, with both ends; None is no bound;
- {"level": value or list}: groups of a declared level, for example {"stage": "[0, 15)"}.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np

from privcube.algebra.lattice import Floats
from privcube.errors import QueryError
from privcube.model.amounts import decimal_text
from privcube.model.attribute import Attribute
from privcube.model.frame import Frame
from privcube.model.schema import Schema
from privcube.model.workload import Axis

Selection = Any


def selected_cells(attribute: Attribute, selection: Selection) -> list[int]:
    """The indices of the selected cells, in order, without repeats.

    >>> age = Attribute("age", bins=[0, 18, 30, 65])
    >>> selected_cells(age, [18, 65]), selected_cells(age, "[0, 18)"), selected_cells(age, ["[0, 18)", "[30, 65)"])
    ([1, 2], [0], [0, 2])
    """
    if isinstance(selection, Mapping):
        return _of_level(attribute, selection)
    if isinstance(selection, slice):
        return _of_slice(attribute, selection)
    if isinstance(selection, Collection) and not isinstance(selection, str):
        given = list(selection)
        if attribute.bins is not None and given and all(_is_number(item) for item in given):
            return _of_range(attribute, given)
        return sorted(set(_cells(attribute, given)))
    return _cells(attribute, [selection])


def selected_weights(attribute: Attribute, selection: Selection) -> Floats:
    """A selection as weights on the cells of an attribute, 0 or 1.

    Of a measure the categories can be selected, such as "> 60": records outside its range, if they are counted; and its
    knots, such as "near 30", for the parts of records that are there.
    """
    if attribute.is_measure and isinstance(selection, slice | Mapping):
        raise QueryError(
            f"measure {attribute.name!r}", expected="one of its cells", available=map(str, attribute.labels)
        )
    weights = np.zeros(attribute.cells)
    weights[selected_cells(attribute, selection)] = 1.0
    return weights


def _cells(attribute: Attribute, wanted: Sequence[object]) -> list[int]:
    """The cells of labels; True and 1 are different labels."""
    labels = attribute.labels
    known: Mapping[object, int] = {}
    if not isinstance(labels, range):
        known = {(isinstance(own, bool), own): cell for cell, own in reversed(list(enumerate(labels)))}
    found = []
    for label in wanted:
        if isinstance(labels, range):
            cell = label if type(label) is int and label in labels else None
        else:
            cell = known.get((isinstance(label, bool), label)) if isinstance(label, Hashable) else None
        if cell is None:
            raise QueryError(
                f"attribute {attribute.name!r}",
                expected="one of its labels",
                given=label,
                available=[str(own) for own in (labels[:50] if isinstance(labels, range) else labels)],
            )
        found.append(cell)
    return found


def _of_range(attribute: Attribute, given: list[Any]) -> list[int]:
    assert attribute.bins is not None
    edges = list(attribute.bins)
    shown = [decimal_text(edge) for edge in edges]
    finite = [end for end in given if not isinstance(end, float) or isfinite(end)]
    if len(given) != 2 or any(end not in finite or Fraction(str(end)) not in edges for end in given):
        raise QueryError(
            f"range of {attribute.name!r}", expected="two of its edges, low and high", given=given, available=shown
        )
    low, high = (edges.index(Fraction(str(end))) for end in given)
    if low >= high:
        raise QueryError(f"range of {attribute.name!r}", expected="low below high", given=given)
    first = int(attribute.underflow == "category")
    return list(range(first + low, first + high))


def _of_slice(attribute: Attribute, selection: slice) -> list[int]:
    if not attribute.ordered or selection.step is not None:
        raise QueryError(f"slice of {attribute.name!r}", expected="an ordered attribute, and no step")
    low = 0 if selection.start is None else _cells(attribute, [selection.start])[0]
    high = attribute.ordered_cells - 1 if selection.stop is None else _cells(attribute, [selection.stop])[0]
    if low > high:
        raise QueryError(f"slice of {attribute.name!r}", expected="the first label to come before the last")
    return list(range(low, high + 1))


def _of_level(attribute: Attribute, selection: Mapping[str, Any]) -> list[int]:
    if len(selection) != 1:
        raise QueryError(f"attribute {attribute.name!r}", expected="one level and its groups", given=dict(selection))
    ((level, wanted),) = selection.items()
    partition = attribute.partition(level)
    groups = list(wanted) if isinstance(wanted, Collection) and not isinstance(wanted, str) else [wanted]
    for group in groups:
        if group not in partition.labels:
            raise QueryError(
                f"{attribute.name!r} by {level!r}",
                expected="one of its groups",
                given=group,
                available=[str(label) for label in partition.labels],
            )
    chosen = {partition.labels.index(group) for group in groups}
    return [cell for cell, group in enumerate(partition.group_of) if group in chosen]


def _is_number(item: object) -> bool:
    return isinstance(item, int | float | Fraction) and not isinstance(item, bool)


def weighted_entries(schema: Schema, chosen: Mapping[str, Floats]) -> list[tuple[str | Axis, Floats]]:
    """Attributes in schema order, with rows of weights on their cells; one weight for a measure is on its sum."""
    return [
        (own.name if chosen[own.name].shape[1] == own.cells else Axis(own.name, queries="sum"), chosen[own.name])
        for own in schema
        if own.name in chosen
    ]


def at_level(frame: Frame, entry: str | Axis, weights: Floats) -> tuple[str | Axis, Floats]:
    """Rows of weights on the cells of an attribute as weights on the coarsest level whose groups have equal weights."""
    if isinstance(entry, str):
        attribute = frame.schema[entry]
        for level in reversed(frame.levels_of(attribute)):
            groups = np.asarray(attribute.partition(level).group_of)
            own = weights[:, np.unique(groups, return_index=True)[1]]
            if np.array_equal(own[:, groups], weights):
                return Axis(entry, level), own
    return entry, weights
