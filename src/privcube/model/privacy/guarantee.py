"""What is protected, how much, and against which change of the data. Zone: PUBLIC.

Three guarantees, each an exact amount: `PureDP(epsilon)`, `ApproxDP(epsilon, delta)`, `ZCDP(rho)`. Each also says
- `neighbors`: which two data sets must be hard to tell apart. "add_remove": one has one person more than the other.
  "replace_one": one person's records are replaced by others, and the number of people is public. The paper mixes the
  two (Proposition 3.1 has the factor 2 of the second, the worked example uses the first); here it is a choice.
- `max_rows_per_person`: how many rows one person may have; it multiplies every sensitivity.
- `row`: what a row is. A row of a query need not be a row of the data: if the query joins or multiplies rows, one row
  of the data may be in many, and only a single one of these is protected. So it is a unit of its own.

See THEORY section 1.1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Final, Literal, Self, get_args

from privcube.errors import GuaranteeError, Plain
from privcube.model.amounts import Amount, exact, shown
from privcube.model.privacy import gaussian_profile, zcdp

Neighbors = Literal["add_remove", "replace_one"]
Row = Literal["row", "row of the query"]
Calibration = Literal["exact", "zcdp", "classic"]
Currency = Literal["epsilon", "rho", "mu^2"]
NoiseKind = Literal["laplace", "discrete_gaussian", "rounded_gaussian"]

SMALLEST: Final = Fraction(1, 10**12)  # epsilon or rho: anything smaller is a mistake
_LARGEST: Final = Fraction(10**9)  # epsilon or rho: anything larger is a mistake
_MOST_ROWS: Final = 10**9  # of a person: a larger bound is a mistake


@dataclass(frozen=True, slots=True)
class _Protected:
    """What all guarantees have in common: the change of the data that is hidden."""

    neighbors: Neighbors
    max_rows_per_person: int
    row: Row
    kind: ClassVar[str]
    dial: ClassVar[Currency]  # the amount to adjust for more or less accuracy

    def __post_init__(self) -> None:
        if self.neighbors not in get_args(Neighbors):
            known = get_args(Neighbors)
            raise GuaranteeError("neighbors", expected="a known name", given=self.neighbors, available=known)
        rows = self.max_rows_per_person
        if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= _MOST_ROWS:
            raise GuaranteeError("max_rows_per_person", expected=f"a whole number from 1 to {_MOST_ROWS:,}", given=rows)
        if self.row not in get_args(Row):
            raise GuaranteeError("row", expected="a known unit", given=self.row, available=get_args(Row))
        if self.row != "row" and rows > 1:
            raise GuaranteeError("row", expected="a person with several rows, or a row of a query", given=Plain("both"))

    @property
    def rows_changed(self) -> int:
        """How many rows of the data a neighboring change adds plus removes (L1 on base counts).

        >>> PureDP(1).rows_changed, PureDP(1, neighbors="replace_one", max_rows_per_person=3).rows_changed
        (1, 6)
        """
        return self.max_rows_per_person * (2 if self.neighbors == "replace_one" else 1)

    def with_amount(self, amount: Amount) -> Self:
        """A copy of this guarantee with a different epsilon, or rho; delta is kept.

        >>> print(ApproxDP(1, "1e-6").with_amount("0.5"))
        epsilon = 0.5, delta = 0.000001, adding or removing one row
        """
        return replace(self, **{self.dial: amount})  # type: ignore[arg-type]

    @property
    def amount(self) -> Fraction:
        """Epsilon, or rho: the amount that `with_amount` replaces."""
        amount: Fraction = getattr(self, self.dial)
        return amount

    @property
    def unit(self) -> str:
        """The protected unit and change, in words."""
        rows = self.max_rows_per_person
        person = f"one {self.row}" if rows == 1 else f"one person with at most {rows:,} rows"
        return f"{'replacing' if self.neighbors == 'replace_one' else 'adding or removing'} {person}"


@dataclass(frozen=True, slots=True, init=False)
class PureDP(_Protected):
    """epsilon-differential privacy.

    >>> PureDP(epsilon="0.1").epsilon
    Fraction(1, 10)
    >>> print(PureDP(epsilon=1, neighbors="replace_one"))
    epsilon = 1 (pure), replacing one row
    >>> print(PureDP(epsilon=1, row="row of the query"))
    epsilon = 1 (pure), adding or removing one row of the query
    """

    epsilon: Fraction
    kind: ClassVar[str] = "pure"
    currency: ClassVar[Currency] = "epsilon"
    dial: ClassVar[Currency] = "epsilon"
    calibration: ClassVar[Calibration] = "zcdp"
    noise: ClassVar[NoiseKind] = "laplace"

    def __init__(
        self,
        epsilon: Amount,
        *,
        neighbors: Neighbors = "add_remove",
        max_rows_per_person: int = 1,
        row: Row = "row",
    ) -> None:
        _set(self, neighbors, max_rows_per_person, row, epsilon=_budget("epsilon", epsilon))

    @property
    def amounts(self) -> dict[str, Fraction]:
        """The exact amounts by name."""
        return {"epsilon": self.epsilon}

    @property
    def capacity(self) -> Fraction:
        """How much it holds in its currency."""
        return self.epsilon

    @property
    def unit_noise(self) -> Fraction:
        """The scale of Laplace noise on a count that moves by 1."""
        return 1 / self.epsilon

    def __str__(self) -> str:
        return f"epsilon = {shown(self.epsilon)} (pure), {self.unit}"


@dataclass(frozen=True, slots=True, init=False)
class ApproxDP(_Protected):
    """(epsilon, delta)-differential privacy, with noise by one of three calibrations.

    "exact": rounded Gaussian noise, at the exact price of continuous Gaussian noise (`gaussian_profile`).
    "zcdp": discrete Gaussian noise, accounted through zCDP: `rho` is the largest that implies it.
    "classic": the paper's Gaussian constant, only to reproduce its figures.

    >>> print(ApproxDP(epsilon=1, delta="1e-6"))
    epsilon = 1, delta = 0.000001, adding or removing one row
    >>> [float(ApproxDP(1, "1e-6", calibration=c).unit_noise) for c in ("exact", "zcdp", "classic")]
    [17.847..., 20.528..., 29.017...]
    """

    epsilon: Fraction
    delta: Fraction
    calibration: Calibration
    kind: ClassVar[str] = "approx"
    dial: ClassVar[Currency] = "epsilon"

    def __init__(
        self,
        epsilon: Amount,
        delta: Amount,
        *,
        neighbors: Neighbors = "add_remove",
        max_rows_per_person: int = 1,
        calibration: Calibration = "exact",
        row: Row = "row",
    ) -> None:
        probability = exact(delta, "delta", GuaranteeError)
        if not 0 < probability < 1:
            raise GuaranteeError("delta", expected="a number above 0 and below 1", given=delta)
        if calibration not in get_args(Calibration):
            known = get_args(Calibration)
            raise GuaranteeError("calibration", expected="a known name", given=calibration, available=known)
        object.__setattr__(self, "delta", probability)
        object.__setattr__(self, "calibration", calibration)
        _set(self, neighbors, max_rows_per_person, row, epsilon=_budget("epsilon", epsilon))

    @property
    def amounts(self) -> dict[str, Fraction]:
        """The exact amounts by name."""
        return {"epsilon": self.epsilon, "delta": self.delta}

    @property
    def rho(self) -> Fraction:
        """The largest rho, rounded down, whose zCDP implies this guarantee."""
        return zcdp.rho_of(self.epsilon, self.delta)

    @property
    def mu_squared(self) -> Fraction:
        """The largest mu^2, rounded down, of continuous Gaussian noise that satisfies this guarantee."""
        return gaussian_profile.mu_squared_of(self.epsilon, self.delta)

    @property
    def noise(self) -> NoiseKind:
        """The noise of a plan under this guarantee."""
        return "rounded_gaussian" if self.calibration == "exact" else "discrete_gaussian"

    @property
    def currency(self) -> Currency:
        """In which the costs of the groups of a plan add up."""
        return "mu^2" if self.calibration == "exact" else "rho"

    @property
    def capacity(self) -> Fraction:
        """How much it holds in its currency."""
        return self.mu_squared if self.calibration == "exact" else self.rho

    @property
    def unit_noise(self) -> Fraction:
        """The variance of Gaussian noise on a count that moves by 1; of rounded noise, before it is rounded."""
        if self.calibration == "classic":
            return zcdp.classic_gaussian_variance(self.epsilon, self.delta)
        return 1 / self.mu_squared if self.calibration == "exact" else 1 / (2 * self.rho)

    def __str__(self) -> str:
        return f"epsilon = {shown(self.epsilon)}, delta = {shown(self.delta)}, {self.unit}"


@dataclass(frozen=True, slots=True, init=False)
class ZCDP(_Protected):
    """rho-zero-concentrated differential privacy.

    >>> guarantee = ZCDP(rho="0.5")
    >>> float(guarantee.unit_noise), round(float(guarantee.epsilon(delta="1e-6")), 4)
    (1.0, 5.2215)
    """

    rho: Fraction
    kind: ClassVar[str] = "zcdp"
    currency: ClassVar[Currency] = "rho"
    dial: ClassVar[Currency] = "rho"
    calibration: ClassVar[Calibration] = "zcdp"
    noise: ClassVar[NoiseKind] = "discrete_gaussian"

    def __init__(
        self, rho: Amount, *, neighbors: Neighbors = "add_remove", max_rows_per_person: int = 1, row: Row = "row"
    ) -> None:
        _set(self, neighbors, max_rows_per_person, row, rho=_budget("rho", rho))

    @property
    def amounts(self) -> dict[str, Fraction]:
        """The exact amounts by name."""
        return {"rho": self.rho}

    @property
    def capacity(self) -> Fraction:
        """How much it holds in its currency."""
        return self.rho

    @property
    def unit_noise(self) -> Fraction:
        """The variance of Gaussian noise on a count that moves by 1."""
        return 1 / (2 * self.rho)

    def epsilon(self, delta: Amount) -> Fraction:
        """The least epsilon, rounded up, for which (epsilon, delta)-DP follows."""
        return zcdp.epsilon_of(self.rho, ApproxDP(1, delta).delta)

    def __str__(self) -> str:
        return f"rho = {shown(self.rho)} (zCDP), {self.unit}"


Guarantee = PureDP | ApproxDP | ZCDP


def pure_instead(guarantee: Guarantee) -> PureDP | None:
    """The pure guarantee that a plan for this one may have instead: the same epsilon implies any delta.

    >>> print(pure_instead(ApproxDP(1, "1e-6")))
    epsilon = 1 (pure), adding or removing one row
    """
    if not isinstance(guarantee, ApproxDP) or guarantee.calibration != "exact":
        return None
    return PureDP(
        guarantee.epsilon,
        neighbors=guarantee.neighbors,
        max_rows_per_person=guarantee.max_rows_per_person,
        row=guarantee.row,
    )


def guarantee_from(
    amounts: dict[str, Amount],
    *,
    neighbors: Neighbors = "add_remove",
    max_rows_per_person: int = 1,
    calibration: Calibration = "zcdp",
    row: Row = "row",
) -> Guarantee:
    """The guarantee that a set of named amounts describes: epsilon, or epsilon and delta, or rho.

    Documents that say nothing of a calibration are from a time when all Gaussian noise was accounted through zCDP.

    >>> guarantee_from({"rho": "0.1"})
    ZCDP(neighbors='add_remove', max_rows_per_person=1, row='row', rho=Fraction(1, 10))
    """
    names = set(amounts)
    if calibration != "zcdp" and names != {"epsilon", "delta"}:
        raise GuaranteeError("calibration", expected="none unless epsilon and delta are given", given=calibration)
    if names == {"epsilon"}:
        return PureDP(amounts["epsilon"], neighbors=neighbors, max_rows_per_person=max_rows_per_person, row=row)
    if names == {"epsilon", "delta"}:
        return ApproxDP(
            amounts["epsilon"],
            amounts["delta"],
            neighbors=neighbors,
            max_rows_per_person=max_rows_per_person,
            calibration=calibration,
            row=row,
        )
    if names == {"rho"}:
        return ZCDP(amounts["rho"], neighbors=neighbors, max_rows_per_person=max_rows_per_person, row=row)
    raise GuaranteeError(
        "privacy budget",
        expected="epsilon alone, epsilon and delta, or rho alone",
        given=Plain(" and ".join(sorted(names)) or "none of them"),
    )


def _budget(name: str, amount: Amount) -> Fraction:
    value = exact(amount, name, GuaranteeError)
    if not SMALLEST <= value <= _LARGEST:
        raise GuaranteeError(name, expected="an amount from 1e-12 to 1e9", given=amount)
    return value


def _set(guarantee: PureDP | ApproxDP | ZCDP, neighbors: Neighbors, rows: int, row: Row, **amounts: Fraction) -> None:
    for name, value in {**amounts, "neighbors": neighbors, "max_rows_per_person": rows, "row": row}.items():
        object.__setattr__(guarantee, name, value)
    guarantee.__post_init__()
