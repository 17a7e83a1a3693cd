"""The rules of a ledger: a chain of events, and the account that they add up to. Zone: SENSITIVE.

A ledger is a list of events that only grows. The first one opens it for one data set and one total; every other one
moves one release: it is reserved, then committed and published, or abandoned. An event is a line of JSON; its hash is
the SHA-256 of its place, the hash before it and that line, so that the last hash, the head, stands for all that ever
happened. Nothing else is stored: what is left, and how far each release has come, follow from the events alone, and
whoever reads them checks them all.

Formal guarantee. `Account.spending` adds up all releases ever reserved, in exact fractions, by the accounts that the
total has (`privcube.model.privacy.composition`); an event that leaves no account within the total is neither written
nor read. No event gives anything back. Capacity and costs are worked out from the guarantees when an event is read;
what the event states must be equal. An event has one spelling: what would be written for it must be the very text that
was read.

Under a total in (epsilon, delta) there are two accounts, and a release is admitted if one of them holds it and all
before it: pure epsilons, added up if all releases are pure; and rho, or mu^2 of the Gaussian profile. Which of these
two is decided by the first release and never changes, as a choice that depends on results would cost another delta.
The costs that events state are in this currency: rho, unless they say mu^2.

The chain has no key. It shows accidents, edits, and events that are gone from its beginning or middle; events that are
gone from its end show only to somebody who holds a later head, which is why every artifact carries one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Final, Literal, NamedTuple, cast

from privcube.errors import GuaranteeError, LedgerError, Plain
from privcube.model.amounts import decimal_text
from privcube.model.privacy.composition import Spending, price_in
from privcube.model.privacy.guarantee import Currency, Guarantee, guarantee_from
from privcube.sensitive.ledger.names import require_plain

FORMAT: Final = "privcube ledger 2"  # named by a data set that was declared
NAMED_BY_SOURCE: Final = "privcube ledger 1"  # named as the source of its first release was spelled; read and continued
State = Literal["reserved", "committed", "published", "abandoned"]

_FROM: Final[dict[State, tuple[State, ...]]] = {  # which states a state may follow
    "committed": ("reserved",),
    "published": ("committed",),
    "abandoned": ("reserved", "committed"),
}
_FIELDS: Final[dict[str, dict[str, type]]] = {
    "opened": {"format": str, "dataset": str, "total": dict, "capacity": str, "salt": str},
    "reserved": {"number": int, "plan": str, "guarantee": dict, "cost": str},  # and a source, where it is known
    "committed": {"number": int, "artifact": str, "staged": str, "final": str},
    "published": {"number": int},
    "abandoned": {"number": int},
}
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_SALT: Final = re.compile(r"[0-9a-f]*")


class Row(NamedTuple):
    """An event as it is stored."""

    sequence: int
    previous: str
    event: str
    hash: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One release: what it costs, in the currency of all sums of the ledger, and how far it has come.

    `head` is the hash of the event that reserved it, which its artifact carries; `source` is what it read, as the spec
    spells it. `plan` and `artifact` are SHA-256 digests; `staged` and `final` name the folders that the artifact moves
    between. `times` says when it came into each state.
    """

    number: int
    state: State
    plan: str
    guarantee: Guarantee
    cost: Fraction
    times: Mapping[State, datetime]
    head: str
    source: str | None = None
    artifact: str | None = None
    staged: str | None = None
    final: str | None = None


def opening(dataset: str, total: Guarantee, *, salt: str, time: datetime) -> Row:
    """The first event. Its salt keeps those who see hashes in artifacts from guessing what was hashed."""
    Spending.of(total)  # refuses a total that cannot be accounted for
    require_plain(dataset)
    document = {
        "format": FORMAT,
        "dataset": dataset,
        "total": _guarantee_document(total),
        "capacity": _ratio_text(total.capacity),
        "salt": salt,
    }
    return _row("opened", document, sequence=0, previous="", time=time)


