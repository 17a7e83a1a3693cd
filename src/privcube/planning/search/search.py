"""The best groups and bundles that a search finds, as a plan (THEORY section 3.2). Zone: PUBLIC.

`starts` proposes plans that are good for some workloads, `merging` merges their bundles, `annealing` changes them step
by step, and `exchange` rebuilds bundles of the best one. All judge plans by the data-independent closed form of
`closed_form`. If a workload is too large for that, the best of a few bundlings is used (`large`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain, islice, zip_longest
from typing import Final

import numpy as np

from privcube.accuracy.structure import WorkloadIndex
from privcube.errors import PlanError
from privcube.model.frame import Frame
from privcube.model.groups import GroupPart, QueryGroup, cells_groups, product_groups
from privcube.model.noise.bundles import Gram, GramLayout, Law
from privcube.model.noise.pairs import total_is_public
from privcube.model.options import Effort, PlanOptions
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import PureDP
from privcube.model.slices import shared_cells
from privcube.model.workload import Workload
from privcube.planning.search.annealing import Found, Start, annealed, seconds_of
from privcube.planning.search.closed_form import Bundle, Choices
from privcube.planning.search.gram import GramColumn, GramForm, gram_columns
from privcube.planning.search.large import bundlings
from privcube.planning.search.merging import merged
from privcube.planning.search.ranking import KnownStarts, ranked
from privcube.planning.search.starts import MOST_ENTRIES, MOST_GROUPS, residual_groups, stars, starts
from privcube.planning.search.template import is_small, template
from privcube.planning.steps import plan_of
from privcube.progress import PLANNING, Check, Enough, Progress, never, silent
from privcube.strategies import clusters
from privcube.strategies.proposal import Proposal

_COVERINGS: Final[dict[Effort, int]] = {"fast": 2, "normal": 16, "thorough": 48}  # greedy starts, as time allows
_BUNDLINGS: Final[dict[Effort, int]] = {"fast": 1, "normal": 4, "thorough": 8}  # for workloads too large to search
_INSTEAD: Final = 3  # starts to take instead of a plan that cannot be drawn
_MOST_WITH_GRAM: Final = 50_000  # residuals of a large workload for which Gram bundles are tried
_MOST_GRAMS: Final = 10  # Gram bundles to start from
_MOST_BESIDE: Final = 3  # of the best plans without a Gram bundle that are tried beside one
_BETTER: Final = 0.98  # times the error of the best start without a Gram bundle: what one with it must stay below
_STARTS: Final[dict[Effort, float]] = {"fast": 0.3, "normal": 1.5, "thorough": 5.0}  # seconds for comparing starts
_MERGING: Final[dict[Effort, float]] = {"fast": 0.4, "normal": 4.0, "thorough": 10.0}  # seconds for merging bundles
_AT_NO_COST: Final = 1.0  # of these; what more is taken is missing in the search that follows
_MOST_MERGED: Final = 8  # plans whose bundles are merged
_LEAST_FOR_STARTS: Final = 0.15  # seconds: however short a search, its plan is no worse than simple ones
_TEMPLATE: Final = 0.3  # time for the template, as a part of the time of a run
_MANY_TABLES: Final = 600  # greedy coverings of more take longer than a fast search
_MOST_SPOKEN: Final = 3_000_000  # tables times residuals: limits the size of the arrays of a search


def search_plan(
    workload: Workload,
    guarantee: PureDP,
    options: PlanOptions,
    frame: Frame,
    *,
    also: Sequence[Plan] = (),
    part: float = 1.0,
    known: KnownStarts | None = None,
    progress: Progress = silent,
) -> Plan:
    """The best plan that a search in a frame finds in a part of the time of the effort; without time, its best start.

    `also` are plans in that frame to start from as well. If there are any, `Enough` may end the search before it has a
    plan of its own, and is passed on. `known` is what searches with less effort have worked out.
    """
    index = WorkloadIndex.of(workload, frame)
    options = replace(options, strategy="search", budgets="iterated")
    if len(workload) * len(index.residuals) > _MOST_SPOKEN:
        return _best_of_few(workload, guarantee, options, frame, index, progress)
    public = total_is_public(guarantee, workload.schema)  # then it is measured at no cost, whatever the search finds
    if public and len(index.residuals) == 1:
        return plan_of(workload, guarantee, options, Proposal.of_bundles(frame, [[()]], index))
    known = known or known_starts(workload, guarantee, frame)
    choices = known.choices
    quick = options.effort == "fast" and len(workload) > _MANY_TABLES
    coverings = 0 if quick or not part else _COVERINGS[options.effort]
    check = partial(progress, PLANNING, 0, 1) if also else never
    proposed = _clusters(workload, guarantee, frame)
    proposed += template(choices, _TEMPLATE * part * seconds_of(options.effort), check)
    simple = starts(choices, workload, coverings, part * _STARTS[options.effort], proposed, check)
    before = [[_start_of(choices, made)] for made in also]
    time_for_starts = max(_LEAST_FOR_STARTS, part * _STARTS[options.effort])
    by_law = ranked(known, [_with_laws(choices, bundles) for bundles in simple], time_for_starts, check)
    first = sorted([*ranked(known, before), *by_law], key=lambda each: each.error)
    candidates = sorted(
        [*first, *_beside_gram(known, workload, first, time_for_starts, check)], key=lambda each: each.error
    )
    most = part * _MERGING[options.effort]
    merges, left = _merged(known, candidates, most, check)
    candidates = sorted([*candidates, *merges], key=lambda each: each.error)
    if part:
        part -= max(0.0, most - left - _AT_NO_COST) / seconds_of(options.effort)
    found = annealed(choices, candidates, options.effort, progress, part) if part else candidates[0]
    make = partial(plan_of, workload, guarantee, options)
    for each in (found, *candidates[:_INSTEAD]):
        with suppress(PlanError):  # budgets are settled further, and so may make noise too wide to be drawn after all
            return make(_proposal(choices, each, frame, index, public))
    return make(Proposal.of_bundles(frame, [[table] for table in cells_groups(frame, workload)], index))


def known_starts(workload: Workload, guarantee: PureDP, frame: Frame) -> KnownStarts:
    """What searches with more and more effort share; empty at first."""
    public = total_is_public(guarantee, workload.schema)
    scale = float(guarantee.rows_changed / guarantee.epsilon)
    index = WorkloadIndex.of(workload, frame)
    return KnownStarts(Choices(workload, frame, index, total_is_known=public, whole_scale=scale))


def is_searched(workload: Workload, frame: Frame) -> bool:
    """Whether a workload is small enough for a search; for a larger one the best of a few bundlings is used."""
    return len(workload) * len(WorkloadIndex.of(workload, frame).residuals) <= _MOST_SPOKEN


def _with_laws(choices: Choices, bundles: list[Bundle]) -> list[Start]:
    """A start with max-norm noise and, if that is different, with all bundles on their sections."""
    sections = any(choices.shapes(bundle)[True].told != -1 for bundle in bundles)
    return [Start(bundles, sections=[section] * len(bundles)) for section in ([False, True] if sections else [False])]


def _beside_gram(
    known: KnownStarts, workload: Workload, first: Sequence[Found], seconds: float, check: Check
) -> list[Found]:
    """Plans to start from with a Gram bundle: alone, or beside tables and plans for what it leaves out."""
    candidates, choices = [], known.choices
    wanted = [choices.choice(group) for group in cells_groups(choices.frame, workload)]
    for column in gram_columns(choices, _MOST_GRAMS):
        left = column.says <= 0
        if not left.any():
            candidates.append(Start([], column))
        else:
            tables = [table for table, missed in zip(wanted, choices.speaks(wanted) @ left, strict=True) if missed]
            parts = residual_groups(choices, np.flatnonzero(left)) if left.sum() <= MOST_GROUPS else []
            rest = [
                [[table] for table in tables],
                [tables],
                stars(choices, tables),
                parts,
                [list(chain.from_iterable(parts))],
            ]
            candidates += [Start(bundles, column) for bundles in rest if all(bundles)]
        candidates += [found.start._replace(gram=column) for found in first[:_MOST_BESIDE]]
    fits = [[start] for start in candidates if len(start.bundles) * choices.residuals <= MOST_ENTRIES]
    most = _BETTER * first[0].error  # beside a plan that has everything, a Gram bundle is at least no loss
    return [found for found in ranked(known, fits, seconds, check) if found.error < most]


def _merged(known: KnownStarts, candidates: Sequence[Found], seconds: float, check: Check) -> tuple[list[Found], float]:
    """The best candidates without and with a Gram bundle in turn, their bundles merged, and what is left of time."""
    found: list[Found] = []
    kinds = [[each for each in candidates if (each.gram is None) == without] for without in (True, False)]
    for each in islice(filter(None, chain.from_iterable(zip_longest(*kinds))), _MOST_MERGED):
        if len(each.bundles) > 1 and seconds > 0:
            fixed = np.zeros((0, known.choices.residuals)) if each.gram is None else each.gram.says[None]
            bundles, seconds = merged(known.choices, each.bundles, fixed, seconds, check)
            start = Start([list(own.bundle) for own in bundles], each.gram, [own.section for own in bundles])
            found += ranked(known, [[start]])
    return found, seconds


def _proposal(choices: Choices, found: Found, frame: Frame, index: WorkloadIndex, public: bool) -> Proposal:
    """The groups of a plan that was found, each bundle with its law; a public total is left to `plan_of`."""
    bundles: list[list[QueryGroup]] = []
    laws: list[Law] = []
    for bundle, section in found.bundles:
        groups = [choices.group(choice) for choice in bundle]
        laws.append("max_norm")
        if section and choices.shapes(bundle)[True].told != -1:
            laws[-1] = "section"
            total = tuple(GroupPart(axis, level) for axis, level in shared_cells(groups))
            groups = [total, *(group for group in groups if group != total)]
        elif public:
            groups = [group for group in groups if group]
            if not groups:
                laws.pop()
                continue
        bundles.append(groups)
    if found.gram is not None:
        bundles.append(found.gram.form.groups())
        laws.append(found.gram.law)
    return Proposal.of_bundles(frame, bundles, index, laws)


def _start_of(choices: Choices, made: Plan) -> Start:
    """A plan as one to start from, without the totals of sections, which follow from the other groups."""
    bundles, sections, gram = [], [], None
    for bundle, law in zip(made.noised_together, made.noise_laws, strict=True):
        groups = product_groups(made.groups[group] for group in bundle)
        if isinstance(law, Gram):
            layout = GramLayout.of(made.frame, groups)
            form = GramForm.of(choices, layout.blocks, tuple(layout.slicing.items()))
            gram = None if form is None else GramColumn(form, np.array(law.weights) / sum(law.weights))
            continue
        bundles.append(list(dict.fromkeys(map(choices.choice, groups[1 if law == "section" else 0 :]))))
        sections.append(law == "section")
    return Start(bundles, gram, sections)


def _clusters(workload: Workload, guarantee: PureDP, frame: Frame) -> list[list[list[QueryGroup]]]:
    """The paper's clusters, one bundle each, if the frame is natural and the workload is not too large."""
    if frame.kind == "natural":
        with suppress(PlanError):
            return [[[union] for union in product_groups(clusters.propose(workload, guarantee, frame).groups)]]
    return []


