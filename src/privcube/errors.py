"""The exceptions of privcube, one tree; every message says what was expected, given and available. Zone: PUBLIC.

    PrivcubeError
    ├── DeclarationError     something the user declared does not make sense
    │   ├── SchemaError          attributes, values, bins, levels
    │   ├── WorkloadError        tables, weights, ranges
    │   ├── GuaranteeError       epsilon, delta, rho, neighbors, rows per person
    │   └── SpecError            a spec.toml: unreadable, unknown key, wrong type
    ├── PlanError            no plan can be made: unknown strategy, or one that cannot answer the workload
    ├── DataError            records that cannot be read, or that a policy of the schema refuses; quotes no value
    ├── LedgerError          a ledger that cannot be read or written, was changed, or is another's; a step out of order
    ├── QueryError           a question that a release cannot answer
    ├── ArtifactError        an artifact or an export that cannot be written, cannot be read, or was changed
    ├── DraftError           a schema drafted from data was not confirmed by a person
    └── MissingExtraError    an optional library is needed and not installed

The command line catches PrivcubeError once, prints its one sentence and exits with code 2.
"""

from __future__ import annotations

import copyreg
import difflib
from collections.abc import Iterable
from typing import Final

_MOST_NAMED: Final = 12
_LONGEST_QUOTE: Final = 80
_NOTHING: Final = object()


class PrivcubeError(Exception):
    """Root of all errors raised on purpose.

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
        # Rebuilt without __init__, whose arguments are gone: an error must survive the way back from a worker process.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class DeclarationError(PrivcubeError, ValueError):
    """Something the user declared does not make sense."""


class SchemaError(DeclarationError):
    """Attributes, values, bins or levels."""


class WorkloadError(DeclarationError):
    """Tables, weights or ranges."""


class GuaranteeError(DeclarationError):
    """Epsilon, delta, rho, neighbors or rows per person."""


class SpecError(DeclarationError):
    """A spec.toml that cannot be read, has an unknown key or a value of the wrong type."""


class PlanError(PrivcubeError):
    """No plan can be made from what was asked."""


class DataError(PrivcubeError):
    """Records that cannot be read, or that a policy of the schema refuses; the message quotes no value."""


class LedgerError(PrivcubeError):
    """A ledger that cannot be read or written, was changed, or is another's; or a step of a release out of order."""


class QueryError(PrivcubeError):
    """A question that a release cannot answer."""


class ArtifactError(PrivcubeError):
    """An artifact or an export that cannot be written, cannot be read, or was changed."""


class DraftError(PrivcubeError):
    """A schema drafted from data was not confirmed by a person."""


class MissingExtraError(PrivcubeError):
    """An optional library is needed and not installed."""


class Plain(str):
    """Words of ours in a message, not of the user: they stand without quotation marks.

    >>> print(PlanError("tables", expected="at least one", given=Plain("none")))
    tables: expected at least one, given none
    """

    __slots__ = ()

    def __repr__(self) -> str:
        # Names of attributes may stand in it, and those may hold what moves a terminal's cursor.
        return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in self)


def quoted(value: object) -> str:
    """The value as Python would write it, cut to a line."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, or tables nested by the thousand
        text = f"a {type(value).__name__} too long to show"
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}... ({len(text):,} characters)"


def counted(number: int) -> str:
    """A whole number of any length, for people.

    >>> counted(1234567), counted(10**40)
    ('1,234,567', 'about 1e40')
    """
    if number < 10**15:
        return f"{number:,}"
    return f"about 1e{int(number.bit_length() * 0.30103)}"


def listed(names: Iterable[str]) -> str:
    """A few names and how many more there are."""
    known = list(names)
    shown = ", ".join(known[:_MOST_NAMED]) if known else "nothing"
    return shown if len(known) <= _MOST_NAMED else f"{shown} and {len(known) - _MOST_NAMED:,} more"
