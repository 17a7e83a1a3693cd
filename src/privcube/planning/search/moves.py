"""Random changes that a search offers to a plan: the moves of the annealing. Zone: PUBLIC.

A plan is a list of bundles; empty ones are free places. A change maps places to their new bundles, with what left and
what joined them, and is empty if the move drawn is impossible. The generator is seeded and decides about public plans
only.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from privcube.planning.search.closed_form import Bundle, Choice, Choices

T = TypeVar("T")


class Edit(NamedTuple):
    """A bundle that a change leaves behind, and the groups that left and joined it."""

    bundle: Bundle
    gone: Bundle
    come: Bundle


Change = dict[int, Edit]


class Moves:
    """Draws changes among the groups that a frame allows, none with too many rows."""

    def __init__(self, choices: Choices, generator: random.Random, most_rows: int) -> None:
        self._choices, self._random, self._most_rows = choices, generator, most_rows
        parts = [[option.part for option in options] for options in choices.options]
        self._kinds = [[None if part is None else part.kind for part in own] for own in parts]
        self._levels = [[0 if part is None else part.level for part in own] for own in parts]

    def _any(self, several: Sequence[T]) -> T:
        """One of several, as `random.choice` draws it; that takes twice as long."""
        count, draw = len(several), self._random.getrandbits
        bits = count.bit_length()
        number = draw(bits)
        while number >= count:
            number = draw(bits)
        return several[number]

    def fits(self, group: Choice) -> bool:
        """Whether a group has at most the allowed number of rows."""
        return self._choices.facts(group).rows <= self._most_rows

    def change(self, plan: list[Bundle]) -> Change:
        """Draw one change of a plan."""
        draw = self._random
        used = [place for place, bundle in enumerate(plan) if bundle]
        if not used:  # a Gram bundle alone
            first = [self._neighbor(self._neighbor((0,) * len(self._choices.options)))]
            return {0: Edit(first, [], first)}
        place = self._any(used)
        group = self._any(plan[place])
        kind = draw.random()
        if kind < 0.40:  # cumulative probabilities, chosen empirically
            return self._alter(plan, place, group)
        if kind < 0.50:
            return self._drop(plan, place, group, used)
        if kind < 0.65:
            return self._add(plan, used, group)
        if kind < 0.82:
            return self._move(plan, place, group, used)
        if kind < 0.87:
            return self._merge(plan, place, used)
        if kind < 0.91:
            return self._slice(plan, place)
        if kind < 0.97:
            return self._unite(plan, place, group, used)
        return self._split(plan, place, group)

    def _alter(self, plan: list[Bundle], place: int, group: Choice) -> Change:
        other = self._neighbor(group)
        if not self.fits(other) or other in plan[place]:
            return {}
        return {place: Edit([other if each == group else each for each in plan[place]], [group], [other])}

    def _drop(self, plan: list[Bundle], place: int, group: Choice, used: list[int]) -> Change:
        if len(used) == 1 and len(plan[place]) == 1:
            return {}
        return {place: Edit([each for each in plan[place] if each != group], [group], [])}

    def _add(self, plan: list[Bundle], used: list[int], group: Choice) -> Change:
        other = self._neighbor(group)
        if self._random.random() < 0.5:
            other = self._neighbor(other)
        free = [place for place, bundle in enumerate(plan) if not bundle]
        place = free[0] if free and self._random.random() < 0.5 else self._any(used)
        if not self.fits(other) or other in plan[place]:
            return {}
        return {place: Edit([*plan[place], other], [], [other])}

    def _move(self, plan: list[Bundle], place: int, group: Choice, used: list[int]) -> Change:
        free = [at for at, bundle in enumerate(plan) if not bundle]
        alone = len(plan[place]) == 1
        there = free[0] if free and not alone and self._random.random() < 0.3 else self._any(used)
        if there == place or group in plan[there]:
            return {}
        rest = [each for each in plan[place] if each != group]
        return {place: Edit(rest, [group], []), there: Edit([*plan[there], group], [], [group])}

    def _merge(self, plan: list[Bundle], place: int, used: list[int]) -> Change:
        there = self._any(used)
        if there == place:
            return {}
        known = set(plan[there])
        come = [group for group in plan[place] if group not in known]
        change = {place: Edit([], plan[place], [])}
        return {**change, there: Edit([*plan[there], *come], [], come)} if come else change

    def _slice(self, plan: list[Bundle], place: int) -> Change:
        """Give all groups of a bundle the same option on an axis: half of the time any, else nothing."""
        axis = self._random.randrange(len(self._choices.options))
        option = self._random.randrange(len(self._choices.options[axis])) if self._random.random() < 0.5 else 0
        others = list(dict.fromkeys((*group[:axis], option, *group[axis + 1 :]) for group in plan[place]))
        before, after = set(plan[place]), set(others)
        if after == before or not all(map(self.fits, others)):
            return {}
        gone = [group for group in plan[place] if group not in after]
        return {place: Edit(others, gone, [group for group in others if group not in before])}

    def _unite(self, plan: list[Bundle], place: int, group: Choice, used: list[int]) -> Change:
        """Replace two groups by one that covers what both cover."""
        there = self._any(used)
        other = self._any(plan[there])
        if other == group:
            return {}
        union = tuple([
            self._wider(axis, *pair) for axis, pair in enumerate(zip(group, other, strict=True))
        ])  # fmt: skip
        if union in (group, other) or not self.fits(union):
            return {}
        change = {there: Edit([each for each in plan[there] if each != other], [other], [])}
        left, gone = change[place][:2] if place == there else (plan[place], [])
        rest = [each for each in left if each != group]
        come = [] if union in rest else [union]
        change[place] = Edit([*rest, *come], [*gone, group], come)
        return change

    def _split(self, plan: list[Bundle], place: int, group: Choice) -> Change:
        """Replace a group by two that each leave out one of its axes, as two groups that are united often do."""
        group = max(group, self._any(plan[place]), key=lambda each: sum(map(bool, each)))
        there = [axis for axis, option in enumerate(group) if option]
        if len(there) < 2:
            return {}
        one = self._any(there)
        other = self._any(there)
        if one == other:
            return {}
        parts = [(*group[:axis], 0, *group[axis + 1 :]) for axis in (one, other)]
        come = [part for part in parts if part not in plan[place]]
        return {place: Edit([*(each for each in plan[place] if each != group), *come], [group], come)}

    def _wider(self, axis: int, one: int, other: int) -> int:
        """An option that covers what two options cover: the cells of the finer level, unless the two are equal."""
        if one == other:
            return one
        levels = self._levels[axis]
        return levels.index(max(levels[one], levels[other]))

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
            gone, come = self._any(there), self._any(absent)
            changed[gone] = 0
            kind = self._kinds[gone][group[gone]]
            alike = [at for at, other in enumerate(self._kinds[come]) if other == kind]
            changed[come] = self._any(alike) if alike else draw.randrange(1, max(2, len(options[come])))
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
