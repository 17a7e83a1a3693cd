"""The price of bundles on sections and of Gram bundles, from the rows that are measured. Zone: PUBLIC.

See THEORY sections 7, 8 and 13.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from privcube.accuracy.pricing.columns import meetings, shape_of
from privcube.errors import PlanError
from privcube.model.frame import Frame
from privcube.model.groups import Group, GroupPart, product_groups, row_weights
from privcube.model.noise.bundles import Gram
from privcube.model.plan import Plan
from privcube.model.slices import shared_cells


def check_section(frame: Frame, groups: Sequence[Group]) -> None:
    """Refuse groups of cells whose sums in a slice could move otherwise than the first group, its total.

    A record meets one cell of every group, so it is enough that the total has only cells, and that each cell of the
    other groups lies in one of these.
    """
    total, *others = product_groups(groups)
    if any(part.kind != "cells" for part in total):
        raise PlanError("bundle", expected="a total of cells on a section", given=total)
    for group in others:
        above = {part.axis: part.level if part.kind == "cells" else part.level - 1 for part in group}
        if any(above.get(part.axis, 0) < part.level for part in total):
            raise PlanError("bundle", expected="groups within the slices of the total on a section", given=group)


def gram_trace(plan: Plan, bundle: Sequence[int], law: Gram) -> Fraction:
    """What a record adds to the trace of a Gram matrix, in units of the Wishart noise.

    The matrix of a record must be v v', so that it is positive and only its trace counts. Coordinate (k, j) of v is
    taken as sqrt(s_k) times the entry of Helmert row j of block k, over the root of the row's noise weight; the
    constant is sqrt(s_0). Then the row of a group for two blocks, divided by the scale of its noise, is the product of
    the two coordinates if the group's sigma^2 is (d+1) / (2 s_k s_l): the variance of an entry of W1 - W2 is (d+1) / 2,
    on the diagonal d + 1.
    """
    frame, groups = plan.frame, [product_groups([plan.groups[group]])[0] for group in bundle]
    whole = sum(law.weights) * plan.noise_scale(bundle[0])
    slicing = dict(shared_cells(groups))
    blocks = sorted({(part.axis, part.level) for group in groups for part in group if part.kind != "cells"})
    constant, size = Fraction(law.weights[0]) / whole, dict[tuple[int, int], Fraction]()
    trace, dimension = constant, 1
    for block, weight in zip(blocks, law.weights[1:], strict=True):
        shape = shape_of(frame, GroupPart(*block, "helmert"))
        lengths = [met.one for met in meetings(shape)]
        size[block] = Fraction(weight) / whole / max(lengths)
        trace += size[block] * max(lengths)
        dimension += shape.parents // frame.sizes[block[0]][slicing.get(block[0], 0)] * (shape.children - 1)
    for number, group in zip(bundle, groups, strict=True):
        own = [part for part in group if part.kind != "cells"]
        _check_gram_part(frame, own)
        spots = [(part.axis, part.level) for part in own] * (2 if own and own[0].kind == "squares" else 1)
        sizes = [size[spot] for spot in spots] + [constant] * (2 - len(spots))
        expected = Fraction(dimension + 1, 2 if own else 1) / (sizes[0] * sizes[1])
        if plan.noise_variance(number) != expected:
            raise PlanError("gram", expected="noise that fits the weights of its coordinates", given=group)
    return trace


def _check_gram_part(frame: Frame, parts: Sequence[GroupPart]) -> None:
    """Refuse what is not one entry of v v' per row, with the noise weight of its two coordinates."""
    kinds = [part.kind for part in parts]
    if kinds not in ([], ["helmert"], ["helmert", "helmert"], ["squares"]) or len({p.axis for p in parts}) < len(parts):
        raise PlanError("gram", expected="one or two blocks of Helmert rows, or the squares of one", given=kinds)
    if kinds == ["squares"]:
        shape = shape_of(frame, GroupPart(*parts[0][:2], "helmert"))
        norms = shape.weights
        pairs = [(j, k) for j in range(len(norms)) for k in range(j, len(norms))]
        weights = [norms[j] * norms[k] * (2 if j == k else 1) for j, k in pairs] * shape.parents
        if list(row_weights(frame, tuple(parts))) != weights:
            raise PlanError("gram", expected="noise weights that are products of two rows", given=parts)
