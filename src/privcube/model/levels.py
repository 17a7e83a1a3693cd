"""Levels of detail of an attribute: partitions of its cells, and the padded chain of those that nest. Zone: PUBLIC.

A level merges the groups of a finer one, by default of the one declared before it: into named groups (cities into
states), in runs of a fixed number of neighbors on the scale (years into five-year bands), by coarser edges, or by
longer periods of dates. With `of` it merges the cells of the attribute, or another level, instead, so that an attribute
can be grouped in ways that do not nest. The categories for other, missing, too small and too large values stay separate
at every level; the total above all levels always exists.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from privcube.errors import Plain, SchemaError, listed
from privcube.model.amounts import Amount, decimal_text, exact

if TYPE_CHECKING:
    from privcube.model.columns.dates import Dates

Label = str | int | bool

TOGETHER: Final = "\n"  # between the names of levels that stand for their common groups; no name has it
_LONGEST_NAME: Final = 1_000  # characters: names are printed, and become columns of published files
_NOT_TEXT: Final = ("Cc", "Cs", "Zl", "Zp")  # controls, surrogates, line and paragraph separators


@dataclass(frozen=True)
class Partition:
    """The cells of an attribute, merged into groups: `labels[group_of[cell]]` names the group of a cell."""

    labels: tuple[Label, ...]
    group_of: tuple[int, ...] = field(repr=False)

    @property
    def cells(self) -> int:
        """How many groups there are."""
        return len(self.labels)

    def merges(self, finer: Partition) -> bool:
        """Whether every group of another partition lies within one group of this one."""
        return bool(np.array_equal(self.over(finer)[np.asarray(finer.group_of)], self.group_of))

    def over(self, finer: Partition) -> np.ndarray:
        """For every group of a finer partition, the group of this one that it lies in.

        >>> Partition(("x", "y"), (0, 0, 1)).over(Partition(("a", "b", "c"), (2, 1, 0))).tolist()
        [1, 0, 0]
        """
        found = np.zeros(finer.cells, dtype=np.int64)
        found[np.asarray(finer.group_of)] = self.group_of
        return found

    def is_even_over(self, finer: Partition) -> bool:
        """Whether every group has equally many of the groups of a finer partition."""
        return len(set(np.bincount(self.over(finer), minlength=self.cells).tolist())) == 1

    def common_with(self, other: Partition) -> Partition:
        """The coarsest partition that both of them merge, its groups in the order of their first cells.

        >>> Partition(("x", "y"), (0, 0, 1)).common_with(Partition(("p", "q"), (0, 1, 1)))
        Partition(labels=('x and p', 'x and q', 'y and q'))
        """
        pairs = list(zip(self.group_of, other.group_of, strict=True))
        numbers = {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}
        labels = [f"{self.labels[one]} and {other.labels[another]}" for one, another in numbers]
        return Partition(tuple(labels), tuple([numbers[pair] for pair in pairs]))


@dataclass(frozen=True)
class Chain:
    """Nested partitions with equal fan-outs: level l has prod(fan_outs[:l]) cells, level 0 is the total.

    Where the declared levels have unequal fan-outs, smaller groups are padded with cells that are always empty;
    `positions[cell]` is the position of a cell in the padded order (THEORY section 2: unequal fan-outs are padded).
    """

    fan_outs: tuple[int, ...]
    positions: tuple[int, ...] | range

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many cells every level has, from the total to the padded single values."""
        return tuple(prod(self.fan_outs[:level]) for level in range(len(self.fan_outs) + 1))


