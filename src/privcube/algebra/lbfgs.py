"""A minimum of a smooth function near a start, perhaps within bounds, in a given number of evaluations. Zone: PUBLIC.

L-BFGS (Nocedal 1980) with backtracking. With bounds, coordinates that are at one and would leave are held fixed for a
step, and the others move along the direction that their part of the slope gives; what crosses a bound is put on it
(Bertsekas 1982, "Projected Newton methods", with the curvature of the last moves). Every step lowers the function.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from typing import Final

import numpy as np

from privcube.algebra.lattice import Floats

_MEMORY: Final = 10  # moves that the curvature is taken from
_ENOUGH: Final = 1e-4  # part of the predicted fall that a step must reach
_SHORTER: Final = 0.3  # times the step, if it was too long
_FIRST: Final = 0.1  # of the length of the start: the first step
_NO_SLOPE: Final = 1e-300


def lbfgs(
    objective: Callable[[Floats], tuple[float, Floats]],
    start: Floats,
    steps: int,
    *,
    low: float = -inf,
    high: float = inf,
    least_gain: float = 0.0,
) -> Floats:
    """The point reached after the given number of evaluations, or when a step gains no more than `least_gain`.

    >>> lbfgs(lambda x: (float(((x - 3) ** 2).sum()), 2 * (x - 3)), np.ones(2), 60).round(3).tolist()
    [3.0, 3.0]
    >>> lbfgs(lambda x: (float(((x - 3) ** 2).sum()), 2 * (x - 3)), np.ones(2), 60, high=2.0).tolist()
    [2.0, 2.0]
    """
    here, (value, slope) = start, objective(start)
    moves: deque[tuple[Floats, Floats, float]] = deque(maxlen=_MEMORY)
    bounded = low > -inf or high < inf
    while steps > 1:
        if bounded:
            held = ((here <= low) & (slope > 0)) | ((here >= high) & (slope < 0))
            free = np.where(held, 0.0, slope)
            to = np.where(held, 0.0, -_curved(moves, free))
        else:
            free = slope
            to = -_curved(moves, free)
        if float(to @ free) >= 0:  # rounding errors: start again from the slope
            moves.clear()
            to = -free
        reach = 1.0 if moves else _FIRST * float(np.linalg.norm(start)) / max(float(np.linalg.norm(to)), _NO_SLOPE)
        while True:
            steps -= 1
            there = here + reach * to
            if bounded:
                there = np.clip(there, low, high)
            tried = objective(there)
            step = there - here
            if tried[0] <= value + _ENOUGH * float(step @ slope) or steps <= 1:
                break
            reach *= _SHORTER
        if tried[0] >= value:
            break
        change = tried[1] - slope
        if float(step @ change) > 0:
            moves.append((step, change, float(step @ change)))
        gain = value - tried[0]
        here, (value, slope) = there, tried
        if gain <= least_gain:
            break
    return here


def _curved(moves: Sequence[tuple[Floats, Floats, float]], slope: Floats) -> Floats:
    """The slope times the inverse of the curvature that the last moves saw."""
    found, parts = slope.copy(), []
    for step, change, product in reversed(moves):
        part = float(step @ found) / product
        parts.append(part)
        found -= part * change
    if moves:
        found *= moves[-1][2] / float(moves[-1][1] @ moves[-1][1])
    for (step, change, product), part in zip(moves, reversed(parts), strict=True):
        found += (part - float(change @ found) / product) * step
    return found
