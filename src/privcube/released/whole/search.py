"""Looking for records: from a release to a multiset of records whose tables are near its estimates. Zone: RELEASED.

Formal guarantee. The only inputs are the released measurements and plan, and public facts; the seed is a digest of the
measurements. So the records are post-processing of a release, and cost no privacy beyond it.

What comes out is consistent and realizable by construction, since every table is counted from the same records. It is
not unbiased: where counts are small against the noise, estimates are pulled to what records can have.

See THEORY section 5.3.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal, get_args

import numpy as np

from privcube.errors import Plain, QueryError
from privcube.progress import WHOLE, Progress, Work, silent
from privcube.released.release import Release
from privcube.released.whole.blocks import Problem
from privcube.released.whole.facts import MOST_RECORDS, Facts, impossible_cells
from privcube.released.whole.flow import MOST_STEPS, Fit, flow
from privcube.released.whole.generator import Generator, generator, seed_of
from privcube.released.whole.goals import Goals, goals_of
from privcube.released.whole.records import Records
from privcube.released.whole.rounding import MOST_SWEEPS, rounded

WholeEffort = Literal["fast", "normal", "thorough"]

_LEAST: Final = 0.5  # of an estimated number of records; below it there is none
_PARTICLES: Final[dict[str, int]] = {"fast": 2**14, "normal": 2**16, "thorough": 2**18}


def checked_effort(effort: str) -> str:
    """The name of an effort."""
    if not isinstance(effort, str) or effort not in _PARTICLES:
        raise QueryError("effort", expected="a known name", given=effort, available=get_args(WholeEffort))
    return effort


def find_records(
    release: Release, effort: str = "normal", facts: Facts | None = None, progress: Progress = silent
) -> Records:
    """Records whose tables are near the estimates of a release, of the attributes that its tables have."""
    known = facts or Facts()
    return fitted_records(
        goals_of(release), checked_effort(effort), known, generator(seed_of(release.measurements)), progress
    )


def fitted_records(goals: Goals, effort: str, facts: Facts, random: Generator, progress: Progress = silent) -> Records:
    """Records near goals."""
    work = Work(progress, WHOLE, MOST_STEPS + MOST_SWEEPS)
    impossible = impossible_cells(goals.recorded, facts.impossible)
    if facts.records is not None:
        goals = _with_total(goals, facts.records)
    if goals.total < _LEAST:
        return Records.of(np.zeros((0, len(goals.recorded)), dtype=np.int64), np.zeros(0, dtype=np.int64))
    problem = Problem(goals)
    fit = flow(problem, impossible, _PARTICLES[effort], random, work)
    total = facts.records if facts.records is not None else _nearest(fit)
    work.reach(MOST_STEPS)
    if total and not float(fit.weights.sum()) > 0:
        raise QueryError("impossible", expected="some combination that can occur", given=Plain("none was found"))
    found = rounded(problem, fit, total, impossible, random, work)
    work.reach(MOST_STEPS + MOST_SWEEPS)
    return found


def _with_total(goals: Goals, records: int) -> Goals:
    """Goals with a number of records that is known exactly."""
    total = replace(goals.residuals[()], estimate=np.array([float(records)]), variance=0.0)
    return replace(goals, residuals={**goals.residuals, (): total})


def _nearest(fit: Fit) -> int:
    """The number of records; more than can be counted exactly are noise, whatever they are."""
    return min(max(round(float(fit.weights.sum())), 0), MOST_RECORDS)
