"""The ledger of a data set that outlives processes, crashes and power cuts. Zone: SENSITIVE.

A release goes through it in this order:

    charge      reserved: the cost is taken, on disk, before noise is drawn
    commit      committed: the artifact lies in its staged folder, on disk; the ledger knows its SHA-256
    publish     published: the folder has its final name

Formal guarantee. A crash costs budget, never privacy. Let R be the releases whose noisy numbers anybody can have seen.
- `charge` returns only when its event is on disk, and the gate draws no noise before it returns. So each release in R
  was reserved, and stays so: events are never removed, and no event lowers what is spent.
- `charge` decides while it holds the ledger's only lock for writing, on all events up to that moment, and adds the
  very next one. Two processes cannot both decide on the same events, as no two events can have one place in the chain.
  So the reserved releases, and R among them, never cost more than the total; by composition R satisfies it.
- A crash at any moment leaves a ledger with or without the event that was being written. Without it, nothing was
  returned, and no noise was drawn. With it, the budget is spent for a release that may not be in R. That is the loss.
- A committed release can only be published as the bytes whose digest was recorded, so doing it again after a crash
  reveals nothing new. A reserved one has no bytes on record; it can only be abandoned, and is not drawn again.

Every operation opens the ledger, reads all of it, checks all of it and closes it. So one object serves many threads and
may be carried into other processes. Each also makes sure that the last event this object saw is still there: an older
copy that was put in the ledger's place is noticed. One that adds an event then reads the ledger once more, over a
connection of its own: where something in the database took the event back, nothing is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from privcube.errors import LedgerError, Plain
from privcube.model.privacy.composition import is_same_total
from privcube.model.privacy.guarantee import Guarantee
from privcube.sensitive.ledger.account import NAMED_BY_SOURCE, Account, Entry, Row, opening
from privcube.sensitive.ledger.names import DECLARED, not_its_own, require_fresh
from privcube.sensitive.ledger.sqlite import SQLiteStore
from privcube.sensitive.noise.bits import system_words


class Receipt(NamedTuple):
    """What a release got for its charge: its number, and the head of the chain, which its artifact carries."""

    number: int
    head: str


class Store(Protocol):
    """Where the events of one ledger are kept. Every method fails with a LedgerError and then has changed nothing.

    Each makes sure that the place holds what it was made with, and nothing that could change events by itself.
    """

    @property
    def name(self) -> str:
        """What to call it in messages, without a password."""

    def rows(self) -> list[Row]:
        """All events in order; none if there is no ledger."""

    def names(self) -> list[str]:
        """The data sets of all ledgers in the same place, as far as they are told apart by name."""

    def create(self, first: Row, permit: Callable[[Mapping[str, list[Row]]], None]) -> None:
        """Make the ledger with its first event, durably, unless there is one by now.

        `permit` is shown the other ledgers that are told apart from it by name alone, and may refuse.
        """

    def writing(self) -> AbstractContextManager[tuple[list[Row], Callable[[Row], object]]]:
        """While nobody else can write: all events, and a way to add the next. On disk when the context ends."""


class DurableLedger:
    """Releases on one data set under one total. At top level its name is `pc.Ledger`."""

    @classmethod
    def open(cls, location: str | Path, *, dataset: str, total: Guarantee | None = None) -> DurableLedger:
        """Open the ledger of a data set; if there is none, create it with the total. A file, or postgresql://...

        A ledger of another data set or with another total is refused. Without a total, none is created.

        >>> import tempfile
        >>> from privcube.model.privacy.guarantee import PureDP
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = DurableLedger.open(f"{folder}/ledger.db", dataset="people-2030", total=PureDP(4))
        ...     print(ledger, ledger.remaining, ledger.entries())
        ledger of people-2030, total epsilon = 4 (pure), adding or removing one row 4 []
        """
        if not isinstance(location, str | Path):
            raise LedgerError("ledger", expected="a file or postgresql://...", given=location)
        if not isinstance(dataset, str):
            raise LedgerError("data set", expected="its name", given=dataset)
        if total is not None and not isinstance(total, Guarantee):
            raise LedgerError("total", expected="a guarantee, such as pc.PureDP(4)", given=total)
        return open_ledger(str(location), dataset=dataset, total=total)

    def __repr__(self) -> str:
        return f"ledger of {self.dataset}, total {self.total}"

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: str | None = None
        account = self.account()
        self.dataset = account.dataset
        self.total = account.total
        self.is_named_by_source = account.format == NAMED_BY_SOURCE

    def charge(self, digest: str, guarantee: Guarantee, source: str | None = None) -> Receipt:
        """Reserve the cost of a plan, or refuse with what is left. On disk when it returns.

        `source` says which records of the data set are read; it is recorded, and changes nothing about the cost.
        """
        account = self._append(lambda account: account.reserve(digest, guarantee, _now(), source))
        return Receipt(len(account.entries), account.hashes[-1])

    def commit(self, number: int, artifact_digest: str, staged: str, final: str) -> None:
        """Record the SHA-256 of a reserved release's artifact, staged in a folder and to be renamed to another."""
        self._append(lambda account: account.commit(number, artifact_digest, staged, final, _now()))

    def publish(self, number: int) -> None:
        """Record that a committed release is in its final folder."""
        self._append(lambda account: account.publish(number, _now()))

    def abandon(self, number: int) -> None:
        """Record that a reserved or committed release will not be published. Its cost stays spent."""
        self._append(lambda account: account.abandon(number, _now()))

    def afford(self, digest: str, guarantee: Guarantee) -> None:
        """Refuse what `charge` would refuse by now, also if the ledger cannot be written to; no event is written."""
        seen = self._seen
        with self._store.writing() as (rows, _):
            self._verified(rows, seen).reserve(digest, guarantee, _now())

    def account(self) -> Account:
        """Everything that the events add up to, all of them checked, at one moment."""
        seen = self._seen  # before reading, as another thread may add an event meanwhile
        return self._verified(self._store.rows(), seen)

    def entries(self) -> list[Entry]:
        """All releases, by number."""
        return list(self.account().entries.values())

    @property
    def remaining(self) -> Fraction:
        """What is left, in the account with the largest part left (`privcube.model.privacy.composition`)."""
        return self.account().left

    @property
    def head(self) -> str:
        """The hash of the last event."""
        return self.account().hashes[-1]

    def contains(self, head: str) -> bool:
        """Whether this was ever the head. If not, the ledger is another one, or an old copy."""
        return head in self.account().hashes

    def check(self) -> None:
        """Verify every event; a LedgerError names the first bad one. All other methods do so as well."""
        self.account()

    def _append(self, next_row: Callable[[Account], Row]) -> Account:
        seen = self._seen
        with self._store.writing() as (rows, insert):
            account = self._verified(rows, seen)
            added = next_row(account)
            insert(added)
        self._seen = added.hash
        if self._store.rows()[: len(rows) + 1] != [*rows, added]:
            raise LedgerError(
                self._store.name, expected="to keep the event that was added", given=Plain("a ledger without it")
            )
        return account

    def _verified(self, rows: Sequence[Row], seen: str | None) -> Account:
        account = Account(self._store.name, rows)
        if seen is not None and seen not in account.hashes:
            raise LedgerError(
                self._store.name,
                expected="all events that it had before",
                given=Plain("not all: an older copy or another ledger is in its place"),
            )
        self._seen = account.hashes[-1]
        return account


