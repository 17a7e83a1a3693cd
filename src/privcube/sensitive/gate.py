"""The gate: the only place where exact counts become noisy numbers. Zone: SENSITIVE.

Formal guarantee. `measure` returns answers to the plan's groups with noise that costs at most the plan's guarantee:
- the plan is checked in exact arithmetic before anything else, and by brute force on small domains;
- a record moves each group by at most 1 in L1, or as far as its columns say (`privcube.model.plan`), the engine keeps
  at most c rows of a person (`privcube.sensitive.units`), and every group, or slice of a bundle
  (`privcube.model.slices`), gets an independent, exact draw of noise of the plan's scale (`privcube.sensitive.noise`),
  so that costs add up to what `privacy_cost` says;
- what leaves is the sum, in whole numbers, and nothing else.

Order. Records are read, coded and counted; then the charge becomes durable; then noise is drawn. Hence:
- No noise without a durable charge. The system's noise is asked for in one place, after `charge` has returned, and
  `charge` returns when the cost is on disk. What exists before it are exact counts in this process, which show as
  nothing (`privcube.sensitive.counts`) and are gone with it.
- What fails before the charge costs nothing: a refusal, an unreadable file, a crash while counting. Until then no
  event of a release is written. `afford` only asks whether the charge would be refused, so that a hopeless release
  counts nothing; others may charge meanwhile, and `charge` alone decides.
- What fails after the charge costs budget, never privacy: whatever noise was drawn has been paid for.
- What is charged does not depend on the records: it is the plan's guarantee, or nothing if the release was refused.

Refusals. A release either gives numbers with the guarantee above, or it is refused, and whether it is refused may
depend on the records: on a value that a policy refuses, on a record without a person, on a file that cannot be read. So
somebody who sees failed attempts can learn that such a record is there, at no cost in budget. That is not part of the
guarantee, and could not be bought by charging for it: a price does not hide an answer. Attributes that refuse nothing
(`Attribute.may_refuse`) leave no value of theirs that could stop a release.

See THEORY section 13.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privcube.accuracy.layout import Layout
from privcube.accuracy.privacy import verify_privacy
from privcube.errors import PlanError
from privcube.model.groups import (
    Block,
    BlockGroup,
    Group,
    group_rows,
    row_weights,
)
from privcube.model.measurements import Measurements
from privcube.model.measures.units import group_attributes, parts_of
from privcube.model.noise.bundles import Gram, GramLayout, row_squares, section_shape
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import PureDP
from privcube.model.schema import Schema
from privcube.model.slices import joined, shared_cells, slice_count, slice_rows
from privcube.progress import Progress, silent
from privcube.sensitive import noise
from privcube.sensitive.answers import exact_answers, in_parts
from privcube.sensitive.brute_force import verify_by_brute_force
from privcube.sensitive.counts import LARGEST_TOTAL
from privcube.sensitive.engine import CountRequest, Engine, Ledger
from privcube.sensitive.noise.bits import system_words
from privcube.sensitive.noise.gaussian import check_variance
from privcube.sensitive.noise.gram import check_gram
from privcube.sensitive.noise.laplace import check_scale
from privcube.sensitive.noise.max_norm import check_bundle
from privcube.sensitive.noise.rounded_gaussian import check_rounded_variance
from privcube.sensitive.noise.section import check_section
from privcube.sensitive.noise.section.rounded import check_rounded_bundle

Integers = NDArray[np.int64]


class Noise(Protocol):
    """Where noise comes from; tests bring their own, releases use the system's."""

    def laplace(self, scale: Fraction, count: int) -> Integers:
        """Discrete Laplace draws."""

    def gaussian(self, variance: Fraction, count: int) -> Integers:
        """Discrete Gaussian draws."""

    def rounded_gaussian(self, variance: Fraction, count: int) -> Integers:
        """Rounded Gaussian draws."""

    def max_norm(self, scale: Fraction, sizes: Sequence[int]) -> list[Integers]:
        """One max-norm draw for a bundle."""

    def rounded_max_norm(self, scales: Sequence[Fraction], sizes: Sequence[int], count: int) -> list[Integers]:
        """Rounded max-norm draws for a bundle, a row each, every group with its own scale."""

    def section(self, scale: Fraction, bound: Sequence[int], free: Sequence[int], count: int) -> list[Integers]:
        """Draws on a section, a row each: the total, groups of equal sums, then free groups."""

    def gram(
        self, dimension: int, left: Integers, right: Integers, squares: Sequence[Fraction], which: Integers, count: int
    ) -> Integers:
        """Entries of differences of Wishart matrices, a row for each; squares[which] are those of their scales."""


