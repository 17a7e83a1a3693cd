"""Labels and column names of published tables. Zone: RELEASED."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from privcube.accuracy.ranges import bounds
from privcube.model.publication.words import Words
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Table

Label = str | int | bool

NUMBERS: Final = ("estimate", "std_error", "low", "high", "low_all", "high_all")  # the columns after the labels
MEANS: Final = ("mean", "mean_low", "mean_high")  # after these, in tables of sums; NaN: not determined
SHARES: Final = ("share", "share_low", "share_high", "share_low_all", "share_high_all")  # after these, if asked for
RELIABILITY: Final = "reliability"  # the column that says how far to trust a number, in files for people
COUNT: Final = "count"  # the column of whole numbers, after these, in releases that have them
COUNTS: Final = (COUNT, "count_low", "count_high")  # with the ends of their intervals, if these are wanted

IN_ORDER: Final = (*NUMBERS, *MEANS, *COUNTS, *SHARES, RELIABILITY)  # all columns of numbers


def axis_labels(schema: Schema, entry: str | Axis) -> Sequence[Label]:
    """The labels along one entry of a table.

    >>> from privcube.model.attribute import Attribute
    >>> schema = Schema([Attribute("age", bins=[0, 18, 65])])
    >>> list(axis_labels(schema, "age")), list(axis_labels(schema, Axis("age", queries="ranges")))
    (['[0, 18)', '[18, 65)'], ['[0, 18)', '[0, 18) .. [18, 65)', '[18, 65)'])
    """
    axis = Axis.of(entry)
    attribute = schema[axis.attribute]
    if axis.queries == "cells":
        return attribute.labels if axis.level is None else attribute.partition(axis.level).labels
    if axis.is_measured:
        return [axis.queries]
    firsts, lasts = bounds(axis.queries, attribute.ordered_cells)
    pairs = zip(firsts.tolist(), lasts.tolist(), strict=True)
    return [_between(attribute.labels[first], attribute.labels[last - 1]) for first, last in pairs]


def shown_labels(schema: Schema, words: Words, entry: str | Axis) -> Sequence[Label]:
    """What the labels along one entry of a table read like to people.

    >>> from privcube.model.attribute import Attribute
    >>> schema = Schema([Attribute("age", bins=[0, 18, 65], overflow="clamp")])
    >>> shown_labels(schema, Words(), "age"), shown_labels(schema, Words(), Axis("age", queries="ranges"))
    (['0 to under 18', '18 and over'], ['0 to under 18', '0 and over', '18 and over'])
    """
    axis = Axis.of(entry)
    if axis.queries == "cells":
        return words.labels(schema, axis.attribute, axis.level)
    if axis.is_measured:
        return [axis.queries]
    firsts, lasts = bounds(axis.queries, schema[axis.attribute].ordered_cells)
    pairs = zip(firsts.tolist(), lasts.tolist(), strict=True)
    return words.run_labels(schema, axis.attribute, [(first, last - 1) for first, last in pairs])


def _between(first: Label, last: Label) -> str:
    return str(first) if first == last else f"{first} .. {last}"


def labeled(table: Table) -> Table:
    """The entries of a table that have a column of labels: all but a measure, which has one number.

    >>> labeled(("sex", Axis("income", queries="sum")))
    ('sex',)
    """
    return tuple([entry for entry in table if not Axis.of(entry).is_measured])


def column_names(table: Table, also: Sequence[str] = ()) -> list[str]:
    """The names of the attributes' columns; underscores are added to names that are taken, by numbers or `also`."""
    names: list[str] = []
    for entry in labeled(table):
        name = Axis.of(entry).name
        while name in (*NUMBERS, *MEANS, *COUNTS, RELIABILITY, *also) or name in names:
            name += "_"
        names.append(name)
    return names
