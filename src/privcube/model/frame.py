"""The frame of a plan: how attributes are laid out as axes, each a chain of equal fan-outs. Zone: PUBLIC.

Three frames cover the structured strategies:
- natural: one axis per attribute, its levels as the chain (base counts, marginals, clusters);
- binary: one axis of two cells per bit of an attribute's code, level by level (the paper's encoding, section 4.1);
- tree: one axis per attribute, its cells in order as the leaves of a tree of a given branching (hierarchy, wavelet).
Only the attributes in `leveled` have levels (declared ones, or those of the tree); the others are flat, since levels of
unequal fan-outs need padding. Where sizes do not fit exactly, axes have padded cells, which are empty and never
published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod
from operator import mul
from typing import Literal, get_args

from privcube.errors import PlanError
from privcube.model.attribute import Attribute
from privcube.model.levels import Chain
from privcube.model.schema import Schema
from privcube.model.workload import Workload

FrameKind = Literal["natural", "binary", "tree"]


@dataclass(frozen=True)
class Frame:
    """Axes for the attributes of a schema.

    >>> schema = Schema.from_sizes({"sex": 2, "race": 5})
    >>> Frame(schema, "natural").fan_outs, Frame(schema, "binary").fan_outs, Frame(
    ...     schema, "tree", 2, frozenset(["race"])).fan_outs
    (((2,), (5,)), ((2,), (2,), (2,), (2,)), ((2,), (2, 2, 2)))
    """

    schema: Schema
    kind: FrameKind
    branching: int = 2
    leveled: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.kind not in get_args(FrameKind):
            raise PlanError("frame", expected="a known kind", given=self.kind, available=get_args(FrameKind))
        if type(self.branching) is not int or self.branching < 2:
            raise PlanError("branching", expected="a whole number of at least 2", given=self.branching)
        for name in self.leveled:
            self.schema.position(name)

    @classmethod
    def natural(cls, workload: Workload) -> Frame:
        """The natural frame, with the levels that a workload uses."""
        return cls(workload.schema, "natural", leveled=workload.leveled)

    def chain(self, attribute: Attribute) -> Chain:
        """The chain of an attribute's declared levels if this frame keeps them, else of its cells alone."""
        if self.kind == "tree" or attribute.name not in self.leveled:
            return Chain((attribute.cells,), range(attribute.cells))
        return attribute.chain

    def keeps_levels(self, attribute: str) -> bool:
        """Whether the declared levels of an attribute are levels of its axes."""
        return self.kind != "tree" and attribute in self.leveled

    @cached_property
    def _digits(self) -> tuple[tuple[int, ...], ...]:
        """For each attribute, the fan-outs of its code's digits, coarsest first."""
        return tuple(self._digits_of(attribute) for attribute in self.schema)

    def _digits_of(self, attribute: Attribute) -> tuple[int, ...]:
        if self.kind == "tree" and attribute.name in self.leveled:
            return (self.branching,) * _digits_needed(attribute.cells, self.branching) or (1,)
        if self.kind == "binary":
            return (2,) * sum(_digits_needed(fan_out, 2) for fan_out in self.chain(attribute).fan_outs)
        return self.chain(attribute).fan_outs

    @cached_property
    def fan_outs(self) -> tuple[tuple[int, ...], ...]:
        """The fan-outs of every axis, coarsest first."""
        if self.kind == "binary":
            return tuple((2,) for digits in self._digits for _ in digits)
        return self._digits

    @cached_property
    def sizes(self) -> tuple[tuple[int, ...], ...]:
        """How many cells every axis has at every level, starting with the total."""
        return tuple(tuple(prod(chain[:level]) for level in range(len(chain) + 1)) for chain in self.fan_outs)

    @cached_property
    def _first_axis(self) -> tuple[int, ...]:
        if self.kind != "binary":
            return tuple(range(len(self.schema)))
        first, axis = [], 0
        for digits in self._digits:
            first.append(axis)
            axis += len(digits)
        return tuple(first)

    @property
    def has_padding(self) -> bool:
        """Whether some axes have more cells than their attribute."""
        return any(prod(digits) != attribute.cells for digits, attribute in zip(self._digits, self.schema, strict=True))

    def footprint(self, attribute: Attribute, level: str | None = None) -> tuple[tuple[int, int], ...]:
        """The axes of an attribute, each with the level it needs to distinguish the cells of `level`."""
        known = self._footprints
        if (attribute.name, level) not in known:
            known[attribute.name, level] = self._footprint(attribute, level)
        return known[attribute.name, level]

    @cached_property
    def _footprints(self) -> dict[tuple[str, str | None], tuple[tuple[int, int], ...]]:
        return {}

    def _footprint(self, attribute: Attribute, level: str | None) -> tuple[tuple[int, int], ...]:
        first = self._first_axis[self.schema.position(attribute.name)]
        if self.kind == "tree":
            if level is not None:
                raise PlanError(
                    f"{attribute.name!r} by {level!r}", expected="no declared levels in a hierarchy or wavelet strategy"
                )
            return ((first, len(self.fan_outs[first])),)
        chain, kept = self._kept(attribute, level)
        if self.kind == "natural":
            return ((first, kept),)
        bits = sum(_digits_needed(fan_out, 2) for fan_out in chain.fan_outs[:kept])
        return tuple((axis, 1) for axis in range(first, first + bits))

    def positions(self, attribute: Attribute, level: str | None = None) -> Sequence[int]:
        """The position of each cell of a level among the padded cells of its footprint, in label order."""
        if self.kind == "tree":
            return range(attribute.cells)
        chain, kept = self._kept(attribute, level)
        tail = prod(chain.fan_outs[kept:])
        padded = {}
        for cell, group in enumerate(attribute.partition(level).group_of):
            padded[group] = chain.positions[cell] // tail
        natural = [padded[group] for group in range(len(padded))]
        if self.kind == "natural":
            return natural
        return [_in_bits(position, chain.fan_outs[:kept]) for position in natural]

    def nested_sizes(self, attribute: Attribute, level: str | None = None) -> tuple[int, ...]:
        """How many padded cells an attribute has at each of its levels, from the coarsest down to `level`."""
        if self.kind == "tree":
            return (prod(self.fan_outs[self._first_axis[self.schema.position(attribute.name)]]),)
        chain, kept = self._kept(attribute, level)
        wide = [1 << _digits_needed(f, 2) if self.kind == "binary" else f for f in chain.fan_outs[:kept]]
        return tuple(accumulate(wide, mul))

    def _kept(self, attribute: Attribute, level: str | None) -> tuple[Chain, int]:
        """The chain of an attribute, and how many of its fan-outs a level keeps."""
        chain = self.chain(attribute)
        if level is None:
            return chain, len(chain.fan_outs)
        if attribute.name not in self.leveled:
            raise PlanError(f"{attribute.name!r} by {level!r}", expected="a level that the plan was made for")
        return chain, len(chain.fan_outs) - 1 - attribute.level_names.index(level)


def _digits_needed(cells: int, base: int) -> int:
    digits, reach = 0, 1
    while reach < cells:
        reach *= base
        digits += 1
    return digits


def _in_bits(position: int, fan_outs: Sequence[int]) -> int:
    """A mixed-radix number, re-encoded with every digit in whole bits."""
    code, shift = 0, 0
    for fan_out in reversed(fan_outs):
        position, digit = divmod(position, fan_out)
        code |= digit << shift
        shift += _digits_needed(fan_out, 2)
    return code
