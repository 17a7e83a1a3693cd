"""Noise on a consistent section: each part of the draw against exact numbers, and draws against integrated laws."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import comb, factorial, floor, prod
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import kolmogorov  # scipy.stats takes a second to load

from privcube.algebra.section import GroupWeights, section_fourth_moment, section_variances
from privcube.errors import GuaranteeError
from privcube.sensitive.noise import section, section_noise, section_slices
from privcube.sensitive.noise.bits import system_words
from privcube.sensitive.noise.section import crossings
from privcube.sensitive.noise.section.arrangement import Layout, random_keys
from privcube.sensitive.noise.section.crossings import points_below
from privcube.sensitive.noise.section.lazy_exponential import ExponentialDeviates
from privcube.sensitive.noise.section.sums import Sums

LONG = int(os.environ.get("PRIVCUBE_ATTACK", "1")) > 1


def zeros(count: int) -> np.ndarray:
    """A source of zeros, for digits that do not matter."""
    return np.zeros(count, dtype=np.uint64)


def seeded(seed: int) -> Callable[[int], np.ndarray]:
    generator = np.random.default_rng(seed)
    return lambda count: generator.integers(0, 2**64, count, dtype=np.uint64)


# How many points lie below t


def volume(n: int, t: Fraction) -> Fraction:
    """(n-1)! A_n(t), from the integral over the sum q of the negative rows, by the number k of positive ones."""
    total = t ** (n - 1) / Fraction(factorial(n - 1))
    for k in range(1, n):
        inner = sum(comb(k - 1, i) * t**i * ((1 - t) / 2) ** (n - 1 - i) / Fraction(n - 1 - i) for i in range(k))
        total += Fraction(comb(n, k), factorial(k - 1) * factorial(n - k - 1)) * inner
    return total * factorial(n - 1)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 12])
def test_the_polynomial_is_the_volume_of_a_group(n: int) -> None:
    """sum_j a_j t^j (1-t)^(n-1-j), up to a factor; and A_n falls as t grows."""
    terms = crossings._polynomial(n)
    ratios, values = set(), []
    for t in (Fraction(i, 16) for i in range(17)):
        found = sum(a * t**j * (1 - t) ** (n - 1 - j) for j, a in enumerate(terms))
        values.append(volume(n, t))
        ratios.add(found / values[-1])
    assert len(ratios) == 1
    assert all(after <= before for before, after in itertools.pairwise(values))
    exact = [comb(n - 1, j) * comb(2 * n - 2 - j, n - 1) << j for j in range(n)]
    assert len({Fraction(a, b) for a, b in zip(terms, exact, strict=True)}) == 1


def test_volumes_against_numerical_integration() -> None:
    """A_3(t) is the area of a hexagon cut by the L1 ball: counted on a fine grid of two of its rows."""
    rows = (np.arange(-500, 500) + 0.5) / 500
    for t in (0.0, 0.3, 0.7):
        inside = np.abs(rows[:, None]) + np.abs(rows) + np.abs(t - rows[:, None] - rows) <= 1
        assert float(volume(3, Fraction(t))) / 2 == pytest.approx(inside.sum() / 500**2, rel=4e-3)


def exact_weights(sizes: Sequence[int]) -> list[Fraction]:
    """B_J / B_0 for J = 0..M, by plain multiplication of polynomials."""
    terms = [1]
    for n in sizes:
        own = [comb(n - 1, j) * comb(2 * n - 2 - j, n - 1) << j for j in range(n)]
        longer = [0] * (len(terms) + n - 1)
        for (i, a), (j, b) in itertools.product(enumerate(terms), enumerate(own)):
            longer[i + j] += a * b
        terms = longer
    points = len(terms) - 1
    return [Fraction(c, comb(points, at) * terms[0]) for at, c in enumerate(terms)]


@pytest.mark.parametrize(
    ("sizes", "route"),
    [
        ((2,), "all"),
        ((2, 2, 3), "all"),
        ((2,) * 500, "all"),  # these weights do not fall at all
        ((4,) * 30, "all"),
        ((16,) * 40, "some"),
        ((300, 300), "some"),
        ((5,) * 120, "some"),
    ],
    ids=lambda given: f"{len(given)} groups" if isinstance(given, tuple) else str(given),
)
@pytest.mark.parametrize("bits", [84, 130])
def test_bounds_on_the_tails_hold_the_exact_ones(sizes: tuple[int, ...], route: str, bits: int) -> None:
    weights = exact_weights(sizes)
    assert all(after <= before for before, after in itertools.pairwise(weights))  # B_J falls
    whole, above, exact = sum(weights), Fraction(0), []
    for weight in reversed(weights[1:]):
        above += weight
        exact.append(above / whole)
    exact.reverse()
    found = crossings._tails(sizes, bits)
    for k, tail in enumerate(exact, start=1):
        low, high = crossings._tail(sizes, k, bits)
        assert low <= tail * 2**bits <= high <= low + 2
    if route == "some" and bits == 84:
        assert len(found) < len(exact)


@pytest.mark.parametrize("sizes", [(300,), (150, 150), (16,) * 20, (5,) * 80], ids=lambda each: f"{len(each)} groups")
def test_weights_are_too_low_by_less_than_two_units(sizes: tuple[int, ...]) -> None:
    fine = 50
    exact = exact_weights(sizes)
    for reach in (20, 200):
        found = crossings._weights(sizes, reach, fine)
        assert len(found) == reach + 1
        assert all(0 <= weight * 2**fine - low < 2 for weight, low in zip(exact, found, strict=False))


@pytest.mark.parametrize(("points", "kept"), [(164, 164), (200, 174), (300, 199)])
def test_all_that_weights_may_be_too_low_by_is_allowed_for(
    points: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each by two units, those that are left out by all of the last: the bounds hold, and are not far off."""
    low = [40 - 40 * at // kept for at in range(kept)]
    monkeypatch.setattr(crossings, "_weights", lambda sizes, reach, fine: low[: reach + 1])
    found = crossings._tails.__wrapped__((points + 1,), 20)
    assert len(found) == kept - 1
    rest = points + 1 - kept
    least, most = low + [0] * rest, [each + 2 for each in low] + [low[-1] + 2] * rest
    off = Fraction(sum(most) - sum(least), sum(least))
    for k, (lowest, highest) in enumerate(found, start=1):
        smallest, largest = (
            Fraction(sum(above[k:]), sum(below[:k]) + sum(above[k:])) for below, above in ((most, least), (least, most))
        )
        assert smallest - off <= Fraction(lowest + 1, 2**20)
        assert Fraction(lowest, 2**20) <= smallest < largest <= Fraction(highest, 2**20)
        assert Fraction(highest - 1, 2**20) <= largest + off


def test_products_are_cut_not_changed() -> None:
    sizes = (2, 3, 3, 9, 30)
    full = crossings.product(sizes, 1000)
    assert len(full) == 1 + sum(sizes) - len(sizes)
    assert crossings.product(sizes, 10) == full[:11]
    weights = exact_weights(sizes)
    points = len(full) - 1
    assert [Fraction(c, comb(points, at) * full[0]) for at, c in enumerate(full)] == weights


@pytest.mark.parametrize("sizes", [(3, 2), (4, 3, 2), (2, 2, 2), (5,)], ids=str)
def test_the_law_of_the_numbers_below(sizes: tuple[int, ...], fits: Callable[..., bool]) -> None:
    """Enumerated: prod a_g(j_g) J! (M-J)!."""
    points, count = sum(sizes) - len(sizes), 15_000
    cases = list(itertools.product(*[range(n) for n in sizes]))
    weights = [
        prod(comb(n - 1, j) * comb(2 * n - 2 - j, n - 1) << j for n, j in zip(sizes, case, strict=True))
        * Fraction(1, comb(points, sum(case)))
        for case in cases
    ]
    drawn = Counter(map(tuple, points_below(sizes, count, system_words).tolist()))
    expected = np.array([float(w / sum(weights)) for w in weights]) * count
    assert fits(np.array([drawn[case] for case in cases]), expected)
    assert drawn.total() == sum(drawn[case] for case in cases)
    if sizes != (2, 2, 2):
        assert not fits(np.array([drawn[case] for case in cases]), np.full(len(cases), count / len(cases)))


def test_the_order_of_groups_is_kept() -> None:
    """Groups of two rows have at most one point, whatever their place in the list."""
    drawn = points_below([9, 2, 30, 2], 300, system_words)
    assert drawn[:, [1, 3]].max() == 1
    assert 3 <= drawn[:, 0].max() <= 8
    assert drawn[:, 2].max() > 8


def test_a_share_at_the_border_takes_more_bits(script: Any) -> None:
    """Weights 1, 2, 4 of 7: a word that begins like a share is decided by the next one."""
    left, right = [1, 1, 1], [4, 2, 1]  # left[i] right[2 - i]
    for border, share in ((Fraction(1, 7), 0), (Fraction(3, 7), 1)):
        word, rest = divmod(border.numerator * 2**64, border.denominator)
        second = rest * 2**64 // border.denominator
        for words, expected in (([word - 1], share), ([word + 1], share + 1)):
            split = crossings._Split(script([]))
            split._words = words
            assert split._share(left, right, 2, 7) == expected
        for last, expected in ((second - 1, share), (second + 1, share + 1)):
            split = crossings._Split(script([]))
            split._words = [last, word]
            assert split._share(left, right, 2, 7) == expected
            assert split._words == []


def test_a_share_that_ends_where_a_word_does_takes_no_more_bits(script: Any) -> None:
    """Weights 1, 2, 1 of 4."""
    for word, expected in ((2**62 - 1, 0), (2**62, 1), (3 * 2**62 - 1, 1), (3 * 2**62, 2), (2**64 - 1, 2)):
        split = crossings._Split(script([]))
        split._words = [word]
        assert split._share([1, 2, 1], [1, 1, 1], 2, 4) == expected


def test_splits_of_points_that_all_groups_have() -> None:
    """All points of all groups below t: each has as many as it can, whatever the words."""
    for sizes in ((2, 3), (2, 2, 5), (3, 4, 7, 9)):
        assert crossings._Split(seeded(1)).among(sizes, sum(sizes) - len(sizes)) == [n - 1 for n in sizes]


@pytest.mark.parametrize("total", [1, 64, 65, 128, 129, 2**20, 2**20 + 1])
def test_products_reach_the_total(total: int) -> None:
    """By a power of two, so that few of them are worked out."""
    assert total <= crossings._reach_for(total) <= max(64, 2 * total - 1)


# Who stands where


def chains(layout: Layout, below: list[int], count: int) -> Any:
    return layout.arranged(np.tile(np.array(below, dtype=np.int64), (count, 1)), system_words)


@settings(max_examples=36, deadline=None)
@given(st.data())
def test_rows_of_a_group_sum_to_t_and_fit_in_the_ball(data: Any) -> None:
    bound = tuple(data.draw(st.lists(st.integers(2, 7), min_size=1, max_size=4)))
    free = tuple(data.draw(st.lists(st.integers(1, 4), max_size=3)))
    below = [data.draw(st.integers(0, n - 1)) for n in bound]
    layout = Layout(bound, free)
    found = layout.arranged(np.array([below], dtype=np.int64), seeded(data.draw(st.integers(0, 10**6))))
    steps = np.array([0, *[data.draw(st.integers(1, 10**6)) for _ in range(layout.points)]])
    upto = np.cumsum(steps)
    t = found.total[0]
    twice = np.concatenate([np.full(sum(bound), t), np.full(sum(free), layout.points)])
    value = upto[found.end[0]] + upto[np.minimum(found.end[0], twice)]
    value = value - upto[found.start[0]] - upto[np.minimum(found.start[0], twice)]
    assert (value > 0).all()
    signed = np.where(found.minus[0], -value, value)
    place = 0
    for n, j in zip(bound, below, strict=True):
        rows = signed[place : place + n]
        assert rows.sum() == 2 * upto[t]
        assert np.abs(rows).sum() <= 2 * upto[-1]
        ends = set(found.end[0][place : place + n].tolist())
        assert sum(end < t for end in ends) == j
        place += n
    for n in free:
        assert np.abs(signed[place : place + n]).sum() <= 2 * upto[-1]
        place += n
    # every point but t has one group
    points = [
        set(found.end[0][a : a + n].tolist()) - {int(t)}
        for a, n in zip(starts((*bound, *free)), (*bound, *free), strict=True)
    ]
    assert sorted(itertools.chain(*points)) == [at for at in range(1, layout.points + 1) if at != t]


def starts(sizes: Sequence[int]) -> list[int]:
    return [sum(sizes[:at]) for at in range(len(sizes))]


@pytest.mark.parametrize(("n", "j"), [(2, 0), (3, 0), (3, 1), (3, 2), (4, 1)])
def test_arrangements_of_a_group_are_equally_likely(n: int, j: int, fits: Callable[..., bool]) -> None:
    """As many as ways to choose, by rows and by points above t: C(2n-2-j, n-1), for one group alone."""
    count = 20_000
    found = chains(Layout((n,), ()), [j], count)
    seen = Counter(map(tuple, np.concatenate([found.start, found.end, found.minus], axis=1).tolist()))
    ways = comb(2 * n - 2 - j, n - 1)
    assert len(seen) == ways
    assert ways == 1 or fits(np.array(list(seen.values())), np.full(ways, count / ways))


def test_points_of_several_groups_mix(fits: Callable[..., bool]) -> None:
    """One point below t in each of two groups, one above in the first, and a free one: 2 * 5 places of ends."""
    count = 20_000
    found = chains(Layout((3, 2), (1,)), [1, 1], count)
    seen = Counter()
    for t, end in zip(found.total.tolist(), found.end.tolist(), strict=True):
        first = tuple(sorted(set(end[:3])))
        seen[t, first, end[5]] += 1
    assert len(seen) == 10
    assert fits(np.array(list(seen.values())), np.full(10, count / 10))


def test_equal_keys_are_drawn_again(script: Any) -> None:
    """A whole draw at a time; other draws keep their keys."""
    low = 1 << 18  # the first bit that counts
    source = script([3 * low, 2 * low, 5 * low, 5 * low + 1, 7 * low, 6 * low])
    keys = random_keys(np.zeros((2, 2), dtype=np.int64), source)
    assert keys.tolist() == [[3, 2], [7, 6]]
    assert source.words == []
    largest = script([1 * low, 2 * low, 2 * low, 3 * low, 1 * low, 2 * low])
    assert random_keys(np.zeros((1, 3), dtype=np.int64), largest).tolist() == [[3, 1, 2]]
    classed = random_keys(np.array([[1, 0]]), script([low, low]))  # equal in different classes is no tie
    assert classed[0, 0] > classed[0, 1]


# Exponential numbers


def exponential_of(cells: list[int], words: list[int], source: Any) -> ExponentialDeviates:
    return ExponentialDeviates(np.array(cells, dtype=np.int64), np.array(words, dtype=np.uint64), source)


def test_deviates_are_exponential() -> None:
    """Kolmogorov and Smirnov; a scale 5 % off is rejected; the fraction and the cell are not correlated."""
    drawn = ExponentialDeviates.draw(100_000, system_words)
    values = (drawn.cell + drawn.word / 2.0**64) / 64

    def chance(sample: np.ndarray) -> float:
        below = -np.expm1(-np.sort(sample))
        places = np.arange(len(sample) + 1) / len(sample)
        return float(kolmogorov(max((below - places[:-1]).max(), (places[1:] - below).max()) * len(sample) ** 0.5))

    assert chance(values) > 1e-8
    assert chance(values * 1.05) < 1e-8
    assert abs(np.corrcoef(drawn.cell, drawn.word / 2.0**64)[0, 1]) < 6 / len(values) ** 0.5
    assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 6 / len(values) ** 0.5
    fraction = drawn.word / 2.0**64
    assert abs(fraction.mean() - (1 / 2 - 1 / (12 * 64))) < 6 / (12 * len(values)) ** 0.5


@pytest.mark.parametrize("more", [0, 2**64 - 1, 2**63])
def test_a_close_rejection_draws_more_bits_and_is_right(more: int, script: Any) -> None:
    v = 0x9E3779B97F4A7C15
    with mpmath.workdps(120):
        center = mpmath.mpf(v) / 2**64 + mpmath.mpf(2) ** -65
        close = int(mpmath.floor(mpmath.exp(-center / 64) * mpmath.mpf(2) ** 64))
        words = [2**63, more, 12345, 67890, 13579, 24680]
        source = script(words)
        one = exponential_of([5], [v], source)
        kept = bool(one.kept(np.array([close], dtype=np.uint64))[0])
        used = words[: len(words) - len(source.words)]
        digits = [close, *used[0::2]]
        uniform = sum(mpmath.mpf(word) / mpmath.mpf(2) ** (64 * at) for at, word in enumerate(digits, 1))
        value, known = one.longer.get(0, (v, 64))
        assert kept == (uniform < mpmath.exp(-mpmath.mpf(value) / mpmath.mpf(2) ** known / 64))
        assert used


def test_rejected_fractions_are_replaced(script: Any) -> None:
    """The first v is dropped (U = 1 - 2^-64 is above exp(-v/64)), the next ones are kept; cells come last."""
    v = [2**63, 7 << 40, 9 << 40, 0, 0]
    source = script([*v, 2**64 - 1, 5, 5, 5, 5, 2**63])  # five tries for one, then the word of its cell
    drawn = ExponentialDeviates.draw(1, source)
    assert drawn.word.tolist() == [7 << 40]
    assert int(drawn.cell[0]) == floor(64 * np.log(2))  # U = 1/2 is below exp(-k/64) for k up to 44
    assert source.words == []


def test_digits_that_a_decision_took_stay_those_of_the_number(script: Any) -> None:
    """The first v is kept, the next dropped; the third is kept after more digits, to which it is then known."""
    v = 0x9E3779B97F4A7C15
    with mpmath.workdps(60):
        close = int(mpmath.floor(mpmath.exp(-(mpmath.mpf(v) / 2**64 + mpmath.mpf(2) ** -65) / 64) * 2**64))
    more_of_u, more_of_v = 0, 2**62 + 9
    source = script([7, 2**63, v, 0, 0, 0, 5, 2**64 - 1, close, 5, 5, 5, more_of_u, more_of_v, 2**63, 2**62])
    drawn = ExponentialDeviates.draw(2, source)
    assert (drawn.word.tolist(), source.words) == ([7, v], [])
    assert drawn.longer == {1: (v << 64 | more_of_v, 128)}
    exact = (int(drawn.cell[1]) + Fraction(v << 64 | more_of_v, 2**128)) / 64
    assert drawn.size(1, 100)[0] == floor(exact * 2**100)


def test_digits_of_numbers_that_are_dropped_are_forgotten(script: Any) -> None:
    """The last try takes more digits and is dropped, and so is one that is kept but not needed."""
    v = 0x9E3779B97F4A7C15
    with mpmath.workdps(60):
        close = int(mpmath.floor(mpmath.exp(-(mpmath.mpf(v) / 2**64 + mpmath.mpf(2) ** -65) / 64) * 2**64))
    for more_of_u in (0, 2**64 - 1):
        source = script([7, 0, 0, 0, v, 5, 5, 5, 5, close, more_of_u, 2**63, 2**63])
        drawn = ExponentialDeviates.draw(1, source)
        assert (drawn.word.tolist(), drawn.longer, source.words) == ([7], {}, [])


def test_what_further_digits_may_change_waits_for_them(script: Any) -> None:
    """U and v of 64 bits, where exp(-v/64) is below U or above it by what follows: never decided too early."""
    rng, found = np.random.default_rng(3), 0
    with mpmath.workdps(60):
        while found < 4:
            v = int(rng.integers(0, 2**64, dtype=np.uint64))
            above, below = (int(mpmath.floor(mpmath.exp(-mpmath.mpf(v + up) / 2**70) * 2**64)) for up in (0, 1))
            if above > below:
                found += 1
                with pytest.raises(AssertionError, match="more random words"):
                    exponential_of([0], [v], script([])).kept(np.array([below], dtype=np.uint64))
    # exp(-v/64) is almost 1, and U more than that
    assert not exponential_of([0], [2**14 - 1], script([])).kept(np.array([2**64 - 1], dtype=np.uint64))[0]


def test_digits_only_grow(script: Any) -> None:
    one = exponential_of([70], [2**63 + 5], script([2**62, 1, 99]))
    before = [one.size(0, bits) for bits in (10, 64)]
    fine = one.size(0, 256)
    assert [one.size(0, bits) for bits in (10, 64)] == before
    v = Fraction((2**63 + 5) << 192 | 2**62 << 128 | 1 << 64 | 99, 2**256)
    assert fine[0] <= (70 + v) / 64 * 2**256 <= fine[1]
    assert one.at_least(50).tolist() == [before[1][0] >> 14]


# Rounding

SCALES = [
    Fraction(1, 10**15),
    Fraction(1, 7),
    Fraction(1),
    Fraction(10, 3),
    Fraction(12345),
    Fraction(10**12, 7),
    Fraction(10**12),
    Fraction(10**40 + 7, 10**39),  # as plans with many shares have them
]


@settings(max_examples=48, deadline=None)
@given(
    st.sampled_from(SCALES),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 2**64 - 1)), min_size=2, max_size=6),
    st.data(),
)
def test_rounding_against_exact_arithmetic(scale: Fraction, numbers: list[tuple[int, int]], data: Any) -> None:
    """In arrays and one by one, against fractions, with all further digits 0."""
    cells, words = (list(each) for each in zip(*numbers, strict=True))
    points = len(numbers)
    sums = Sums(exponential_of(cells, words, zeros), points, 1)
    end = data.draw(st.integers(1, points))
    start, twice = data.draw(st.integers(0, end - 1)), data.draw(st.integers(0, points))
    exact = [(cell + Fraction(word, 2**64)) / 64 for cell, word in numbers]
    value = scale / 2 * sum((2 if at < twice else 1) * exact[at] for at in range(start, end))
    places = [np.array([[at]]) for at in (start, end, twice)]
    assert sums.rounded(scale, *places).tolist() == [[floor(value + Fraction(1, 2))]]
    low, high = sums._bounds(scale, 0, [start, end, twice], 64)
    assert low <= value * 2**64 <= high <= low + 2


