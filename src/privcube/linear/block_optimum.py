"""The optimum for ranges with categories under Gaussian noise: one small matrix per residual. Zone: PUBLIC.

Call the attributes that some table asks for by ranges, prefixes or levels *ordered*, all others *categories*. A table t
has the Gram matrix G_t over the cells of its ordered attributes and, for every category, I or all ones. Permuting the
values of a category changes nothing, and the error is convex in X = S'S, so some optimal X is symmetric, too:
  X = sum_c X_c (x) (product over c of I - 1/f) (x) (product over the other categories of all ones)
over sets c of categories. With dim_c = product of (f - 1), P_c = product of (1 - 1/f) over c, the problem is
  minimize  sum_c trace(W_c X_c^-1)   subject to  sum_c P_c (X_c)_jj <= 1 for every ordered cell j,
  W_c = dim_c sum over tables t that contain c of a_t G_t / (cells of t's categories outside c).
With Y_c = P_c X_c it is that of `linear.gaussian_optimum.shared_optimum`, for the blocks P_c W_c. Blocks in proportion
to each other are solved as one: for blocks a_c W, Y_c is in proportion to sqrt(a_c).

The matrices are rounded to whole numbers, and the guarantee rests on these alone
(`privcube.model.matrices.block_price`).

See THEORY section 12.1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import combinations
from math import prod, sqrt
from typing import Final

import numpy as np

from privcube.accuracy.blocks.structure import Contrasted, core_gram
from privcube.accuracy.matrix_structure import MOST_CELLS
from privcube.algebra.lattice import Floats
from privcube.errors import Plain, PlanError, counted
from privcube.linear.gaussian_optimum import shared_optimum
from privcube.model.matrices.groups import LARGEST_ENTRY, Block, BlockGroup, MatrixGroup
from privcube.model.options import Effort
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Table, Workload

_MOST_WORK: Final = 2.4e9  # blocks to solve times the cube of the ordered cells: more than half a second per step
_MOST_ENTRIES: Final = 2**22  # of all matrices, to keep plans small
_MOST_BLOCKS: Final = 4_096
_MOST_VALUES: Final = 4_096  # of a category: its Helmert rows are dense
_MOST_TABLE: Final = 2**26  # ordered cells times cells of the categories of a table, for recovery
_GAP: Final = 1e-6  # relative, of the optimum
_LEAST_SCALE: Final = 2**16  # of the whole numbers: rounding costs less than 1e-4
_DIGITS: Final = 9  # to which blocks in proportion agree
_ROUNDED: Final = 1e-8  # relative, taken off the bound, as these digits are rounded

CoreWeights = dict[Table, float]  # the weight of each choice of ordered entries in a block


def best_blocks(workload: Workload, effort: Effort = "fast") -> BlockGroup:
    """The best blocks for a workload with ordered attributes and categories."""
    core, rows, _ = _optimum(workload, effort)
    if not any(rows):
        raise PlanError("matrix", expected="a table by categories, for blocks")
    return _whole(workload.schema, core.names, rows)


def lower_bound(workload: Workload) -> float:
    """What no strategy with columns of length at most 1 falls below, in units of the variance of its noise.

    >>> schema = Schema.from_sizes({"sex": 2, "age": 3})
    >>> round(lower_bound(Workload.tables(schema, [("sex", Axis("age", queries="ranges"))])), 3)
    17.479
    """
    return _optimum(workload, "fast")[2]


def _optimum(workload: Workload, effort: Effort) -> tuple[Schema, dict[Contrasted, Floats], float]:
    """The ordered attributes, the best matrix of every block, and a lower bound on the error of any strategy."""
    core, blocks = block_weights(workload)
    grams = {entries: core_gram(core, entries) for weights in blocks.values() for entries in weights}
    alike: defaultdict[tuple[tuple[Table, float], ...], list[tuple[Contrasted, float]]] = defaultdict(list)
    for contrasted, weights in blocks.items():
        total = sum(weights.values())
        shape = tuple([(key, round(weights[key] / total, _DIGITS)) for key in grams if key in weights])
        alike[shape].append((contrasted, _kept(workload.schema, contrasted) * total))
    work = len(alike) * core.domain_size**3
    if work > _MOST_WORK or len(blocks) * core.domain_size**2 > _MOST_ENTRIES:
        raise _too_large(f"{len(blocks):,} blocks of {core.domain_size:,} cells")
    together = [sum(sqrt(scale) for _, scale in members) for members in alike.values()]
    wanted = [
        np.asarray(total**2 * sum((weight * grams[entries] for entries, weight in shape), np.zeros(())))
        for shape, total in zip(alike, together, strict=True)
    ]
    solved, bound = shared_optimum(wanted, _GAP, effort)
    rows: dict[Contrasted, Floats] = {}
    for own, total, members in zip(solved, together, alike.values(), strict=True):
        for contrasted, scale in members:
            rows[contrasted] = own * sqrt(sqrt(scale) / total / _kept(workload.schema, contrasted))
    return core, {contrasted: rows[contrasted] for contrasted in blocks}, bound * (1 - _ROUNDED)


def block_weights(workload: Workload) -> tuple[Schema, dict[Contrasted, CoreWeights]]:
    """The ordered attributes, and for every set c of categories the weights of the G_t in W_c."""
    schema = workload.schema
    axes = [entry for table in workload for entry in table if isinstance(entry, Axis)]
    ordered = {axis.attribute for axis in axes if axis.is_ranged or axis.level is not None}
    if not ordered:
        raise PlanError("matrix", expected="ranges, prefixes or levels", available=["residual", "auto"])
    core = Schema([attribute for attribute in schema if attribute.name in ordered])
    if core.domain_size > MOST_CELLS:
        raise _too_large(f"{counted(core.domain_size)} of them")
    found: dict[Contrasted, CoreWeights] = {}
    for table, table_weight in zip(workload, workload.weights, strict=True):
        entries = tuple([entry for entry in table if Axis.of(entry).attribute in ordered])
        names = [Axis.of(entry).attribute for entry in table if Axis.of(entry).attribute not in ordered]
        names = [name for name in names if schema[name].cells > 1]
        _require_room(schema, core, names)
        cells = prod([schema[name].cells for name in names])
        for count in range(len(names) + 1):
            for contrasted in combinations(names, count):
                own = found.setdefault(contrasted, {})
                dim, inside = (prod([schema[name].cells - less for name in contrasted]) for less in (1, 0))
                own[entries] = own.get(entries, 0.0) + dim * table_weight * inside / cells
        if len(found) > _MOST_BLOCKS:
            raise _too_large(f"more than {_MOST_BLOCKS:,} blocks")
    return core, found


def _require_room(schema: Schema, core: Schema, names: list[str]) -> None:
    """Refuse a table that blocks cannot be added up to in memory."""
    cells = prod([schema[name].cells for name in names])
    if max((schema[name].cells for name in names), default=1) > _MOST_VALUES or 2 ** len(names) > _MOST_BLOCKS:
        raise _too_large(f"a table of {counted(cells)} cells of other attributes")
    if core.domain_size * cells > _MOST_TABLE:
        raise _too_large(f"a table of {counted(cells)} cells of other attributes")


def _kept(schema: Schema, contrasted: Contrasted) -> float:
    return prod([1 - 1 / schema[name].cells for name in contrasted])


def _whole(schema: Schema, core: tuple[str, ...], rows: Mapping[Contrasted, Floats]) -> BlockGroup:
    """Round to whole numbers, as large as fits into 64 bits with the entries of the Helmert rows."""
    largest = max(float(np.abs(own).max()) for own in rows.values())
    helmert = max(prod([schema[name].cells - 1 for name in contrasted]) for contrasted in rows)
    scale = max(LARGEST_ENTRY // helmert, _LEAST_SCALE) / largest
    blocks = []
    for contrasted, own in rows.items():
        whole = np.rint(own * scale).astype(np.int64)
        whole = whole[np.any(whole != 0, axis=1)]
        if not len(whole):
            raise PlanError("matrix", expected="blocks of comparable weight", given=Plain("one too small to measure"))
        blocks.append(Block(contrasted, MatrixGroup(core, tuple(map(tuple, whole.tolist())))))
    return BlockGroup(tuple(blocks))


def _too_large(given: str) -> PlanError:
    return PlanError(
        "matrix",
        expected=f"at most {MOST_CELLS:,} joint cells of the attributes by ranges or levels, and few enough blocks",
        given=Plain(given),
        available=["hierarchy", "wavelet", "marginals", "auto"],
    )
