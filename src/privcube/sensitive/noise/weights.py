"""Drawing an index with probability proportional to weights that are known up to bounds. Zone: SENSITIVE."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from privcube.sensitive.noise.bits import Source, Uniform
from privcube.sensitive.noise.fixed import context_of

_SPARE_DIGITS: Final = 36


@dataclass(frozen=True)
class Cumulative:
    """Running sums of weights from an index on, with bounds on their errors.

    `below` and `above` bound the weights left out before the first and after the last index; every sum is within a
    relative `error` of the exact one.
    """

    first: int
    sums: Sequence[Decimal]
    below: Decimal
    above: Decimal
    error: Decimal
    _known: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls, first: int, weights: Sequence[Decimal], digits: int, *, below: Decimal, above: Decimal, error: Decimal
    ) -> Cumulative:
        """Add up weights of `digits` digits; ten more digits in the sums leave `error` unchanged, by its slack."""
        sums, total, add = [], Decimal(0), context_of(digits + 10).add
        for weight in weights:
            total = add(total, weight)
            sums.append(total)
        return cls(first, sums, below, above, error)

    @property
    def last(self) -> int:
        """The last index kept."""
        return self.first + len(self.sums) - 1

    def share_bounds(self, index: int, bits: int) -> tuple[int, int]:
        """low <= 2^bits (weights up to the index) / (all weights) <= high; worked out once."""
        if (index, bits) not in self._known:
            self._known[index, bits] = self._share_bounds(index, bits)
        return self._known[index, bits]

    def _share_bounds(self, index: int, bits: int) -> tuple[int, int]:
        here = Decimal(0) if index < self.first else self.sums[min(index, self.last) - self.first]
        whole, one = self.sums[-1], Decimal(1)
        with decimal.localcontext(context_of(bits // 3 + 40), rounding=decimal.ROUND_FLOOR) as down:
            least = whole * (one - self.error)
            down.rounding = decimal.ROUND_CEILING
            most = whole * (one + self.error) + self.below + self.above
            high = (here * (one + self.error) + self.below) / least * 2**bits  # from the last index on it is all
            down.rounding = decimal.ROUND_FLOOR
            low = here * (one - self.error) / most * 2**bits
            return int(low.to_integral_value(decimal.ROUND_FLOOR)), min(
                1 << bits, int(high.to_integral_value(decimal.ROUND_CEILING))
            )


def drawn_index(weights: Callable[[int], Cumulative], source: Source) -> int:
    """The index i with C_(i-1) <= U C < C_i, for the cumulative weights C_i, their sum C and a uniform number U.

    `weights(digits)` gives the weights to that many digits; more are asked for until the bits of U decide. It should
    remember what it worked out.
    """
    uniform, first = Uniform(source), weights(_digits(64))

    def below(index: int) -> bool:
        """Whether U C < C_index."""
        return uniform.below(lambda bits: (first if bits == 64 else weights(_digits(bits))).share_bounds(index, bits))

    low, high = -1, first.last
    while not below(high):
        low, high = high, 2 * high + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if below(middle) else (middle, high)
    return high


def _digits(bits: int) -> int:
    return _SPARE_DIGITS + bits * 31 // 100
