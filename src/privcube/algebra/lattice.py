"""The lattice of tables: which residuals a table or query group covers, and how strongly. Zone: PUBLIC.

Every axis is a chain of nested partitions with s_0 = 1 < s_1 < ... < s_L cells. A residual is one level per axis,
b = (b_1, ..., b_d): the information in the table of these levels that no coarser table has. The space of all counts is
the orthogonal sum of the residual spaces, and everything structured in the paper is diagonal in it (docs/notation.md).

A `Family` is a set of members (tables or query groups), each a product of parts, one part per axis that is not
summed out. A part has a factor for every level of its axis; the factor of (member, residual) is the product over
axes (1 for an axis summed out in both, 0 if the residual has an axis that the member lacks). `Incidence` lists
the nonzero factors; from there on, planning is vector arithmetic, however many cells there are.

See THEORY section 2.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Level choices of one member that are enumerated; beyond this, testing every residual is empirically faster.
_MOST_COMBINATIONS: Final = 4096


class Part(NamedTuple):
    """A member's view of one axis: `factors[l]` is how strongly it covers level l."""

    axis: int
    factors: tuple[float, ...]


@dataclass(frozen=True)
class Incidence:
    """Entries (row, column, factor) of a sparse non-negative matrix."""

    row: Integers
    column: Integers
    factor: Floats
    shape: tuple[int, int]

    def times(self, vector: Floats) -> Floats:
        """Matrix times vector."""
        return np.bincount(self.row, self.factor * vector[self.column], minlength=self.shape[0]).astype(np.float64)

    def transposed_times(self, vector: Floats) -> Floats:
        """Transposed matrix times vector."""
        return np.bincount(self.column, self.factor * vector[self.row], minlength=self.shape[1]).astype(np.float64)


@dataclass(frozen=True)
class Family:
    """Members as tuples of indices into a list of distinct parts, each tuple in the order of its axes."""

    parts: Sequence[Part]
    members: Sequence[tuple[int, ...]]
    kinds: Sequence[Hashable] | None = None  # per part: only members with parts of the same kinds share a batch


@dataclass(frozen=True)
class Batch:
    """Members of one kind and one choice of levels, with each member's residual (-1 if not in the index)."""

    members: Integers
    levels: tuple[int, ...]  # one per part
    residuals: Integers
    factors: Floats


def silenced(says: Incidence, told_by: Integers | None) -> Incidence:
    """Incidence without what members say about residuals that another member, `told_by` of them, tells in their place.

    `told_by` is -1 for members that speak for themselves.

    >>> says = Incidence(np.array([0, 1, 1]), np.array([0, 0, 1]), np.ones(3), (2, 2))
    >>> silenced(says, np.array([-1, 0])).column.tolist()
    [0, 1]
    """
    if told_by is None or not np.any(told_by >= 0):
        return says
    width = says.shape[1]
    teller = told_by[says.row]
    told = np.isin(teller * width + says.column, says.row * width + says.column) & (teller >= 0)
    return Incidence(says.row[~told], says.column[~told], says.factor[~told], says.shape)


