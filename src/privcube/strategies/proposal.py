"""What a strategy proposes: query groups, and how step 2 would recover the tables from them. Zone: PUBLIC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privcube.algebra.lattice import Incidence
from privcube.errors import PlanError
from privcube.model.frame import Frame
from privcube.model.groups import GroupPart, QueryGroup, group_rows
from privcube.model.workload import Axis, Table, Workload, table_name


@dataclass(frozen=True)
class Proposal:
    """Step 1 of the paper with the R of step 2.

    `direct` holds, for table t and group g, the mean over t's cells of the squared recovery coefficients on g's rows,
    so that sum_g direct[t, g] v_g is the variance of a cell of t. It is None where the groups measure every residual
    once: R is then unique and the same as the optimal one (the paper's observation in section 3.2).
    """

    frame: Frame
    groups: tuple[QueryGroup, ...]
    direct: Incidence | None


def summed_from(workload: Workload, frame: Frame, groups: Sequence[QueryGroup], sources: Sequence[int]) -> Proposal:
    """Every table is added up from the cells of one group: table t from groups[sources[t]]."""
    rows = [group_rows(frame, group) for group in groups]
    factor = [rows[source] / _padded_cells(frame, table) for table, source in zip(workload, sources, strict=True)]
    direct = Incidence(
        np.arange(len(workload)),
        np.asarray(sources, dtype=np.int64),
        np.array(factor, dtype=np.float64),
        (len(workload), len(groups)),
    )
    return Proposal(frame, tuple(groups), direct)


def cells_group(frame: Frame, table: Table) -> QueryGroup:
    """The group of all cells of a table."""
    parts = []
    for entry in table:
        axis = entry if isinstance(entry, Axis) else Axis(entry)
        if axis.queries != "cells":
            raise PlanError(
                f"table {table_name(table)}",
                expected="cells in this strategy; ranges need another",
                available=["hierarchy", "wavelet", "auto"],
            )
        parts += [GroupPart(*part) for part in frame.footprint(frame.schema[axis.attribute], axis.level)]
    return tuple(parts)


def _padded_cells(frame: Frame, table: Table) -> int:
    return group_rows(frame, cells_group(frame, table))