def _best_of_few(
    workload: Workload,
    guarantee: PureDP,
    options: PlanOptions,
    frame: Frame,
    index: WorkloadIndex,
    progress: Progress,
) -> Plan:
    """The best of a few bundlings and, for few attributes, the template; each is evaluated exactly."""
    progress(PLANNING, 0, None)
    simple = bundlings(workload, guarantee, frame, index, _BUNDLINGS[options.effort])
    if is_small(frame):
        simple += template(Choices(workload, frame, index), _TEMPLATE * seconds_of(options.effort))
    candidates = [Proposal.of_bundles(frame, bundles, index) for bundles in simple]
    if len(index.residuals) <= _MOST_WITH_GRAM:
        candidates += _large_gram(workload, frame, index)
    plans: list[Plan] = []
    with suppress(Enough):
        for number, proposal in enumerate(candidates):
            if plans:
                progress(PLANNING, number, len(candidates))
            with suppress(PlanError):
                plans.append(plan_of(workload, guarantee, options, proposal))
    return min(plans, key=lambda made: made.weighted_variance)


def _large_gram(workload: Workload, frame: Frame, index: WorkloadIndex) -> Iterator[Proposal]:
    """A Gram bundle of all attributes, alone or beside the tables or coefficients that it leaves out."""
    choices = Choices(workload, frame, index)
    for column in gram_columns(choices, 1):
        left = column.says <= 0
        rest: list[list[list[QueryGroup]]] = [[]]
        if left.any():
            wanted = cells_groups(frame, workload)
            spoken = np.bincount(index.asks.row, left[index.asks.column], minlength=len(wanted)).tolist()
            rest = [[[group] for group, missed in zip(wanted, spoken, strict=True) if missed]]
            if all(own == (2,) for own in frame.fan_outs):
                own = chain.from_iterable(residual_groups(choices, np.flatnonzero(left)))
                rest.append([[choices.group(choice) for choice in own]])
        for bundles in rest:
            laws: list[Law] = ["max_norm"] * len(bundles)
            yield Proposal.of_bundles(frame, [*bundles, column.form.groups()], index, [*laws, column.law])
