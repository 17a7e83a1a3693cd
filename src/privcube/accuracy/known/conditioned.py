"""Estimates conditioned on numbers that are known exactly, and their smaller errors. Zone: PUBLIC.

Let x be the estimates, unbiased with covariance V, and A x = b what is known of the true counts. Then
    x - V A' (A V A')^+ (A x - b)
is unbiased as well, meets A x = b, and of all linear estimates that do it has the least variance, V less
V A' (A V A')^+ A V. Numbers that tables share are corrected alike, so tables go on to agree. With the coordinates of
`privcube.accuracy.known.coordinates` as rows, V A' is a product of two matrices of few rows: neither V nor a matrix of
all cells is formed. The variances of a table follow from an orthonormal basis of the known rows, restricted to the
coordinates that the table has, and compressed to at most as many vectors.

Intervals. Under Gaussian noise the error is normal with the smaller variance. Under other noise its shape is not worked
out: the interval is that of a single Laplace draw with the smaller variance, or the one without facts if that is
narrower. Coverage is measured in the tests.

See THEORY section 5.4.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from privcube.accuracy.closed_form import ClosedForm
from privcube.accuracy.explicit import ExplicitForm
from privcube.accuracy.intervals import ErrorLaw, TableErrors, interval_factor
from privcube.accuracy.known.coordinates import AnswerCoordinates, Blocks, Coordinates, ResidualCoordinates
from privcube.accuracy.moments import exact_noise_variances
from privcube.accuracy.predictor import Predictor
from privcube.algebra.lattice import Floats, Integers
from privcube.errors import Plain, QueryError
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import PureDP
from privcube.model.workload import Table, axis_cells
from privcube.progress import Progress, silent

_MOST_KNOWN: Final = 3000  # numbers: their covariance is a square matrix
_MOST_NUMBERS: Final = 20_000_000  # known numbers times coordinates: 160 MB
_NOTHING: Final = 1e-9  # of the largest: variances below this are rounding errors
_CONTRADICTION: Final = 1e-6  # relative
_LAPLACE: Final = 3.0  # excess kurtosis
_AT_ONCE: Final = 2**22  # numbers


class KnownNumbers(NamedTuple):
    """Numbers of a source table whose true values are known."""

    source: Table
    places: Integers  # of the numbers in the flat table
    values: Floats


def conditioned(plan: Plan, base: Predictor, known: Sequence[KnownNumbers]) -> Predictor | None:
    """A predictor that honors known numbers; None if they are too many or the plan's errors have no simple form."""
    coordinates: Coordinates
    if isinstance(base, ClosedForm):
        coordinates = ResidualCoordinates(plan.frame, base)
    elif isinstance(base, ExplicitForm):
        coordinates = AnswerCoordinates(base)
    else:
        return None
    numbers = sum(len(own.places) for own in known)
    sizes: dict[Hashable, int] = {}
    for own in known:
        sizes |= coordinates.sizes(own.source)
        cells = sum(coordinates.sizes(own.source).values())
        if len(own.places) * cells > _MOST_NUMBERS:
            return None
    if numbers > _MOST_KNOWN or numbers * sum(sizes.values()) > _MOST_NUMBERS:
        return None
    return Conditioned(plan, base, coordinates, known, sizes)


@dataclass(frozen=True)
class KnownLaw(ErrorLaw):
    """The law of a number given what is known; `before` is the one without that."""

    before: ErrorLaw | None = None

    def half_width(self, confidence: float) -> float:
        """The narrower of two intervals."""
        own = float(_wide(self.variance, self.kurtosis, self.step, confidence))
        return own if self.before is None else min(own, self.before.half_width(confidence))


@dataclass(frozen=True, eq=False)
class KnownErrors(TableErrors):
    """The errors of a table given what is known; `before` are those without that."""

    before: TableErrors | None = None
    kurtosis: float = 0.0
    steps: Floats = field(default_factory=lambda: np.zeros(()))

    def half_widths(self, confidence: float) -> Floats:
        """For every number, the narrower of two intervals."""
        own = _wide(self.variances, self.kurtosis, self.steps, confidence)
        return np.asarray(own if self.before is None else np.minimum(own, self.before.half_widths(confidence)))


