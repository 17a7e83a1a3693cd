"""Fourth cumulants of sums over a bundle, whose noise is drawn slice by slice under one of three laws. Zone: PUBLIC.

See THEORY sections 7, 8 and 11.1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privcube.algebra.bundle_moments import gram_fourth_cumulant
from privcube.algebra.lattice import Floats
from privcube.algebra.section import GroupWeights, section_fourth_moment
from privcube.model.noise.bundles import Gram, GramLayout, Law, section_shape
from privcube.model.plan import Plan
from privcube.model.slices import shared_cells, slice_rows


@dataclass(frozen=True)
class BundleErrors:
    """A bundle of several groups, whose noise is drawn slice by slice."""

    law: Law
    dimension: int  # of a Gram matrix; 0 for other laws
    bound: frozenset[int]  # groups of cells on a section, and its total
    variances: dict[int, float]  # per group
    scale: float
    levels: dict[int, int]  # by axis, the level of the cells that all groups share
    slices: int
    rows: dict[int, int]  # per group, its rows in one slice

    @classmethod
    def of(cls, plan: Plan, groups: Sequence[int], law: Law) -> BundleErrors:
        together = [plan.groups[group] for group in groups]
        slices, rows = slice_rows(plan.frame, together)
        variances = {group: float(plan.noise_variance(group)) for group in groups}
        dimension = GramLayout.of(plan.frame, together).dimension if isinstance(law, Gram) else 0
        bound = section_shape(plan.frame, together).bound if law == "section" else ()
        return cls(
            law,
            dimension,
            frozenset(groups[at] for at in bound),
            variances,
            float(plan.noise_scale(groups[0])),
            dict(shared_cells(together)),
            slices,
            dict(zip(groups, rows, strict=True)),
        )

    def fourth_cumulant(self, chosen: Sequence[int], squares: Floats, fourths: Floats) -> float:
        """The fourth cumulant of the weighted sum over some groups of the bundle.

        `squares` are the sums of r^2 over the rows of each group in a slice; slices that differ only on axes that the
        table lacks, or below its level, share a column. `fourths` are the sums of r^4 over all rows of a group.
        """
        alike = self.slices / squares.shape[1]  # slices per column, each with an equal part of its sums
        squares = squares / alike
        fourths = fourths[:, None] / self.slices
        if isinstance(self.law, Gram):
            spread = np.array([self.variances[group] for group in chosen]) @ squares
            return float(alike * np.sum(gram_fourth_cumulant(spread, self.dimension)))
        if self.law == "section":
            return float(alike * np.sum(self._on_section(chosen, squares, fourths)))
        m = float(sum(self.rows.values()))
        n = np.array([self.rows[group] for group in chosen], dtype=np.float64)[:, None]
        second = 2 * squares / ((n + 1) * (n + 2))
        same = (24 * fourths + 12 * (squares**2 - fourths)) / ((n + 1) * (n + 2) * (n + 3) * (n + 4))
        other = 3 * (second.sum(axis=0) ** 2 - np.sum(second**2, axis=0))
        radius_four = (m + 1) * (m + 2) * (m + 3) * (m + 4) * self.scale**4
        variance = (m + 1) * (m + 2) * self.scale**2 * second.sum(axis=0)
        return float(alike * np.sum(radius_four * (same.sum(axis=0) + other) - 3 * variance**2))

    def _on_section(self, chosen: Sequence[int], squares: Floats, fourths: Floats) -> Floats:
        """The fourth cumulant of the sum over each slice; a sum of cubes is at most sqrt(sum r^2 sum r^4)."""
        total, *others = self.rows
        bound, free = (
            Counter(self.rows[group] for group in others if (group in self.bound) == is_bound)
            for is_bound in (True, False)
        )
        spread = np.array([self.variances[group] for group in chosen]) @ squares
        # Only the sum of r^4 over all slices is known. It counts linearly, so any division among slices will do; this
        # one is exact if the weights of slices are alike but for a factor.
        parts = squares**2 / np.maximum(np.sum(squares**2, axis=1, keepdims=True), np.finfo(float).tiny)
        columns, back = np.unique(
            np.concatenate([squares, fourths * squares.shape[1] * parts]), axis=1, return_inverse=True
        )
        found = []
        for column in columns.T.tolist():
            kinds: tuple[list[GroupWeights], list[GroupWeights]] = ([], [])
            at = 0.0
            for group, square, fourth in zip(chosen, column[: len(chosen)], column[len(chosen) :], strict=True):
                if group == total:
                    at = math.sqrt(square)
                else:
                    weights = GroupWeights(self.rows[group], square, math.sqrt(square * fourth), fourth)
                    kinds[group not in self.bound].append(weights)
            found.append(section_fourth_moment(bound, free, at, *kinds))
        return np.asarray(self.scale**4 * np.array(found)[back.ravel()] - 3 * spread**2)
