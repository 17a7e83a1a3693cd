"""Names of data sets, by which ledgers are found. Zone: SENSITIVE.

A ledger belongs to a data set that somebody declared, not to a file: months, queries and tables of the data set charge
the same total, however they are spelled. Where one database holds many ledgers, another name means another total. So a
name is plain: what looks the same is the same. And no ledger is opened beside one that looks like it, or that has
charged the same source: a slip of the hand must not find a fresh total.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Final

from privcube.errors import LedgerError, Plain

_PLAIN: Final = re.compile(r"[a-z0-9]([a-z0-9._-]{0,98}[a-z0-9])?")
DECLARED: Final = '[data] dataset = "discharges-2026"'  # what to write in a spec


def require_plain(name: str) -> None:
    """Refuse a name for a new ledger that could be mistaken for another.

    >>> require_plain("discharges-2026")
    >>> require_plain("Discharges 2026")
    Traceback (most recent call last):
    ...
    privcube.errors.LedgerError: data set: expected a name of a to z, 0 to 9, '-', '_' and '.', ... 'Discharges 2026'
    """
    if not _PLAIN.fullmatch(name):
        expected = "a name of a to z, 0 to 9, '-', '_' and '.', from letter or digit to letter or digit, at most 100"
        raise LedgerError("data set", expected=expected, given=name)


def require_fresh(name: str, source: str | None, others: Mapping[str, Iterable[str]]) -> None:
    """Refuse a new ledger beside others, each with its name and the sources that it was charged for.

    >>> require_fresh("births", "births.csv", {"discharges-2026": ["january.csv"]})
    >>> require_fresh("discharges_2026", "may.csv", {"discharges-2026": ["january.csv"]})
    Traceback (most recent call last):
    ...
    privcube.errors.LedgerError: data set: expected a name unlike that of another ledger here, 'discharges-2026', ...
    >>> require_fresh("births", "./january.csv", {"discharges-2026": ["january.csv"]})
    Traceback (most recent call last):
    ...
    privcube.errors.LedgerError: data set: expected the one that this source was charged to, 'discharges-2026', ...
    """
    for other, sources in others.items():
        if _essence(other) == _essence(name):
            raise LedgerError("data set", expected=f"a name unlike that of another ledger here, {other!r}", given=name)
        if source and _essence(source) in map(_essence, (other, *filter(None, sources))):
            raise LedgerError("data set", expected=f"the one that this source was charged to, {other!r}", given=name)


def not_its_own(ledger: str, own: str, given: str | None) -> LedgerError:
    """The error for a ledger that belongs to another data set than the spec's."""
    declared = json.dumps(own, ensure_ascii=False)
    return LedgerError(
        ledger,
        expected=f"its own data set, {own!r} ([data] dataset = {declared} in the spec)",
        given=Plain("none") if given is None else given,
    )


def _essence(text: str) -> str:
    """Letters and digits alone, in one case and one form: what is left when a name or a path is spelled carelessly."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return "".join(char for char in plain if char.isalnum())
