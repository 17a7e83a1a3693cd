"""Explains a plan: what it measures, how other strategies compare, how close it is to a known limit. Zone: PUBLIC."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from privcube.errors import PrivcubeError
from privcube.model.frame import Frame
from privcube.model.groups import BlockGroup, Group, GroupPart, MatrixGroup, SketchGroup, group_rows
from privcube.model.levels import TOGETHER
from privcube.model.options import Objective
from privcube.model.plan import Plan
from privcube.model.slices import slice_rows
from privcube.planning.candidates import ALL, every_strategy
from privcube.planning.explanation_text import as_html, as_text
from privcube.planning.limits import SAYS, Limit, limit_of, workload_weight
from privcube.progress import Progress, silent


@dataclass(frozen=True)
class Measured:
    """One bundle of groups, or a single group: its share of the budget, slices and rows.

    If records are replaced, the shares may sum to more than 1: no pair of records costs all of them at once.
    """

    share: float
    groups: tuple[str, ...]
    slices: int
    rows: int


@dataclass(frozen=True)
class RunnerUp:
    """The error of another strategy and its ratio to the plan's, or why the strategy cannot be used."""

    strategy: str
    std_error: float | None
    ratio: float | None
    refused: str | None


@dataclass(frozen=True)
class Explanation:
    """Why a plan was chosen, for people (`str`, notebooks) and for programs (`document`)."""

    strategy: str
    objective: Objective
    effort: str
    std_error: float  # of a cell, root mean square over all tables
    measured: tuple[Measured, ...]  # the largest share first
    others: tuple[RunnerUp, ...]  # the best first, those that cannot be used last
    limit: Limit | None

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "strategy": self.strategy,
            "objective": self.objective,
            "effort": self.effort,
            "std_error": self.std_error,
            "measured": [{**vars(each), "groups": list(each.groups)} for each in self.measured],
            "others": [vars(each) for each in self.others],
            "limit": None if self.limit is None else {**vars(self.limit), "says": SAYS[self.limit.kind]},
        }

    def __str__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def explain(plan: Plan, *, progress: Progress = silent) -> Explanation:
    """Why a plan was chosen, compared with other strategies for the same workload, guarantee and effort.

    >>> from privcube import Schema, Workload, ZCDP, plan
    >>> found = explain(plan(Workload.all_kway(Schema.from_sizes({"a": 2, "b": 3}), 1), ZCDP("0.5")))
    >>> found.strategy, found.limit.kind, round(found.limit.ratio, 3), round(found.limit.std_error**2 * 5, 3)
    ('residual', 'optimum', 1.0, 7.699)
    >>> [(each.strategy, round(each.ratio, 3)) for each in found.others[:2]]
    [('matrix', 1.0), ('marginals', 1.012)]
    """
    own = _error(plan, plan.options.objective)
    lines = []
    others = [name for name in ALL if name != plan.options.strategy]
    for name, made in every_strategy(plan.workload, plan.guarantee, plan.options, progress, others).items():
        if isinstance(made, PrivcubeError):
            lines.append(RunnerUp(name, None, None, str(made)))
        else:
            ratio = _error(made, plan.options.objective) / own
            lines.append(RunnerUp(name, made.mean_cell_variance**0.5, ratio, None))
    return Explanation(
        strategy=plan.options.strategy,
        objective=plan.options.objective,
        effort=plan.options.effort,
        std_error=plan.mean_cell_variance**0.5,
        measured=measured_by(plan),
        others=tuple(sorted(lines, key=lambda line: math.inf if line.ratio is None else line.ratio)),
        limit=limit_of(plan, own),
    )


def _error(plan: Plan, objective: Objective) -> float:
    """The quantity that an objective minimizes, as a standard error."""
    if objective == "largest":
        return math.sqrt(max(plan.table_variances))
    return math.sqrt(plan.weighted_variance / workload_weight(plan.workload))


# Measurements


def measured_by(plan: Plan) -> tuple[Measured, ...]:
    """What a plan measures, the largest share first."""
    found = []
    for share, bundle in zip(plan.shares, plan.noised_together, strict=True):
        groups = [plan.groups[group] for group in bundle]
        slices, _ = slice_rows(plan.frame, groups)
        rows = sum(group_rows(plan.frame, group) for group in groups)
        names = tuple(group_name(plan.frame, group) for group in groups)
        found.append(Measured(0.0 if bundle[0] in plan.known else share / plan.denominator, names, slices, rows))
    return tuple(sorted(found, key=lambda each: -each.share))


def group_name(frame: Frame, group: Group) -> str:
    """A readable name for a query group.

    >>> from privcube.model.schema import Schema
    >>> frame = Frame(Schema.from_sizes({"sex": 2, "age": 8}), "tree", 2, frozenset(["age"]))
    >>> group_name(frame, (GroupPart(0, 1), GroupPart(1, 2))), group_name(frame, (GroupPart(1, 1, "contrast"),))
    ('sex x age in 4 parts', 'differences of age in 2 parts')
    """
    if isinstance(group, SketchGroup):
        return f"{group.buckets:,} buckets of a sketch"
    if isinstance(group, MatrixGroup):
        return "weighted sums of " + _printable(" x ".join(group.attributes))
    if isinstance(group, BlockGroup):
        others = dict.fromkeys(name for block in group.blocks for name in block.contrasted)
        differences = f" and their differences by {', '.join(others)}" if others else ""
        return _printable("weighted sums of " + " x ".join(group.attributes) + differences)
    if frame.kind == "binary":
        bits = [_attribute(frame, part.axis) for part in group]
        parts = [f"{name} in {bits.count(name)} bits" if bits.count(name) > 1 else name for name in dict.fromkeys(bits)]
        kinds = {part.kind for part in group}
        return _printable(("differences of " if kinds - {"cells"} else "") + (" x ".join(parts) or "total"))
    return _printable(" x ".join(_part_name(frame, part) for part in group) or "total")


def _part_name(frame: Frame, part: GroupPart) -> str:
    name, levels = _attribute(frame, part.axis), len(frame.fan_outs[part.axis])
    if part.level < levels and frame.kind == "natural":
        own = frame.levels_of(frame.schema[name])[levels - 1 - part.level]
        name += f" by {own.replace(TOGETHER, ' and ')}"
    elif frame.kind == "tree" and levels > 1:
        name += f" in {frame.sizes[part.axis][part.level]:,} parts"
    return name if part.kind == "cells" else f"differences of {name}"


def _attribute(frame: Frame, axis: int) -> str:
    """The name of the attribute that an axis belongs to."""
    return next(a.name for a in frame.schema if any(own == axis for own, _ in frame.footprint(a)))


def _printable(name: str) -> str:
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in name)
