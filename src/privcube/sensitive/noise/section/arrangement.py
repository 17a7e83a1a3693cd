"""Between which of the sorted points every row of a draw lies. Zone: SENSITIVE.

Notation of `privcube.sensitive.noise.section`: m points in rising order have the places 1..m, and 0 has place 0. One of
them is t; a bound group of n rows has n-1 of them, j of them below t; a free group of n rows has n. All orders of the
points that agree with this are equally likely. Then a row of a bound group lies between two neighbors of a chain:

    the positive chain begins at 0 and has the points below t and the chosen ones of those above,
    the negative chain begins at t and has those above that were not chosen;
    both end at the last point of the group; if none lies above t, the positive chain is the only one and ends at t.

Of the n rows and the points above t but for the last, n-2-j of them, a uniform subset of n-1-j is chosen: its points
are the chosen ones, its rows are negative. That is one more than there are points and fewer than there are rows, so at
least one row is negative and at least one positive. The rows of a free group lie between neighbors of a chain that
begins at 0 and has all its points; each has a sign of its own.

Uniform orders and subsets come from sorting random words, which are drawn again if two are equal: so they are exact.

See THEORY section 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.sensitive.noise.bits import Source

Integers = NDArray[np.int64]

_KEY_BITS: Final = 46  # of the random part of a key; a number of a group and a class stand above it


@dataclass(frozen=True)
class Arrangement:
    """For every row of some draws, the places of the points it lies between, and its sign."""

    total: Integers  # by draw: the place of t
    start: Integers  # by draw and row: first the rows of bound groups, then those of free ones
    end: Integers
    minus: NDArray[np.bool_]


@dataclass(frozen=True)
class Layout:
    """Which group every row and every point belongs to."""

    bound: tuple[int, ...]
    free: tuple[int, ...]

    @property
    def points(self) -> int:
        """How many points there are: the dimension of the section."""
        return 1 + sum(self.bound) - len(self.bound) + sum(self.free)

    def arranged(self, below: Integers, source: Source) -> Arrangement:
        """A uniform arrangement for each draw, given how many points of each bound group lie below t."""
        draws = len(below)
        bound_places, free_places = self._interleaved(draws, source)
        total = np.take_along_axis(bound_places, below.sum(axis=1)[:, None], axis=1)
        parts = []
        if self.bound:
            parts.append(self._bound_rows(below, total, bound_places, source))
        if self.free:
            parts.append(free_rows(self.free, free_places, source))
        start, end, minus = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
        return Arrangement(total[:, 0], start, end, minus)

    def _interleaved(self, draws: int, source: Source) -> tuple[Integers, Integers]:
        """The places of the points of all bound groups and t, in order, and those of each point of the free groups."""
        points, free = self.points, sum(self.free)
        if not free:
            return np.broadcast_to(np.arange(1, points + 1), (draws, points)), np.zeros((draws, 0), dtype=np.int64)
        places = uniform_places(draws, points, source)
        return np.sort(places[:, : points - free], axis=1), places[:, points - free :]

    def _bound_rows(
        self, below: Integers, total: Integers, bound_places: Integers, source: Source
    ) -> tuple[Integers, Integers, NDArray[np.bool_]]:
        sizes = np.array(self.bound)
        groups, draws, width = np.arange(len(sizes)), len(below), self.points + 1
        of_row, of_point = np.repeat(groups, sizes), np.repeat(groups, sizes - 1)
        number = _numbers(sizes - 1)  # of a point in its group, from 0
        above = number >= below[:, of_point]
        # which place: the points below t in a uniform order, then those above it
        order = np.argsort(random_keys(above.astype(np.int64), source), axis=1)
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, np.broadcast_to(np.arange(len(of_point)), order.shape), axis=1)
        place = np.take_along_axis(bound_places, rank + above, axis=1)
        place = np.sort(of_point * width + place, axis=1) - of_point * width  # rising within every group
        # what is chosen: the first n-1-j of the rows and points of a group in a uniform order
        last = number == sizes[of_point] - 2
        item = above & ~last
        classes = np.concatenate([np.broadcast_to(2 * of_row, (draws, len(of_row))), 2 * of_point + ~item], axis=1)
        order = np.argsort(random_keys(classes, source), axis=1, kind="stable")
        wanted = np.repeat(sizes - 1, 2 * sizes - 1) - np.repeat(below, 2 * sizes - 1, axis=1)
        chosen = np.empty(order.shape, dtype=np.bool_)
        np.put_along_axis(chosen, order, _numbers(2 * sizes - 1) < wanted, axis=1)
        minus, chosen_point = chosen[:, : len(of_row)], chosen[:, len(of_row) :]
        # chains: every point once, and the end of the other chain
        ends = np.cumsum(sizes - 1) - 1
        some_above = below < sizes - 1
        end = np.concatenate([place, np.where(some_above, place[:, ends], total)], axis=1)
        negative = np.concatenate([item & ~chosen_point, some_above], axis=1)
        key = (2 * np.concatenate([of_point, groups]) + negative) * width + end
        key.sort(axis=1)
        chain, end = np.divmod(key, width)
        start = np.zeros_like(end)
        start[:, 1:] = end[:, :-1]
        first = np.ones(chain.shape, dtype=np.bool_)
        first[:, 1:] = chain[:, 1:] != chain[:, :-1]
        start = np.where(first, np.where(chain % 2 == 1, total, 0), start)
        # to the rows: the positive ones of a group take its positive chain in order, the negative ones the other
        rows = np.argsort(2 * of_row + minus, axis=1, kind="stable")
        found = np.empty((2, *rows.shape), dtype=np.int64)
        np.put_along_axis(found[0], rows, start, axis=1)
        np.put_along_axis(found[1], rows, end, axis=1)
        return found[0], found[1], minus


def uniform_places(draws: int, points: int, source: Source) -> Integers:
    """A uniform order of the points for each draw: their places, from 1."""
    order = np.argsort(random_keys(np.zeros((draws, points), dtype=np.int64), source), axis=1)
    places = np.empty_like(order)
    np.put_along_axis(places, order, np.broadcast_to(np.arange(1, points + 1), order.shape), axis=1)
    return places


def free_rows(groups: Sequence[int], places: Integers, source: Source) -> tuple[Integers, Integers, NDArray[np.bool_]]:
    """The chains of free groups: where every row starts and ends, and its sign, given the places of all points."""
    sizes = np.array(groups)
    of_point, width = np.repeat(np.arange(len(sizes)), sizes), int(places.max(initial=0)) + 1
    end = np.sort(of_point * width + places, axis=1) - of_point * width
    start = np.zeros_like(end)
    start[:, 1:] = np.where(_numbers(sizes)[1:] > 0, end[:, :-1], 0)
    bits = np.unpackbits(source(-(-end.size // 64)).view(np.uint8))[: end.size]
    return start, end, bits.reshape(end.shape) == 1


def random_keys(classes: Integers, source: Source) -> Integers:
    """Keys that sort by class, and in a uniform order within a class; no two of a draw are equal."""
    while True:
        words = source(classes.size).reshape(classes.shape)
        keys = classes << _KEY_BITS | (words >> np.uint64(64 - _KEY_BITS)).astype(np.int64)
        rising = np.sort(keys, axis=1)
        again = (rising[:, 1:] == rising[:, :-1]).any(axis=1)
        if not again.any():
            return keys
        keys[again] = random_keys(classes[again], source)
        return keys


def _numbers(sizes: Sequence[int] | Integers) -> Integers:
    """0, 1, ..., n-1 for each size n, one after another."""
    sizes = np.asarray(sizes)
    return np.asarray(np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes), dtype=np.int64)
