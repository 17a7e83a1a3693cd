"""Blocks of a cover: every table in exactly one, none larger than it must be."""

from __future__ import annotations

import math
import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcube.sensitive.cover import Block, Positions, cover, increment_cost

LARGEST_BLOCK = 1 << 18


def assert_covers(sizes: list[int], tables: list[Positions], blocks: list[Block]) -> None:
    assert sorted(table for block in blocks for table in block.tables) == sorted(set(tables))
    for block in blocks:
        assert list(block.attributes) == sorted(set(block.attributes))
        assert all(set(table) <= set(block.attributes) for table in block.tables)
        cells = math.prod(sizes[place] for place in block.attributes)
        alone = block.attributes in block.tables
        assert cells <= LARGEST_BLOCK or alone


@st.composite
def sizes_and_tables(draw: st.DrawFn) -> tuple[list[int], list[Positions]]:
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 10, 255, 256, 257, 65_536, 70_000]), min_size=1, max_size=8))
    places = st.lists(st.integers(0, len(sizes) - 1), max_size=4, unique=True).map(lambda table: tuple(sorted(table)))
    return sizes, draw(st.lists(places, min_size=1, max_size=12))


@settings(deadline=None, max_examples=150, derandomize=True)
@given(sizes_and_tables())
def test_every_table_is_in_exactly_one_block(given_tables: tuple[list[int], list[Positions]]) -> None:
    sizes, tables = given_tables
    assert_covers(sizes, tables, cover(sizes, tables))


def test_three_thousand_tables_of_a_hundred_attributes() -> None:
    chance = random.Random(5)
    tables = chance.sample(list(combinations(range(100), 3)), 3000)
    sizes = [chance.randint(2, 12) for _ in range(100)]
    blocks = cover(sizes, tables)
    assert_covers(sizes, tables, blocks)
    assert len(blocks) < len(tables) / 2


def test_a_table_above_all_limits_is_a_block_of_its_own_and_holds_its_parts() -> None:
    sizes = [1000, 1000, 7]
    tables = [(0, 1), (0,), (1,), (2,), ()]
    blocks = cover(sizes, tables)
    assert_covers(sizes, tables, blocks)
    assert {(0, 1), (0,), (1,)} <= set(next(block.tables for block in blocks if block.attributes == (0, 1)))


def test_small_domains_are_one_block() -> None:
    sizes = [2] * 10
    tables = [subset for size in range(4) for subset in combinations(range(10), size)]
    (block,) = cover(sizes, tables)
    assert block.attributes == tuple(range(10))


def test_the_same_tables_give_the_same_blocks() -> None:
    tables = list(combinations(range(12), 3))
    sizes = [5] * 12
    assert cover(sizes, tables) == cover(sizes, tables)


def test_all_pairs_of_sixteen_attributes_take_few_blocks() -> None:
    """A bound from below: a block of b attributes holds b (b - 1) / 2 pairs, and sizes allow b = 6."""
    sizes = [6] * 16
    blocks = cover(sizes, list(combinations(range(16), 2)))
    assert 120 / 15 <= len(blocks) <= 18


@pytest.mark.parametrize(
    ("smaller", "larger"), [(1 << 16, (1 << 16) + 1), (1 << 17, (1 << 17) + 1), (1 << 18, 1 << 20)]
)
def test_larger_blocks_cost_more(smaller: int, larger: int) -> None:
    assert increment_cost(smaller) < increment_cost(larger)
