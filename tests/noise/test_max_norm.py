"""Noise by the largest of several L1 norms: weights against exact numbers, draws against enumerated probabilities."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from functools import cache
from math import comb
from typing import Any

import numpy as np
import pytest

from privcube.sensitive.noise import discrete_laplace, max_norm, max_norm_noise
from privcube.sensitive.noise.bits import system_words, uniform_below
from privcube.sensitive.noise.fixed import context_of, power_of_ten
from privcube.sensitive.noise.weights import Cumulative, drawn_index

BUNDLES = [
    ([1, 1], Fraction(1, 2)),
    ([2, 1], Fraction(1)),
    ([1, 1, 2], Fraction(2)),
    ([3, 5, 5], Fraction(7, 3)),
    ([1, 1], Fraction(1, 10**12)),
    ([40, 40, 7], Fraction(20)),  # its window does not begin at 0
    ([1] * 300, Fraction(10)),
]
LONG = int(os.environ.get("PRIVCUBE_ATTACK", "1")) > 1
if LONG:
    BUNDLES += [([1, 2, 3], Fraction(1, 3)), ([4, 4], Fraction(1)), ([2, 2, 2, 2], Fraction(3, 2))]


def ball(size: int, radius: int) -> int:
    """The lattice points of an L1 ball, counted by the number of coordinates that are not zero."""
    return sum(2**i * comb(size, i) * comb(radius, i) for i in range(min(size, radius) + 1))


def test_balls() -> None:
    """The formula of these tests against plain enumeration."""
    for size, radius in [(1, 0), (1, 4), (2, 3), (3, 2), (3, 4)]:
        points = itertools.product(range(-radius, radius + 1), repeat=size)
        assert ball(size, radius) == sum(sum(map(abs, point)) <= radius for point in points)


@pytest.mark.parametrize(("sizes", "scale"), BUNDLES)
def test_radius_weights(sizes: list[int], scale: Fraction, exact: Any) -> None:
    """The bounds on every cumulative share hold the exact value and leave less than a thousandth of a unit open."""
    weights = {bits: max_norm._radius_weights(scale, Counter(sizes), 36 + bits * 31 // 100) for bits in (64, 128)}
    step = exact.exp(-exact.mpf(scale.denominator) / scale.numerator)
    total, sums = exact.mpf(0), []
    for radius in range(2 * max(made.last for made in weights.values()) + 51):
        points = 1
        for size, times in Counter(sizes).items():
            points *= ball(size, radius) ** times
        total += points * step**radius
        sums.append(total)
    for bits, made in weights.items():
        assert (made.first > 0) == (sizes in ([40, 40, 7], [1] * 300))
        places = np.unique(np.linspace(0, made.last + 40, 80).astype(int)).tolist()
        for index in [*places, made.first, made.last, max(made.first - 1, 0), made.last + 1]:
            low, high = made.share_bounds(index, bits)
            share = sums[index] / total * exact.mpf(2) ** bits
            assert low <= share <= high <= low + 2


def spread(bundle: Counter[int], scale: Fraction, first: int, last: int, digits: int) -> Decimal:
    """Of the last weight over the first: the share by which it differs if every step is rounded up, or down."""
    down, up = context_of(digits), context_of(digits)
    down.rounding, up.rounding = ROUND_FLOOR, ROUND_CEILING

    def ratio(n: int, radius: int) -> tuple[Decimal, Decimal]:
        """B(n, radius + 1) / B(n, radius), from sums over the coordinates that are not zero."""
        sums = []
        for r in (radius, radius + 1):
            low = high = low_sum = high_sum = Decimal(1)
            for i in range(min(n, r)):
                top, bottom = Decimal(2 * (n - i) * (r - i)), Decimal((i + 1) ** 2)
                low, high = down.multiply(low, down.divide(top, bottom)), up.multiply(high, up.divide(top, bottom))
                low_sum, high_sum = down.add(low_sum, low), up.add(high_sum, high)
            sums.append((low_sum, high_sum))
        return down.divide(sums[1][0], sums[0][1]), up.divide(sums[1][1], sums[0][0])

    argument = [each.divide(Decimal(-scale.denominator), Decimal(scale.numerator)) for each in (down, up)]
    unit = Decimal(1).scaleb(1 - digits)  # exp is always rounded to the nearest number
    steps = down.multiply(down.exp(argument[0]), 1 - unit), up.multiply(up.exp(argument[1]), 1 + unit)
    growth = {n: ratio(n, first) for n in bundle}
    least = most = Decimal(1)
    for r in range(first, last):
        least, most = down.multiply(least, steps[0]), up.multiply(most, steps[1])
        for n, times in bundle.items():
            for _ in range(times):
                least, most = down.multiply(least, growth[n][0]), up.multiply(most, growth[n][1])
            low, high = (
                each.divide(Decimal(r + 1), own) for each, own in zip((down, up), growth[n][::-1], strict=True)
            )
            growth[n] = (
                down.divide(down.add(Decimal(2 * n + 1), low), Decimal(r + 2)),
                up.divide(up.add(Decimal(2 * n + 1), high), Decimal(r + 2)),
            )
    wide = context_of(2 * digits)
    return wide.subtract(wide.divide(most, least), Decimal(1))


@pytest.mark.parametrize(
    ("sizes", "scale"),
    [
        *BUNDLES[:6],
        ([1, 2], Fraction(7, 10**12 + 39)),
        ([7] * 30, Fraction(4)),
        ([1] * 20, Fraction(1, 60)),  # many groups, and but three weights
    ],
)
def test_rounding_is_allowed_for(sizes: list[int], scale: Fraction) -> None:
    """The stated error is at least what roundings add up to if all of them, by half a unit, go the same way."""
    made = max_norm._radius_weights(scale, Counter(sizes), 55)
    found = spread(Counter(sizes), scale, made.first, made.last, 55)
    assert Decimal("1e-55") < found < 2 * made.error
    steps = range(made.first, made.last)
    proved = 3 * len(sizes) * sum(r + 2 for r in steps) + len(steps) * (2 + 1 / scale)  # in units, by the docstring
    assert Fraction(made.error) >= proved / 10**54


@pytest.mark.parametrize(
    ("sizes", "scale"), [([40, 40, 7], Fraction(20)), ([1] * 300, Fraction(10)), ([200, 200], Fraction(2))]
)
def test_the_window_is_guessed_well(sizes: list[int], scale: Fraction, exact: Any) -> None:
    """So that it need not be widened, and is not much wider than it has to be."""
    step = context_of(60).exp(context_of(60).divide(Decimal(-scale.denominator), Decimal(scale.numerator)))
    mode, width = max_norm._guessed_window(step, Counter(sizes), 25)

    def logarithm(radius: int) -> float:
        points = sum(times * exact.log10(ball(size, radius)) for size, times in Counter(sizes).items())
        return float(points - radius / exact.mpf(scale.numerator) * scale.denominator / exact.log(10))

    best = max(range(mode - 5, mode + 6), key=logarithm)
    assert abs(best - mode) <= 1
    assert 25 <= logarithm(best) - logarithm(mode - width) <= 45


@pytest.mark.parametrize(("size", "radius"), [(1, 0), (1, 5), (2, 1), (4, 9), (200, 30), (30, 2000)])
@pytest.mark.parametrize("bits", [64, 192])
def test_support_weights(size: int, radius: int, bits: int) -> None:
    """Against whole numbers: the shares are exact within the bounds, and the last is all."""
    made = max_norm._support_weights(size, radius, 36 + bits * 31 // 100)
    assert (made.first, made.last) == (0, min(size, radius))
    total, seen = ball(size, radius), 0
    for i in range(made.last + 1):
        seen += 2**i * comb(size, i) * comb(radius, i)
        low, high = made.share_bounds(i, bits)
        assert low <= Fraction(seen * 2**bits, total) <= high <= low + 2
    assert seen == total
    assert made.error >= 2 * (made.last + 1) * power_of_ten(1 - 36 - bits * 31 // 100)  # two roundings for each


def test_sums_have_more_digits_than_weights() -> None:
    """So that rounding them adds nothing that counts, however many there are."""
    weight = context_of(30).divide(Decimal(1), Decimal(3))
    made = Cumulative.of(0, [weight] * 1000, 30, below=Decimal(0), above=Decimal(0), error=Decimal(0))
    for index in (1, 10, 999):
        assert abs(Fraction(made.sums[index]) / ((index + 1) * Fraction(weight)) - 1) < Fraction(1, 10**36)


@pytest.mark.parametrize("index", [1, 2, 4, 5])
def test_bounds_hold_whatever_is_left_out(index: int) -> None:
    """For all weights that fit what is known: up to 2 before the first, up to 3 after the last, sums 10 % off."""
    ends = [Fraction(each) for each in ("2", "3", "0.1")]
    below, above, error = (Decimal(each) for each in ("2", "3", "0.1"))
    made = Cumulative.of(2, [Decimal(w) for w in (4, 5, 6)], 60, below=below, above=above, error=error)
    low, high = (Fraction(bound, 2**64) for bound in made.share_bounds(index, 64))
    known, shares = {1: 0, 2: 4, 4: 15, 5: 15}[index], []
    for before, after, off, all_off in itertools.product((0, ends[0]), (0, ends[1]), (-1, 1), (-1, 1)):
        here = known * (1 + off * ends[2]) + before + (after if index > 4 else 0)
        shares.append(here / (15 * (1 + all_off * ends[2]) + before + after))
    assert low <= min(shares)
    assert high >= min(1, max(shares))
    assert min(shares) - low < Fraction(1, 4)
    assert high - min(1, max(shares)) < Fraction(1, 4)


def test_drawn_index(script: Any) -> None:
    """Words next to each cumulative share of 1, 2, 0, 3, 4 give the right index; a word at a share takes one more."""
    weights = [1, 2, 0, 3, 4]

    def known(digits: int) -> Cumulative:
        error = Decimal((0, (1,), 1 - digits))
        return Cumulative.of(0, [Decimal(w) for w in weights], digits, below=Decimal(0), above=Decimal(0), error=error)

    for index, share in [(0, Fraction(1, 10)), (1, Fraction(3, 10)), (3, Fraction(6, 10))]:
        word, rest = divmod(share.numerator * 2**64, share.denominator)
        after = 3 if index == 1 else index + 1  # index 2 has no weight
        second = rest * 2**64 // share.denominator
        for words, expected in [
            ([word - 1], index),
            ([word + 1], after),
            ([word, second - 9], index),
            ([word, second + 9], after),
        ]:
            source = script(words)
            assert drawn_index(known, source) == expected
            assert source.words == []
    assert drawn_index(known, script([0, 2**63])) == 0
    assert drawn_index(known, script([2**64 - 1, 2**63])) == 4


@pytest.mark.parametrize(("sizes", "scale"), BUNDLES[:4])
def test_drawn_radius(sizes: list[int], scale: Fraction, script: Any, exact: Any) -> None:
    """The radius changes exactly at the exact cumulative shares, also beyond the weights kept at first."""
    step = exact.exp(-exact.mpf(scale.denominator) / scale.numerator)
    weights = [step**r * exact.fprod(ball(size, r) for size in sizes) for r in range(int(250 * scale) + 60)]
    total, seen = exact.fsum(weights), exact.mpf(0)
    known = cache(lambda digits: max_norm._radius_weights(scale, Counter(sizes), digits))
    for radius, weight in enumerate(weights[:12]):
        seen += weight
        share = int(exact.floor(seen / total * exact.mpf(2) ** 128))
        first, second = share >> 64, share % 2**64
        assert drawn_index(known, script([first - 2])) == radius
        assert drawn_index(known, script([first + 2])) == radius + 1
        assert drawn_index(known, script([first, second - 9])) == radius
        assert drawn_index(known, script([first, second + 9])) == radius + 1
    far = drawn_index(known, script([2**64 - 1] * 3 + [2**63]))  # U = 1 - 2^-193
    rests = [exact.fsum(weights[index + 1 :]) / total for index in (far - 1, far)]
    assert rests[0] >= exact.mpf(2) ** -193 > rests[1]
    assert far > known(55).last


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remember weights and bounds from draw to draw, so that hundreds of thousands of draws take seconds."""

    class Remembered:
        def __init__(self, weights: Cumulative) -> None:
            self.last = weights.last
            self.share_bounds = cache(weights.share_bounds)

    radius, support = max_norm._radius_weights, max_norm._support_weights
    radii = cache(lambda scale, groups, digits: Remembered(radius(scale, Counter(dict(groups)), digits)))
    monkeypatch.setattr(max_norm, "_radius_weights", lambda s, groups, d: radii(s, tuple(groups.items()), d))
    monkeypatch.setattr(max_norm, "_support_weights", cache(lambda *given: Remembered(support(*given))))


