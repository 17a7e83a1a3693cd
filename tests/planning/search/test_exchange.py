"""Bundles made to fit: against a search by hand over whole plans, and what exchanges do to poor plans."""

from __future__ import annotations

import numpy as np
import pytest

import privcube as pc
from privcube.model.frame import Frame
from privcube.model.groups import cells_groups
from privcube.planning.search.annealing import Population, Start
from privcube.planning.search.closed_form import Bundle, Choice, Choices
from privcube.planning.search.exchange import Lawful, Pool, exchanged, nearby
from privcube.planning.search.gram import gram_columns

SCHEMA = pc.Schema.from_sizes({"a": 2, "b": 3, "c": 4, "d": 2})
BINARY = pc.Schema.from_sizes({f"a{i:02d}": 2 for i in range(16)})


def choices_of(workload: pc.Workload) -> tuple[Choices, list[Choice]]:
    choices = Choices(workload, Frame.natural(workload))
    return choices, [choices.choice(group) for group in cells_groups(choices.frame, workload)]


def says(choices: Choices, bundle: Bundle, section: bool = False) -> np.ndarray:
    return choices.strengths_of(bundle, section)


def nothing(choices: Choices) -> np.ndarray:
    """No bundles that stay whatever happens."""
    return np.zeros((0, choices.residuals))


@pytest.mark.parametrize("share", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("way", [1, 2])
@pytest.mark.parametrize(("stay", "without"), [([], []), ([1], []), ([0, 3], [2]), ([], [0, 1])])
def test_the_fitting_bundle_is_the_one_found_by_hand(
    stay: list[int], without: list[int], way: int, share: float
) -> None:
    """The same greedy choice, with every bundle worked out as a whole."""
    choices, tables = choices_of(pc.Workload.all_kway(SCHEMA, way))
    pool = list(nearby(choices, tables))
    precision = np.random.default_rng(way).uniform(1e-4, 1e-2, choices.residuals)

    def error(bundle: Bundle) -> float:
        """Under the better of the two laws."""
        laws = [precision + share**2 * says(choices, bundle, section) for section in (False, True)]
        return min(float((choices.importance / each).sum()) for each in laws)

    by_hand = [pool[at] for at in stay]
    allowed = [group for at, group in enumerate(pool) if at not in without]
    while True:
        tried = [[*by_hand, group] for group in allowed if group not in by_hand]
        best = min(tried, key=error)
        if by_hand and error(best) >= error(by_hand):
            break
        by_hand = best
    found = Pool(choices, pool).fitted(precision, share, len(pool), stay, without)
    assert error(list(found.bundle)) == pytest.approx(error(by_hand), rel=1e-12)
    own = precision + share**2 * says(choices, list(found.bundle), found.section)
    assert (choices.importance / own).sum() == pytest.approx(error(by_hand), rel=1e-12)
    assert len(found.bundle) == len(by_hand) >= 1


def test_a_new_bundle_has_no_slope() -> None:
    """Why columns are exchanged and not added: with a little of the budget any bundle only takes from the others."""
    choices, tables = choices_of(pc.Workload.all_kway(SCHEMA, 2))
    plan = Population(choices, [Start([[table] for table in tables])], 0)
    precision = (1 / len(tables)) ** 2 * plan.says[0].sum(axis=0)
    before = (choices.importance / precision).sum()
    for group in nearby(choices, tables):
        after = (1 - 1e-4) ** 2 * precision + 1e-8 * says(choices, [group])
        assert (choices.importance / after).sum() > before


def test_exchanges_improve_a_poor_plan_and_tell_its_error() -> None:
    choices, tables = choices_of(pc.Workload.all_kway(BINARY, 1))
    apart = [Lawful([table], False) for table in tables]
    before = Population(choices, [Start([[table] for table in tables])], 0).errors[0]
    error, bundles = exchanged(choices, apart, nothing(choices), nearby(choices, tables), 1.0)
    assert error < 0.8 * before
    start = Start([list(each.bundle) for each in bundles], sections=[each.section for each in bundles])
    assert Population(choices, [start], 0).errors[0] == pytest.approx(error, rel=1e-6)


def test_a_group_that_is_missing_is_added_and_one_too_many_is_taken_out() -> None:
    """From a bundle that is the best but for one group, exchanges find the best."""
    choices, tables = choices_of(pc.Workload.all_kway(BINARY, 1))
    pool = list(nearby(choices, tables))
    best, bundles = exchanged(choices, [Lawful(tables, False)], nothing(choices), pool, 1.0)
    (whole,) = bundles
    spare = next(group for group in pool if group not in whole.bundle and choices.facts(group).rows == 4)
    for near in ([*whole.bundle[1:]], [*whole.bundle, spare]):
        changed = Population(choices, [Start([near])], 0).errors[0]
        found, _ = exchanged(choices, [Lawful(near, whole.section)], nothing(choices), pool, 0.1)
        assert best * (1 - 1e-9) <= found <= best * (1 + 1e-6) < changed


def test_what_stays_is_counted_and_never_exchanged() -> None:
    choices, tables = choices_of(pc.Workload.all_kway(BINARY, 1))
    (column, *_) = gram_columns(Choices(pc.Workload.all_kway(BINARY, 2), choices.frame), 1)
    fixed = np.full((1, choices.residuals), float(column.says.min()))
    apart = [Lawful([table], False) for table in tables]
    alone, _ = exchanged(choices, apart, nothing(choices), nearby(choices, tables), 0.2)
    beside, _ = exchanged(choices, apart, fixed, nearby(choices, tables), 0.2)
    assert beside < alone * 1.05
    only, bundles = exchanged(choices, [], fixed, tables, 0.2)
    assert bundles == []
    assert only == pytest.approx(float((choices.importance / fixed[0]).sum()))


def test_without_time_nothing_changes() -> None:
    choices, tables = choices_of(pc.Workload.all_kway(SCHEMA, 2))
    apart = [Lawful([table], False) for table in tables]
    assert exchanged(choices, apart, nothing(choices), tables, 0.0)[1] == apart


def test_what_is_nearby_differs_on_one_axis() -> None:
    choices, tables = choices_of(pc.Workload.all_kway(SCHEMA, 2))
    near = list(nearby(choices, tables))
    assert set(tables) < set(near)
    assert all(min(sum(a != b for a, b in zip(group, table, strict=True)) for table in tables) <= 1 for group in near)
