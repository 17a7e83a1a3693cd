"""All exceptions of privcube in one tree; messages say what was expected, given and available. Zone: PUBLIC.

    PrivcubeError
    ├── DeclarationError     something the user declared does not make sense
    │   ├── SchemaError          attributes, values, bins, levels
    │   ├── WorkloadError        tables, weights, ranges
    │   ├── GuaranteeError       epsilon, delta, rho, neighbors, rows per person
    │   ├── WordsError           titles, descriptions, labels
    │   └── SpecError            a spec.toml: unreadable, unknown key, wrong type
    ├── PlanError            no plan can be made: unknown strategy, or one that cannot answer the workload
    ├── DataError            records that cannot be read, or that the schema refuses; quotes no value
    ├── LedgerError          a ledger that is unreadable, unwritable, changed or for other data; a step out of order
    ├── QueryError           a question that a release cannot answer
    ├── ArtifactError        an artifact or export that cannot be written or read, or was changed
    ├── DraftError           a schema drafted from data was not confirmed by a person
    └── MissingExtraError    a required optional library is not installed

The command line catches PrivcubeError in one place, prints its one-sentence message and exits with code 2.
"""

from __future__ import annotations

import copyreg
import difflib
from collections.abc import Iterable
from fractions import Fraction
from typing import Final

_MOST_NAMED: Final = 12  # names listed in a message, to keep it readable
_LONGEST_QUOTE: Final = 80  # characters of a value quoted in a message, to keep it on one line
_NOTHING: Final = object()


class PrivcubeError(Exception):
    """Root of all errors that privcube raises deliberately.

    >>> print(PrivcubeError("strategy", expected="a known name", given="fourrier",
    ...                     available=["fourier", "marginals"]))
    strategy: expected a known name, given 'fourrier'; did you mean 'fourier'? available: fourier, marginals
    """

    def __init__(
        self,
        subject: str,
        *,
        expected: str,
        given: object = _NOTHING,
        available: Iterable[str] | None = None,
    ) -> None:
        self.subject = subject
        self.expected = expected
        sentence = f"{subject}: expected {expected}"
        if given is not _NOTHING:
            sentence += f", given {quoted(given)}"
        if available is not None:
            names = list(available)
            near = difflib.get_close_matches(given, names, n=1) if isinstance(given, str) else []
            sentence += f"; did you mean {near[0]!r}?" if near else ";"
            sentence += f" available: {listed(names)}"
        super().__init__(sentence)

    def __reduce__(self) -> tuple[object, ...]:
        # Unpickle without __init__, whose arguments are not kept: errors must survive the trip from a worker process.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class DeclarationError(PrivcubeError, ValueError):
    """Something the user declared does not make sense."""


class SchemaError(DeclarationError):
    """The declared attributes, values, bins or levels do not make sense."""


class WorkloadError(DeclarationError):
    """The requested tables, weights or ranges do not make sense."""


class GuaranteeError(DeclarationError):
    """The declared epsilon, delta, rho, neighbors or rows per person do not make sense."""


class WordsError(DeclarationError):
    """The titles, descriptions or labels of a publisher cannot be used."""


class SpecError(DeclarationError):
    """A spec.toml cannot be read, has an unknown key or has a value of the wrong type."""


class PlanError(PrivcubeError):
    """No plan can be made for the request."""


class DataError(PrivcubeError):
    """Records cannot be read or are refused by the schema; the message quotes no value."""


class LedgerError(PrivcubeError):
    """A ledger is unreadable, unwritable, changed or for other data; or a release took its steps out of order."""


class QueryError(PrivcubeError):
    """A release cannot answer a question."""


class ArtifactError(PrivcubeError):
    """An artifact or export cannot be written or read, or was changed."""


class DraftError(PrivcubeError):
    """A schema drafted from data was not confirmed by a person."""


class MissingExtraError(PrivcubeError):
    """A required optional library is not installed."""


class Plain(str):
    """Our own words in a message, shown without the quotation marks that user input gets.

    >>> print(PlanError("tables", expected="at least one", given=Plain("none")))
    tables: expected at least one, given none
    """

    __slots__ = ()

    def __repr__(self) -> str:
        # The text may contain attribute names, and those may contain terminal control characters.
        return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in self)


class Told(str):
    """A note of ours to an exception, which the command line shows; notes of libraries may quote records."""

    __slots__ = ()


def quoted(value: object) -> str:
    """The repr of a value, truncated to fit on a line; a fraction as a number.

    >>> quoted("x"), quoted(Fraction(64 * 10**12)), quoted(Fraction(1, 3))
    ("'x'", '6.4e+13', '0.333333')
    """
    try:
        text = f"{float(value):.6g}" if isinstance(value, Fraction) else repr(value)
    except (ValueError, RecursionError, OverflowError):  # an integer with thousands of digits, or deeply nested tables
        text = f"a {type(value).__name__} too long to show"
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}... ({len(text):,} characters)"


def counted(number: int) -> str:
    """A whole number of any size, formatted for people.

    >>> counted(1234567), counted(10**40)
    ('1,234,567', 'about 1e40')
    """
    if number < 10**15:
        return f"{number:,}"
    return f"about 1e{int(number.bit_length() * 0.30103)}"


def listed(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    known = list(names)
    shown = ", ".join(known[:_MOST_NAMED]) if known else "nothing"
    return shown if len(known) <= _MOST_NAMED else f"{shown} and {len(known) - _MOST_NAMED:,} more"
