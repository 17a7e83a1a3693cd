"""An attribute: its declared cells, how other values are handled, and its levels of detail. Zone: PUBLIC.

An attribute is declared in one of five ways: `values` (strings, integers or booleans), `size` (codes 0 to size-1),
`bins` (edges of closed-open intervals), `dates` (periods or parts of dates) or `grid` (numbers to be added up; then it
is a measure, `privcube.Measure`). Its cells, in this order, are
- for bins, periods and grids with underflow="category", everything below the first;
- the declared values, codes, bins, periods, parts or knots;
- for bins, periods and grids with overflow="category", everything above the last;
- with other="category", values that were not declared; with missing="category", missing values.
Every cell is published whether or not it occurs, so the set of cells reveals nothing about the data. With the policy
"drop", records with such values are not part of the release at all.

How the data spells its values is declared, too: `column` (if it is not named like the attribute), `trim`, `case` and
`raw` (spellings per value; those of "(missing)" mean that the value is missing).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import Final, Literal, get_args

from privcube.errors import Plain, SchemaError
from privcube.model.amounts import Amount, decimal_text, exact
from privcube.model.columns.dates import Dates
from privcube.model.columns.spelling import MISSING, Case, checked_raw, cleaned
from privcube.model.levels import TOGETHER, Chain, Level, Partition, chain_of, check_name
from privcube.model.measures.grid import Grid

Policy = Literal["refuse", "category", "drop"]
RangePolicy = Literal["refuse", "category", "clamp", "drop"]
Value = str | int | bool

OTHER: Final = "(other)"
_LARGEST_SIZE: Final = 10**8  # codes of an attribute: its table has a cell for each, and must fit in memory
MOST_CODES: Final = 2_000_000  # codes that are written out, once per level: with levels or categories beside them


@dataclass(frozen=True, init=False)
class Attribute:
    """One column of the data, as declared by the custodian.

    >>> Attribute("sex", values=["Female", "Male"], missing="category").labels
    ('Female', 'Male', '(missing)')
    >>> age = Attribute("age", bins=[0, 18, 65, 120], overflow="clamp")
    >>> age.labels, age.cells, age.ordered
    (('[0, 18)', '[18, 65)', '[65, 120)'), 3, True)
    """

    name: str
    values: tuple[Value, ...] | None
    size: int | None
    bins: tuple[Fraction, ...] | None
    dates: Dates | None
    grid: Grid | None
    levels: tuple[Level, ...]
    ordered: bool
    missing: Policy
    other: Policy
    underflow: RangePolicy
    overflow: RangePolicy
    column: str
    trim: bool
    case: Case
    raw: tuple[tuple[str, tuple[str, ...]], ...]
    draft: bool
    labels: tuple[Value, ...] | range = field(init=False, repr=False, compare=False)
    partitions: tuple[Partition, ...] = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        name: str,
        *,
        values: Sequence[Value] | None = None,
        size: int | None = None,
        bins: Sequence[Amount] | None = None,
        dates: Dates | None = None,
        grid: Grid | None = None,
        levels: Iterable[Level] = (),
        ordered: bool | None = None,
        missing: Policy = "refuse",
        other: Policy = "refuse",
        underflow: RangePolicy = "refuse",
        overflow: RangePolicy = "refuse",
        column: str | None = None,
        trim: bool = False,
        case: Case = "exact",
        raw: Mapping[str, Sequence[str]] | Sequence[tuple[str, Sequence[str]]] = (),
        draft: bool = False,
    ) -> None:
        check_name("attribute name", name)
        subject = f"attribute {name!r}"
        ways = {"values": values, "size": size, "bins": bins, "dates": dates, "grid": grid}
        declared = [way for way, given in ways.items() if given is not None]
        if len(declared) != 1:
            raise SchemaError(
                subject,
                expected="one of values, size, bins and dates",
                given=Plain(" and ".join(declared) or "none of them"),
            )
        for key, policy, allowed in (
            ("missing", missing, get_args(Policy)),
            ("other", other, get_args(Policy)),
            ("underflow", underflow, get_args(RangePolicy)),
            ("overflow", overflow, get_args(RangePolicy)),
            ("case", case, get_args(Case)),
        ):
            if policy not in allowed:
                raise SchemaError(f"{subject}, {key}", expected="one that is known", given=policy, available=allowed)
        if dates is not None and not isinstance(dates, Dates):
            raise SchemaError(f"{subject}, dates", expected="privcube.Dates", given=dates)
        has_ends = bins is not None or grid is not None or (dates is not None and not dates.recurs)
        if not has_ends and (underflow, overflow) != ("refuse", "refuse"):
            expected = "an attribute with bins, periods or a grid"
            raise SchemaError(f"{subject}, underflow and overflow", expected=expected)
        for key, flag in (("ordered", ordered), ("draft", draft), ("trim", trim)):
            if flag is not None and not isinstance(flag, bool):
                raise SchemaError(f"{subject}, {key}", expected="true or false", given=flag)
        checked_values = None if values is None else _checked_values(subject, values)
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= _LARGEST_SIZE):
            raise SchemaError(f"{subject}, size", expected=f"a whole number from 1 to {_LARGEST_SIZE:,}", given=size)
        edges = None if bins is None else checked_edges(f"{subject}, bins", bins)
        if case == "fold" and values is None:
            raise SchemaError(f"{subject}, case", expected="an attribute with values, as others have no letters")
        if column is not None:
            check_name(f"{subject}, column", column)
        declared_levels = tuple(levels)
        if grid is not None and (declared_levels or ordered):
            raise SchemaError(f"{subject}, levels and ordered", expected="neither for a measure, which is added up")
        listed = bool(declared_levels) or "category" in (missing, other)
        if size is not None and listed and size * (1 + len(declared_levels)) > MOST_CODES:
            expected = f"at most {MOST_CODES:,} codes, once per level, if it has levels or categories"
            raise SchemaError(f"{subject}, size", expected=expected, given=size)
        for level in declared_levels:
            if not isinstance(level, Level):
                raise SchemaError(f"{subject}, levels", expected="privcube.Level objects", given=level)
        for key, value in {
            "name": name,
            "values": checked_values,
            "size": size,
            "bins": edges,
            "dates": dates,
            "grid": grid,
            "ordered": grid is None and _is_ordered(checked_values) if ordered is None else ordered,
            "missing": missing,
            "other": other,
            "underflow": underflow,
            "overflow": overflow,
            "column": name if column is None else column,
            "trim": trim,
            "case": case,
            "raw": checked_raw(f"{subject}, raw", raw, list(map(_text, checked_values or ()))),
            "draft": draft,
            "levels": declared_levels,
        }.items():
            object.__setattr__(self, key, value)
        self.spellings  # noqa: B018 - refuses spellings of two values
        object.__setattr__(self, "labels", self._all_labels())
        object.__setattr__(self, "partitions", self._all_partitions())

    @property
    def cells(self) -> int:
        """How many cells the attribute has, including extra categories."""
        return len(self.labels)

    @property
    def ordered_cells(self) -> int:
        """How many cells, counted from the first, lie on the attribute's scale: all but (other) and (missing)."""
        return self.cells - (self.other == "category") - (self.missing == "category")

    @property
    def first_declared(self) -> int:
        """The cell of the first declared value, code, bin or period: the one below it is for what is too small."""
        return int(self.underflow == "category")

    @property
    def declared_cells(self) -> int:
        """How many values, codes, bins, periods or parts are declared."""
        return self.ordered_cells - self.first_declared - (self.overflow == "category")

    @property
    def declared_codes(self) -> int:
        """How many codes the declared values have: one each, but of a grid one per point."""
        return self.declared_cells if self.grid is None else self.grid.steps + 1

    @property
    def codes(self) -> int:
        """How many codes a record may have: one per cell, except that a grid has one for each of its points."""
        return self.cells - self.declared_cells + self.declared_codes

    @property
    def other_code(self) -> int:
        """The code of what is not declared, if that has a category: the one after those in order."""
        return self.codes - self.cells + self.ordered_cells

    @property
    def is_measure(self) -> bool:
        """Whether the attribute's numbers are added up."""
        return self.grid is not None

    @property
    def has_ends(self) -> bool:
        """Whether a number or date can be too small or too large for the attribute."""
        return self.bins is not None or self.grid is not None or (self.dates is not None and not self.dates.recurs)

    @property
    def may_refuse(self) -> bool:
        """Whether there are values that stop a release."""
        return "refuse" in (self.missing, self.other, *((self.underflow, self.overflow) if self.has_ends else ()))

    @property
    def drops(self) -> bool:
        """Whether there are values that leave a record out of the release."""
        return "drop" in (self.missing, self.other, self.underflow, self.overflow)

    @property
    def spellings(self) -> tuple[tuple[str, int | None], ...]:
        """The texts that stand for declared values, as cleaning leaves them, with their cells: None if missing.

        >>> Attribute("smokes", values=["yes", "no"], raw={"yes": ["Y"], "(missing)": ["?"]}, case="fold").spellings
        (('yes', 0), ('no', 1), ('y', 0), ('?', None))
        """
        declared = list(map(_text, self.values or ()))
        cell: dict[str, int | None] = {MISSING: None}
        cell |= {text: at for at, text in enumerate(declared)}
        texts = [(text, at) for at, text in enumerate(declared)]
        found: dict[str, int | None] = {}
        for text, at in [*texts, *((raw, cell[label]) for label, spelled in self.raw for raw in spelled)]:
            if found.setdefault(key := cleaned(text, trim=self.trim, case=self.case), at) != at:
                given = Plain(f"{key!r} for two")
                raise SchemaError(f"attribute {self.name!r}", expected="every spelling for one value", given=given)
        return tuple(found.items())

    @property
    def level_names(self) -> tuple[str, ...]:
        """The declared levels in their order, excluding single values and the total."""
        return tuple(level.name for level in self.levels)

    @property
    def nests(self) -> bool:
        """Whether every level is declared to merge the one before it, so that they form a chain."""
        before = (self.name, *self.level_names)
        return all(level.of in (None, below) for level, below in zip(self.levels, before, strict=False))

    def partition(self, level: str | None = None) -> Partition:
        """The cells grouped at a level; without a level, every cell on its own.

        Several levels, joined by `TOGETHER`, stand for the coarsest groups that all of them merge.
        """
        if level is None:
            return Partition(tuple(self.labels), tuple(range(self.cells)))
        own = dict(zip(self.level_names, self.partitions, strict=True))
        names = level.split(TOGETHER)
        for name in names:
            if name not in own or len(names) > len(own):
                subject = f"attribute {self.name!r}"
                raise SchemaError(subject, expected="one of its levels", given=name, available=self.level_names)
        return reduce(Partition.common_with, [own[name] for name in names])

    @property
    def chain(self) -> Chain:
        """The levels, if they nest, as a chain of equal fan-outs, with padding where fan-outs differ (see `Chain`).

        >>> Attribute("city", values=["LA", "SF", "NY"],
        ...           levels=[Level("state", groups={"CA": ["LA", "SF"], "NY": ["NY"]})]).chain
        Chain(fan_outs=(2, 2), positions=(0, 1, 2))
        """
        return chain_of(self.partitions, self.cells)

    def _extra_labels(self) -> tuple[str, ...]:
        return (OTHER,) * (self.other == "category") + (MISSING,) * (self.missing == "category")

    def _all_labels(self) -> tuple[Value, ...] | range:
        extra = self._extra_labels()
        if self.size is not None:
            return (*range(self.size), *extra) if extra else range(self.size)
        if self.grid is not None:
            below = (f"< {decimal_text(self.grid.low)}",) * (self.underflow == "category")
            above = (f"> {decimal_text(self.grid.high)}",) * (self.overflow == "category")
            return (*below, *self.grid.labels, *above, *extra)
        if self.bins is not None:
            below = (f"< {decimal_text(self.bins[0])}",) * (self.underflow == "category")
            above = (f">= {decimal_text(self.bins[-1])}",) * (self.overflow == "category")
            return (*below, *interval_labels(self.bins), *above, *extra)
        if self.dates is not None:
            labels = self.dates.labels
            below = (f"before {labels[0]}",) * (self.underflow == "category")
            above = (f"after {labels[-1]}",) * (self.overflow == "category")
            return (*below, *labels, *above, *extra)
        assert self.values is not None
        for label in extra:
            if label in self.values:
                raise SchemaError(
                    f"attribute {self.name!r}",
                    expected=f"no declared value {label!r}, which is the name of a category",
                )
        return (*self.values, *extra)

    def _all_partitions(self) -> tuple[Partition, ...]:
        if not self.levels:
            return ()  # cells are not enumerated: there may be a hundred million
        edges = self.bins
        if edges is None and self.ordered:
            edges = _integer_edges(self.labels[: self.declared_cells])
        known = {self.name: Partition(tuple(self.labels), tuple(range(self.cells)))}
        before = self.name
        if len({level.name for level in self.levels} | {self.name}) <= len(self.levels):
            raise SchemaError(
                f"attribute {self.name!r}, levels",
                expected="names that differ from each other and from the attribute's",
                given=", ".join(self.level_names),
            )
        for level in self.levels:
            below = before if level.of is None else level.of
            if below not in known:
                subject = f"attribute {self.name!r}, level {level.name!r}, of"
                expected = "the attribute, for its cells, or a level declared before"
                raise SchemaError(subject, expected=expected, given=below, available=known)
            known[level.name] = level.applied_to(
                known[below],
                attribute=self.name,
                first=self.first_declared,
                count=self.declared_cells,
                edges=edges,
                dates=self.dates,
                ordered=self.ordered,
            )
            before = level.name
        return tuple([known[level.name] for level in self.levels])


