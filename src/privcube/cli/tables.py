"""Tables as people name them: `sex age`, "sex x age", age.stage, "age by stage", "ranges of age", total."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast, get_args

from privcube.model.attribute import Attribute
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Entry, Queries, Table, canonical

Known = TypeVar("Known")


def table_from(schema: Schema, words: Sequence[str]) -> Table:
    """The table that the words together name; unknown names are refused with the nearest known one.

    >>> schema = Schema.from_sizes({"sex": 2, "age": 10})
    >>> table_from(schema, ["age", "sex"]), table_from(schema, ["sex x age"]), table_from(schema, ["total"])
    (('sex', 'age'), ('sex', 'age'), ())
    """
    if list(words) == ["total"] and "total" not in schema:
        return ()
    entries: list[Entry] = []
    for word in words:
        found = parts_of(word, " x ", lambda text: _entry(schema, text))
        entries += [_level_or_name(schema, part) if isinstance(part, str) else part for part in found]
    return canonical(schema, entries)


def parts_of(text: str, separator: str, known: Callable[[str], Known | None]) -> list[Known | str]:
    """Split a text at separators, but not inside known names; the longest known name is taken first, from the left.

    >>> parts_of("[0, 15),[15, 65), x", ",", {"[0, 15)": 1, "[15, 65)": 2}.get)
    [1, 2, 'x']
    """
    pieces, found = text.split(separator), []
    start = 0
    while start < len(pieces):
        for end in range(len(pieces), start, -1):
            part = known(separator.join(pieces[start:end]).strip())
            if part is not None:
                break
        found.append(pieces[start].strip() if part is None else part)
        start = end
    return found


def attribute_and_level(schema: Schema, text: str) -> tuple[Attribute, str | None] | None:
    """The attribute and level that `sex`, `age.stage` or "age by stage" names, or None."""
    if text in schema:
        return schema[text], None
    for attribute in schema:
        for level in attribute.level_names:
            if text in (f"{attribute.name}.{level}", f"{attribute.name} by {level}"):
                return attribute, level
    return None


def _entry(schema: Schema, text: str) -> Axis | None:
    named = attribute_and_level(schema, text)
    if named is not None:
        return Axis(named[0].name, named[1])
    queries, _, name = text.partition(" of ")
    return Axis(name, queries=cast(Queries, queries)) if queries in get_args(Queries) and name in schema else None


def _level_or_name(schema: Schema, text: str) -> Entry:
    """What an unknown name was probably meant to be, so that the error lists the right alternatives."""
    for separator in (".", " by "):
        name, found, level = text.partition(separator)
        if found and name in schema:
            return Axis(name, level)
    return text
