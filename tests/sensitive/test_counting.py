"""Counting many tables at once equals counting each by itself, whatever the sizes, widths, chunks and ways."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcube.errors import PlanError
from privcube.sensitive import counting
from privcube.sensitive.counting import MOST_CELLS, TableCounter, checked_cells, code_bytes, margins, summed
from privcube.sensitive.cover import Positions

TYPES = {1: np.uint8, 2: np.uint16, 4: np.uint32}


def random_codes(sizes: list[int], rows: int, seed: int = 0) -> list[np.ndarray]:
    """Codes in as few bytes as engines use, the largest of each attribute among them."""
    chance = np.random.default_rng(seed)
    columns = [chance.integers(0, size, rows).astype(TYPES[code_bytes(size)]) for size in sizes]
    for column, size in zip(columns, sizes, strict=True):
        column[rows // 2 :][:1] = size - 1
    return columns


def counted_alone(sizes: list[int], table: Positions, codes: list[np.ndarray]) -> np.ndarray:
    counts = np.zeros([sizes[place] for place in table], dtype=np.int64)
    np.add.at(counts, tuple(codes[place].astype(np.int64) for place in table), 1)
    return counts if table else np.array(len(codes[0]))


def assert_counts(
    sizes: list[int], tables: list[Positions], codes: list[np.ndarray], batch: int = 1 << 18, **limits: int
) -> TableCounter:
    counter = TableCounter(sizes, tables, **limits)
    for start in range(0, len(codes[0]), batch):
        counter.add([column[start : start + batch] for column in codes])
    found = counter.finish()
    assert set(found) == set(tables)
    for table in tables:
        assert found[table].dtype == np.int64
        np.testing.assert_array_equal(found[table], counted_alone(sizes, table, codes))
    return counter


@st.composite
def tables_and_codes(draw: st.DrawFn) -> tuple[list[int], list[Positions], list[np.ndarray]]:
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 7, 255, 256, 257, 300]), min_size=1, max_size=5))
    everything = [subset for size in range(4) for subset in combinations(range(len(sizes)), size)]
    affordable = [table for table in everything if math.prod(sizes[place] for place in table) < 1 << 20]
    tables = draw(st.lists(st.sampled_from(affordable), min_size=1, max_size=6, unique=True))
    return sizes, tables, random_codes(sizes, draw(st.integers(0, 400)), draw(st.integers(0, 9)))


@settings(deadline=None, max_examples=36, derandomize=True)
@given(tables_and_codes(), st.integers(1, 150))
def test_random_tables(case: tuple[list[int], list[Positions], list[np.ndarray]], batch: int) -> None:
    assert_counts(*case, batch=batch)


@pytest.mark.parametrize(
    "sizes", [[70_000, 2], [65_536, 2], [65_535, 2], [65_536], [1, 65_536, 1], [256, 256], [257, 256]]
)
def test_attributes_and_tables_at_the_limits_of_keys(sizes: list[int]) -> None:
    """65,536 cells have keys of 16 bits, but a size of 65,536 is no number of 16 bits."""
    places = tuple(range(len(sizes)))
    assert_counts(sizes, [places, places[:1], places[-1:], ()], random_codes(sizes, 5000))


@pytest.mark.parametrize(
    "shape", [(300, 300), (400, 400), (2, 257, 257), (1024, 1024), (1025, 1024), (3000, 1100)], ids=str
)
def test_tables_of_more_cells_than_fit_the_cache(shape: tuple[int, ...]) -> None:
    """Above 2^16, 2^17 and 2^20 cells; the last are not counted by bincount."""
    sizes = [*shape, 2]
    places = tuple(range(len(shape)))
    assert_counts(sizes, [places, (0, len(shape))], random_codes(sizes, 20_000))


def test_a_small_domain_is_counted_once_and_a_large_one_by_its_cover() -> None:
    sizes = [4] * 12
    many = assert_counts(sizes, list(combinations(range(12), 4)), random_codes(sizes, 3000))
    assert many._base is None
    assert len(many._blocks) > 1
    sizes = [101] * 3  # 1,030,301 cells: at most 2^20
    base = assert_counts(sizes, [(0, 1), (0, 2), (1, 2)], random_codes(sizes, 3000))
    assert base._base == (0, 1, 2)


@pytest.mark.parametrize("workers", [1, 3])
def test_memory_for_few_codes_only(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in many rounds, of chunks of a hundred records, by one thread or several."""
    monkeypatch.setattr(counting, "_CHUNK", 100)
    rounds = []
    counted = TableCounter._count_gathered
    monkeypatch.setattr(TableCounter, "_count_gathered", lambda counter: (rounds.append(1), counted(counter))[1])
    for sizes in ([3, 300, 5], [101, 101, 101], [600, 600, 600], [70_000, 3, 2]):
        assert_counts(
            sizes, [(0, 1), (0, 2), (1, 2), ()], random_codes(sizes, 1345), 77, codes_in_memory=1, workers=workers
        )
    assert len(rounds) > 30