def test_bounds_of_long_sums_are_as_close_as_those_of_short_ones() -> None:
    points, scale = 63, Fraction(2**14 - 1)
    numbers = ExponentialDeviates.draw(20 * points, seeded(4))
    sums = Sums(numbers, points, 20)
    for draw in range(20):
        low, high = sums._bounds(scale, draw, [0, points, points], 64)
        ends = [sum(numbers.size(draw * points + at, 200)[end] for at in range(points)) for end in (0, 1)]
        assert low << 136 <= ends[0] * scale < ends[1] * scale <= high << 136
        assert high <= low + 2


@pytest.mark.parametrize("cells", [[0], [1, 900], [10**4, 0, 63], [100, *[0] * 29]], ids=str)
def test_factors_use_all_bits(cells: list[int]) -> None:
    sums = Sums(exponential_of(cells, [0] * len(cells), zeros), len(cells), 1)
    assert sum(cells) + len(cells) <= 2 ** (67 - sums._bits) <= 2 * max(sum(cells) + len(cells), 64)
    for scale in SCALES:
        point, factor = sums._scaled(scale)
        assert factor == floor(scale * Fraction(2) ** (point + 63 - sums._bits))
        assert factor < 2**64
        assert factor >= 2**62 or point == 61
        assert 1 <= point <= 61