class Account:
    """What a chain of events adds up to. It grows by the events it makes.

    >>> from privcube.model.privacy.guarantee import PureDP
    >>> noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    >>> account = Account("ledger", [opening("people-2030", PureDP(1), salt="", time=noon)])
    >>> account.reserve("0" * 64, PureDP("0.3"), noon).sequence, account.left
    (1, Fraction(7, 10))
    """

    format: str
    dataset: str
    total: Guarantee
    spending: Spending

    def __init__(self, subject: str, rows: Iterable[Row]) -> None:
        self._subject = subject
        self.hashes: list[str] = []
        self.entries: dict[int, Entry] = {}
        for row in rows:
            self._take(row)
        if not self.hashes:
            raise LedgerError(subject, expected="the event that opened it", given=Plain("no event: it was emptied"))

    @property
    def left(self) -> Fraction:
        """What is left, in the account with the largest part left."""
        return self.spending.account.left

    def reserve(self, plan: str, guarantee: Guarantee, time: datetime, source: str | None = None) -> Row:
        """The event that takes a release out of what is left."""
        _require_digest("plan", plan)
        currency = self.spending.after(guarantee).sums
        document = {
            "number": len(self.entries) + 1,
            "plan": plan,
            "guarantee": _guarantee_document(guarantee),
            "cost": _ratio_text(_cost(currency, guarantee)),
            **({"currency": currency} if currency == "mu^2" else {}),
            **({} if source is None else {"source": source}),
        }
        return self._grow("reserved", document, time)

    def commit(self, number: int, artifact: str, staged: str, final: str, time: datetime) -> Row:
        """The event that binds a release to the bytes of its artifact."""
        _require_digest("artifact", artifact)
        document = {"number": number, "artifact": artifact, "staged": staged, "final": final}
        return self._move("committed", document, time)

    def publish(self, number: int, time: datetime) -> Row:
        """The event that says that the artifact is in its final folder."""
        return self._move("published", {"number": number}, time)

    def abandon(self, number: int, time: datetime) -> Row:
        """The event that says that the release will never be published. What it cost stays spent."""
        return self._move("abandoned", {"number": number}, time)

    def _move(self, state: State, document: dict[str, Any], time: datetime) -> Row:
        self._require_move(self._subject, document["number"], state)
        return self._grow(state, document, time)

    def _grow(self, kind: str, document: dict[str, Any], time: datetime) -> Row:
        row = _row(kind, document, sequence=len(self.hashes), previous=self.hashes[-1], time=time)
        self._take(row)  # nothing is written that would not be read
        return row

    def _take(self, row: Row) -> None:
        """Check the next event and add it."""
        number = len(self.hashes)
        subject = f"{self._subject}, event {number}"
        if row.sequence != number or row.previous != (self.hashes[-1] if self.hashes else ""):
            raise LedgerError(
                subject, expected="the event that follows", given=Plain("another: some are gone or moved")
            )
        if row.hash != _hash(row.sequence, row.previous, row.event):
            raise LedgerError(subject, expected="the hash of what it says", given=Plain("another: it was changed"))
        try:
            document = json.loads(row.event)
            if number == 0:
                _require_format(self._subject, document)
            kind, time = document.pop("event"), datetime.fromisoformat(document.pop("time"))
            if _event_text(kind, document, time) != row.event:
                raise ValueError("another spelling, such as a key that is given twice")
            optional = {name: str for name in ("source", "currency") if kind == "reserved" and name in document}
            if {name: type(value) for name, value in document.items()} != {**_FIELDS[kind], **optional}:
                raise ValueError(kind)
            self._apply(subject, kind, document, time, row.hash)
        except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
            raise LedgerError(subject, expected="an event of a ledger", given=Plain("something else")) from None
        self.hashes.append(row.hash)

    def _apply(self, subject: str, kind: str, document: dict[str, Any], time: datetime, head: str) -> None:
        if (kind == "opened") != (not self.hashes):
            raise LedgerError(subject, expected="one event that opens the ledger, the first", given=kind)
        if kind == "opened":
            self._apply_opened(subject, document)
        elif kind == "reserved":
            self._apply_reserved(subject, document, time, head)
        else:
            state = cast(State, kind)  # as it is none of the other two
            number = document.pop("number")
            if state == "committed":
                _require_digest(f"{subject}, artifact", document["artifact"])
            entry = self._require_move(subject, number, state)
            self.entries[number] = replace(entry, state=state, times={**entry.times, state: time}, **document)

    def _apply_opened(self, subject: str, document: dict[str, Any]) -> None:
        self.format, self.dataset, self.total = document["format"], document["dataset"], _guarantee(document["total"])
        if self.format == FORMAT:
            require_plain(self.dataset)
        if not _SALT.fullmatch(document["salt"]):
            raise ValueError("salt")
        self.spending = Spending.of(self.total)
        _require_same(subject, "capacity of its total", self.total.capacity, document["capacity"])

    def _apply_reserved(self, subject: str, document: dict[str, Any], time: datetime, head: str) -> None:
        number, guarantee = document["number"], _guarantee(document["guarantee"])
        if number != len(self.entries) + 1:
            raise LedgerError(subject, expected=f"release {len(self.entries) + 1}", given=number)
        if guarantee.unit != self.total.unit:
            raise LedgerError(subject, expected=f"the unit of the total, {self.total.unit}", given=guarantee.unit)
        _require_digest(f"{subject}, plan", document["plan"])
        try:
            spending = self.spending.after(guarantee)
        except GuaranteeError:
            expected = "a release within the total"
            raise LedgerError(subject, expected=expected, given=Plain("one that overspends it")) from None
        price = _cost(spending.sums, guarantee)
        _require_same(subject, "cost of its guarantee", price, document["cost"])
        if document.get("currency") != ("mu^2" if spending.sums == "mu^2" else None):
            raise ValueError("another currency")
        self.spending = spending
        self.entries[number] = Entry(
            number=number,
            state="reserved",
            plan=document["plan"],
            guarantee=guarantee,
            cost=price,
            times={"reserved": time},
            head=head,
            source=document.get("source"),
        )

    def _require_move(self, subject: str, number: int, state: State) -> Entry:
        """The release, if it may come into this state."""
        entry = self.entries.get(number)
        if entry is None or entry.state not in _FROM[state]:
            raise LedgerError(
                f"{subject}, release {number}",
                expected=f"to be {' or '.join(_FROM[state])} before it is {state}",
                given="no such release" if entry is None else entry.state,
            )
        return entry