def sample(scale: Fraction, sizes: Sequence[int], count: int) -> np.ndarray:
    """Draws as rows; the words come from a large block, which saves one system call a word."""
    block, place = system_words(1 << 16), 0

    def source(wanted: int) -> np.ndarray:
        nonlocal block, place
        if place + wanted > len(block):
            block, place = system_words(1 << 16), 0
        place += wanted
        return block[place - wanted : place]

    return np.array([np.concatenate(max_norm_noise(scale, sizes, source)) for _ in range(count)])


def norms(points: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """max_g |z_g|_1 of each row."""
    return np.add.reduceat(np.abs(points), np.cumsum([0, *sizes[:-1]]), axis=1).max(axis=1)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("sizes", "scale", "count"),
    [
        ([1, 1], Fraction(1, 2), 10_000_000 if LONG else 25_000),
        ([1, 1], Fraction(2), 1_000_000 if LONG else 10_000),
        ([2, 1], Fraction(1), 1_000_000 if LONG else 8_000),
        ([1, 1, 2], Fraction(1), 1_000_000 if LONG else 8_000),
    ],
)
def test_joint_probabilities(sizes: list[int], scale: Fraction, count: int, fits: Callable[..., bool]) -> None:
    """Every point has weight exp(-norm/scale); the normalizer sums shells. 10 % off is rejected (long: 5 %)."""
    reach = 5
    grid = np.array(list(itertools.product(range(-reach, reach + 1), repeat=sum(sizes))))
    grid = grid[norms(grid, sizes) <= reach]

    def expected(scale: Fraction) -> np.ndarray:
        inside, whole = 0, 0.0
        for radius in range(int(60 * scale) + 60):
            points = 1
            for size in sizes:
                points *= ball(size, radius)
            whole += (points - inside) * np.exp(-radius / float(scale))
            inside = points
        return np.exp(-norms(grid, sizes) / float(scale)) / whole

    drawn: Counter[tuple[int, ...]] = Counter()
    for start in range(0, count, 100_000):
        drawn.update(map(tuple, sample(scale, sizes, min(100_000, count - start)).tolist()))
    counts = np.array([drawn[tuple(point)] for point in grid.tolist()])
    seen = np.append(counts, count - counts.sum())

    shell = np.append(norms(grid, sizes), reach + 1)

    def agrees(scale: Fraction) -> bool:
        """Point by point, and by norm, which is what shows a wrong scale best (it is missed less than 1e-6 often)."""
        share = expected(scale)
        wanted = np.append(share, 1 - share.sum()) * count
        return fits(seen, wanted) and fits(np.bincount(shell, seen), np.bincount(shell, wanted))

    assert agrees(scale)
    off = Fraction(21, 20) if LONG else Fraction(11, 10)
    assert not agrees(scale * off)
    assert not agrees(scale / off)


