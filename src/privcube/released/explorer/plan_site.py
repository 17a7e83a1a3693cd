"""A plan for a browser, before anything is spent: errors by budget, guarantee and strategy. Zone: RELEASED.

No data is read. Under one kind of guarantee the errors of a plan grow with the noise on a single count: with the budget
halved, pure noise doubles. So plans are made once for each kind, with effort "fast", and the page scales their errors
along a grid of budgets, at which the noise on a single count is worked out exactly.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from threading import Lock
from typing import Any, Final

from privcube.accuracy.intervals import interval_factor
from privcube.errors import GuaranteeError, PlanError, PrivcubeError
from privcube.model.amounts import shown, shown_down
from privcube.model.documents.spec import Spec
from privcube.model.options import PlanOptions
from privcube.model.plan import Plan
from privcube.model.privacy.composition import Spending
from privcube.model.privacy.guarantee import ZCDP, ApproxDP, Guarantee, PureDP
from privcube.planning.candidates import every_strategy
from privcube.planning.planner import plan_under
from privcube.released.artifact.manifest import CONFIDENCE
from privcube.released.explorer.server import Site, page_files
from privcube.released.page.html import plan_script, served_page, style
from privcube.released.page.numbers import to_digits
from privcube.strategies import STRATEGIES
from privcube.version import __version__

FORMAT: Final = "privcube plan view 1"
_DELTA: Final = Fraction(1, 10**6)  # to compare a pure guarantee with
_PER_TEN: Final = 8  # budgets of the grid in a factor of ten
_TENS: Final = 2  # on either side of the declared budget
_PLANS: Final = re.compile("/(strategies|chosen)/([a-z]+)\\.json")


def plan_site(spec: Spec, name: str, spending: Spending | None = None) -> Site:
    """The site of a spec; `spending` is what its ledger says, if there is one."""
    found = _Plans(spec, name, spending)
    return Site(page_files(served_page(), style(), plan_script()), found.made)


class _Plans:
    def __init__(self, spec: Spec, name: str, spending: Spending | None) -> None:
        self._spec, self._lock = spec, Lock()
        self._kinds = _kinds(spec.guarantee)
        self._known: dict[str, Any] = {}
        workload, words = spec.workload, spec.words
        self._document = {
            "format": FORMAT,
            "privcube": __version__,
            "title": words.title or "Plan of a release",
            "spec": name,
            "unit": words.unit or "records",
            "guarantee": str(spec.guarantee),
            "chosen": spec.guarantee.kind,
            "records": spec.expected_records,
            "tables": [
                {"title": words.table_title(table), "cells": cells}
                for table, cells in zip(workload, workload.sizes, strict=True)
            ],
            "kinds": [_kind(guarantee, spending) for guarantee in self._kinds.values()],
            "ledger": None if spending is None else _left(spending),
        }

    def made(self, path: str) -> Any | None:
        """The document of the page, the strategies under a kind of guarantee, or the plan that the spec asks for."""
        if path == "/document.json":
            return self._document
        asked = _PLANS.fullmatch(path)
        if asked is None or asked[2] not in self._kinds:
            return None
        with self._lock:
            if path not in self._known:
                make = self._simple if asked[1] == "strategies" else self._chosen
                self._known[path] = make(self._kinds[asked[2]])
            return self._known[path]

    def _simple(self, guarantee: Guarantee) -> list[dict[str, Any]]:
        """Every strategy by itself, the best first, without the search, which takes its time."""
        made = every_strategy(self._spec.workload, guarantee, self._options, names=tuple(STRATEGIES))
        lines = [_line(str(name), own) for name, own in made.items()]
        usable = sorted((line for line in lines if "error" in line), key=lambda line: float(line["error"]))
        return [*usable, *(line for line in lines if "error" not in line)]

    def _chosen(self, guarantee: Guarantee) -> dict[str, Any]:
        """The plan of the spec under a guarantee; of "auto", the best that it finds."""
        try:
            return _line(self._options.strategy, plan_under(self._spec.workload, guarantee, self._options))
        except PlanError as problem:
            return _line(self._options.strategy, problem)

    @property
    def _options(self) -> PlanOptions:
        return replace(self._spec.options, effort="fast")


def _line(name: str, made: Plan | PrivcubeError) -> dict[str, Any]:
    if isinstance(made, PrivcubeError):
        return {"strategy": name, "refused": str(made)}
    errors = [to_digits(math.sqrt(variance)) for variance in made.table_variances]
    return {
        "strategy": name,
        "uses": made.options.strategy,
        "error": to_digits(math.sqrt(made.mean_cell_variance)),
        "errors": errors,
    }


# Kinds of guarantees


def _kinds(own: Guarantee) -> dict[str, Guarantee]:
    """The declared guarantee, and the pure and the approximate one to compare it with."""
    rest: Any = {"neighbors": own.neighbors, "max_rows_per_person": own.max_rows_per_person, "row": own.row}
    if isinstance(own, ZCDP):
        epsilon = Fraction(f"{float(own.epsilon(_DELTA)):.2g}")
        return {own.kind: own, "pure": PureDP(epsilon, **rest), "approx": ApproxDP(epsilon, _DELTA, **rest)}
    if isinstance(own, PureDP):
        return {own.kind: own, "approx": ApproxDP(own.epsilon, _DELTA, **rest)}
    return {own.kind: own, "pure": PureDP(own.epsilon, **rest)}


def _kind(guarantee: Guarantee, spending: Spending | None) -> dict[str, Any]:
    """A kind of guarantee: its amounts, and by budget how much larger errors are, and what the ledger has left."""
    dial = guarantee.dial
    own = guarantee.amounts[dial]
    budgets = [_rounded(own, step) for step in range(-_TENS * _PER_TEN, _TENS * _PER_TEN + 1)]
    grid = [each for each in map(_at(guarantee), budgets) if each is not None]
    base = _size(guarantee)
    return {
        "kind": guarantee.kind,
        "dial": dial,
        "amount": float(own),
        "delta": float(guarantee.delta) if isinstance(guarantee, ApproxDP) else None,
        "budgets": [float(each.amounts[dial]) for each in grid],
        "factors": [float(f"{_size(each) / base:.6g}") for each in grid],
        "left": None if spending is None else [_left_after(spending, each) for each in grid],
        "margin": to_digits(_factor(guarantee)),
    }


def _rounded(own: Fraction, step: int) -> Fraction:
    """A budget of the grid, to two digits; the declared one as it is."""
    return own if step == 0 else Fraction(f"{float(own) * 10 ** (step / _PER_TEN):.2g}")


def _at(guarantee: Guarantee) -> Callable[[Fraction], Guarantee | None]:
    """The same kind of guarantee with another budget; None if there is none."""

    def made(amount: Fraction) -> Guarantee | None:
        with suppress(GuaranteeError):
            return guarantee.with_amount(amount)
        return None

    return made


def _size(guarantee: Guarantee) -> float:
    """The size of the noise on a count that moves by 1: what errors are proportional to."""
    noise = float(guarantee.unit_noise)
    return noise if isinstance(guarantee, PureDP) else math.sqrt(noise)


def _factor(guarantee: Guarantee) -> float:
    """How many standard errors a margin has, at most."""
    shapes = (0.0, 1.5, 3.0) if isinstance(guarantee, PureDP) else (0.0,)
    return max(interval_factor(kurtosis, CONFIDENCE) for kurtosis in shapes)


# Ledger


def _left(spending: Spending) -> dict[str, Any]:
    accounts = [
        {"currency": each.currency, "left": shown_down(each.left), "limit": shown(each.limit)}
        for each in spending.accounts
    ]
    return {"total": str(spending.total), "accounts": accounts, "share": _share(spending)}


def _left_after(spending: Spending, release: Guarantee) -> float | None:
    """The part of the total that is left after a release, in the account with the most; None if it is refused."""
    try:
        return _share(spending.after(release))
    except GuaranteeError:
        return None


def _share(spending: Spending) -> float:
    return to_digits(float(spending.account.left / spending.account.limit))
