"""A plan: everything that is decided before data is read. Zone: PUBLIC.

A plan is complete: the groups to measure, the exact share of the budget for each, how to recover the tables, and the
error to expect.

Formal guarantee. With the noise stated here, a group or bundle costs at most its share of epsilon, or of rho
(`privcube.model.sensitivity`). The shares are whole numbers over one denominator and sum to at most the denominator, so
by composition the whole plan costs at most epsilon, or rho; `__post_init__` checks this in whole numbers. If records
are replaced, the sum may be larger, as long as no pair of records costs more than the denominator
(`privcube.model.noise.pairs`); that is checked in whole numbers, too.

See THEORY sections 3 and 10.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.errors import Plain, PlanError
from privcube.model.documents.plans import changed_plan, digest_of, plan_document, plan_parts
from privcube.model.frame import Frame
from privcube.model.groups import Group, group_rows, has_helmert, has_squares
from privcube.model.measures.units import parts_of_groups
from privcube.model.noise.bundles import Gram, Law, check_law, told_by, variance_factors
from privcube.model.noise.pairs import cost_in_shares, costs_nothing
from privcube.model.options import PlanOptions
from privcube.model.privacy.guarantee import Guarantee, PureDP
from privcube.model.sensitivity import largest_l1, noise_variances, squared_l2
from privcube.model.workload import Entry, Table, Workload, canonical, table_name

_MOST_SHOWN: Final = 50  # tables shown in a notebook, to keep its output short


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan:
    """What to measure, with how much noise, and what error to expect."""

    workload: Workload
    guarantee: Guarantee
    options: PlanOptions
    frame: Frame
    groups: tuple[Group, ...]
    shares: tuple[int, ...]
    denominator: int
    table_variances: tuple[float, ...]  # mean variance of a cell, per table
    sources: tuple[tuple[int, ...], ...] | None = None  # direct recovery: groups per table
    bundles: tuple[tuple[int, ...], ...] | None = None  # noised together; None: one by one
    laws: tuple[Law, ...] | None = None  # of the noise of every bundle; None: max-norm

    def __post_init__(self) -> None:
        if self.bundles is not None:
            if sorted(group for bundle in self.bundles for group in bundle) != list(range(len(self.groups))):
                raise PlanError("plan", expected="every group in exactly one bundle")
            if not isinstance(self.guarantee, PureDP) or not all(self.bundles):
                raise PlanError("plan", expected="bundles of at least one group, under a pure guarantee")
            if self.sources is not None and any(len(bundle) > 1 for bundle in self.bundles):
                raise PlanError("plan", expected="groups that are noised one by one for direct recovery")
        if self.laws is not None and (self.bundles is None or len(self.laws) != len(self.bundles)):
            raise PlanError("plan", expected="a law of the noise for every bundle")
        for bundle, law in zip(self.noised_together, self.noise_laws, strict=True):
            groups = [self.groups[group] for group in bundle]
            if law != "max_norm":
                check_law(self.frame, groups, law)
            if (
                isinstance(self.guarantee, PureDP)
                and not isinstance(law, Gram)
                and any(has_helmert(group) for group in groups)
            ):
                given = Plain("a pure guarantee")
                raise PlanError("plan", expected="Gaussian noise or a Gram bundle for Helmert rows", given=given)
            if not isinstance(law, Gram) and any(has_squares(group) for group in groups):
                raise PlanError("plan", expected="squares of Helmert rows in Gram bundles only")
        if len(self.shares) != len(self.noised_together) or not self.groups:
            raise PlanError("plan", expected="one share of the budget per bundle, and at least one group")
        if min(self.shares) < 1 or self._cost_in_shares > self.denominator:
            raise PlanError("plan", expected="shares of at least 1 that cost at most the denominator")
        if len(self.table_variances) != len(self.workload):
            raise PlanError("plan", expected="a predicted variance for every table")
        _ = self.parts  # refuses measures that divide records too finely

    @cached_property
    def parts(self) -> tuple[int, ...]:
        """For each group, into how many parts its answers and their noise divide a record: 1 without measures."""
        return parts_of_groups(self.frame, self.groups, self.noised_together, self.noise_laws)

    # Noise

    @cached_property
    def noised_together(self) -> tuple[tuple[int, ...], ...]:
        """The bundles: groups that share one budget and are noised together; usually one group each."""
        return self.bundles if self.bundles is not None else tuple((group,) for group in range(len(self.groups)))

    @cached_property
    def noise_laws(self) -> tuple[Law, ...]:
        """The law of the noise of every bundle; that of a single group of cells is Laplace noise, by any name."""
        plain: Law = "max_norm"
        return self.laws if self.laws is not None else (plain,) * len(self.noised_together)

    def law_of(self, group: int) -> Law:
        """The law of the noise of a group's bundle."""
        return self.noise_laws[self._bundle_of[group]]

    @cached_property
    def told_by(self) -> NDArray[np.int64] | None:
        """For every group, the group that tells the sums of its slices in its place, or -1; None if all are -1."""
        if self.laws is None or "section" not in self.laws:
            return None
        return told_by(self.noised_together, self.laws, self.frame, self.groups)

    @cached_property
    def _bundle_of(self) -> dict[int, int]:
        return {group: number for number, bundle in enumerate(self.noised_together) for group in bundle}

    @cached_property
    def _bundle_factors(self) -> dict[int, Fraction]:
        factors: dict[int, Fraction] = {}
        for bundle, law in zip(self.noised_together, self.noise_laws, strict=True):
            found = variance_factors(self.frame, [self.groups[group] for group in bundle], law)
            factors.update(zip(bundle, found, strict=True))
        return factors

    @property
    def _cost_in_shares(self) -> int:
        """An upper bound on the cost: the sum of all shares or, if records are replaced, that of the dearest pair."""
        return cost_in_shares(
            self.guarantee, self.frame, self.groups, self.noised_together, self.shares, self.denominator
        )

    @cached_property
    def known(self) -> frozenset[int]:
        """The number of records, if it is public and has more than the whole budget, which costs nothing."""
        shared = zip(self.noised_together, self.shares, strict=True)
        free = [bundle for bundle, share in shared if share > self.denominator and len(bundle) == 1]
        schema = self.workload.schema
        return frozenset(g for (g,) in free if costs_nothing(self.guarantee, schema, [self.groups[g]]))

    @cached_property
    def _scales(self) -> tuple[Fraction, ...]:
        """The scale of the noise of every bundle, under a pure guarantee."""
        moved = [max(largest_l1(self.guarantee, self.groups[g]) for g in bundle) for bundle in self.noised_together]
        return tuple(far * self._of_one_share / share for far, share in zip(moved, self.shares, strict=True))

    @cached_property
    def _of_one_share(self) -> Fraction:
        """The scale, or variance, of the noise on a count that moves by 1 and has one share of the budget."""
        return self.denominator * self.guarantee.unit_noise

    def noise_scale(self, group: int) -> Fraction:
        """The exact scale of a group's Laplace noise, or of the noise of its bundle, under a pure guarantee."""
        if not isinstance(self.guarantee, PureDP):
            raise PlanError("noise_scale", expected="a pure guarantee (others have a noise_variance)")
        return self._scales[self._bundle_of[group]]

    def noise_variance(self, group: int) -> Fraction:
        """The variance of the noise on every row of a group, for the continuous distribution of the same scale.

        For max-norm noise on a bundle with m rows in a slice (`privcube.model.slices`), n of which belong to the group,
        it is 2 (m+1)(m+2) / ((n+1)(n+2)) scale^2. For Helmert rows it is the sigma^2 by which each row's squared norm
        is multiplied (`groups.row_weights`). On a section it is that of the directions in which sums do not change.
        """
        if isinstance(self.guarantee, PureDP):
            return 2 * self._bundle_factors[group] * self.noise_scale(group) ** 2
        moved = squared_l2(self.guarantee, self.frame, self.groups[group])
        return moved * self._of_one_share / self.shares[group]

    def drawn_scale(self, group: int) -> Fraction:
        """The scale of the whole-number noise that is drawn for a group or its bundle, in parts of a record."""
        return self.noise_scale(group) * self.parts[group]

    def drawn_variance(self, group: int) -> Fraction:
        """`noise_variance` of the whole-number noise that is drawn for a group, in squared parts of a record."""
        return self.noise_variance(group) * self.parts[group] ** 2

    def noise_variances(self) -> NDArray[np.float64]:
        """The noise variances of all groups, as floats."""
        if self.bundles is not None:
            return np.array([float(self.noise_variance(group)) for group in range(len(self.groups))])
        return noise_variances(self.guarantee, self.frame, self.groups, self.shares, self.denominator)

    def drawn_variances(self) -> NDArray[np.float64]:
        """`drawn_variance` of all groups, as floats."""
        return np.asarray(self.noise_variances() * np.array(self.parts, dtype=np.float64) ** 2)

    # Predicted error

    @cached_property
    def _cells(self) -> tuple[int, ...]:
        return self.workload.sizes

    @cached_property
    def _variance_of(self) -> dict[Table, float]:
        return dict(zip(self.workload, self.table_variances, strict=True))

    @property
    def total_variance(self) -> float:
        """The sum of the predicted variances of all cells of all tables."""
        return math.fsum(c * v for c, v in zip(self._cells, self.table_variances, strict=True))

    @property
    def weighted_variance(self) -> float:
        """The sum of the predicted variances of all cells, times their table's weight: what the budgets minimize."""
        parts = zip(self.workload.weights, self._cells, self.table_variances, strict=True)
        return math.fsum(a * c * v for a, c, v in parts)

    @property
    def mean_cell_variance(self) -> float:
        """The predicted variance of a cell, averaged over all cells of the workload."""
        return self.total_variance / sum(self._cells)

    def table_variance(self, table: Sequence[Entry]) -> float:
        """The predicted variance of a cell of a table (for ranges, the mean over its queries)."""
        wanted = canonical(self.workload.schema, table)
        if wanted not in self._variance_of:
            names = map(table_name, self.workload)
            raise PlanError("table", expected="a table of the workload", given=table_name(wanted), available=names)
        return self._variance_of[wanted]

    @property
    def rows(self) -> int:
        """How many noisy counts are drawn."""
        return sum(group_rows(self.frame, group) for group in self.groups)

    # Document

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the document: plans with the same digest are the same."""
        return digest_of(plan_document(self))

    def to_json(self) -> str:
        """The plan as JSON, with its digest."""
        return json.dumps({**plan_document(self), "digest": self.digest}, indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read a plan, check it like any other, and refuse it if its digest does not match.

        The digest must be that of the text and that of the plan: nothing in the text is rounded, ignored or guessed.
        """
        parts, digest = plan_parts(text)
        made = cls(**parts)
        if made.digest != digest:
            raise changed_plan()
        return made

    def __repr__(self) -> str:
        tables = "1 table" if len(self.workload) == 1 else f"{len(self.workload):,} tables"
        error = f"standard error of a cell {math.sqrt(self.mean_cell_variance):,.2f}"
        return f"<plan for {tables}, {self.options.strategy}, {self.guarantee}, {error}>"

    def _repr_html_(self) -> str:
        shown = list(zip(self.workload, self._cells, self.table_variances, strict=True))[:_MOST_SHOWN]
        rows = "".join(
            f"<tr><td>{html.escape(table_name(table))}</td><td>{cells:,}</td><td>{math.sqrt(variance):,.2f}</td></tr>"
            for table, cells, variance in shown
        )
        return (
            f"<p><b>privcube plan</b>: {self.options.strategy}, {len(self.groups):,} query groups, "
            f"{html.escape(str(self.guarantee))}</p><table><thead><tr><th>table</th><th>cells</th>"
            f"<th>predicted standard error of a cell</th></tr></thead><tbody>{rows}</tbody></table>"
        )