def _wide(variance: Floats | float, kurtosis: float, step: Floats | float, confidence: float) -> Floats:
    return np.asarray(interval_factor(kurtosis, confidence) * np.sqrt(variance) + 0.5 * step)


class Conditioned:
    """The predictor (`privcube.accuracy.predictor`) of a plan and of known numbers."""

    def __init__(
        self,
        plan: Plan,
        base: Predictor,
        coordinates: Coordinates,
        known: Sequence[KnownNumbers],
        sizes: dict[Hashable, int],
    ) -> None:
        self._plan, self._base, self._coordinates, self._known = plan, base, coordinates, known
        ends = np.cumsum([0, *sizes.values()]).tolist()
        self._spans = {key: slice(*ends[at : at + 2]) for at, key in enumerate(sizes)}
        rows = np.zeros((sum(len(own.places) for own in known), ends[-1]))
        self._values, start = np.concatenate([np.zeros(0), *[own.values for own in known]]), 0
        for own in known:
            shape = _shape(plan, own.source)
            weights = np.zeros((len(own.places), int(np.prod(shape))))
            weights[np.arange(len(weights)), own.places] = 1.0
            for key, block in coordinates.of(own.source, weights.reshape(len(weights), *shape)).items():
                rows[start : start + len(weights), self._spans[key]] = block
            start += len(weights)
        spread, turned = np.linalg.eigh(rows @ rows.T)
        kept = spread > _NOTHING * spread.max(initial=0.0)
        self._turned, self._fixed = turned[:, kept] / np.sqrt(spread[kept]), turned[:, ~kept]
        self._basis = self._turned.T @ rows  # orthonormal rows
        self._corrections: dict[bytes, Floats] = {}
        self._reductions: dict[Table, Floats] = {}

    def determines(self, table: Table) -> bool:
        """Whether the measurements determine a table."""
        return self._base.determines(table)

    def mean_variances(self) -> Floats:
        """For every table of the workload, the mean variance of its numbers."""
        return np.array([float(np.mean(self.variances(table))) for table in self._plan.workload])

    def variances(self, table: Table) -> Floats:
        """The variance of every number of a table."""
        return self._less(self._base.variances(table), self._saved(table))

    def margin_errors(self, table: Table, margin: Table) -> tuple[Floats, Floats]:
        """The variances of a margin, and the covariance of every number of the table with it."""
        _, covariances = self._base.margin_errors(table, margin)
        vectors = self._vectors(self._base.source(table))
        for own, sums in zip(self._on(table, vectors), self._on(margin, vectors), strict=True) if vectors else ():
            shape = [size if entry in margin else 1 for entry, size in zip(table, own.shape, strict=True)]
            covariances = covariances - own * sums.reshape(shape)
        return self.variances(margin), covariances

    def errors(self, table: Table) -> TableErrors:
        """The errors of the numbers of a table."""
        before = self._base.errors(table)
        variances = self._less(before.variances, self._saved(table))
        steps = np.sqrt(variances) / self._least
        kurtosis = self._kurtosis(max([law.kurtosis for law in before.laws], default=0.0))
        return KnownErrors(variances, (), before=before, kurtosis=kurtosis, steps=steps)

    def query_law(self, table: Table, weights: Floats) -> ErrorLaw:
        """The law of the error of a sum of weights times the numbers of a table."""
        before = self._base.query_law(table, weights)
        vectors = self._vectors(self._base.source(table))
        saved = sum(float(np.sum(weights * own)) ** 2 for own in self._on(table, vectors)) if vectors else 0.0
        variance = float(self._less(np.array(before.variance), np.array(saved)))
        kurtosis = self._kurtosis(before.kurtosis)
        return KnownLaw(variance, kurtosis, variance**0.5 / self._least, before=before)

    def source(self, table: Table) -> Table:
        """The table to recover in place of this one."""
        return self._base.source(table)

    def derived(self, table: Table, source: Floats) -> Floats:
        """A table from the numbers of its source."""
        return self._base.derived(table, source)

    def recover(self, sources: Sequence[Table], answers: Floats, progress: Progress = silent) -> dict[Table, Floats]:
        """Source tables from the noisy answers, corrected; what is known is met to the last digit."""
        digest = hashlib.sha256(answers.tobytes()).digest()
        is_new = digest not in self._corrections
        missing = [own.source for own in self._known] if is_new else []
        found = self._base.recover(list(dict.fromkeys([*sources, *missing])), answers, progress)
        if is_new:
            self._corrections = {digest: self._correction(found)}
        correction = self._corrections[digest]
        corrected = {}
        for source in sources:
            blocks = self._within(source, correction[None])
            counts = np.array(found[source], order="C")
            if blocks:
                counts -= self._coordinates.tables(source, blocks)[0]
            for own in self._known:
                if own.source == source:
                    counts.reshape(-1)[own.places] = own.values
            corrected[source] = counts
        return corrected

    # What is known

    def _correction(self, found: dict[Table, Floats]) -> Floats:
        """A' (A V A')^+ (A x - b), in coordinates."""
        estimates = np.concatenate([np.zeros(0), *[found[own.source].ravel()[own.places] for own in self._known]])
        off = estimates - self._values
        scale = float(np.abs(off).max(initial=0.0)) + float(np.abs(self._values).max(initial=0.0)) + 1.0
        if float(np.abs(self._fixed.T @ off).max(initial=0.0)) > _CONTRADICTION * scale:
            expected = "facts that can all be true of the same records"
            raise QueryError("known", expected=expected, given=Plain("some that contradict each other or the plan"))
        return np.asarray((self._turned.T @ off) @ self._basis)

    def _within(self, source: Table, vectors: Floats) -> Blocks:
        """The part of vectors that a table sees."""
        return {key: vectors[:, self._spans[key]] for key in self._coordinates.sizes(source) if key in self._spans}

    def _vectors(self, source: Table) -> Blocks:
        """The basis as far as a table sees it, in as few vectors as possible with the same sums of products."""
        seen = self._within(source, self._basis)
        if not seen or not len(self._basis):
            return {}
        matrix = np.concatenate(list(seen.values()), axis=1)
        if matrix.shape[0] > matrix.shape[1]:
            spread, turned = np.linalg.eigh(matrix.T @ matrix)
            kept = spread > _NOTHING * spread.max(initial=0.0)
            matrix = (turned[:, kept] * np.sqrt(spread[kept])).T
        ends = np.cumsum([0, *[block.shape[1] for block in seen.values()]]).tolist()
        return {key: matrix[:, ends[at] : ends[at + 1]] for at, key in enumerate(seen)}

    def _saved(self, table: Table) -> Floats:
        """By how much the variance of every number falls."""
        if table not in self._reductions:
            vectors, saved = self._vectors(self._base.source(table)), np.zeros(())
            for own in self._on(table, vectors) if vectors else []:
                saved = saved + own**2
            self._reductions[table] = saved
        return self._reductions[table]

    def _on(self, table: Table, vectors: Blocks) -> list[Floats]:
        """The covariances of the numbers of a table with each vector."""
        source, count = self._base.source(table), len(next(iter(vectors.values())))
        step = max(1, _AT_ONCE // max(int(np.prod(_shape(self._plan, source))), 1))
        found = []
        for start in range(0, count, step):
            some = {key: block[start : start + step] for key, block in vectors.items()}
            found += [self._base.derived(table, own) for own in self._coordinates.tables(source, some)]
        return found

    @staticmethod
    def _less(variances: Floats, saved: Floats) -> Floats:
        left = variances - saved
        return np.where(left > _NOTHING * variances, left, 0.0)

    @cached_property
    def _least(self) -> float:
        """The least standard deviation of a draw: no draw moves a number by more than its standard error over this."""
        drawn = exact_noise_variances(self._plan)
        return float(np.sqrt(drawn[drawn > 0].min(initial=np.inf)))

    def _kurtosis(self, before: float) -> float:
        return max(_LAPLACE, before) if isinstance(self._plan.guarantee, PureDP) else 0.0


def _shape(plan: Plan, source: Table) -> tuple[int, ...]:
    return tuple([axis_cells(plan.workload.schema, entry) for entry in source])
