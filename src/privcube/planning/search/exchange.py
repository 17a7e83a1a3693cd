"""Bundles built to fit a plan: column generation by exchange. Zone: PUBLIC.

Columns are bundles. The precision of a residual is sum e^2 W over bundles, so at share e = 0 a new bundle has slope 0,
and linear prices, as in column generation for linear programs, never favor any column. But one or two bundles can hand
their budget to a new one: if it gets their share t, the error of the plan has the closed form
  sum_b k_b / (p_b + t^2 W_b),   p the precisions from the bundles that stay.
The new bundle is built group by group, each time adding the group of a pool that lowers this error most, until none
does. If the plan with settled budgets is better than before, the exchange is kept. Then the next one is tried. Bundles
of more groups than there is time to add stay. So that bundles which are nearly right need not be built again, groups
are also added to a bundle as it is, and to one that has lost a single group.

See THEORY section 3.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice, zip_longest
from typing import Final, NamedTuple

import numpy as np

from privcube.algebra.lattice import Floats, Integers
from privcube.planning.search.closed_form import Choice, Choices, terms
from privcube.planning.search.shares import NEVER, drawable_shares
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
    material = Pool(choices, pool)
    bundles, kept = list(plan), len(fixed)
    says = np.concatenate([fixed, *(choices.strengths_of(*each)[None] for each in bundles)])
    least = np.array([0.0] * kept + [_least_share(choices, each) for each in bundles])
    error, shares = _settled(choices, says, np.ones(kept + len(bundles)), least)
    untried = _gaps(bundles, shares[kept:], material)
    while seconds > 0 and (gap := next(untried, None)) is not None:
        check()
        most = int(seconds / join)  # groups that there is time to add
        if sum(len(bundles[at].bundle) for at in gap.gone) - len(gap.stay) > most:
            seconds -= _PASSED
            continue
        rest = np.setdiff1d(np.arange(len(bundles)), gap.gone)
        left = np.concatenate([np.arange(kept), kept + rest])
        share = float(shares[kept + gap.gone].sum())
        fitting = material.fitted(shares[left] ** 2 @ says[left], share, len(gap.stay) + most, gap.stay, gap.without)
        seconds -= join * (len(fitting.bundle) - len(gap.stay) + 1) + SETTLING * says.size
        if not fitting.bundle:
            continue
        others = [*(bundles[at] for at in rest), fitting]
        other_says = np.concatenate([says[left], choices.strengths_of(*fitting)[None]])
        other_least = np.append(least[left], _least_share(choices, fitting))
        tried = _settled(choices, other_says, np.append(shares[left], share), other_least)
        if tried[0] < error * (1 - _LEAST_GAIN):
            worth = np.flatnonzero(tried[1][kept:] > _LEAST_SHARE)
            bundles = [others[at] for at in worth]
            left = np.concatenate([np.arange(kept), kept + worth])
            says, least = other_says[left], other_least[left]
            error, shares = _settled(choices, says, tried[1][left], least)
            untried = _gaps(bundles, shares[kept:], material)
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


class Pool:
    """Groups that bundles are built of, and what they say about every residual."""

    def __init__(self, choices: Choices, pool: Sequence[Choice]) -> None:
        self._choices, self._pool = choices, pool
        self._place = {group: at for at, group in enumerate(pool)}
        self._facts = [choices.facts(group) for group in pool]
        rows = np.array([fact.rows for fact in self._facts], dtype=np.float64)
        speaks = choices.speaks(pool)
        self._parts = np.stack([rows, np.ones(len(rows)), 1 / rows], axis=1)[:, :, None] * speaks[:, None, :]

    def places(self, groups: Sequence[Choice]) -> list[int] | None:
        """Where some groups are in the pool; None if one is not there."""
        found = [self._place.get(group, -1) for group in groups]
        return None if -1 in found else found

    def fitted(
        self, precision: Floats, share: float, most: int, stay: Sequence[int] = (), without: Sequence[int] = ()
    ) -> Lawful:
        """The bundle for a share of the budget that best complements a given precision, of at most so many groups.

        It starts from the groups that stay, and has none of those that it must do without.
        """
        choices, taken = self._choices, list(stay)
        own = [self._facts[at] for at in taken]
        shared, sums, section, error = -1, self._parts[taken].sum(axis=0), False, np.inf
        for fact in own:
            shared &= fact.shared
        if own:
            bundle = [self._pool[at] for at in taken]
            both = [self._error(precision + share**2 * choices.strengths_of(bundle, law)) for law in (False, True)]
            error, section = min(both), both[1] < both[0]
        while len(taken) < min(most, len(self._pool)):
            shapes, places = choices.shapes_with(shared, own, self._facts)
            added = terms(sums + self._parts, [shapes[place][0].slices for place in places])
            laws: list[Floats] = []
            for law in zip(*shapes, strict=True):
                if not laws or any(shape.told != -1 for shape in law):
                    precisions = choices.of_shapes(added.copy(), [law[place] for place in places])
                    precisions *= share**2
                    precisions += precision
                    np.maximum(precisions, NEVER, out=precisions)
                    laws.append(np.divide(choices.importance, precisions, out=precisions).sum(axis=1))
            errors = np.minimum(laws[0], laws[-1])
            errors[np.array([*taken, *without], dtype=np.int64)] = np.inf
            best = int(np.argmin(errors))
            if errors[best] >= error:
                break
            taken.append(best)
            error, section = float(errors[best]), bool(laws[-1][best] < laws[0][best])
            own.append(self._facts[best])
            shared, sums = shared & self._facts[best].shared, sums + self._parts[best]
        return Lawful([self._pool[at] for at in taken], section)

    def _error(self, precision: Floats) -> float:
        return float((self._choices.importance / np.maximum(precision, NEVER)).sum())


def _least_share(choices: Choices, each: Lawful) -> float:
    return choices.least_share(len(each.bundle), choices.shapes(each.bundle)[False].dimension)


def _settled(choices: Choices, says: Floats, shares: Floats, least: Floats) -> tuple[float, Floats]:
    """The error and the settled shares of bundles of these strengths, each of which needs a least share."""
    start = (shares / shares.sum())[None]
    errors, found, _ = drawable_shares(says[None], choices.importance, start, least[None], _SETTLED)
    return float(errors[0]), found[0]


class _Gap(NamedTuple):
    """What an exchange takes out: whole bundles, or at most one group of a bundle; the others of it stay."""

    gone: Integers  # bundles
    stay: Sequence[int] = ()  # places in the pool
    without: Sequence[int] = ()


def _gaps(bundles: Sequence[Lawful], shares: Floats, pool: Pool) -> Iterator[_Gap]:
    """What to take out: each bundle; of each, nothing; pairs and single groups in turn; the smallest shares first."""
    order = np.argsort(shares, kind="stable").tolist()
    yield from (_Gap(np.array([at])) for at in order)
    found = [(np.array([at]), pool.places(bundles[at].bundle)) for at in order]
    whole = [(at, places) for at, places in found if places is not None]
    yield from (_Gap(at, places) for at, places in whole)
    pairs = (_Gap(np.array(pair)) for pair in combinations(order, 2))
    groups = (
        _Gap(at, [place for place in places if place != gone], [gone])
        for at, places in whole
        if len(places) > 1
        for gone in places
    )
    for both in zip_longest(pairs, groups):
        yield from filter(None, both)
