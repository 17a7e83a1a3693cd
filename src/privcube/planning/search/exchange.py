"""Bundles made to fit a plan: column generation by exchange. Zone: PUBLIC.

Columns are bundles. The precision of a residual is sum e^2 W over bundles, so a bundle that is not there has slope 0
in its share e: linear prices, as in column generation for linear programs, see no use in any column. But budget that
some bundles have can be given to another: with one or two of them taken out, the error of the plan that has a new
bundle with their share t instead is known in closed form,
  sum_b k_b / (p_b + t^2 W_b),   p the precisions from the bundles that stay.
The new bundle is built for it group by group: of all groups of a pool, the one joins that lowers this error most, until
none does. If the plan with settled budgets is better than before, the exchange is made, and the next one is tried.

See THEORY section 3.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Final

import numpy as np

from privcube.algebra.lattice import Floats, Integers
from privcube.planning.search.closed_form import NEVER, Bundle, Choice, Choices, optimal_shares, strengths

ENTRY: Final = 15e-9  # seconds per entry of pool x residuals, for one group that joins
_JOINS: Final = 40  # groups that time is left for, at least, where the pool has to be cut
_SETTLED: Final = 60  # rounds of budgets
_LEAST_GAIN: Final = 1e-5
_LEAST_SHARE: Final = 1e-3


def exchanged(
    choices: Choices, plan: Sequence[Sequence[Choice]], pool: Sequence[Choice], seconds: float
) -> tuple[float, list[Bundle]]:
    """The error and the bundles of a plan after exchanges, for so many seconds by the price above."""
    pool = pool[: max(1, int(seconds / ENTRY / _JOINS / choices.residuals))]
    speaks = choices.speaks(pool)
    bundles = [list(bundle) for bundle in plan]
    error, shares, says = _settled(choices, bundles, np.ones(len(bundles)))
    untried = _ones_and_pairs(shares)
    while seconds > 0 and (gone := next(untried, None)) is not None:
        stay = np.setdiff1d(np.arange(len(bundles)), gone)
        share = float(shares[gone].sum())
        fitting = fitted(choices, pool, speaks, shares[stay] ** 2 @ says[stay], share)
        seconds -= ENTRY * speaks.size * (len(fitting) + 1)
        others = [*(bundles[at] for at in stay), fitting]
        tried = _settled(choices, others, np.append(shares[stay], share))
        if tried[0] < error * (1 - _LEAST_GAIN):
            worth = np.flatnonzero(tried[1] > _LEAST_SHARE)
            bundles = [others[at] for at in worth]
            error, shares, says = _settled(choices, bundles, tried[1][worth])
            untried = _ones_and_pairs(shares)
    return error, bundles


def nearby(choices: Choices, groups: Iterable[Choice]) -> list[Choice]:
    """Groups, and those that differ from one of them on one axis."""
    own = list(dict.fromkeys(groups))
    other = (
        (*group[:axis], option, *group[axis + 1 :])
        for group in own
        for axis, options in enumerate(choices.options)
        for option in range(len(options))
    )
    return list(dict.fromkeys([*own, *other]))


def fitted(choices: Choices, pool: Sequence[Choice], speaks: Floats, precision: Floats, share: float) -> Bundle:
    """The bundle for a share of the budget that goes best with the precision there is, built group by group."""
    facts = [choices.facts(group) for group in pool]
    rows = np.array([fact.rows for fact in facts], dtype=np.float64)
    parts = np.stack([rows, np.ones(len(rows)), 1 / rows], axis=1)[:, :, None] * speaks[:, None, :]
    taken: list[int] = []
    shared, sums, all_rows, error = -1, np.zeros((3, choices.residuals)), 0.0, np.inf
    while len(taken) < len(pool):
        slices = np.array([choices.slices_of(shared & fact.shared) for fact in facts], dtype=np.float64)
        says = strengths(sums + parts, all_rows + rows, slices)
        errors = (choices.importance / np.maximum(precision + share**2 * says, NEVER)).sum(axis=1)
        errors[taken] = np.inf
        best = int(np.argmin(errors))
        if errors[best] >= error:
            break
        taken.append(best)
        error = float(errors[best])
        shared, sums, all_rows = shared & facts[best].shared, sums + parts[best], all_rows + float(rows[best])
    return [pool[at] for at in taken]


def _settled(choices: Choices, bundles: Sequence[Bundle], shares: Floats) -> tuple[float, Floats, Floats]:
    """The error, the settled shares and the strengths of a plan."""
    says = np.stack([choices.strengths_of(bundle) for bundle in bundles])
    errors, found = optimal_shares(says[None], choices.importance, (shares / shares.sum())[None], _SETTLED)
    return float(errors[0]), found[0], says


def _ones_and_pairs(shares: Floats) -> Iterator[Integers]:
    """What to take out: each bundle, then each pair, those of little budget first."""
    order = np.argsort(shares, kind="stable")
    for count in (1, 2):
        for gone in combinations(order.tolist(), count):
            yield np.array(gone)
