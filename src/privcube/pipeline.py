"""Composes the stages; the only module that may call into the sensitive zone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from privcube.accuracy.errors.predictions import require_predictions
from privcube.errors import GuaranteeError, LedgerError, Plain, PlanError, SpecError, Told
from privcube.model.amounts import shown
from privcube.model.columns.text_files import TextFile
from privcube.model.documents.draft_text import draft_text
from privcube.model.documents.spec import DataSource, Spec, is_url, source_name
from privcube.model.plan import Plan
from privcube.model.privacy.composition import Account, Spending, price_in
from privcube.model.privacy.guarantee import Guarantee, pure_instead
from privcube.model.publication.words import Words
from privcube.planning.planner import plan_as
from privcube.progress import PLANNING, Progress, silent
from privcube.released.artifact.manifest import amounts_text
from privcube.released.artifact.rehearsal import rehearse
from privcube.released.artifact.store import bytes_objection, is_unchanged, stage, synced_folder
from privcube.released.release import Release
from privcube.released.whole.release import as_specified, checked_spec, facts_of
from privcube.sensitive.engine import Ledger as AnyLedger
from privcube.sensitive.gate import measure
from privcube.sensitive.ledger import DurableLedger, Entry, MemoryLedger, find_ledger, open_ledger
from privcube.sensitive.reading.checking import look_over
from privcube.sensitive.reading.drafting import draft_of
from privcube.sensitive.reading.report import DataReport
from privcube.sensitive.sources import engine_for

Ledger = DurableLedger  # as users meet it: pc.Ledger


def draft(
    source: str, *, table: str | None = None, query: str | None = None, text: TextFile | None = None, shown: str = ""
) -> str:
    """The text of a spec for a source, with attributes drafted from the data; a release refuses it until confirmed.

    `shown` is the source as the spec is to name it, if it is not the same.
    """
    found = draft_of(engine_for(source, table, query, text))
    written = {} if text is None else text.document
    data = {"source": shown or source, "table": table, "query": query, **written}
    return draft_text(data, found.attributes, found.left_out, found.person)


def release(
    plan: Plan,
    source: Any,
    ledger: AnyLedger | None = None,
    *,
    person: str | None = None,
    table: str | None = None,
    query: str | None = None,
    text: TextFile | None = None,
    words: Words | None = None,
    progress: Progress | None = None,
) -> Release:
    """Count the source, add the plan's noise once, and recover the tables.

    The source is a path, a URL, a Spark DataFrame, or a table of pandas, polars, pyarrow, DuckDB or another library
    that has `__arrow_c_stream__`; `table` or `query` selects what to read from a database, and `person` names the
    column that identifies the protected unit. A query needs a person, or a guarantee that protects a row of the query.
    `text` says how text files are written, and `words` what things are called in all that is published. A ledger
    (`pc.Ledger.open`) is charged when the records are counted, before noise is drawn. Without one, the release is
    checked only against its own guarantee, and nothing records what was spent.

    Tables are recovered when the first one is requested, or before this returns if `progress` is given, which is
    called at every stage (`privcube.progress`).
    """
    payer = ledger if isinstance(ledger, _Payer) else _Payer(ledger)  # `publish` knows how the spec spells the source
    with payer.telling():
        if isinstance(plan, Spec):
            raise PlanError(
                "plan",
                expected="a plan, such as pc.plan(spec.workload, spec.guarantee), and a source",
                given=Plain("a spec (`privcube release spec.toml` publishes one as a whole)"),
            )
        if not isinstance(plan, Plan):
            raise PlanError("plan", expected="a privcube.Plan, as pc.plan makes it", given=plan)
        if query is not None and person is None and plan.guarantee.row == "row":
            raise PlanError(
                "query",
                expected='a person, or a guarantee with row="row of the query", as a row of the data may be in many '
                "rows of a query",
                given=Plain("neither"),
            )
        if payer.ledger is not None and not all(hasattr(payer.ledger, verb) for verb in ("afford", "charge")):
            raise LedgerError("ledger", expected="one such as pc.Ledger.open(...) returns", given=payer.ledger)
        if payer.ledger is None:
            payer.ledger = MemoryLedger(plan.guarantee)
        said = Words() if words is None else words.for_workload(plan.workload)  # refused before anything is charged
        engine = engine_for(source, table, query, text)
        payer.source = payer.source or _source_read(source, table, query, person)
        measured = measure(plan, engine, payer, person=person, progress=progress or silent)
        made = Release(measured, payer.provenance, said)
        if progress is not None:
            made.recover(progress)
    return made


def _source_read(source: Any, table: str | None, query: str | None, person: str | None) -> str:
    """What a ledger records of a source that no spec names."""
    name = str(source) if isinstance(source, str | Path) else f"{type(source).__module__}.{type(source).__name__}"
    return source_name(DataSource(source=name, table=table, query=query, person=person))


def check(
    spec: Spec | str | Path, source: Any = None, *, folder: Path | None = None, progress: Progress = silent
) -> DataReport:
    """Look the data of a spec over, before anything is charged; nothing is published.

    The report is about the data: do not publish it. Choices made from it are not covered by the guarantee. `source`
    stands in for the spec's, such as a data frame; paths are relative to `folder`, by default that of the spec.
    """
    declared = spec if isinstance(spec, Spec) else Spec.read(spec)
    checked_spec(declared)
    data = declared.data
    if source is None:
        base = folder if folder is not None else Path() if isinstance(spec, Spec) else Path(spec).parent
        place = data.source if is_url(data.source) else str(base / data.source)
        engine = engine_for(place, data.table, data.query, data.text)
    else:
        engine = engine_for(source)
    return look_over(
        engine,
        declared.schema,
        person=data.person,
        max_rows_per_person=declared.guarantee.max_rows_per_person,
        text=data.text,
        progress=progress,
    )


def publish(spec: Spec, plan: Plan | None = None, *, folder: Path = Path(), progress: Progress = silent) -> Path:
    """Publish a spec's release, from microdata to its output folder; paths are relative to `folder`, where the spec is.

    The order of steps ensures that a crash costs budget, never privacy (`privcube.sensitive.ledger`), and that a
    refusal costs nothing: check what can be checked without records; count; make the charge durable before drawing
    noise (`privcube.sensitive.gate`); stage and sync the artifact; commit its digest to the ledger; give the folder its
    final name; mark the release as published in the ledger. Whatever is raised has a note that says what was charged.
    """
    with (payer := _Payer(source=source_name(spec.data))).telling():
        return _published(spec, plan, folder, payer, progress)


def _published(spec: Spec, plan: Plan | None, folder: Path, payer: _Payer, progress: Progress) -> Path:
    progress(PLANNING, 0, None)
    planned = _plan_of(spec, plan, progress)
    output = folder / spec.output
    _check_places(spec, folder)
    checked_spec(spec)
    staged = output.parent / f".{output.name}.staged-{planned.digest[:12]}-{os.getpid()}"
    _make(staged)
    ledger = None
    try:
        rehearse(planned, staged, spec.words)
        if spec.ledger is not None:
            ledger = payer.ledger = _open(spec, folder)
        source = spec.data.source if is_url(spec.data.source) else str(folder / spec.data.source)
        made = release(
            planned,
            source,
            payer,
            person=spec.data.person,
            table=spec.data.table,
            query=spec.data.query,
            text=spec.data.text,
            words=spec.words,
            progress=progress,
        )
        kept, problem = as_specified(made, spec, progress)
        digest = stage(kept, staged, progress)
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
    if problem is not None:
        raise problem
    return output


def _plan_of(spec: Spec, plan: Plan | None, progress: Progress) -> Plan:
    """The plan of a spec; a plan made earlier must still match the spec."""
    spec.schema.require_confirmed()
    if plan is None:
        return plan_as(spec.workload, spec.guarantee, spec.options, or_pure=spec.may_be_pure, progress=progress)
    if plan.workload != spec.workload or plan.guarantee not in (spec.guarantee, pure_instead(spec.guarantee)):
        raise PlanError(
            "plan",
            expected="the schema, tables and guarantee of the spec",
            given=Plain("different ones (the spec was changed)"),
        )
    require_predictions(plan)  # also that its tables can be recovered
    return plan


# Ledger


@dataclass(frozen=True)
class LedgerStatus:
    """The contents of a ledger: its data set, its total, what is spent, and every release."""

    dataset: str
    total: Guarantee
    spending: Spending
    head: str
    entries: tuple[Entry, ...]

    @property
    def account(self) -> Account:
        """The account with the largest part left."""
        return self.spending.account

    @property
    def remaining(self) -> Fraction:
        """What is left in it."""
        return self.account.left

    @property
    def costs(self) -> list[Fraction]:
        """What each release cost in it."""
        return [price_in(self.account.currency, entry.guarantee) or entry.cost for entry in self.entries]

    @property
    def left_after(self) -> list[Fraction]:
        """What was left in it after each release."""
        return [self.account.limit - spent for spent in accumulate(self.costs)]


def ledger_status(spec: Spec, *, folder: Path = Path()) -> LedgerStatus:
    """Read and verify the ledger of a spec."""
    own = _open(spec, folder, create=False).account()
    return LedgerStatus(own.dataset, own.total, own.spending, own.hashes[-1], tuple(own.entries.values()))


def ledger_objection(spec: Spec, made: Release, artifact: Path, *, folder: Path = Path()) -> str | None:
    """What the ledger of a spec recorded otherwise than a release in a folder states; None if they agree.

    Formal guarantee. If None: the artifact's receipt is that of the ledger's release of that number, which the ledger
    charged for this plan and this guarantee, within its total; and the bytes of the artifact are those that the ledger
    committed to before they were published; or those of the release without whole numbers or facts added later.
    """
    number, head, total = (made.provenance.get(name) for name in ("entry", "head", "total"))
    if head is None:
        return "the release was made without a ledger"
    status = ledger_status(spec, folder=folder)
    paid = {entry.head: entry for entry in status.entries}.get(head)
    if paid is None:
        return "the ledger does not contain the charge for this release: it is another ledger, or an old copy"
    found = {
        f"the receipt is that of release {paid.number}, not {number}": paid.number == number,
        f"release {number} was charged for another plan": paid.plan == made.plan.digest,
        f"release {number} was charged for another guarantee, {paid.guarantee}": paid.guarantee == made.plan.guarantee,
        f"the ledger has another total, {status.total}": total == amounts_text(status.total),
        f"release {number} is {paid.state}: no bytes of it were ever published": paid.state
        in ("committed", "published"),
    }
    objection = next((objection for objection, agrees in found.items() if not agrees), None)
    return objection or bytes_objection(made, artifact, paid.artifact, facts_of(spec))


def recover_ledger(spec: Spec, *, folder: Path = Path()) -> list[tuple[int, str]]:
    """Clean up after a crash: publish exactly what was committed, abandon the rest; return numbers and new states.

    Releases that are still running are abandoned, too, and will fail; their budget stays spent.
    """
    ledger, done = _open(spec, folder, create=False), []
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


def _open(spec: Spec, folder: Path, *, create: bool = True) -> Ledger:
    if spec.ledger is None:
        raise LedgerError("ledger", expected="a ledger in the spec: [privacy] ledger = ...", given=Plain("none"))
    location = spec.ledger.path if is_url(spec.ledger.path) else str(folder / spec.ledger.path)
    found = open_ledger if create else find_ledger
    return found(location, dataset=spec.data.dataset, total=spec.ledger.total, source=source_name(spec.data))


_UNCHARGED: Final = Told("Nothing was charged.")
_UNKNOWN: Final = Told("Whether the budget was charged is not known; `privcube ledger` shows it.")


def nothing_charged() -> AbstractContextManager[None]:
    """Note on whatever is raised that nothing was charged."""
    return _Payer().telling()


class _Payer:
    """Passes the one charge on to a ledger, with the source's name, keeps the receipt, and says what was charged."""

    def __init__(self, ledger: AnyLedger | None = None, source: str | None = None) -> None:
        self.ledger, self.source = ledger, source
        self.provenance: dict[str, Any] = {}
        self._said = _UNCHARGED

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Note on whatever is raised what was charged by then."""
        try:
            yield
        except BaseException as problem:  # interrupts as well
            if not any(isinstance(note, Told) for note in getattr(problem, "__notes__", ())):
                problem.add_note(self._said)
            raise

    def afford(self, digest: str, guarantee: Guarantee) -> None:
        """Ask the ledger."""
        assert self.ledger is not None
        self.ledger.afford(digest, guarantee)

    def charge(self, digest: str, guarantee: Guarantee) -> None:
        """Charge the ledger, and keep the receipt as provenance."""
        assert self.ledger is not None
        self._said = _UNKNOWN  # if it is interrupted, or the disk or the connection fails at the last moment
        spent = ", ".join(f"{name} {shown(amount)}" for name, amount in guarantee.amounts.items())
        try:
            if isinstance(self.ledger, Ledger):
                receipt = self.ledger.charge(digest, guarantee, self.source)
                total = amounts_text(self.ledger.total)
                self.provenance = {"entry": receipt.number, "head": receipt.head, "total": total}
                self._said = Told(f"The budget was charged: {spent}, as release {receipt.number} of the ledger.")
            else:
                self.ledger.charge(digest, guarantee)
                self._said = Told(f"The budget was charged: {spent}; no ledger on disk records it.")
        except GuaranteeError:  # more than what is left
            self._said = _UNCHARGED
            raise


def _is_committed(ledger: Ledger, staged: Path) -> bool:
    return any(entry.staged == str(staged.absolute()) and entry.state == "committed" for entry in ledger.entries())


# Folders


def _check_places(spec: Spec, folder: Path) -> None:
    """The output must be new, and apart from the ledger and the records."""
    output, subject = folder / spec.output, f"output {spec.output!r}"
    if os.path.lexists(output):
        raise SpecError(subject, expected="a new folder (nothing is overwritten)", given=Plain("an existing one"))
    place = output.resolve()
    if spec.ledger is not None and not is_url(spec.ledger.path):
        ledger = (folder / spec.ledger.path).resolve()
        own = [ledger, *(ledger.with_name(ledger.name + end) for end in ("-journal", "-wal", "-shm"))]
        if place in (*own, *ledger.parents) or ledger in place.parents:
            raise SpecError(subject, expected="a folder apart from the ledger", given=Plain("the place of the ledger"))
    if not is_url(spec.data.source):
        records = (folder / spec.data.source).resolve()
        if records == place or records in place.parents:  # where the next release would read it as records
            raise SpecError(subject, expected="a folder apart from the records", given=Plain("a place among them"))


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
