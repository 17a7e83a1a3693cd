"""Which of the levels that a workload uses an attribute can have on one axis. Zone: PUBLIC.

See THEORY section 5.2.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from privcube.model.attribute import Attribute
from privcube.model.levels import TOGETHER


def levels_on_axis(attribute: Attribute, used: Collection[str | None], *, even: bool) -> tuple[str, ...]:
    """Levels for the axis of an attribute, from fine to coarse: those in use that nest, in their declared order.

    If the cells are not in use, the first are the coarsest groups that all levels in use merge. Among those after them,
    `even` leaves out the ones that would need padding.

    >>> from privcube.model.levels import Level
    >>> age = Attribute("age", size=6, levels=[Level("two", width=2), Level("most", bins=[0, 4, 6]),
    ...                                        Level("three", width=3, of="age")])
    >>> [levels_on_axis(age, used, even=False) for used in ([None, "two", "most"], ["two", "most"], ["most", "three"])]
    [('two', 'most'), ('two', 'most'), ('most\\nthree', 'most')]
    >>> [levels_on_axis(age, used, even=True) for used in ([None, "two", "most"], ["two", "most"], ["most", "three"])]
    [('two',), ('two',), ('most\\nthree',)]
    """
    named = [level for level in attribute.level_names if level in used]
    found: list[str] = []
    below = attribute.partition()
    if None not in used:
        finest = _finest(attribute, named)
        common = attribute.partition(finest)
        if common.cells < attribute.cells:
            found, below = [finest], common
    for level in named:
        own = attribute.partition(level)
        if own.cells < below.cells and own.merges(below) and (own.is_even_over(below) or not even):
            found.append(level)
            below = own
    return tuple(found)


def _finest(attribute: Attribute, named: Sequence[str]) -> str:
    """The coarsest groups that all of these levels merge, by the fewest of their names."""
    needed: list[str] = []
    for level in named:
        if not any(attribute.partition(level).merges(attribute.partition(other)) for other in needed):
            kept = [other for other in needed if not attribute.partition(other).merges(attribute.partition(level))]
            needed = [*kept, level]
    return TOGETHER.join(needed)
