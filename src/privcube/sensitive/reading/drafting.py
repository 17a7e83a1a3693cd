"""A draft of a schema read off the data, marked as a draft. Zone: SENSITIVE.

The values that occur are themselves sensitive (a rare diagnosis tells that someone has it), so every attribute carries
`draft = true`, which a release refuses until a person has confirmed that the values are public knowledge. A column that
no attribute can be drafted from stops nothing: it is named with the reason, which holds no value.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from privcube.errors import Plain, SchemaError
from privcube.model.attribute import Attribute, Policy
from privcube.model.columns.dates import DateFormat, Dates
from privcube.model.columns.spelling import MEANS_MISSING, MISSING, cleaned
from privcube.model.levels import check_name
from privcube.sensitive.coding import ColumnKind
from privcube.sensitive.engine import Engine
from privcube.sensitive.reading.inquiry import Inquiry, inquiry_into
from privcube.sensitive.reading.questions import days_between, frequent_texts, numbers_between

RECORDS: Final = 1_000_000  # that a draft is made from
_MOST_VALUES: Final = 100
_MOST_IN_A_ROW: Final = 30  # whole numbers that are values of their own; more, such as ages, become intervals
_LOOKED_AT: Final = 1_000  # texts of a column, the most frequent ones
_BINS: Final = 10
_NEARLY_ALL: Final = 0.9  # of the texts of a column of numbers or dates are some
_NAMED: Final = 3  # columns, where none can be drafted
_NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
DRESSED: Final = re.compile(r"[+-]?[$€£]? ?([0-9]{1,3}([,.' ][0-9]{3})+|[0-9]+)([.,][0-9]*)?( ?[%$€£])?")
_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")
_TIME: Final = r"([ T].*)?"
_FORMS: Final[dict[DateFormat, re.Pattern[str]]] = {
    "iso": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}" + _TIME),
    "day first": re.compile(r"[0-3]?[0-9][./-][01]?[0-9][./-][0-9]{4}" + _TIME),
    "month first": re.compile(r"[01]?[0-9][./-][0-3]?[0-9][./-][0-9]{4}" + _TIME),
    "compact": re.compile(r"(19|20)[0-9]{2}[01][0-9][0-3][0-9]"),
}
_NAMES_PEOPLE: Final = re.compile(
    r"(.*[_. -])?(id|pid|uid|ssn|mrn|nhs|person|patient|subject|customer|client|member|user|employee|household)"
    r"([_. -]?(id|no|nr|num|number|key|code))?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Told:
    """What a column says: its frequent texts, how many different ones there are, and whether values are missing.

    `gone` are texts that stand for a missing value, such as n/a among numbers, and `odd` are others among numbers or
    dates; neither are among `texts`.
    """

    texts: tuple[str, ...]
    times: dict[str, int]
    different: int
    records: int
    has_missing: bool
    gone: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()

    @property
    def nearly_unique(self) -> bool:
        """Whether hardly any text occurs twice, as in identifiers."""
        return self.different >= max(20, 0.9 * self.records)

    def measured(self, kind: ColumnKind) -> Told:
        """The same, with the few texts told apart that are neither numbers nor dates where nearly all others are."""
        shapes = _FORMS.values() if _may_be_dates(kind) else ()
        fitting = [tuple(filter(shape.fullmatch, self.texts)) for shape in shapes]
        fitting.append(tuple([text for text in self.texts if _is_number(text, kind)]))
        texts = max(fitting, key=len)
        if len(texts) < _NEARLY_ALL * len(self.texts):
            return self
        rest = tuple([text for text in self.texts if text not in set(texts)])
        gone = tuple([text for text in rest if text.strip().casefold() in MEANS_MISSING])
        odd = tuple([text for text in rest if text not in gone])
        missing = self.has_missing or bool(gone)
        left = self.different - len(rest)
        return replace(self, texts=texts, different=left, has_missing=missing, gone=gone, odd=odd)


@dataclass(frozen=True)
class Draft:
    """Attributes for the columns that allow it, reasons for those that do not, and a column that may name people."""

    attributes: tuple[Attribute, ...]
    left_out: tuple[tuple[str, str], ...]
    person: str | None


def draft_of(engine: Engine) -> Draft:
    """Attributes with the values found in a source; errors and reasons name columns, never values."""
    attributes: list[Attribute] = []
    left_out: list[tuple[str, str]] = []
    with inquiry_into(engine) as inquiry:
        times = Counter(name for name, _ in inquiry.columns)
        kinds = {name: kind for name, kind in inquiry.columns if kind is not None and times[name] == 1}
        told = _told(inquiry, kinds) if kinds else {}
        for name, kind in inquiry.columns:
            try:
                check_name("name of a column", name)
                if times[name] > 1:
                    raise SchemaError(f"column {name!r}", expected="one column of that name")
                if kind is None:
                    raise SchemaError(f"column {name!r}", expected="text, numbers, booleans or dates")
                attributes.append(_attribute(inquiry, name, kind, told[name]))
            except SchemaError as problem:
                reason = (name, problem.expected if problem.subject.startswith("column") else "plain, short text")
                left_out += [] if reason in left_out else [reason]
        if not attributes:
            why = "; ".join(f"column {name!r}, which would need {reason}" for name, reason in left_out[:_NAMED])
            raise SchemaError(
                inquiry.name, expected="at least one column that an attribute can be drafted from", given=Plain(why)
            )
    people = [name for name, _ in left_out if name in kinds and _NAMES_PEOPLE.fullmatch(name)]
    return Draft(tuple(attributes), tuple(left_out), people[0] if people else None)


def _told(inquiry: Inquiry, kinds: dict[str, ColumnKind]) -> dict[str, Told]:
    names = list(kinds)
    source, dialect = inquiry.opened(names)
    rows = inquiry.rows(frequent_texts(source, kinds, dialect, RECORDS, _LOOKED_AT))
    texts: dict[str, dict[str, int]] = {name: {} for name in names}
    different, records, missing = dict.fromkeys(names, 0), dict.fromkeys(names, 0), dict.fromkeys(names, False)
    for number, text, times, unlike, total in rows:
        name = names[number]
        different[name], records[name] = unlike, total
        if text is None or not text.strip():
            missing[name] = True
        else:
            texts[name][text] = times
    return {
        name: Told(tuple(sorted(texts[name])), texts[name], different[name], records[name], missing[name])
        for name in names
    }


def _attribute(inquiry: Inquiry, name: str, kind: ColumnKind, told: Told) -> Attribute:
    """The attribute, or an error that does not pass on what the schema says of a value.

    Where nearly all texts are dates, or many different numbers, n/a and the like are missing, and the rest is (other).
    """
    known = told.measured(kind)
    found = _bins_or_months(inquiry, name, kind, known)
    if found is None:
        return _listed(name, kind, told)
    raw = ((MISSING, known.gone),) if known.gone else ()
    return replace(found, raw=raw, other="category" if known.odd else found.other)


def _bins_or_months(inquiry: Inquiry, name: str, kind: ColumnKind, told: Told) -> Attribute | None:
    """The attribute of a column of dates, or of many numbers; None if it is neither."""
    subject = f"column {name!r}"
    missing: Policy = "category" if told.has_missing else "refuse"
    many = told.different > _MOST_VALUES
    if not told.texts:
        raise SchemaError(subject, expected="at least one value; all are missing")
    if (many or told.nearly_unique) and _NAMES_PEOPLE.fullmatch(name):
        raise SchemaError(subject, expected="something to publish; it looks like an identifier (see person)")
    form = _form(kind, told.texts)
    if form is not None and (many or kind in ("timestamp", "instant") or form == "iso"):
        return _by_month(inquiry, name, kind, form, missing)
    numbers = all(_is_number(text, kind) for text in told.texts)
    if numbers and (many or _in_a_row(told.texts)):
        source, dialect = inquiry.opened([name])
        ((low, high),) = inquiry.rows(numbers_between(source, name, kind, dialect))
        if low is not None and max(abs(low), abs(high)) < 1e15:
            edges = _round_edges(Decimal(repr(float(low))), Decimal(repr(float(high))))
            return Attribute(name, bins=edges, underflow="clamp", overflow="clamp", missing=missing, draft=True)
    return None


def _listed(name: str, kind: ColumnKind, told: Told) -> Attribute:
    """The attribute with the values that occur, once each."""
    subject = f"column {name!r}"
    missing: Policy = "category" if told.has_missing else "refuse"
    with_comma = [text for text in told.texts if _is_number(text, "comma")]
    if told.different > _MOST_VALUES and kind == "text" and len(with_comma) >= _NEARLY_ALL * len(told.texts):
        raise SchemaError(
            subject,
            expected="a decimal point in its numbers; they seem to have a comma. If so, draft it again with "
            '`privcube init --decimal ,`, which writes decimal = "," into [data]',
        )
    many = told.different > _MOST_VALUES
    if many and kind == "text" and 2 * sum(map(_may_be_number, told.texts)) > len(told.texts):
        raise SchemaError(
            subject,
            expected="plain numbers throughout: no signs of thousands, percent or money, and nothing but numbers. "
            'Without them, or where `other` and `missing` are "category", declare bins, or [[measures]] for its sums',
        )
    if many:
        what = "an identifier or free text" if told.nearly_unique else "free text"
        raise SchemaError(
            subject,
            expected=f"at most {_MOST_VALUES} different values, numbers or dates; it looks like {what}. To publish it, "
            "declare values, or values_from a file",
        )
    try:
        spelled = _spelled_once(told)
        values = _values(kind, tuple(spelled))
        if len(spelled) == len(told.texts):
            return Attribute(name, values=values, missing=missing, draft=True)
        return Attribute(name, values=values, missing=missing, trim=True, case="fold", draft=True)
    except SchemaError:
        raise SchemaError(subject, expected="values without control characters, of at most 1,000 characters") from None


def _spelled_once(told: Told) -> list[str]:
    """The texts; if capitals or blanks alone set some of them apart, the most frequent of these, without the blanks."""
    alike: dict[str, list[str]] = {}
    for text in sorted(told.texts, key=lambda text: -told.times[text]):
        alike.setdefault(cleaned(text, trim=True, case="fold"), []).append(text)
    if len(alike) == len(told.texts):
        return list(told.texts)
    return [cleaned(texts[0], trim=True, case="exact") for texts in alike.values()]


def _is_number(text: str, kind: ColumnKind) -> bool:
    return _NUMBER.fullmatch(text.replace(",", ".", 1) if kind == "comma" else text) is not None


def _may_be_dates(kind: ColumnKind) -> bool:
    return kind not in ("float", "decimal", "boolean")


def _in_a_row(texts: Sequence[str]) -> bool:
    """Whether these are many whole numbers that leave few out: ages do, codes of places or products hardly ever."""
    if len(texts) <= _MOST_IN_A_ROW or not all(map(_WHOLE.fullmatch, texts)):
        return False
    numbers = set(map(int, texts))
    return 2 * len(numbers) > max(numbers) - min(numbers)


def _may_be_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None or DRESSED.fullmatch(text) is not None


def _form(kind: ColumnKind, texts: Sequence[str]) -> DateFormat | None:
    """How dates are written, if all texts are dates."""
    if not _may_be_dates(kind):
        return None
    return next((form for form, shape in _FORMS.items() if all(map(shape.fullmatch, texts))), None)


def _by_month(inquiry: Inquiry, name: str, kind: ColumnKind, form: DateFormat, missing: Policy) -> Attribute:
    """Months of whole years, from the first to the last that occur."""
    source, dialect = inquiry.opened([name])
    dates = Dates(by="day", first="2000-01-01", last="2000-01-01", format=form)
    ((first, last),) = inquiry.rows(days_between(source, name, kind, dialect, dates))
    if first is None:
        raise SchemaError(f"column {name!r}", expected="dates of one form, such as 2024-01-31")
    months = Dates(by="month", first=f"{int(first):04d}-01", last=f"{int(last):04d}-12", format=form)
    return Attribute(name, dates=months, underflow="clamp", overflow="clamp", missing=missing, draft=True)


def _values(kind: ColumnKind, texts: Sequence[str]) -> list[str] | list[int] | list[bool]:
    if kind == "boolean":
        return [False, True]
    plain = [text.removesuffix(".0") for text in texts] if kind in ("float", "decimal") else list(texts)
    if all(map(_WHOLE.fullmatch, plain)):
        return sorted(set(map(int, plain)))
    return sorted(set(plain))


def _round_edges(low: Decimal, high: Decimal) -> list[int | Decimal]:
    """About ten intervals of a round width that cover low to high."""
    span = max(high - low, Decimal(1))
    unit = Decimal(10) ** math.floor((span / _BINS).log10())
    width = next(unit * step for step in (1, 2, 5, 10) if unit * step * _BINS >= span)
    first = (low / width).to_integral_value(rounding="ROUND_FLOOR") * width
    edges = [first]
    while edges[-1] <= high:
        edges.append(edges[-1] + width)
    return [int(edge) if edge == edge.to_integral_value() else edge.normalize() for edge in edges]
