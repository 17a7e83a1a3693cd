"""Counting coded records into many tables at once. Zone: SENSITIVE.

Records come as one array of codes per attribute. They are gathered up to a bound on memory; then every block of the
cover (`privcube.sensitive.cover`) is counted by one key per record, chunk by chunk so that keys and counters stay in
the cache, and its tables are summed from it. Blocks are independent and numpy counts without the interpreter's lock, so
threads share the work. Where the whole domain is small it is counted once and the tables are summed from that.
Records are divided by measures (`privcube.sensitive.measures.dividing`); a block has the measures of its tables,
some of which may be tables without measures.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.errors import Plain, PlanError, counted
from privcube.progress import COUNTING, Progress, silent
from privcube.sensitive.counts import LARGEST_TOTAL
from privcube.sensitive.cover import Block, Positions, cover_by_measures, increment_cost
from privcube.sensitive.measures.dividing import (
    CountAndSum,
    Divided,
    Sums,
    assembled,
    by_cells,
    checked_parts,
    records_of,
    subsets,
)

Codes = NDArray[np.unsignedinteger]
Counts = NDArray[np.int64]

CODES_IN_MEMORY: Final = 384 << 20  # bytes of codes gathered before they are counted
MOST_CELLS: Final = 1 << 31  # of all tables together: 16 GiB
_LARGEST_BASE: Final = 1 << 20
_CHUNK: Final = 1 << 18  # records; keys and counters stay in the cache, and floats add up their parts exactly
_FRESH_CELLS: Final = 1 << 20  # bincount makes an array of all cells for every chunk


class TableCounter:
    """Counts tables, given by the positions of their attributes, from codes that arrive in batches.

    >>> counter = TableCounter([2, 3], [(0,), (0, 1)])
    >>> counter.add([np.array([0, 1, 1], dtype=np.uint8), np.array([2, 0, 0], dtype=np.uint8)])
    >>> counter.finish()[(0, 1)]
    array([[0, 0, 1],
           [2, 0, 0]])
    """

    def __init__(
        self,
        sizes: Sequence[int],
        tables: Sequence[Positions],
        progress: Progress = silent,
        codes_in_memory: int = CODES_IN_MEMORY,
        workers: int | None = None,
        blocks: Sequence[Block] | None = None,
        divided: Mapping[int, Divided] | None = None,
    ) -> None:
        self._sizes = tuple(sizes)
        self._divided = divided or {}
        self.cells = np.zeros(checked_cells(sizes, tables), dtype=np.int64)  # of all tables, one after another
        self._blocks = cover_by_measures(self._sizes, tables, self._divided) if blocks is None else blocks
        parts = [checked_parts(self._measures(block.attributes), self._divided) for block in self._blocks]
        self._parts = max(parts, default=1)
        self._base = self._base_if_cheaper()
        self._tables = tables_within(self.cells, sizes, tables)
        self._progress = progress
        self._workers = workers or os.cpu_count() or 1
        self._gathered: list[Sequence[Codes]] = []  # chunks
        self._rows = self._all_rows = 0
        self._most_rows = max(codes_in_memory // max(sum(map(code_bytes, sizes)), 1), _CHUNK)

    def add(self, codes: Sequence[Codes]) -> None:
        """Take in a batch: one array of codes per attribute, which the caller has checked to be below its size."""
        rows = len(codes[0])
        for start in range(0, rows, _CHUNK):
            self._gathered.append([column[start : start + _CHUNK] for column in codes])
        self._rows += rows
        self._all_rows += rows
        if self._all_rows * self._parts > LARGEST_TOTAL:
            raise PlanError("tables to count", expected="at most 2^62 parts of records in all; choose coarser steps")
        if self._rows >= self._most_rows:
            self._count_gathered()

    def finish(self) -> dict[Positions, Counts]:
        """Count what is left; the counts of all tables."""
        self._count_gathered()
        self._progress(COUNTING, len(self._tables), len(self._tables))
        return self._tables

    def _cells(self, attributes: Positions) -> int:
        return math.prod(self._shape(attributes))

    def _shape(self, attributes: Positions) -> tuple[int, ...]:
        return tuple(self._sizes[place] for place in attributes)

    def _measures(self, attributes: Positions) -> Positions:
        return tuple(place for place in attributes if place in self._divided)

    def _base_if_cheaper(self) -> Positions | None:
        if self._divided:
            return None
        everything = tuple(sorted({place for block in self._blocks for place in block.attributes}))
        cost = sum(increment_cost(self._cells(block.attributes)) for block in self._blocks)
        cells = self._cells(everything)
        return everything if cells <= _LARGEST_BASE and increment_cost(cells) < cost else None

    def _count_gathered(self) -> None:
        if self._rows == 0:
            return
        chunks, self._gathered, self._rows = self._gathered, [], 0
        workers = self._workers
        with ThreadPoolExecutor(workers) as pool:

            def together(attributes: Positions) -> Counts:
                """One block, its chunks shared out among the threads."""
                shares = [chunks[worker::workers] for worker in range(workers)]
                pieces = pool.map(lambda share: self._counts(share, attributes), shares)
                return np.asarray(sum(pieces))

            if self._base is not None:
                everything = self._base
                base = together(everything)
                self._sum_all(pool.map, lambda block: summed(base, everything, block.attributes))
            elif len(self._blocks) < 2 * workers:
                self._sum_all(map, lambda block: together(block.attributes))
            else:
                self._sum_all(pool.map, lambda block: self._counts(chunks, block.attributes))

    def _sum_all(self, spread: Callable[..., Iterable[int]], count: Callable[[Block], Counts]) -> None:
        """Count every block and add it to its tables, each of which belongs to one block only."""

        def add_tables(block: Block) -> int:
            whole = count(block)
            for table, counts in margins(whole, block.attributes, block.tables):
                self._tables[table] += records_of(counts, block.attributes, table, self._divided)
            return len(block.tables)

        done = 0
        for finished in spread(add_tables, self._blocks):
            done += finished
            self._progress(COUNTING, done, len(self._tables))

    def _counts(self, chunks: Sequence[Sequence[Codes]], attributes: Positions) -> Counts:
        """The counts of a block: mixed-radix keys, counted chunk by chunk; with measures, their parts are added up.

        Keys have only the lower cells of a measure, so that most measures leave them as short as they are without.
        """
        measures = self._measures(attributes)
        lower = {place: self._divided[place].lower_cells for place in measures}
        radices = [len(lower[place]) if place in lower else self._sizes[place] for place in attributes]
        cells = math.prod(radices)
        sums = {which: np.zeros(cells, dtype=np.int64) for which in subsets(measures)}
        short = cells <= 1 << 16 and max(radices, default=1) < 1 << 16  # sizes must fit into the type of keys, too
        narrow = np.empty(_CHUNK, dtype=np.uint16 if short else np.uint32)
        wide = np.empty(_CHUNK, dtype=np.int64)  # what numpy counts; made once, as fresh memory is slow

        def keys_of(chunk: Sequence[Codes]) -> Counts:
            rows = len(chunk[0])
            keys = narrow[:rows] if cells <= 1 << 32 else wide[:rows]
            keys[...] = 0
            for place, radix in zip(attributes, radices, strict=True):
                if radix > 1:
                    codes = np.take(self._divided[place].lower, chunk[place]) if place in lower else chunk[place]
                    np.multiply(keys, radix, out=keys, casting="unsafe")
                    np.add(keys, codes, out=keys, casting="unsafe")
            wide[:rows] = keys
            return wide[:rows]

        if len(measures) == 1 and cells <= _FRESH_CELLS:
            both, weights = CountAndSum.of(self._divided[measures[0]]), np.empty(_CHUNK)
            for run in runs(chunks, both.most):
                weighed = np.zeros(cells)
                for chunk in run:
                    parts = both.weigh(chunk[measures[0]], weights[: len(chunk[0])])
                    weighed += np.bincount(keys_of(chunk), parts, minlength=cells)
                for own, more in zip(sums.values(), both.apart(weighed), strict=True):
                    own += more
        else:
            for chunk in chunks:
                self._add_up(
                    sums, keys_of(chunk), {place: self._divided[place].more[chunk[place]] for place in measures}
                )
        shaped = {which: each.reshape(radices) for which, each in sums.items()}
        return assembled(by_cells(shaped, attributes, self._divided, self._sizes), attributes, self._divided)

    def _add_up(self, sums: Sums, keys: Counts, more: Mapping[int, Counts]) -> None:
        """Add the records of a chunk to the sums of a block."""
        for which, counts in sums.items():
            parts = math.prod([more[place] for place in which]) if which else None
            if len(counts) <= _FRESH_CELLS:
                found = np.bincount(keys, parts, minlength=len(counts))
                counts += found if parts is None else found.astype(np.int64)
            else:
                np.add.at(counts, keys, 1 if parts is None else parts)


def runs(chunks: Sequence[Sequence[Codes]], most: int) -> Iterator[list[Sequence[Codes]]]:
    """Chunks of records in runs of so many records, the last of fewer; a chunk may belong to several.

    >>> [[len(chunk[0]) for chunk in run] for run in runs([[np.zeros(rows)] for rows in (2, 3, 14)], 6)]
    [[2, 3, 1], [6], [6], [1]]
    """
    run: list[Sequence[Codes]] = []
    room = most
    for chunk in chunks:
        start, rows = 0, len(chunk[0])
        while start < rows:
            end = min(start + room, rows)
            run.append([column[start:end] for column in chunk])
            room -= end - start
            start = end
            if room == 0:
                yield run
                run, room = [], most
    if run:
        yield run


def summed(counts: Counts, attributes: Positions, kept: Positions) -> Counts:
    """Counts of fewer of the attributes, kept in order."""
    gone = tuple(at for at, place in enumerate(attributes) if place not in kept)
    return np.asarray(counts.sum(axis=gone)) if gone else counts


def margins(counts: Counts, attributes: Positions, tables: Sequence[Positions]) -> Iterator[tuple[Positions, Counts]]:
    """The tables of some of the attributes; those that lack the same first ones have them added up once for all.

    >>> [(table, found.tolist()) for table, found in margins(np.array([[5, 1], [2, 0]]), (3, 4), [(3,), (4,), (3, 4)])]
    [((4,), [7, 1]), ((3,), [6, 2]), ((3, 4), [[5, 1], [2, 0]])]
    """
    sizes = counts.shape

    def below(cells: Counts, place: int, wanted: Sequence[Positions]) -> Iterator[tuple[Positions, Counts]]:
        """From cells of what is kept of the attributes before a place x cells of those from there on."""
        if place == len(attributes):
            (table,) = wanted
            yield table, cells.reshape([size for size, name in zip(sizes, attributes, strict=True) if name in table])
            return
        lacking = [table for table in wanted if attributes[place] not in table]
        having = [table for table in wanted if attributes[place] in table]
        if lacking:
            yield from below(cells.reshape(len(cells), sizes[place], -1).sum(axis=1), place + 1, lacking)
        if having:
            yield from below(cells.reshape(len(cells) * sizes[place], -1), place + 1, having)

    if tables:
        yield from below(counts.reshape(1, -1), 0, list(dict.fromkeys(tables)))


def checked_cells(sizes: Sequence[int], tables: Sequence[Positions]) -> int:
    """How many cells the tables have together; refused if they would not fit into memory, or are not in order.

    >>> checked_cells([2, 3], [(0,), (0, 1)])
    8
    """
    if any(low >= high for table in tables for low, high in pairwise(table)):
        raise PlanError("tables to count", expected="attributes in the order of the schema, each once")
    cells = sum(math.prod([sizes[place] for place in table]) for table in tables)
    if cells > MOST_CELLS:
        raise PlanError(
            "tables to count", expected=f"at most {MOST_CELLS:,} cells in all", given=Plain(f"{counted(cells)} cells")
        )
    return cells


def tables_within(cells: Counts, sizes: Sequence[int], tables: Sequence[Positions]) -> dict[Positions, Counts]:
    """The tables of one long vector of cells, as views of it.

    >>> tables_within(np.arange(8), [2, 3], [(0,), (0, 1)])[(0, 1)]
    array([[2, 3, 4],
           [5, 6, 7]])
    """
    views, start = {}, 0
    for table in tables:
        shape = [sizes[place] for place in table]
        end = start + math.prod(shape)
        views[table] = cells[start:end].reshape(shape)
        start = end
    return views


def code_bytes(cells: int) -> int:
    """How many bytes hold the codes of an attribute with a given number of cells.

    >>> code_bytes(256), code_bytes(257), code_bytes(100_000)
    (1, 2, 4)
    """
    return 1 if cells <= 1 << 8 else 2 if cells <= 1 << 16 else 4
