"""Noise of a Gram matrix: decisions against exact arithmetic, draws against the laws of Wishart matrices."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor, isqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import RectBivariateSpline

from privcube.errors import GuaranteeError
from privcube.sensitive.noise import gram, gram_noise, gram_slices
from privcube.sensitive.noise.bits import system_words
from privcube.sensitive.noise.lazy_normal import MOST_CELLS, NormalDeviates

LONG = int(os.environ.get("PRIVCUBE_ATTACK", "1")) > 1
SQUARES = [Fraction(1, 10**30), Fraction(1, 50), Fraction(7, 3), Fraction(2500), Fraction(10**14, 7), Fraction(10**24)]


def upper(dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """All entries on and above the diagonal."""
    return np.triu_indices(dimension)


def same(entries: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """One factor for all entries."""
    return np.zeros(len(entries[0]), dtype=np.int64)


def matrices_of(deviates: list[tuple[int, int, bool]], draws: int, dimension: int, source: Any) -> gram._Matrices:
    """Chosen deviates: cell, first word, sign."""
    cells, words, signs = (list(each) for each in zip(*deviates, strict=True))
    made = NormalDeviates(np.array(cells, dtype=np.int64), np.array(words, dtype=np.uint64), np.array(signs), source)
    return gram._Matrices(made, draws, dimension)


def zeros(count: int) -> np.ndarray:
    return np.zeros(count, dtype=np.uint64)


def exact_entries(deviates: list[tuple[int, int, bool]], draws: int, dimension: int) -> np.ndarray:
    """2 N as fractions, if all further digits are 0."""
    values = [(cell + Fraction(word, 2**64)) / 64 * (-1 if minus else 1) for cell, word, minus in deviates]
    both = np.array(values, dtype=object).reshape(draws, dimension, 2, dimension + 1)
    first, second = both[:, :, 0], both[:, :, 1]
    return np.array([a @ a.T - b @ b.T for a, b in zip(first, second, strict=True)])


def nearest(value: Fraction, square: Fraction) -> int:
    """The nearest whole number to value/2 times the root of the square."""
    size = (isqrt(floor(square * value**2)) + 1) // 2
    return size if value >= 0 else -size


DEVIATE = st.tuples(st.one_of(st.integers(0, 300), st.just(MOST_CELLS - 1)), st.integers(0, 2**64 - 1), st.booleans())
FAR = st.tuples(st.integers(MOST_CELLS, 1200), st.integers(0, 2**64 - 1), st.booleans())


@settings(max_examples=36, deadline=None)
@given(st.data())
def test_rounding_against_exact_arithmetic(data: Any) -> None:
    """In arrays and one by one, against fractions; a deviate that is too far out sends its rows the long way."""
    draws, dimension = data.draw(st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2), (1, 3)]))
    count = draws * dimension * 2 * (dimension + 1)
    deviates = data.draw(st.lists(DEVIATE, min_size=count, max_size=count))
    if data.draw(st.booleans()):
        deviates[data.draw(st.integers(0, count - 1))] = data.draw(FAR)
    made = matrices_of(deviates, draws, dimension, zeros)
    exact = exact_entries(deviates, draws, dimension)
    bits, x, e = made._products()
    assert bits >= 48
    far = np.array([cell >= MOST_CELLS for cell, _, _ in deviates]).reshape(draws, dimension, -1).any(axis=2)
    for place in itertools.product(range(draws), range(dimension), range(dimension)):
        assert (e[place] < 0) == bool(far[place[0], place[1]] or far[place[0], place[2]])
        if e[place] >= 0:
            assert abs(exact[place] * 2**bits - int(x[place])) <= int(e[place])
            assert abs(int(x[place])) + int(e[place]) < 2**63
    left, right = upper(dimension)
    which = np.array([data.draw(st.integers(0, len(SQUARES) - 1)) for _ in left])
    found = made.rounded(left, right, SQUARES, which)
    for draw in range(draws):
        for at, (a, b) in enumerate(zip(left, right, strict=True)):
            square = SQUARES[which[at]]
            assert found[draw, at] == nearest(exact[draw, a, b], square)
            low, high = made._bounds((draw, int(a), int(b)), square, 64)
            target = square * exact[draw, a, b] ** 2 / 4 * 4**64  # (f N 2^64)^2
            assert low * abs(low) <= (target if exact[draw, a, b] >= 0 else -target) <= high * abs(high)
            assert high - low <= 3


def test_errors_of_products_are_small() -> None:
    """What is cut off in a real draw is far below what rounding could notice."""
    dimension, generator = 61, np.random.default_rng(4)
    source = lambda n: generator.integers(0, 2**64, n, dtype=np.uint64)  # noqa: E731
    made = gram._Matrices(NormalDeviates.draw(dimension * 2 * (dimension + 1), source), 1, dimension)
    bits, x, e = made._products()
    assert e.min() >= 0
    assert e.max() / 2.0**bits < 1e-11
    values = (made.deviates.cell + made.deviates.word / 2.0**64) / 64 * np.where(made.deviates.minus, -1, 1)
    first, second = values.reshape(dimension, 2, dimension + 1).transpose(1, 0, 2)
    assert x[0] / 2.0**bits == pytest.approx(first @ first.T - second @ second.T, abs=1e-9)


@pytest.mark.parametrize("square", [Fraction(7, 3), Fraction(2500), Fraction(10**12, 7)], ids=str)
def test_rounding_at_the_border_takes_more_bits(square: Fraction, script: Any) -> None:
    """f N = f z^2 / 2 whose first 64 bits contain the border between 1 and 2 goes where later bits say."""
    border = isqrt(isqrt(int(9 / square * 64**4 * 2**256)))  # f z^2 = 3, for z = border / 64 / 2^64
    cell, word = divmod(border, 2**64)
    nothing = (0, 0, False)
    for more, expected in ((0, 1), (2**64 - 1, 2)):
        for minus in (False, True):
            made = matrices_of([(cell, word, minus), nothing, nothing, nothing], 1, 1, script([more, *[0] * 30]))
            assert made.rounded(*upper(1), [square], np.zeros(1, dtype=np.int64)).tolist() == [[expected]]
            other = matrices_of([nothing, nothing, nothing, (cell, word, minus)], 1, 1, lambda n, more=more: zeros(n))
            assert other.rounded(*upper(1), [square], np.zeros(1, dtype=np.int64)).tolist() == [[-1]]
    with pytest.raises(AssertionError, match="more random words"):
        matrices_of([(cell, word, False), nothing, nothing, nothing], 1, 1, script([])).rounded(
            *upper(1), [square], np.zeros(1, dtype=np.int64)
        )


def test_rounding_just_above_the_border() -> None:
    """f z^2 / 2 as little above k + 1/2 as 64 bits of z allow rounds to k + 1, and as little below it to k."""
    square, count = Fraction(10**13, 7), 300
    for above in (1, 0):
        deviates = []
        for k in range(count):
            root = isqrt(isqrt(int((2 * k + 1) ** 2 / square * 64**4 * 2**256))) + above  # f z^2 = 2 k + 1
            deviates += [(root >> 64, root % 2**64, False), *[(0, 0, False)] * 3]
        found = matrices_of(deviates, count, 1, zeros).rounded(*upper(1), [square], np.zeros(1, dtype=np.int64))
        assert (found[:, 0] == np.arange(count) + above).all()


def test_rounding_where_the_cut_is_too_high() -> None:
    """f (z1^2 - z2^2) / 2 just below k + 1/2, where cutting the digits of z2 alone leaves more than that."""
    factor, count = 10**6, 200
    deviates, rng = [], np.random.default_rng(2)
    for k in range(count):
        second = (int(rng.integers(64, 100)) << 64) + (int(rng.integers(0, 2**42)) << 22) + 2**22 - 1  # times 2^70
        first = isqrt(Fraction(2 * k + 1, factor) * 2**140 // 1 + second**2) >> 22 << 22
        deviates += [(first >> 64, first % 2**64, False), (0, 0, False), (second >> 64, second % 2**64, False)]
        deviates.append((0, 0, False))
    made = matrices_of(deviates, count, 1, zeros)
    exact = [floor(factor * value[0, 0] / 2 + Fraction(1, 2)) for value in exact_entries(deviates, count, 1)]
    assert exact == list(range(count))
    bits, x, _ = made._products()
    assert np.mean(x[:, 0, 0] * (factor / 2.0 ** (bits + 1)) > np.arange(count) + 0.5) > 0.5
    found = made.rounded(*upper(1), [Fraction(factor**2)], np.zeros(1, dtype=np.int64))
    assert found[:, 0].tolist() == exact


@pytest.mark.parametrize("off", [0, 1, 6])
def test_rounding_when_products_are_as_far_off_as_they_may_be(off: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """f T / 2 at k + 1/2 or just below it, where all that is known of T is that it is off at most from x."""
    factor, bits, count = Fraction(10**6 + 3, 7), 50, 300
    border = [ceil((2 * k + 1) / factor * 2**bits) for k in range(count)]
    for true, x, more in ((border, [t - off for t in border], 1), ([t - 1 for t in border], border, 0)):
        known = np.array(x).reshape(-1, 1, 1), np.full((count, 1, 1), off if more else max(off, 1))
        monkeypatch.setattr(gram._Matrices, "_products", lambda _, known=known: (bits, *known))

        def sharper(
            _: object, entry: tuple[int, int, int], square: Fraction, bits_: int, true: list[int] = true
        ) -> Any:
            low = floor(factor * true[entry[0]] / 2 * Fraction(2) ** (bits_ - bits))
            return low, low + 1

        monkeypatch.setattr(gram._Matrices, "_bounds", sharper)
        made = matrices_of([(0, 0, False)] * 4 * count, count, 1, zeros)
        found = made.rounded(*upper(1), [factor**2], np.zeros(1, dtype=np.int64))
        assert found[:, 0].tolist() == [k + more for k in range(count)]


def test_impossible_deviates_take_the_long_way() -> None:
    """Rows whose squares sum to more than 2^14 leave nothing known in 64 bits; the result is right all the same."""
    dimension = 50
    deviates = [(MOST_CELLS - 1, 5, False)] * (dimension * (dimension + 1) * 2)
    made = matrices_of(deviates, 1, dimension, zeros)
    assert (made._products()[2] == -1).all()
    found = made.rounded(np.array([0, 1]), np.array([0, 2]), [Fraction(100)], np.zeros(2, dtype=np.int64))
    assert found.tolist() == [[0, 0]]


def test_factors_use_all_bits() -> None:
    for square, bits in itertools.product(SQUARES, (48, 53, 58)):
        point, factor = gram._scaled(square, bits)
        s = point + 64 - bits
        assert factor**2 <= square / 4 * Fraction(4) ** s < (factor + 1) ** 2
        assert factor < 2**64
        assert factor >= 2**62 or point == 61
        assert 1 <= point <= 61


@pytest.mark.parametrize("square", [Fraction(4), Fraction(7, 3), Fraction(10**20)], ids=str)
def test_times_a_root(square: Fraction) -> None:
    """Rounded down: floor(n sqrt(square) / 2 / 2^shift), but one less may do for a number below 0."""
    for number, shift in itertools.product([0, 1, 5, 12345, 2**70 + 9, -1, -5, -12345, -(2**70) - 9], (0, 3, 20)):
        found = gram._times_root(number, square, shift)
        ends = [end * abs(end) for end in (found, found + 1, found + 2)]
        exact = number * abs(number) * square / 4 / 4**shift
        assert ends[0] <= exact < ends[1] if number >= 0 else ends[0] < exact <= ends[1]


class Points:
    """Deviates of which all digits are known: of the first of each of two rows, in units of 2^-bits."""

    def __init__(self, first: int, second: int) -> None:
        self.known = {0: first, 6: second}

    def signed(self, place: int, bits: int) -> tuple[int, int]:
        return (self.known.get(place, 0),) * 2


@pytest.mark.parametrize("square", [Fraction(7, 3), Fraction(10**14, 7)], ids=str)
def test_bounds_hold_sums_that_just_exceed_a_whole_number(square: Fraction) -> None:
    bits, fine = 5, 5 + isqrt(int(square)).bit_length() + 3 + 8  # six columns
    for whole in (1, 2, 77, -1, -77):
        least = isqrt(int(4 * whole**2 / square * 4 ** (2 * fine - bits)))  # f/2 2^-shift times it is just below whole
        for product in (least, least + 1):
            signed = product if whole > 0 else -product
            made = gram._Matrices(Points(signed, 1), 1, 2)
            low, high = made._bounds((0, 0, 1), square, bits)
            exact = signed * abs(signed) * square / 4 / 4 ** (2 * fine - bits)
            assert low * abs(low) <= exact <= high * abs(high)
            assert high - low <= 2


# Laws


def laplace_sum_chances(count: float, scale: float, values: np.ndarray) -> np.ndarray:
    """P(Round(X) = k) for X with the characteristic function (1 + (scale t)^2)^-count, by inversion."""
    t = np.arange(0.5, 40_000) * 2 * np.pi / 2048  # the period 2048 is far wider than the noise
    mean = (1 + (scale * t) ** 2) ** -count * np.sinc(t / (2 * np.pi))
    return np.array([(mean * np.cos(t * k)).sum() for k in values]) * 2 / 2048


@pytest.mark.parametrize(
    ("dimension", "entry", "count", "unit", "draws"),
    [(1, (0, 0), 1, 1.0, 70_000), (2, (1, 0), 3, 0.5, 50_000), (3, (2, 2), 2, 1.0, 40_000)],
)
def test_single_entries(
    dimension: int, entry: tuple[int, int], count: float, unit: float, draws: int, sample_fits: Callable[..., bool]
) -> None:
    """On the diagonal a difference of Gamma((n+1)/2) numbers, beside it a sum of n+1 Laplace numbers of scale 1/2.

    (1 + t^2)^-((n+1)/2) and (1 + t^2/4)^-(n+1) are their characteristic functions. 10 % off is rejected (2 % if long).
    """
    left, right = np.array([entry[0]]), np.array([entry[1]])
    off, reach, times = (1.02, 110, 150 if dimension == 1 else 20) if LONG else (1.1, 80, 1)
    drawn = np.concatenate(
        [
            gram_slices(dimension, left, right, [Fraction(16)], np.zeros(1, dtype=np.int64), draws)[:, 0]
            for _ in range(times)
        ]
    )
    for factor, right_one in ((4.0, True), (4.0 * off, False), (4.0 / off, False)):
        chances = laplace_sum_chances(count, unit * factor, np.arange(reach + 1))
        assert sample_fits(drawn, lambda k, chances=chances: np.maximum(chances[np.abs(k)], 0), reach) == right_one


def test_moments_of_larger_matrices() -> None:
    """Variances (n+1)/2 and n+1, no correlations, and the trace, a difference of Gamma(n (n+1)/2) numbers."""
    dimension, scale, draws = 7, 1000, 3000
    left, right = upper(dimension)
    drawn = gram_slices(dimension, left, right, [Fraction(scale**2)], same((left, right)), draws) / scale
    diagonal = left == right
    stated = np.where(diagonal, dimension + 1.0, (dimension + 1) / 2)
    trace = drawn[:, diagonal].sum(axis=1)

    def agrees(factor: float) -> bool:
        squares = factor**2 * np.column_stack([drawn**2 / stated, (drawn**2 / stated).mean(axis=1)])
        close = np.abs(squares.mean(axis=0) - 1) < 6 * squares.std(axis=0) / draws**0.5
        spread = factor**2 * trace**2 / (dimension * (dimension + 1))
        return bool(close.all()) and abs(spread.mean() - 1) < 6 * spread.std() / draws**0.5

    assert agrees(1.0)
    assert not agrees(1.05)
    assert not agrees(1 / 1.05)
    correlations = np.corrcoef(drawn, rowvar=False) - np.eye(len(left))
    assert np.abs(correlations).max() < 6.5 * 2**0.5 / draws**0.5
    assert np.abs(drawn.mean(axis=0) / drawn.std(axis=0)).max() < 6 / draws**0.5
    kurtosis = (trace**4).mean() / (trace**2).mean() ** 2
    assert abs(kurtosis - 3 - 6 / (dimension * (dimension + 1))) < 6 * (96 / draws) ** 0.5


def pair_density(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """f(N) of 2 x 2 matrices by eigenvalues, up to a constant: e^(tr N) times the integral of e^(-2 tr A), A >= 0, N.

    With A = (x y; y z) and N = diag(a, b): if a, b >= 0 or both <= 0 it is e^(-|a| - |b|) times that of N = 0. If
    a > 0 > b, then x = a + p^2, z = s^2 and |y| <= min(sqrt(x) s, p sqrt(z - b)), which are equal on a ray of (p, s).
    """
    a, b = np.maximum(first, second), np.minimum(first, second)
    x, w = np.polynomial.legendre.leggauss(16)
    size, size_weight = 2.25 * (x + 1), 2.25 * w
    one = np.exp(-np.abs(a) - np.abs(b)) * _wedge(np.array([0.0]), np.array([0.0]), x, w, size, size_weight)[0]
    mixed = (a > 0) & (b < 0)
    one[mixed] = np.exp(b - a)[mixed] * _wedge(a[mixed], b[mixed], x, w, size, size_weight)
    return one


def _wedge(a: np.ndarray, b: np.ndarray, x: Any, w: Any, size: Any, size_weight: Any) -> np.ndarray:
    """The integral of 8 p s min(...) e^(-2 p^2 - 2 s^2) over p, s > 0."""
    ray = np.arctan(np.sqrt(-b / np.maximum(a, 1e-12)))
    total = np.zeros(len(a))
    for start, width in ((np.zeros(len(a)), ray), (ray, np.pi / 2 - ray)):
        angle = (start[:, None] + width[:, None] * (x + 1) / 2)[:, :, None]
        p, s = size * np.cos(angle), size * np.sin(angle)
        reach = np.minimum(np.sqrt(a[:, None, None] + p**2) * s, p * np.sqrt(s**2 - b[:, None, None]))
        inner = (8 * p * s * reach * np.exp(-2 * size**2) * size * size_weight).sum(axis=2)
        total += (inner * w * width[:, None] / 2).sum(axis=1)
    return total


@pytest.fixture(scope="module")
def pairs() -> tuple[np.ndarray, np.ndarray, float]:
    """Chances of the rounded entries (N11, N22, N12) times 1.5, near 0, by the density in the middle of parts."""
    scale, reach, parts = 1.5, 6, 4
    offsets = (np.arange(parts) + 0.5) / parts - 0.5
    axis = np.ravel(np.arange(-reach, reach + 1)[:, None] + offsets) / scale
    n11, n22, n12 = np.meshgrid(axis, axis, axis[len(axis) // 2 :], indexing="ij")  # even in n12
    mean, gap = (n11 + n22) / 2, np.hypot((n11 - n22) / 2, n12)
    grid = np.linspace(0, 12, 97)
    table = np.array([pair_density(grid, np.full(len(grid), -low)) for low in grid])  # a by columns, -b by rows
    high, low = mean + gap, mean - gap
    density = np.exp(-np.abs(high) - np.abs(low)) * table[0, 0]
    mixed = (high > 0) & (low < 0)
    spline = RectBivariateSpline(grid, grid, np.log(table), kx=3, ky=3)
    density[mixed] = np.exp(spline(-low[mixed], high[mixed], grid=False))
    whole = np.concatenate([density[:, :, ::-1], density], axis=2)
    cells = 2 * reach + 1
    shape = (cells, parts, cells, parts)
    sums = whole.reshape(*shape, whole.shape[2]).sum(axis=(1, 3))
    chance = sums.reshape(cells, cells, cells, parts).sum(axis=3)
    return chance, np.arange(-reach, reach + 1), scale


def test_joint_chances_of_pairs(pairs: Any, fits: Callable[..., bool]) -> None:
    """Rounded 2 x 2 matrices against their density, within the grid; a factor 10 % off is rejected (5 % if long)."""
    chance, values, scale = pairs
    expected, reach = np.ravel(chance) / chance.sum(), int(values[-1])

    def agrees(square: Fraction) -> bool:
        left, right = np.array([0, 1, 0]), np.array([0, 1, 1])
        drawn = gram_slices(2, left, right, [square], np.zeros(3, dtype=np.int64), 90_000 if LONG else 25_000)
        drawn = drawn[np.abs(drawn).max(axis=1) <= reach] + reach
        seen = np.bincount(np.ravel_multi_index(tuple(drawn.T), chance.shape), minlength=chance.size)
        wanted = expected * len(drawn)
        shell = np.max(np.abs(np.indices(chance.shape) - reach), axis=0).ravel()
        return fits(seen, wanted) and fits(np.bincount(shell, seen), np.bincount(shell, wanted))

    assert agrees(Fraction(scale) ** 2)
    off = Fraction(105, 100) if LONG else Fraction(110, 100)
    assert not agrees(Fraction(scale) ** 2 * off**2)
    assert not agrees(Fraction(scale) ** 2 / off**2)


def test_privacy_of_pairs(pairs: Any) -> None:
    """The chances of all outcomes, moved by a record: (1, 0) or (1, 1), of traces 1 and 2; and by a replaced one."""
    chance, _, scale = pairs
    inner = slice(2, -2)
    base = chance[inner, inner, inner]
    for (a, b, c), trace in (((1, 0, 0), 1), ((1, 1, 1), 2), ((1, 1, -1), 2), ((1, -1, 0), 2), ((0, 0, 2), 4)):
        moved = chance[2 + a : -2 + a or None, 2 + b : -2 + b or None, 2 + c : -2 + c or None]
        ratio = np.log(moved / base)
        assert np.abs(ratio).max() <= trace / scale * 1.01
        if trace < 4:
            assert ratio.max() >= 0.9 * trace / scale


def test_density_of_pairs_obeys_the_bound() -> None:
    """f(N + u u') <= e^(|u|^2) f(N) and f(N - u u') <= e^(|u|^2) f(N), at random places; and it is reached."""
    rng = np.random.default_rng(8)
    n11, n22, n12 = rng.normal(scale=2, size=(3, 4000))
    angle, size = rng.uniform(0, np.pi, 4000), rng.uniform(0.1, 1.5, 4000)
    u = np.sqrt(size) * np.array([np.cos(angle), np.sin(angle)])

    def density(sign: int) -> np.ndarray:
        a, b, c = n11 + sign * u[0] ** 2, n22 + sign * u[1] ** 2, n12 + sign * u[0] * u[1]
        mean, gap = (a + b) / 2, np.hypot((a - b) / 2, c)
        return pair_density(mean + gap, mean - gap)

    for sign in (1, -1):
        ratio = np.log(density(sign) / density(0)) / size
        assert np.abs(ratio).max() < 1 + 1e-4
        assert ratio.max() > 0.999


# Shapes and refusals


def test_shapes() -> None:
    left, right = upper(17)
    one = gram_noise(17, left, right, [Fraction(100)], same((left, right)))
    assert one.shape == (153,)
    assert one.dtype == np.int64
    assert gram_slices(17, left, right, [Fraction(100)], same((left, right)), 0).shape == (0, 153)
    narrow = gram_noise(5, *upper(5), [Fraction(1, 10**30)], same(upper(5)))
    assert not narrow.any()
    mixed = gram_slices(
        2, np.array([0, 1, 1]), np.array([1, 0, 1]), [Fraction(1), Fraction(10**16)], np.array([1, 1, 0]), 50
    )
    assert (mixed[:, 0] == mixed[:, 1]).all()  # N is symmetric
    assert np.median(np.abs(mixed[:, 0])) > 10**6
    assert np.abs(mixed[:, 2]).max() < 100


def test_large_matrices() -> None:
    left, right = upper(101)
    drawn = gram_noise(101, left, right, [Fraction(10**6)], same((left, right))) / 1000
    off = drawn[left != right]
    assert abs((off**2).mean() / 51 - 1) < 0.2
    wide = gram_noise(21, *upper(21), [Fraction(10**24)], same(upper(21)))  # some of them one by one
    assert len(set((wide % 10).tolist())) == 10


def test_many_draws_are_worked_out_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded, and no draw is repeated."""
    monkeypatch.setattr(gram, "_AT_ONCE", 100)
    asked = []
    source = lambda n: asked.append(n) or system_words(n)  # noqa: E731
    drawn = gram_slices(3, *upper(3), [Fraction(10**18)], same(upper(3)), 43, source)
    assert len(drawn) == len(set(map(tuple, drawn.tolist()))) == 43
    assert max(asked) < 120


