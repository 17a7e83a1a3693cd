"""Bundles: groups that share a budget and are noised together under a pure guarantee. Zone: PUBLIC.

A bundle has one of four laws, drawn independently for every slice (`privcube.model.slices`):
- "max_norm": density exp(-max_g |z_g|_1 / scale), in whole numbers (THEORY section 3);
- "rounded_max_norm": the same density in real numbers, rounded, for noise that is too wide for the first; every group
  is rounded in its own parts of a record (`privcube.model.measures.units`);
- "section": the same density where all groups of cells have equal sums, rounded (THEORY section 8). All groups of a
  slice count the same records, so a neighboring change never leaves that section. The first group is the total of every
  slice; groups of cells then speak only about what lies beyond it. Groups with contrasts are free of the condition;
- `Gram`: the Gram matrix of vectors of constant length, one per record, plus a difference of two Wishart matrices,
  rounded (THEORY section 7). Its coordinates are the constant and blocks of Helmert rows, so the groups are the total,
  Helmert rows of one or two blocks, and the products of the Helmert rows of one block (squares).

Formal guarantee. Each law costs what max-norm noise of the same scale costs: 1 / scale for a record that is added or
removed. Max-norm: the largest L1 norm of a group moves by 1, in records. Section: likewise, and the moved point stays
in the section. Gram: with squared weights a, R = sum a and vectors u(x) of squared length R, noise R scale (W1 - W2)
hides u u' at a cost of trace(u u') / (R scale) = 1 / scale (`privcube.sensitive.noise.gram` has the proof). Rounding is
post-processing, as exact answers are whole numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privcube.algebra.section import section_variances
from privcube.errors import Plain, PlanError
from privcube.model.frame import Frame
from privcube.model.groups import Group, GroupPart, QueryGroup, group_rows, product_groups
from privcube.model.sensitivity import bundle_factors
from privcube.model.slices import shared_cells, slice_rows

MOST_COORDINATES: Final = 1_000  # of a Gram bundle: a draw takes their cube
LARGEST_SECTION: Final = 512  # cells of a group in a slice: volumes of its sections are sums of so many terms
MOST_ON_SECTION: Final = 8_191  # rows of all groups in a slice: the time of a draw
_LARGEST_WEIGHT: Final = 2**32

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Gram:
    """The squared weights of the coordinates of a Gram bundle: of the constant, then of each block in order."""

    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.weights) < 2 or not all(type(a) is int and 1 <= a <= _LARGEST_WEIGHT for a in self.weights):
            raise PlanError("gram", expected="at least two whole weights from 1 to 2^32", given=self.weights[:4])


Law = Literal["max_norm", "rounded_max_norm", "section"] | Gram


class SectionShape(NamedTuple):
    """The groups of a section bundle in a slice, after the first, its total."""

    bound: list[int]  # numbers of groups of cells, whose sums equal the total
    free: list[int]  # numbers of groups with contrasts
    rows: list[int]  # of every group in a slice


def section_shape(frame: Frame, groups: Sequence[Group]) -> SectionShape:
    """Which groups of a section bundle have sums that equal the first group, the total of every slice."""
    parts, slicing = product_groups(groups), shared_cells(groups)
    kinds = {part.kind for group in parts for part in group}
    if kinds - {"cells", "contrast"}:
        raise PlanError("bundle", expected="cells and contrasts on a section", available=["cells", "contrast"])
    if parts[0] != tuple(GroupPart(axis, level) for axis, level in slicing):
        raise PlanError("bundle", expected="the total of every slice as the first group on a section")
    _, rows = slice_rows(frame, groups)
    bound = [at for at, group in enumerate(parts) if at and all(part.kind == "cells" for part in group)]
    if any(rows[at] < 2 for at in bound) or not bound:
        raise PlanError("bundle", expected="groups of cells that split the total on a section")
    if max(rows) > LARGEST_SECTION:
        raise PlanError("bundle", expected=f"at most {LARGEST_SECTION} rows of a group in a slice", given=max(rows))
    if sum(rows) > MOST_ON_SECTION:
        raise PlanError("bundle", expected=f"at most {MOST_ON_SECTION:,} rows in a slice", given=sum(rows))
    return SectionShape(bound, [at for at in range(1, len(parts)) if at not in bound], rows)


class Entries(NamedTuple):
    """Where the rows of a group, in one slice, are in the Gram matrix, and their scale."""

    left: Integers
    right: Integers
    weights: list[int]  # squared scale of a row over that of the group: products of j (j+1)


@dataclass(frozen=True)
class GramLayout:
    """The coordinates of a Gram bundle in a slice: the constant, then the Helmert rows of every block."""

    frame: Frame
    groups: tuple[QueryGroup, ...]
    blocks: tuple[tuple[int, int], ...]  # (axis, level), in order
    first: tuple[int, ...]  # the first coordinate of every block
    dimension: int
    slicing: dict[int, int]

    @classmethod
    def of(cls, frame: Frame, groups: Sequence[Group]) -> GramLayout:
        """The layout of a bundle, which must have the form that the proof asks for."""
        parts = product_groups(groups)
        blocks = sorted({part[:2] for group in parts for part in group if part.kind != "cells"})
        slicing = shared_cells(groups)
        level_of = dict(slicing)
        for group in parts:
            own = [part for part in group if part.kind != "cells"]
            if [part.kind for part in own] not in ([], ["helmert"], ["helmert"] * 2, ["squares"]):
                raise PlanError("bundle", expected="at most two Helmert parts, or one of squares, in a Gram bundle")
            others = {part.axis: part.level for part in group if part.kind == "cells"}
            others |= {part.axis: part.level - 1 for part in own if part.axis in level_of}
            if others != level_of:
                raise PlanError("bundle", expected="the same slices for every group of a Gram bundle")
            if any(part.kind == "squares" and part.level > 1 for part in own):
                raise PlanError("bundle", expected="squares of the first level only")
        if len(set(parts)) < len(parts) or len(parts) < 2 or not blocks:
            raise PlanError("bundle", expected="two or more different groups, some of Helmert rows, in a Gram bundle")
        first, dimension = [], 1
        for axis, level in blocks:
            first.append(dimension)
            dimension += group_rows(frame, (GroupPart(axis, level, "helmert"),)) // _above(frame, axis, level_of)
        if dimension > MOST_COORDINATES:
            raise PlanError("bundle", expected=f"at most {MOST_COORDINATES:,} coordinates", given=dimension)
        return cls(frame, tuple(parts), tuple(blocks), tuple(first), dimension, level_of)

    def kept(self, axis: int, level: int) -> Fraction:
        """1 - 1/f: the squared length of a record in the orthonormal Helmert rows of a block."""
        fan_out = self.frame.fan_outs[axis][level - 1]
        return Fraction(fan_out - 1, fan_out)

    def variances(self, law: Gram) -> list[Fraction]:
        """The sigma^2 of every group at scale 1; rows have this times their weight (`groups.row_weights`)."""
        if len(law.weights) != 1 + len(self.blocks):
            raise PlanError("gram", expected=f"{1 + len(self.blocks)} weights", given=len(law.weights))
        weight = dict(zip(self.blocks, law.weights[1:], strict=True))
        unit = Fraction(sum(law.weights) ** 2 * (self.dimension + 1), 2)
        found = []
        for group in self.groups:
            own = [part for part in group if part.kind != "cells"]
            ratios = [self.kept(*part[:2]) / weight[part[:2]] for part in own]
            if not own:  # on the diagonal of a Wishart matrix the variance is twice that elsewhere
                found.append(2 * unit / law.weights[0] ** 2)
            elif own[0].kind == "squares":
                found.append(unit * ratios[0] ** 2)
            else:
                found.append(unit * ratios[0] * (ratios[1] if len(own) == 2 else Fraction(1, law.weights[0])))
        return found

    def entries(self, number: int) -> Entries:
        """The entries of a group's rows in a slice."""
        own = [part for part in self.groups[number] if part.kind != "cells"]
        if not own:
            return Entries(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), [1])
        if own[0].kind == "squares":
            return self._squares(own[0])
        places = [self._coordinates(part) for part in own]
        if len(places) == 1:
            places.insert(0, (np.zeros(1, dtype=np.int64), [1]))
        (left, left_weights), (right, right_weights) = places
        weights = [one * other for one in left_weights for other in right_weights]
        return Entries(np.repeat(left, len(right)), np.tile(right, len(left)), weights)

    def _coordinates(self, part: GroupPart) -> tuple[Integers, list[int]]:
        """The coordinates of a block, and the squared norms of its rows."""
        rows = group_rows(self.frame, (part,)) // _above(self.frame, part.axis, self.slicing)
        children = self.frame.fan_outs[part.axis][part.level - 1]
        norms = [j * (j + 1) for j in range(1, children)] * (rows // (children - 1))
        return self.first[self.blocks.index(part[:2])] + np.arange(rows), norms

    def _squares(self, part: GroupPart) -> Entries:
        """The products of the rows j <= k of a first level, which is that of a single node, in lexicographic order."""
        coordinates, norms = self._coordinates(GroupPart(part.axis, part.level, "helmert"))
        one, other = np.triu_indices(len(norms))
        weights = [norms[j] * norms[k] for j, k in zip(one.tolist(), other.tolist(), strict=True)]
        return Entries(coordinates[one], coordinates[other], weights)


def row_squares(layout: GramLayout, entries: Entries, variance: Fraction) -> list[Fraction]:
    """The squared scales of a group's rows, given its sigma^2: those by which W1 - W2 is multiplied.

    An entry of W1 - W2 has variance (d+1)/2, on the diagonal d+1. Where rows of a group are on the diagonal and
    elsewhere (squares), sigma^2 is for those elsewhere.
    """
    is_total = not np.any(entries.right)
    unit = variance / (layout.dimension + 1) * (1 if is_total else 2)
    known = {weight: unit * weight for weight in set(entries.weights)}
    return [known[weight] for weight in entries.weights]


def _above(frame: Frame, axis: int, slicing: dict[int, int]) -> int:
    """How many slices there are along an axis."""
    return frame.sizes[axis][slicing.get(axis, 0)]


def check_law(frame: Frame, groups: Sequence[Group], law: Law) -> None:
    """Refuse a bundle whose groups do not have the form of its law."""
    if isinstance(law, Gram):
        GramLayout.of(frame, groups).variances(law)
    elif law == "section":
        section_shape(frame, groups)
    elif law == "rounded_max_norm":
        _, rows = slice_rows(frame, groups)
        if len(groups) < 2 or sum(rows) > MOST_ON_SECTION:
            expected = f"two or more groups of at most {MOST_ON_SECTION:,} rows in a slice, in a rounded bundle"
            raise PlanError("bundle", expected=expected, given=sum(rows))
    elif law != "max_norm":
        available = ["max_norm", "rounded_max_norm", "section", "gram"]
        raise PlanError("bundle", expected="a known law", given=law, available=available)


def variance_factors(frame: Frame, groups: Sequence[Group], law: Law) -> list[Fraction]:
    """For each group of a bundle, the variance of its rows relative to Laplace noise of the same scale."""
    if isinstance(law, Gram):
        return [variance / 2 for variance in GramLayout.of(frame, groups).variances(law)]
    if law in ("max_norm", "rounded_max_norm"):
        return bundle_factors(frame, groups)
    shape = section_shape(frame, groups)
    bound, free = (tuple(sorted(Counter(shape.rows[at] for at in own).items())) for own in (shape.bound, shape.free))
    total, residual, row = _section_factors(bound, free)
    own = {at: residual[shape.rows[at]] for at in shape.bound} | {at: row[shape.rows[at]] for at in shape.free}
    return [total, *(own[at] for at in range(1, len(groups)))]


@lru_cache(maxsize=4096)
def _section_factors(
    bound: tuple[tuple[int, int], ...], free: tuple[tuple[int, int], ...]
) -> tuple[Fraction, dict[int, Fraction], dict[int, Fraction]]:
    found = section_variances(dict(bound), dict(free))
    return (
        _half(found.total),
        {size: _half(variance) for size, variance in found.residual.items()},
        {size: _half(variance) for size, variance in found.free.items()},
    )


def _half(variance: float) -> Fraction:
    """Half of a variance to nine digits: recovery weighs answers by it, and must be the same on every machine."""
    return Fraction(f"{variance:.9g}") / 2


def told_by(bundles: Sequence[Sequence[int]], laws: Sequence[Law], frame: Frame, groups: Sequence[Group]) -> Integers:
    """For every group, the group that tells the sums of its slices in its place, or -1 if it speaks for itself."""
    found = np.full(len(groups), -1, dtype=np.int64)
    for bundle, law in zip(bundles, laws, strict=True):
        if law == "section":
            shape = section_shape(frame, [groups[group] for group in bundle])
            found[[bundle[at] for at in shape.bound]] = bundle[0]
    return found


def as_words(law: Law) -> Plain:
    """The name of a law, for messages."""
    return Plain("Gram" if isinstance(law, Gram) else str(law).replace("_", "-"))
