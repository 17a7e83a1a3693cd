"""The tables hold exactly the whole part of 2^64 P(X >= k); words at their edges are decided as real numbers are."""

from __future__ import annotations

import os
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import pytest

from privcube.sensitive.noise import discrete_gaussian, discrete_laplace, gaussian, laplace, rounded_gaussian
from privcube.sensitive.noise import gaussian_tails as gaussian_tails_module
from privcube.sensitive.noise.bits import Words, system_words
from privcube.sensitive.noise.fixed import exp_bounds
from privcube.sensitive.noise.gaussian_tails import tail_bound as gaussian_tail_bound
from privcube.sensitive.noise.gaussian_tails import tail_bounds as gaussian_tail_bounds
from privcube.sensitive.noise.tables import TailTable

rounded_gaussian_module = sys.modules[rounded_gaussian.__module__]  # its function has the same name

# More of them in `make attack`.
MORE = [Fraction(2, 3), Fraction(9, 10), Fraction(11), Fraction(137, 10)] if "PRIVCUBE_ATTACK" in os.environ else []
SCALES = [*MORE, Fraction(1, 2), Fraction(1), Fraction(3), Fraction(7, 3), Fraction(50)]
Tails = list[Fraction]


def whole(number: Fraction) -> int:
    """The whole part."""
    return number.numerator // number.denominator


