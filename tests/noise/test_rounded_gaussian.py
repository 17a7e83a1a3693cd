"""Rounded Gaussian noise: bounds against mpmath, decisions against exact arithmetic, draws against the distribution."""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from math import isqrt
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import erfc
from scipy.stats import kstest

from privcube.errors import GuaranteeError
from privcube.sensitive.noise import rounded_gaussian
from privcube.sensitive.noise.bits import system_words
from privcube.sensitive.noise.coins import bounds
from privcube.sensitive.noise.lazy_normal import MOST_CELLS, NormalDeviates, nearest_whole
from privcube.sensitive.noise.normal_tails import BITS, tail_bound, tail_bounds
from privcube.sensitive.noise.rounded_gaussian import _scaled, _table, rounded_deviates, upper_half

VARIANCES = [Fraction(1, 10**15), Fraction(1, 50), Fraction(1, 4), Fraction(7, 3), Fraction(2500), Fraction(10**6, 7)]
MANY = 10_000_000 if int(os.environ.get("PRIVCUBE_ATTACK", "1")) > 1 else 600_000
WIDE = [Fraction(2**20 + 1), Fraction(10**12, 7), Fraction(10**20), Fraction(10**30)]


def exact_tail(variance: Fraction, k: int) -> mpmath.mpf:
    x = (2 * k - 1) / (2 * mpmath.sqrt(mpmath.mpf(variance.numerator) / variance.denominator))
    return mpmath.erfc(x / mpmath.sqrt(2))


def chances(variance: float, values: np.ndarray) -> np.ndarray:
    """P(X = k), from the tail beyond the end of the cell nearer to 0, so that nothing cancels far out."""
    near = (np.abs(values) - 0.5) / np.sqrt(2 * variance)
    return (erfc(near) - erfc(near + 1 / np.sqrt(2 * variance))) / 2


def deviates_of(cells: list[int], words: list[int], source: Any, minus: bool = False) -> NormalDeviates:
    """Chosen deviates."""
    signs = np.full(len(cells), minus)
    return NormalDeviates(np.array(cells, dtype=np.int64), np.array(words, dtype=np.uint64), signs, source)


# Bounds


@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_tails_hold_the_exact_ones(variance: Fraction) -> None:
    with mpmath.workdps(80):
        found = tail_bounds(variance)
        step = max(1, len(found) // 60)
        for k in [*range(1, len(found) + 1, step), len(found)]:
            low, high = found[k - 1]
            assert 0 <= low <= exact_tail(variance, k) * 2**BITS <= high <= low + 128
            close = tail_bound(variance, k, 96)
            assert close[0] <= exact_tail(variance, k) * 2**96 <= close[1] <= close[0] + 2
        assert exact_tail(variance, len(found) + 1) * 2**64 < 1


@pytest.mark.parametrize("variance", VARIANCES[1:], ids=str)
def test_the_table_has_the_whole_parts(variance: Fraction) -> None:
    ascending = _table(variance).ascending
    with mpmath.workdps(60):
        for k in {1, 2, 3, len(ascending) // 3, len(ascending)} - {0}:
            if k <= len(ascending):
                assert int(ascending[len(ascending) - k]) == int(mpmath.floor(exact_tail(variance, k) * 2**64))


# Lazily drawn digits


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1200), st.integers(0, 2**64 - 1)), min_size=1, max_size=20))
@example([(cell, word) for cell in (0, MOST_CELLS - 1, MOST_CELLS) for word in (0, 2**63 + 5, 2**64 - 1)])
def test_bounds_on_the_exponent_of_the_rejection(found: list[tuple[int, int]]) -> None:
    cells, words = (list(each) for each in zip(*found, strict=True))
    low, high = (each.tolist() for each in deviates_of(cells, words, system_words)._exponents())
    for place, (cell, word) in enumerate(found):
        ends = [Fraction(v, 2**64) for v in (word, word + 1)]
        least, most = ((2 * cell * v + v * v) * 2**56 / (2 * 64**2) for v in ends)
        assert low[place] <= least <= most <= high[place] or cell >= MOST_CELLS
        assert (low[place], high[place]) == (0, 2**62) or high[place] - low[place] <= (cell + 2) * 2**13
        assert cell < MOST_CELLS or (low[place], high[place]) == (0, 2**62)