@pytest.mark.parametrize("scale", [Fraction(7, 3), Fraction(2500), Fraction(10**11, 7)], ids=str)
def test_rounding_at_the_border_takes_more_bits(scale: Fraction, script: Any) -> None:
    """Two equal numbers whose first 64 bits contain the border between 1 and 2 go where their later bits say."""
    border = Fraction(3, 2) / scale / 2  # scale (E_1 + E_2) = 3/2
    cell, word = divmod(int(border * 64 * 2**64), 2**64)
    places = [np.array([[at]]) for at in (0, 2, 2)]
    for more, expected in ((0, 1), (2**64 - 1, 2)):
        numbers = exponential_of([cell, cell], [word, word], script([more] * 6))
        assert Sums(numbers, 2, 1).rounded(scale, *places).tolist() == [[expected]]
        assert numbers.longer
        with pytest.raises(AssertionError, match="more random words"):
            Sums(exponential_of([cell, cell], [word, word], script([])), 2, 1).rounded(scale, *places)


@pytest.mark.parametrize("scale", [Fraction(65521, 65539), Fraction(2**30 - 1, 3), Fraction(65521)], ids=str)
def test_rounding_just_above_the_border(scale: Fraction) -> None:
    """Numbers as little above k + 1/2 as 64 bits allow round to k + 1: all that is cut off is allowed for."""
    wanted = np.arange(400)
    digits = [-(-((2 * k + 1) / scale * 32 * 2**64) // 1) for k in wanted.tolist()]  # (K + v) 2^64, rounded up
    numbers = exponential_of([each >> 64 for each in digits], [each % 2**64 for each in digits], zeros)
    places = [np.full((400, 1), at) for at in (0, 1, 1)]
    sums = Sums(numbers, 1, 400)
    assert (sums.rounded(scale, *places)[:, 0] == wanted + 1).all()
    below = exponential_of([each - 1 >> 64 for each in digits], [(each - 1) % 2**64 for each in digits], zeros)
    assert (Sums(below, 1, 400).rounded(scale, *places)[:, 0] == wanted).all()


# Laws


def rounded_laplace(scale: float, values: np.ndarray) -> np.ndarray:
    size = np.abs(values)
    tail = np.exp(-(size - 0.5) / scale) * -np.expm1(-1 / scale) / 2
    return np.where(size == 0, -np.expm1(-0.5 / scale), tail)


@pytest.mark.parametrize("n", [2, 3, 8])
def test_one_group_is_laplace_noise(n: int, sample_fits: Callable[..., bool]) -> None:
    """|z|_1 is at least |t|, so the rows of a single group are independent Laplace numbers, and t is their sum."""
    count, off, reach = (10_000_000 // n, 1.01, 150) if LONG else (60_000 // n, 1.1, 120)
    parts = [section_slices(Fraction(3), [n], [], min(100_000, count)) for _ in range(0, count, 100_000)]
    t, rows = (np.concatenate(each) for each in zip(*parts, strict=True))
    count = len(t)
    for scale, right in ((3.0, True), (3.0 * off, False), (3.0 / off, False)):
        assert sample_fits(rows.ravel(), lambda k, scale=scale: rounded_laplace(scale, k), reach) == right
    assert np.abs(rows.sum(axis=1) - t[:, 0]).max() <= (n + 1) / 2
    assert np.abs(np.corrcoef(rows, rowvar=False) - np.eye(n)).max() < 6 / count**0.5
    squares = np.corrcoef(np.abs(rows), rowvar=False) - np.eye(n)
    assert np.abs(squares).max() < 6 / count**0.5


def pair_chances(scale: float, reach: int, groups: int, free: int) -> dict[tuple[int, ...], float]:
    """Chances of rounded t, of both rows of groups of two, and of single free rows, by integration over r and t.

    Given the radius r (density proportional to r^m e^(-r/scale)) and t, a row of each group is uniform on
    [(t-r)/2, (t+r)/2], the other is t minus it, and a free row is uniform on [-r, r]. So all conditions are on
    intervals, and only outcomes with |t - a - b| <= 1 for a pair a, b have a chance.
    """
    m = 1 + groups + free
    x, w = np.polynomial.legendre.leggauss(2)
    steps = np.arange(0, 30 * scale, 1 / 8)
    beyond, beyond_weight = np.ravel(steps[:, None] + (x + 1) / 16), np.tile(w / 16, len(steps))
    near, near_weight = np.ravel(np.arange(-4, 4)[:, None] / 8 + (x + 1) / 16), np.tile(w / 16, 8)
    weight = np.outer(near_weight, beyond_weight) / (scale ** (m + 1) * factorial(m) * 2 ** (1 + free))
    found: dict[tuple[int, ...], float] = {}
    singles = range(-reach, reach + 1)
    for rounded in singles:
        t = rounded + near[:, None]
        r = np.abs(t) + beyond
        pairs = [(a, rounded - a + c) for a in singles for c in (-1, 0, 1)]
        lengths = []
        for one, other in pairs:
            low = np.maximum(np.maximum((t - r) / 2, one - 0.5), t - other - 0.5)
            high = np.minimum(np.minimum((t + r) / 2, one + 0.5), t - other + 0.5)
            lengths.append(np.ravel(np.maximum(high - low, 0)))
        ones = [np.ravel(np.maximum(np.minimum(r, at + 0.5) - np.maximum(-r, at - 0.5), 0)) for at in singles]
        inside = np.ravel(weight * np.exp(-r / scale))
        left, right = ([np.array(lengths)] * groups + [np.array(ones)] * free)[:2]
        chances = (left * inside) @ right.T
        labels = [pairs] * groups + [[(at,) for at in singles]] * free
        for each, chance in zip(itertools.product(*labels), np.ravel(chances).tolist(), strict=True):
            found[(rounded, *itertools.chain(*each))] = chance
    return found


@pytest.mark.parametrize(
    ("groups", "free", "scale", "reach"), [(1, 1, Fraction(1), 4), (2, 0, Fraction(1), 4), (0, 2, Fraction(3, 2), 8)]
)
def test_joint_chances(groups: int, free: int, scale: Fraction, reach: int, fits: Callable[..., bool]) -> None:
    """Every outcome near 0, against integrated chances; a scale 10 % off is rejected (5 % if long)."""
    drawn: Counter[tuple[int, ...]] = Counter()
    for _ in range(10 if LONG else 1):
        part = section_slices(scale, [2] * groups, [1] * free, 100_000 if LONG else 30_000)
        drawn.update(map(tuple, np.concatenate(part, axis=1).tolist()))
    count = drawn.total()

    def agrees(scale: float) -> bool:
        """Outcome by outcome, and by the largest number, which shows a wrong scale best."""
        known = pair_chances(scale, reach, groups, free)
        chance, seen = np.array(list(known.values())), np.array([drawn[outcome] for outcome in known])
        assert 0.5 < chance.sum() < 1
        shell = np.append(np.abs(np.array(list(known))).max(axis=1), 2 * reach + 2)
        seen, wanted = np.append(seen, count - seen.sum()), np.append(chance, 1 - chance.sum()) * count
        return fits(seen, wanted) and fits(np.bincount(shell, seen), np.bincount(shell, wanted))

    assert agrees(float(scale))
    off = 1.05 if LONG else 1.1
    assert not agrees(float(scale) * off)
    assert not agrees(float(scale) / off)


def test_privacy_of_pairs() -> None:
    """Chances of all outcomes, moved by a record or a replaced one: the ratio is bounded, and the bound is reached."""
    scale = 2.0
    known = pair_chances(scale, 7, 2, 0)
    for move, cost in (((1, 1, 0, 1, 0), 1), ((1, 0, 1, 1, 0), 1), ((0, 1, -1, 1, -1), 2), ((0, -1, 1, 0, 0), 2)):
        ratios = []
        for outcome, chance in known.items():
            moved = known.get(tuple(a + b for a, b in zip(outcome, move, strict=True)))
            if moved and chance > 1e-8 and moved > 1e-8:
                ratios.append(np.log(moved / chance))
        assert len(ratios) > 1000
        assert max(np.abs(ratios)) <= cost / scale * 1.002  # nodes 4 times as close bring 1.0012 down to 1.00008
        assert min(max(ratios), -min(ratios)) >= cost / scale * 0.97


def box_points(bound: Sequence[int], free: Sequence[int], count: int, rng: np.random.Generator) -> np.ndarray:
    """The continuous noise at scale 1 by an independent way: points of boxes, kept if they lie in the body."""
    kept, have = [], 0
    m = 1 + sum(bound) - len(bound) + sum(free)
    while have < count:
        t = rng.uniform(-1, 1, 300_000)
        inside, columns = np.ones(len(t), dtype=bool), [t[:, None]]
        for n in bound:
            rows = rng.uniform(-1, 1, (len(t), n - 1))
            columns.append(np.column_stack([rows, t - rows.sum(axis=1)]))
            inside &= np.abs(columns[-1]).sum(axis=1) <= 1
        for n in free:
            columns.append(rng.uniform(-1, 1, (len(t), n)))
            inside &= np.abs(columns[-1]).sum(axis=1) <= 1
        kept.append(np.concatenate(columns, axis=1)[inside])
        have += len(kept[-1])
    return np.concatenate(kept) * rng.gamma(m + 1, size=have)[:, None]


@pytest.mark.parametrize(("bound", "free"), [([3, 3], []), ([4], [1]), ([3, 2], [])], ids=str)
def test_joint_law_against_another_way_of_drawing(bound: list[int], free: list[int], fits: Callable[..., bool]) -> None:
    """Signs of all rows, which is largest, the norm, and the share of t in it: joint frequencies of two samples."""
    count, off = (60_000, 1.05) if LONG else (20_000, 1.1)
    ends = np.cumsum([1, *bound, *free])
    drawn = np.concatenate(section_slices(Fraction(10**6), bound, free, count), axis=1) / 10**6
    other = box_points(bound, free, count, np.random.default_rng(sum(bound) + 10 * len(bound)))[:count]

    def norm(points: np.ndarray) -> np.ndarray:
        return np.max([np.abs(points[:, a:b]).sum(axis=1) for a, b in itertools.pairwise(ends)], axis=0)

    borders = np.quantile(norm(other), np.arange(0.05, 1, 0.05))

    def cells(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        signs = (points > 0) @ (1 << np.arange(points.shape[1]))
        largest = np.abs(points[:, 1:]).argmax(axis=1)
        size = np.digitize(norm(points), borders)
        share = np.digitize(np.abs(points[:, 0]) / norm(points), [0.15, 0.35, 0.6])
        return ((signs * points.shape[1] + largest) * 4 + size // 5) * 4 + share, size

    def same(points: np.ndarray) -> bool:
        """Two counts x, y with one mean: (x + y)/2 + (x - y)/sqrt 2 has the variance of a count around (x + y)/2."""
        results = []
        for one, two in zip(cells(points), cells(other), strict=True):
            labels, place = np.unique(np.concatenate([one, two]), return_inverse=True)
            x, y = (np.bincount(each, minlength=len(labels)) for each in np.split(place, 2))
            results.append(fits((x + y) / 2 + (x - y) / 2**0.5, (x + y) / 2))
        return all(results)

    assert same(drawn)
    assert not same(drawn * off)
    assert not same(drawn / off)
    flipped = drawn.copy()
    flipped[:, 1] *= -1
    assert not same(flipped)


@pytest.mark.parametrize(
    ("bound", "free", "count"),
    [([3, 5, 4], [2, 1], 20_000), ([3] * 10, [], 10_000), ([9, 16, 7, 15, 6, 5, 2, 2], [], 6_000)],
    ids=str,
)
def test_moments(bound: list[int], free: list[int], count: int) -> None:
    """Variances of t, residuals and free rows, and the fourth moment of an error; a scale 5 % off is rejected."""
    scale = 1000
    drawn = [rows / scale for rows in section_slices(Fraction(scale), bound, free, count)]
    stated = section_variances(Counter(bound), Counter(free))
    t = drawn[0][:, 0]
    squares = [t**2 / stated.total]
    for n, rows in zip(bound, drawn[1:], strict=False):
        squares.append(((rows - t[:, None] / n) ** 2).sum(axis=1) / ((n - 1) * stated.residual[n]))
    for n, rows in zip(free, drawn[1 + len(bound) :], strict=True):
        squares.append((rows**2).mean(axis=1) / stated.free[n])
    weights = np.arange(bound[0]) - (bound[0] - 1) / 2
    error = t / 3 + drawn[1] @ weights
    sums = [float((weights**power).sum()) for power in (2, 3, 4)]
    fourth = section_fourth_moment(Counter(bound), Counter(free), 1 / 3, [GroupWeights(bound[0], *sums)])
    residual_part = np.mean(squares[1:], axis=0)

    def agrees(factor: float) -> bool:
        found = np.column_stack([*squares, residual_part, error**4 / fourth * factor**2]) * factor**2
        return bool(np.all(np.abs(found.mean(axis=0) - 1) < 6 * found.std(axis=0) / count**0.5))

    assert agrees(1.0)
    assert not agrees(1.05)
    assert not agrees(1 / 1.05)


def test_shapes_and_sums() -> None:
    """One array for each group in the order given; sums agree to rounding; draws one by one and many at once."""
    bound, free = [4, 2, 7, 2], [3, 1]
    one = section_noise(Fraction(5), bound, free)
    assert [len(rows) for rows in one] == [1, *bound, *free]
    many = section_slices(Fraction(10**9), bound, free, 25)
    assert [rows.shape for rows in many] == [(25, n) for n in (1, *bound, *free)]
    assert {rows.dtype for rows in (*one, *many)} == {np.dtype(np.int64)}
    for n, rows in zip(bound, many[1:], strict=False):
        assert np.abs(rows.sum(axis=1) - many[0][:, 0]).max() <= (n + 1) / 2
    assert len(section_slices(Fraction(1), [3], [], 0)[1]) == 0
    assert not any(rows.any() for rows in section_noise(Fraction(1, 10**15), bound, free))
    assert all(rows.any() for rows in section_noise(Fraction(10**12), bound, free))


def test_many_draws_are_worked_out_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded, and no draw is repeated."""
    monkeypatch.setattr(section, "_AT_ONCE", 64)
    asked = []
    source = lambda n: asked.append(n) or system_words(n)  # noqa: E731
    t, rows = section_slices(Fraction(10**9), [3], [], 100, source)
    assert len({tuple(each) for each in rows.tolist()}) == 100
    assert t.shape == (100, 1)
    assert max(asked) < 100


def test_large_bundles() -> None:
    for bound, free in (([512] * 3, [1]), ([4] * 120, []), ([2] * 700, [5]), ([], [300])):
        found = section_noise(Fraction(50), bound, free)
        for n, rows in zip(bound, found[1:], strict=False):
            assert abs(int(rows.sum()) - int(found[0][0])) <= (n + 1) / 2


def test_the_same_words_give_the_same_noise() -> None:
    drawn = [section_slices(Fraction(10**11), [5, 4, 3], [2], 20, seeded(3)) for _ in range(2)]
    assert all((one == two).all() for one, two in zip(*drawn, strict=True))


@pytest.mark.parametrize(
    "scale", [Fraction(0), Fraction(-1), Fraction(10**12 + 1), Fraction(1, 10**15 + 1), 1.0, 5, None]
)
def test_scales_refused(scale: Any, script: Any) -> None:
    with pytest.raises(GuaranteeError, match=r"^noise scale: expected a fraction from 1e-15 to 1e12, given "):
        section_noise(scale, [3], [], script([]))


@pytest.mark.parametrize(("bound", "free"), [([], []), ([1], []), ([3, 0], []), ([3], [0]), ([], [-1])])
def test_groups_refused(bound: list[int], free: list[int], script: Any) -> None:
    with pytest.raises(GuaranteeError, match="groups of cells of at least two rows"):
        section_noise(Fraction(1), bound, free, script([]))


def test_too_many_rows_are_refused(script: Any, effort: Any) -> None:
    with effort.counted(), pytest.raises(GuaranteeError, match="at most 8,192 rows"):
        section_noise(Fraction(1), [4096, 4096], [1], script([]))
    assert effort.calls < 1000
