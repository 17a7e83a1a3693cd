"""The frame of a plan: how attributes are laid out as axes, each a chain of equal fan-outs. Zone: PUBLIC.

Three frames cover the structured strategies:
- natural: one axis per attribute, its levels as the chain (base counts, marginals, clusters);
- binary: one axis of two cells per bit of an attribute's code, level by level (the paper's encoding, section 4.1);
- tree: one axis per attribute, its cells in order as the leaves of a tree of a given branching (hierarchy, wavelet).
The attributes in `leveled` have all their levels (declared ones, or those of the tree), and those in `kept` some of
them; the others are flat, since levels of unequal fan-outs need padding. A level that the axes lack is a sum of cells
of the coarsest level that they have and it merges. Where sizes do not fit exactly, axes have padded cells, which are
empty and never published.

See THEORY sections 2 and 5.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from math import prod
from operator import mul
from typing import Literal, get_args

from privcube.errors import PlanError
from privcube.model.attribute import Attribute
from privcube.model.axis_levels import levels_on_axis
from privcube.model.levels import Chain, chain_of
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
    kept: tuple[tuple[str, tuple[str, ...]], ...] = ()  # attributes in order, each with its levels from fine to coarse

    def __post_init__(self) -> None:
        if self.kind not in get_args(FrameKind):
            raise PlanError("frame", expected="a known kind", given=self.kind, available=get_args(FrameKind))
        if type(self.branching) is not int or self.branching < 2:
            raise PlanError("branching", expected="a whole number of at least 2", given=self.branching)
        for name in self.leveled:
            if not self.schema[name].nests and self.kind != "tree":
                raise PlanError(f"levels of {name!r}", expected="levels that nest, if all are to be kept")
        self._require_nested()

    def _require_nested(self) -> None:
        places = [self.schema.position(name) for name, _ in self.kept]
        if any(left >= right for left, right in pairwise(places)) or self.leveled & dict(self.kept).keys():
            raise PlanError("frame", expected="each attribute with levels once, in the order of the schema")
        for name, levels in self.kept:
            chain = map(self.schema[name].partition, (None, *levels))  # one by one: a document may list very many
            nested = all(coarse.cells < fine.cells and coarse.merges(fine) for fine, coarse in pairwise(chain))
            if self.kind == "tree" or not levels or not nested:
                raise PlanError(f"levels of {name!r}", expected="levels that nest, from fine to coarse", given=levels)

    @classmethod
    def natural(cls, workload: Workload, kind: FrameKind = "natural") -> Frame:
        """The frame with the levels of all attributes that a workload requests at some level.

        Where the declared levels of an attribute do not nest, it has those that the workload requests and that do.
        """
        levels = {}
        for name, used in workload.levels.items():
            attribute = workload.schema[name]
            levels[name] = attribute.level_names if attribute.nests else levels_on_axis(attribute, used, even=False)
        return cls.of_levels(workload.schema, levels, kind)

    @classmethod
    def unpadded(cls, workload: Workload) -> Frame:
        """The natural frame with no levels but those that need no padding above the finest that a workload requests.

        >>> from privcube.model.levels import Level
        >>> north = Level("part", groups={"north": ["a", "b"], "south": ["c"]})
        >>> area = Schema([Attribute("area", values=["a", "b", "c"], levels=[north])])
        >>> both = Workload.tables(area, [("area",), (("area", "part"),)])
        >>> Frame.natural(both).fan_outs, Frame.unpadded(both).fan_outs
        (((2, 2),), ((3,),))
        """
        schema = workload.schema
        levels = {name: levels_on_axis(schema[name], used, even=True) for name, used in workload.levels.items()}
        return cls.of_levels(schema, levels)

    @classmethod
    def of_levels(cls, schema: Schema, levels: Mapping[str, tuple[str, ...]], kind: FrameKind = "natural") -> Frame:
        """A frame with these levels of some attributes, each from fine to coarse."""
        own = {name: levels[name] for name in schema.names if levels.get(name)}
        whole = {name for name in own if schema[name].nests and own[name] == schema[name].level_names}
        some = tuple((name, chain) for name, chain in own.items() if name not in whole)
        return cls(schema, kind, leveled=frozenset(whole), kept=some)

    def levels_of(self, attribute: Attribute) -> tuple[str, ...]:
        """The levels of an attribute that are levels of its axes, from fine to coarse."""
        if self.kind != "tree" and attribute.name in self.leveled:
            return attribute.level_names
        return self._kept_levels.get(attribute.name, ())

    @cached_property
    def _kept_levels(self) -> dict[str, tuple[str, ...]]:
        return dict(self.kept)

    def chain(self, attribute: Attribute) -> Chain:
        """The chain of the levels of an attribute that this frame keeps, and of its cells."""
        if attribute.name not in self._chains:
            levels = [attribute.partition(level) for level in self.levels_of(attribute)]
            self._chains[attribute.name] = chain_of(levels, attribute.cells)
        return self._chains[attribute.name]

    @cached_property
    def _chains(self) -> dict[str, Chain]:
        return {}

    def source(self, attribute: Attribute, level: str | None) -> str | None:
        """The level of the axes that a level is summed from, itself if the axes have it; None for the cells."""
        if level is None or level in self.levels_of(attribute):
            return level
        if (attribute.name, level) not in self._sources:
            wanted = attribute.partition(level)
            finer = (own for own in reversed(self.levels_of(attribute)) if wanted.merges(attribute.partition(own)))
            self._sources[attribute.name, level] = next(finer, None)
        return self._sources[attribute.name, level]

    @cached_property
    def _sources(self) -> dict[tuple[str, str], str | None]:
        return {}

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

    @cached_property
    def axis_owners(self) -> tuple[str, ...]:
        """The attribute that every axis belongs to."""
        if self.kind != "binary":
            return self.schema.names
        return tuple(own.name for own, digits in zip(self.schema, self._digits, strict=True) for _ in digits)

    @property
    def has_padding(self) -> bool:
        """Whether some axes have more cells than their attribute."""
        return any(prod(digits) != attribute.cells for digits, attribute in zip(self._digits, self.schema, strict=True))

    def footprint(self, attribute: Attribute, level: str | None = None) -> tuple[tuple[int, int], ...]:
        """The axes of an attribute, each with the level it needs to sum up the cells of `level`."""
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
            return ((first, len(self.fan_outs[first])),)
        chain, kept = self._kept(attribute, self.source(attribute, level))
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
        levels = self.levels_of(attribute)
        if level not in levels:
            raise PlanError(f"{attribute.name!r} by {level!r}", expected="a level that the plan was made for")
        return chain, len(chain.fan_outs) - 1 - levels.index(level)


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