@pytest.mark.usefixtures("quick")
def test_variances() -> None:
    """2 (m+1)(m+2) / ((n_g+1)(n_g+2)) scale^2 for a row of g, rows uncorrelated; 10 % off is rejected (5 % if long)."""
    sizes, scale, count, off = [4, 2, 1, 1], 20, *((20_000, 1.05) if LONG else (6_000, 1.1))
    rows = sum(sizes)
    drawn = sample(Fraction(scale), sizes, count) / scale
    sizes_of_rows = np.repeat(sizes, sizes)
    stated = 2 * (rows + 1) * (rows + 2) / ((sizes_of_rows + 1) * (sizes_of_rows + 2))

    def agrees(variance: np.ndarray) -> bool:
        """Each row, and all together, within seven standard errors, with 0.5 % for a scale that is not infinite."""
        squares = drawn**2 / variance
        squares = np.column_stack([squares, squares.mean(axis=1)])
        error = squares.std(axis=0) / np.sqrt(count)
        return bool(np.all(np.abs(squares.mean(axis=0) - 1) < 7 * error + 0.005))

    assert agrees(stated)
    assert not agrees(stated * off**2)
    assert not agrees(stated / off**2)
    correlations = np.corrcoef(drawn, rowvar=False) - np.eye(rows)
    # not independent: the mean of x^2 y^2 is up to twice the product of the variances
    assert np.abs(correlations).max() < 6 * np.sqrt(2 / count)
    assert np.abs(drawn.mean(axis=0) / drawn.std(axis=0)).max() < 6 / np.sqrt(count)