class ResidualIndex:
    """The residuals below a family of tables, numbered.

    >>> cells = Part(0, (0.5, 0.5)), Part(1, (0.25, 0.25))
    >>> index = ResidualIndex([1, 1], Family(cells, [(0,), (0, 1)]))
    >>> len(index), index.residuals()
    (4, [(), ((0, 1),), ((1, 1),), ((0, 1), (1, 1))])
    """

    def __init__(self, levels: Sequence[int], tables: Family) -> None:
        """`levels[axis]` is the number of levels that an axis has above its total."""
        self._levels = tuple(levels)
        self._coder = _coder_for(self._levels, max((len(member) for member in tables.members), default=0))
        self._keys = np.unique(np.concatenate([keys.ravel() for _, _, keys, _ in self._spread(tables)]))

    def __len__(self) -> int:
        return len(self._keys)

    def level_vectors(self) -> Integers:
        """The residuals as rows of levels, one column per axis."""
        vectors = np.zeros((len(self), len(self._levels)), dtype=np.int64)
        residual, axis, level = self._coder.decoded(self._keys)
        vectors[residual, axis] = level
        return vectors

    def residuals(self) -> list[tuple[tuple[int, int], ...]]:
        """The residuals as (axis, level) pairs; axes that are summed out are omitted."""
        residual, axis, level = self._coder.decoded(self._keys)
        order = np.lexsort((axis, residual))
        pairs = list(zip(axis[order].tolist(), level[order].tolist(), strict=True))
        ends = np.cumsum(np.bincount(residual, minlength=len(self))).tolist()
        return [tuple(pairs[start:end]) for start, end in itertools.pairwise([0, *ends])]

    def batches(self, family: Family) -> Iterator[Batch]:
        """The members of a family, one batch per kind of member and choice of levels."""
        for members, patterns, keys, factors in self._spread(family):
            for levels, residuals, own in zip(itertools.product(*patterns), self._found(keys), factors, strict=True):
                yield Batch(members, levels, residuals, own)

    def _found(self, keys: Any) -> Integers:
        """The numbers of residuals by their keys; -1 if not in the index."""
        place = np.searchsorted(self._keys, keys)
        place[place == len(self._keys)] = 0
        return np.where(self._keys[place] == keys, place, -1)

    def incidence(self, family: Family) -> Incidence:
        """The factors of a family's members on the residuals of this index; other residuals are ignored."""
        rows, columns, factors = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
        wide = _wide(family)
        if wide:
            vectors = self.level_vectors()
            for i in wide:
                factor = _factors_on(vectors, [family.parts[part] for part in family.members[i]])
                hit = np.flatnonzero(factor)
                rows.append(np.full(len(hit), i))
                columns.append(hit)
                factors.append(factor[hit])
        narrow = np.setdiff1d(np.arange(len(family.members)), wide)
        for members, _, keys, of_keys in self._spread(
            replace(family, members=[family.members[i] for i in narrow.tolist()])
        ):
            residuals = self._found(keys)
            known = residuals >= 0
            rows.append(np.broadcast_to(narrow[members], known.shape)[known])
            columns.append(residuals[known])
            factors.append(of_keys[known])
        shape = (len(family.members), len(self))
        return Incidence(np.concatenate(rows), np.concatenate(columns), np.concatenate(factors), shape)

    def _spread(self, family: Family) -> Iterator[tuple[Integers, list[tuple[int, ...]], Any, Floats]]:
        """Yield (members, levels per part, residual keys, factors) for each kind of member.

        Keys and factors have a row for each choice of levels, in the order of their product, and a column per member.
        """
        patterns = [tuple(level for level, factor in enumerate(part.factors) if factor) for part in family.parts]
        kinds = list(zip(patterns, family.kinds or itertools.repeat(None), strict=False))
        alike: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
        for i, member in enumerate(family.members):
            alike[tuple([kinds[part] for part in member])].append(i)
        deepest = max((len(part.factors) for part in family.parts), default=1)
        factor_of = np.zeros((len(family.parts), deepest))
        for number, part in enumerate(family.parts):
            factor_of[number, : len(part.factors)] = part.factors
        axis_of = np.array([part.axis for part in family.parts], dtype=np.int64)
        for which in alike.values():
            members = np.array(which, dtype=np.int64)
            first = family.members[which[0]]
            if not all(patterns[at] for at in first):
                continue
            parts = np.array([family.members[i] for i in which], dtype=np.int64).reshape(len(which), len(first))
            axes = axis_of[parts]
            factors, keys = np.ones((1, len(which))), self._coder.start(len(which))[None]
            for column, levels in enumerate([patterns[at] for at in first]):
                longer = [self._coder.extended(keys, axes[:, column], level) if level else keys for level in levels]
                own = factor_of[parts[:, column]][:, list(levels)].T
                keys = np.stack(longer, axis=1).reshape(-1, len(which))
                factors = (factors[:, None, :] * own).reshape(-1, len(which))
            yield members, [patterns[at] for at in first], keys, factors


