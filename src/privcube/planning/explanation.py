"""Why a plan: what it measures, what other strategies would give, how far it is from a known limit. Zone: PUBLIC.

The limits are for one record more or less. With S'S = X, equal noise on the rows of S, whose columns are no longer than
1 in L2, and least squares, the total variance is the noise variance times trace(W X^-1), W = Q'Q with the weights.
- Of all X with a diagonal of at most 1, trace X <= n, so trace(W X^-1) >= (sum of the roots of W's eigenvalues)^2 / n:
  the SVD bound of Li and Miklau (2013). Gaussian noise of variance 1/(2 rho) cannot do better.
- Tables of cells look alike from every cell, so X may be taken so, and the bound is reached, by residuals:
  (sum_b sqrt(k_b c_b))^2 (THEORY section 4). It is the optimum. That of the largest variance is a convex programme with
  a certificate (`privcube.planning.minimax`).
- Laplace noise has variance 2/epsilon^2 and columns no longer than 1 in L1, so neither in L2: twice the bound holds for
  independent noise on rows. It is not proved for max-norm noise, where groups share a budget: there it is a yardstick.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from privcube.accuracy.matrix_structure import MOST_CELLS, schema_of, workload_gram
from privcube.accuracy.structure import Structure
from privcube.algebra.budgets import gaussian_optimum
from privcube.errors import PlanError, PrivcubeError
from privcube.model.frame import Frame
from privcube.model.groups import Group, GroupPart, MatrixGroup, SketchGroup, group_rows, product_groups
from privcube.model.options import Objective
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import ZCDP, PureDP
from privcube.model.sensitivity import squared_l2_of_all
from privcube.model.slices import slice_rows
from privcube.model.workload import Workload
from privcube.planning.minimax import largest_ratio_shares
from privcube.planning.planner import every_strategy
from privcube.planning.trees import branchings
from privcube.progress import Progress, silent
from privcube.strategies import residual

_MOST_LINES: Final = 12
_MOST_NAMED: Final = 3

LimitKind = Literal["optimum", "bound", "yardstick"]
_LIMITS: Final[dict[LimitKind, str]] = {
    "optimum": "No linear strategy with Gaussian noise does better: it is the proven optimum.",
    "bound": "No linear strategy with Gaussian noise does better; whether one comes so far is not known.",
    "yardstick": "This is twice the bound for Gaussian noise. Independent noise on rows does no better; for bundles, "
    "whose groups share one budget, that is not proved: take it as a yardstick, not as a limit.",
}


@dataclass(frozen=True)
class Measured:
    """Groups that are noised together, or one alone: their share of the budget, and their rows in slices."""

    share: float
    groups: tuple[str, ...]
    slices: int
    rows: int


@dataclass(frozen=True)
class RunnerUp:
    """What another strategy would give, and the ratio to the plan; or why it cannot be used."""

    strategy: str
    std_error: float | None
    ratio: float | None
    refused: str | None


@dataclass(frozen=True)
class Limit:
    """What no plan of a sort falls below, as a standard error, and the ratio of the plan to it."""

    kind: LimitKind
    std_error: float
    ratio: float


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
            "limit": None if self.limit is None else {**vars(self.limit), "says": _LIMITS[self.limit.kind]},
        }

    def __str__(self) -> str:
        parts = [self._opening(), *_columns(self._measured_lines()), "", self._ratios_of()]
        parts += _columns(self._other_lines())
        parts += [f"{each.strategy}: cannot be used here; {each.refused}" for each in self.others if each.refused]
        return "\n".join([*parts, "", self._closing()])

    def _repr_html_(self) -> str:
        refused = "".join(f"<li>{html.escape(f'{e.strategy}: {e.refused}')}</li>" for e in self.others if e.refused)
        return (
            f"<p>{html.escape(self._opening())}</p>{_html_table(self._measured_lines())}"
            f"<p>{html.escape(self._ratios_of())}</p>{_html_table(self._other_lines())}"
            + (f"<p>Cannot be used here:</p><ul>{refused}</ul>" if refused else "")
            + f"<p>{html.escape(self._closing())}</p>"
        )

    def _opening(self) -> str:
        rows = _count(sum(each.rows for each in self.measured), "noisy count")
        groups = _count(sum(len(each.groups) for each in self.measured), "query group")
        made = f"made by a search (effort {self.effort})" if self.strategy == "search" else f"strategy {self.strategy}"
        aim = "the least total variance" if self.objective == "total" else "the least largest error"
        bundles = (
            " Several groups in a line are a bundle: noised together, they pay for their share once. A slice is a cell "
            "that all of them count; each has noise of its own."
        )
        together = any(len(each.groups) > 1 for each in self.measured)
        return f"The plan, {made} for {aim}, has {rows} in {groups}.{bundles if together else ''}"

    def _measured_lines(self) -> list[tuple[str, ...]]:
        lines = [
            (f"{each.share:.1%}", f"{len(each.groups):,}", f"{each.slices:,}", f"{each.rows:,}", _few(each.groups))
            for each in self.measured[:_MOST_LINES]
        ]
        rest = self.measured[_MOST_LINES:]
        if rest:
            groups, rows = sum(len(each.groups) for each in rest), sum(each.rows for each in rest)
            share = sum(each.share for each in rest)
            lines.append((f"{share:.1%}", f"{groups:,}", "", f"{rows:,}", f"{len(rest):,} more"))
        return [("share", "groups", "slices", "counts", "of"), *lines]

    def _ratios_of(self) -> str:
        judged = "weighted as the tables are" if self.objective == "total" else "of the largest error"
        return f"Standard error of a cell (root mean square) by strategy, and the ratio to this plan, {judged}:"

    def _other_lines(self) -> list[tuple[str, ...]]:
        own = (f"{self.std_error:,.2f}", "1.000", f"{self.strategy} (this plan)")
        usable = [
            (f"{each.std_error:,.2f}", f"{each.ratio:,.3f}", each.strategy)
            for each in self.others
            if each.std_error is not None and each.ratio is not None
        ]
        return [("std. error", "ratio", "strategy"), own, *usable]

    def _closing(self) -> str:
        if self.limit is None:
            return "Limit: none is known for this workload and guarantee."
        what = "root mean square error" if self.objective == "total" else "largest standard error"
        wanted = (
            ""
            if self.objective == "total"
            else " (Errors that were wanted per table are not recorded in a plan; if there were any, it is for those.)"
        )
        name = "Yardstick" if self.limit.kind == "yardstick" else "Limit"
        return (
            f"{name}: a {what} of {self.limit.std_error:,.2f}; this plan is at {self.limit.ratio:.3f} times that. "
            f"{_LIMITS[self.limit.kind]}{wanted}"
        )


def explain(plan: Plan, *, progress: Progress = silent) -> Explanation:
    """Why a plan was chosen: other strategies are planned for the same workload, guarantee and effort.

    >>> from privcube import Schema, Workload, ZCDP, plan
    >>> found = explain(plan(Workload.all_kway(Schema.from_sizes({"a": 2, "b": 3}), 1), ZCDP("0.5")))
    >>> found.strategy, found.limit.kind, round(found.limit.ratio, 3), round(found.limit.std_error**2 * 5, 3)
    ('residual', 'optimum', 1.0, 7.699)
    >>> [(each.strategy, round(each.ratio, 3)) for each in found.others[:2]]
    [('matrix', 1.0), ('marginals', 1.012)]
    """
    own = _error(plan, plan.options.objective)
    lines = []
    for name, made in every_strategy(plan.workload, plan.guarantee, plan.options, progress).items():
        if name != plan.options.strategy:
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
        measured=_measured(plan),
        others=tuple(sorted(lines, key=lambda line: math.inf if line.ratio is None else line.ratio)),
        limit=_limit(plan, own),
    )


def _error(plan: Plan, objective: Objective) -> float:
    """What an objective makes small, as a standard error."""
    if objective == "largest":
        return math.sqrt(max(plan.table_variances))
    return math.sqrt(plan.weighted_variance / _weight(plan.workload))


def _weight(workload: Workload) -> float:
    return math.fsum(weight * cells for weight, cells in zip(workload.weights, workload.sizes, strict=True))


# Limits


def _limit(plan: Plan, own: float) -> Limit | None:
    guarantee, objective = plan.guarantee, plan.options.objective
    if guarantee.neighbors != "add_remove":
        return None  # a record that is replaced leaves the total alone: the bounds are others
    alike = not branchings(plan.workload) and not Frame.natural(plan.workload).has_padding
    if alike:
        least = least_total(plan.workload) if objective == "total" else least_largest(plan.workload)
    elif objective == "total" and schema_of(plan.workload).domain_size <= MOST_CELLS:
        least = svd_bound(plan.workload)
    else:
        return None
    noise = 2 / guarantee.epsilon**2 if isinstance(guarantee, PureDP) else guarantee.unit_noise
    variance = least * float(noise) * guarantee.max_rows_per_person**2
    std_error = math.sqrt(variance / (_weight(plan.workload) if objective == "total" else 1.0))
    kind: LimitKind = "yardstick" if isinstance(guarantee, PureDP) else "optimum" if alike else "bound"
    return Limit(kind, std_error, own / std_error)


def least_total(workload: Workload) -> float:
    """The least weighted total variance of tables of cells, with Gaussian noise at rho = 1/2: that of residuals.

    >>> from privcube import Schema
    >>> round(least_total(Workload.all_kway(Schema.from_sizes({f"a{i}": 2 for i in range(16)}), 1)), 6)
    200.0
    """
    structure, moved = _residuals(workload)
    coefficients = structure.group_coefficients(np.ones(len(structure.groups)))
    return float(gaussian_optimum(coefficients, np.sqrt(moved)))


def least_largest(workload: Workload) -> float:
    """The least largest variance of a cell, likewise."""
    structure, moved = _residuals(workload)
    shares, gap = largest_ratio_shares(structure, moved, np.ones(len(workload)))
    return float(np.max(structure.table_variances(moved / shares))) / (1 + gap)


def svd_bound(workload: Workload) -> float:
    """What the weighted total variance never falls below, with Gaussian noise at rho = 1/2, for any few attributes.

    >>> from privcube import Schema
    >>> round(2 * svd_bound(Workload.prefixes(Schema.from_sizes({"x": 64}), ["x"])), 4)
    532.7517
    """
    schema = schema_of(workload)
    if schema.domain_size > MOST_CELLS:
        raise PlanError("bound", expected=f"at most {MOST_CELLS:,} cells of the attributes in the workload together")
    values = np.linalg.eigvalsh(workload_gram(schema, workload))
    return float(np.sqrt(np.maximum(values, 0.0)).sum() ** 2 / schema.domain_size)


def _residuals(workload: Workload) -> tuple[Structure, np.ndarray]:
    unit = ZCDP("0.5")
    proposal = residual.propose(workload, unit)
    structure = Structure.of(workload, proposal.frame, product_groups(proposal.groups), proposal.index)
    return structure, squared_l2_of_all(unit, proposal.frame, structure.groups)


# Measurements


def _measured(plan: Plan) -> tuple[Measured, ...]:
    found = []
    for share, bundle in zip(plan.shares, plan.noised_together, strict=True):
        groups = [plan.groups[group] for group in bundle]
        slices, _ = slice_rows(plan.frame, groups)
        rows = sum(group_rows(plan.frame, group) for group in groups)
        names = tuple(group_name(plan.frame, group) for group in groups)
        found.append(Measured(share / plan.denominator, names, slices, rows))
    return tuple(sorted(found, key=lambda each: -each.share))


def group_name(frame: Frame, group: Group) -> str:
    """A query group for people.

    >>> from privcube.model.schema import Schema
    >>> frame = Frame(Schema.from_sizes({"sex": 2, "age": 8}), "tree", 2, frozenset(["age"]))
    >>> group_name(frame, (GroupPart(0, 1), GroupPart(1, 2))), group_name(frame, (GroupPart(1, 1, "contrast"),))
    ('sex x age in 4 parts', 'differences of age in 2 parts')
    """
    if isinstance(group, SketchGroup):
        return f"{group.buckets:,} buckets of a sketch"
    if isinstance(group, MatrixGroup):
        return "weighted sums of " + _printable(" x ".join(group.attributes))
    if frame.kind == "binary":
        bits = [_attribute(frame, part.axis) for part in group]
        parts = [f"{name} in {bits.count(name)} bits" if bits.count(name) > 1 else name for name in dict.fromkeys(bits)]
        kinds = {part.kind for part in group}
        return _printable(("differences of " if kinds - {"cells"} else "") + (" x ".join(parts) or "total"))
    return _printable(" x ".join(_part_name(frame, part) for part in group) or "total")


def _part_name(frame: Frame, part: GroupPart) -> str:
    name, levels = _attribute(frame, part.axis), len(frame.fan_outs[part.axis])
    if part.level < levels and frame.kind == "natural":
        name += f" by {frame.schema[name].level_names[levels - 1 - part.level]}"
    elif frame.kind == "tree" and levels > 1:
        name += f" in {frame.sizes[part.axis][part.level]:,} parts"
    return name if part.kind == "cells" else f"differences of {name}"


def _attribute(frame: Frame, axis: int) -> str:
    """The attribute that an axis is of."""
    return next(a.name for a in frame.schema if any(own == axis for own, _ in frame.footprint(a)))


# Text


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMED])
    return shown if len(names) <= _MOST_NAMED else f"{shown} and {len(names) - _MOST_NAMED:,} more"


def _printable(name: str) -> str:
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in name)


def _columns(lines: Sequence[Sequence[str]]) -> list[str]:
    """Numbers to the right, the last column to the left."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)][:-1]
    return ["  ".join([*map(str.rjust, line[:-1], widths), line[-1]]) for line in lines]


def _html_table(lines: Sequence[Sequence[str]]) -> str:
    def row(fields: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(field)}</{tag}>" for field in fields) + "</tr>"

    body = "".join(row(line, "td") for line in lines[1:])
    return f"<table><thead>{row(lines[0], 'th')}</thead><tbody>{body}</tbody></table>"