@pytest.mark.parametrize("cell", [0, 1, 64, 500, 1000])
@pytest.mark.parametrize("more", [0, 2**64 - 1, 2**63])
def test_a_close_rejection_draws_more_bits_and_is_right(cell: int, more: int, script: Any) -> None:
    """A uniform number that starts like the probability is told from it by the bits that follow."""
    v = 0x9E3779B97F4A7C15
    with mpmath.workdps(120):
        center = mpmath.mpf(v) / 2**64 + mpmath.mpf(2) ** -65
        close = int(mpmath.floor(mpmath.exp(-(2 * cell * center + center**2) / (2 * 64**2)) * mpmath.mpf(2) ** 64))
        words = [close, 2**63, more, 12345, 67890, 13579, 24680]  # U, then by turns U and v
        source = script(words)
        one = deviates_of([cell], [v], source)
        kept = bool(one._kept()[0])
        used = words[: len(words) - len(source.words)]
        uniform = sum(
            mpmath.mpf(word) / mpmath.mpf(2) ** (64 * at) for at, word in enumerate([used[0], *used[1::2]], 1)
        )
        value, known = one.longer.get(0, (v, 64))
        exponent = mpmath.mpf(value) / mpmath.mpf(2) ** known
        chance = mpmath.exp(-(2 * cell * exponent + exponent**2) / (2 * 64**2))
        assert kept == (uniform < chance)
        assert len(used) > 1 or cell == 0


@pytest.mark.parametrize("cell", [0, 10])
def test_a_word_that_begins_like_the_lower_bound_is_not_kept_for_that(cell: int) -> None:
    """At the end of the unit of 2^-31 that begins with the bound; some of these lie above the probability."""
    count = 200
    cells, words = [cell] * count, np.random.default_rng(cell).integers(0, 2**64, count, dtype=np.uint64).tolist()
    least, _ = bounds(deviates_of(cells, words, system_words)._exponents())
    first = least.astype(np.uint64) << np.uint64(33) | np.uint64(2**33 - 1)
    made = deviates_of(cells, words, lambda asked: first if asked == count else system_words(asked))
    v = made.word / 2.0**64
    above = (first >> np.uint64(16)) / 2.0**48 - np.exp(-(2 * cell * v + v * v) / (2 * 64**2))
    clear = np.abs(above) > 2.0**-40
    assert np.array_equal(made._kept()[clear], (above < 0)[clear])
    assert np.count_nonzero(above[clear] > 0) > 5


def test_the_digits_of_a_deviate_only_grow(script: Any) -> None:
    one = deviates_of([70], [2**63 + 5], script([2**62, 1, 99]), minus=True)
    before = [one.size(0, bits) for bits in (10, 64)]
    fine = one.size(0, 256)
    assert [one.size(0, bits) for bits in (10, 64)] == before
    for bits, (low, high) in zip((10, 64), before, strict=True):
        assert low << 256 - bits <= fine[0] < fine[1] <= high << 256 - bits
    v = Fraction((2**63 + 5) << 192 | 2**62 << 128 | 1 << 64 | 99, 2**256)
    assert fine[0] <= (70 + v) / 64 * 2**256 <= fine[1]
    assert one.signed(0, 256) == (-fine[1], -fine[0])


def test_nearest_whole_asks_for_more_until_it_is_decided() -> None:
    asked = []

    def just_below(bits: int) -> tuple[int, int]:
        """5/2 - 2^-200."""
        asked.append(bits)
        exact = (5 * 2**199 - 1) * Fraction(2**bits, 2**200)
        return exact.numerator // exact.denominator, -(-exact.numerator // exact.denominator)

    assert nearest_whole(just_below) == 2
    assert asked == [64, 128, 256]


@settings(max_examples=80, deadline=None)
@given(st.sampled_from([*VARIANCES, *WIDE]), st.integers(0, 950), st.integers(0, 2**64 - 1))
def test_rounding_against_exact_arithmetic(variance: Fraction, cell: int, word: int) -> None:
    """The whole array and the one by one path, against squares in fractions, with all further bits 0."""
    one = deviates_of([cell], [word], lambda count: np.zeros(count, dtype=np.uint64))
    squared = variance * (cell + Fraction(word, 2**64)) ** 2 / 64**2
    expected = (isqrt(int(4 * squared)) + 1) // 2  # floor(root + 1/2)
    assert rounded_deviates(variance, one).tolist() == [expected]
    assert rounded_deviates(variance, deviates_of([cell], [word], one.source, minus=True)).tolist() == [-expected]


