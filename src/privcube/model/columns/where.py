"""Which records a release is about: conditions on columns, each looked at one record at a time. Zone: PUBLIC.

A condition is an attribute that is not published and drops every record it does not declare, so that it is coded like
any other, by every engine (`privcube.sensitive.coding`). No SQL is taken from a spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from privcube.errors import SchemaError
from privcube.model.amounts import Amount, decimal_text, exact
from privcube.model.attribute import Attribute
from privcube.model.columns.dates import Dates
from privcube.model.columns.spelling import MISSING
from privcube.model.levels import Label

_FORMS: Final = (
    'a list of values ["DE", "AT"], a range of numbers {from = 18, below = 65}, or of days '
    '{first = "2024-01-01", last = "2024-12-31"}, where one end is enough'
)
_NUMBERS: Final = frozenset({"from", "below"})
_DAYS: Final = frozenset({"first", "last"})
_DROPS: Final[dict[str, Any]] = {"missing": "drop", "other": "drop"}


@dataclass(frozen=True)
class Condition:
    """What a record must say for it to count: one of some values, a number within a range, or a day."""

    name: str
    asked: tuple[Label, ...] | tuple[tuple[str, object], ...]

    @classmethod
    def of(cls, name: str, asked: object) -> Condition:
        """A condition as a spec writes it.

        >>> Condition.of("country", ["DE", "AT"]).document
        ['DE', 'AT']
        """
        if isinstance(asked, list | tuple) and asked:
            return cls(name, tuple(asked))
        if isinstance(asked, Mapping) and asked and (asked.keys() <= _NUMBERS or asked.keys() <= _DAYS):
            subject = f"where, {name!r}"
            ends = {key: _end(subject, key, end) for key, end in asked.items()}
            return cls(name, tuple(sorted(ends.items(), reverse=True)))
        raise SchemaError(f"where, {name!r}", expected=_FORMS, given=asked)

    @property
    def document(self) -> list[Label] | dict[str, object]:
        """As a spec writes it."""
        ends = self._ends
        if ends:
            return {key: _written(end) for key, end in ends.items()}
        return list(self.asked)  # type: ignore[arg-type]

    @property
    def _ends(self) -> dict[str, Any]:
        return dict(self.asked) if isinstance(self.asked[0], tuple) else {}

    def as_attribute(self, known: Mapping[str, Attribute]) -> Attribute:
        """The attribute that drops every other record; one that is declared lends its column and its spellings."""
        own = known.get(self.name)
        reading: dict[str, Any] = {"name": self.name, **_DROPS}
        if own is not None:
            spelled = {label: texts for label, texts in own.raw if label == MISSING or label in map(_said, self.asked)}
            reading |= {"column": own.column, "trim": own.trim, "raw": spelled}
        try:
            return Attribute(**reading, **self._declared(own))
        except SchemaError as problem:
            raise SchemaError(f"where, {problem.subject}", expected=problem.expected) from None

    def _declared(self, own: Attribute | None) -> dict[str, Any]:
        """What the condition asks for, as an attribute declares it."""
        ends = self._ends
        if ends.keys() & _DAYS:
            first, last = ends.get("first", ends.get("last")), ends.get("last", ends.get("first"))
            form = "iso" if own is None or own.dates is None else own.dates.format
            days = Dates(by="day", first=first, last=last, format=form)
            return {"dates": days, **_outside(ends, "first", "last")}
        if ends:
            low = ends["from"] if "from" in ends else ends["below"] - 1
            high = ends["below"] if "below" in ends else low + 1
            return {"bins": [low, high], **_outside(ends, "from", "below")}
        if own is not None and own.values is not None:
            self._check_declared(own)
        return {"values": list(self.asked), "case": "exact" if own is None else own.case}

    def _check_declared(self, own: Attribute) -> None:
        for value in self.asked:
            if value not in (own.values or ()):
                raise SchemaError(
                    f"{self.name!r}",
                    expected="values that the attribute declares",
                    given=value,
                    available=map(str, own.values or ()),
                )


def conditions(where: object) -> tuple[Condition, ...]:
    """The conditions of a table from names of columns to what they must say."""
    if not isinstance(where, Mapping):
        raise SchemaError("where", expected='a table such as {country = ["DE", "AT"]}', given=where)
    return tuple(Condition.of(name, asked) for name, asked in where.items())


def _said(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _outside(ends: Mapping[str, object], low: str, high: str) -> dict[str, str]:
    """Beyond an end that is not given, everything counts."""
    return {"underflow": "drop" if low in ends else "clamp", "overflow": "drop" if high in ends else "clamp"}


def _end(subject: str, key: str, end: Any) -> object:
    if key in _NUMBERS:
        amount: Amount = end
        return exact(amount, f"{subject}, {key}", SchemaError)
    try:
        return Dates(by="day", first=end, last=end).document["first"]
    except SchemaError as problem:
        raise SchemaError(f"{subject}, {key}", expected=problem.expected, given=end) from None


def _written(end: object) -> object:
    return decimal_text(end) if isinstance(end, Fraction) else end
