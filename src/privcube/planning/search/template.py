"""A start for the search: weights on all tables of cells at once, HDMM's marginal template. Zone: PUBLIC.

Every table of cells A over the axes of a frame, wanted or not, gets a share t_A of the budget and Laplace noise of its
own. With n_A cells, residual b has precision p_b = sum over A above b of t_A^2 / (2 n_A), and the weighted total
variance at epsilon 1 is sum_b k_b / p_b (THEORY section 2). Scaling all shares changes it by the square, so
  log(sum_b k_b / p_b) + 2 log(sum_A t_A)
is minimized over t >= 0 (McKenna, Miklau, Hay and Machanavajjhala 2018, OPT_M). Sums over all tables above a residual,
and over all residuals below a table, are running sums along the axes, so a step takes time in proportion to the number
of tables, not to its square. The function is not convex. L-BFGS minimizes it in the roots of the shares, which need no
bounds, from random shares: from even ones it ends in a poorer local minimum. Random means hashed from the number of a
table, so the result is always the same.

The tables with noticeable shares are a plan of single groups. The search starts from it and bundles what is better
bundled. The work is counted in steps at a fixed price, never by a clock.

See THEORY section 3.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from math import inf, log, prod
from typing import Final

import numpy as np

from privcube.algebra.hashing import mixed
from privcube.algebra.lattice import Floats
from privcube.algebra.lbfgs import lbfgs
from privcube.model.frame import Frame
from privcube.model.groups import GroupPart, QueryGroup
from privcube.planning.search.closed_form import Choices
from privcube.planning.search.shares import NEVER
from privcube.planning.search.starts import MOST_ROWS
from privcube.progress import Check, never

MOST_TABLES: Final = 2**14  # levels of all axes multiplied: more take too long
_STEP: Final = 60e-6  # price in seconds of a step,
_ENTRY: Final = 8e-9  # and of one of its entries per axis: tables times axes
_FEWEST: Final = 40  # steps: fewer lead nowhere
_STEPS: Final = 100  # from one start: a safeguard, as about 30 are enough
_SEEDS: Final = 64  # starts, as time allows
_SETTLED: Final = 1e-7  # fall of the logarithm of the error; a step that gains less is the last
_WORTH: Final = 1e-4  # of the budget: tables with less are left out


def is_small(frame: Frame) -> bool:
    """Whether a frame has few enough tables of cells for a template: 14 attributes without levels."""
    return prod([len(levels) for levels in frame.sizes]) <= MOST_TABLES


def template(choices: Choices, seconds: float, check: Check = never) -> list[list[list[QueryGroup]]]:
    """The plan of the best template, each table a bundle of its own; none if there is too little time.

    >>> from privcube import Schema, Workload
    >>> from privcube.model.frame import Frame
    >>> workload = Workload.tables(Schema.from_sizes({"a": 2, "b": 3}), [("a",), ("a", "b")])
    >>> template(Choices(workload, Frame.natural(workload)), 0.2)
    [[[(GroupPart(axis=0, level=1, kind='cells'), GroupPart(axis=1, level=1, kind='cells'))]]]
    """
    shape = [len(levels) for levels in choices.frame.sizes]
    steps = int(seconds / (_STEP + _ENTRY * prod(shape) * len(shape)))
    if not is_small(choices.frame) or steps < _FEWEST:
        return []
    task = Template(choices)
    found: list[Floats] = []
    while steps > 0 and len(found) < _SEEDS:
        check()
        shares, taken = task.minimized(len(found), min(steps, _STEPS))
        found.append(shares)
        steps -= taken
    shares = min(found, key=task.error)
    worth = np.where(shares > _WORTH * shares.sum(), shares, 0.0)
    return [[[_group(levels)] for levels in np.argwhere(worth).tolist()]] if np.isfinite(task.error(worth)) else []


class Template:
    """The error of shares on all tables, as arrays with an axis per axis of the frame: the levels of a table."""

    def __init__(self, choices: Choices) -> None:
        sizes = choices.frame.sizes
        self.needs: Floats = np.zeros([len(levels) for levels in sizes])  # k
        self.needs[tuple(choices.levels.T)] = choices.importance
        self.rows = reduce(np.multiply.outer, [np.array(levels, dtype=np.float64) for levels in sizes], np.ones(()))
        limit = max(MOST_ROWS, float(self.rows[self.needs > 0].max()))
        self._unit = np.where(self.rows <= limit, 1 / (2 * self.rows), 0.0)

    def error(self, shares: Floats) -> float:
        """The weighted total variance at epsilon 1 for shares of any sum; infinite if a residual is not measured."""
        precision = _above(shares**2 * self._unit)[self.needs > 0]
        if not np.all(precision > 0):
            return inf
        return float(np.sum(self.needs[self.needs > 0] / precision)) * float(shares.sum()) ** 2

    def minimized(self, seed: int, steps: int) -> tuple[Floats, int]:
        """The shares that L-BFGS finds from random ones, and the steps that it took."""
        allowed = self._unit > 0
        start = mixed(np.arange(allowed.size), seed).reshape(allowed.shape)[allowed] / 2.0**64

        taken = 0

        def objective(roots: Floats) -> tuple[float, Floats]:
            nonlocal taken
            taken += 1
            shares = np.zeros(self.needs.shape)
            shares[allowed] = roots**2
            value, slope = self._logarithm(shares)
            return value, 2 * roots * slope[allowed]

        shares = np.zeros(self.needs.shape)
        shares[allowed] = lbfgs(objective, np.sqrt(start / start.mean()), steps, least_gain=_SETTLED) ** 2
        return shares, taken

    def _logarithm(self, shares: Floats) -> tuple[float, Floats]:
        """The logarithm of the error, and its slope in every share."""
        asked = self.needs > 0
        precision = np.where(asked, np.maximum(_above(shares**2 * self._unit), NEVER), 1.0)
        parts = self.needs / precision
        error, total = float(parts.sum()), float(shares.sum())
        slope = _below(parts / precision) * (-2 * shares * self._unit / error) + 2 / total
        return log(error) + 2 * log(total), slope


def _above(values: Floats) -> Floats:
    """For every choice of levels, the sum over all choices that are at least as fine on every axis."""
    found = values.copy()
    for lines in _lines(found):
        for level in range(lines.shape[1] - 1, 0, -1):
            lines[:, level - 1] += lines[:, level]
    return found


def _below(values: Floats) -> Floats:
    """For every choice of levels, the sum over all choices that are at most as fine on every axis."""
    found = values.copy()
    for lines in _lines(found):
        for level in range(1, lines.shape[1]):
            lines[:, level] += lines[:, level - 1]
    return found


def _lines(values: Floats) -> Iterator[Floats]:
    """For every axis a view of the values with that axis in the middle, the axes before and after it joined."""
    for axis, count in enumerate(values.shape):
        yield values.reshape(prod(values.shape[:axis]), count, -1)


def _group(levels: Sequence[int]) -> QueryGroup:
    return tuple([GroupPart(axis, level) for axis, level in enumerate(levels) if level])