class SystemNoise:
    """Exact noise from the operating system's randomness."""

    def laplace(self, scale: Fraction, count: int) -> Integers:
        """Discrete Laplace draws."""
        return noise.discrete_laplace(scale, count)

    def gaussian(self, variance: Fraction, count: int) -> Integers:
        """Discrete Gaussian draws."""
        return noise.discrete_gaussian(variance, count)

    def rounded_gaussian(self, variance: Fraction, count: int) -> Integers:
        """Rounded Gaussian draws."""
        return noise.rounded_gaussian(variance, count)

    def max_norm(self, scale: Fraction, sizes: Sequence[int]) -> list[Integers]:
        """One max-norm draw for a bundle."""
        return noise.max_norm_noise(scale, sizes)

    def rounded_max_norm(self, scales: Sequence[Fraction], sizes: Sequence[int], count: int) -> list[Integers]:
        """Rounded max-norm draws for a bundle, a row each, every group with its own scale."""
        return noise.rounded_max_norm_slices(scales, sizes, count)

    def section(self, scale: Fraction, bound: Sequence[int], free: Sequence[int], count: int) -> list[Integers]:
        """Draws on a section, a row each: the total, groups of equal sums, then free groups."""
        return noise.section_slices(scale, bound, free, count)

    def gram(
        self, dimension: int, left: Integers, right: Integers, squares: Sequence[Fraction], which: Integers, count: int
    ) -> Integers:
        """Entries of differences of Wishart matrices, a row for each; squares[which] are those of their scales."""
        return noise.gram_slices(dimension, left, right, squares, which, count)


class _Rehearsal:
    """Noise that is not drawn, only refused where the samplers would: what `_noise` asks of it, it will ask of them."""

    def laplace(self, scale: Fraction, count: int) -> Integers:
        """Zeros."""
        check_scale(scale)
        return np.zeros(count, dtype=np.int64)

    def gaussian(self, variance: Fraction, count: int) -> Integers:
        """Zeros."""
        check_variance(variance)
        return np.zeros(count, dtype=np.int64)

    def rounded_gaussian(self, variance: Fraction, count: int) -> Integers:
        """Zeros."""
        check_rounded_variance(variance)
        return np.zeros(count, dtype=np.int64)

    def max_norm(self, scale: Fraction, sizes: Sequence[int]) -> list[Integers]:
        """Zeros."""
        check_bundle(scale, sizes)
        return [np.zeros(size, dtype=np.int64) for size in sizes]

    def rounded_max_norm(self, scales: Sequence[Fraction], sizes: Sequence[int], count: int) -> list[Integers]:
        """Zeros."""
        check_rounded_bundle(scales, sizes)
        return [np.zeros((count, size), dtype=np.int64) for size in sizes]

    def section(self, scale: Fraction, bound: Sequence[int], free: Sequence[int], count: int) -> list[Integers]:
        """Zeros."""
        check_section(scale, bound, free)
        return [np.zeros((count, size), dtype=np.int64) for size in (1, *bound, *free)]

    def gram(
        self, dimension: int, left: Integers, right: Integers, squares: Sequence[Fraction], which: Integers, count: int
    ) -> Integers:
        """Zeros."""
        check_gram(dimension, squares)
        return np.zeros((count, len(left)), dtype=np.int64)


