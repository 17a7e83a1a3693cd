"""The search for groups and bundles under a pure guarantee: many plans are annealed at once. Zone: PUBLIC.

The search minimizes the predicted error of a plan, a closed form (`privcube.planning.search.closed_form`) that needs no
data. Several plans are annealed side by side, from different starts. Each step offers every plan one change (a group
altered, dropped, added or moved to another bundle, two groups replaced by their union, a group split in two, two
bundles merged, or an attribute added to or removed from all groups of a bundle) and adapts the budgets in two rounds.
The change is accepted if the error falls, and otherwise with probability exp(-rise / temperature). The temperature
falls by a factor of 100, from a different value for each plan; it is divided by the number of groups, because one group
matters less in a plan with many. Bundles that are left almost no budget are dropped, though later changes may restore
them. From time to time the best plans replace the worst. At the end, bundles of the best plan are exchanged for ones
built to fit (`privcube.planning.search.exchange`). A callback may stop the search at any time, with the best plan so
far.

The duration is measured by the number of groups and array entries processed, at fixed prices in seconds, never by a
clock, and the generator has a fixed seed. So a workload and an effort always give the same plan. The generator makes no
noise; its decisions are public.

See THEORY section 3.2.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from math import exp
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privcube.algebra.lattice import Floats, Integers
from privcube.model.options import Effort
from privcube.planning.search.closed_form import Bundle, Choices, Shape, terms
from privcube.planning.search.exchange import SETTLING, Lawful, exchanged, nearby
from privcube.planning.search.gram import GramColumn
from privcube.planning.search.moves import Change, Moves
from privcube.planning.search.shares import NEVER, drawable_shares
from privcube.planning.search.starts import MOST_ROWS
from privcube.progress import PLANNING, Check, Enough, InTurn, Progress

# The sizes below are empirical: they give good plans within the time of an effort.
_HOT: Final = 0.06  # first temperature: a rise of the log error, times the number of groups
_COLD: Final = 0.0006  # last temperature
_ROUNDS: Final = 2  # of adapting budgets after a change: too few to settle, but cheap
SETTLED: Final = 60  # rounds of adapting budgets for a start, enough to settle them
_SETTLED_FIRST: Final = 0.5  # of a run's time at most, for settling the plans that it starts from
SETTLING_START: Final = 400e-9  # seconds per entry of bundles x residuals
_LEAST_STEPS: Final = 1_000  # of a run: where they take long, fewer plans are annealed side by side
_FREE: Final = 2  # empty places kept for new bundles
_NEW_SHARE: Final = 0.05  # of the budget, for a new bundle before budgets are adapted
_SMALL_SHARE: Final = 4e-3  # of the budget: bundles below it are candidates for dropping
_LITTLE: Final = 1.002  # factor by which the error may grow when small bundles are dropped
_PRUNED_EVERY: Final = 10  # steps between prunings of small bundles
_RESAMPLED: Final = 20  # times in a run that the best plans replace the worst
_TOLD: Final = 100  # times in a run that progress is reported
_EXCHANGES: Final = 0.3  # time for exchanges after a run, as a part of its time
_PROMISING: Final = 1.6  # times the least error of a start: plans of another kind within it may still win
_APART: Final = 0.6  # of a run, in which plans with and without a Gram bundle do not replace each other
_FITTED: Final = 4  # rounds of adapting the weights of a Gram bundle each time
_FEW: Final = 8  # residuals; a search over fewer is shortened in proportion

_EMPTY: Final = Shape(1.0, 1.0, -1, 0.0)

# Prices of a step in seconds on a busy core of 2024: per plan, per group of a changed bundle, per residual of it, and
# per entry of `says`. A core with nothing else to do takes a third of that.
_PLAN: Final = 55e-6
_GROUP: Final = 2e-6
_RESIDUAL: Final = 60e-9
_ENTRY: Final = 4e-9
# Per effort: the time of a run, the plans annealed at once, and the number of runs.
_SECONDS: Final[dict[Effort, float]] = {"fast": 0.58, "normal": 10.5, "thorough": 30.0}
_PLANS: Final[dict[Effort, int]] = {"fast": 8, "normal": 24, "thorough": 24}
_RUNS: Final[dict[Effort, int]] = {"fast": 1, "normal": 1, "thorough": 4}


def seconds_of(effort: Effort) -> float:
    """The time of a run."""
    return _SECONDS[effort]


class Start(NamedTuple):
    """A plan to start from: bundles, and a Gram bundle beside them if there is one."""

    bundles: list[Bundle]
    gram: GramColumn | None = None
    sections: Sequence[bool] = ()  # of every bundle, whether it is noised on its section; by default all that can be


@dataclass(frozen=True)
class Found:
    """The best plan of a search: its bundles and its predicted error at epsilon 1, for one row changed."""

    bundles: tuple[Lawful, ...]
    error: float
    gram: GramColumn | None = None

    @property
    def start(self) -> Start:
        """The plan as one to start from."""
        sections = [each.section for each in self.bundles]
        return Start([list(each.bundle) for each in self.bundles], self.gram, sections)


def error_of(found: Found) -> float:
    """By which plans are compared."""
    return found.error


def annealed(
    choices: Choices, candidates: Sequence[Found], effort: Effort, progress: Progress, part: float = 1.0
) -> Found:
    """The best plan found from these ranked starts, in a part of the time of an effort."""
    best, in_turn = candidates[0], InTurn(progress, [1] * _RUNS[effort])
    seconds = part * _SECONDS[effort] * min(1.0, choices.residuals / _FEW)
    for run in range(_RUNS[effort]):
        most = seconds * _SETTLED_FIRST / SETTLING_START / choices.residuals  # bundles of all plans
        entries = max(1, len(best.bundles)) * choices.residuals  # of a plan
        plans = max(1, min(_PLANS[effort], int(seconds / _LEAST_STEPS / _ENTRY / entries)))
        fitting = [each for each in candidates if plans * len(each.bundles) <= most]
        used = [best.start, *(each.start for each in _both_kinds(fitting, max(4, plans // 2)))]
        population = Population(choices, [used[at % len(used)] for at in range(plans)], _FREE, seed=run)
        try:
            population.anneal(seconds, in_turn)
            other = _exchanged(choices, population, seconds, partial(in_turn, PLANNING, _TOLD, _TOLD))
        except Enough:
            return min(best, population.best, key=error_of)
        best = min(best, population.best, other, key=error_of)
        in_turn.next()
    return best


def _both_kinds(candidates: Sequence[Found], count: int) -> list[Found]:
    """The best candidates, with and without a Gram bundle in equal numbers if both kinds promise something."""
    kinds = [[each for each in candidates if (each.gram is None) == without] for without in (True, False)]
    if not all(kinds) or max(own[0].error for own in kinds) > _PROMISING * candidates[0].error:
        return list(candidates[:count])
    return [each for own in kinds for each in own[: count // 2]]


def _exchanged(choices: Choices, population: Population, seconds: float, check: Check) -> Found:
    """The best plan of a population after exchanging bundles for ones built from the groups of all its plans."""
    best = population.best  # if it has so many bundles that there is no time for an exchange, none is tried
    if SETTLING * len(best.bundles) * choices.residuals > _EXCHANGES * seconds:
        return best
    own = [group for each in best.bundles for group in each.bundle]
    others = [group for plan in population.plans for bundle in plan for group in bundle]
    pool = filter(population.moves.fits, nearby(choices, [*own, *others]))
    fixed = np.zeros((0, choices.residuals)) if best.gram is None else best.gram.says[None]
    error, bundles = exchanged(choices, best.bundles, fixed, pool, _EXCHANGES * seconds, check)
    return Found(tuple(bundles), error, best.gram)


class Population:
    """Plans annealed side by side, as arrays over plans x bundles (x residuals).

    `says` and the shares have one place more than the bundles: the last one is for a Gram bundle.
    """

    def __init__(
        self, choices: Choices, starts: Sequence[Start], free: int, seed: int = 0, rounds: int = SETTLED
    ) -> None:
        self._choices = choices
        self._random = random.Random(seed)
        plans, self.grams = [start.bundles for start in starts], [start.gram for start in starts]
        rows = (choices.facts(c).rows for plan in plans for bundle in plan for c in bundle)
        self.moves = Moves(choices, self._random, max([MOST_ROWS, *rows]))
        places = max(map(len, plans)) + free
        self.plans = [[list(bundle) for bundle in plan] + [[] for _ in range(places - len(plan))] for plan in plans]
        self._sections = np.ones((len(plans), places), dtype=bool)
        for at, start in enumerate(starts):
            self._sections[at, : len(start.sections)] = start.sections
        self._sums = np.zeros((len(plans), places, 3, choices.residuals))
        self._rows = np.zeros((len(plans), places))
        self._shares = np.zeros((len(plans), places + 1))
        self._least = np.zeros((len(plans), places + 1))  # shares at which bundles can be drawn
        self.says = np.zeros((len(plans), places + 1, choices.residuals))
        for at, gram in enumerate(self.grams):
            if gram is not None:
                self._shares[at, -1] = max(1.0, float(sum(map(bool, self.plans[at]))))
                self.says[at, -1] = gram.says
        for at, plan in enumerate(plans):
            own = len(plan)
            if own:
                self._sums[at, :own] = choices.sums_of_all(plan)
                self._rows[at, :own] = [choices.rows(bundle) for bundle in plan]
                self._shares[at, :own] = 1.0
                laws = zip(plan, self._sections[at, :own].tolist(), strict=True)
                shapes = [choices.shapes(bundle)[section] for bundle, section in laws]
                self.says[at, :own] = choices.strengths(self._sums[at, :own], shapes)
                self._least[at, :own] = [self._least_of(bundle, choices.shapes(bundle)[False]) for bundle in plan]
        self._shares /= self._shares.sum(axis=1, keepdims=True)
        self.errors, self._shares, self._precisions = self._adapted(self.says, self._shares, self._least, rounds)
        self.best = self._best()

    def anneal(self, seconds: float, progress: Progress) -> None:
        """Offer changes to every plan while the temperature falls, for the given seconds at the prices above."""
        spent, step, told, copied = 0.0, 0, 0, 0
        progress(PLANNING, 0, _TOLD)
        while spent < seconds:
            spent += self._step(_HOT * (_COLD / _HOT) ** (spent / seconds))
            step += 1
            if self.errors.min() < self.best.error * (1 - 1e-9):
                self.best = self._best()
            if step % _PRUNED_EVERY == 0:
                self._prune()
                self._compact()
            if copied < int(spent / seconds * _RESAMPLED):
                copied += 1
                self._resample(apart=spent < _APART * seconds)
            if told < min(_TOLD, int(spent / seconds * _TOLD)):
                told = min(_TOLD, int(spent / seconds * _TOLD))
                progress(PLANNING, told, _TOLD)

    def _best(self) -> Found:
        at = int(np.argmin(self.errors))
        laws = zip(self.plans[at], self._sections[at].tolist(), strict=True)
        bundles = tuple([Lawful(bundle, section) for bundle, section in laws if bundle])  # no move changes a bundle
        return Found(bundles, float(self.errors[at]), self.grams[at])

    def _step(self, temperature: float) -> float:
        """Offer one change to every plan; return the price of the step."""
        changes = [self.moves.change(plan) for plan in self.plans]
        places = [(at, place) for at, change in enumerate(changes) for place in change]
        price = len(self.plans) * _PLAN
        if not places:
            return price
        at, place = (np.array(numbers) for numbers in zip(*places, strict=True))
        sums, rows, shapes = self._changed(changes, places)
        empty = rows < 0.5
        before = self.says[at, place]
        found, sections = self._by_law(at, sums, shapes)
        self.says[at, place] = found
        shares = self._shares.copy()
        own = shares[at, place]
        shares[at, place] = np.where(empty, 0.0, np.where(own > 0, own, _NEW_SHARE))
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), NEVER)
        least = self._least.copy()
        least[at, place] = [
            self._least_of(changes[plan][spot].bundle, shape)
            for (plan, spot), (shape, _) in zip(places, shapes, strict=True)
        ]
        errors, shares, precisions = self._adapted(self.says, shares, least, _ROUNDS)
        taken = self._taken(changes, errors, temperature)
        self.errors[taken], self._shares[taken], self._precisions[taken] = (
            errors[taken],
            shares[taken],
            precisions[taken],
        )
        for number in np.flatnonzero(taken).tolist():
            for where, edit in changes[number].items():
                self.plans[number][where] = edit.bundle
        kept = taken[at]
        self._sections[at[kept], place[kept]] = sections[kept]
        self._sums[at[kept], place[kept]] = sums[kept]
        self._rows[at[kept], place[kept]] = rows[kept]
        self._least[at[kept], place[kept]] = least[at[kept], place[kept]]
        self.says[at[~kept], place[~kept]] = before[~kept]
        touched = sum(len(self.plans[number][where]) for number, where in places)
        changed = (_RESIDUAL * self._choices.residuals) * len(places)
        return price + _GROUP * touched + changed + _ENTRY * self.says.size

    def _least_of(self, bundle: Bundle, shape: Shape) -> float:
        return self._choices.least_share(len(bundle), shape.dimension)

    def _adapted(self, says: Floats, shares: Floats, least: Floats, rounds: int) -> tuple[Floats, Floats, Floats]:
        return drawable_shares(says, self._choices.importance, shares, least, rounds)

    def _by_law(
        self, plans: Integers, sums: Floats, shapes: list[tuple[Shape, Shape]]
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """W of changed bundles under the law that lowers the error of their plans faster, and whether it is a section.

        The error is sum_b k_b / p_b, so W_b counts k_b / p_b^2.
        """
        whole = [shape for shape, _ in shapes]
        sections = np.array([shape.told != -1 for _, shape in shapes])
        added = terms(sums, [shape.slices for shape in whole])
        if not sections.any():
            return self._choices.of_shapes(added, whole), sections
        which = np.flatnonzero(sections)
        other = self._choices.of_shapes(added[which], [shapes[at][1] for at in which.tolist()])
        found = self._choices.of_shapes(added, whole)
        worth = self._choices.importance / self._precisions[plans[which]] ** 2
        sections[which] = ((other - found[which]) * worth).sum(axis=1) > 0
        found[sections] = other[sections[which]]
        return found, sections

    def _changed(
        self, changes: list[Change], places: list[tuple[int, int]]
    ) -> tuple[Floats, Floats, list[tuple[Shape, Shape]]]:
        """The three sums, the rows and the shapes of the changed bundles, updated by the groups added or removed."""
        choices = self._choices
        plans, spots = (np.array(each) for each in zip(*places, strict=True))
        sums, rows = self._sums[plans, spots], self._rows[plans, spots]
        shapes: list[tuple[Shape, Shape]] = []
        groups: Bundle = []
        signed: list[int] = []  # rows of these groups, those that left with a minus
        ends = [0]
        for at, (plan, spot) in enumerate(places):
            bundle, gone, come = changes[plan][spot]
            if bundle:
                groups += [*gone, *come]
                signed += [-choices.facts(group).rows for group in gone]
                signed += [choices.facts(group).rows for group in come]
                shapes.append(choices.shapes(bundle))
            else:
                sums[at], rows[at] = 0.0, 0.0
                shapes.append((_EMPTY, _EMPTY))
            ends.append(len(groups))
        spoken = choices.speaks(groups)
        n = np.array(signed, dtype=np.float64)
        values = np.stack([n, np.sign(n), 1 / n])
        for at, (first, end) in enumerate(pairwise(ends)):
            if first < end:
                sums[at] += values[:, first:end] @ spoken[first:end]
                rows[at] += sum(signed[first:end])
        return np.maximum(sums, 0.0, out=sums), rows, shapes

    def _taken(self, changes: list[Change], errors: Floats, temperature: float) -> NDArray[np.bool_]:
        """Which changes are accepted: those that lower the error, and others by chance.

        The plans differ in temperature by up to a factor of 8.
        """
        taken = np.zeros(len(changes), dtype=bool)
        rises = np.log(errors / self.errors).tolist()
        for number, (change, rise) in enumerate(zip(changes, rises, strict=True)):
            if change and rise < 0:
                taken[number] = True
            elif change:
                heat = temperature * 8 ** (number / len(changes)) / max(1, sum(map(len, self.plans[number])))
                taken[number] = self._random.random() < exp(-min(rise / heat, 700.0))
        return taken

    def _prune(self) -> None:
        """Drop bundles of little budget from plans whose error hardly grows by it."""
        small = (self._shares[:, :-1] < _SMALL_SHARE) & (self._rows > 0)
        if not small.any():
            return
        gone = np.pad(small, ((0, 0), (0, 1)))
        says = np.where(gone[..., None], 0.0, self.says)
        shares = np.where(gone, 0.0, self._shares)
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), NEVER)
        errors, shares, precisions = self._adapted(says, shares, np.where(gone, 0.0, self._least), _ROUNDS)
        for number in np.flatnonzero(small.any(axis=1) & (errors < self.errors * _LITTLE)).tolist():
            for place in np.flatnonzero(small[number]).tolist():
                self.plans[number][place] = []
            self._sums[number, small[number]] = 0.0
            self._rows[number, small[number]] = 0.0
            self._least[number, gone[number]] = 0.0
            self.says[number], self._shares[number], self.errors[number] = says[number], shares[number], errors[number]
            self._precisions[number] = precisions[number]

    def _compact(self) -> None:
        """Remove places that no plan uses."""
        places = max(sum(map(bool, plan)) for plan in self.plans) + _FREE
        if places >= self._rows.shape[1]:
            return
        order = np.argsort(self._rows <= 0, axis=1, kind="stable")[:, :places]
        row = np.arange(len(self.plans))[:, None]
        self._sums, self._rows, self._sections = (part[row, order] for part in (self._sums, self._rows, self._sections))
        with_gram = np.pad(order, ((0, 0), (0, 1)), constant_values=-1)
        self._shares, self._least, self.says = (part[row, with_gram] for part in (self._shares, self._least, self.says))
        self.plans = [[plan[at] for at in kept] for plan, kept in zip(self.plans, order.tolist(), strict=True)]

    def _resample(self, apart: bool) -> None:
        """Replace the worst quarter of the plans by copies of the best, and fit Gram bundles to the others.

        Plans with a Gram bundle and plans without one compete among themselves first: they improve at different rates.
        """
        order = np.argsort(self.errors, kind="stable").tolist()
        kinds = [[at for at in order if (self.grams[at] is None) == without] for without in (True, False)]
        pairs = [zip(own, own[: -1 - len(own) // 4 : -1], strict=False) for own in (kinds if apart else [order])]
        for best, worst in chain.from_iterable(pairs):
            self.plans[worst] = [list(bundle) for bundle in self.plans[best]]
            self.grams[worst] = self.grams[best]
            for part in (self._sums, self._rows, self._least, self._sections, self._shares, self.says, self.errors):
                part[worst] = part[best]
        for at, gram in enumerate(self.grams):
            if gram is not None:
                others = self._shares[at, :-1] ** 2 @ self.says[at, :-1]
                share = float(self._shares[at, -1])
                self.grams[at] = fitting = gram.beside(self._choices.importance, others, share, _FITTED)
                self.says[at, -1] = fitting.says
        self.errors, self._shares, self._precisions = self._adapted(self.says, self._shares, self._least, _ROUNDS)
