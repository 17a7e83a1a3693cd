"""Bundles merged two by two, against every merge worked out as a whole."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privcube as pc
from privcube.algebra.lattice import Floats
from privcube.model.frame import Frame
from privcube.model.groups import cells_groups
from privcube.model.slices import largest_scale
from privcube.planning.search import merging, search
from privcube.planning.search.closed_form import Choice, Choices
from privcube.planning.search.exchange import Lawful
from privcube.planning.search.gram import gram_columns
from privcube.planning.search.merging import merged
from privcube.planning.search.shares import optimal_shares
from privcube.progress import Enough

BINARY = pc.Schema.from_sizes({"a": 2, "b": 2, "c": 2, "d": 2})
MIXED = pc.Schema.from_sizes({"a": 2, "b": 3, "c": 4, "d": 1, "e": 700})
WIDE = pc.Schema.from_sizes({"a": 2, "b": 3, "c": 60, "d": 8, "e": 5, "f": 20, "g": 2})
LEVELED = pc.Schema(
    [
        pc.Attribute("a", size=12, levels=[pc.Level("six", width=2), pc.Level("two", width=6)]),
        pc.Attribute("b", size=2),
        pc.Attribute("c", size=8, levels=[pc.Level("four", width=2)]),
    ]
)


def workloads() -> dict[str, pc.Workload]:
    leveled = [
        (pc.Axis("a", "two"), "b"),
        (pc.Axis("a", "six"), pc.Axis("c", "four")),
        ("a", "b"),
        ("b", "c"),
        (pc.Axis("a", "two"), "c"),
    ]
    return {
        "binary": pc.Workload.all_kway(BINARY, 2),
        "mixed": pc.Workload.all_kway(MIXED, 1) | pc.Workload.all_kway(MIXED, 2),
        "total": pc.Workload.tables(MIXED, [(), ("a",), ("b",), ("b", "c")], weights=[1e4, 1, 1, 1]),
        "leveled": pc.Workload.tables(LEVELED, leveled),
        "wide": pc.Workload.all_kway(WIDE, 3),
    }


def choices_of(workload: pc.Workload, scale: float = 0.0) -> tuple[Choices, list[Choice]]:
    frame = Frame.unpadded(workload)
    choices = Choices(workload, frame, whole_scale=scale)
    return choices, list(dict.fromkeys(map(choices.choice, cells_groups(frame, workload))))


def nothing(choices: Choices) -> Floats:
    return np.zeros((0, choices.residuals))


def settled(choices: Choices, plan: list[Lawful], fixed: Floats, rounds: int = 400) -> float:
    says = np.concatenate([fixed, [choices.strengths_of(*each) for each in plan]])
    shares = np.full(len(says), 1 / len(says))
    return float(optimal_shares(says[None], choices.importance, shares[None], rounds)[0][0])


def random_plan(data: st.DataObject, choices: Choices) -> list[Lawful]:
    """Bundles of random groups, no group twice."""
    group = st.tuples(*[st.integers(0, len(options) - 1) for options in choices.options])
    groups = data.draw(st.lists(group.filter(any), min_size=2, max_size=7, unique=True))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(groups) - 1), min_size=1)))
    parts = [groups[one:other] for one, other in itertools.pairwise([0, *cuts, len(groups)])]
    return [Lawful(part, data.draw(st.booleans())) for part in parts]


@pytest.mark.parametrize("name", ["binary", "mixed", "total", "leveled"])
@settings(max_examples=30)
@given(data=st.data())
def test_gains_are_those_of_every_merge_by_hand(name: str, data: st.DataObject) -> None:
    choices, _ = choices_of(workloads()[name])
    plan = random_plan(data, choices)
    work = merging._Merging.of(choices, plan, nothing(choices))
    pairs = work.nearest(10**6)
    assert len(pairs) == len(plan) * (len(plan) - 1) // 2
    says = np.array([choices.strengths_of(*each) for each in plan])
    importance, shares = choices.importance, work.shares

    def error(strengths: Floats, own: Floats) -> float:
        precision = np.maximum(own**2 @ strengths, 1e-30)
        spoken = np.any([choices.speaks(each.bundle).any(axis=0) for each in plan], axis=0)
        return float((importance / precision)[spoken].sum())

    for (one, other), gain in zip(pairs.tolist(), work.gains(pairs).tolist(), strict=True):
        rest = [at for at in range(len(plan)) if at not in (one, other)]
        union = [*plan[one].bundle, *plan[other].bundle]
        own = np.append(shares[rest], shares[one] + shares[other])
        by_law = [np.concatenate([says[rest], choices.strengths_of(union, law)[None]]) for law in (False, True)]
        by_hand = error(says, shares) - min(error(strengths, own) for strengths in by_law)
        assert gain == pytest.approx(by_hand, rel=1e-9, abs=1e-9 * error(says, shares))


def test_pairs_are_looked_at_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that pairs of bundles that speak about much do not take the memory that many narrow ones may take."""
    choices, tables = choices_of(workloads()["wide"])
    start = [Lawful(tables[:9], False), Lawful([(1,) * 7], False), *(Lawful([table], False) for table in tables[9:])]
    work = merging._Merging.of(choices, start, nothing(choices))
    pairs = work.nearest(10**6)
    at_once = work.gains(pairs)
    taken, real = [], merging._Merging._gains

    def noted(self: merging._Merging, *given: Any) -> Floats:
        taken.append((len(given[0]), given[2].size + given[3].size))
        return real(self, *given)

    monkeypatch.setattr(merging, "_AT_ONCE", 200)
    monkeypatch.setattr(merging._Merging, "_gains", noted)
    np.testing.assert_allclose(work.gains(pairs), at_once, rtol=1e-9, atol=1e-9 * work.error)
    assert all(size <= 400 or number == 1 for number, size in taken)
    assert sum(number for number, _ in taken) == len(pairs)