def test_one_group_is_laplace(sample_fits: Callable[..., bool]) -> None:
    """The same words give the same noise, and a sample has the right probabilities."""

    def words() -> Callable[[int], np.ndarray]:
        rng = np.random.default_rng(5)
        return lambda count: rng.integers(0, 2**64, count, dtype=np.uint64)

    assert max_norm_noise(Fraction(10**12), [3], words())[0].any()  # however wide
    [group] = max_norm_noise(Fraction(3), [30], words())
    assert group.tolist() == discrete_laplace(Fraction(3), 30, words()).tolist()
    [group] = max_norm_noise(Fraction(3), [200_000])
    assert sample_fits(group, lambda k: np.exp(-np.abs(k) / 3), 300)
    assert not sample_fits(group, lambda k: np.exp(-np.abs(k) / 3.15), 300)


def test_shape() -> None:
    """One array of whole numbers for each group, in the order given; larger bundles are quick enough."""
    sizes = [1, 30, 1, 500, 2, 1]
    drawn = max_norm_noise(Fraction(9, 2), sizes)
    assert [len(group) for group in drawn] == sizes
    assert {group.dtype for group in drawn} == {np.dtype(np.int64)}
    assert sum(len(group) for group in max_norm_noise(Fraction(5), [1] * 5000)) == 5000


