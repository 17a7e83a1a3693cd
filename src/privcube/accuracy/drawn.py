"""The error to expect of the noise that is really drawn: whole numbers, not the continuous noise plans predict with.

Plans are made, compared and documented with the variance v_g of continuous noise, as the literature does, and tables
are recovered with weights for these. The noise itself has other variances u_g, known exactly
(`privcube.accuracy.moments`), so the tables have other variances, too, and as exactly known. Zone: PUBLIC.

The noise on different rows is uncorrelated: independent, or in a bundle with free signs. Direct recovery adds up rows,
optimal recovery takes weighted means of residuals (`Structure.drawn_variances`), and that of a sketch is an explicit
matrix; in each the mean variance of a table's cells is a sum over the groups of u_g times a known number, provided that
all rows of a group have the same variance.

Helmert rows need more care, as those of narrow noise differ: row i with weight w_i is worth u_i = disc(sigma^2 w_i) /
w_i. A group speaks about residual b through a basis of orthonormal Helmert rows h_i on some axes and cells on others. A
query q thus gets from it the variance f_gb / (v_g p_b)^2 times sum_i u_i |P_i q|^2, with P_i the projector of b
restricted to h_i on the Helmert axes: for equal u_i, these make up |Pi_b q|^2. Over the queries of a table the mean of
|P_i q|^2 is a product over axes, so what counts is the share that row j of each axis and level has in the mean of
|Pi_l q|^2. Then sum_i u_i |P_i q|^2 has the mean u_g |Pi_b q|^2 with u_g the mean of the u_i weighted by the products
of the shares. If a table asks for all cells of an attribute, its queries are the same in every direction of a level and
the shares are even; for ranges, and where padded cells are not asked for, they are worked out here (`row_shares`).
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from privcube.accuracy.direct import recovery_coefficients
from privcube.accuracy.matrix_structure import ExplicitStructure
from privcube.accuracy.moments import RowShares, exact_noise_variances, narrow_groups
from privcube.accuracy.published import asked_products
from privcube.accuracy.structure import Structure
from privcube.algebra.lattice import Floats
from privcube.model.frame import Frame
from privcube.model.groups import is_structured, product_groups
from privcube.model.plan import Plan
from privcube.model.workload import Axis, Table, Workload


def drawn_table_variances(plan: Plan) -> Floats:
    """The mean variance of a cell of every table of a plan, exactly, under the noise that is drawn.

    >>> from privcube import PureDP, Schema, Workload, plan
    >>> made = plan(Workload.full_cube(Schema.from_sizes({"a": 3})), PureDP(4), "marginals")
    >>> made.table_variances, drawn_table_variances(made).round(3).tolist()
    ((0.440..., 0.287...), [0.324, 0.189])
    """
    if plan.sources is not None:
        coefficients = recovery_coefficients(plan.workload, plan.frame, plan.groups, plan.sources)
        return coefficients.times(exact_noise_variances(plan))
    return drawn_variances_after_optimal_recovery(plan, plan.workload)


def drawn_variances_after_optimal_recovery(plan: Plan, workload: Workload) -> Floats:
    """The same for any tables that the measurements of a plan determine."""
    weighted_by = plan.noise_variances()
    if not is_structured(plan.groups):
        explicit = ExplicitStructure.of(workload, plan.frame, plan.groups)
        return explicit.drawn_variances(weighted_by, exact_noise_variances(plan))
    structure = Structure.of(workload, plan.frame, product_groups(plan.groups))
    alike: defaultdict[Table, list[int]] = defaultdict(list)  # tables that weigh Helmert rows in the same way
    narrow = bool(narrow_groups(plan))
    for number, table in enumerate(workload):
        alike[tuple([entry for entry in table if narrow and _is_uneven(plan.frame, entry)])].append(number)
    found = np.zeros(len(workload))
    for uneven, tables in alike.items():
        shares = {spot: own for entry in uneven for spot, own in row_shares(plan.frame, entry).items()}
        variances = structure.drawn_variances(weighted_by, exact_noise_variances(plan, shares))
        found[tables] = variances[tables]
    return found


def _is_uneven(frame: Frame, entry: str | Axis) -> bool:
    """Whether the Helmert rows of a level have unequal shares in what an entry asks; two children have one row only."""
    axis = Axis.of(entry)
    attribute = frame.schema[axis.attribute]
    if frame.kind == "binary":
        return False
    ((number, level),) = frame.footprint(attribute, axis.level)
    return axis.queries != "cells" or len(frame.positions(attribute, axis.level)) < frame.sizes[number][level]


def row_shares(frame: Frame, entry: str | Axis) -> RowShares:
    """The shares of the Helmert rows in the mean of |Pi_l q|^2 over the queries q of an entry, per axis and level l.

    Row j has ones on the first j children of a parent and -j on the next. With G the sum over parents and queries of
    the products of what a query asks of two children, its energy is h_j' G h_j / (j (j+1)), up to a factor.

    >>> from privcube.model.schema import Schema
    >>> row_shares(Frame(Schema.from_sizes({"a": 2}), "natural"), "a")
    {(0, 1): [1.0]}
    """
    axis = Axis.of(entry)
    ((number, finest),) = frame.footprint(frame.schema[axis.attribute], axis.level)
    sizes, products = frame.sizes[number], asked_products(frame, entry)
    shares = {}
    for level in range(1, finest + 1):
        fan_out = sizes[level] // sizes[level - 1]
        between = _between_children(products, sizes[level], fan_out)
        j = np.arange(1, fan_out)
        first = np.cumsum(between, axis=0)  # row j - 1: the first j children together
        energy = np.cumsum(first, axis=1)[j - 1, j - 1] - 2 * j * first[j - 1, j] + j**2 * between[j, j]
        energy = energy / (j * (j + 1))
        shares[number, level] = (energy / energy.sum()).tolist()
    return shares


def _between_children(products: Floats, nodes: int, fan_out: int) -> Floats:
    """G of `row_shares`, from the products of what queries ask of two cells: the sum over parents of its children's."""
    width = len(products) // nodes
    between = products.reshape(nodes, width, nodes, width).sum(axis=(1, 3))
    families = between.reshape(nodes // fan_out, fan_out, nodes // fan_out, fan_out)
    return np.asarray(np.einsum("picp->ic", families.transpose(0, 1, 3, 2)))