def open_ledger(
    location: str, *, dataset: str | None, total: Guarantee | None, source: str | None = None
) -> DurableLedger:
    """Open the ledger of a data set, or create it with a total. It is a file, or a database at postgresql://...

    A ledger of another data set or with another total is refused; without a total, whatever it has is accepted, and
    none is created. Without a data set, only an old ledger that is named by the source is opened.
    """
    store = _store(location, dataset, source)
    if not store.rows():
        _create(store, dataset, total, source)
    return _opened(store, dataset, total, source)


def find_ledger(
    location: str, *, dataset: str | None, total: Guarantee | None, source: str | None = None
) -> DurableLedger:
    """The same for a ledger that must be there."""
    store = _store(location, dataset, source)
    if not store.rows():
        expected = "an existing ledger (a release creates it)"
        raise LedgerError(store.name, expected=expected, available=store.names() or None)
    return _opened(store, dataset, total, source)


def _opened(store: Store, dataset: str | None, total: Guarantee | None, source: str | None) -> DurableLedger:
    ledger = DurableLedger(store)
    if ledger.dataset != (source if dataset is None else dataset) or not (dataset or ledger.is_named_by_source):
        raise not_its_own(store.name, ledger.dataset, dataset)
    if total is not None and not is_same_total(total, ledger.total):
        raise LedgerError(store.name, expected=f"its own total, {ledger.total}", given=str(total))
    return ledger


def _create(store: Store, dataset: str | None, total: Guarantee | None, source: str | None) -> None:
    if total is None:
        expected = "a total to create it with, as it does not exist"
        raise LedgerError(store.name, expected=expected, available=store.names() or None)
    if dataset is None:
        expected = f"a data set to create it for: {DECLARED} in the spec, in your own words"
        raise LedgerError(store.name, expected=expected, given=Plain("none"), available=store.names() or None)

    def permit(others: Mapping[str, list[Row]]) -> None:
        known = {name: Account(f"{store.name}, data set {name!r}", rows).entries for name, rows in others.items()}
        sources = {name: [entry.source or "" for entry in entries.values()] for name, entries in known.items()}
        require_fresh(dataset, source, sources)

    store.create(opening(dataset, total, salt=system_words(2).tobytes().hex(), time=_now()), permit)


def _store(location: str, dataset: str | None, source: str | None) -> Store:
    name = source if dataset is None else dataset
    if name is None:
        raise LedgerError("data set", expected="the name that the ledger has", given=Plain("none"))
    _require_name(name)
    scheme, separator, _ = location.partition("://")
    if not separator:
        return SQLiteStore(location)
    if scheme in ("postgresql", "postgres"):
        from privcube.sensitive.ledger.postgresql import PostgreSQLStore

        return PostgreSQLStore(location, name)
    raise LedgerError("ledger", expected="a file or postgresql://...", given=Plain(f"{scheme}://..."))


def _require_name(name: str) -> None:
    """Messages quote the name, so it must not give a password away."""
    if not name or not name.isprintable():
        raise LedgerError("data set", expected="a name in printable characters", given=name)
    try:
        parts = urlsplit(name)
        secret = parts.password is not None or "password=" in parts.query
    except ValueError:
        secret = False
    if secret:
        raise LedgerError("data set", expected="a name without a password")


def _now() -> datetime:
    return datetime.now(UTC)
