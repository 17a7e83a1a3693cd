"""Steps 2 and 3 of the paper for any groups and bundles: budgets and recovery, alternated if wanted. Zone: PUBLIC.

With share e of the budget, a row of group g has noise of variance K_g / e^2 under a pure guarantee (Laplace noise, or
max-norm noise of a bundle, THEORY section 3) and K_g / e under a Gaussian one. `Noise` holds the K_g and the bundle of
each group, so one loop serves both kinds of noise, whether groups are noised separately or together.

Given a recovery, the weighted total variance is sum_g c_g v_g, and the best budgets are a closed form
(`privcube.algebra.budgets`) in the sums of c_g K_g over each bundle. Given budgets, the best recovery is generalized
least squares, and its c_g have a closed form as well (`Structure.group_coefficients`). Each step minimizes the same
error in one of its two arguments, so alternating them never increases it (THEORY section 2).

A plan stores budgets as whole shares of a fixed denominator. They sum to it exactly, so the cost of a plan, as a
fraction, equals its guarantee, regardless of floating-point rounding. If records are replaced, what counts is the
dearest pair of records (`privcube.planning.replaced`), and the total costs nothing if it is public: it is then measured
as well, with a share so large that its noise hardly matters (`privcube.model.noise.pairs`).

See THEORY sections 1.2, 2.1 and 10.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.accuracy.blocks.structure import BlockStructure
from privcube.accuracy.direct import recovery_coefficients
from privcube.accuracy.matrix_structure import ExplicitStructure, structure_of
from privcube.accuracy.structure import Structure
from privcube.algebra.budgets import gaussian_budgets, laplace_budgets
from privcube.algebra.lattice import Floats, Incidence, Integers
from privcube.errors import Plain, PlanError
from privcube.model.frame import Frame
from privcube.model.groups import Group, is_structured
from privcube.model.noise.bundles import Law, told_by, variance_factors
from privcube.model.noise.drawable import drawable, fine_laws
from privcube.model.noise.pairs import KNOWN, costs_nothing, total_is_public
from privcube.model.options import PlanOptions, Strategy
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import Guarantee, PureDP
from privcube.model.sensitivity import largest_l1, squared_l2_of_all
from privcube.model.slices import largest_scale, slice_rows
from privcube.model.workload import Workload
from privcube.planning.replaced import Replaced
from privcube.strategies.proposal import Proposal

DENOMINATOR: Final = 2**48  # of the shares: fine enough for any budget, and exact in a float

_MOST_ROUNDS: Final = 500  # of alternating steps 2 and 3: a safeguard against slow convergence
_LEAST_GAIN: Final = 1e-9  # of the error; a round that gains less is the last
_LEAST_SHARE: Final = 1e-6  # of the budget: alternating starves uninformative groups, but never quite to 0

_ONE_ROUND: Final = frozenset({"residual", "fourier", "wavelet"})  # every residual measured once: one recovery only

_Structure = Structure | ExplicitStructure | BlockStructure
Bundles = tuple[tuple[int, ...], ...]


def plan_of(workload: Workload, guarantee: Guarantee, options: PlanOptions, proposal: Proposal) -> Plan:
    """The plan that steps 2 and 3 make of a proposal."""
    proposal = _with_known_total(guarantee, options, proposal)
    told = _told_by(proposal)
    structure = structure_of(workload, proposal.frame, proposal.groups, proposal.index, told)
    direct = _direct(workload, proposal)
    coefficients = _first_coefficients(structure, direct)
    used = np.flatnonzero(coefficients > 0)
    if len(used) < len(proposal.groups) and proposal.bundles is None:
        structure = structure_of(workload, proposal.frame, [proposal.groups[at] for at in used], proposal.index)
        coefficients = coefficients[used]
    bundles = proposal.bundles or _each_alone(structure.groups)
    laws = proposal.laws and fine_laws(proposal.frame, structure.groups, bundles, proposal.laws)
    noise = Noise.of(guarantee, proposal.frame, structure.groups, bundles, laws)
    if options.budgets == "uniform":
        noise = noise.by_groups
        shares = noise.even_shares()
    else:
        shares = noise.best_shares(coefficients) if proposal.bundles is None else noise.first_shares()
    if options.budgets == "iterated":
        shares = taken_in_turn(structure, noise, shares)
        if options.recovery == "optimal":
            structure, noise, shares = _without_starved(guarantee, proposal, structure, noise, shares)
    variances = noise.variances(shares)
    if options.recovery == "direct" and direct is not None:
        of_all = np.zeros(len(proposal.groups))
        of_all[used] = variances
        table_variances = direct.times(of_all)
    else:
        table_variances = structure.table_variances(variances)
    made = drawable(
        Plan(
            workload=workload,
            guarantee=guarantee,
            options=options,
            frame=proposal.frame,
            groups=tuple(structure.groups),
            shares=noise.shares_of_plan(shares),
            denominator=DENOMINATOR,
            table_variances=tuple(table_variances.tolist()),
            sources=_kept_sources(proposal, used) if options.recovery == "direct" else None,
            bundles=None if noise.bundles == _each_alone(structure.groups) else noise.bundles,
            laws=noise.laws if noise.laws is not None and set(noise.laws) != {"max_norm"} else None,
        )
    )
    _require_drawable(made)
    return made


def with_bundles(plan: Plan, bundles: Sequence[Sequence[int]]) -> Plan:
    """A pure plan with its groups in bundles and with budgets and recovery alternated; a known total may stay alone."""
    if not isinstance(plan.guarantee, PureDP) or plan.sources is not None:
        raise PlanError("bundles", expected="a pure guarantee and optimal recovery")
    left = plan.known.difference(*bundles)
    together = (*map(tuple, bundles), *((group,) for group in sorted(left)))
    options = replace(plan.options, budgets="iterated")
    made = plan_of(plan.workload, plan.guarantee, options, Proposal(plan.frame, plan.groups, None, bundles=together))
    return replace(made, options=plan.options)


def _each_alone(groups: Sequence[Group]) -> Bundles:
    return tuple([(group,) for group in range(len(groups))])


def at_best(options: PlanOptions, strategy: Strategy) -> PlanOptions:
    """The options of a strategy with steps 2 and 3 at their best: alternated, unless one round is enough."""
    in_turn = options.budgets == "optimal" and options.recovery == "optimal" and strategy not in _ONE_ROUND
    return replace(options, strategy=strategy, budgets="iterated" if in_turn else options.budgets)


def is_drawable(plan: Plan) -> bool:
    """Whether the noise of all bundles is narrow enough to be drawn exactly."""
    try:
        _require_drawable(plan)
    except PlanError:
        return False
    return True


def _require_drawable(plan: Plan) -> None:
    """Refuse bundles whose noise is too wide to be drawn exactly; a single group has no such limit."""
    for bundle, law in zip(plan.bundles or (), plan.noise_laws, strict=False):
        if len(bundle) > 1 and law == "max_norm":
            _, rows = slice_rows(plan.frame, [plan.groups[group] for group in bundle])
            scale, most = plan.drawn_scale(bundle[0]), largest_scale(sum(rows))
            if scale > most:
                raise PlanError(
                    "bundle",
                    expected=f"noise of a scale of at most {most:,} for {sum(rows):,} rows",
                    given=Plain(f"{float(scale):,.0f}; raise epsilon or choose another strategy"),
                )


# Noise and budgets


@dataclass(frozen=True)
class Noise:
    """How shares of the budget determine the noise variances of groups."""

    pure: bool
    bundles: Bundles
    bundle_of: Integers  # per group
    unit: Floats  # K, per group
    known: NDArray[np.bool_]  # per bundle: the total, if it is public and costs nothing
    replaced: Replaced | None = None  # how pairs of records are priced; None: by the sum of shares
    laws: tuple[Law, ...] | None = None  # per bundle; None: max-norm

    @classmethod
    def of(
        cls,
        guarantee: Guarantee,
        frame: Frame,
        groups: Sequence[Group],
        bundles: Bundles,
        laws: Sequence[Law] | None = None,
    ) -> Noise:
        """The noise of groups in bundles under a guarantee."""
        lengths = [len(bundle) for bundle in bundles]
        bundle_of = np.zeros(len(groups), dtype=np.int64)
        bundle_of[[group for bundle in bundles for group in bundle]] = np.repeat(np.arange(len(bundles)), lengths)
        known = [costs_nothing(guarantee, frame.schema, [groups[group] for group in bundle]) for bundle in bundles]
        pairs = np.array(known), Replaced.of(guarantee, frame, groups, bundles)
        if not isinstance(guarantee, PureDP):
            unit = float(guarantee.unit_noise) * squared_l2_of_all(guarantee, frame, groups)
            return cls(False, bundles, bundle_of, unit, *pairs)
        moved = np.array([largest_l1(guarantee, group) for group in groups], dtype=np.float64)
        factor = np.ones(len(groups))
        plain: Law = "max_norm"
        for bundle, law in zip(bundles, laws or [plain] * len(bundles), strict=True):
            if len(bundle) > 1:
                own = list(bundle)
                moved[own] = moved[own].max()
                found = variance_factors(frame, [groups[group] for group in bundle], law)
                factor[own] = [float(each) for each in found]
        unit = 2 * factor * (moved / float(guarantee.epsilon)) ** 2
        return cls(True, bundles, bundle_of, unit, *pairs, None if laws is None else tuple(laws))

    @property
    def by_groups(self) -> Noise:
        """The same noise with every group at its own worst, and no total for nothing: the paper's."""
        return replace(self, known=np.zeros(len(self.bundles), dtype=bool), replaced=None)

    def variances(self, shares: Integers) -> Floats:
        """The variance of a row of every group, given whole shares of the denominator."""
        part = np.where(self.known, KNOWN, shares / DENOMINATOR)[self.bundle_of]
        return np.asarray(self.unit / (part**2 if self.pure else part))

    def shares_of_plan(self, shares: Integers) -> tuple[int, ...]:
        """The shares as a plan has them."""
        known = zip(shares.tolist(), self.known.tolist(), strict=True)
        return tuple([KNOWN * DENOMINATOR if total else share for share, total in known])

    def best_shares(self, coefficients: Floats) -> Integers:
        """The shares that minimize sum_g c_g v_g (Corollary 3.3); those of a known total do not matter."""
        sums = np.bincount(self.bundle_of, coefficients * self.unit).astype(np.float64)
        if self.known.all():
            return self.first_shares()
        if self.replaced is not None:
            parts = self.replaced.best_parts(np.where(self.known, 0.0, sums))
            if parts is not None:
                return self.whole_shares(parts)
        costly = sums[~self.known]
        if self.pure:
            return self._whole(laplace_budgets(costly, np.ones(len(costly))))
        return self._whole(gaussian_budgets(costly, np.ones(len(costly))) ** 2)

    def whole_shares(self, parts: Floats) -> Integers:
        """Whole shares in these proportions that cost nearly all of the budget; those of a known total do not count."""
        if self.replaced is not None:
            shares = self.replaced.whole_shares(np.where(self.known, 0.0, parts), DENOMINATOR)
            if shares is not None:
                return shares
        return self._whole(parts[~self.known])

    def first_shares(self) -> Integers:
        """The same share for every bundle, to start from."""
        return self._whole(np.ones(int(np.sum(~self.known))))

    def in_proportion(self, shares: Integers) -> Integers:
        """Shares in these proportions that sum to the denominator, apart from a known total."""
        return self._whole(shares[~self.known].astype(np.float64))

    def _whole(self, parts: Floats) -> Integers:
        """Whole shares of all but a known total."""
        shares = np.full(len(self.known), DENOMINATOR)
        if len(parts):
            shares[~self.known] = whole_shares(parts)
        return shares

    def even_shares(self) -> Integers:
        """The shares that give every row the same budget, the paper's uniform noise."""
        if self.pure:
            return whole_shares(np.ones(int(self.bundle_of.max()) + 1))
        return whole_shares(np.bincount(self.bundle_of, self.unit).astype(np.float64))


