"""Draws from a distribution on 0, 1, 2, ... given by bounds on its tails. Zone: SENSITIVE.

X is the number of k >= 1 with U < P(X >= k), for a uniform number U: then P(X >= k) is exactly the tail. The table
holds t_k = the whole part of 2^64 P(X >= k), as far as it is above 0. Let w be the first 64 bits of U. Then w < t_k
proves that U < P(X >= k), and w > t_k proves that it is not; all k at once by one binary search. Only if w equals some
t_k, or if w is 0 and the tail goes on beyond the table, more bits of that U are drawn and compared with sharper bounds
(`Uniform`). So the draws have exactly the given distribution; the words that need more bits are fewer than one in
10^14.

See THEORY section 11.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from privcube.sensitive.noise.bits import Source, Uniform, Words

Tail = Callable[[int, int], tuple[int, int]]  # (k, bits): low <= P(X >= k) * 2^bits <= high


@dataclass(frozen=True)
class TailTable:
    """A distribution ready to be drawn from."""

    ascending: Words  # t_K <= ... <= t_1
    tail: Tail
    last: int | None  # the largest possible value; None if there is none

    @classmethod
    def of(cls, bounds: Sequence[tuple[int, int]], bits: int, tail: Tail, last: int | None = None) -> TailTable:
        """From bounds on P(X >= 1), P(X >= 2), ... at a number of bits, down to where 2^64 P(X >= k) < 1."""
        thresholds = []
        for k, (low, high) in enumerate(bounds, start=1):
            shift, precision = bits - 64, bits
            while low >> shift != high >> shift:  # the bounds straddle a whole number: sharper ones
                precision *= 2
                low, high = tail(k, precision)
                shift = precision - 64
            threshold = low >> shift  # below 2^64, as the tail is below 1
            if threshold == 0:
                break
            thresholds.append(threshold)
        return cls(np.array(thresholds[::-1], dtype=np.uint64), tail, last)

    def draw(self, count: int, source: Source) -> NDArray[np.int64]:
        """Independent draws."""
        words = source(count)
        passed = np.searchsorted(self.ascending, words, side="right")  # how many thresholds are at most the word
        values = (len(self.ascending) - passed).astype(np.int64)
        equal = self._padded[passed] == words  # the largest of these is the word itself
        for place in np.flatnonzero(equal | (words == 0)).tolist():
            values[place] = self._decided(int(values[place]), Uniform(source, int(words[place])))
        return values

    @cached_property
    def _padded(self) -> Words:
        return np.concatenate([np.zeros(1, dtype=np.uint64), self.ascending])

    def _decided(self, value: int, uniform: Uniform) -> int:
        """Go on from a value that is certain, one step at a time, as long as the number is below the next tail."""
        while value != self.last and uniform.below(partial(self.tail, value + 1)):
            value += 1
        return value
