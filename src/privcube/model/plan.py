"""A plan: everything that is decided before data is read. Zone: PUBLIC.

A plan is complete: groups to measure, the exact share of the budget of each, how to recover the tables, and the
error to expect. Formal guarantee: every group has rows of entries 0, +1, -1 with disjoint supports, so one record moves
its answers by 1 in L1 and in L2. With max_rows_per_person = c a neighboring change moves a group by at most
  L1: c (add_remove) or 2c (replace_one);
  L2 squared: c^2 (add_remove); 2c^2 (replace_one, cells); 4c^2 (replace_one, contrasts: both ends may share a row).
Helmert rows overlap; their L2 is that of the orthonormal rows they are worth (`squared_l2`), for Gaussian noise only.
A matrix group is moved by c times its largest column, or difference of columns (`groups.MatrixGroup`).
Pure: Laplace noise of scale L1 / (epsilon share) on group g costs epsilon * share_g, and so does max-norm noise of that
scale on a whole bundle of groups, since the largest of their L1 norms moves by the largest L1 at most; so does a draw
of it for every slice of the bundle (`privcube.model.slices`). Gaussian: variance L2^2 / (2 rho share) costs rho *
share_g. The shares are whole numbers over one denominator that sum to it at most, so the whole plan costs at most
epsilon (or rho) by composition, checked as integers in `__post_init__`.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privcube.errors import PlanError
from privcube.model.documents.plans import digest_of, plan_document, plan_parts
from privcube.model.frame import Frame
from privcube.model.groups import Group, MatrixGroup, QueryGroup, SketchGroup, group_rows, has_helmert
from privcube.model.options import PlanOptions
from privcube.model.privacy.guarantee import Guarantee, Neighbors, PureDP
from privcube.model.slices import slice_rows
from privcube.model.workload import Entry, Table, Workload, canonical, table_name

_MOST_SHOWN: Final = 50  # tables, in a notebook


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to measure, with how much noise, and what error to expect."""

    workload: Workload
    guarantee: Guarantee
    options: PlanOptions
    frame: Frame
    groups: tuple[Group, ...]
    shares: tuple[int, ...]
    denominator: int
    table_variances: tuple[float, ...] = field(repr=False)  # mean variance of a cell, per table
    sources: tuple[tuple[int, ...], ...] | None = field(default=None, repr=False)  # direct recovery: groups per table
    bundles: tuple[tuple[int, ...], ...] | None = field(
        default=None, repr=False
    )  # groups noised together; None: singly

    def __post_init__(self) -> None:
        if self.bundles is not None:
            if sorted(group for bundle in self.bundles for group in bundle) != list(range(len(self.groups))):
                raise PlanError("plan", expected="every group in one bundle")
            if not isinstance(self.guarantee, PureDP) or not all(self.bundles):
                raise PlanError("plan", expected="bundles of at least one group, under a pure guarantee")
        if isinstance(self.guarantee, PureDP) and any(has_helmert(group) for group in self.groups):
            raise PlanError("plan", expected="Gaussian noise for Helmert rows", given="a pure guarantee")
        if len(self.shares) != len(self.noised_together) or not self.groups:
            raise PlanError("plan", expected="one share of the budget per bundle, at least one group")
        if min(self.shares) < 1 or sum(self.shares) > self.denominator:
            raise PlanError("plan", expected="shares of at least 1 that sum to the denominator at most")
        if len(self.table_variances) != len(self.workload):
            raise PlanError("plan", expected="a predicted variance for every table")

    # Noise

    @cached_property
    def noised_together(self) -> tuple[tuple[int, ...], ...]:
        """The bundles: groups that share one budget and are noised together; as a rule one group each."""
        return self.bundles if self.bundles is not None else tuple((group,) for group in range(len(self.groups)))

    @cached_property
    def _bundle_of(self) -> dict[int, int]:
        return {group: number for number, bundle in enumerate(self.noised_together) for group in bundle}

    @cached_property
    def _bundle_factors(self) -> dict[int, Fraction]:
        factors: dict[int, Fraction] = {}
        for bundle in self.noised_together:
            factors.update(zip(bundle, bundle_factors(self.frame, [self.groups[g] for g in bundle]), strict=True))
        return factors

    @cached_property
    def _of_one_share(self) -> Fraction:
        """The scale, or variance, of noise on a count that moves by 1 and has one share of the budget."""
        if isinstance(self.guarantee, PureDP):
            return self.denominator / self.guarantee.epsilon
        return self.denominator * self.guarantee.gaussian_variance

    def noise_scale(self, group: int) -> Fraction:
        """Pure: the scale of a group's Laplace noise, or of the max-norm noise of its bundle, exactly."""
        if not isinstance(self.guarantee, PureDP):
            raise PlanError("noise_scale", expected="a pure guarantee; others have a noise_variance")
        number = self._bundle_of[group]
        moved = max(largest_l1(self.guarantee, self.groups[each]) for each in self.noised_together[number])
        return moved * self._of_one_share / self.shares[number]

    def noise_variance(self, group: int) -> Fraction:
        """The variance of the noise on every row of a group, of the continuous distribution with the same scale.

        For max-norm noise on a bundle with m rows in a slice (`privcube.model.slices`), n of them of the group, it is
        2 (m+1)(m+2) / ((n+1)(n+2)) scale^2. For
        Helmert rows it is the sigma^2 by which each row's squared norm is multiplied (`groups.row_weights`).
        """
        if isinstance(self.guarantee, PureDP):
            return 2 * self._bundle_factors[group] * self.noise_scale(group) ** 2
        moved = squared_l2(self.guarantee, self.frame, self.groups[group])
        return moved * self._of_one_share / self.shares[group]

    def noise_variances(self) -> NDArray[np.float64]:
        """The noise variances of all groups as floats."""
        if self.bundles is not None:
            return np.array([float(self.noise_variance(group)) for group in range(len(self.groups))])
        return noise_variances(self.guarantee, self.frame, self.groups, self.shares, self.denominator)

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
        """The same with every table's weight: what the budgets minimise."""
        parts = zip(self.workload.weights, self._cells, self.table_variances, strict=True)
        return math.fsum(a * c * v for a, c, v in parts)

    @property
    def mean_cell_variance(self) -> float:
        """The predicted variance of a cell, averaged over all cells of the workload."""
        return self.total_variance / sum(self._cells)

    def table_variance(self, table: Sequence[Entry]) -> float:
        """The predicted variance of a cell of one table (for ranges, the mean over its queries)."""
        wanted = canonical(self.workload.schema, table)
        if wanted not in self._variance_of:
            raise PlanError(
                "table",
                expected="one in the workload",
                given=table_name(wanted),
                available=map(table_name, self.workload),
            )
        return self._variance_of[wanted]

    @property
    def rows(self) -> int:
        """How many noisy counts are drawn."""
        return sum(group_rows(self.frame, group) for group in self.groups)

    # Document

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the document: two plans with the same digest do the same."""
        return digest_of(plan_document(self))

    def to_json(self) -> str:
        """The plan as JSON, with its digest."""
        return json.dumps({**plan_document(self), "digest": self.digest}, indent=1, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read a plan, checked like any other, and refused if its digest does not fit what it says."""
        return cls(**plan_parts(text))

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


