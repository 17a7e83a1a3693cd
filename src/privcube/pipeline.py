"""Composes the stages; the only module that may call into the sensitive zone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from privcube.model.guarantee import PureDP
from privcube.model.plan import Plan
from privcube.model.request import WorkloadRequest
from privcube.model.spec import DataSource, Spec
from privcube.released.release import Release
from privcube.sensitive.drafting import draft_schema
from privcube.sensitive.engine import Ledger
from privcube.sensitive.gate import measure
from privcube.sensitive.ledger import MemoryLedger
from privcube.sensitive.progress import silent
from privcube.sensitive.sources import engine_for

ProgressCallback = Callable[[str, int, int | None], None]


def draft_spec(source: str | Path) -> Spec:
    """A spec for a CSV file with its attributes drafted from the data; refused for release until confirmed."""
    return Spec(
        data=DataSource(source=str(source)),
        guarantee=PureDP(1),
        schema=draft_schema(source),
        request=WorkloadRequest(all_kway=(1,)),
    )


def release(
    plan: Plan,
    source: Any,
    ledger: Ledger | None = None,
    *,
    person: str | None = None,
    table: str | None = None,
    query: str | None = None,
    progress: ProgressCallback | None = None,
) -> Release:
    """Count the source, add the plan's noise once, and recover the tables.

    The source is a path, a URL, a table of pandas, polars, pyarrow or DuckDB, or a Spark DataFrame; `table` or `query`
    say what to read in a database, `person` names the column of the protected unit. Without a ledger the release is
    checked against its own guarantee only, and nothing remembers what was spent.
    """
    payer = MemoryLedger(plan.guarantee) if ledger is None else ledger
    measured = measure(plan, engine_for(source, table, query), payer, person=person, progress=progress or silent)
    return Release(measured)
