"""What error to expect of a plan, in the words of those who use tables: margins, relative errors, the budget needed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from privcube.cli.tables import table_from
from privcube.errors import DeclarationError, GuaranteeError, PlanError
from privcube.model.amounts import exact, shown
from privcube.model.groups import is_structured
from privcube.model.guarantee import ZCDP, ApproxDP, Guarantee, PureDP, guarantee_from
from privcube.model.plan import Plan
from privcube.model.schema import Schema
from privcube.model.workload import Table, table_name
from privcube.planning.accuracy import drawn_table_variances
from privcube.released.error_bars import ErrorBars, interval_factor
from privcube.released.explicit_bars import ExplicitBars

_LAPLACE: Final = 3.0  # excess kurtosis, as releases assume it where recovery has no closed form
_DIGITS: Final = 4  # of the budget that an accuracy needs
_ACCURACY: Final = re.compile(
    r"(?:±|\+/?-)?\s*(?P<margin>[0-9][0-9_,.]*)\s*"
    r"(?:\bat\s+(?P<confidence>[0-9.]+)\s*%\s*)?"
    r"(?:\bon\s+(?P<table>.*\S)\s*)?"
)


def std_errors(plan: Plan, tables: Sequence[Table]) -> list[float]:
    """The standard error of a cell of each table as a release states it; their root mean square where cells differ."""
    bars = _error_bars(plan, tables)
    if bars is not None:
        return [float(np.sqrt(np.mean(bars.variances(table)))) for table in tables]
    known = dict(zip(plan.workload, drawn_table_variances(plan).tolist(), strict=True))
    for table in tables:
        if table not in known:
            raise PlanError(table_name(table), expected="a table of the workload")
    return [float(known[table]) ** 0.5 for table in tables]


def margins(plan: Plan, tables: Sequence[Table], confidence: float) -> list[float]:
    """How far such a cell may be off, with a confidence."""
    bars = _error_bars(plan, tables)
    return [
        std_error * interval_factor(_LAPLACE if bars is None else bars.cell_kurtosis(table), confidence)
        for table, std_error in zip(tables, std_errors(plan, tables), strict=True)
    ]


def _error_bars(plan: Plan, tables: Sequence[Table]) -> ErrorBars | ExplicitBars | None:
    """Those of optimal recovery; direct recovery has none."""
    if plan.sources is not None:
        return None
    bars = ErrorBars(plan, list(tables)) if is_structured(plan.groups) else ExplicitBars(plan)
    for table in tables:
        if not bars.determined(table):
            raise PlanError(table_name(table), expected="a table that the plan's measurements determine")
    return bars


@dataclass(frozen=True)
class Accuracy:
    """A wanted accuracy: numbers of a table off by a margin at most, with a confidence each."""

    margin: float
    confidence: float
    table: Table | None

    @classmethod
    def from_text(cls, schema: Schema, text: str) -> Accuracy:
        """Read what people write.

        >>> Accuracy.from_text(Schema.from_sizes({"sex": 2, "age": 9}), "+-50 at 95 % on sex x age")
        Accuracy(margin=50.0, confidence=0.95, table=('sex', 'age'))
        """
        found = _ACCURACY.fullmatch(text.strip())
        if found is None:
            raise PlanError("accuracy", expected='a margin, such as "50 at 95% on age x region"', given=text)
        margin = float(exact(found["margin"].replace(",", ""), "margin", DeclarationError))
        confidence = float(exact(found["confidence"] or "95", "confidence", DeclarationError)) / 100
        if margin <= 0 or not 0 < confidence < 1:
            raise PlanError("accuracy", expected="a margin above 0, a confidence above 0 % and below 100 %", given=text)
        return cls(margin, confidence, None if found["table"] is None else table_from(schema, [found["table"]]))


@dataclass(frozen=True)
class Needed:
    """The budget that an accuracy needs, and what the plan's own budget gives; for the table that is worst off."""

    accuracy: Accuracy
    table: Table
    margin_now: float
    guarantee: Guarantee
    margin: float


def budget_for(plan: Plan, accuracy: Accuracy) -> Needed:
    """The least budget, to a few digits, with which the plan's strategy and shares reach an accuracy.

    The margin falls as the budget grows, so halving finds where it is reached; the first guess is off only in so far as
    whole-number noise differs from continuous noise.
    """
    if accuracy.table is None:
        of_all = margins(plan, list(plan.workload), accuracy.confidence)
        table = list(plan.workload)[int(np.argmax(of_all))]
    else:
        table = accuracy.table

    def margin_with(factor: float) -> float:
        scaled = replace(plan, guarantee=_scaled(plan.guarantee, factor))
        return margins(scaled, [table], accuracy.confidence)[0]

    now = margin_with(1.0)
    low = high = now / accuracy.margin
    try:
        while margin_with(low) <= accuracy.margin:
            low /= 2
        while margin_with(high) > accuracy.margin:
            high *= 2
        while high / low > 1 + 10.0 ** -(_DIGITS + 1):
            middle = (low * high) ** 0.5
            low, high = (middle, high) if margin_with(middle) > accuracy.margin else (low, middle)
        guarantee = _scaled(plan.guarantee, high)
    except GuaranteeError:
        raise PlanError("accuracy", expected="one that some budget reaches", given=f"± {accuracy.margin:g}") from None
    return Needed(
        accuracy, table, now, guarantee, margins(replace(plan, guarantee=guarantee), [table], accuracy.confidence)[0]
    )


def _scaled(guarantee: Guarantee, factor: float) -> Guarantee:
    """The guarantee under which margins are smaller by about a factor; delta is kept, the rest rounded up."""
    power = 2 if isinstance(guarantee, ZCDP) else 1
    name = "rho" if isinstance(guarantee, ZCDP) else "epsilon"
    amount = guarantee.amounts[name] * Fraction(factor) ** power
    return guarantee_from(
        {**guarantee.amounts, name: amount if factor == 1 else shown(amount, _DIGITS)},
        neighbors=guarantee.neighbors,
        max_rows_per_person=guarantee.max_rows_per_person,
        calibration=getattr(guarantee, "calibration", "zcdp"),
    )


def law(guarantee: Guarantee) -> str:
    """How margins and budget hang together, in words."""
    if isinstance(guarantee, PureDP):
        return "Margins are inversely proportional to epsilon: half the margin takes twice the epsilon."
    if isinstance(guarantee, ApproxDP):
        return (
            "Margins are inversely proportional to the square root of rho, the zCDP behind epsilon and delta: "
            "half the margin takes four times the rho, and about twice the epsilon if that is small."
        )
    return "Margins are inversely proportional to the square root of rho: half the margin takes four times the rho."
