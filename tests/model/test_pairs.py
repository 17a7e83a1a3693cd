"""Pairs of records: what they cost, against all pairs of columns of the strategy matrix."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from math import lcm, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcube import ZCDP, ApproxDP, Attribute, Level, Plan, PureDP, Schema, Workload, errors, linear, plan
from privcube.accuracy import privacy
from privcube.accuracy.pricing import pairs as second
from privcube.accuracy.privacy import privacy_cost, verify_privacy
from privcube.model.frame import Frame
from privcube.model.groups import Group, GroupPart, group_rows, row_weights
from privcube.model.noise import pairs
from privcube.model.noise.pairs import KNOWN, alike, cost_in_shares, every_case, total_is_public
from privcube.model.sensitivity import squared_l2
from privcube.model.slices import joined, shared_cells, slice_count
from privcube.sensitive import brute_force, gate

HALVES = [Level("half", groups={"low": ["p", "q"], "high": ["r", "s"]})]
ATTRIBUTES = {
    "plain": lambda name, size: Attribute(name, size=size),
    "one value": lambda name, size: Attribute(name, size=1),
    "missing": lambda name, size: Attribute(name, values=list("xyz")[:size], missing="category"),
    "levels": lambda name, size: Attribute(name, values=list("pqrs"), levels=HALVES),
}


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    kinds = draw(st.lists(st.sampled_from(sorted(ATTRIBUTES)), min_size=1, max_size=3))
    schema = Schema([ATTRIBUTES[kind](f"a{at}", draw(st.integers(2, 3))) for at, kind in enumerate(kinds)])
    leveled = frozenset(f"a{at}" for at, kind in enumerate(kinds) if kind == "levels")
    kind = draw(st.sampled_from(["natural", "binary", "tree"]))
    if kind == "tree":
        return Frame(schema, "tree", draw(st.integers(2, 3)), frozenset(schema.names))
    return Frame(schema, kind, leveled=leveled)  # type: ignore[arg-type]


@st.composite
def groups_of(draw: st.DrawFn, frame: Frame, kinds: tuple[str, ...]) -> Group:
    """A group of cells and of one other kind of parts."""
    other, parts = draw(st.sampled_from(kinds)), []
    for axis, chain in enumerate(frame.fan_outs):
        level = draw(st.integers(0, len(chain)))
        if level:
            kind = draw(st.sampled_from(["cells", other]))
            if (chain[level - 1] != 2 and kind == "contrast") or chain[level - 1] < 2:
                kind = "cells"
            parts.append(GroupPart(axis, level, kind))  # type: ignore[arg-type]
    return tuple(parts)


def columns_of(frame: Frame, groups: list[Group]) -> list[np.ndarray]:
    """Group x (row, cell), with padded cells."""
    rows = [group_rows(frame, group) for group in groups]
    matrix = linear.strategy_matrix(frame, groups).toarray().astype(np.int64)
    return np.split(matrix, np.cumsum(rows)[:-1])


def squared(frame: Frame, group: Group, change: np.ndarray) -> Fraction:
    weights = row_weights(frame, group)
    return sum((Fraction(int(moved) ** 2, weight) for moved, weight in zip(change, weights, strict=True)), Fraction(0))


def squares(frame: Frame, groups: list[Group], alone: bool) -> set[tuple[Fraction, ...]]:
    """How far each pair of records, or each record alone, moves all groups."""
    found, scales = [], []
    for group, own in zip(groups, columns_of(frame, groups), strict=True):
        weights = row_weights(frame, group)
        scales.append(lcm(*weights))
        change = own if alone else (own[:, :, None] - own[:, None, :]).reshape(len(own), -1)
        found.append(np.array([scales[-1] // weight for weight in weights]) @ change**2)
    different = np.unique(np.array(found), axis=1).T.tolist()
    return {tuple(Fraction(*each) for each in zip(moves, scales, strict=True)) for moves in different}


def bundle_norm(frame: Frame, groups: list[Group], changes: list[np.ndarray]) -> int:
    """Over the slices of a bundle, the sum of the largest L1 norm of a group."""
    slicing = shared_cells(groups) if len(groups) > 1 else ()
    largest = np.zeros(slice_count(frame, slicing), dtype=np.int64)
    for group, change in zip(groups, changes, strict=True):
        own = np.repeat(np.arange(len(largest))[:, None], len(change) // len(largest), axis=1)
        moved = np.zeros_like(largest)
        np.add.at(moved, joined(frame, group, slicing, own), np.abs(change))
        largest = np.maximum(largest, moved)
    return int(largest.sum())


SHARES = st.integers(1, 10**6)


@given(st.data(), st.integers(1, 3), st.booleans())
@settings(max_examples=20, deadline=None)
def test_gaussian_groups_against_all_pairs_of_columns(data: st.DataObject, rows: int, dropping: bool) -> None:
    frame = data.draw(frames())
    groups = data.draw(
        st.lists(groups_of(frame, ("contrast",)) | groups_of(frame, ("helmert",)), min_size=1, max_size=4)
    )
    shares = data.draw(st.lists(SHARES, min_size=len(groups), max_size=len(groups)))
    if dropping:
        schema = Schema(list(frame.schema), where={"z": ["yes"]})
        frame = Frame(schema, frame.kind, frame.branching, frame.leveled)
    guarantee = ZCDP(1, neighbors="replace_one", max_rows_per_person=rows)
    part = [share * rows**2 / squared_l2(guarantee, frame, group) for share, group in zip(shares, groups, strict=True)]
    moves = squares(frame, groups, alone=False)
    if rows > 1 or dropping:
        moves |= squares(frame, groups, alone=True)
    dearest = max(sum(one * other for one, other in zip(part, move, strict=True)) for move in moves)
    bundles = [(at,) for at in range(len(groups))]
    found = every_case(guarantee, frame, groups, bundles)
    assert found is not None
    assert dearest <= found.dearest(shares) < dearest + len(groups)
    by_class = alike(guarantee, frame, groups, bundles)
    assert by_class is None or by_class.dearest(shares) >= dearest
    assert cost_in_shares(guarantee, frame, groups, bundles, shares, 0) >= dearest


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("kind", ["cells", "helmert"])
def test_cosines_where_levels_have_other_numbers_of_children(level: int, kind: str) -> None:
    """Three groups of two values: columns of two records, by the first level at which they differ."""
    thirds = [Level("third", groups={"low": ["p", "q"], "middle": ["r", "s"], "high": ["t", "u"]})]
    frame = Frame(Schema([Attribute("a", values=list("pqrstu"), levels=thirds)]), "natural", leveled=frozenset("a"))
    (chain,), part = frame.fan_outs, GroupPart(0, level, kind)  # type: ignore[arg-type]
    assert list(chain) == [3, 2]
    weights = np.array([Fraction(1, weight) for weight in row_weights(frame, (part,))])
    columns = columns_of(frame, [(part,)])[0].T.astype(object)
    for one, other in itertools.product(range(6), repeat=2):
        differ = 0 if one == other else 1 if one // 2 != other // 2 else 2
        product, length = (columns[one] * columns[at] @ weights for at in (other, one))
        assert pairs._cosine(chain, part, differ) == product / length


@given(st.data(), st.integers(1, 2))
@settings(max_examples=12, deadline=None)
def test_bundles_against_all_pairs_of_columns(data: st.DataObject, rows: int) -> None:
    frame = data.draw(frames())
    groups = data.draw(st.lists(groups_of(frame, ("contrast",)), min_size=1, max_size=5))
    cut = data.draw(st.integers(1, len(groups)))
    bundles = [tuple(range(cut)), *((at,) for at in range(cut, len(groups)))]
    shares = data.draw(st.lists(SHARES, min_size=len(bundles), max_size=len(bundles)))
    guarantee = PureDP(1, neighbors="replace_one", max_rows_per_person=rows)
    columns = columns_of(frame, groups)

    def cost(changes: list[np.ndarray]) -> Fraction:
        moved = [bundle_norm(frame, [groups[g] for g in each], [changes[g] for g in each]) for each in bundles]
        return sum((Fraction(share * norm, 2) for share, norm in zip(shares, moved, strict=True)), Fraction(0))

    cells = range(columns[0].shape[1])
    changes = [[own[:, i] - own[:, j] for own in columns] for i, j in itertools.combinations(cells, 2)]
    changes += [[own[:, i] for own in columns] for i in cells] if rows > 1 else []
    dearest = max(map(cost, changes), default=Fraction(0))
    found = every_case(guarantee, frame, groups, bundles)
    assert found is not None
    assert dearest <= found.dearest(shares) < dearest + len(bundles)
    other = alike(guarantee, frame, groups, bundles)
    assert other is None or other.dearest(shares) >= dearest


def test_a_record_alone_may_cost_more_than_any_pair() -> None:
    """Pairs leave the total as it is: 5 + 4 is their dearest. A record that comes or goes moves all, by half."""
    frame = Frame(Schema.from_sizes({"a": 2, "b": 2}), "natural")
    a, b = (GroupPart(axis, 1, "contrast") for axis in (0, 1))
    groups, shares = [(), (a,), (b,), (a, b)], [7, 5, 4, 3]
    bundles = [(at,) for at in range(4)]
    for most, least in ((1, Fraction(9)), (2, Fraction(19, 2))):
        found = every_case(PureDP(1, neighbors="replace_one", max_rows_per_person=most), frame, groups, bundles)
        assert found is not None
        assert least <= found.dearest(shares) < least + len(groups)


def test_cells_and_contrasts_in_one_group_are_not_alike() -> None:
    """In L1 they move by different shares of their largest move; squared they do not."""
    frame = Frame(Schema.from_sizes({"a": 2, "b": 2}), "natural")
    mixed = [(GroupPart(0, 1, "cells"), GroupPart(1, 1, "contrast"))]
    assert alike(PureDP(1, neighbors="replace_one"), frame, mixed, [(0,)]) is None
    assert alike(ZCDP(1, neighbors="replace_one"), frame, mixed, [(0,)]) is not None


@pytest.mark.parametrize("sizes", [(2, 2, 2, 2), (2, 3, 3, 2, 3), (4, 4, 4)])
@pytest.mark.parametrize("kind", ["cells", "helmert"])
def test_alike_axes_lose_nothing_if_shares_are_alike(sizes: tuple[int, ...], kind: str) -> None:
    frame = Frame(Schema.from_sizes({f"a{at}": size for at, size in enumerate(sizes)}), "natural")
    axes = range(len(sizes))
    chosen = [own for count in range(3) for own in itertools.combinations(axes, count)]
    groups = [tuple(GroupPart(axis, 1, kind) for axis in own) for own in chosen]  # type: ignore[arg-type]
    shares = [1000 * (1 + prod(sizes[axis] for axis in own)) for own in chosen]
    guarantee, bundles = ZCDP(1, neighbors="replace_one"), [(at,) for at in range(len(groups))]
    by_class, one_by_one = (rule(guarantee, frame, groups, bundles) for rule in (alike, every_case))
    assert by_class is not None
    assert one_by_one is not None
    assert abs(by_class.dearest(shares) - one_by_one.dearest(shares)) <= len(groups)
    assert by_class.grid.size < one_by_one.grid.size


@pytest.mark.parametrize("most", [1, 2])
def test_several_rows_that_are_exchanged_lost_or_gained(most: int) -> None:
    """The rows of a person become any others, as many, fewer or more: all of it on a small domain."""
    guarantee = ZCDP(1, neighbors="replace_one", max_rows_per_person=most)
    made = plan(Workload.full_cube(Schema.from_sizes({"a": 2, "b": 3})), guarantee, "residual")
    columns = columns_of(made.frame, list(made.groups))
    counts = (1,) if most == 1 else range(most + 1)
    people = [rows for count in counts for rows in itertools.combinations_with_replacement(range(6), count)]
    costs = []
    for before, after in itertools.combinations(people, 2):
        changes = [own[:, list(after)].sum(axis=1) - own[:, list(before)].sum(axis=1) for own in columns]
        moved = [squared(made.frame, group, change) for group, change in zip(made.groups, changes, strict=True)]
        costs.append(sum(moves / made.noise_variance(number) for number, moves in enumerate(moved)) / 2)
    assert max(costs) <= privacy_cost(made) <= guarantee.rho
    assert max(costs) > Fraction(999, 1000) * guarantee.rho


# The second price and brute force, and what they notice


SCHEMA = Schema.from_sizes({"a": 2, "b": 3, "c": 2, "d": 2})
PAIRS = Workload.all_kway(SCHEMA, 2)
GUARANTEES = [
    PureDP(1, neighbors="replace_one"),
    ZCDP(1, neighbors="replace_one"),
    ApproxDP(1, "1e-6", neighbors="replace_one"),
    ZCDP(1, neighbors="replace_one", max_rows_per_person=3),
]


def strategy_of(guarantee: object) -> str:
    return "fourier" if isinstance(guarantee, PureDP) else "residual"


def dearest_of_brute_force(made: Plan) -> Fraction:
    found = [Fraction(0)]
    price = brute_force._price

    def noted(*given: object) -> Fraction:
        found.append(price(*given))  # type: ignore[arg-type]
        return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(brute_force, "_price", noted)
        brute_force.verify_by_brute_force(made)
    return max(found)


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_three_prices_agree(guarantee: PureDP | ZCDP | ApproxDP) -> None:
    made = plan(PAIRS, guarantee, strategy_of(guarantee))  # type: ignore[arg-type]
    verify_privacy(made)
    assert privacy_cost(made) == dearest_of_brute_force(made)
    assert 1 - Fraction(1, 10**9) < privacy_cost(made) / guarantee.capacity <= 1
    assert sum(share for at, share in enumerate(made.shares) if at not in made.known) > made.denominator


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_more_than_the_dearest_pair_may_cost_is_refused(guarantee: PureDP | ZCDP | ApproxDP) -> None:
    made = plan(PAIRS, guarantee, strategy_of(guarantee))  # type: ignore[arg-type]
    more = tuple([share + share // 10**6 for share in made.shares])
    with pytest.raises(errors.PlanError, match="cost at most the denominator"):
        replace(made, shares=more)


@given(
    st.lists(
        st.lists(st.sampled_from([0, 1, -1, Fraction(-1, 2), Fraction(-1, 4)]), min_size=1, max_size=4), max_size=3
    ),
    st.sampled_from([None, Fraction(1), Fraction(2, 3)]),
)
def test_ratios_are_those_of_every_case_by_itself(lists: list[list[Fraction]], factor: Fraction | None) -> None:
    cosines = tuple([tuple(map(Fraction, along)) for along in lists])
    ratios, place = pairs._ratios(cosines, factor)
    assert place.shape == tuple(map(len, cosines))
    for case in np.ndindex(place.shape):
        cosine = prod([along[at] for along, at in zip(cosines, case, strict=True)], start=Fraction(1))
        assert ratios[place[case]] == (Fraction(cosine != 1) if factor is None else factor * (1 - cosine))


WRONG = {
    "half of every move": ("_factor", lambda real: lambda *given: real(*given) / 2),
    "siblings forgotten": (
        "_cosine",
        lambda real: lambda chain, part, level: max(real(chain, part, level), Fraction(0)),
    ),
    "a record alone forgotten": ("_records_alone", lambda real: lambda *given: None),
    "a total that is not public": ("total_is_public", lambda real: lambda guarantee, schema: True),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_prices_of_pairs_are_noticed_twice(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner believes them, and makes plans with too little noise."""
    where, wrong = WRONG[name]
    monkeypatch.setattr(pairs, where, wrong(getattr(pairs, where)))
    if where == "total_is_public":
        monkeypatch.setattr("privcube.planning.steps.total_is_public", getattr(pairs, where))
    pairs._ratios.cache_clear()
    rows = 2 if name in ("a record alone forgotten", "a total that is not public") else 1
    schema = Schema.from_sizes({"a": 2, "b": 2})
    workload = Workload.tables(schema, [(), ("a",), ("b",), ("a", "b")], weights=[50, 1, 1, 1])
    made = plan(workload, ZCDP(1, neighbors="replace_one", max_rows_per_person=rows), "residual")
    pairs._ratios.cache_clear()
    with pytest.raises(errors.PlanError, match="every record within the guarantee"):
        gate.verify_by_brute_force(made)
    with pytest.raises(errors.PlanError, match="a cost of at most"):
        verify_privacy(made)