def above(number: Fraction) -> int:
    """The least whole number that is not below."""
    return -(-number.numerator // number.denominator)


def fraction(number: Any) -> Fraction:
    """The exact value of an mpmath number."""
    return Fraction(*number.as_integer_ratio())


def laplace_tails(scale: Fraction, exact: Any) -> Tails:
    """P(|X| >= k), k = 1, 2, ... to well beyond 2^-64."""
    ratio = exact.exp(-exact.mpf(scale.denominator) / scale.numerator)
    return [fraction(2 * ratio**k / (1 + ratio)) for k in range(1, whole(50 * scale) + 5)]


def gaussian_tails(scale: Fraction, exact: Any) -> Tails:
    """P(|X| >= k), k = 1, 2, ... to well beyond 2^-64."""
    variance = exact.mpf(scale.numerator**2) / scale.denominator**2
    weights = [exact.exp(-(k**2) / (2 * variance)) for k in range(whole(32 * scale) + 2)]
    total = 2 * exact.fsum(weights) - 1
    sums, tails = exact.mpf(0), []
    for weight in reversed(weights[1:]):
        sums += weight
        tails.append(fraction(2 * sums / total))
    return [tail for tail in reversed(tails) if tail > Fraction(1, 2**130)]


def geometric_tails(scale: Fraction, exact: Any) -> Tails:
    """P(G >= k) for a one-sided geometric number."""
    ratio = exact.exp(-exact.mpf(scale.denominator) / scale.numerator)
    return [fraction(ratio**k) for k in range(1, whole(50 * scale) + 5)]


def digit_tails(scale: Fraction, exact: Any) -> Tails:
    """P(B >= b) for the last digit of a geometric number in base 1024, from b's own probabilities."""
    ratio = exact.exp(-exact.mpf(scale.denominator) / scale.numerator)
    weights = [ratio**b for b in range(1024)]
    total, sums, tails = exact.fsum(weights), exact.mpf(0), []
    for weight in reversed(weights[1:]):
        sums += weight
        tails.append(fraction(sums / total))
    return tails[::-1]


def two_sided(scale: Fraction) -> TailTable:
    return laplace._two_sided_table(scale)


def squared(scale: Fraction) -> TailTable:
    return gaussian._table(scale**2)


TABLES = [
    *[pytest.param(two_sided, laplace_tails, scale, id=f"laplace {scale}") for scale in SCALES],
    *[pytest.param(squared, gaussian_tails, scale, id=f"gaussian {scale}") for scale in SCALES],
    *[pytest.param(laplace._geometric_table, geometric_tails, scale, id=f"geometric {scale}") for scale in SCALES[-2:]],
    *[
        pytest.param(laplace._digit_table, digit_tails, scale, id=f"digit {scale}")
        for scale in (Fraction(4501, 3), Fraction(10**6), Fraction(10**12), Fraction(10**15))
    ],
]


@pytest.mark.parametrize(("table", "tails", "scale"), TABLES)
class TestEveryTable:
    """Against tails worked out at 200 digits by mpmath."""

    def test_thresholds(
        self, table: Callable[..., TailTable], tails: Callable[..., Tails], scale: Fraction, exact: Any
    ):
        """Each is the whole part of 2^64 times the tail, and the first that is 0 ends the table."""
        expected = [whole(tail * 2**64) for tail in tails(scale, exact)]
        assert expected == sorted(expected, reverse=True)
        made = table(scale)
        assert made.ascending.tolist()[::-1] == [threshold for threshold in expected if threshold]
        assert (made.last is None) == (expected[-1] == 0)

    def test_most_words_are_decided_at_once(
        self, table: Callable[..., TailTable], tails: Callable[..., Tails], scale: Fraction, exact: Any, script: Any
    ):
        """Next to the thresholds, at both ends and anywhere else, one word is enough and decides rightly."""
        values = tails(scale, exact)
        made = table(scale)
        edges = {int(threshold) for threshold in made.ascending}
        near = {edge + step for edge in edges for step in (-2, -1, 1, 2)} | {2**64 - 1, 2**63}
        words = sorted(word for word in near - edges if 0 < word < 2**64)
        source = script(words)
        drawn = made.draw(len(words), source).tolist()  # the script fails if one more is drawn
        least, most = ([bound(tail * 2**64) for tail in reversed(values)] for bound in (whole, above))
        certain = [len(values) - bisect_left(least, word + 1) for word in words]  # word + 1 <= 2^64 P(X >= k)
        possible = [len(values) - bisect_right(most, word) for word in words]  # word < 2^64 P(X >= k), rounded up
        assert drawn == certain == possible

    def test_edges_take_more_words(
        self, table: Callable[..., TailTable], tails: Callable[..., Tails], scale: Fraction, exact: Any, script: Any
    ):
        """A word equal to a threshold, or 0, is decided by the next words, on both sides of the tail."""
        values = tails(scale, exact)
        rising = values[::-1]
        assert rising == sorted(rising)
        made = table(scale)
        count = len(made.ascending)
        beyond = [] if made.last is not None else [count + 1, count + 2]
        gap = 16 if made.last is None else 2**50  # the bounds of digits are less tight, by 1 / P(B >= 1023)
        for k in [*range(1, count + 1, max(1, count // 12)), count, *beyond]:
            tail = values[k - 1]
            first, second, third = (whole(tail * 2**bits) % 2**64 for bits in (64, 128, 192))
            assert first == (int(made.ascending[count - k]) if k <= count else 0)
            for words in (
                [first, second - gap],
                [first, second + gap],
                [first, second, third - gap],
                [first, second, third + gap],
            ):
                if not all(0 <= word < 2**64 for word in words):
                    continue
                bits = 64 * len(words)
                number = sum(word << (bits - 64 * (place + 1)) for place, word in enumerate(words))
                certain = len(rising) - bisect_left(rising, Fraction(number + 1, 2**bits))
                possible = len(rising) - bisect_right(rising, Fraction(number, 2**bits))
                assert certain == possible, "the words of this test do not decide"
                source = script(words)
                assert made.draw(1, source).tolist() == [certain]
                assert source.words == [], "decided too early"


def test_equal_thresholds(script: Any) -> None:
    """Several tails may share a threshold; the word equal to it is compared with each in turn."""

    def tail(k: int, bits: int) -> tuple[int, int]:
        scaled = Fraction(10, 2**64) + Fraction(3 - k, 5) / 2**64  # 10.4, 10.2, 10, 9.8, ... over 2^64
        exact = scaled * 2**bits
        return whole(exact), -whole(-exact)

    made = TailTable.of([tail(k, 320) for k in range(1, 4)], 320, tail, last=3)
    assert made.ascending.tolist() == [10, 10, 10]
    fifths = [0, 2**64 // 5 + 1, 2 * 2**64 // 5 + 1]
    for word, expected in zip(fifths, [2, 1, 0], strict=True):
        assert made.draw(1, script([10, word])).tolist() == [expected]
    assert made.draw(2, script([9, 11])).tolist() == [3, 0]


def test_sharper_bounds_for_thresholds() -> None:
    """Where bounds straddle a whole number sharper ones are asked for, and the result is the exact whole part."""
    true = Fraction(7, 2**64) + Fraction(1, 2**500)
    asked = []

    def tail(k: int, bits: int) -> tuple[int, int]:
        asked.append(bits)
        return (whole(true * 2**bits), whole(true * 2**bits) + 1) if k == 1 else (0, 1)

    made = TailTable.of([((7 << 256) - 1, (7 << 256) + 1), (0, 1)], 320, tail)
    assert made.ascending.tolist() == [7]
    assert asked == [640]


@pytest.mark.parametrize("scale", [Fraction(2000), Fraction(10**7, 3), Fraction(10**12)])
def test_digits_make_a_geometric_number(scale: Fraction, exact: Any, script: Any) -> None:
    """P(A = a) P(B = b) = (1 - r) r^(1024 a + b), and a draw is 1024 A + B of consecutive words."""
    ratio = exact.exp(-exact.mpf(scale.denominator) / scale.numerator)
    power = ratio**1024
    for a, b in [(0, 0), (0, 1023), (3, 17), (12, 1000)]:
        product = (1 - power) * power**a * ratio**b * (1 - ratio) / (1 - power)
        assert abs(product / ((1 - ratio) * ratio ** (1024 * a + b)) - 1) < exact.mpf(10) ** -150
    tables, part = [], scale
    while part > 1500:
        tables.append(laplace._digit_table(part))
        part /= 1024
    tables.append(laplace._geometric_table(part))
    words = [[10**18 + 1, 2**63, 10**12 + 7], [2**60 + 11, 77 * 2**55, 2**64 - 1]]
    rounds = [words[place % 2] for place in range(len(tables))]  # one round of words for each digit, the highest first
    expected = [0, 0, 0]
    for table, given in zip(reversed(tables), rounds, strict=True):
        digits = table.draw(3, script(given)).tolist()
        expected = [1024 * value + digit for value, digit in zip(expected, digits, strict=True)]
    source = script([word for given in rounds for word in given])
    assert laplace._geometric(scale, 3, source).tolist() == expected
    assert source.words == []


class Counted:
    """The system's words, and how many were drawn."""

    def __init__(self) -> None:
        self.words = 0

    def __call__(self, count: int) -> Words:
        self.words += count
        return system_words(count)


@pytest.mark.parametrize("exponent", [1, 3, 4, 6, 9, 12])
def test_large_scales(exponent: int) -> None:
    """A few words a draw; mean and variance are right within six standard errors."""
    scale, count = 10**exponent, 50_000
    source = Counted()
    draws = discrete_laplace(Fraction(scale), count, source)
    assert source.words < 10 * count
    assert draws.dtype == np.int64
    units = draws / scale
    ratio = np.exp(-1 / scale)
    variance = 2 * ratio / (-np.expm1(-1 / scale) * scale) ** 2
    assert abs(units.mean()) < 6 * np.sqrt(variance / count)
    assert abs((units**2).mean() - variance) < 7 * np.sqrt(20 / count)


@pytest.mark.parametrize("exponent", [2, 4, 6, 9, 12])
def test_small_scales(exponent: int) -> None:
    """Almost all the weight is at 0."""
    assert not discrete_laplace(Fraction(1, 10**exponent), 100_000).any()
    assert not discrete_gaussian(Fraction(1, 10**exponent), 100_000).any()


@pytest.mark.parametrize("exponent", [2, 4, 6])
def test_large_deviations(exponent: int) -> None:
    """The variance is right within six standard errors, from the table and by rejection, for standard deviations."""
    deviation, count = 10**exponent, 8_000
    source = Counted()
    draws = discrete_gaussian(Fraction(deviation**2), count, source)
    assert source.words < 10 * count
    units = draws / deviation
    assert abs(units.mean()) < 6 / np.sqrt(count)
    assert abs((units**2).mean() - 1) < 6 * np.sqrt(2 / count)


def test_largest_table() -> None:
    """The largest Gaussian table ends where the tails fall below 2^-64."""
    made = gaussian._table(Fraction(3000**2))
    assert 9 * 3000 < len(made.ascending) < 10 * 3000
    assert int(made.ascending[0]) >= 1


@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(50), Fraction(3000)])
def test_what_is_left_out_of_tails_is_allowed_for(variance: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """With products that are not rounded, so that nothing else makes up for it."""
    bits, finer = 40, 2**300

    def sharp(number: Fraction) -> tuple[Fraction, Fraction]:
        return (Fraction(whole(number * finer), finer),) * 2

    def exponential(exponent: Fraction, _: int) -> tuple[Fraction, Fraction]:
        return sharp(Fraction(sum(exp_bounds(exponent, 400)), 2 ** (401 - bits)))

    monkeypatch.setattr(gaussian_tails_module, "exp_bounds", exponential)
    monkeypatch.setattr(gaussian_tails_module, "product_bounds", lambda one, two, _: sharp(one[0] * two[0] / 2**bits))
    monkeypatch.setattr(
        gaussian_tails_module, "ratio_bounds", lambda top, all_, _: (top[0] / all_[1], top[1] / all_[0])
    )
    found = gaussian_tail_bounds.__wrapped__(variance, bits)
    with mpmath.workdps(60):
        v = mpmath.mpf(variance.numerator) / variance.denominator
        weights = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * v)) for k in range(3 * len(found) + 20)]
        for k in (1, len(found) // 2, len(found)):
            low, high = (mpmath.mpf(each.numerator) / each.denominator for each in found[k - 1])
            exact = 2 * mpmath.fsum(weights[k:]) / (2 * mpmath.fsum(weights) - 1)
            assert low < exact < high


class Taken(Exception):  # noqa: N818
    """One of several ways of drawing was taken."""


def taken(draw: Callable[..., object], parameter: Fraction, count: int) -> str:
    """Which one."""
    with pytest.raises(Taken) as found:
        draw(parameter, count)
    return str(found.value)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of drawing, each way says its name."""

    def says(name: str) -> Callable[..., object]:
        def way(*given: object) -> object:
            raise Taken(name)

        return way

    for module, name in (
        *((laplace, name) for name in ("_by_rejection", "_two_sided_table", "_geometric")),
        *((gaussian, name) for name in ("wide_gaussian", "_table")),
        *((rounded_gaussian_module, name) for name in ("_table", "rounded_deviates")),
    ):
        monkeypatch.setattr(module, name, says(name))
    monkeypatch.setattr(rounded_gaussian_module, "NormalDeviates", SimpleNamespace(draw=lambda count, source: None))


@pytest.mark.usefixtures("told")
def test_few_draws_and_wide_noise_take_no_table_of_their_own() -> None:
    """A table takes longer than few draws, and one of wide noise much memory."""
    for draw, without in ((discrete_gaussian, "wide_gaussian"), (rounded_gaussian, "rounded_deviates")):
        assert taken(draw, Fraction(2500), 500) == without
        assert taken(draw, Fraction(2500), 15_000) == without
        assert taken(draw, Fraction(2500), 30_000) == "_table"
        assert taken(draw, Fraction(1, 2500), 5_000) == "_table"
        assert taken(draw, Fraction(1000**2), 10**6) == "_table"
        assert taken(draw, Fraction(1100**2), 10**6) == without
    for scale in (Fraction(1), Fraction(1000), Fraction(10**7)):
        assert taken(discrete_laplace, scale, 500) == "_by_rejection"
    assert taken(discrete_laplace, Fraction(1000), 50_000) == "_by_rejection"
    assert taken(discrete_laplace, Fraction(1), 1000) == "_two_sided_table"
    assert taken(discrete_laplace, Fraction(1000), 200_000) == "_two_sided_table"
    assert taken(discrete_laplace, Fraction(10**7), 20_000) == "_geometric"


@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(50), Fraction(2000, 7)])
@pytest.mark.parametrize("bits", [40, 200])
def test_tails_go_far_enough_for_what_is_left_out(variance: Fraction, bits: int) -> None:
    """The first weight that is left out is below 2^-bits; so the bounds hold at the far end, too."""
    tails = gaussian_tail_bounds(variance, bits)
    with mpmath.workdps(120):
        v = mpmath.mpf(variance.numerator) / variance.denominator
        assert mpmath.exp(-(mpmath.mpf(len(tails)) ** 2) / (2 * v)) < mpmath.mpf(2) ** -bits
        weights = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * v)) for k in range(2 * len(tails) + 20)]
        whole = 2 * sum(weights) - 1
        for k in (1, len(tails) // 2, len(tails)):
            low, high = tails[k - 1]
            assert low <= 2 * sum(weights[k:]) / whole * mpmath.mpf(2) ** bits <= high
        for k in (1, len(tails), 2 * len(tails) + 5):  # and one by one, however far out
            low, high = gaussian_tail_bound(variance, k, bits)
            assert low <= 2 * sum(weights[k:]) / whole * mpmath.mpf(2) ** bits <= high == low + 1
