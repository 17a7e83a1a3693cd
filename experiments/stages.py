"""The stages of a release one by one: the seconds of each, and the most memory that the process had meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from privcube.accuracy.predictor import recover
from privcube.model.plan import Plan
from privcube.progress import Progress, silent
from privcube.sensitive.counts import ExactCounts
from privcube.sensitive.engine import CountRequest, Engine
from privcube.sensitive.gate import measure
from privcube.sensitive.ledger import MemoryLedger
from privcube.sensitive.sources import engine_for

STAGES: Final = ("plan", "count", "noise", "recover")
_STATUS: Final = Path("/proc/self/status")


class Laps:
    """A stopwatch: `end` says which stage the time since the last end was for."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.gigabytes: dict[str, float] = {}
        _forget_most_memory()
        self._last = time.perf_counter()

    def end(self, stage: str) -> None:
        """Book what has passed to a stage, which may come several times; no time is left out."""
        now = time.perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self.gigabytes[stage] = max(self.gigabytes.get(stage, 0.0), _most_memory())
        self._last = now
        _forget_most_memory()


def _most_memory() -> float:
    """The most memory of this process since it was last forgotten, in GB; what it keeps of earlier stages included."""
    return int(_STATUS.read_text().partition("VmHWM:")[2].split()[0]) * 1024 / 1e9


def _forget_most_memory() -> None:
    """Linux starts its high-water mark anew; `ru_maxrss` would keep that of all stages, and of the parent process."""
    _STATUS.with_name("clear_refs").write_text("5")


def released(make_plan: Callable[[], Plan], source: Any, laps: Laps) -> tuple[Plan, dict[Any, Any]]:
    """A whole release through the gate: the plan and the recovered tables.

    "count" is the engine's work. "noise" is all else that the gate does: it checks the plan, answers its groups from
    the counts and draws.
    """
    plan = make_plan()
    laps.end("plan")
    measured = measure(plan, _Timed(engine_for(source), laps), MemoryLedger(plan.guarantee))
    laps.end("noise")
    tables = recover(plan, measured.answers.astype(np.float64))
    laps.end("recover")
    return plan, tables


class _Timed:
    """An engine whose work is booked to "count"; what the gate did before each call is noise."""

    def __init__(self, engine: Engine, laps: Laps) -> None:
        self._engine, self._laps = engine, laps

    def prepare(self, request: CountRequest) -> None:
        """As the engine does."""
        self._laps.end("noise")
        self._engine.prepare(request)
        self._laps.end("count")

    def count(self, request: CountRequest, progress: Progress = silent) -> ExactCounts:
        """As the engine does."""
        self._laps.end("noise")
        counts = self._engine.count(request, progress)
        self._laps.end("count")
        return counts


def power_law(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """The exponent and the constant of y = constant * x^exponent, by least squares of logarithms.

    >>> exponent, constant = power_law([1, 10, 100], [3, 300, 30000])
    >>> round(exponent, 6), round(constant, 6)
    (2.0, 3.0)
    """
    exponent, intercept = np.polyfit(np.log(x), np.log(y), 1)
    return float(exponent), float(np.exp(intercept))


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0))