def test_the_second_price_notices_what_is_wrong_with_the_inner_products(monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan(PAIRS, ZCDP(1, neighbors="replace_one"), "residual")
    right = privacy_cost(made)
    for wrong in (lambda self, differs: self.same, lambda self, differs: self.same if not differs else Fraction(0)):
        monkeypatch.setattr(second.Meets, "inner", wrong)
        assert privacy_cost(made) < right


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_the_second_price_rounds_up_and_counts_alike_axes(
    guarantee: PureDP | ZCDP | ApproxDP, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plan(PAIRS, guarantee, strategy_of(guarantee))  # type: ignore[arg-type]
    exact = privacy_cost(made)
    monkeypatch.setattr(second, "_MOST_EXACT", 1)
    rounded = privacy_cost(made)
    assert exact <= rounded <= exact * (1 + Fraction(1, 10**12))
    monkeypatch.setattr(second, "_all_choices", lambda *given: None)
    assert exact <= privacy_cost(made)
    if not isinstance(guarantee, PureDP):  # where not all bits of alike attributes are combined
        assert privacy_cost(made) <= guarantee.capacity
    monkeypatch.setattr(second, "_alike", lambda *given: None)
    assert privacy_cost(made) > guarantee.capacity  # each group at its own worst


def test_moves_of_alike_axes_in_l1() -> None:
    """Cells move by 2, contrasts as well, half of their squared move; both in one group are not priced so."""
    cells, contrasts = (
        [second.Meets(axis, 1, Fraction(1), s, s) for axis in (0, 1)] for s in (Fraction(0), Fraction(-1))
    )
    for parts in (cells, contrasts):
        noised = [second.Noised([[part]], Fraction(3), Fraction(6)) for part in parts]
        found = second._alike(noised, squares=False)
        assert found is not None
        assert second._largest(*found) == 12
    both = [second.Noised([[cells[0], contrasts[1]]], Fraction(3), Fraction(12))]
    assert second._alike(both, squares=False) is None


def test_many_alike_attributes_are_priced() -> None:
    """2^40 pairs: too many to go through, but only 41 numbers of attributes that differ."""
    schema = Schema.from_sizes({f"a{at}": 2 for at in range(40)})
    made = plan(Workload.all_kway(schema, 1), ZCDP(1, neighbors="replace_one"), "residual")
    verify_privacy(made)
    mixed = Schema.from_sizes({f"a{at}": 2 + at % 2 for at in range(40)})
    two_way = plan(Workload.all_kway(mixed, 2), ZCDP(1, neighbors="replace_one"), "residual")
    verify_privacy(two_way)
    assert sum(two_way.shares) - max(two_way.shares) > 1.2 * two_way.denominator


def test_a_group_that_is_measured_twice_costs_twice() -> None:
    schema = Schema.from_sizes({"a": 2, "b": 2, "c": 2})
    made = plan(Workload.all_kway(schema, 1), ZCDP(1, neighbors="replace_one"), "residual")
    twice = (*made.groups, made.groups[1])
    guarantee, bundles = made.guarantee, [(at,) for at in range(len(twice))]
    assert alike(guarantee, made.frame, made.groups, bundles[:-1]) is not None
    assert alike(guarantee, made.frame, twice, bundles) is None
    with pytest.raises(errors.PlanError, match="cost at most the denominator"):
        replace(made, groups=twice, shares=(*made.shares, made.shares[1]))
    meets = [(second.Meets(at, 1, Fraction(1), Fraction(-1), Fraction(0)),) for at in (0, 1, 2, 0)]
    noised = [second.Noised([parts], Fraction(1), Fraction(4)) for parts in meets]
    with pytest.MonkeyPatch.context() as patch:
        assert second.dearest_exchange([(2,)] * 3, noised, True) == 16
        patch.setattr(second, "_all_choices", lambda *given: None)
        assert second.dearest_exchange([(2,)] * 3, noised, True) == 16


def test_too_many_pairs_are_priced_by_groups() -> None:
    """Where attributes are all different and many, each group counts at its own worst."""
    schema = Schema.from_sizes({f"a{at}": 2 + at for at in range(24)})
    workload = Workload.tables(schema, [(f"a{at}",) for at in range(24)])
    made = plan(workload, ZCDP(1, neighbors="replace_one"), "residual")
    assert sum(made.shares) - max(made.shares) == made.denominator
    verify_privacy(made)


# The number of records


def test_the_total_is_public_only_if_every_unit_has_one_record() -> None:
    plain, asked = SCHEMA, Schema(list(SCHEMA), where={"z": ["yes"]})
    dropping = Schema([Attribute("a", values=["x", "y"], other="drop")])
    one, two = (ZCDP(1, neighbors="replace_one", max_rows_per_person=rows) for rows in (1, 2))
    assert total_is_public(one, plain)
    assert not any(total_is_public(*case) for case in ((two, plain), (one, asked), (one, dropping), (ZCDP(1), plain)))


@pytest.mark.parametrize("guarantee", GUARANTEES[:3], ids=str)
def test_a_public_total_is_measured_at_no_cost(guarantee: PureDP | ZCDP | ApproxDP) -> None:
    for strategy in ("marginals", strategy_of(guarantee)):
        made = plan(PAIRS, guarantee, strategy)  # type: ignore[arg-type]
        (total,) = made.known
        assert made.groups[total] == ()
        assert made.shares[total] == KNOWN * made.denominator
        small = made.noise_scale(total) if isinstance(guarantee, PureDP) else made.noise_variance(total)
        assert 0 < small < Fraction(1, 5000)
        assert Plan.from_json(made.to_json()).digest == made.digest


def test_a_total_that_is_not_public_cannot_be_had_for_nothing() -> None:
    made = plan(PAIRS, ZCDP(1, neighbors="replace_one"), "residual")
    with pytest.raises(errors.PlanError, match="cost at most the denominator"):
        replace(made, guarantee=ZCDP(1, neighbors="replace_one", max_rows_per_person=2))
    asked = Schema(list(SCHEMA), where={"z": ["yes"]})
    workload, frame = Workload.tables(asked, list(PAIRS)), Frame(asked, "natural")
    with pytest.raises(errors.PlanError, match="cost at most the denominator"):
        replace(made, workload=workload, frame=frame)


def test_the_paper_keeps_its_total() -> None:
    """Uniform budgets are the paper's, as is direct recovery."""
    guarantee = PureDP(1, neighbors="replace_one")
    assert not plan(PAIRS, guarantee, "marginals", recovery="direct").known
    made = plan(PAIRS, guarantee, "fourier", budgets="uniform")
    assert sum(made.shares) == made.denominator
    assert privacy._cost_alone(made) == Fraction(1, 2)
