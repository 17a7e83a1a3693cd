"""Random changes that a search offers to a plan: the moves of the annealing. Zone: PUBLIC.

A plan is a list of bundles; empty ones are free places. A change maps places to their new bundles and is empty if the
move drawn is impossible. The generator is seeded and decides about public plans only.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from privcube.planning.search.closed_form import Bundle, Choice, Choices

Change = dict[int, Bundle]


class Moves:
    """Draws changes among the groups that a frame allows, none with too many rows."""

    def __init__(self, choices: Choices, generator: random.Random, most_rows: int) -> None:
        self._choices, self._random, self._most_rows = choices, generator, most_rows

    def fits(self, group: Choice) -> bool:
        """Whether a group has at most the allowed number of rows."""
        return self._choices.facts(group).rows <= self._most_rows

    def change(self, plan: list[Bundle]) -> Change:
        """Draw one change of a plan."""
        draw = self._random
        used = [place for place, bundle in enumerate(plan) if bundle]
        if not used:  # a Gram bundle alone
            return {0: [self._neighbor(self._neighbor((0,) * len(self._choices.options)))]}
        place = draw.choice(used)
        group = draw.choice(plan[place])
        kind = draw.random()
        changes: tuple[tuple[float, Callable[[], Change]], ...] = (  # cumulative probabilities, chosen empirically
            (0.40, lambda: self._alter(plan, place, group)),
            (0.50, lambda: self._drop(plan, place, group, used)),
            (0.65, lambda: self._add(plan, used, group)),
            (0.82, lambda: self._move(plan, place, group, used)),
            (0.87, lambda: self._merge(plan, place, used)),
            (0.92, lambda: self._slice(plan, place)),
            (1.00, lambda: self._unite(plan, place, group, used)),
        )
        return next(make for bound, make in changes if kind < bound)()

    def _alter(self, plan: list[Bundle], place: int, group: Choice) -> Change:
        other = self._neighbor(group)
        if not self.fits(other) or other in plan[place]:
            return {}
        return {place: [other if each == group else each for each in plan[place]]}

    def _drop(self, plan: list[Bundle], place: int, group: Choice, used: list[int]) -> Change:
        if len(used) == 1 and len(plan[place]) == 1:
            return {}
        return {place: [each for each in plan[place] if each != group]}

    def _add(self, plan: list[Bundle], used: list[int], group: Choice) -> Change:
        other = self._neighbor(group)
        if self._random.random() < 0.5:
            other = self._neighbor(other)
        free = [place for place, bundle in enumerate(plan) if not bundle]
        place = free[0] if free and self._random.random() < 0.5 else self._random.choice(used)
        if not self.fits(other) or other in plan[place]:
            return {}
        return {place: [*plan[place], other]}

    def _move(self, plan: list[Bundle], place: int, group: Choice, used: list[int]) -> Change:
        free = [at for at, bundle in enumerate(plan) if not bundle]
        alone = len(plan[place]) == 1
        there = free[0] if free and not alone and self._random.random() < 0.3 else self._random.choice(used)
        if there == place or group in plan[there]:
            return {}
        return {place: [each for each in plan[place] if each != group], there: [*plan[there], group]}

    def _merge(self, plan: list[Bundle], place: int, used: list[int]) -> Change:
        there = self._random.choice(used)
        if there == place:
            return {}
        return {place: [], there: list(dict.fromkeys([*plan[there], *plan[place]]))}

    def _slice(self, plan: list[Bundle], place: int) -> Change:
        """Give all groups of a bundle the same option on an axis: half of the time any, else nothing."""
        axis = self._random.randrange(len(self._choices.options))
        option = self._random.randrange(len(self._choices.options[axis])) if self._random.random() < 0.5 else 0
        others = list(dict.fromkeys((*group[:axis], option, *group[axis + 1 :]) for group in plan[place]))
        if set(others) == set(plan[place]) or not all(map(self.fits, others)):
            return {}
        return {place: others}

    def _unite(self, plan: list[Bundle], place: int, group: Choice, used: list[int]) -> Change:
        """Replace two groups by one that covers what both cover."""
        there = self._random.choice(used)
        other = self._random.choice(plan[there])
        if other == group:
            return {}
        union = tuple([
            self._wider(axis, *pair) for axis, pair in enumerate(zip(group, other, strict=True))
        ])  # fmt: skip
        if union in (group, other) or not self.fits(union):
            return {}
        change = {there: [each for each in plan[there] if each != other]}
        rest = [each for each in change.get(place, plan[place]) if each != group]
        change[place] = rest if union in rest else [*rest, union]
        return change

    def _wider(self, axis: int, one: int, other: int) -> int:
        """An option that covers what two options cover: the cells of the finer level, unless the two are equal."""
        if one == other:
            return one
        options = self._choices.options[axis]
        level = max(part.level if (part := options[at].part) else 0 for at in (one, other))
        return next(at for at, option in enumerate(options) if option.part and option.part.level == level)

    def _neighbor(self, group: Choice) -> Choice:
        """A group with another option on one axis, or with one axis exchanged for another."""
        draw, options = self._random, self._choices.options
        axis = draw.randrange(len(group))
        changed = list(group)
        if draw.random() < 0.5:
            there = [at for at, option in enumerate(group) if option]
            absent = [at for at, option in enumerate(group) if not option]
            if not there or not absent:
                return group
            gone, come = draw.choice(there), draw.choice(absent)
            changed[gone] = 0
            alike = [
                at for at, option in enumerate(options[come]) if _kind(option) == _kind(options[gone][group[gone]])
            ]
            changed[come] = draw.choice(alike) if alike else draw.randrange(1, max(2, len(options[come])))
            if changed[come] >= len(options[come]):
                return group
            return tuple(changed)
        if len(options[axis]) < 2:
            return group
        if group[axis] and draw.random() < 0.5:
            changed[axis] = 0
        else:
            changed[axis] = draw.randrange(1, len(options[axis]))
        return tuple(changed)


def _kind(option: object) -> str | None:
    part = getattr(option, "part", None)
    return part.kind if part is not None else None
