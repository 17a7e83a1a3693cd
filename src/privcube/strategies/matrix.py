"""M: an explicit matrix optimized for the workload, on the few attributes that it uses (HDMM's OPT_0). Zone: PUBLIC.

Under a pure guarantee it is the best p-identity matrix found (`privcube.linear.p_identity`), under Gaussian noise the
optimum over all matrices (`privcube.linear.gaussian_optimum`); for a single table, a product over its attributes, the
optimum is the product of theirs. Under Gaussian noise large domains with categories split into blocks
(`privcube.linear.block_optimum`). Both are rounded to whole numbers so that the noise can be whole-number noise. The
guarantee depends only on the rounded rows (`privcube.model.matrices.groups.MatrixGroup`); rounding costs less than 1e-6
of the accuracy:
- pure: entries are scaled to 2^16, and the largest entry of each column is adjusted to make the column sum 2^16;
- Gaussian: entries are scaled to 16 million, then raised by one, the largest first, wherever the column stays no longer
  than the longest. At the optimum only column lengths matter to first order, since X^-1 W X^-1 is diagonal there.

See THEORY section 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import reduce
from math import ceil, prod, sqrt
from typing import Final

import numpy as np

from privcube.accuracy.matrix_structure import (
    MOST_CELLS,
    axis_of,
    entry_gram,
    membership,
    refuse_many_attributes,
    schema_of,
    workload_gram,
)
from privcube.algebra.lattice import Floats, Integers
from privcube.errors import Plain, PlanError, counted
from privcube.linear.block_optimum import best_blocks
from privcube.linear.gaussian_optimum import gaussian_optimum
from privcube.linear.gram_products import gram_products
from privcube.linear.p_identity import best_p_identity
from privcube.model.attribute import Attribute
from privcube.model.frame import Frame
from privcube.model.groups import MatrixGroup
from privcube.model.options import Effort
from privcube.model.privacy.guarantee import Guarantee, PureDP
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Table, Workload
from privcube.strategies.proposal import Proposal

NAME: Final = "matrix"
SYMBOL: Final = "M"

_WHOLE_L1: Final = 2**16  # scale of the whole numbers under a pure guarantee: rounding costs less than 1e-6
_WHOLE_L2: Final = 16_000_000  # scale of the whole numbers under Gaussian noise: rounding costs less than 1e-6
_BUMPS: Final = (0.5, 0.75, 1.25)  # initial rows of Theta per square root of an attribute's cells; empirically good
_SCALES: Final = (0.125, 0.5, 1.4)  # the same for three widths of bumps at once,
_WIDE: Final = 300  # for ranges over more cells than this
_SHARE: Final = 0.4  # of the entries of these rows
_MOST_ROWS: Final = 3  # of a product of optima, per cell, to keep plans small
_SMALL: Final = 512  # cells up to which the smaller of the two gaps is affordable
_GAPS: Final = (1e-9, 1e-6)  # relative gap of the Gaussian optimum, for small and for large domains


def propose(workload: Workload, guarantee: Guarantee, effort: Effort = "fast") -> Proposal:
    """S = one explicit matrix over the joint cells of all attributes in the workload."""
    if not any(workload):
        raise PlanError("matrix", expected="a table with attributes", given=Plain("the total alone"))
    schema = schema_of(workload)
    pure = isinstance(guarantee, PureDP)
    if not pure and schema.domain_size > MOST_CELLS:
        return Proposal(Frame(workload.schema, "natural"), (best_blocks(workload, effort),), None)
    if not pure and schema.domain_size > _SMALL and len(workload) > 1:
        with suppress(PlanError):  # raised without categories
            return Proposal(Frame(workload.schema, "natural"), (best_blocks(workload, effort),), None)
    if schema.domain_size > MOST_CELLS:
        raise PlanError(
            "matrix",
            expected=f"at most {MOST_CELLS:,} joint cells of the attributes in the workload",
            given=Plain(f"{counted(schema.domain_size)} cells"),
            available=["hierarchy", "wavelet", "marginals", "auto"],
        )
    refuse_many_attributes(NAME, schema)
    if pure:
        rows = whole_l1(_pure_optimum(schema, workload, effort))
    else:
        rows = whole_l2(_gaussian_optimum(schema, workload, effort))
    group = MatrixGroup(schema.names, tuple(map(tuple, rows.tolist())))
    return Proposal(Frame(workload.schema, "natural"), (group,), None)


def _product(factors: Sequence[Floats]) -> Floats:
    return reduce(lambda left, right: np.asarray(np.kron(left, right), dtype=np.float64), factors)


# Laplace noise


def _pure_optimum(schema: Schema, workload: Workload, effort: Effort = "fast") -> Floats:
    """The best S found, with nonnegative entries and columns of L1 norm 1."""
    products, diagonal = gram_products(schema, workload)
    joint = best_p_identity(products, diagonal, _starts(schema, workload), effort)
    if len(workload) > 1 or len(schema) == 1:
        return joint
    factors = []
    for entry, attribute in zip(*workload, schema, strict=True):
        alone = Schema([attribute])
        factors.append(_pure_optimum(alone, Workload.exactly(alone, [(entry,)]), effort))
    if prod(map(len, factors)) > _MOST_ROWS * schema.domain_size:
        return joint
    gram = workload_gram(schema, workload)
    return min([joint, _product(factors)], key=lambda rows: total_variance(gram, rows))


def _starts(schema: Schema, workload: Workload) -> list[Floats]:
    """Starts for Theta: no rows, and coarse rows of every table, with overlapping bumps for ranges.

    Over many cells bumps of three widths are best in the end, though others are ahead in the first steps.
    """
    cells = schema.domain_size
    ranged = {axis.attribute for table in workload for axis in map(Axis.of, table) if axis.is_ranged}
    none = np.zeros((0, cells))
    if any(schema[name].ordered_cells > _WIDE for name in ranged):
        scales = [_coarse_rows(schema, table, share) for table in workload for share in _SCALES]
        rows = np.unique(np.concatenate([none, *[own for own in scales if len(own) < cells]]), axis=0)
        if len(rows) <= cells:
            return [none, _SHARE * rows / len(workload)]
    starts = [none]
    for share in _BUMPS:
        coarse = [_coarse_rows(schema, table, share) for table in workload]
        rows = np.unique(np.concatenate([none, *[own for own in coarse if len(own) < cells]]), axis=0)
        if len(rows) <= cells and len(rows) != len(starts[-1]):
            starts.append(rows / len(workload))
    return starts


def total_variance(gram: Floats, rows: Floats) -> float:
    """trace(W (S'S)^-1), W = Q'Q: the total variance with noise of variance 1 on every row."""
    half = np.linalg.inv(np.linalg.qr(rows, mode="r"))
    return float(np.sum(half * (gram @ half)))


def whole_l1(rows: Floats) -> Integers:
    """Round columns of L1 norm 1 to whole numbers that sum to 2^16 in every column; no row vanishes.

    >>> whole_l1(np.array([[0.5, 0.0], [0.0, 1e-9], [0.5, 1.0]])).tolist()
    [[32768, 0], [0, 1], [32768, 65535]]
    """
    whole = np.rint(rows * _WHOLE_L1).astype(np.int64)
    peaks = np.arange(len(rows)), np.argmax(rows, axis=1)
    whole[peaks] = np.maximum(whole[peaks], 1)
    tops = np.argmax(rows, axis=0), np.arange(rows.shape[1])
    whole[tops] += _WHOLE_L1 - whole.sum(axis=0)
    return whole


def _coarse_rows(schema: Schema, table: Table, share: float) -> Floats:
    return _product([_coarse_entry(attribute, axis_of(table, attribute), share) for attribute in schema])


def _coarse_entry(attribute: Attribute, axis: Axis | None, share: float) -> Floats:
    if axis is None:
        return np.ones((1, attribute.cells))
    if axis.queries == "cells":
        return membership(attribute, axis)
    if axis.is_measured:
        return np.eye(attribute.cells)
    scale = attribute.ordered_cells
    count = ceil(share * sqrt(scale))
    middle = (np.arange(count) + 0.5) * scale / count
    bumps = np.exp(-(((np.arange(attribute.cells) - middle[:, None]) * count / scale) ** 2))
    return np.where(np.arange(attribute.cells) < scale, bumps, 0.0)


# Gaussian noise


def _gaussian_optimum(schema: Schema, workload: Workload, effort: Effort = "fast") -> Floats:
    """The best S with columns of length at most 1."""
    gap = _GAPS[schema.domain_size > _SMALL]
    if len(workload) == 1:
        (table,) = workload
        grams = [entry_gram(attribute, axis_of(table, attribute)) for attribute in schema]
    else:
        grams = [workload_gram(schema, workload)]
    return _product([gaussian_optimum(gram, gap, effort)[0] for gram in grams])


def whole_l2(rows: Floats) -> Integers:
    """Scale to 16 million and round to whole numbers; all columns are almost as long as the longest."""
    return filled(np.rint(rows * _WHOLE_L2).astype(np.int64))


def filled(rows: Integers) -> Integers:
    """Raise the magnitude of entries by one where the column stays no longer than the longest.

    >>> filled(np.array([[5, 4], [0, 2]])).tolist()
    [[5, 4], [0, 3]]
    """
    found = rows.copy()
    left = np.max(np.sum(rows**2, axis=0)) - np.sum(rows**2, axis=0)
    columns = np.arange(rows.shape[1])
    for place in np.argsort(-np.abs(rows), axis=0, kind="stable"):
        entries = rows[place, columns]
        step = 2 * np.abs(entries) + 1
        raised = (entries != 0) & (step <= left)
        found[place, columns] += raised * np.sign(entries)
        left -= raised * step
    return found