@dataclass(frozen=True, init=False)
class Level:
    """A coarser view of an attribute, declared by exactly one of groups, width, bins and, for dates, by.

    It merges the level declared before it or, with `of`, another one: a level's name, or the attribute's for its cells.

    >>> Level("state", groups={"CA": ["LA", "SF"], "NY": ["NYC"]})
    Level(name='state', groups=(('CA', ('LA', 'SF')), ('NY', ('NYC',))), width=None, bins=None, by=None, of=None)
    """

    name: str
    groups: tuple[tuple[str, tuple[Label, ...]], ...] | None
    width: int | None
    bins: tuple[Fraction, ...] | None
    by: str | None
    of: str | None

    def __init__(
        self,
        name: str,
        *,
        groups: Mapping[str, Sequence[Label]] | None = None,
        width: int | None = None,
        bins: Sequence[Amount] | None = None,
        by: str | None = None,
        of: str | None = None,
    ) -> None:
        check_name("level name", name)
        subject = f"level {name!r}"
        ways = {"groups": groups, "width": width, "bins": bins, "by": by}
        declared = [way for way, given in ways.items() if given is not None]
        if len(declared) != 1:
            raise SchemaError(
                subject,
                expected="one of groups, width, bins and by",
                given=Plain(" and ".join(declared) or "none of them"),
            )
        if groups is not None and (
            not isinstance(groups, Mapping)
            or not all(isinstance(members, Sequence) and not isinstance(members, str) for members in groups.values())
        ):
            raise SchemaError(f"{subject}, groups", expected="a table of lists, group = [members]", given=groups)
        for group in groups or ():
            check_name(f"{subject}, group", group)
        if width is not None and (isinstance(width, bool) or not isinstance(width, int) or width < 2):
            raise SchemaError(f"{subject}, width", expected="a whole number of at least 2", given=width)
        if bins is not None and (isinstance(bins, str) or not isinstance(bins, Sequence) or len(bins) < 2):
            raise SchemaError(f"{subject}, bins", expected="a list of at least two edges", given=bins)
        if of is not None and not isinstance(of, str):
            raise SchemaError(f"{subject}, of", expected="the name of a level or of the attribute", given=of)
        fixed = {
            "name": name,
            "groups": None if groups is None else tuple((key, tuple(members)) for key, members in groups.items()),
            "width": width,
            "bins": None if bins is None else tuple(exact(e, f"{subject}, bins", SchemaError) for e in bins),
            "by": by,
            "of": of,
        }
        for key, value in fixed.items():
            object.__setattr__(self, key, value)

    def applied_to(
        self,
        finer: Partition,
        *,
        attribute: str,
        first: int,
        count: int,
        edges: Sequence[Fraction] | None,
        dates: Dates | None,
        ordered: bool,
    ) -> Partition:
        """Merge the groups of a finer level.

        `first` and `count` locate the declared cells of the attribute; `edges` are the edges of these cells, or `dates`
        their periods, if any.
        """
        subject = f"attribute {attribute!r}, level {self.name!r}"
        declared = range(first, first + count)
        if self.groups is not None:
            merged = self._by_name(subject, finer, {finer.group_of[cell] for cell in declared})
        else:
            if not ordered:
                raise SchemaError(subject, expected="groups (width and bins need an ordered attribute)")
            names = None
            if self.by is not None:
                if dates is None:
                    raise SchemaError(subject, expected="groups, width or bins (by is for dates)")
                starts, names = dates.starts_of(subject, self.by)
            else:
                starts = self._by_width(count) if self.width else self._by_edges(subject, edges)
            merged = _by_starts(subject, finer, declared, starts, edges, names)
        if merged.cells >= finer.cells:
            raise SchemaError(subject, expected=f"fewer than the {finer.cells} groups below it", given=merged.cells)
        if len(set(merged.labels)) < merged.cells:
            raise SchemaError(subject, expected="group names that differ from each other and from the extra categories")
        return merged

    def _by_name(self, subject: str, finer: Partition, declared: set[int]) -> Partition:
        assert self.groups is not None
        wanted = {finer.labels[group]: group for group in sorted(declared)}
        group_of: dict[int, int] = {}
        for number, (_, members) in enumerate(self.groups):
            if not members:
                raise SchemaError(subject, expected="at least one member in each group", given=self.groups[number][0])
            for member in members:
                known = isinstance(member, Label) and member in wanted
                if not known or type(member) is not type(finer.labels[wanted[member]]):
                    raise SchemaError(
                        subject,
                        expected="members from the level below it",
                        given=member,
                        available=map(str, wanted),
                    )
                if wanted[member] in group_of:
                    raise SchemaError(subject, expected="every member in one group", given=Plain(f"{member} in two"))
                group_of[wanted[member]] = number
        left_out = [str(label) for label, group in wanted.items() if group not in group_of]
        if left_out:
            raise SchemaError(subject, expected="a group for every member", given=Plain(f"none for {listed(left_out)}"))
        labels: list[Label] = [name for name, _ in self.groups]
        return _with_the_rest(finer, group_of, labels)

    def _by_width(self, count: int) -> list[int]:
        assert self.width is not None
        return list(range(0, count, self.width))

    def _by_edges(self, subject: str, edges: Sequence[Fraction] | None) -> list[int]:
        assert self.bins is not None
        if not edges:
            raise SchemaError(subject, expected="groups or width (the attribute has no numeric scale)")
        position = {edge: index for index, edge in enumerate(edges)}
        for edge in self.bins:
            if edge not in position:
                raise SchemaError(
                    subject,
                    expected="edges of the attribute",
                    given=decimal_text(edge),
                    available=map(decimal_text, edges),
                )
        if list(self.bins) != sorted(set(self.bins)) or (self.bins[0], self.bins[-1]) != (
            edges[0],
            edges[-1],
        ):
            raise SchemaError(
                subject,
                expected=f"increasing edges from {decimal_text(edges[0])} to {decimal_text(edges[-1])}",
                given=", ".join(map(decimal_text, self.bins)),
            )
        return [position[edge] for edge in self.bins[:-1]]