def whole_shares(shares: Floats) -> Integers:
    """Round shares of a budget to whole numbers of at least 1 that sum to DENOMINATOR.

    >>> whole_shares(np.array([1.0, 1.0, 2.0])).tolist() == [DENOMINATOR // 4, DENOMINATOR // 4, DENOMINATOR // 2]
    True
    """
    if not np.all(np.isfinite(shares)) or np.any(shares < 0) or not np.any(shares > 0):
        raise PlanError("budgets", expected="finite shares, at least one above 0", given=shares.tolist()[:4])
    wanted = shares / np.sum(shares) * (DENOMINATOR - len(shares))
    whole = 1 + np.floor(wanted).astype(np.int64)
    rest = DENOMINATOR - int(whole.sum())
    if rest < 0:  # floating-point rounding: take the excess from the largest share
        whole[np.argmax(whole)] += rest
    else:
        whole += rest // len(whole)
        whole[np.argsort(-shares, kind="stable")[: rest % len(whole)]] += 1
    return whole


# The loop


def taken_in_turn(structure: _Structure, noise: Noise, shares: Integers) -> Integers:
    """Alternate steps 2 and 3, starting from these shares, until the error stops falling."""
    if len(noise.bundles) == 1:
        return shares
    variances = noise.variances(shares)
    error = weighted_error(structure, variances)
    for _ in range(_MOST_ROUNDS):
        tried = noise.best_shares(structure.group_coefficients(variances))
        tried_variances = noise.variances(tried)
        tried_error = weighted_error(structure, tried_variances)
        if tried_error >= error:
            break
        gain, shares, variances, error = error - tried_error, tried, tried_variances, tried_error
        if gain <= _LEAST_GAIN * error:
            break
    return shares


