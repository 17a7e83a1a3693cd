"""Which plans are worth starting from: proposed plans by their errors, with budgets adapted. Zone: PUBLIC."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Final

from privcube.planning.search.annealing import SETTLED, SETTLING_START, Found, Population, Start, error_of
from privcube.planning.search.closed_form import Choices
from privcube.planning.search.gram import GramColumn
from privcube.progress import Check, never

_ROUGH: Final = 6  # rounds of adapting budgets for a first look at a start
_SETTLED_STARTS: Final = 16  # of which budgets are settled, at most
_LOOK: Final = 80e-9  # seconds of a first look, per entry of bundles x residuals
_LOOK_AT_GROUP: Final = 15e-9  # and of groups x residuals


def ranked(
    known: KnownStarts, candidates: Iterable[Sequence[Start]], seconds: float = inf, check: Check = never
) -> list[Found]:
    """The candidates with their errors, best first; of several laws for one, the best.

    They are looked at with budgets that are far from settled, those of the best are then settled, each as far as half
    of the time allows; the first is always looked at.
    """
    found: list[Found] = []
    residuals = known.choices.residuals
    left = seconds / 2
    for laws in candidates:
        price = sum(_LOOK * len(start.bundles) + _LOOK_AT_GROUP * sum(map(len, start.bundles)) for start in laws)
        price *= residuals
        if not found or price <= left:
            check()
            left -= price
            looks = [known.best(start, _ROUGH) for start in laws]
            found.append(min(looks, key=error_of))
    found.sort(key=error_of)
    left = seconds / 2
    for at, rough in enumerate(found[:_SETTLED_STARTS]):
        check()
        left -= SETTLING_START * len(rough.bundles) * residuals
        if at and left < 0:
            break
        found[at] = known.best(rough.start, SETTLED)
    return sorted(found, key=error_of)


class KnownStarts:
    """Starts with budgets adapted, each worked out once: plans are proposed in several ways, and at every effort."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self._found: dict[tuple[object, ...], Found] = {}
        self._grams: list[GramColumn | None] = []  # kept, so that no other gets the identity of one

    def best(self, start: Start, rounds: int) -> Found:
        """A start after these rounds of adapting its budgets."""
        key = tuple(map(tuple, start.bundles)), id(start.gram), tuple(start.sections), rounds
        if key not in self._found:
            self._grams.append(start.gram)
            self._found[key] = Population(self.choices, [start], 0, rounds=rounds).best
        return self._found[key]
