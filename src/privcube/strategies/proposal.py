"""What a strategy proposes: query groups, and how step 2 recovers the tables from them. Zone: PUBLIC.

See THEORY section 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from privcube.accuracy.structure import WorkloadIndex
from privcube.model.frame import Frame
from privcube.model.groups import Group, GroupPart, PartKind, QueryGroup
from privcube.model.noise.bundles import Law
from privcube.model.workload import Workload


@dataclass(frozen=True)
class Proposal:
    """Step 1 of the paper with the R of step 2.

    `sources[t]` are the groups that table t is summed from: cells from the cells of one group, ranges from nodes on
    the levels of several. It is None if R starts as the least-squares recovery; where the groups measure every residual
    once, R is unique and therefore optimal (the paper's observation in section 3.2).
    """

    frame: Frame
    groups: tuple[Group, ...]
    sources: tuple[tuple[int, ...], ...] | None
    index: WorkloadIndex | None = None  # of the workload in this frame, if already computed
    bundles: tuple[tuple[int, ...], ...] | None = None  # groups to noise together; None: each separately
    laws: tuple[Law, ...] | None = None  # of the noise of every bundle; None: max-norm

    @classmethod
    def of_bundles(
        cls,
        frame: Frame,
        bundles: Sequence[Sequence[QueryGroup]],
        index: WorkloadIndex | None = None,
        laws: Sequence[Law] | None = None,
    ) -> Proposal:
        """A proposal to measure groups in bundles."""
        ends = accumulate((len(bundle) for bundle in bundles), initial=0)
        together = tuple(tuple(range(start, end)) for start, end in pairwise(ends))
        groups = tuple(group for bundle in bundles for group in bundle)
        return cls(frame, groups, None, index, together, None if laws is None else tuple(laws))


def one_group_per_residual(workload: Workload, frame: Frame, kind: PartKind) -> Proposal:
    """One group of Helmert rows, or of contrasts (if all fan-outs are 2), for every residual below the workload."""
    known = WorkloadIndex.of(workload, frame)
    parts = [[GroupPart(axis, level, kind) for level in range(len(sizes))] for axis, sizes in enumerate(frame.sizes)]
    groups = [tuple([parts[axis][level] for axis, level in residual]) for residual in known.residuals.residuals()]
    return Proposal(frame, tuple(groups), None, known)