def test_a_hundred_attributes_and_two_thousand_tables() -> None:
    chance = np.random.default_rng(3)
    sizes = [int(size) for size in chance.integers(2, 14, 100)]
    every = list(combinations(range(100), 3))
    tables = [every[at] for at in chance.choice(len(every), 2000, replace=False)]
    codes = random_codes(sizes, 500)
    counter = TableCounter(sizes, tables)
    counter.add(codes)
    found = counter.finish()
    for table in tables:
        key = np.ravel_multi_index([codes[place] for place in table], [sizes[place] for place in table])
        expected = np.bincount(key, minlength=found[table].size)
        np.testing.assert_array_equal(found[table].ravel(), expected)
    assert counter._base is None


def test_no_records() -> None:
    assert_counts([3, 4], [(0, 1), ()], random_codes([3, 4], 0))


def test_progress_grows_to_the_number_of_tables() -> None:
    heard: list[tuple[str, int, int | None]] = []
    sizes = [20] * 8
    tables = list(combinations(range(8), 3))
    counter = TableCounter(sizes, tables, lambda *news: heard.append(news))
    assert heard == []
    counter.add(random_codes(sizes, 1000))
    counter.finish()
    done = [number for _, number, _ in heard]
    assert done == sorted(done)
    assert len(set(done)) > 3
    assert heard[-1] == ("counting tables", len(tables), len(tables))
    assert {stage for stage, *_ in heard} == {"counting tables"}


def test_progress_tells_of_tables_without_records_too() -> None:
    heard: list[tuple[str, int, int | None]] = []
    TableCounter([2, 2], [(0,), (1,)], lambda *news: heard.append(news)).finish()
    assert heard == [("counting tables", 2, 2)]


@pytest.mark.parametrize("table", [(1, 0), (0, 0), (0, 1, 1)])
def test_attributes_out_of_order_are_refused_rather_than_counted_as_nothing(table: Positions) -> None:
    with pytest.raises(PlanError, match="in the order of the schema"):
        TableCounter([2, 3], [(0,), table])


def test_tables_that_fill_the_memory_are_refused() -> None:
    half = MOST_CELLS // 2
    assert checked_cells([half, 2], [(0, 1)]) == MOST_CELLS
    with pytest.raises(PlanError, match="at most 2,147,483,648 cells in all, given 2,147,483,650 cells"):
        TableCounter([half, 2], [(0, 1), (1,)])


def test_bytes_of_a_code() -> None:
    assert [code_bytes(cells) for cells in (1, 256, 257, 65_536, 65_537)] == [1, 1, 2, 2, 4]


@settings(deadline=None)
@given(data=st.data())
def test_margins_of_a_block_are_its_sums(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    attributes = tuple(range(3, 3 + len(sizes)))
    below = st.sets(st.sampled_from(attributes)).map(lambda kept: tuple(sorted(kept)))
    tables = data.draw(st.lists(below, unique=True))
    counts = np.random.default_rng(len(tables)).integers(0, 100, sizes)
    found = dict(margins(counts, attributes, tables))
    assert set(found) == set(tables)
    for table in tables:
        np.testing.assert_array_equal(found[table], summed(counts, attributes, table))
