"""Bundlings for workloads too large to search: the designs behind them, and what is promised against what comes out."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest

import privcube as pc
from privcube.accuracy.structure import WorkloadIndex
from privcube.model.frame import Frame
from privcube.model.groups import GroupPart, cells_groups
from privcube.model.options import PlanOptions
from privcube.planning.search import search
from privcube.planning.search.large import _candidates, _closed_blocks, _in_a_half, _promise, bundlings
from privcube.planning.search.search import search_plan
from privcube.planning.steps import plan_of
from privcube.progress import Enough
from privcube.strategies.proposal import Proposal


def schema(attributes: int, size: int) -> pc.Schema:
    return pc.Schema.from_sizes({f"a{i:02d}": size for i in range(attributes)})


def blocks_of(attributes: int, way: int, size: int = 2) -> dict[frozenset[int], float]:
    tables = {tuple(GroupPart(a, 1) for a in axes): 1.0 for axes in combinations(range(attributes), way)}
    found = _closed_blocks({GroupPart(a, 1): size for a in range(attributes)}, tables)
    assert found is not None
    return {frozenset(part.axis for part in block): need for block, need in found.items()}


@pytest.mark.parametrize(("attributes", "way", "count"), [(8, 3, 14), (16, 3, 140), (7, 2, 7), (15, 2, 35)])
def test_closed_blocks_are_steiner_systems(attributes: int, way: int, count: int) -> None:
    """Every table lies in one block, and all blocks have one attribute more: SQS(8), SQS(16), PG(2,2), PG(3,2)."""
    blocks = blocks_of(attributes, way)
    assert len(blocks) == count
    assert {len(block) for block in blocks} == {way + 1}
    for table in combinations(range(attributes), way):
        assert sum(set(table) <= block for block in blocks) == 1


@pytest.mark.parametrize(("attributes", "way"), [(5, 3), (11, 3), (10, 2), (6, 4), (3, 3), (4, 1)])
def test_tables_without_a_block_stand_alone(attributes: int, way: int) -> None:
    blocks = blocks_of(attributes, way, size=3)
    assert {len(block) for block in blocks} <= {way, way + 1}
    for table in combinations(range(attributes), way):
        assert sum(set(table) <= block for block in blocks) == 1
    needed = sum(comb(len(block), way) * 2**way * 3 ** (len(block) - way) for block in blocks)
    assert sum(blocks.values()) == pytest.approx(needed)


def test_smaller_tables_are_answered_from_blocks() -> None:
    tables = {tuple(GroupPart(a, 1) for a in axes): 1.0 for way in (1, 2, 3) for axes in combinations(range(8), way)}
    found = _closed_blocks({GroupPart(a, 1): 2 for a in range(8)}, tables)
    assert found is not None
    assert {len(block) for block in found} == {4}


def test_no_blocks_where_an_attribute_has_several_levels() -> None:
    rows = {GroupPart(0, 1): 2, GroupPart(0, 2): 6, GroupPart(1, 1): 3}
    assert _closed_blocks(rows, dict.fromkeys([(GroupPart(0, 1), GroupPart(1, 1))], 1.0)) is None


@pytest.mark.parametrize("attributes", [3, 8, 20])
def test_three_attributes_have_two_in_a_half(attributes: int) -> None:
    place = {axis: axis for axis in range(attributes)}
    centers = [_in_a_half(axes, place) for axes in combinations(range(attributes), 3)]
    assert all(one % 2 == other % 2 for one, other in centers)
    assert all(set(c) < set(t) for c, t in zip(centers, combinations(range(attributes), 3), strict=True))
    half = attributes // 2
    assert len(set(centers)) <= comb(half, 2) + comb(attributes - half, 2)


@pytest.mark.parametrize("size", [2, 4, 10])
def test_what_is_promised_comes_out(size: int) -> None:
    """Within 35 % with 24 attributes: what tables have in common is known well, and left out of the promise."""
    workload, guarantee = pc.Workload.all_kway(schema(24, size), 3), pc.PureDP(100)
    frame = Frame.natural(workload)
    index = WorkloadIndex.of(workload, frame)
    tables = dict.fromkeys(cells_groups(frame, workload), 1.0)
    found, options = 0, PlanOptions(budgets="iterated")
    for candidate in _candidates(workload, frame, index, tables):
        promise = _promise(candidate, guarantee)
        if promise is not None:
            made = plan_of(workload, guarantee, options, Proposal.of_bundles(frame, candidate.bundles, index))
            assert made.weighted_variance == pytest.approx(2 * promise / 100**2, rel=0.35)
            found += 1
    assert found >= 4


def test_noise_of_any_width_is_proposed_and_rounded_where_it_is_wide() -> None:
    workload = pc.Workload.all_kway(schema(16, 4), 3)
    frame = Frame.natural(workload)
    index = WorkloadIndex.of(workload, frame)
    proposed = {epsilon: bundlings(workload, pc.PureDP(epsilon), frame, index, 8) for epsilon in ("1", "0.00001")}
    for bundlings_found in proposed.values():
        assert any(len(bundle) > 1 for bundles in bundlings_found for bundle in bundles)


@pytest.mark.parametrize("size", [2, 3, 10])
def test_the_best_of_few_is_no_worse_than_the_tables_alone(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_MOST_SPOKEN", 0)
    workload = pc.Workload.all_kway(schema(16, size), 3)
    made = pc.plan(workload, pc.PureDP(1), "search")
    tables = pc.plan(workload, pc.PureDP(1), "marginals", budgets="iterated")
    assert made.weighted_variance <= tables.weighted_variance * (1 + 1e-9)
    if size < 10:  # SQS(16): a row of four attributes is worth four tables
        assert made.weighted_variance < 0.5 * tables.weighted_variance
    exact = np.array(made.workload.sizes) @ np.array(made.table_variances)
    assert exact == pytest.approx(made.weighted_variance)


def test_the_best_of_few_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_MOST_SPOKEN", 0)
    workload = pc.Workload.all_kway(schema(9, 3), 2)
    heard: list[int] = []

    def enough(stage: str, done: int, total: int | None) -> None:
        heard.append(done)
        if done:
            raise Enough

    made = search_plan(workload, pc.PureDP(1), PlanOptions(), Frame.natural(workload), progress=enough)
    assert heard == [0, 1]
    assert len(made.groups) == len(workload)
