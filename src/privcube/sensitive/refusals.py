"""What an engine says when it stops: fixed sentences that name columns and sources, never values. Zone: SENSITIVE."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from privcube.errors import DataError, Plain, PrivcubeError
from privcube.model.attribute import Attribute
from privcube.sensitive.coding import ColumnKind
from privcube.sensitive.engine import CountRequest


@contextmanager
def without_quotes(subject: str, expected: str) -> Iterator[None]:
    """Replace whatever a library raises, which may quote records, by one sentence."""
    try:
        yield
    except PrivcubeError:
        raise
    except Exception:
        plain = DataError(subject, expected=expected)
        try:
            raise plain from None
        finally:
            plain.__context__ = None  # Python keeps the library's exception there, for debuggers to show


def refuse_values(attribute: Attribute) -> DataError:
    """A value that a policy refuses."""
    policies = "missing, other, underflow and overflow" if attribute.has_ends else "missing and other"
    return DataError(
        f"column {attribute.column!r}",
        expected=f"only declared values in every record, as its policies ({policies}) refuse some that it has "
        "(`privcube check` says how many)",
    )


def refuse_nobody(person: str) -> DataError:
    """A record without a person."""
    return DataError(f"column {person!r}", expected="a person in every record, as it is the protected unit")


def checked_kinds(
    subject: str, request: CountRequest, columns: Sequence[tuple[str, ColumnKind | None]]
) -> dict[str, ColumnKind]:
    """The kinds of the columns that are used; refused if the source does not fit the schema. No record is looked at.

    The columns that are there are not listed: a file without a header would have its first record quoted.
    """
    times = Counter(name for name, _ in columns)
    for name in dict.fromkeys([*(attribute.column for attribute in request.schema), *request.columns]):
        if times[name] != 1:
            alike = [other for other in times if other.strip().casefold() == name.strip().casefold()]
            # a name that differs in case or blanks says nothing new; the others are not listed
            hint = f" (but {alike[0]!r}: declare column = {alike[0]!r})" if alike and not times[name] else ""
            raise DataError(
                subject,
                expected=f"one column named {name!r}",
                given=Plain("several" if times[name] else f"none{hint}"),
            )
    kinds = dict(columns)
    for name in request.columns:
        if kinds[name] is None:
            raise DataError(f"{subject}, column {name!r}", expected="text, numbers, booleans or dates in it")
    for attribute in (*request.attributes, *request.filters):
        if attribute.dates is None and kinds[attribute.column] in ("timestamp", "instant"):
            raise DataError(
                f"{subject}, column {attribute.column!r}",
                expected='dates declared for it, as it has timestamps: dates = {by = "month", first = ..., last = ...}',
            )
    if request.person is not None and kinds[request.person] not in ("text", "comma", "integer"):
        raise DataError(f"{subject}, column {request.person!r}", expected="text or integers, to name persons")
    return {name: kind for name, kind in kinds.items() if kind is not None}