def _wide(family: Family) -> list[int]:
    """The members with more than `_MOST_COMBINATIONS` level choices."""
    choices = [sum(1 for factor in part.factors if factor) for part in family.parts]
    longest = max(map(len, family.members), default=0)
    if max(choices, default=1) ** longest <= _MOST_COMBINATIONS:
        return []
    counts = enumerate(math.prod([choices[part] for part in member]) for member in family.members)
    return [i for i, count in counts if count > _MOST_COMBINATIONS]


def _factors_on(vectors: Integers, parts: Sequence[Part]) -> Floats:
    factor = np.ones(len(vectors))
    seen = np.zeros(vectors.shape[1], dtype=bool)
    for part in parts:
        of_level = np.zeros(int(vectors[:, part.axis].max(initial=0)) + 1 + len(part.factors))
        of_level[: len(part.factors)] = part.factors
        factor *= of_level[vectors[:, part.axis]]
        seen[part.axis] = True
    factor[vectors[:, ~seen].any(axis=1)] = 0.0
    return factor


class _PlaceCoder:
    """Key = sum of level * stride[axis]: one digit per axis, in Python integers where 64 bits are too few."""

    def __init__(self, levels: tuple[int, ...]) -> None:
        strides = [1]
        for count in levels:
            strides.append(strides[-1] * (count + 1))
        self._words: list[list[int]] = [[]]  # the digits of each axis, in parts that fit into 64 bits
        for count in levels:
            if math.prod(self._words[-1]) * (count + 1) >= 2**62:
                self._words.append([])
            self._words[-1].append(count + 1)
        self._dtype: Any = np.int64 if strides[-1] < 2**62 else object
        self._strides = np.array(strides[:-1], dtype=self._dtype)

    def start(self, count: int) -> Any:
        """The given number of keys without any levels."""
        return np.zeros(count, dtype=self._dtype)

    def extended(self, keys: Any, axes: Integers, level: int) -> Any:
        """Add a level on one more axis to each key; axes must be added in order."""
        return keys + self._strides[axes] * level

    def decoded(self, keys: Any) -> tuple[Integers, Integers, Integers]:
        """(key number, axis, level) of every level above the total."""
        columns: list[Integers] = []
        rest = keys
        for counts in self._words:
            digits, rest = (rest % math.prod(counts)).astype(np.int64), rest // math.prod(counts)
            for count in counts:
                columns.append(digits % count)
                digits //= count
        table = np.array(columns).reshape(len(columns), len(keys))
        axis, residual = np.nonzero(table)
        return residual, axis, table[axis, residual]


class _ListCoder:
    """Key = the (axis, level) pairs in order, one digit per pair: for small tables over very many axes."""

    def __init__(self, levels: tuple[int, ...]) -> None:
        self._first = np.concatenate([[0], np.cumsum(levels)]).astype(np.int64)
        self.base = int(self._first[-1]) + 1

    def start(self, count: int) -> Integers:
        """The given number of keys without any levels."""
        return np.zeros(count, dtype=np.int64)

    def extended(self, keys: Integers, axes: Integers, level: int) -> Integers:
        """Add a level on one more axis to each key; axes must be added in order."""
        return keys * self.base + self._first[axes] + level

    def decoded(self, keys: Integers) -> tuple[Integers, Integers, Integers]:
        """(key number, axis, level) of every level above the total."""
        residuals, axes, levels = [], [], []
        rest = keys.copy()
        while rest.any():
            rest, digit = np.divmod(rest, self.base)
            hit = np.flatnonzero(digit)
            axis = np.searchsorted(self._first, digit[hit], side="left") - 1
            residuals.append(hit)
            axes.append(axis)
            levels.append(digit[hit] - self._first[axis])
        nothing = np.zeros(0, np.int64)
        return tuple(np.concatenate([nothing, *found]) for found in (residuals, axes, levels))  # type: ignore[return-value]


def _coder_for(levels: tuple[int, ...], most_parts: int) -> _PlaceCoder | _ListCoder:
    if math.prod(count + 1 for count in levels) < 2**62:
        return _PlaceCoder(levels)
    listed = _ListCoder(levels)
    return listed if listed.base**most_parts < 2**62 else _PlaceCoder(levels)
