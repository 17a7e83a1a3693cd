"""Random bits, and exact decisions from them. Zone: SENSITIVE.

A uniform number U in [0, 1) is an endless row of random bits, of which only as many are drawn as are needed: after n
bits it is known to lie in [W, W+1) / 2^n. Whether U < p is decided as soon as this interval lies on one side of bounds
on p; both are narrowed until it does. The decision is then exactly that of real numbers, so an event has exactly the
probability p, whatever the bounds were. It ends with probability 1: the interval and the bounds shrink to points, and U
equals p with probability 0.

See THEORY section 11.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Source = Callable[[int], Words]  # from a count to that many random words of 64 bits
Bounds = Callable[[int], tuple[int, int]]  # at a number of bits: low <= p * 2^bits <= high


def system_words(count: int) -> Words:
    """Random words from the operating system."""
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


class Uniform:
    """A uniform number of which some bits are known."""

    def __init__(self, source: Source, first_word: int | None = None) -> None:
        self._source = source
        self._value = int(source(1)[0]) if first_word is None else first_word
        self._bits = 64

    def below(self, bounds: Bounds) -> bool:
        """Whether the number is below a probability given by bounds."""
        while True:
            low, high = bounds(self._bits)
            if self._value + 1 <= low:
                return True
            if self._value >= high:
                return False
            self._value = self._value << 64 | int(self._source(1)[0])
            self._bits += 64


def uniform_below(total: int, count: int, source: Source) -> NDArray[np.int64]:
    """Uniform whole numbers below a total; words from the last, incomplete round of it are drawn again."""
    words = source(count).copy()
    limit = 2**64 - 2**64 % total
    while limit < 2**64 and np.any(late := words >= np.uint64(limit)):
        words[late] = source(int(late.sum()))
    return (words % np.uint64(total)).astype(np.int64)


def signed(magnitudes: NDArray[np.int64], source: Source) -> NDArray[np.int64]:
    """Numbers of the given sizes with independent, even signs."""
    count = len(magnitudes)
    minus = np.unpackbits(source(-(-count // 64)).view(np.uint8))[:count] == 1
    return np.where(minus, -magnitudes, magnitudes)
