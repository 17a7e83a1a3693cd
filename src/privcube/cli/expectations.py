"""A plan's expected error in terms that users of tables care about: margins, and the budget that they need."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from privcube.errors import DeclarationError, PlanError, PrivcubeError
from privcube.model.amounts import exact
from privcube.model.options import PlanOptions
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import ApproxDP, Guarantee, PureDP
from privcube.model.schema import Schema, parts_of
from privcube.model.workload import Table, Workload, canonical
from privcube.planning.targets import Target, least_budget, margins, planned_for
from privcube.progress import Progress

_DIGITS: Final = 4  # significant digits of the budget that an accuracy needs
_ACCURACY: Final = re.compile(
    r"(?:±|\+/?-)?\s*(?P<margin>[0-9][0-9_,.]*)\s*"
    r"(?:%\s*of\s+(?P<count>[0-9][0-9_,.]*)\s*)?"
    r"(?:\bat\s+(?P<confidence>[0-9.]+)\s*%\s*)?"
    r"(?:\bon\s+(?P<table>.*\S)\s*)?"
)


@dataclass(frozen=True)
class Accuracy:
    """A requested accuracy: each number of a table within a margin of the truth, with some confidence."""

    margin: float
    confidence: float
    table: Table | None

    @classmethod
    def from_text(cls, schema: Schema, text: str) -> Accuracy:
        """Parse an accuracy as people write it.

        >>> Accuracy.from_text(Schema.from_sizes({"sex": 2, "age": 9}), "+-50 at 95 % on sex x age")
        Accuracy(margin=50.0, confidence=0.95, table=('sex', 'age'))
        >>> Accuracy.from_text(Schema.from_sizes({"sex": 2}), "5% of 1,000").margin
        50.0
        """
        found = _ACCURACY.fullmatch(text.strip())
        if found is None:
            expected = 'a margin, such as "50 at 95% on age x region" or "5% of 1000 on sex"'
            raise PlanError("accuracy", expected=expected, given=text)
        margin = float(exact(found["margin"].replace(",", ""), "margin", DeclarationError))
        if found["count"] is not None:
            margin *= float(exact(found["count"].replace(",", ""), "count", DeclarationError)) / 100
        confidence = float(exact(found["confidence"] or "95", "confidence", DeclarationError)) / 100
        if margin <= 0 or not 0 < confidence < 1:
            raise PlanError("accuracy", expected="a margin above 0, and a confidence between 0% and 100%", given=text)
        return cls(margin, confidence, None if found["table"] is None else canonical(schema, found["table"]))


def accuracies(schema: Schema, text: str) -> list[Accuracy]:
    """Parse accuracies separated by semicolons, which may also occur in names.

    >>> schema = Schema.from_sizes({"sex": 2, "age": 9})
    >>> [(each.margin, each.table) for each in accuracies(schema, "50 at 95% on sex x age; 20 on age")]
    [(50.0, ('sex', 'age')), (20.0, ('age',))]
    """

    def known(part: str) -> Accuracy | None:
        with suppress(PrivcubeError):
            return Accuracy.from_text(schema, part)
        return None

    found = [part for part in parts_of(text, ";", known) if part]
    return [part if isinstance(part, Accuracy) else Accuracy.from_text(schema, part) for part in found or [""]]


def targets_of(workload: Workload, wanted: Sequence[Accuracy]) -> list[Target]:
    """The accuracies as targets of their tables, or of all tables of the workload if none is named."""
    return [
        Target.of(workload, table, each.margin, each.confidence)
        for each in wanted
        for table in (workload if each.table is None else [each.table])
    ]


@dataclass(frozen=True)
class Needed:
    """The budget that targets need with the given plan, and with a plan made for them if that needs less."""

    targets: list[Target]
    now: list[float]  # margins
    scaled: Plan
    fitted: Plan | None

    @property
    def plan(self) -> Plan:
        """The plan that needs the smaller budget."""
        return self.scaled if self.fitted is None else self.fitted

    @property
    def then(self) -> list[float]:
        """The margins of the targets with `plan`."""
        return [margins(self.plan, [each.table], each.confidence)[0] for each in self.targets]

    @property
    def largest_std_error_of_others(self) -> float | None:
        """The largest standard error of a cell with `plan`, over tables without a target; None if all have one."""
        asked = {each.table for each in self.targets}
        others = [table for table in self.plan.workload if table not in asked]
        return max((self.plan.table_variance(table) ** 0.5 for table in others), default=None)


def needed_for(plan: Plan, asked: PlanOptions, targets: list[Target], progress: Progress) -> Needed:
    """What targets need; a plan is made for them if the strategy is open and all their tables are in the workload."""
    now = [margins(plan, [each.table], each.confidence)[0] for each in targets]
    scaled = least_budget(plan, targets, _DIGITS)
    fitted = None
    open_ended = asked.strategy == "auto" and asked.recovery == "optimal" and asked.budgets != "uniform"
    if open_ended and all(each.table in plan.workload for each in targets):
        made = planned_for(plan.workload, targets, plan.guarantee, effort=asked.effort, progress=progress)
        fitted = made if made.guarantee.amount < scaled.guarantee.amount else None
    return Needed(targets, now, scaled, fitted)


def law(guarantee: Guarantee) -> str:
    """How margins depend on the budget, in words."""
    if isinstance(guarantee, PureDP):
        return "Margins are inversely proportional to epsilon: half the margin takes twice the epsilon."
    if isinstance(guarantee, ApproxDP):
        if guarantee.calibration == "exact":
            return (
                "Margins are inversely proportional to mu, the Gaussian noise behind epsilon and delta: "
                "half the margin takes twice the mu, and about twice the epsilon if that is small."
            )
        return (
            "Margins are inversely proportional to the square root of rho, the zCDP behind epsilon and delta: "
            "half the margin takes four times the rho, and about twice the epsilon if that is small."
        )
    return "Margins are inversely proportional to the square root of rho: half the margin takes four times the rho."
