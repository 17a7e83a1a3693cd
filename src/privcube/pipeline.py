"""Composes the stages; the only module that may call into the sensitive zone."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from privcube.errors import LedgerError, Plain, PlanError, SpecError
from privcube.model.amounts import decimal_text
from privcube.model.documents.request import WorkloadRequest
from privcube.model.documents.spec import DataSource, Spec
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import Guarantee, PureDP, pure_instead
from privcube.planning.planner import plan_as
from privcube.progress import PLANNING, Progress, silent
from privcube.released.artifact.store import is_unchanged, stage, synced_folder
from privcube.released.release import Release
from privcube.sensitive.drafting import draft_schema
from privcube.sensitive.engine import Ledger
from privcube.sensitive.gate import measure
from privcube.sensitive.ledger import DurableLedger, Entry, MemoryLedger, Receipt, open_ledger
from privcube.sensitive.sources import engine_for


def draft_spec(source: str | Path) -> Spec:
    """A spec for a CSV file, with attributes drafted from the data; a release refuses it until they are confirmed."""
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
    progress: Progress | None = None,
) -> Release:
    """Count the source, add the plan's noise once, and recover the tables.

    The source is a path, a URL, a Spark DataFrame, or a table of pandas, polars, pyarrow, DuckDB or another library
    that has `__arrow_c_stream__`; `table` or `query` selects what to read from a database, and `person` names the
    column that identifies the protected unit. Without a ledger, the release is checked only against its own guarantee,
    and nothing records what was spent.

    Tables are recovered when the first one is requested, or before this returns if `progress` is given, which is
    called at every stage (`privcube.progress`).
    """
    payer = _Payer(MemoryLedger(plan.guarantee) if ledger is None else ledger)
    engine = engine_for(source, table, query)
    measured = measure(plan, engine, payer, person=person, progress=progress or silent)
    made = Release(measured, payer.provenance)
    if progress is not None:
        made.recover(progress)
    return made


def publish(spec: Spec, plan: Plan | None = None, *, folder: Path = Path(), progress: Progress = silent) -> Path:
    """Publish a spec's release, from microdata to its output folder; paths are relative to `folder`, where the spec is.

    The order of steps ensures that a crash costs budget, never privacy (`privcube.sensitive.ledger`): check what can be
    checked without records; make the charge durable before reading a record; stage and sync the artifact; commit its
    digest to the ledger; give the folder its final name; mark the release as published in the ledger.
    """
    progress(PLANNING, 0, None)
    planned = _plan_of(spec, plan, progress)
    output = folder / spec.output
    if os.path.lexists(output):
        raise SpecError(
            f"output {spec.output!r}", expected="a new folder (nothing is overwritten)", given=Plain("an existing one")
        )
    ledger = None if spec.ledger is None else _open(spec, folder)
    staged = output.parent / f".{output.name}.staged-{planned.digest[:12]}-{os.getpid()}"
    _make(staged)
    try:
        source = spec.data.source if is_url(spec.data.source) else str(folder / spec.data.source)
        made = release(
            planned,
            source,
            ledger,
            person=spec.data.person,
            table=spec.data.table,
            query=spec.data.query,
            progress=progress,
        )
        digest = stage(made, staged, progress)
        number = made.provenance.get("entry")
        if ledger is not None:
            ledger.commit(int(number or 0), digest, str(staged.absolute()), str(output.absolute()))
        _rename(staged, output)
        if ledger is not None:
            ledger.publish(int(number or 0))
    except BaseException:
        if not (ledger is not None and _is_committed(ledger, staged)):
            shutil.rmtree(staged, ignore_errors=True)  # keep committed bytes for `privcube ledger recover`
        raise
    return output


def _plan_of(spec: Spec, plan: Plan | None, progress: Progress) -> Plan:
    """The plan of a spec; a plan made earlier must still match the spec."""
    spec.schema.require_confirmed()
    if plan is None:
        return plan_as(spec.workload, spec.guarantee, spec.options, progress=progress)
    if plan.workload != spec.workload or plan.guarantee not in (spec.guarantee, pure_instead(spec.guarantee)):
        raise PlanError(
            "plan",
            expected="the schema, tables and guarantee of the spec",
            given=Plain("different ones (the spec was changed)"),
        )
    return plan


# Ledger


@dataclass(frozen=True)
class LedgerStatus:
    """The contents of a ledger: its data set, its total, what is left, and every release."""

    dataset: str
    total: Guarantee
    remaining: Fraction
    head: str
    entries: tuple[Entry, ...]


def ledger_status(spec: Spec, *, folder: Path = Path()) -> LedgerStatus:
    """Read and verify the ledger of a spec."""
    ledger = _open(spec, folder, create=False)
    ledger.check()
    return LedgerStatus(ledger.dataset, ledger.total, ledger.remaining, ledger.head, tuple(ledger.entries()))


def ledger_knows(spec: Spec, head: str, *, folder: Path = Path()) -> bool:
    """Whether the ledger of a spec contains an artifact's head; if not, it is an old copy or a different ledger."""
    return _open(spec, folder, create=False).contains(head)


