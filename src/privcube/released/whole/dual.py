"""One implicit step of the mirror flow: a smooth convex problem over coordinates, solved by L-BFGS. Zone: RELEASED.

Records r with weights w_r follow w <- w exp(-u . h(r)), h(r) the coordinates of one record. The step u minimizes
    sum_r w_r exp(-u . h(r)) + u . e + sum u^2 / (2 t m),    e the estimates, m the metric, t the length of the step,
for there the coordinates c of the new weights are e + u / (t m): the change of the weights' logarithms is t times the
gradient of 1/2 sum m (c - e)^2 at its end. Steps of any length are stable, and weights stay positive.

See THEORY section 5.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from privcube.algebra.lattice import Floats, Integers
from privcube.released.whole.blocks import Problem

_MOST_ITERATIONS: Final = 200
_CLOSE: Final = 1e-2  # of the first gradient: more exactness does not show in the result
_LARGEST_EXPONENT: Final = 30.0  # of a factor of a weight in one step
_LARGEST_MOVE: Final = 2.0  # of the logarithm of a weight in one iteration, as far as a sample of records shows
_SAMPLE: Final = 2000  # records
_MOST_NUMBERS: Final = 10_000_000  # kept as curvature: 80 MB
_MOST_PAIRS: Final = 100
_ALIGNED: Final = 1e-10  # least cosine of a step and the change of the gradient along it
_FLAT: Final = 1e-6  # of an average curvature, the least that is used for scaling

Pairs = list[tuple[Floats, Floats]]


class Curvature:
    """Steps and what they did to the gradient, kept from one implicit step to the next, as it changes little."""

    def __init__(self, coordinates: int) -> None:
        self._most = max(5, min(_MOST_PAIRS, _MOST_NUMBERS // max(2 * coordinates, 1)))
        self.pairs: Pairs = []

    def add(self, step: Floats, change: Floats) -> None:
        """Keep one more pair, and forget the oldest."""
        self.pairs.append((step, change))
        del self.pairs[: -self._most]


class Step(NamedTuple):
    """The change of the logarithms, in coordinates, and the weights after it."""

    change: Floats
    weights: Floats


def implicit_step(
    problem: Problem,
    keys: Sequence[Integers],
    weights: Floats,
    estimate: Floats,
    length: float,
    curvature: Curvature,
    start: Floats | None = None,
) -> Step:
    """Take a step of the given length toward the estimates."""
    ridge = 1.0 / (length * problem.pull)
    flat = _FLAT * float(weights.sum()) / problem.dimension
    scale = 1.0 / np.sqrt(np.maximum(problem.information(keys, weights), flat) + ridge)
    sample = [own[:_SAMPLE] for own in keys]

    def value(point: Floats) -> tuple[float, Floats, Floats]:
        change = point * scale
        exponent = np.minimum(-problem.on_records(keys, change), _LARGEST_EXPONENT)
        new = weights * np.exp(exponent)
        gradient = (estimate + ridge * change - problem.coordinates(keys, new)) * scale
        return float(new.sum() + change @ estimate + 0.5 * np.sum(ridge * change**2)), gradient, new

    def longest(direction: Floats) -> float:
        largest = float(np.abs(problem.on_records(sample, direction * scale)).max(initial=0.0))
        return min(1.0, _LARGEST_MOVE / max(largest, 1e-12))

    pairs = [(step / scale, (change + ridge * step) * scale) for step, change in curvature.pairs]
    pairs = [pair for pair in pairs if _is_curved(*pair)]
    point = np.zeros(len(estimate)) if start is None else start / scale
    found, gradient, new = value(point)
    enough = max(_CLOSE * float(np.linalg.norm(gradient)), 1e-3 * len(gradient) ** 0.5)
    for _ in range(_MOST_ITERATIONS):
        if float(np.linalg.norm(gradient)) <= enough:
            break
        before, slope_before = point, gradient
        point, found, gradient, new, pairs = _line_search(value, longest, point, found, gradient, new, pairs)
        step, change = point - before, gradient - slope_before
        if not np.any(step):
            break
        if _is_curved(step, change):
            pairs.append((step, change))
            curvature.add(step * scale, change / scale - ridge * (step * scale))
    return Step(point * scale, new)


def _line_search(
    value: Callable[[Floats], tuple[float, Floats, Floats]],
    longest: Callable[[Floats], float],
    point: Floats,
    found: float,
    gradient: Floats,
    new: Floats,
    pairs: Pairs,
) -> tuple[Floats, float, Floats, Floats, Pairs]:
    """Go down along the direction of L-BFGS; if it points up or leads nowhere, along the gradient."""
    while True:
        direction = _direction(gradient, pairs)
        slope = -float(gradient @ direction)
        length = longest(direction) if slope < 0 else 0.0
        while length > 1e-6:
            trial = point - length * direction
            lower, there, weights = value(trial)
            if lower <= found + 1e-4 * length * slope:
                return trial, lower, there, weights, pairs
            length *= 0.35
        if not pairs:
            return point, found, gradient, new, pairs
        pairs = []


def _direction(gradient: Floats, pairs: Pairs) -> Floats:
    """The inverse of the curvature times the gradient (two-loop recursion of L-BFGS)."""
    direction, shares = gradient.copy(), []
    for step, change in reversed(pairs):
        share = float(step @ direction) / float(step @ change)
        shares.append(share)
        direction -= share * change
    if pairs:
        step, change = pairs[-1]
        direction *= float(step @ change) / float(change @ change)
    for (step, change), share in zip(pairs, reversed(shares), strict=True):
        direction += step * (share - float(change @ direction) / float(step @ change))
    return direction


def _is_curved(step: Floats, change: Floats) -> bool:
    return float(step @ change) > _ALIGNED * float(np.linalg.norm(step) * np.linalg.norm(change))