def _checked_values(subject: str, values: Sequence[Value]) -> tuple[Value, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise SchemaError(f"{subject}, values", expected="a list of values", given=values)
    checked = tuple(values)
    if not checked:
        raise SchemaError(f"{subject}, values", expected="at least one value", given=[])
    kinds = {type(value) for value in checked}
    if kinds not in ({str}, {int}, {bool}):
        raise SchemaError(
            f"{subject}, values",
            expected="strings only, integers only or booleans only",
            given=Plain(" and ".join(sorted(kind.__name__ for kind in kinds))),
        )
    seen: set[Value] = set()
    for value in checked:
        if value in seen:
            raise SchemaError(f"{subject}, values", expected="every value once", given=Plain(f"{value} twice"))
        seen.add(value)
        if isinstance(value, str):
            check_name(f"{subject}, value", value)
        elif not -(2**63) <= value < 2**63:
            raise SchemaError(f"{subject}, values", expected="64-bit integers", given=value)
    return checked


def checked_edges(subject: str, bins: Sequence[Amount]) -> tuple[Fraction, ...]:
    """Bin edges as exact numbers; there must be at least two, strictly increasing."""
    if isinstance(bins, str) or not isinstance(bins, Sequence) or len(bins) < 2:
        raise SchemaError(subject, expected="a list of at least two edges", given=bins)
    edges = tuple(exact(edge, subject, SchemaError) for edge in bins)
    for low, high in pairwise(edges):
        if low >= high:
            raise SchemaError(
                subject, expected="increasing edges", given=Plain(f"{decimal_text(low)}, {decimal_text(high)}")
            )
    return edges


def interval_labels(edges: Sequence[Fraction]) -> tuple[str, ...]:
    """Labels of the closed-open intervals between edges."""
    return tuple(f"[{decimal_text(low)}, {decimal_text(high)})" for low, high in pairwise(edges))


def _text(value: Value) -> str:
    """How a declared value is written in the data."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_ordered(values: tuple[Value, ...] | None) -> bool:
    if values is None:
        return True  # codes and bins
    integers = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    return len(integers) == len(values) and integers == sorted(integers)


def _integer_edges(labels: Sequence[Value]) -> tuple[Fraction, ...]:
    """Edges that make each integer an interval up to the next; none unless all labels are integers in order."""
    integers = [label for label in labels if isinstance(label, int) and not isinstance(label, bool)]
    if len(integers) < len(labels) or integers != sorted(integers):
        return ()
    return tuple(map(Fraction, (*integers, integers[-1] + 1)))


def attribute_sizes(sizes: Mapping[str, int]) -> tuple[Attribute, ...]:
    """Attributes declared only by size, as in private-pgm's domain JSON."""
    return tuple(Attribute(name, size=size) for name, size in sizes.items())
