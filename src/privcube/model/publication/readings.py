"""How cells read where nobody gave them labels: open-ended bins, in particular. Zone: PUBLIC.

A bin is called "[65, 120)" in the schema, in queries and in files for programs. People read "65 to under 120", or
"65 and over" where whatever lies above counts in it as well: if the attribute clamps it, or has a category for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from privcube.model.amounts import decimal_text
from privcube.model.attribute import Attribute, Value
from privcube.model.levels import Partition

_GROUPED_FROM: Final = 10_000  # from here on, thousands are set apart; years are not


def codes(attribute: Attribute, level: str | None = None) -> Sequence[Value]:
    """What cells, or groups of a level, are called in the schema."""
    return attribute.labels if level is None else attribute.partition(level).labels


def readings(attribute: Attribute, level: str | None = None) -> Sequence[Value]:
    """What cells, or groups of a level, read like to people.

    >>> age = Attribute("age", bins=[0, 18, 65, 120], overflow="clamp", missing="category")
    >>> readings(age)
    ['0 to under 18', '18 to under 65', '65 and over', '(missing)']
    >>> readings(Attribute("income", bins=[0, 20_000], underflow="category", overflow="category"))
    ['under 0', '0 to under 20,000', '20,000 and over']
    """
    own = codes(attribute, level)
    if attribute.is_measure:
        return own
    if level is None:
        return [run_reading(attribute, cell, cell) for cell in range(attribute.cells)] if attribute.has_ends else own
    by_name = attribute.levels[attribute.level_names.index(level)].groups is not None
    read: list[Value] = []
    for label, (first, last) in zip(own, _ends(attribute.partition(level)), strict=True):
        if first == last and label == attribute.labels[first]:  # a category, which every level keeps
            read.append(run_reading(attribute, first, last))
        elif by_name:
            read.append(label)
        elif attribute.has_ends:
            read.append(run_reading(attribute, first, last, label))
        else:
            ends = attribute.labels[first], attribute.labels[last]
            read.append(between(*ends) if all(isinstance(end, int) for end in ends) else label)
    return read


def run_reading(attribute: Attribute, first: int, last: int, name: Value | None = None) -> str:
    """What neighboring cells read like together; `name` is what a period made of them is called.

    >>> run_reading(Attribute("age", bins=[0, 18, 65, 120], overflow="clamp"), 1, 2)
    '18 and over'
    """
    labels = attribute.labels
    if first >= attribute.ordered_cells or not attribute.has_ends:
        return between(labels[first], labels[last])
    ends = attribute.first_declared, attribute.first_declared + attribute.declared_cells - 1
    open_below = first < ends[0] or (first == ends[0] and attribute.underflow == "clamp")
    open_above = last > ends[1] or (last == ends[1] and attribute.overflow == "clamp")
    if attribute.bins is None:
        if first < ends[0] or last > ends[1]:
            return between(labels[first], labels[last])
        read = between(labels[first], labels[last]) if name is None else str(name)
        return _opened(read, open_below, open_above, "{} and before", "{} and after")
    edges = attribute.bins  # of a category at an end, the open end is not asked for
    low, high = (_number(edges[min(max(at - ends[0], 0), len(edges) - 1)]) for at in (first, last + 1))
    if open_below or open_above:
        return _opened(low if open_above else high, open_below, open_above, "under {}", "{} and over")
    return f"{low} to under {high}"


def between(first: Value, last: Value) -> str:
    """What a run of labels reads like.

    >>> between("a", "c"), between(3, 3)
    ('a to c', '3')
    """
    return str(first) if first == last else f"{first} to {last}"


def _opened(read: str, below: bool, above: bool, if_below: str, if_above: str) -> str:
    if below and above:
        return "all"
    return (if_below if below else if_above if above else "{}").replace("{}", read)


def _number(edge: Fraction) -> str:
    if edge.denominator == 1 and abs(edge) >= _GROUPED_FROM:
        return f"{int(edge):,}"
    return decimal_text(edge)


def _ends(partition: Partition) -> list[tuple[int, int]]:
    """The first and the last cell of every group."""
    found: dict[int, tuple[int, int]] = {}
    for cell, group in enumerate(partition.group_of):
        found[group] = (found[group][0] if group in found else cell, cell)
    return [found[group] for group in range(partition.cells)]
