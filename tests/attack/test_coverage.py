"""Coverage: how often intervals contain the true count, for every kind of noise, strategy and recovery.

The error of a release is its noise, recovered. So noise is drawn many times, as the gate draws it, and recovered by the
matrix of the predictor; no data is needed. Each number of each table is held against its own interval, and each table
against its intervals for all numbers at once. No stated 95 % may be below 94 % beyond what chance explains, over all
numbers of a case together.

`PRIVCUBE_ATTACK=20` draws 20 times as often, the most there is, in all cases rather than some; random plans are up to
100 times as many. As a script it takes a number of draws and prints figures.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import privcube as pc
from privcube.accuracy.predictor import Predictor, predictor
from privcube.model.frame import Frame
from privcube.model.groups import Group, GroupPart, cells_groups, group_rows, row_weights
from privcube.model.noise.bundles import Gram, Law
from privcube.model.options import PlanOptions
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import Guarantee
from privcube.planning.search.closed_form import Choices
from privcube.planning.search.gram import GramForm
from privcube.planning.steps import plan_of, with_bundles
from privcube.sensitive.gate import Integers, SystemNoise, _bundle_noise, _gram_noise, _rounded_noise, _section_noise
from privcube.sensitive.noise import discrete_gaussian, discrete_laplace, rounded_gaussian
from privcube.strategies.proposal import Proposal

SCALE = int(os.environ.get("PRIVCUBE_ATTACK", "1"))
DRAWS = 1_500 * min(SCALE, 20)  # 30,000 tell 94 % from 93.5 %; more of them take memory
CHANCE = 1e-9  # of a false alarm, over all numbers of one case
STATED, AT_LEAST = 0.95, 0.94

CUBE = pc.Schema.from_sizes({"a": 2, "b": 3, "c": 2})
LINE = pc.Schema.from_sizes({"x": 8})
LEVELED = pc.Schema(
    [
        pc.Attribute("a", size=2),
        pc.Attribute("x", size=6, levels=[pc.Level("wide", groups={"u": [0], "v": [1, 2], "w": [3, 4, 5]})]),
    ]
)
PAIRS = pc.Workload.all_kway(CUBE, 2)
CLOSED = pc.Workload.closure(CUBE, [("a", "b"), ("b", "c")])
ONE = pc.Workload.tables(pc.Schema.from_sizes({"x": 4}), [("x",)])
RANGES = pc.Workload.ranges(LINE, ["x"])
PREFIXES = pc.Workload.prefixes(pc.Schema.from_sizes({"x": 7}), ["x"])
LEVELS = pc.Workload.tables(LEVELED, [("a", pc.Axis("x", "wide")), ("x",)])
SHARED = pc.Workload.tables(CUBE, [("a", "b"), ("a", "c")])  # a bundle of these is noised in slices of a
SINGLES = pc.Workload.all_kway(pc.Schema.from_sizes({"a": 3, "b": 3, "c": 3, "d": 3}), 1)
UNEVEN = pc.Workload.all_kway(pc.Schema.from_sizes({"a": 2, "b": 9}), 1)

WORKLOADS = {
    "one": ONE,
    "pairs": PAIRS,
    "closed": CLOSED,
    "ranges": RANGES,
    "prefixes": PREFIXES,
    "levels": LEVELS,
    "shared": SHARED,
    "singles": SINGLES,
    "uneven": UNEVEN,
}
EPSILONS = ("0.01", "0.1", "1", "2.5", "3", "4.5", "8", "20")
ROUNDED = ("0.1", "1", "8", "14", "60")  # epsilons of rounded noise
RHOS = ("0.0001", "0.1", "1", "2.4", "10", "40")


@dataclass(frozen=True)
class Case:
    """A plan to be made."""

    workload: str
    strategy: str
    recovery: str
    guarantee: Guarantee

    @property
    def name(self) -> str:
        return f"{self.workload}, {self.strategy}, {self.recovery}, {self.guarantee}"

    def plan(self) -> Plan:
        if self.strategy in ("section", "Gram"):
            return self._one_law()
        strategy, bundled, _ = self.strategy.partition(" in one bundle")
        made = pc.plan(WORKLOADS[self.workload], self.guarantee, strategy, recovery=self.recovery)  # type: ignore[arg-type]
        return with_bundles(made, [tuple(range(len(made.groups)))]) if bundled else made

    def _one_law(self) -> Plan:
        """All groups in one bundle on a section, or in a Gram bundle; in slices of the attribute of all tables."""
        workload = WORKLOADS[self.workload]
        frame = Frame.natural(workload)
        axes = range(len(workload.schema.attributes))
        shared = set.intersection(*({workload.schema.names.index(str(entry)) for entry in table} for table in workload))
        sliced = tuple(GroupPart(axis, 1) for axis in sorted(shared))
        law: Law = "section"
        groups: list[Group] = [sliced, *cells_groups(frame, workload)]
        if self.strategy == "Gram":
            blocks = [(axis, 1) for axis in axes if axis not in shared]
            form = GramForm.of(Choices(workload, frame), blocks, tuple((part.axis, part.level) for part in sliced))
            assert form is not None
            law, groups = Gram((5, *range(2, 2 + len(blocks)))), list(form.groups())
        proposal = Proposal.of_bundles(frame, [groups], laws=[law])
        return plan_of(workload, self.guarantee, PlanOptions(strategy="search", budgets="iterated"), proposal)


def cases() -> Iterator[Case]:
    pure: list[Guarantee] = [pc.PureDP(epsilon) for epsilon in EPSILONS]
    pure.append(pc.PureDP(3, neighbors="replace_one", max_rows_per_person=2))
    gaussian: list[Guarantee] = [pc.ZCDP(rho) for rho in RHOS]
    gaussian += [pc.ApproxDP(epsilon, "1e-6", calibration="zcdp") for epsilon in (1, 8)]
    gaussian += [pc.ZCDP(10, max_rows_per_person=3)]
    gaussian += [pc.ApproxDP(epsilon, "1e-6", calibration="exact") for epsilon in ROUNDED]
    both = [*pure, *gaussian]
    for guarantee in both:
        for workload, strategy, recovery in (
            ("one", "base_counts", "optimal"),
            ("pairs", "base_counts", "optimal"),
            ("pairs", "marginals", "optimal"),
            ("closed", "marginals", "direct"),
            ("pairs", "clusters", "direct"),
            ("pairs", "fourier", "optimal"),
            ("pairs", "sketch", "optimal"),
            ("ranges", "hierarchy", "direct"),
            ("ranges", "hierarchy", "optimal"),
            ("ranges", "wavelet", "optimal"),
            ("prefixes", "matrix", "optimal"),
            ("levels", "marginals", "optimal"),
        ):
            yield Case(workload, strategy, recovery, guarantee)
    for guarantee in pure:
        for workload in ("pairs", "levels", "ranges"):
            yield Case(workload, "search", "optimal", guarantee)
        for workload, strategy in (("pairs", "fourier"), ("pairs", "marginals"), ("shared", "marginals")):
            yield Case(workload, f"{strategy} in one bundle", "optimal", guarantee)
        for workload, strategy in product(("singles", "pairs", "shared", "uneven"), ("section", "Gram")):
            yield Case(workload, strategy, "optimal", guarantee)
    for guarantee in gaussian:
        for workload in ("pairs", "levels", "prefixes"):
            yield Case(workload, "residual", "optimal", guarantee)


CASES = list(cases())


def any_case(seed: int) -> Case:
    """A case of random sizes, tables, strategy, recovery and budget."""
    pick = np.random.default_rng(seed)
    sizes = pick.integers(2, 7, size=pick.integers(1, 4)).tolist()
    schema = pc.Schema.from_sizes({f"a{at}": size for at, size in enumerate(sizes)})
    pure = bool(pick.integers(2))
    amount = Fraction(str(float(f"{10 ** pick.uniform(-2, 1.3):.2g}")))
    ordered = bool(pick.integers(2))
    if ordered:
        axis = pc.Axis("a0", queries=["ranges", "prefixes"][pick.integers(2)])  # type: ignore[arg-type]
        workload = pc.Workload.tables(schema, [(axis, *schema.names[1:2])])
        strategies = ["base_counts", "hierarchy", "wavelet", "matrix", "search" if pure else "residual"]
    else:
        workload = pc.Workload.all_kway(schema, int(pick.integers(1, len(sizes) + 1)))
        strategies = ["base_counts", "marginals", "clusters", "fourier", "search" if pure else "residual"]
        strategies += ["marginals in one bundle", "fourier in one bundle"] if pure else []
    strategy = strategies[pick.integers(len(strategies))]
    direct = strategy in ("marginals", "clusters", "hierarchy", "base_counts") and bool(pick.integers(2))
    if "bundle" in strategy or strategy == "search":
        amount = max(amount, Fraction(1, 2))  # wide bundles take long to draw
    name = f"{seed}: {len(workload)} tables over {' x '.join(map(str, sizes))}{' in order' if ordered else ''}"
    WORKLOADS[name] = workload
    gaussian = pc.ApproxDP(amount, "1e-6", calibration="exact") if seed % 2 else pc.ZCDP(amount)
    return Case(name, strategy, "direct" if direct else "optimal", pc.PureDP(amount) if pure else gaussian)


class Numbered(SystemNoise):
    """Noise of bundles, drawn for many releases at once; the gate puts the numbers of its columns in their places."""

    def __init__(self, draws: int) -> None:
        self._draws = draws
        self._columns: list[np.ndarray] = []

    def max_norm(self, scale: Fraction, sizes: Sequence[int]) -> list[Integers]:
        drawn = [SystemNoise().max_norm(scale, sizes) for _ in range(self._draws)]
        return [numbers[0] for numbers in self._numbered([np.array(own) for own in zip(*drawn, strict=True)])]

    def rounded_max_norm(self, scales: Sequence[Fraction], sizes: Sequence[int], count: int) -> list[Integers]:
        return self._numbered(super().rounded_max_norm(scales, sizes, count * self._draws))

    def section(self, scale: Fraction, bound: Sequence[int], free: Sequence[int], count: int) -> list[Integers]:
        return self._numbered(super().section(scale, bound, free, count * self._draws))

    def gram(
        self, dimension: int, left: Integers, right: Integers, squares: Sequence[Fraction], which: Integers, count: int
    ) -> Integers:
        return self._numbered([super().gram(dimension, left, right, squares, which, count * self._draws)])[0]

    def _numbered(self, found: list[Integers]) -> list[Integers]:
        """For each array of draws, which has a row for every slice of every release, the numbers of its columns."""
        numbers = []
        for each in found:
            first = self.count
            self._columns.append(each.reshape(self._draws, -1))
            numbers.append(np.arange(first, first + self._columns[-1].shape[1]).reshape(-1, each.shape[1]))
        return numbers

    @property
    def count(self) -> int:
        """How many columns there are."""
        return sum(columns.shape[1] for columns in self._columns)

    def placed(self, numbers: Integers) -> np.ndarray:
        """All draws of the columns with these numbers."""
        return np.concatenate(self._columns, axis=1)[:, numbers]


def drawn(plan: Plan, draws: int) -> np.ndarray:
    """Many independent draws of all the noise of a plan, as the gate draws it."""
    rows = [group_rows(plan.frame, group) for group in plan.groups]
    parts: dict[int, np.ndarray] = {}
    for bundle, law in zip(plan.noised_together, plan.noise_laws, strict=True):
        group = bundle[0]
        if len(bundle) > 1:
            by_name = {"section": _section_noise, "rounded_max_norm": _rounded_noise, "max_norm": _bundle_noise}
            noise = _gram_noise if isinstance(law, Gram) else by_name[law]
            source = Numbered(draws)
            numbers = noise(plan, bundle, source)
            assert sorted(np.concatenate(list(numbers.values()))) == list(range(source.count))  # placed, and no more
            parts.update({group: source.placed(own) for group, own in numbers.items()})
        elif isinstance(plan.guarantee, pc.PureDP):
            parts[group] = discrete_laplace(plan.noise_scale(group), draws * rows[group]).reshape(draws, -1)
        else:
            weights, variance = row_weights(plan.frame, plan.groups[group]), plan.noise_variance(group)
            draw = rounded_gaussian if plan.guarantee.noise == "rounded_gaussian" else discrete_gaussian
            columns = [draw(variance * Fraction(weight), draws) for weight in weights]
            parts[group] = np.stack(columns, axis=1)
    return np.concatenate([parts[group] for group in range(len(rows))], axis=1)


@dataclass(frozen=True)
class Found:
    """How often the intervals of a table contained the truth."""

    numbers: int
    alone: np.ndarray  # per number, in how many draws
    together: int  # in how many draws all at once
    draws: int
    width: float  # mean half-width, in standard errors
    width_all: float


def found(case: Case, draws: int, predict: Callable[[Plan], Predictor] = predictor) -> list[Found]:
    plan = case.plan()
    laws = {law for bundle, law in zip(plan.noised_together, plan.noise_laws, strict=True) if len(bundle) > 1}
    if "max_norm" in laws:
        draws = max(draws // 5, 300)
    noise = drawn(plan, draws)
    known = predict(plan)
    sources = list(dict.fromkeys(known.source(table) for table in plan.workload))
    units = [known.recover(sources, unit) for unit in np.eye(plan.rows)]  # recovery is linear
    results = []
    for table in plan.workload:
        matrix = np.array([known.derived(table, unit[known.source(table)]).ravel() for unit in units])
        errors = np.abs(noise @ matrix)
        stated = known.errors(table)
        alone = stated.half_widths(STATED).ravel()
        together = stated.half_widths(1 - (1 - STATED) / errors.shape[1]).ravel()
        spread = np.sqrt(np.maximum(stated.variances.ravel(), 1e-300))
        results.append(
            Found(
                errors.shape[1],
                np.sum(errors <= alone + 1e-6, axis=0),
                int(np.sum(np.all(errors <= together + 1e-6, axis=1))),
                draws,
                float(np.mean(alone / spread)),
                float(np.mean(together / spread)),
            )
        )
    return results


def surprise(covered: float, draws: int, at_least: float) -> float:
    """The logarithm of a bound on the probability of so few hits if each has at least the given probability."""
    share = covered / draws
    if share >= at_least:
        return 0.0
    rest = (1 - share) * math.log((1 - share) / (1 - at_least))
    return -draws * (rest + (share * math.log(share / at_least) if share else 0.0))


def worst(results: list[Found]) -> tuple[float, str]:
    """The largest surprise of a case, after all its comparisons, and what it is about."""
    tests = sum(each.numbers + 1 for each in results)
    found = []
    for each in results:
        least = int(each.alone.min())
        found.append((surprise(least, each.draws, AT_LEAST), f"{least / each.draws:.3f} of {each.numbers}"))
        found.append((surprise(each.together, each.draws, AT_LEAST), f"{each.together / each.draws:.3f} all at once"))
    least, what = min(found)
    return least + math.log(tests), what


def _short(case: Case) -> bool:
    """Whether a case is in the short form: where continuous quantiles failed; without the search, which takes long."""
    rounded = pc.ApproxDP(14, "1e-6", calibration="exact")
    return case.guarantee in (pc.PureDP("4.5"), pc.ZCDP("2.4"), rounded) and case.strategy != "search"


@pytest.mark.parametrize("seed", range(5 * min(SCALE, 100)))
def test_intervals_of_any_plan_cover(seed: int) -> None:
    case = any_case(seed)
    logarithm, what = worst(found(case, 1_000))
    assert logarithm > math.log(CHANCE), (case.name, what)


@pytest.mark.parametrize("case", [case for case in CASES if SCALE > 1 or _short(case)], ids=lambda case: case.name)
def test_intervals_cover_what_they_say(case: Case) -> None:
    logarithm, what = worst(found(case, DRAWS))
    assert logarithm > math.log(CHANCE), what


if __name__ == "__main__":
    draws, chosen = int(sys.argv[1]), sys.argv[2:]
    for case in [*CASES, *map(any_case, range(200))]:
        if all(word in case.name for word in chosen):
            results = found(case, draws)
            print(  # noqa: T201
                f"{case.name:75}",
                f"{min(each.alone.min() / each.draws for each in results):.3f}",
                f"{np.mean(np.concatenate([each.alone / each.draws for each in results])):.3f}",
                f"{min(each.together / each.draws for each in results):.3f}",
                f"{np.mean([each.width for each in results]):.2f} {np.mean([each.width_all for each in results]):.2f}",
                f"{worst(results)[0]:.1f}",
                flush=True,
            )
