"""Max-norm noise of any width: draws against laws that are known in closed form, and a scale slightly off is seen."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import gamma, kstest

from privcube.errors import GuaranteeError
from privcube.sensitive.noise import max_norm_noise, rounded_max_norm_slices
from privcube.sensitive.noise.bits import system_words
from privcube.sensitive.noise.section import rounded

LONG = int(os.environ.get("PRIVCUBE_ATTACK", "1")) > 1  # 10^7 draws of each law in `make attack`
DRAWS = 10_000_000 if LONG else 20_000
AT_ONCE = 500_000


def drawn(scales: Sequence[Fraction], sizes: Sequence[int], count: int) -> Iterator[list[np.ndarray]]:
    """So many draws, in parts that fit into memory."""
    for start in range(0, count, AT_ONCE):
        yield rounded_max_norm_slices(scales, sizes, min(AT_ONCE, count - start))


def norms(scales: Sequence[float], groups: list[np.ndarray]) -> np.ndarray:
    return np.max([np.abs(own).sum(axis=1) / scale for scale, own in zip(scales, groups, strict=True)], axis=0)


@pytest.mark.parametrize("sizes", [[1], [2, 2], [1, 3, 2], [1, 40]] if not LONG else [[1], [2, 2], [1, 3, 2]], ids=str)
def test_the_norm_of_wide_noise_has_a_gamma_law(sizes: list[int], fits: Callable[..., bool]) -> None:
    """With density exp(-N(z)) in m dimensions, N has the law of the sum of m exponential numbers."""
    scales = [Fraction(10**6 * (at + 1) ** 5, 7) for at in range(len(sizes))]
    parts, floats = 200 if LONG else 40, [float(scale) for scale in scales]
    borders = gamma(sum(sizes)).ppf(np.arange(1, parts) / parts)
    off, seen = 1.01 if LONG else 1.15, np.zeros((3, parts), dtype=np.int64)
    for groups in drawn(scales, sizes, DRAWS):
        found = norms(floats, groups)
        for row, factor in enumerate((1, off, 1 / off)):
            seen[row] += np.bincount(np.searchsorted(borders, found * factor), minlength=parts)
    expected = np.full(parts, DRAWS / parts)
    assert [fits(each, expected) for each in seen] == [True, False, False]


def test_rows_given_the_norm_are_uniform_on_the_body() -> None:
    """A row of a group of n rows has the variance 2 (m+1)(m+2) / ((n+1)(n+2)) of the squared scale, and free signs."""
    sizes, scales = [1, 2, 4], [Fraction(10**5), Fraction(3 * 10**7), Fraction(10**9)]
    m, count = sum(sizes), 1_000_000 if LONG else 80_000
    near = 0.018 if LONG else 0.05  # of a variance
    for n, scale, own in zip(sizes, scales, rounded_max_norm_slices(scales, sizes, count), strict=True):
        wanted = 2 * (m + 1) * (m + 2) / ((n + 1) * (n + 2))
        assert np.allclose(np.mean((own / float(scale)) ** 2, axis=0) / wanted, 1, atol=near)
        assert abs(np.mean(own > 0) - 0.5) < near / 5
        if n > 1:
            assert abs(np.corrcoef(own.T)[0, 1]) < near / 2.5


def exact(scales: tuple[float, float], first: int, second: int) -> float:
    """P of two single rows: uniform on [-u s, u s] each, given u with density u^2 e^-u / 2."""

    def chance(u: float, scale: float, k: int) -> float:
        reach = u * scale
        return max(0.0, min(k + 0.5, reach) - max(k - 0.5, -reach)) / (2 * reach)

    edges = sorted(
        {abs(k + side) / scale for k, scale in zip((first, second), scales, strict=True) for side in (-0.5, 0.5)}
    )
    parts = [0.0, *edges, 80.0]
    return sum(
        quad(lambda u: u**2 * np.exp(-u) / 2 * chance(u, scales[0], first) * chance(u, scales[1], second), a, b)[0]
        for a, b in pairwise(parts)
        if b > a
    )


@pytest.mark.parametrize("scales", [(Fraction(1), Fraction(1)), (Fraction(1, 3), Fraction(5, 2))], ids=str)
def test_narrow_noise_has_the_rounded_law(scales: tuple[Fraction, Fraction], fits: Callable[..., bool]) -> None:
    """Every pair of numbers near 0, and all others; one scale slightly off is seen."""
    reach = 6 if LONG else 3
    side = 2 * reach + 1
    cells = [(x, y) for x in range(-reach, reach + 1) for y in range(-reach, reach + 1)]
    seen = np.zeros(side**2, dtype=np.int64)
    for first, second in drawn(scales, [1, 1], DRAWS):
        near = (np.abs(first[:, 0]) <= reach) & (np.abs(second[:, 0]) <= reach)
        seen += np.bincount((first[near, 0] + reach) * side + second[near, 0] + reach, minlength=side**2)

    def agrees(factor: float) -> bool:
        chances = np.array([exact((factor * float(scales[0]), float(scales[1])), x, y) for x, y in cells])
        return fits(np.append(seen, DRAWS - seen.sum()), np.append(chances, 1 - chances.sum()) * DRAWS)

    assert agrees(1)
    assert not agrees(1.02 if LONG else 1.2)
    assert not agrees(1 / 1.02 if LONG else 1 / 1.2)


def test_wide_noise_is_that_of_whole_numbers() -> None:
    """Both samplers, far from rounding: the same law of the largest norm."""
    whole = [max_norm_noise(Fraction(200), [1, 2, 2]) for _ in range(1_000)]
    of_whole = norms([200.0] * 3, [np.array([draw[at] for draw in whole]) for at in range(3)])
    of_rounded = norms([200.0] * 3, rounded_max_norm_slices([Fraction(200)] * 3, [1, 2, 2], 20_000))
    assert kstest(of_whole, of_rounded).pvalue > 1e-6


@pytest.mark.parametrize(
    ("scales", "sizes"),
    [
        ([Fraction(1)], []),
        ([Fraction(1)], [1, 1]),
        ([Fraction(1)], [0]),
        ([Fraction(0)], [1]),
        ([Fraction(10**12 + 1)], [1]),
        ([1.5], [1]),
        ([Fraction(1)], [9_000]),
    ],
    ids=str,
)
def test_what_cannot_be_drawn_is_refused(scales: list[Fraction], sizes: list[int]) -> None:
    with pytest.raises(GuaranteeError):
        rounded_max_norm_slices(scales, sizes, 1)


def test_as_many_rows_as_are_promised() -> None:
    rounded.check_rounded_bundle([Fraction(1)] * 2, [8_000, 192])
    with pytest.raises(GuaranteeError, match="at most 8,192 in all"):
        rounded.check_rounded_bundle([Fraction(1)] * 2, [8_000, 193])


def test_no_draws_are_no_rows() -> None:
    assert [own.shape for own in rounded_max_norm_slices([Fraction(1)] * 2, [1, 3], 0)] == [(0, 1), (0, 3)]


def test_many_draws_are_worked_out_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded, and no draw is repeated."""
    monkeypatch.setattr(rounded, "_AT_ONCE", 64)
    asked = []
    source = lambda n: asked.append(n) or system_words(n)  # noqa: E731
    one, two = rounded_max_norm_slices([Fraction(10**9)] * 2, [1, 3], 103, source)
    assert len({tuple(each) for each in np.concatenate([one, two], axis=1).tolist()}) == 103
    assert one.shape == (103, 1)
    assert max(asked) <= 72  # with what is drawn beyond the 64, as some are dropped