def weighted_error(structure: _Structure, variances: Floats) -> float:
    """The error that budgets minimize: the sum of all cell variances, each times the weight of its table."""
    return float(np.sum(structure.weights * structure.cells * structure.table_variances(variances)))


def _without_starved(
    guarantee: Guarantee, proposal: Proposal, structure: _Structure, noise: Noise, shares: Integers
) -> tuple[_Structure, Noise, Integers]:
    """Drop bundles with almost no budget, as long as the others still determine every table."""
    while True:
        worth = np.flatnonzero(noise.known | (shares > DENOMINATOR * _LEAST_SHARE))
        if len(worth) == len(shares):
            return structure, noise, shares
        kept = [group for at in worth.tolist() for group in noise.bundles[at]]
        number = {group: at for at, group in enumerate(kept)}
        together = tuple(tuple(number[group] for group in noise.bundles[at]) for at in worth.tolist())
        laws = None if noise.laws is None else tuple(noise.laws[at] for at in worth.tolist())
        left = replace(proposal, groups=tuple(structure.groups[g] for g in kept), bundles=together, laws=laws)
        smaller = structure_of(structure.workload, proposal.frame, left.groups, proposal.index, _told_by(left))
        if not _answers(smaller, noise.variances(shares)[kept]):
            return structure, noise, shares
        structure, noise = smaller, Noise.of(guarantee, proposal.frame, smaller.groups, together, laws)
        shares = taken_in_turn(structure, noise, noise.in_proportion(shares[worth]))


