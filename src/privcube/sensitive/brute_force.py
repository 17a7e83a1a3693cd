"""The price of a plan by brute force, on small domains: every record is asked about by itself. Zone: SENSITIVE.

Every column of S is read off the code that answers groups, with a single record as data. It is then priced by the norm
that the noise falls with, from the very scales that the gate hands to the samplers. A record with measures is divided
as counting divides it; some points of each grid are tried beside its knots, in whole parts of a record.

See THEORY section 13.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, reduce
from itertools import combinations, product
from math import isqrt, lcm
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.accuracy.layout import Layout
from privcube.accuracy.privacy import is_within, may_lose_rows
from privcube.errors import Plain, PlanError
from privcube.model.attribute import Attribute
from privcube.model.groups import row_weights
from privcube.model.measures.units import parts_of
from privcube.model.noise.bundles import Gram, GramLayout, row_squares, section_shape
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import PureDP
from privcube.model.slices import joined, shared_cells, slice_count
from privcube.sensitive.answers import exact_answers, in_parts
from privcube.sensitive.measures.dividing import Divided

_BRUTE_FORCE_CELLS: Final = 64
_BRUTE_FORCE_ENTRIES: Final = 20_000

Integers = NDArray[np.int64]


def verify_by_brute_force(plan: Plan) -> None:
    """On a small domain, price every column of S, or pair of columns, as the answering code really has them."""
    schema = plan.workload.schema
    for attribute in schema:
        _check_divided(attribute)
    cells = schema.domain_size
    if cells > _BRUTE_FORCE_CELLS or cells * plan.rows > _BRUTE_FORCE_ENTRIES:
        return
    columns, at_knots = _columns(plan)
    if plan.guarantee.neighbors == "replace_one":
        changes = [
            [left - right for left, right in zip(one, other, strict=True)] for one, other in combinations(columns, 2)
        ]
        changes += columns if may_lose_rows(plan) else []
    else:
        changes = columns
    gram = _gram_price(plan, at_knots) * (2 if plan.guarantee.neighbors == "replace_one" else 1)
    variance_of = cache(plan.drawn_variance)  # of a matrix, by all pairs of its columns: not for each of the changes
    dearest = max((gram + _price(plan, change, variance_of) for change in changes), default=Fraction(0))
    if dearest > plan.guarantee.capacity or (dearest and not is_within(dearest, plan.guarantee)):
        raise PlanError("plan", expected="every record within the guarantee", given=Plain("one that costs more"))


def _columns(plan: Plan) -> tuple[list[list[Integers]], list[list[Integers]]]:
    """The answers to the groups of every single record, in parts; and of those that lie at knots, in one cell each.

    The trace of a Gram bundle is linear in what a record adds, so it is enough to look at knots.
    """
    schema, layout = plan.workload.schema, Layout(plan.frame)
    tables, parts = [schema.names] * len(plan.groups), parts_of(schema, schema.names)
    columns: list[list[Integers]] = []
    at_knots: list[list[Integers]] = []
    for record in product(*map(_adds, schema)):
        unit = reduce(np.multiply.outer, record)
        answers = exact_answers(layout, plan.groups, tables, {schema.names: unit}.__getitem__)
        columns.append([in_parts(own, parts, finer) for own, finer in zip(answers, plan.parts, strict=True)])
        if np.count_nonzero(unit) == 1:
            at_knots.append(columns[-1])
    return columns, at_knots


def _check_divided(attribute: Attribute) -> None:
    """Refuse a measure that gives a record less or more than its parts, or parts below 0, at any point of its grid."""
    found = Divided.of(attribute)
    if found is not None and (
        len(found.cell) != attribute.codes
        or len(found.more) != attribute.codes
        or np.any((found.more < 0) | (found.more > found.parts))
        or np.any(found.cell + (found.more > 0) >= attribute.cells)
    ):
        raise PlanError(f"measure {attribute.name!r}", expected="all parts of a record in its cells, none below 0")


def _adds(attribute: Attribute) -> list[Integers]:
    """What a record can add to the cells of an attribute: one cell, or parts of two next to each other."""
    divided, units = Divided.of(attribute), np.eye(attribute.cells, dtype=np.int64)
    if divided is None:
        return list(units)
    knots = [divided.parts * unit for unit in units]
    inside = [code for code in range(len(divided.more)) if 0 < divided.more[code] < divided.parts]
    tried = sorted({inside[0], inside[len(inside) // 2]}) if inside else []
    return knots + [
        (divided.parts - divided.more[code]) * units[divided.cell[code]]
        + divided.more[code] * units[divided.cell[code] + 1]
        for code in tried
    ]


def _moved(plan: Plan, bundle: Sequence[int], change: Sequence[Integers]) -> Fraction:
    """What a change costs in a bundle: over its slices, the sum of the groups' largest L1 norm, each over its scale."""
    groups = [plan.groups[group] for group in bundle]
    slicing = shared_cells(groups) if len(groups) > 1 else ()
    slices, norms = slice_count(plan.frame, slicing), []
    for number, group in zip(bundle, groups, strict=True):
        own = np.repeat(np.arange(slices)[:, None], len(change[number]) // slices, axis=1)
        norms.append(np.zeros(slices, dtype=np.int64))
        np.add.at(norms[-1], joined(plan.frame, group, slicing, own), np.abs(change[number]))
    scales = [plan.drawn_scale(group) for group in bundle]
    if len(set(scales)) == 1:
        return int(np.max(norms, axis=0).sum()) / scales[0]
    in_slices = np.stack(norms)[:, np.any(norms, axis=0)].T.tolist()  # every group has parts of its own
    return sum((max(map(Fraction.__rtruediv__, scales, each)) for each in in_slices), Fraction(0))


def _price(plan: Plan, change: Sequence[Integers], variance_of: Callable[[int], Fraction] | None = None) -> Fraction:
    """What one moved record costs, if it is in the data as often as a person may be."""
    times = plan.guarantee.max_rows_per_person
    if isinstance(plan.guarantee, PureDP):
        total = Fraction(0)
        for bundle, law in zip(plan.noised_together, plan.noise_laws, strict=True):
            if law == "section":
                _require_section(plan, bundle, change)
            if not isinstance(law, Gram):
                total += times * _moved(plan, bundle, change)
        return total
    mu_squared, variance_of = Fraction(0), variance_of or plan.drawn_variance
    for number, (own, group) in enumerate(zip(change, plan.groups, strict=True)):
        if own.any():
            weights = row_weights(plan.frame, group)
            below = lcm(*set(weights))
            squares = sum(moved**2 * (below // weight) for moved, weight in zip(own.tolist(), weights, strict=True))
            mu_squared += Fraction(times**2 * squares, below) / variance_of(number)
    return mu_squared if plan.guarantee.noise == "rounded_gaussian" else mu_squared / 2


def _require_section(plan: Plan, bundle: Sequence[int], change: Sequence[Integers]) -> None:
    """Refuse a change that leaves the section on which the noise of a bundle lies."""
    groups = [plan.groups[group] for group in bundle]
    slicing, shape = shared_cells(groups), section_shape(plan.frame, groups)
    slices = slice_count(plan.frame, slicing)
    own = [np.repeat(np.arange(slices)[:, None], rows, axis=1) for rows in shape.rows]
    for at in shape.bound:
        moved = np.zeros(slices, dtype=np.int64)
        np.add.at(moved, joined(plan.frame, groups[at], slicing, own[at]), change[bundle[at]])
        if not np.array_equal(moved, change[bundle[0]]):
            raise PlanError("plan", expected="groups whose sums move alike in a bundle on a section")


def _gram_price(plan: Plan, columns: Sequence[Sequence[Integers]]) -> Fraction:
    """What the dearest record costs in all Gram bundles: the trace of its matrix, in units of the noise.

    A row of the matrix is v_0 times all of v, so it tells v, and with it every other entry that is measured.
    """
    times, total = plan.guarantee.max_rows_per_person, Fraction(0)
    for bundle, law in zip(plan.noised_together, plan.noise_laws, strict=True):
        if isinstance(law, Gram):
            total += times * max(_trace(plan, bundle, column) for column in columns)
    return total


def _trace(plan: Plan, bundle: Sequence[int], column: Sequence[Integers]) -> Fraction:
    """The trace of the matrix v v' of a record, from its answers over the scales of their noise."""
    groups = [plan.groups[group] for group in bundle]
    slicing, layout = shared_cells(groups), GramLayout.of(plan.frame, groups)
    slices = slice_count(plan.frame, slicing)
    found: dict[tuple[int, int, int], tuple[int, Fraction]] = {}  # slice, left, right: sign and square of an entry
    for at, number in enumerate(bundle):
        entries = layout.entries(at)
        places = np.arange(slices)[:, None] * len(entries.left) + np.arange(len(entries.left))
        squares = row_squares(layout, entries, plan.drawn_variance(number))
        rows = joined(plan.frame, groups[at], slicing, places)
        for place, moved in zip(rows.tolist(), column[number].tolist(), strict=True):
            where, entry = divmod(place, len(entries.left))
            key = (where, int(entries.left[entry]), int(entries.right[entry]))
            found[key] = (moved > 0) - (moved < 0), moved**2 / squares[entry]
    trace = Fraction(0)
    for where in range(slices):
        if (where, 0, 0) not in found:
            raise PlanError("plan", expected="the total among the groups of a Gram bundle")
        if not found[where, 0, 0][1]:
            if any(square for (own, _, _), (_, square) in found.items() if own == where):
                raise PlanError("plan", expected="a matrix of rank 1 for every record")
            continue
        first = _root(found[where, 0, 0][1])
        size = {0: (1, first)}
        for coordinate in range(1, layout.dimension):
            sign, square = found.get((where, 0, coordinate), (0, None))
            if square is None:
                raise PlanError("plan", expected="every coordinate of a Gram bundle by itself among its groups")
            size[coordinate] = (sign, square / first)
        for (own, left, right), (sign, square) in found.items():
            (one, one_square), (other, other_square) = size[left], size[right]
            if own == where and (square != one_square * other_square or sign != one * other):
                raise PlanError("plan", expected="a matrix of rank 1 for every record")
        trace += sum((square for _, square in size.values()), Fraction(0))
    return trace


def _root(square: Fraction) -> Fraction:
    """The root of a fraction that must have one."""
    root = Fraction(isqrt(square.numerator), isqrt(square.denominator))
    if root**2 != square:
        raise PlanError("plan", expected="a scale of the total that is a fraction")
    return root