def recover_ledger(spec: Spec, *, folder: Path = Path()) -> list[tuple[int, str]]:
    """Clean up after a crash: publish exactly what was committed, abandon the rest; return numbers and new states.

    Releases that are still running are abandoned, too, and will fail; their budget stays spent.
    """
    ledger = _open(spec, folder, create=False)
    done = []
    for entry in ledger.entries():
        if entry.state == "committed" and _is_published(entry):
            ledger.publish(entry.number)
            done.append((entry.number, "published"))
        elif entry.state in ("reserved", "committed"):
            ledger.abandon(entry.number)
            done.append((entry.number, "abandoned"))
    return done


def _is_published(entry: Entry) -> bool:
    """Whether the committed bytes are in the final folder, after moving them there if they were still staged."""
    staged, final = Path(entry.staged or ""), Path(entry.final or "")
    if not os.path.lexists(final) and is_unchanged(staged, entry.artifact):
        _rename(staged, final)
    return is_unchanged(final, entry.artifact)


def _open(spec: Spec, folder: Path, *, create: bool = True) -> DurableLedger:
    if spec.ledger is None:
        raise LedgerError("ledger", expected="a ledger in the spec: [privacy] ledger = ...", given=Plain("none"))
    location = spec.ledger.path if is_url(spec.ledger.path) else str(folder / spec.ledger.path)
    if not create and not is_url(location) and not Path(location).exists():
        raise LedgerError(f"ledger {spec.ledger.path!r}", expected="an existing file (a release creates it)")
    return open_ledger(location, dataset=dataset_name(spec.data), total=spec.ledger.total)


class _Payer:
    """Passes the one charge on to a ledger and keeps the receipt."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.provenance: dict[str, Any] = {}

    def charge(self, digest: str, guarantee: Guarantee) -> None:
        """Charge the ledger, and keep the receipt as provenance."""
        receipt = self._ledger.charge(digest, guarantee)
        if isinstance(receipt, Receipt):
            total = getattr(self._ledger, "total", guarantee)
            amounts = {name: decimal_text(amount) for name, amount in total.amounts.items()}
            self.provenance = {"entry": receipt.number, "head": receipt.head, "total": amounts}


def _is_committed(ledger: DurableLedger, staged: Path) -> bool:
    name = str(staged.absolute())
    return any(entry.staged == name and entry.state == "committed" for entry in ledger.entries())


def dataset_name(data: DataSource) -> str:
    """The ledger's name for the data: the source as written in the spec, without user and password.

    >>> dataset_name(DataSource(source="postgresql://ann:secret@db/hospital", table="discharges"))
    'postgresql://db/hospital, table discharges'
    """
    source = data.source
    if is_url(source):  # anything before the last @ may be a password, even one that is not URL-encoded
        scheme, mark, rest = source.partition("://")
        source = scheme + mark + rest.rpartition("@")[2].partition("?")[0]
    what = f", table {data.table}" if data.table else f", query {' '.join(data.query.split())}" if data.query else ""
    who = f", by {data.person}" if data.person else ""
    return source + what + who


def is_url(text: str) -> bool:
    """Whether a source or ledger is a URL or a Spark table, not a path."""
    return "://" in text or text.startswith("spark:")


# Folders


def _make(folder: Path) -> None:
    try:
        folder.mkdir()
    except OSError as problem:
        raise SpecError(
            f"output {folder.parent.name or '.'!r}", expected="a writable folder", given=Plain(problem.strerror)
        ) from None


def _rename(staged: Path, final: Path) -> None:
    try:
        staged.rename(final)
        synced_folder(final.parent)
    except OSError as problem:
        raise SpecError(f"output {final.name!r}", expected="a new folder", given=Plain(problem.strerror)) from None
