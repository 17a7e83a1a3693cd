"""Which strategies are worth working out: what they cost in time, and the least error that they can have. Zone: PUBLIC.

"auto" compares strategies. Some would take minutes and gigabytes only to lose, so each is judged first:
- by time: its work is counted in entries of the structures that it needs, at fixed prices in seconds, never by a clock.
  So a workload and an effort always give the same plan;
- by error: Fourier coefficients and wavelets measure every residual once, each by a group of its own, so their least
  error is a closed form. With c_b the error per unit of the variance of residual b it is (sum of c_b^(1/3))^3 times 2
  for Laplace noise and (sum of sqrt(c_b))^2 for Gaussian noise. c_b is a product over attributes, and so are sums of
  its powers over all b with the same attributes. So it is computed per set of attributes, not per residual.

The error is a lower bound in two ways. Only tables of plain cells are counted, since any shares leave these the same
error with or without other tables. And replaced records, whose price may fall below that of the groups one by one, are
priced like added ones, without the total.

See THEORY section 1.2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from math import prod
from typing import Final

import numpy as np

from privcube.accuracy.matrix_structure import MOST_CELLS
from privcube.accuracy.structure import MOST_BELOW_ALL
from privcube.algebra.lattice import Family, Floats, Part, ResidualIndex
from privcube.errors import Plain, PlanError
from privcube.model.noise.pairs import MOST_CASES
from privcube.model.options import Effort, Strategy
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import Guarantee, PureDP
from privcube.model.workload import Axis, Table, Workload

# Seconds for all strategies beside the search that "auto" works out, at the prices below.
SECONDS: Final[dict[Effort, float]] = {"fast": 1.0, "normal": 5.0, "thorough": 100.0}

# Prices in seconds on a core of 2024.
_COEFFICIENT: Final = 25e-6  # a Fourier coefficient below a table
_LEVELS: Final = 6e-6  # a choice of levels below a table
_BY_PAIRS: Final = 2e-4  # more for either of them, if they are priced by pairs of records,
_CASE: Final = 0.25e-6  # and for a case of what two records have in common
_PADDED: Final = 30e-9  # a pair of padded cells of an attribute, encoded in bits
_PAIR: Final = 6e-9  # a pair of tables, times attributes
_TREE: Final = 5e-4  # a choice of levels below a table, for a tree with and without bundles
_RANGE: Final = 10e-6  # a cell of an attribute asked for by ranges
_MATRIX: Final = 0.9e-3  # a cell, under Laplace noise
_GAUSSIAN_MATRIX: Final = 4e-9  # a cell to the third power, under Gaussian noise,
_MATRIX_OF_TABLE: Final = 8e-6  # and a table, times attributes
_NARROWER: Final = 1 / 6  # at most, of the variance of whole-number Laplace noise: 1 / sinh^2 x > 1 / x^2 - 1 / 3


@dataclass
class Candidates:
    """The plans that "auto" chooses from, the problems of strategies that cannot be used, and those left out."""

    error: Callable[[Plan], float]
    finish: Callable[[Plan], Plan]  # what is done with every plan before it is compared
    found: list[tuple[float, Plan]] = field(default_factory=list)
    problems: list[PlanError] = field(default_factory=list)
    left_out: dict[Strategy, PlanError] = field(default_factory=dict)

    def attempt(self, make: Callable[[], Plan]) -> None:
        """Make a plan, or keep the problem."""
        try:
            made = self.finish(make())
            self.found.append((self.error(made), made))
        except PlanError as problem:
            self.problems.append(problem)

    @property
    def least(self) -> float:
        """The least error so far."""
        return min([error for error, _ in self.found], default=np.inf)

    @property
    def best(self) -> Plan:
        """The plan of least error; the first of several."""
        if not self.found:
            raise self.problems[0]
        return min(self.found, key=lambda each: each[0])[1]


def least_error(strategy: Strategy, workload: Workload, guarantee: Guarantee, drawn: bool = False) -> float:
    """A lower bound on the weighted variance of a strategy with the best budgets; 0 if none is known.

    With `drawn` it is one on the variance of the whole-number noise, which is less than that of continuous noise.

    >>> from privcube import PureDP, Schema, plan
    >>> workload = Workload.all_kway(Schema.from_sizes({"a": 3, "b": 4, "c": 2}), 2)
    >>> made = plan(workload, PureDP(1), "fourier")
    >>> round(made.weighted_variance / least_error("fourier", workload, PureDP(1)), 9)
    1.0
    """
    if strategy not in ("fourier", "wavelet"):
        return 0.0
    leveled = workload.leveled
    plain = [number for number, table in enumerate(workload) if _is_plain(table, leveled)]
    tables = [list(workload)[number] for number in plain]
    if not tables or sum(2 ** len(table) for table in tables) > MOST_BELOW_ALL:
        return 0.0
    names = sorted({str(entry) for table in tables for entry in table})
    of_name = {name: _one_attribute(strategy, workload.schema[name].cells) for name in names}
    place = {name: at for at, name in enumerate(names)}
    family = Family(
        [Part(at, (of_name[name][0], 1.0)) for at, name in enumerate(names)],
        [tuple(sorted(place[str(entry)] for entry in table)) for table in tables],
    )
    index = ResidualIndex([1] * len(names), family)
    weights = np.array(workload.weights)[plain] * np.array(workload.sizes, dtype=np.float64)[plain]
    per_set = index.incidence(family).transposed_times(weights)
    sets = index.level_vectors() > 0
    if guarantee.neighbors == "replace_one":
        per_set = np.where(sets.any(axis=1), per_set, 0.0)
    pure = isinstance(guarantee, PureDP)
    power = 1 / 3 if pure else 1 / 2
    unit = guarantee.max_rows_per_person**2 * float(
        2 / guarantee.epsilon**2 if isinstance(guarantee, PureDP) else guarantee.unit_noise
    )
    parts = [of_name[name][1] for name in names]
    found = float(unit * _sum_of_powers(per_set, sets, parts, power) ** (1 / power))
    if drawn and pure:
        found -= _NARROWER * _sum_of_powers(per_set, sets, parts, 1.0)
    return max(0.0, found)


def left_out(
    workload: Workload, guarantee: Guarantee, name: Strategy, price: float, left: float, least: float, narrow: bool
) -> PlanError | None:
    """Why a strategy is not worked out: it cannot win, or there is no time."""
    if price > left:
        work = Plain(f"about {price:,.0f} seconds of work")
        return PlanError(name, expected="a strategy that can be worked out in the time of this effort", given=work)
    bound = least_error(name, workload, guarantee, narrow)
    if bound >= least:
        error = Plain(f"a weighted variance of at least {bound:,.1f}; the best so far has {least:,.1f}")
        return PlanError(name, expected="a strategy that may be best", given=error)
    return None


class Prices:
    """About how long it takes to work out strategies for one workload."""

    def __init__(self, workload: Workload, guarantee: Guarantee) -> None:
        self._workload, self._guarantee = workload, guarantee
        axes = [[Axis.of(entry) for entry in table] for table in workload]
        self._ranged = {axis.attribute for table in axes for axis in table if axis.is_ranged}
        names = sorted({axis.attribute for table in axes for axis in table})
        place = {name: at for at, name in enumerate(names)}
        self._cells = {name: workload.schema[name].cells for name in names}
        by_length: defaultdict[int, list[list[int]]] = defaultdict(list)
        for table in axes:
            by_length[len(table)].append([place[axis.attribute] for axis in table])
        self._tables = [np.array(tables, dtype=np.int64) for tables in by_length.values()]

    def of(self, strategy: Strategy) -> float:
        """Seconds to work out a strategy."""
        used = self._cells
        if strategy == "fourier":
            bits = {name: 1 << (cells - 1).bit_length() for name, cells in used.items()}
            padded = sum(bits[name] ** 2 for name, cells in used.items() if bits[name] > cells)
            return _COEFFICIENT * self._below(bits) + self._by_pairs(bits) + _PADDED * padded
        if strategy == "wavelet" or (strategy == "hierarchy" and self._ranged):
            levels = {name: 1 + (cells - 1).bit_length() for name, cells in used.items()}
            below = self._below(levels)
            return _LEVELS * below + self.of_tree + (self._by_pairs(levels) if strategy == "wavelet" else 0.0)
        if strategy == "clusters":
            return _PAIR * len(self._workload) ** 2 * len(used)
        if strategy == "matrix":
            cells = prod(used.values())
            if cells > MOST_CELLS:
                return 0.0  # refused at once
            tables = _MATRIX_OF_TABLE * len(self._workload) * len(used)
            return tables + (_MATRIX * cells if isinstance(self._guarantee, PureDP) else _GAUSSIAN_MATRIX * cells**3)
        return _LEVELS * self._below(dict.fromkeys(used, 2))

    def _by_pairs(self, choices: dict[str, int]) -> float:
        """Seconds more for contrasts: what pairs of records cost, if these are few enough to be priced."""
        cases = prod(choices.values())
        if self._guarantee.neighbors == "add_remove" or cases > MOST_CASES:
            return 0.0
        return _BY_PAIRS * self._below(choices) + _CASE * cases

    @property
    def of_tree(self) -> float:
        """Seconds to work out one tree for the attributes asked for by ranges."""
        ranged = self._ranged
        levels = {name: 1 + (cells - 1).bit_length() if name in ranged else 2 for name, cells in self._cells.items()}
        return _RANGE * sum(self._cells[name] for name in ranged) + _TREE * self._below(levels)

    def _below(self, choices: dict[str, int]) -> float:
        """The sum over tables of the product over attributes."""
        numbers = np.array([choices[name] for name in self._cells], dtype=np.float64)
        return float(sum(numbers[tables].prod(axis=1).sum() for tables in self._tables))


def seconds(strategy: Strategy, workload: Workload, guarantee: Guarantee) -> float:
    """About how long working out a strategy takes."""
    return Prices(workload, guarantee).of(strategy)


def _is_plain(table: Table, leveled: Collection[str]) -> bool:
    """Whether all entries of a table are the cells of attributes without levels."""
    return all(isinstance(entry, str) and entry not in leveled for entry in table)


def _sum_of_powers(per_set: Floats, sets: np.ndarray, parts: list[Floats], power: float) -> float:
    """The sum over all residuals of a power of c_b: per set of attributes, a product of sums."""
    sums = np.array([float(np.sum(part**power)) for part in parts])
    known = ~(sets & (sums <= 0)).any(axis=1)
    products = np.exp(sets[known] @ np.log(np.where(sums > 0, sums, 1.0)))
    return float(per_set[known] ** power @ products)


def _one_attribute(strategy: Strategy, cells: int) -> tuple[float, Floats]:
    """What a cell asks of the total of an attribute, and c of its other residuals, or lower bounds on these."""
    levels = (cells - 1).bit_length()
    padded = 1 << levels
    total = 1 / cells**2  # the padded cells are shared out, so published cells have a mean sum of padded / cells
    if strategy == "fourier":
        return total, _on_bits(cells, padded)
    # Below a node without padding, a published cell differs from a plain one only above that node.
    width = padded >> np.arange(levels + 1)  # cells of a node of each level
    full = cells // width[:-1] * width[:-1] / cells
    energy = full * (1 / width[1:] - 1 / width[:-1]) / padded
    return total, np.asarray(energy * 2 ** np.arange(levels, dtype=np.float64))  # over 2 / (nodes of the level)


def _on_bits(cells: int, padded: int) -> Floats:
    """|Pi_b q|^2 for a published cell q of a flat attribute in bits, the mean over its cells, for all b but the total.

    q is a cell plus 1 / cells on all padding. With R_b the sum of (-1)^<b, x> over the cells, that over the padding
    is -R_b, so the mean is (1 - 2 (R_b / cells)^2 + (R_b / cells)^2) / padded, here divided by the leaves once more.
    """
    found = (np.arange(padded) < cells).astype(np.float64)
    half = 1
    while half < padded:
        pairs = found.reshape(-1, 2, half)
        found = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        half *= 2
    return np.asarray(np.maximum(1 - (found[1:] / cells) ** 2, 0.0) / padded**2)