def measure(
    plan: Plan,
    engine: Engine,
    ledger: Ledger,
    *,
    person: str | None = None,
    noise_from: Noise | None = None,
    progress: Progress = silent,
) -> Measurements:
    """Count, answer the plan's groups, charge the ledger, add noise."""
    verify_privacy(plan)
    verify_by_brute_force(plan)
    _noise(plan, _Rehearsal())
    schema = plan.workload.schema
    schema.require_confirmed()
    if person is None and plan.guarantee.max_rows_per_person > 1:
        raise PlanError("person", expected="the column of the protected person, as each may have several rows")
    tables, table_of = _tables_for(plan)
    if max(plan.parts) > 1 and () not in tables:
        tables = (*tables, ())  # the number of records, to compare the parts of all tables with
    request = CountRequest(
        schema=schema,
        tables=tables,
        person=person,
        max_rows_per_person=plan.guarantee.max_rows_per_person,
        key=system_words(4).tobytes(),
    )
    engine.prepare(request)
    ledger.afford(plan.digest, plan.guarantee)
    counts = engine.count(request, progress)
    if max(plan.parts) > 1:
        _require_whole_records(schema, tables, counts.for_the_gate)
    pieces, groups = _pieces(plan)
    answers = exact_answers(Layout(plan.frame), pieces, table_of, counts.for_the_gate)
    exact = np.concatenate(
        [
            in_parts(own, parts_of(schema, table), plan.parts[group])
            for own, table, group in zip(answers, table_of, groups, strict=True)
        ]
    )
    if exact.dtype != np.int64:  # the guarantee of whole-number noise is for whole numbers only
        raise PlanError("answers", expected="whole numbers of 64 bits")
    ledger.charge(plan.digest, plan.guarantee)
    return Measurements(plan, exact + _noise(plan, noise_from or SystemNoise()))


def _require_whole_records(
    schema: Schema, tables: Sequence[tuple[str, ...]], counts_of: Callable[[tuple[str, ...]], Integers]
) -> None:
    """Refuse tables in which records have not added exactly their parts: the total of each must be known.

    Each record adds at least 0 to every cell, so if all add up to what they should, no sum can have been too large for
    64 bits before, and none of the records can have added more than its parts unless another added less.
    """
    records = int(counts_of(()).sum())
    for table in tables:
        parts = parts_of(schema, table)
        if records * parts > LARGEST_TOTAL:
            raise PlanError("measures", expected="at most 2^62 parts of records; choose coarser steps")
        if int(counts_of(table).sum()) != records * parts:
            raise PlanError(f"counts of {' x '.join(table)}", expected="the same parts of every record, in all")


def _noise(plan: Plan, source: Noise) -> Integers:
    """The noise of all groups in order; rows with the same scale are drawn together, each its own draw."""
    rows = [group_rows(plan.frame, group) for group in plan.groups]
    drawn: dict[int, Integers] = {}
    alike: defaultdict[Fraction, list[tuple[int, slice | Integers, int]]] = defaultdict(list)  # group, rows, how many
    places: dict[tuple[int, ...], list[tuple[int, Integers]]] = {}  # of the rows of each weight, by the weights of all
    pure = isinstance(plan.guarantee, PureDP)
    for bundle, law in zip(plan.noised_together, plan.noise_laws, strict=True):
        if isinstance(law, Gram):
            drawn.update(_gram_noise(plan, bundle, source))
        elif law == "section":
            drawn.update(_section_noise(plan, bundle, source))
        elif law == "rounded_max_norm":
            drawn.update(_rounded_noise(plan, bundle, source))
        elif len(bundle) > 1:
            drawn.update(_bundle_noise(plan, bundle, source))
        else:
            (group,) = bundle
            drawn[group] = np.zeros(rows[group], dtype=np.int64)
            if pure:
                alike[plan.drawn_scale(group)].append((group, slice(None), rows[group]))
                continue
            weights, variance = row_weights(plan.frame, plan.groups[group]), plan.drawn_variance(group)
            if weights not in places:
                places[weights] = _places(weights)
            for weight, place in places[weights]:
                alike[variance * weight].append((group, place, len(place)))
    draw: Callable[[Fraction, int], Integers]
    if pure:
        draw = source.laplace
    elif plan.guarantee.noise == "discrete_gaussian":
        draw = source.gaussian
    else:
        draw = source.rounded_gaussian
    for parameter, wanted in alike.items():
        ends = np.cumsum([count for _, _, count in wanted]).tolist()
        values = draw(parameter, ends[-1])
        for (group, where, count), end in zip(wanted, ends, strict=True):
            drawn[group][where] = values[end - count : end]
    whole = np.concatenate([drawn[group] for group in range(len(rows))])
    if whole.dtype != np.int64 or whole.shape != (sum(rows),):
        raise PlanError("noise", expected="one whole number of 64 bits per row")
    return whole


def _places(weights: Sequence[int]) -> list[tuple[int, Integers]]:
    """Every weight, and the rows that have it."""
    found = np.array(weights, dtype=np.int64)
    return [(weight, np.flatnonzero(found == weight)) for weight in np.unique(found).tolist()]


