"""Bundles built to fit a plan: column generation by exchange. Zone: PUBLIC.

Columns are bundles. The precision of a residual is sum e^2 W over bundles, so at share e = 0 a new bundle has slope 0,
and linear prices, as in column generation for linear programs, never favor any column. But one or two bundles can hand
their budget to a new one: if it gets their share t, the error of the plan has the closed form
  sum_b k_b / (p_b + t^2 W_b),   p the precisions from the bundles that stay.
The new bundle is built group by group, each time adding the group of a pool that lowers this error most, until none
does. If the plan with settled budgets is better than before, the exchange is kept. Then the next one is tried. Bundles
of more groups than there is time to add stay.

See THEORY section 3.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice
from typing import Final, NamedTuple

import numpy as np

from privcube.algebra.lattice import Floats, Integers
from privcube.planning.search.closed_form import NEVER, Choice, Choices, Facts, drawable_shares, terms
from privcube.progress import Check, never

# Prices in seconds of a group added to a bundle: per entry of pool x residuals, per group of the pool, and by itself;
# and of adapting budgets, per entry of bundles x residuals.
ENTRY: Final = 20e-9
_OF_POOL: Final = 2e-6
_JOIN: Final = 150e-6
SETTLING: Final = 120e-9
_JOINS: Final = 40  # groups that there must be time to add; a pool too large for that is cut
_PASSED: Final = 2e-6  # seconds, for a bundle or two that are not exchanged
_SETTLED: Final = 60  # rounds of adapting budgets, empirically enough to settle them
_LEAST_GAIN: Final = 1e-5  # relative; an exchange that gains less is not worth the time
_LEAST_SHARE: Final = 1e-3  # of the budget; bundles below it are dropped, as they hardly matter


class Lawful(NamedTuple):
    """A bundle, and whether it is noised on its section."""

    bundle: Sequence[Choice]
    section: bool


def exchanged(
    choices: Choices,
    plan: Sequence[Lawful],
    fixed: Floats,
    pool: Iterable[Choice],
    seconds: float,
    check: Check = never,
) -> tuple[float, list[Lawful]]:
    """The error and the bundles of a plan after exchanges, for the given seconds at the price above.

    `fixed` has the strengths of bundles that stay whatever happens, one per row.
    """
    pool = list(islice(pool, max(1, int((seconds / _JOINS - _JOIN) / (ENTRY * choices.residuals + _OF_POOL)))))
    join = _JOIN + len(pool) * (ENTRY * choices.residuals + _OF_POOL)
    speaks = choices.speaks(pool)
    bundles, kept = list(plan), len(fixed)
    says = np.concatenate([fixed, *(choices.strengths_of(*each)[None] for each in bundles)])
    least = np.array([0.0] * kept + [_least_share(choices, each) for each in bundles])
    error, shares = _settled(choices, says, np.ones(kept + len(bundles)), least)
    untried = _ones_and_pairs(shares[kept:])
    while seconds > 0 and (gone := next(untried, None)) is not None:
        check()
        most = int(seconds / join)  # groups that there is time to add
        if sum(len(bundles[at].bundle) for at in gone) > most:
            seconds -= _PASSED
            continue
        stay = np.setdiff1d(np.arange(len(bundles)), gone)
        left = np.concatenate([np.arange(kept), kept + stay])
        share = float(shares[kept + gone].sum())
        fitting = fitted(choices, pool, speaks, shares[left] ** 2 @ says[left], share, most)
        seconds -= join * (len(fitting.bundle) + 1) + SETTLING * says.size
        others = [*(bundles[at] for at in stay), fitting]
        other_says = np.concatenate([says[left], choices.strengths_of(*fitting)[None]])
        other_least = np.append(least[left], _least_share(choices, fitting))
        tried = _settled(choices, other_says, np.append(shares[left], share), other_least)
        if tried[0] < error * (1 - _LEAST_GAIN):
            worth = np.flatnonzero(tried[1][kept:] > _LEAST_SHARE)
            bundles = [others[at] for at in worth]
            left = np.concatenate([np.arange(kept), kept + worth])
            says, least = other_says[left], other_least[left]
            error, shares = _settled(choices, says, tried[1][left], least)
            untried = _ones_and_pairs(shares[kept:])
    return error, bundles


def nearby(choices: Choices, groups: Iterable[Choice]) -> Iterator[Choice]:
    """The groups, followed by all that differ from one of them on a single axis."""
    own = dict.fromkeys(groups)
    yield from own
    seen = set(own)
    for group in own:
        for axis, options in enumerate(choices.options):
            for option in range(len(options)):
                other = (*group[:axis], option, *group[axis + 1 :])
                if other not in seen:
                    seen.add(other)
                    yield other


def fitted(
    choices: Choices, pool: Sequence[Choice], speaks: Floats, precision: Floats, share: float, most: int
) -> Lawful:
    """The bundle for a share of the budget that best complements a given precision, of at most so many groups."""
    facts = [choices.facts(group) for group in pool]
    rows = np.array([fact.rows for fact in facts], dtype=np.float64)
    own: list[Facts] = []
    parts = np.stack([rows, np.ones(len(rows)), 1 / rows], axis=1)[:, :, None] * speaks[:, None, :]
    taken: list[int] = []
    shared, sums, error, section = -1, np.zeros((3, choices.residuals)), np.inf, False
    while len(taken) < min(most, len(pool)):
        shapes, places = choices.shapes_with(shared, own, facts)
        added = terms(sums + parts, [shapes[place][0] for place in places])
        laws: list[Floats] = []
        for law in zip(*shapes, strict=True):
            if not laws or any(shape.told != -1 for shape in law):
                precisions = choices.of_shapes(added.copy(), [law[place] for place in places])
                precisions *= share**2
                precisions += precision
                np.maximum(precisions, NEVER, out=precisions)
                laws.append(np.divide(choices.importance, precisions, out=precisions).sum(axis=1))
        errors = np.minimum(laws[0], laws[-1])
        errors[taken] = np.inf
        best = int(np.argmin(errors))
        if errors[best] >= error:
            break
        taken.append(best)
        error, section = float(errors[best]), bool(laws[-1][best] < laws[0][best])
        own.append(facts[best])
        shared, sums = shared & facts[best].shared, sums + parts[best]
    return Lawful([pool[at] for at in taken], section)


def _least_share(choices: Choices, each: Lawful) -> float:
    return choices.least_share(len(each.bundle), choices.shapes(each.bundle)[False].dimension)


def _settled(choices: Choices, says: Floats, shares: Floats, least: Floats) -> tuple[float, Floats]:
    """The error and the settled shares of bundles of these strengths, each of which needs a least share."""
    start = (shares / shares.sum())[None]
    errors, found, _ = drawable_shares(says[None], choices.importance, start, least[None], _SETTLED)
    return float(errors[0]), found[0]


def _ones_and_pairs(shares: Floats) -> Iterator[Integers]:
    """Bundles to remove: each one, then each pair, those with the smallest shares first."""
    order = np.argsort(shares, kind="stable")
    for count in (1, 2):
        for gone in combinations(order.tolist(), count):
            yield np.array(gone)