def _told_by(proposal: Proposal) -> Integers | None:
    """For every group, the group that tells the sums of its slices in its place (`Plan.told_by`)."""
    if proposal.bundles is None or proposal.laws is None:
        return None
    return told_by(proposal.bundles, proposal.laws, proposal.frame, proposal.groups)


def _answers(structure: _Structure, variances: Floats) -> bool:
    """Whether the groups determine every table."""
    try:
        structure.table_variances(variances)
    except PlanError:
        return False
    return True


# The total


def _with_known_total(guarantee: Guarantee, options: PlanOptions, proposal: Proposal) -> Proposal:
    """The proposal with the total in addition, if it is public and recovery can use it: it costs nothing."""
    used = options.recovery == "optimal" and options.budgets != "uniform" and is_structured(proposal.groups)
    bundles, laws = proposal.bundles, proposal.laws
    alone = _each_alone(proposal.groups) if bundles is None else bundles
    there = any(len(bundle) == 1 and proposal.groups[bundle[0]] == () for bundle in alone)
    if not used or there or not total_is_public(guarantee, proposal.frame.schema):
        return proposal
    if bundles is not None:
        bundles = (*bundles, (len(proposal.groups),))
    if laws is not None:
        laws = (*laws, "max_norm")
    return replace(proposal, groups=(*proposal.groups, ()), sources=None, bundles=bundles, laws=laws)


# The recovery of step 2


def _direct(workload: Workload, proposal: Proposal) -> Incidence | None:
    if proposal.sources is None:
        return None
    return recovery_coefficients(workload, proposal.frame, proposal.groups, proposal.sources)


def _first_coefficients(structure: _Structure, direct: Incidence | None) -> Floats:
    """The paper's s_r (without its factor 2) for the recovery of step 2; 1 for a group that is alone."""
    if len(structure.groups) == 1:
        return np.ones(1)
    if direct is None:
        return structure.group_coefficients(np.ones(len(structure.groups)))
    return direct.transposed_times(structure.weights * structure.cells)


def _kept_sources(proposal: Proposal, used: Integers) -> tuple[tuple[int, ...], ...] | None:
    """The sources of every table, renumbered for a plan that omits unused groups."""
    if proposal.sources is None:
        return None
    number = {int(group): place for place, group in enumerate(used)}
    return tuple(tuple([number[g] for g in table if g in number]) for table in proposal.sources)