def _by_starts(
    subject: str,
    finer: Partition,
    declared: range,
    starts: list[int],
    edges: Sequence[Fraction] | None,
    names: list[str] | None,
) -> Partition:
    """Merge consecutive declared cells; a new group begins at each start."""
    stops = [*starts[1:], len(declared)]
    group_of: dict[int, int] = {}
    labels: list[Label] = []
    for number, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        members = [finer.group_of[declared[index]] for index in range(start, stop)]
        for member in members:
            if group_of.setdefault(member, number) != number:
                raise SchemaError(
                    subject,
                    expected="whole groups of the level below it (of = ... names another one to merge)",
                    given=Plain(f"{finer.labels[member]} split"),
                )
        if names is not None:
            labels.append(names[number])
        elif edges:
            labels.append(f"[{decimal_text(edges[start])}, {decimal_text(edges[stop])})")
        else:
            ends = dict.fromkeys(str(finer.labels[member]) for member in (members[0], members[-1]))
            labels.append(" to ".join(ends))
    return _with_the_rest(finer, group_of, labels)


def _with_the_rest(finer: Partition, group_of: dict[int, int], labels: list[Label]) -> Partition:
    """Keep unmerged groups separate, and map every cell to its new group."""
    merged = dict(group_of)
    names = list(labels)
    for group, label in enumerate(finer.labels):
        if group not in merged:
            merged[group] = len(names)
            names.append(label)
    return Partition(tuple(names), tuple(merged[group] for group in finer.group_of))


def chain_of(partitions: Sequence[Partition], cells: int) -> Chain:
    """The padded chain of an attribute whose cells have these partitions, from fine to coarse."""
    if not partitions:
        return Chain((cells,), range(cells))
    coarse_to_fine = [partition.group_of for partition in reversed(partitions)] + [tuple(range(cells))]
    ranks: list[dict[int, int]] = []  # per level: group -> its rank among the children of its parent
    parents: Sequence[int] = (0,) * cells
    for groups in coarse_to_fine:
        rank: dict[int, int] = {}
        children: dict[int, int] = {}
        for cell, group in enumerate(groups):
            if group not in rank:
                rank[group] = children.get(parents[cell], 0)
                children[parents[cell]] = rank[group] + 1
        ranks.append(rank)
        parents = groups
    fan_outs = tuple(max(rank.values()) + 1 for rank in ranks)
    positions = [0] * cells
    for fan_out, rank, groups in zip(fan_outs, ranks, coarse_to_fine, strict=True):
        positions = [position * fan_out + rank[group] for position, group in zip(positions, groups, strict=True)]
    return Chain(fan_outs, tuple(positions))


def check_name(subject: str, name: object) -> None:
    """Refuse a name or text value that is empty, too long, or has what files for other programs cannot hold.

    That is control characters, surrogates, which UTF-8 does not have, and noncharacters, which XML and with it Excel
    does not have.
    """
    is_text = isinstance(name, str) and name.strip() and len(name) <= _LONGEST_NAME
    if not is_text or not all(map(is_plain, str(name))):
        expected = f"non-empty text of at most {_LONGEST_NAME:,} characters, without control and other non-characters"
        raise SchemaError(subject, expected=expected, given=name)


def is_plain(char: str) -> bool:
    """Whether files for other programs can hold a character: no control, no surrogate, no code point without one.

    Unicode reserves U+FDD0 to U+FDEF and the last two code points of every plane to be no characters.
    """
    reserved = "\ufdd0" <= char <= "\ufdef" or ord(char) & 0xFFFE == 0xFFFE
    return not reserved and unicodedata.category(char) not in _NOT_TEXT
