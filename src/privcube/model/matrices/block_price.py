"""How far a neighboring change moves the blocks of a block group, exactly. Zone: PUBLIC.

Block c has a matrix M_c of whole numbers over n cells, times integer Helmert rows over its contrasted attributes. Its
row with Helmert weight w (products of j (j+1), `groups.row_weights`) has noise of variance sigma^2 w. So it is worth
the same matrix times orthonormal Helmert rows, with noise of variance sigma^2 on every row, and the products of two
columns of all blocks, for records in cells j and k of the matrices, are
  sum_c (M_c' M_c)_jk E_c,   E_c = the product over the contrasted attributes of the entries of I - 1/f,
an entry being 1 - 1/f if the two records have the same value, and -1/f otherwise.

Formal guarantee, in units of sigma^2. Let P_c = product of (1 - 1/f).
- A record that is added or removed moves the blocks by sum_c (M_c' M_c)_jj P_c in squared length, for its cell j. The
  largest over j is the price, exactly.
- One that is replaced moves them by sum_c ((M_c' M_c)_jj + (M_c' M_c)_kk) P_c - 2 (M_c' M_c)_jk E_c. Whatever the
  values, E_c lies between -(largest of the products with one factor 1 - 1/f replaced by 1/f) and P_c: a product with d
  factors -1/f is at most P_c in size because f >= 2, and if it is negative, replacing all but one of them by 1 - 1/f
  only makes it larger in size. So every block is taken at the worse end, and the price is the largest sum over all
  pairs (j, k). It bounds the exact one, and single columns too, which matter if a person has several rows.
With c rows per person all moves are multiplied by c^2 (`groups.MatrixGroup` has the argument).

All sums are whole numbers or fractions. Floats only choose which pairs to work out. The terms of a pair add up to at
most 4 times the price of a single record in size, by Cauchy-Schwarz, so a float of their sum over B blocks is off by
less than that times (B + 10) 2^-52. All pairs within 32 times as much of the largest are worked out, where twice as
much would do.

See THEORY section 12.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm, prod

import numpy as np

from privcube.model.matrices.groups import Block, BlockGroup
from privcube.model.privacy.guarantee import Neighbors
from privcube.model.schema import Schema


def squared_move(schema: Schema, group: BlockGroup, neighbors: Neighbors) -> Fraction:
    """How far a change of one row of the data can move the blocks, in L2 squared.

    >>> from privcube.model.matrices.groups import MatrixGroup
    >>> one, other = MatrixGroup(("age",), ((3, 0), (0, 1))), MatrixGroup(("age",), ((1, 2),))
    >>> group = BlockGroup((Block((), one), Block(("sex",), other)))
    >>> [str(squared_move(Schema.from_sizes({"sex": 2, "age": 2}), group, n)) for n in ("add_remove", "replace_one")]
    ['19/2', '29/2']
    """
    single = _largest_column(schema, group)
    return single if neighbors == "add_remove" else max(single, _largest_pair(schema, group))


def kept(schema: Schema, block: Block) -> Fraction:
    """P_c: the squared length by which a record moves the orthonormal Helmert rows of a block."""
    return prod([1 - Fraction(1, schema[name].cells) for name in block.contrasted], start=Fraction(1))


def _lowest(schema: Schema, block: Block) -> Fraction:
    """The least that the product of two records' Helmert columns can be; P_c if nothing is contrasted."""
    own, sizes = kept(schema, block), [schema[name].cells for name in block.contrasted]
    return -max(own / (size - 1) for size in sizes) if sizes and min(sizes) > 1 else own


def _largest_column(schema: Schema, group: BlockGroup) -> Fraction:
    parts = [kept(schema, block) for block in group.blocks]
    below = lcm(*[part.denominator for part in parts])
    total = np.zeros(len(group.blocks[0].matrix.rows[0]), dtype=object)
    for block, part in zip(group.blocks, parts, strict=True):
        total += (block.matrix.matrix**2).sum(axis=0).astype(object) * int(part * below)
    return Fraction(int(total.max()), below)


def _largest_pair(schema: Schema, group: BlockGroup) -> Fraction:
    parts = [kept(schema, block) for block in group.blocks]
    lows = [_lowest(schema, block) for block in group.blocks]
    products = [block.matrix.products for block in group.blocks]
    rough = np.zeros(products[0].shape)
    for product, part, low in zip(products, parts, lows, strict=True):
        own = np.diag(product).astype(np.float64)
        rough += float(part) * (own[:, None] + own)
        rough += 2 * np.maximum(-float(low) * product, -float(part) * product)
    off = 8 * float(_largest_column(schema, group)) * (len(parts) + 10) * 2.0**-48
    ones, others = np.nonzero(np.triu(rough >= rough.max() - off))
    # Per pair, and for each block, the squared lengths of both columns together, and their product.
    terms = [(np.diag(m)[ones] + np.diag(m)[others], m[ones, others]) for m in products]
    found = np.unique(np.stack([part for term in terms for part in term], axis=1), axis=0)
    return max(_pair(parts, lows, pair) for pair in found.tolist())


def _pair(parts: Sequence[Fraction], lows: Sequence[Fraction], terms: Sequence[int]) -> Fraction:
    total = Fraction(0)
    for part, low, both, shared in zip(parts, lows, terms[::2], terms[1::2], strict=True):
        total += part * both + 2 * max(-low * shared, -part * shared)
    return total
