"""Few blocks of attributes that contain all wanted tables. Zone: SENSITIVE.

Counting one block of a few attributes costs about as much as counting one of the tables inside it, so all tables are
covered by as few blocks as possible, each small enough that its counters stay in the processor's cache;
the tables are then sums of a block's counts. Finding the fewest blocks is a hard covering problem; a greedy choice,
tried from several starting orders, is within a few per cent of what long searches find.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import combinations, product
from typing import Final

import numpy as np
from numpy.typing import NDArray

Positions = tuple[int, ...]

_LIMITS: Final = (1 << 16, 1 << 17, 1 << 18)  # cells of a block: keys of 16 bits, and beyond
_STARTS: Final = 8  # orders tried where tables are few
_MANY_TABLES: Final = 2_000
_MOST_INSIDE: Final = 100_000  # subsets of a block looked through for tables


@dataclass(frozen=True)
class Block:
    """Attributes counted together, and the tables that are summed from them."""

    attributes: Positions
    tables: tuple[Positions, ...]


def increment_cost(cells: int) -> float:
    """Measured nanoseconds to count one record into a block of a given size (benchmarks/counting.py)."""
    for limit, cost in zip(_LIMITS, (3.5, 4.8, 5.3), strict=True):
        if cells <= limit:
            return cost
    return 10.0


def cover(sizes: Sequence[int], tables: Sequence[Positions]) -> list[Block]:
    """Blocks that contain all tables, cheapest to count among those tried; a table above all limits is a block.

    >>> [block.attributes for block in cover([2, 3, 300], [(0, 1), (0, 2), (1, 2)])]
    [(0, 1, 2)]
    """
    wanted = sorted(dict.fromkeys(tables), key=lambda table: -_cells(sizes, table))
    starts = _STARTS if len(wanted) <= _MANY_TABLES else 1
    orders = [wanted, *(_scattered(wanted, start) for start in range(1, starts))]
    found, least = list[Block](), math.inf
    for limit, order in product(_LIMITS, orders):
        blocks = _greedy(sizes, order, limit)
        cost = sum(increment_cost(_cells(sizes, block.attributes)) for block in blocks)
        if cost < least:
            found, least = blocks, cost
        if least <= increment_cost(1):  # one small block: nothing costs less
            break
    return found


def cover_by_measures(sizes: Sequence[int], tables: Sequence[Positions], measures: Collection[int]) -> list[Block]:
    """A cover in which all tables of a block have the same measures or none: parts of records add up to records.

    >>> for block in cover_by_measures([2, 3, 2, 9], [(0,), (0, 2), (1, 2), (3,)], {2}):
    ...     print(block)
    Block(attributes=(0, 1, 2), tables=((0, 2), (1, 2), (0,)))
    Block(attributes=(3,), tables=((3,),))
    """
    having: dict[Positions, list[Positions]] = {}
    for table in tables:
        own = tuple(place for place in table if place in measures)
        having.setdefault(own, []).append(tuple(place for place in table if place not in measures))
    plain = dict.fromkeys(having.pop((), []))
    lengths = sorted({len(table) for table in plain})
    blocks = []
    for own, rest in having.items():
        for block in cover(sizes, rest):
            inside = [table for size in lengths for table in combinations(block.attributes, size) if table in plain]
            for table in inside:
                del plain[table]
            blocks.append(
                Block(_with(block.attributes, own), (*(_with(table, own) for table in block.tables), *inside))
            )
    return blocks + (cover(sizes, list(plain)) if plain else [])


def _with(table: Positions, measures: Positions) -> Positions:
    return tuple(sorted((*table, *measures)))


def _cells(sizes: Sequence[int], attributes: Positions) -> int:
    return math.prod([sizes[place] for place in attributes])


def _scattered(tables: Sequence[Positions], start: int) -> list[Positions]:
    """The tables in an order without rhyme, the same every time."""
    return sorted(tables, key=lambda table: blake2b(repr((start, table)).encode(), digest_size=8).digest())


def _greedy(sizes: Sequence[int], tables: Sequence[Positions], limit: int) -> list[Block]:
    """From each table not yet covered, grow a block by the attribute that completes most of the uncovered ones.

    `waiting[rest]` marks the attributes that make an uncovered table out of `rest`, so the gain of every attribute is a
    sum of a few such rows.
    """
    waiting: dict[Positions, NDArray[np.int32]] = {}
    for table in tables:
        for at, place in enumerate(table):
            rest = table[:at] + table[at + 1 :]
            if rest not in waiting:
                waiting[rest] = np.zeros(len(sizes), dtype=np.int32)
            waiting[rest][place] = 1
    uncovered = set(tables)
    lengths = sorted({len(table) for table in tables})
    factors = np.array(sizes, dtype=np.float64)
    blocks = []
    for seed in tables:
        if seed not in uncovered:
            continue
        block, cells = list(seed), _cells(sizes, seed)
        gain = np.zeros(len(sizes), dtype=np.int64)
        for length in lengths:
            for rest in combinations(seed, length - 1) if length else ():
                gain += waiting.get(rest, 0)
        while cells <= limit:
            value = np.where(factors * cells <= limit, gain, 0)
            value[block] = 0
            best = int(value.argmax())
            if value[best] == 0 or math.comb(len(block) + 1, lengths[-1]) > _MOST_INSIDE:
                break
            block.sort()
            for length in lengths:
                for others in combinations(block, length - 2) if length >= 2 else ():
                    gain += waiting.get(tuple(sorted((*others, best))), 0)
            block.append(best)
            cells *= sizes[best]
        attributes = tuple(sorted(block))
        inside = [table for length in lengths for table in combinations(attributes, length) if table in uncovered]
        uncovered.difference_update(inside)
        for table in inside:
            for at, place in enumerate(table):
                waiting[table[:at] + table[at + 1 :]][place] = 0
        blocks.append(Block(attributes, tuple(inside)))
    return blocks
