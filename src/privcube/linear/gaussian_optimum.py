"""The explicit strategy for Gaussian noise: the optimum over all matrices, with a certificate. Zone: PUBLIC.

For a workload with W = Q'Q, and X = S'S where the columns of S have length at most 1, the total variance in units of
one row's noise is trace(W X^-1). It is convex in X, and so is diag(X) <= 1. With multipliers v > 0 for the latter,
  trace(W X^-1) + v . (diag(X) - 1)  is least for  X(v) = V^(-1/2) (V^(1/2) W V^(1/2))^(1/2) V^(-1/2),  V = diag(v),
where it is 2 T(v) - sum v with T the trace of the root in the middle. So for every v
- no strategy falls below the largest 2 sqrt(t) T - t sum v over t, which is T(v)^2 / sum v: a lower bound;
- X(v) divided by its largest diagonal entry m is feasible and has trace(W X^-1) = m T(v): an upper bound.
They meet where diag(X(v)) = 1, and every step compares them: the gap proves how good the result is.

The step is v_i <- v_i x_i^(5/2), x = diag(X(v)) after rescaling v. Since T is concave and homogeneous of degree 1/2
in v, and x is twice its gradient, the derivative -L of log x by log v has L >= 0 entry by entry (the divided
differences of the operator monotone -1/sqrt are positive semidefinite) with rows that sum to 1/2. By Perron and
Frobenius its eigenvalues lie in (0, 1/2], so near the optimum any power below 4 contracts; 1 is the iteration of
Denisov et al. (2022), and 5/2 takes less than half as many steps. Where eigenvalues are small, that is slow. So steps
are combined (Anderson 1965): the next log v is the combination of the last ones, after their steps, whose steps nearly
cancel. It takes 5 to 60 steps where plain ones took 30 to more than 400. Both bounds hold for any v, so nothing but
time depends on it; if a combination makes steps much longer, the earlier ones are forgotten. The problem is from Yuan
et al. (2016), "Convex optimization for linear query processing", and McKenna et al. (2018).

*Several blocks.* If W and X are block diagonal, with blocks over the same cells that share diag(sum_c X_c) <= 1, all of
this holds with T the sum over the blocks and x the diagonal of the sum: the multipliers v are the same for all.

See THEORY sections 12 and 12.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from privcube.algebra.lattice import Floats, Integers
from privcube.model.options import Effort

_POWER: Final = 2.5  # of the step: below 4 to converge, and empirically twice as fast as 1
_MEMORY: Final = 6  # steps that are combined with the last one
_LONGER: Final = 2.0  # times the shortest step so far: longer ones make it forget them
_CANCELED: Final = 1e-8  # relative: differences of steps below are rounding errors
_FARTHEST: Final = 1e3  # factor by which a step may change an entry, before the power: larger ones only overshoot
_WORK: Final[dict[Effort, float]] = {"fast": 2e9, "normal": 2e10, "thorough": 4e11}  # blocks times cubes of cells:
_ROUGH: Final = 1e-3  # the gap that is enough after this work of all steps, about 0.5, 5 and 100 s
_MOST_STEPS: Final = 400  # a safeguard against slow convergence
_STALE: Final = 40  # steps without halving the gap, after which rounding keeps it from shrinking further
_FLOOR: Final = 1e-10  # relative to the mean diagonal of a singular W: added to make it invertible
_SINGULAR: Final = 1e-13  # per row: a smaller ratio of extreme eigenvalues cannot be told from rounding


def gaussian_optimum(gram: Floats, gap: float, effort: Effort = "thorough") -> tuple[Floats, float]:
    """S, upper triangular with columns of length at most 1, and a lower bound on trace(W X^-1) over all strategies.

    S is within a relative `gap` of the bound, 0.001 where less takes longer than the effort, or within rounding error.
    Cells that no query asks for have columns of zeros. If W is singular apart from those, a little is added to its
    diagonal, so that S determines all other cells, some of them barely.

    >>> gram = np.array([[3.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 3.0]])  # all ranges of three cells
    >>> best, bound = gaussian_optimum(gram, 1e-9)
    >>> np.trace(gram @ np.linalg.inv(best.T @ best)).round(6).tolist(), round(bound, 6)
    (8.739388, 8.739388)
    """
    (best,), bound = shared_optimum([gram], gap, effort)
    return best, bound


def shared_optimum(grams: Sequence[Floats], gap: float, effort: Effort = "thorough") -> tuple[list[Floats], float]:
    """An S_c for every block W_c, and a lower bound on the sum of trace(W_c X_c^-1) over all strategies.

    The columns of all S_c above each other have length at most 1. Otherwise as for a single block.

    >>> both, bound = shared_optimum([np.eye(2), 4 * np.eye(2)], 1e-9)
    >>> [best.round(4).tolist() for best in both], round(bound, 6)
    ([[[0.5774, 0.0], [0.0, 0.5774]], [[0.8165, 0.0], [0.0, 0.8165]]], 18.0)
    """
    asked = np.flatnonzero(np.any([np.diag(gram) > 0 for gram in grams], axis=0))
    blocks = np.stack([_invertible(gram[np.ix_(asked, asked)]) for gram in grams])
    v = np.sqrt(np.einsum("bii->i", blocks))
    lower, upper = 0.0, np.inf
    best = np.zeros((len(grams), len(asked))), blocks, np.ones(len(asked)), 1.0
    halved, left, combined = 0, np.inf, _Combined()
    patience = _WORK[effort] / (len(grams) * len(asked) ** 3)
    for step in range(_MOST_STEPS):
        root = np.sqrt(v)
        values, vectors = np.linalg.eigh(blocks * np.outer(root, root))
        roots = np.sqrt(np.maximum(values, 0.0))
        total = float(roots.sum())
        diagonal = np.sum(np.einsum("bij,bj->bi", vectors**2, roots), axis=0) / v
        lower = max(lower, total**2 / float(v.sum()))
        if diagonal.max() * total < upper:
            upper = float(diagonal.max()) * total
            best = np.sqrt(roots), vectors, root, float(np.sqrt(diagonal.max()))
        if upper - lower < left / 2:
            halved, left = step, upper - lower
        enough = gap if step < patience else max(gap, _ROUGH)
        if upper <= lower * (1 + enough) or step - halved > _STALE:
            break
        scale = total / float(v.sum())  # X(t v) = X(v) / sqrt(t), and t = scale^2 makes sum v = T
        change = _POWER * np.log(np.clip(diagonal / scale, 1 / _FARTHEST, _FARTHEST))
        v = np.exp(combined.next(np.log(v * scale**2), change))
    lengths, directions, root, longest = best
    rows_of = lengths[:, :, None] * np.swapaxes(directions, 1, 2) / root / longest
    real = np.stack([gram[np.ix_(asked, asked)] for gram in grams])
    if not np.array_equal(real, blocks):  # the bound must hold for what was given, and any v has one
        values = np.linalg.eigvalsh(real * np.outer(np.sqrt(v), np.sqrt(v)))
        lower = float(np.sqrt(np.maximum(values, 0.0)).sum()) ** 2 / float(v.sum())
    return [_triangle(rows, asked, gram) for rows, gram in zip(rows_of, grams, strict=True)], lower


class _Combined:
    """Steps of a fixed-point iteration, each combined with those before it."""

    def __init__(self) -> None:
        self._known: list[tuple[Floats, Floats]] = []
        self._shortest = np.inf

    def next(self, here: Floats, change: Floats) -> Floats:
        """The point to go on from, given the step that is due here."""
        length = float(np.linalg.norm(change))
        if length > _LONGER * self._shortest:
            self._known.clear()
        self._shortest = min(self._shortest, length)
        self._known = [*self._known[-_MEMORY:], (here, change)]
        if len(self._known) < 3:
            return here + change
        points, changes = (np.diff(np.array(each), axis=0) for each in zip(*self._known, strict=True))
        parts = np.linalg.lstsq(changes.T, change, rcond=_CANCELED)[0]
        combined = change - parts @ (points + changes)
        if np.abs(combined).max() > _POWER * np.log(_FARTHEST):  # steps that hardly differ are combined into rounding
            return here + change
        return np.asarray(here + combined)


def _invertible(gram: Floats) -> Floats:
    """A Gram matrix with a little added to the diagonal of the cells that it asks for, if it is singular there."""
    own = np.flatnonzero(np.diag(gram) > 0)
    if _is_surely_regular(gram[np.ix_(own, own)]):
        return gram
    values = np.linalg.eigvalsh(gram[np.ix_(own, own)])
    if values[0] >= values[-1] * _SINGULAR * len(own):
        return gram
    added = np.zeros(len(gram))
    added[own] = _FLOOR * np.mean(np.diag(gram)[own])
    return gram + np.diag(added)


def _is_surely_regular(gram: Floats) -> bool:
    """Whether the least eigenvalue is well above what counts as singular: Cholesky takes a tenth of the time."""
    most = float(np.abs(gram).sum(axis=1).max())  # no eigenvalue is larger
    try:
        np.linalg.cholesky(gram - np.eye(len(gram)) * (most * 2 * _SINGULAR * len(gram)))
    except np.linalg.LinAlgError:
        return False
    return True


def _triangle(rows: Floats, asked: Integers, gram: Floats) -> Floats:
    """The triangular factor with the products of some rows over the asked cells, over the cells of a block.

    Cells that the block does not ask for have columns of zeros.
    """
    own = np.flatnonzero(np.diag(gram)[asked] > 0)
    triangle = np.linalg.qr(rows[:, own], mode="r")
    spread = np.zeros((len(own), len(gram)))
    spread[:, asked[own]] = triangle * np.where(np.diag(triangle) < 0, -1.0, 1.0)[:, None]
    return spread
