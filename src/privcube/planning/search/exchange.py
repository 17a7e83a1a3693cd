"""Bundles built to fit a plan: column generation by exchange. Zone: PUBLIC.

Columns are bundles. The precision of a residual is sum e^2 W over bundles, so at share e = 0 a new bundle has slope 0,
and linear prices, as in column generation for linear programs, never favor any column. But one or two bundles can hand
their budget to a new one: if it gets their share t, the error of the plan has the closed form
  sum_b k_b / (p_b + t^2 W_b),   p the precisions from the bundles that stay.
The new bundle is built group by group, each time adding the group of a pool that lowers this error most, until none
does. If the plan with settled budgets is better than before, the exchange is kept. Then the next one is tried.

See THEORY section 3.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Final

import numpy as np

from privcube.algebra.lattice import Floats, Integers
from privcube.planning.search.closed_form import NEVER, Bundle, Choice, Choices, optimal_shares, strengths

ENTRY: Final = 15e-9  # price in seconds per entry of pool x residuals, for each group added
_JOINS: Final = 40  # groups that there must be time to add; a pool too large for that is cut
_SETTLED: Final = 60  # rounds of adapting budgets, empirically enough to settle them
_LEAST_GAIN: Final = 1e-5  # relative; an exchange that gains less is not worth the time
_LEAST_SHARE: Final = 1e-3  # of the budget; bundles below it are dropped, as they hardly matter


def exchanged(
    choices: Choices, plan: Sequence[Sequence[Choice]], pool: Sequence[Choice], seconds: float
) -> tuple[float, list[Bundle]]:
    """The error and the bundles of a plan after exchanges, for the given seconds at the price above."""
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
    """The groups, followed by all that differ from one of them on a single axis."""
    own = list(dict.fromkeys(groups))
    other = (
        (*group[:axis], option, *group[axis + 1 :])
        for group in own
        for axis, options in enumerate(choices.options)
        for option in range(len(options))
    )
    return list(dict.fromkeys([*own, *other]))


def fitted(choices: Choices, pool: Sequence[Choice], speaks: Floats, precision: Floats, share: float) -> Bundle:
    """The bundle for a share of the budget that best complements a given precision, built group by group."""
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
    """Bundles to remove: each one, then each pair, those with the smallest shares first."""
    order = np.argsort(shares, kind="stable")
    for count in (1, 2):
        for gone in combinations(order.tolist(), count):
            yield np.array(gone)