@pytest.mark.parametrize("again", [0, 3])
@pytest.mark.parametrize("name", ["binary", "mixed", "leveled", "wide"])
def test_merges_never_make_a_plan_worse_and_end_where_none_helps(
    monkeypatch: pytest.MonkeyPatch, name: str, again: int
) -> None:
    """Even if no pair is looked at again before the end."""
    monkeypatch.setattr(merging, "_AGAIN", again)
    choices, tables = choices_of(workloads()[name])
    start = [Lawful([table], False) for table in tables]
    made, left = merged(choices, start, nothing(choices), 30.0)
    assert 0 < left < 30
    assert sorted(group for each in made for group in each.bundle) == sorted(tables)
    error = settled(choices, made, nothing(choices))
    assert error < 0.95 * settled(choices, start, nothing(choices))
    for one, other in itertools.combinations(made, 2):
        union = [*one.bundle, *other.bundle]
        rest = [each for each in made if each not in (one, other)]
        tried = [settled(choices, [*rest, Lawful(union, law)], nothing(choices), 8) for law in (False, True)]
        assert min(tried) > error * (1 - 1e-3)


def test_a_merge_that_makes_the_plan_worse_is_not_made() -> None:
    """Whatever was expected of it: gains are those of a single merge, with shares that have not settled."""
    choices, _ = choices_of(pc.Workload.tables(MIXED, [("c", "e"), ("a",)], weights=[1, 1e4]))
    plan = [Lawful([(0, 0, 1, 0, 1)], False), Lawful([(1, 0, 0, 0, 0)], False)]
    work = merging._Merging.of(choices, plan, nothing(choices))
    pairs = np.array([[0, 1]])
    assert work.gains(pairs)[0] < 0
    assert work.merged(pairs, np.array([1.0])) is work


def test_bundles_that_stay_are_counted_and_never_merged() -> None:
    choices, tables = choices_of(pc.Workload.all_kway(BINARY, 2))
    (column,) = gram_columns(choices, 1)
    start = [Lawful([table], False) for table in tables]
    made, _ = merged(choices, start, column.says[None], 30.0)
    alone, _ = merged(choices, start, nothing(choices), 30.0)
    assert settled(choices, made, column.says[None]) <= settled(choices, alone, column.says[None]) * (1 + 1e-9)


def test_pairs_that_share_most_cells_come_first() -> None:
    choices, _ = choices_of(pc.Workload.all_kway(MIXED, 2))
    plan = [Lawful([group], False) for group in [(1, 1, 0, 0, 0), (0, 1, 1, 0, 0), (0, 0, 1, 0, 1), (1, 0, 0, 0, 1)]]
    work = merging._Merging.of(choices, plan, nothing(choices))
    assert work.nearest(3).tolist() == [[2, 3], [1, 2], [0, 1]]  # 700, 4 and 3 cells


def test_no_time_is_no_merge_and_little_time_few() -> None:
    choices, tables = choices_of(pc.Workload.all_kway(pc.Schema.from_sizes(dict.fromkeys("abcdefgh", 3)), 2))
    start = [Lawful([table], False) for table in tables]
    lengths = [len(merged(choices, start, nothing(choices), seconds)[0]) for seconds in (0.0, 2e-3, 30.0)]
    assert lengths[0] == len(start) > lengths[1] > lengths[2]


def test_no_bundle_is_made_that_is_too_wide_to_be_drawn() -> None:
    """Of 17,690 rows in a slice, at a scale at which such a bundle needs half or twice the budget."""
    schema = pc.Schema.from_sizes({"a": 90, "b": 91, "c": 95, "d": 100})
    workload = pc.Workload.tables(schema, [("a", "b"), ("c", "d"), ("a", "c")])
    most = largest_scale(90 * 91 + 95 * 100)
    assert most
    refused = []
    for scale in (0.5, 2.0):
        choices, tables = choices_of(workload, scale=float(most) * scale)
        work = merging._Merging.of(choices, [Lawful([table], False) for table in tables], nothing(choices))
        refused.append(np.isneginf(work.gains(np.array([[0, 2], [0, 1]]))).tolist())
    assert refused == [[False, False], [True, False]]


def test_it_can_be_stopped() -> None:
    choices, tables = choices_of(pc.Workload.all_kway(MIXED, 2))

    def stop() -> None:
        raise Enough

    with pytest.raises(Enough):
        merged(choices, [Lawful([table], False) for table in tables], nothing(choices), 1.0, stop)


@pytest.mark.parametrize("seed", range(4))
def test_wide_schemas_gain_by_merging(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """All 3-way tables of nine attributes of many sizes: a search as short as here is far better with merged starts."""
    dice = np.random.default_rng(seed)
    sizes = dice.choice([2, 3, 5, 8, 12, 20, 60], 9).tolist()
    workload = pc.Workload.all_kway(pc.Schema.from_sizes({f"a{at}": size for at, size in enumerate(sizes)}), 3)
    make = partial(pc.plan, workload, pc.PureDP(1), "search")
    made = make()
    monkeypatch.setattr(search, "_merged", lambda known, found, seconds, check: ([], seconds))
    assert made.weighted_variance < 0.97 * make().weighted_variance