def test_the_same_words_give_the_same_noise() -> None:
    drawn = []
    for _ in range(2):
        generator = np.random.default_rng(7)
        source = lambda n, g=generator: g.integers(0, 2**64, n, dtype=np.uint64)  # noqa: E731
        drawn.append(gram_slices(4, *upper(4), [Fraction(10**24)], same(upper(4)), 10, source))
    assert (drawn[0] == drawn[1]).all()


@pytest.mark.parametrize(
    "square", [Fraction(0), Fraction(-1), Fraction(10**24 + 1), Fraction(1, 10**30 + 1), 1.0, 5, None]
)
def test_factors_refused(square: Any, script: Any) -> None:
    with pytest.raises(GuaranteeError, match=r"^squared factor of noise: expected a fraction from 1e-30 to 1e24"):
        gram_noise(2, *upper(2), [square], same(upper(2)), script([]))


@pytest.mark.parametrize("dimension", [0, -1, 1025])
def test_dimensions_refused(dimension: int, script: Any) -> None:
    nothing = np.zeros(0, dtype=np.int64)
    with pytest.raises(GuaranteeError, match="dimension of a Gram matrix: expected 1 to 1,024"):
        gram_noise(dimension, nothing, nothing, [Fraction(1)], nothing, script([]))
    gram.check_gram(1, [Fraction(1)])
    gram.check_gram(1024, [Fraction(1)])


@pytest.mark.parametrize(
    ("left", "right", "which"),
    [([2], [0], [0]), ([0], [-1], [0]), ([0], [0], [1]), ([0, 1], [0], [0, 0]), ([0], [0], [])],
)
def test_entries_refused(left: list[int], right: list[int], which: list[int], script: Any) -> None:
    last = 0 if which != [0] * len(left) else 1
    with pytest.raises(GuaranteeError, match=rf"^entries of a Gram matrix, \w+: expected numbers from 0 to {last} for"):
        gram_noise(
            2,
            *(np.array(each, dtype=np.int64) for each in (left, right)),
            [Fraction(1)],
            np.array(which, dtype=np.int64),
            script([]),
        )