class TestUniform:
    """Uniform whole numbers and subsets."""

    def test_incomplete_rounds_are_drawn_again(self, script: Any) -> None:
        """Words from the last, incomplete round are replaced until none is left; the others stay in place."""
        assert uniform_below(3, 3, script([2**64 - 1, 7, 2**64 - 2, 2**64 - 1, 4])).tolist() == [1, 1, 2]
        total = 2**62 + 1  # three rounds: 3 * 2^62 + 3
        first_late = 3 * total
        assert uniform_below(total, 2, script([first_late, first_late - 1, 9])).tolist() == [9, total - 1]

    @pytest.mark.parametrize("total", [1, 2, 2**40])
    def test_complete_rounds(self, total: int, script: Any) -> None:
        """Where the total divides 2^64 every word counts."""
        words = [0, 2**64 - 1, 2**63 + 1]
        assert uniform_below(total, 3, script(words)).tolist() == [word % total for word in words]

    @pytest.mark.parametrize("total", [2, 3, 7, 100])
    def test_uniform(self, total: int, fits: Callable[..., bool]) -> None:
        """All numbers equally often."""
        counts = np.bincount(uniform_below(total, 200_000, system_words), minlength=total)
        assert len(counts) == total
        assert fits(counts, np.full(total, 200_000 / total))

    @pytest.mark.parametrize(("total", "count"), [(2, 1), (5, 2), (5, 4), (6, 3), (69, 1), (73, 2)])
    def test_subsets(self, total: int, count: int, fits: Callable[..., bool]) -> None:
        """All subsets equally often, by both ways of drawing them; where there are thousands, by parts of them."""
        part = 1 if LONG or comb(total, count) < 1000 else 6
        cell_of = {subset: tuple(at // part for at in subset) for subset in itertools.combinations(range(total), count)}
        cells = Counter(cell_of.values())
        draws = 40 * len(cell_of) if part == 1 and len(cell_of) > 1000 else 8_000
        seen = Counter(
            cell_of[tuple(max_norm._subset(total, count, system_words).tolist())] for _ in range(draws)
        )  # of a subset
        shares = np.array(list(cells.values())) / len(cell_of)
        assert fits(np.array([seen[cell] for cell in cells]), shares * draws)

    def test_equal_words_are_all_drawn_again(self, script: Any) -> None:
        """Keeping some of them would favor subsets."""
        source = script([5, 5, 1, 30, 20, 10])
        assert max_norm._subset(3, 1, source).tolist() == [2]
        assert source.words == []
        assert max_norm._subset(3, 2, script([9, 7, 7, 1, 3, 2])).tolist() == [0, 2]

    def test_numbers_found_before_are_drawn_again(self, script: Any) -> None:
        """Few of many: as many more as are missing."""
        source = script([7, 7, 12, 12, 7, 3])
        assert max_norm._subset(1000, 3, source).tolist() == [3, 7, 12]
        assert source.words == []

    def test_all(self, script: Any) -> None:
        """The whole set takes no words."""
        assert max_norm._subset(4, 4, script([])).tolist() == [0, 1, 2, 3]


def test_ball_points(fits: Callable[..., bool]) -> None:
    """Every lattice point of a ball equally often."""
    points = [p for p in itertools.product(range(-3, 4), repeat=3) if sum(map(abs, p)) <= 3]
    support = cache(lambda digits: max_norm._support_weights(3, 3, digits))
    seen = Counter(tuple(max_norm._ball_point(3, 3, support, system_words).tolist()) for _ in range(8_000))
    assert set(seen) <= set(points)
    assert fits(np.array([seen[point] for point in points]), np.full(len(points), 8_000 / len(points)))
