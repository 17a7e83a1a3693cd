"""Discrete Laplace noise: P(X = k) proportional to exp(-|k| / scale), for a rational scale. Zone: SENSITIVE.

Formal guarantee. Adding it to whole numbers that a neighboring change moves by at most D in L1 costs epsilon = D/scale:
the probabilities of any outcome differ by a factor of at most exp(D/scale). The draws are exact (`tables`, `bits`).

Up to a scale of about a thousand |X| is drawn from a table of its tails, 2 r^k / (1 + r) with r = exp(-1/scale), and
the sign from one more bit. Beyond, X = G - G' for two geometric numbers with P(G >= k) = r^k; and G = 1024 A + B, where
A is geometric with scale/1024 and B, independent of it, has P(B >= b) = (r^b - r^1024) / (1 - r^1024): the weight
r^(1024 a + b) is a product. So a scale of any size takes a few small tables. Few draws at a time take none of their
own: they are draws of the next power of two, each kept with the probability that makes up for it (`coins`).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.model.noise.limits import SCALES
from privcube.sensitive.noise.bits import Source, signed, system_words
from privcube.sensitive.noise.coins import coins, times
from privcube.sensitive.noise.fixed import exp_bounds, product_bounds, ratio_bounds
from privcube.sensitive.noise.tables import TailTable

_BITS: Final = 320
_LARGEST_TABLE_SCALE: Final = 1500
_DIGIT: Final = 1024


def discrete_laplace(scale: Fraction, count: int, source: Source = system_words) -> NDArray[np.int64]:
    """Independent draws of discrete Laplace noise."""
    check_scale(scale)
    if count < _worth_a_table(scale):
        return _by_rejection(scale, count, source)
    return _from_tables(scale, count, source)


def _worth_a_table(scale: Fraction) -> int:
    """Fewer draws take less time from the tables of powers of two: an entry takes as long as a few of them."""
    return 512 + 120 * int(scale) if scale <= _LARGEST_TABLE_SCALE else 10_000


def _from_tables(scale: Fraction, count: int, source: Source) -> NDArray[np.int64]:
    if scale > _LARGEST_TABLE_SCALE:
        return _geometric(scale, count, source) - _geometric(scale, count, source)
    return signed(_two_sided_table(scale).draw(count, source), source)


def _by_rejection(scale: Fraction, count: int, source: Source) -> NDArray[np.int64]:
    """Few draws: from noise of the next power of two, kept with probability exp(-|y| (1/scale - 1/power))."""
    power = 1
    while power < scale:
        power *= 2
    narrower = 1 / scale - Fraction(1, power)
    kept = [np.zeros(0, dtype=np.int64)]
    missing = count
    while missing:
        draws = _from_tables(Fraction(power), 2 * missing + 4, source)
        kept.append(draws[_kept(np.abs(draws), narrower, source)][:missing])
        missing -= len(kept[-1])
    return np.concatenate(kept)


def _kept(sizes: NDArray[np.int64], narrower: Fraction, source: Source) -> NDArray[np.bool_]:
    return coins(source(len(sizes)), times(sizes, narrower), lambda place: int(sizes[place]) * narrower, source)


def check_scale(scale: Fraction) -> None:
    """A scale that is exact and within what the sampler is built for."""
    SCALES.check(scale)


def _geometric(scale: Fraction, count: int, source: Source) -> NDArray[np.int64]:
    if scale <= _LARGEST_TABLE_SCALE:
        return _geometric_table(scale).draw(count, source)
    upper = _geometric(scale / _DIGIT, count, source)
    return upper * _DIGIT + _digit_table(scale).draw(count, source)


@lru_cache(maxsize=64)
def _two_sided_table(scale: Fraction) -> TailTable:
    def tail(k: int, bits: int) -> tuple[int, int]:
        low, high = exp_bounds(1 / scale, bits)
        top_low, top_high = exp_bounds(k / scale, bits)
        return ratio_bounds((2 * top_low, 2 * top_high), ((1 << bits) + low, (1 << bits) + high), bits)

    return TailTable.of(_powers(tail(1, _BITS), exp_bounds(1 / scale, _BITS)), _BITS, tail)


@lru_cache(maxsize=64)
def _geometric_table(scale: Fraction) -> TailTable:
    step = exp_bounds(1 / scale, _BITS)
    return TailTable.of(_powers(step, step), _BITS, lambda k, bits: exp_bounds(k / scale, bits))


@lru_cache(maxsize=64)
def _digit_table(scale: Fraction) -> TailTable:
    def tail(b: int, bits: int) -> tuple[int, int]:
        low, high = exp_bounds(b / scale, bits)
        end_low, end_high = exp_bounds(_DIGIT / scale, bits)
        one = 1 << bits
        return ratio_bounds((low - end_high, high - end_low), (one - end_high, one - end_low), bits)

    one, step = 1 << _BITS, exp_bounds(1 / scale, _BITS)
    end_low, end_high = exp_bounds(_DIGIT / scale, _BITS)
    bounds, power = [], (one, one)
    for _ in range(1, _DIGIT):
        power = product_bounds(power, step, _BITS)
        top = power[0] - end_high, power[1] - end_low
        bounds.append(ratio_bounds(top, (one - end_high, one - end_low), _BITS))
    return TailTable.of(bounds, _BITS, tail, last=_DIGIT - 1)


def _powers(start: tuple[int, int], step: tuple[int, int]) -> list[tuple[int, int]]:
    """start, start * step, start * step^2, ... down to 2^-64; each product loses at most two units of 2^-320."""
    bounds = [start]
    while bounds[-1][1] >> (_BITS - 64):
        bounds.append(product_bounds(bounds[-1], step, _BITS))
    return bounds
