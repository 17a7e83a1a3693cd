"""Noise for many releases of a plan: drawn at once where the samplers can, and dealt out to the releases one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np

from privcube.model.plan import Plan
from privcube.sensitive.gate import SystemNoise, _noise


class ManyDraws(SystemNoise):
    """The system's noise. Draws are independent of each other, and none is dealt out twice."""

    def __init__(self, runs: int) -> None:
        self._runs = runs
        self._left: dict[object, Iterator[list[np.ndarray]]] = {}

    def _dealt(self, kind: object, count: int, draw: Callable[[int], list[np.ndarray]]) -> list[np.ndarray]:
        """The next `count` draws of a kind."""
        found = next(self._left.get((kind, count), iter(())), None)
        if found is None:
            parts = [np.split(rows, self._runs) for rows in draw(count * self._runs)]
            self._left[kind, count] = iter([list(run) for run in zip(*parts, strict=True)])
            found = next(self._left[kind, count])
        return found

    def laplace(self, scale: Fraction, count: int) -> np.ndarray:
        return self._dealt(scale, count, lambda many: [super(ManyDraws, self).laplace(scale, many)])[0]

    def gaussian(self, variance: Fraction, count: int) -> np.ndarray:
        return self._dealt(variance, count, lambda many: [super(ManyDraws, self).gaussian(variance, many)])[0]

    def rounded_gaussian(self, variance: Fraction, count: int) -> np.ndarray:
        return self._dealt(
            ("rounded", variance), count, lambda many: [super(ManyDraws, self).rounded_gaussian(variance, many)]
        )[0]

    def section(self, scale: Fraction, bound: Sequence[int], free: Sequence[int], count: int) -> list[np.ndarray]:
        kind = (scale, *bound, None, *free)
        return self._dealt(kind, count, lambda many: super(ManyDraws, self).section(scale, bound, free, many))

    def gram(
        self,
        dimension: int,
        left: np.ndarray,
        right: np.ndarray,
        squares: Sequence[Fraction],
        which: np.ndarray,
        count: int,
    ) -> np.ndarray:
        kind = (dimension, *squares, *np.concatenate([left, right, which]).tolist())
        many = super().gram
        return self._dealt(kind, count, lambda all_: [many(dimension, left, right, squares, which, all_)])[0]


def drawn_noise(made: Plan, runs: int) -> np.ndarray:
    """The noise of so many releases, a row each, as the gate puts it together."""
    source = ManyDraws(runs)
    return np.array([_noise(made, source) for _ in range(runs)])
