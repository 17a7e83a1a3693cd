"""Exponential numbers whose digits are drawn as they are needed. Zone: SENSITIVE.

E = (K + v) / 64. K is drawn with weight exp(-K/64), v uniformly from [0, 1) and kept with probability exp(-v/64), which
gives density exp(-(K + v)/64) in K + v: E is a standard exponential number, exactly. Of v, an endless row of random
bits, only the first 64 are drawn at first, and more when someone needs E more closely, as for normal deviates
(`lazy_normal`).

See THEORY section 6.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.sensitive.noise.bits import Source, Words
from privcube.sensitive.noise.coins import bounds
from privcube.sensitive.noise.fixed import exp_bounds, product_bounds
from privcube.sensitive.noise.tables import TailTable

CELL_BITS: Final = 6  # 64 cells per unit
_CELLS: Final = 1 << CELL_BITS
_BITS: Final = 320


@dataclass(frozen=True)
class ExponentialDeviates:
    """Independent standard exponential numbers, each known to some bits."""

    cell: NDArray[np.int64]
    word: Words  # the first 64 bits of v
    source: Source
    longer: dict[int, tuple[int, int]] = field(default_factory=dict)  # v as far as known, where it is known further

    @classmethod
    def draw(cls, count: int, source: Source) -> ExponentialDeviates:
        """Independent draws."""
        longer: dict[int, tuple[int, int]] = {}
        words, have = [np.zeros(0, dtype=np.uint64)], 0
        while missing := count - have:  # v does not depend on K
            tries = missing + missing // 32 + 4
            tried = cls(np.zeros(0, dtype=np.int64), source(tries), source)
            kept = np.flatnonzero(tried.kept(source(tries)))[:missing]
            for old, digits in tried.longer.items():
                longer |= {have + new: digits for new in np.flatnonzero(kept == old).tolist()}
            words.append(tried.word[kept])
            have += len(kept)
        return cls(_cells().draw(count, source), np.concatenate(words), source, longer)

    def at_least(self, bits: int) -> NDArray[np.int64]:
        """The whole parts of E 2^bits, for bits from 6 to 63; they must be below 2^63."""
        shift = bits - CELL_BITS
        return self.cell << shift | (self.word >> np.uint64(64 - shift)).astype(np.int64)

    def size(self, place: int, bits: int) -> tuple[int, int]:
        """low <= E 2^bits <= high = low + 1 for the number at a place, with more bits drawn if needed."""
        value, known = self._digits(place, bits)
        low = (int(self.cell[place]) << known | value) << 64 >> known + 64 + CELL_BITS - bits
        return low, low + 1

    def kept(self, words: Words) -> NDArray[np.bool_]:
        """Which v are kept: those with U < exp(-v/64), for uniform numbers U that begin with these words."""
        v = (self.word >> np.uint64(8)).astype(np.int64)  # in units of 2^-56
        least, most = bounds((v >> CELL_BITS, (v >> CELL_BITS) + 1))
        first = (words >> np.uint64(33)).astype(np.int64)  # U is from first to first + 1, in units of 2^-31
        kept = first < least
        for place in np.flatnonzero(~kept & (first < most)).tolist():
            kept[place] = self._decided(place, int(words[place]))
        return kept

    def _decided(self, place: int, uniform: int) -> bool:
        """Whether one v is kept, with as many more bits as that takes."""
        bits = 64
        while True:
            v, known = self._digits(place, bits)
            if uniform + 1 <= exp_bounds(Fraction(v + 1, _CELLS << known), bits)[0]:
                return True
            if uniform >= exp_bounds(Fraction(v, _CELLS << known), bits)[1]:
                return False
            uniform, bits = uniform << 64 | int(self.source(1)[0]), bits + 64

    def _digits(self, place: int, bits: int) -> tuple[int, int]:
        """v at a place to at least this many bits."""
        value, known = self.longer.get(place) or (int(self.word[place]), 64)
        if known < bits:
            while known < bits:
                value, known = value << 64 | int(self.source(1)[0]), known + 64
            self.longer[place] = value, known
        return value, known


@lru_cache(maxsize=1)
def _cells() -> TailTable:
    """K by its tails exp(-k/64); each product of bounds loses at most two units of 2^-320."""
    step = exp_bounds(Fraction(1, _CELLS), _BITS)
    tails = [step]
    while tails[-1][1] >> _BITS - 64:
        tails.append(product_bounds(tails[-1], step, _BITS))
    return TailTable.of(tails, _BITS, lambda k, bits: exp_bounds(Fraction(k, _CELLS), bits))