def bundle_factors(frame: Frame, groups: Sequence[Group]) -> list[Fraction]:
    """The variances of the rows of groups in one bundle over that of Laplace noise of the same scale."""
    if len(groups) == 1:
        return [Fraction(1)]
    _, rows = slice_rows(frame, groups)
    product = (sum(rows) + 1) * (sum(rows) + 2)
    factors = {own: Fraction(product, (own + 1) * (own + 2)) for own in set(rows)}
    return [factors[own] for own in rows]


def largest_l1(guarantee: Guarantee, group: Group) -> int:
    """How far a neighboring change moves the answers of a group, in L1 (see the module docstring)."""
    if isinstance(group, MatrixGroup):
        return guarantee.max_rows_per_person * group.largest_l1(guarantee.neighbors)
    return guarantee.rows_changed


def squared_l2(guarantee: Guarantee, frame: Frame, group: Group) -> Fraction:
    """How far a neighboring change moves the answers of a group, in L2 squared (see the module docstring).

    Helmert rows are taken at their orthonormal worth. A record moves them by the product P of (1 - 1/f) over the axes;
    replacing it by another moves them by 2 P - 2 (product of the projector's entries), of which an entry is 1 - 1/f for
    the same child, -1/f for another child of the same parent, 0 otherwise: most if the two differ on one axis only.
    """
    if isinstance(group, MatrixGroup):
        return Fraction(guarantee.max_rows_per_person**2 * group.largest_l2(guarantee.neighbors))
    shape = (0,) if isinstance(group, SketchGroup) else _shape(frame, group)
    return _squared_l2(guarantee.neighbors, guarantee.max_rows_per_person, shape)


def _shape(frame: Frame, group: QueryGroup) -> tuple[int, ...]:
    """The fan-outs of a group's Helmert parts, and 0 for contrasts."""
    return tuple([
        frame.fan_outs[axis][level - 1] if kind == "helmert" else 0 for axis, level, kind in group if kind != "cells"
    ])  # fmt: skip


@lru_cache(maxsize=4096)
def _squared_l2(neighbors: Neighbors, rows: int, shape: tuple[int, ...]) -> Fraction:
    kept = [Fraction(fan_out - 1, fan_out) for fan_out in shape if fan_out]
    if kept:
        if len(kept) < len(shape):
            raise PlanError("group", expected="Helmert rows without contrasts")
        own = math.prod(kept, start=Fraction(1))
        if neighbors == "add_remove":
            return rows**2 * own
        largest = max((own / share * (1 - share) for share in kept if share), default=Fraction(0))
        return rows**2 * (2 * own + 2 * largest)
    if neighbors == "add_remove":
        return Fraction(rows**2)
    return Fraction((4 if shape else 2) * rows**2)


def squared_l2_of_all(guarantee: Guarantee, frame: Frame, groups: Sequence[Group]) -> NDArray[np.float64]:
    """The same for many groups, as floats; each shape is worked out once."""
    neighbors, rows = guarantee.neighbors, guarantee.max_rows_per_person
    known: dict[tuple[int, ...], float] = {}
    found = []
    for group in groups:
        if isinstance(group, SketchGroup | MatrixGroup):
            found.append(float(squared_l2(guarantee, frame, group)))
            continue
        shape = _shape(frame, group)
        if shape not in known:
            known[shape] = float(_squared_l2(neighbors, rows, shape))
        found.append(known[shape])
    return np.array(found)


def noise_variances(
    guarantee: Guarantee,
    frame: Frame,
    groups: Sequence[Group],
    shares: ArrayLike,
    denominator: int,
    moved: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """The noise variances of groups with these shares of the budget, as floats; `Plan.noise_variance` is exact.

    `moved` is `squared_l2_of_all`, where it is known.
    """
    part = np.asarray(shares, dtype=np.float64) / denominator
    if isinstance(guarantee, PureDP):
        far = np.array([largest_l1(guarantee, group) for group in groups], dtype=np.float64)
        return np.asarray(2 * (far / (float(guarantee.epsilon) * part)) ** 2)
    if moved is None:
        moved = squared_l2_of_all(guarantee, frame, groups)
    return np.asarray(float(guarantee.gaussian_variance) * moved / part)
