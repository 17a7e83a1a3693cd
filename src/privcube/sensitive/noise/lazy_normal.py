"""Normal deviates whose digits are drawn as they are needed, and exact rounding of what is worked out from them.

Zone: SENSITIVE.

|Z| = (K + v) / 64. K is proposed with weight exp(-K^2 / (2 64^2)), v uniformly from [0, 1), a sign freely; the
proposal is kept with probability exp(-(2 K v + v^2) / (2 64^2)). What is kept has density exp(-(K + v)^2 / (2 64^2)) in
K + v, so Z is a standard normal number, exactly. Of v, an endless row of random bits, only the first 64 are drawn at
first. Whether a proposal is kept is decided from bounds on that probability; in the rare case that they do not decide,
more bits of v, and of the uniform number it is compared with, are drawn. A decision that has been taken holds whatever
the bits to come are; so these remain uniform, and whoever needs Z more closely may draw them at any later time.

A function of deviates is rounded to the nearest whole number by bounds on it that are narrowed until they round alike
(`nearest_whole`). It ends with probability 1, as long as the chance that the function is halfway between two whole
numbers is 0. So noise of any density that is a function of normal deviates can be drawn on whole numbers without error.

See THEORY section 6.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.sensitive.noise.bits import Bounds, Source, Words
from privcube.sensitive.noise.coins import LARGEST, Exponents, bounds
from privcube.sensitive.noise.fixed import exp_bounds
from privcube.sensitive.noise.wide_gaussian import coarse_table

CELLS: Final = 64  # per unit
MOST_CELLS: Final = 900  # taken in whole arrays; beyond lies less than 2^-140 of the distribution
_VARIANCE: Final = CELLS**2


@dataclass(frozen=True)
class NormalDeviates:
    """Independent standard normal numbers, each known to some bits."""

    cell: NDArray[np.int64]
    word: Words  # the first 64 bits of v
    minus: NDArray[np.bool_]
    source: Source
    longer: dict[int, tuple[int, int]] = field(default_factory=dict)  # v as far as known, where it is known further

    @classmethod
    def draw(cls, count: int, source: Source) -> NormalDeviates:
        """Independent draws."""
        table = coarse_table(_VARIANCE)
        cell, word = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint64)
        longer: dict[int, tuple[int, int]] = {}
        while missing := count - len(cell):
            tries = missing + missing // 64 + 4
            tried = cls(table.draw(tries, source), source(tries), np.zeros(0, dtype=np.bool_), source)
            kept = np.flatnonzero(tried._kept())[:missing]
            place = {int(old): len(cell) + new for new, old in enumerate(kept) if int(old) in tried.longer}
            longer |= {new: tried.longer[old] for old, new in place.items()}
            cell, word = np.concatenate([cell, tried.cell[kept]]), np.concatenate([word, tried.word[kept]])
        minus = np.unpackbits(source(-(-count // 64)).view(np.uint8))[:count] == 1
        return cls(cell, word, minus, source, longer)

    def size(self, place: int, bits: int) -> tuple[int, int]:
        """low <= |Z| 2^bits <= high = low + 1 for the deviate at a place, with more bits drawn if needed.

        The same number of bits always gives the same bounds, and those for more bits lie within them.
        """
        value, known = self._digits(place, bits)
        low = (int(self.cell[place]) << known | value) << 64 >> known + 70 - bits
        return low, low + 1

    def signed(self, place: int, bits: int) -> tuple[int, int]:
        """low <= Z 2^bits <= high = low + 1, likewise."""
        low, high = self.size(place, bits)
        return (-high, -low) if self.minus[place] else (low, high)

    def _digits(self, place: int, bits: int) -> tuple[int, int]:
        """v at a place to at least this many bits."""
        value, known = self.longer.get(place) or (int(self.word[place]), 64)
        if known < bits:
            while known < bits:
                value, known = value << 64 | int(self.source(1)[0]), known + 64
            self.longer[place] = value, known
        return value, known

    def _kept(self) -> NDArray[np.bool_]:
        """Which proposals are kept: those with U < exp(-(2 K v + v^2) / (2 64^2))."""
        words = self.source(len(self.cell))
        least, most = bounds(self._exponents())
        first = (words >> np.uint64(33)).astype(np.int64)
        kept = first < least
        for place in np.flatnonzero(~kept & (first < most)).tolist():
            kept[place] = self._decided(place, int(words[place]))
        return kept

    def _exponents(self) -> Exponents:
        """Bounds on (2 K v + v^2) / (2 64^2) in units of 2^-56, from 31 bits of v."""
        v = (self.word >> np.uint64(33)).astype(np.int64)
        known = self.cell < MOST_CELLS
        cell = np.where(known, self.cell, 0)
        low, high = (cell * v << 13) + (v * v >> 19), (cell * (v + 1) << 13) + ((v + 1) * (v + 1) >> 19) + 1
        return np.where(known, low, 0), np.where(known, high, LARGEST)

    def _decided(self, place: int, word: int) -> bool:
        """Whether one proposal is kept, with as many more bits as that takes."""
        cell, uniform, bits = int(self.cell[place]), word, 64
        while True:
            v, known = self._digits(place, bits)
            ends = [(2 * cell * end << known) + end**2 for end in (v, v + 1)]
            nearest, farthest = (Fraction(end, 2 * _VARIANCE << 2 * known) for end in ends)
            if uniform + 1 <= exp_bounds(farthest, bits)[0]:
                return True
            if uniform >= exp_bounds(nearest, bits)[1]:
                return False
            uniform, bits = uniform << 64 | int(self.source(1)[0]), bits + 64


def nearest_whole(function: Bounds, bits: int = 64) -> int:
    """The nearest whole number to a number given by bounds, which are narrowed until they round alike.

    >>> nearest_whole(lambda bits: (5 * 2**bits // 3, 5 * 2**bits // 3 + 1))
    2
    """
    while True:
        low, high = ((2 * end + (1 << bits)) >> bits + 1 for end in function(bits))
        if low == high:
            return low
        bits *= 2