def _bundle_noise(plan: Plan, bundle: Sequence[int], source: Noise) -> dict[int, Integers]:
    """A draw of max-norm noise for every slice of a bundle, put in the order of the groups' rows."""
    groups = [plan.groups[group] for group in bundle]
    slicing = shared_cells(groups)
    count, rows = slice_rows(plan.frame, groups)
    draws = [source.max_norm(plan.drawn_scale(bundle[0]), rows) for _ in range(count)]
    return {
        group: joined(plan.frame, plan.groups[group], slicing, np.stack(slices))
        for group, slices in zip(bundle, zip(*draws, strict=True), strict=True)
    }


def _rounded_noise(plan: Plan, bundle: Sequence[int], source: Noise) -> dict[int, Integers]:
    """A draw of rounded max-norm noise for every slice of a bundle; every group has the scale of its own parts."""
    groups = [plan.groups[group] for group in bundle]
    slicing = shared_cells(groups)
    count, rows = slice_rows(plan.frame, groups)
    draws = source.rounded_max_norm([plan.drawn_scale(group) for group in bundle], rows, count)
    return {
        group: joined(plan.frame, plan.groups[group], slicing, own) for group, own in zip(bundle, draws, strict=True)
    }


def _section_noise(plan: Plan, bundle: Sequence[int], source: Noise) -> dict[int, Integers]:
    """A draw on the consistent section for every slice of a bundle, put in the order of the groups' rows."""
    groups = [plan.groups[group] for group in bundle]
    slicing, shape = shared_cells(groups), section_shape(plan.frame, groups)
    bound, free = ([shape.rows[at] for at in own] for own in (shape.bound, shape.free))
    draws = source.section(plan.drawn_scale(bundle[0]), bound, free, slice_count(plan.frame, slicing))
    return {
        bundle[at]: joined(plan.frame, groups[at], slicing, rows)
        for at, rows in zip([0, *shape.bound, *shape.free], draws, strict=True)
    }


def _gram_noise(plan: Plan, bundle: Sequence[int], source: Noise) -> dict[int, Integers]:
    """Entries of a difference of Wishart matrices for every slice of a bundle, put in the order of the groups' rows."""
    groups = [plan.groups[group] for group in bundle]
    slicing, layout = shared_cells(groups), GramLayout.of(plan.frame, groups)
    entries = [layout.entries(at) for at in range(len(groups))]
    squares: list[Fraction] = []
    for at, own in enumerate(bundle):
        squares += row_squares(layout, entries[at], plan.drawn_variance(own))
    number = {square: at for at, square in enumerate(dict.fromkeys(squares))}
    which = np.array([number[square] for square in squares], dtype=np.int64)
    left, right = (np.concatenate([each[side] for each in entries]) for side in (0, 1))
    draws = source.gram(layout.dimension, left, right, list(number), which, slice_count(plan.frame, slicing))
    ends = np.cumsum([len(each.left) for each in entries]).tolist()
    return {
        number: joined(plan.frame, group, slicing, draws[:, end - len(each.left) : end])
        for number, group, each, end in zip(bundle, groups, entries, ends, strict=True)
    }


def _pieces(plan: Plan) -> tuple[list[Group | Block], list[int]]:
    """The groups, with blocks one by one: each is answered from a table of its own attributes. And whose they are."""
    pieces: list[Group | Block] = []
    groups = []
    for number, group in enumerate(plan.groups):
        own = group.blocks if isinstance(group, BlockGroup) else (group,)
        pieces += own
        groups += [number] * len(own)
    return pieces, groups


def _tables_for(plan: Plan) -> tuple[tuple[tuple[str, ...], ...], list[tuple[str, ...]]]:
    """The tables to count, none inside another, and for each piece of a group the one it is answered from."""
    wanted = [group_attributes(plan.frame, piece) for piece in _pieces(plan)[0]]
    covered: dict[tuple[str, ...], tuple[str, ...]] = {}
    kept = []
    for table in sorted(set(wanted), key=len, reverse=True):
        if table in covered:
            continue
        kept.append(table)
        below = range(len(table) + 1) if len(table) <= 12 else (len(table),)
        for size in below:
            for smaller in combinations(table, size):
                covered.setdefault(smaller, table)
    return tuple(kept), [covered[table] for table in wanted]