@pytest.mark.parametrize("variance", [Fraction(7, 3), Fraction(2500), Fraction(10**12, 7)], ids=str)
def test_rounding_at_the_border_takes_more_bits(variance: Fraction, script: Any) -> None:
    """A deviate whose first 64 bits contain the border between 1 and 2 goes where its later bits say."""
    border = isqrt(int(96**2 * 4**64 / variance))  # sigma z = 3/2
    cell, word = divmod(border, 2**64)
    for more, expected in ((0, 1), (2**64 - 1, 2)):
        assert rounded_deviates(variance, deviates_of([cell], [word], script([more] * 3))).tolist() == [expected]
        with pytest.raises(AssertionError, match="more random words"):
            rounded_deviates(variance, deviates_of([cell], [word], script([])))


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_upper_halves_of_products(left: int, right: int) -> None:
    assert int(upper_half(np.array([left], dtype=np.uint64), right)[0]) == left * right >> 64


def test_scaled_deviations_use_all_bits() -> None:
    for variance in [*VARIANCES, *WIDE]:
        point, factor = _scaled(variance)
        s = point + 4
        assert factor < 2**64
        assert factor**2 <= variance * 4**s < (factor + 1) ** 2
        assert factor >= 2**63 or s == 65
        assert 1 <= point <= 61


# Distributions


@pytest.mark.parametrize(
    "variance", [Fraction(1, 20), Fraction(1, 3), Fraction(50, 7), Fraction(2500), Fraction(10**6)], ids=str
)
def test_exact_probabilities(variance: Fraction, sample_fits: Callable[..., bool]) -> None:
    """From a table and digit by digit: the right variance passes, variances slightly off do not."""
    count, off = MANY, Fraction(104, 100)
    reach = int(12 * float(variance) ** 0.5) + 12

    def weight(values: np.ndarray) -> np.ndarray:
        return chances(float(variance), values)

    assert sample_fits(rounded_gaussian(variance, count), weight, reach)
    for wrong in (variance * off, variance / off):
        assert not sample_fits(rounded_gaussian(wrong, count), weight, reach)
    deviates = NormalDeviates.draw(count // 3, system_words)
    assert sample_fits(rounded_deviates(variance, deviates), weight, reach)
    assert not sample_fits(rounded_deviates(variance * off**2, deviates), weight, reach)


def test_it_is_not_discrete_gaussian_noise(sample_fits: Callable[..., bool]) -> None:
    """The two differ most where noise is narrow; the same test tells them apart."""
    found = rounded_gaussian(Fraction(1, 3), 600_000)
    assert not sample_fits(found, lambda k: np.exp(-(k**2) / (2 / 3)), 20)


def test_deviates_are_normal() -> None:
    """Kolmogorov and Smirnov; a scale 3 % off is rejected."""
    drawn = NormalDeviates.draw(200_000, system_words)
    values = (drawn.cell + drawn.word / 2.0**64) / 64 * np.where(drawn.minus, -1, 1)
    assert kstest(values, "norm").pvalue > 1e-8
    assert kstest(1.03 * np.abs(values), "halfnorm").pvalue < 1e-8
    assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 6 / len(values) ** 0.5
    assert abs(np.corrcoef(np.abs(values), drawn.minus)[0, 1]) < 6 / len(values) ** 0.5


@pytest.mark.parametrize("variance", WIDE, ids=str)
def test_wide_noise(variance: Fraction) -> None:
    spread = float(variance) ** 0.5
    found = rounded_gaussian(variance, 40_000)
    assert kstest(found / spread, "norm").pvalue > 1e-8
    assert kstest(found / spread * 1.1, "norm").pvalue < 1e-8
    assert len(set((found % 10).tolist())) == 10


def test_narrow_noise_is_nothing() -> None:
    assert not rounded_gaussian(Fraction(1, 10**15), 50).any()
    assert not rounded_gaussian(Fraction(1, 10**15), 5000).any()
    assert len(rounded_gaussian(Fraction(1), 0)) == 0


def test_the_same_words_give_the_same_noise() -> None:
    """Noise is a function of the random words alone, in both ways of drawing it."""
    for count in (300, 5000):
        drawn = []
        for _ in range(2):
            generator = np.random.default_rng(7)
            source = lambda n, g=generator: g.integers(0, 2**64, n, dtype=np.uint64)  # noqa: E731
            drawn.append(rounded_gaussian(Fraction(50, 7), count, source))
        assert (drawn[0] == drawn[1]).all()


def test_what_is_refused() -> None:
    for variance in (Fraction(0), Fraction(-1), Fraction(10**30 + 1), Fraction(1, 10**15 + 1), 1.0, 5, None):
        with pytest.raises(GuaranteeError, match="noise variance"):
            rounded_gaussian(variance, 1)