def _row(kind: str, document: dict[str, Any], *, sequence: int, previous: str, time: datetime) -> Row:
    event = _event_text(kind, document, time)
    return Row(sequence, previous, event, _hash(sequence, previous, event))


def _event_text(kind: str, document: dict[str, Any], time: datetime) -> str:
    """The one spelling of an event, in ASCII alone: every database keeps it as it is."""
    stated = {**document, "event": kind, "time": time.astimezone(UTC).isoformat(timespec="seconds")}
    return json.dumps(stated, sort_keys=True, separators=(",", ":"))


def _hash(sequence: int, previous: str, event: str) -> str:
    return hashlib.sha256(f"{sequence}\n{previous}\n{event}".encode()).hexdigest()


def _require_format(subject: str, document: dict[str, Any]) -> None:
    """Before anything else that it says, as a later format may say other things."""
    if document.get("format") not in (FORMAT, NAMED_BY_SOURCE):
        raise LedgerError(
            subject,
            expected=f"the format {FORMAT!r}, the one that this version of privcube keeps, or an earlier one",
            given=document.get("format"),
        )


def _require_digest(subject: str, digest: str) -> None:
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
        raise LedgerError(subject, expected="a SHA-256 digest in 64 hexadecimal digits", given=digest)


def _guarantee_document(guarantee: Guarantee) -> dict[str, Any]:
    return {
        "amounts": {name: decimal_text(amount) for name, amount in guarantee.amounts.items()},
        "neighbors": guarantee.neighbors,
        "max_rows_per_person": guarantee.max_rows_per_person,
        **({"calibration": "exact"} if guarantee.calibration == "exact" else {}),
        **({} if guarantee.row == "row" else {"row": guarantee.row}),
    }


def _guarantee(document: dict[str, Any]) -> Guarantee:
    guarantee = guarantee_from(
        document["amounts"],
        neighbors=document["neighbors"],
        max_rows_per_person=document["max_rows_per_person"],
        calibration=document.get("calibration", "zcdp"),  # ledgers say it only where it is "exact"
        row=document.get("row", "row"),
    )
    if _guarantee_document(guarantee) != document:
        raise ValueError("a guarantee in another spelling")
    return guarantee


def _cost(currency: Currency | None, guarantee: Guarantee) -> Fraction:
    price = None if currency is None else price_in(currency, guarantee)
    assert price is not None  # as the spending includes it
    return price


def _require_same(subject: str, what: str, amount: Fraction, stated: str) -> None:
    if _ratio_text(amount) != stated:
        raise LedgerError(subject, expected=f"the {what}, {_ratio_text(amount)}", given=stated)


def _ratio_text(amount: Fraction) -> str:
    return f"{amount.numerator}/{amount.denominator}"
