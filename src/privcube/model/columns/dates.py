"""Dates and timestamps as cells of an attribute: periods that follow one another, or parts that recur. Zone: PUBLIC."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final, Literal, get_args

from privcube.errors import Plain, SchemaError

Period = Literal["day", "week", "month", "quarter", "year"]
DatePart = Literal["quarter of year", "month of year", "day of month", "weekday", "hour"]
DateFormat = Literal["iso", "day first", "month first", "compact"]

_MOST_PERIODS: Final = 100_000  # 270 years of days: each is a cell
_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_LONGER: Final[dict[str, tuple[str, ...]]] = {  # weeks lie across months, so nothing is made of whole weeks
    "day": ("week", "month", "quarter", "year"),
    "month": ("quarter", "year"),
    "quarter": ("year",),
}
_FIRST_PART: Final = {"quarter of year": 1, "month of year": 1, "day of month": 1, "weekday": 0, "hour": 0}
_PART_LABELS: Final[dict[str, tuple[str, ...]]] = {
    "quarter of year": ("Q1", "Q2", "Q3", "Q4"),
    "month of year": _MONTHS,
    "day of month": tuple(map(str, range(1, 32))),
    "weekday": _WEEKDAYS,
    "hour": tuple(map(str, range(24))),
}
_WRITTEN: Final = {
    "day": "a day such as 2024-01-31",
    "week": "a day of the week such as 2024-01-31",
    "month": "a month such as 2024-01",
    "quarter": "a month of the quarter such as 2024-01",
    "year": "a year such as 2024",
}


@dataclass(frozen=True, init=False)
class Dates:
    """Dates or timestamps by period, from the first to the last inclusive, or by a part that recurs, such as weekday.

    >>> Dates(by="quarter", first="2023-10", last="2024-06").labels
    ('2023-Q4', '2024-Q1', '2024-Q2')
    >>> Dates(by="weekday").labels[0], Dates(by="month", first="2024-01", last="2024-12").labels[-1]
    ('Monday', '2024-12')
    """

    by: Period | DatePart
    first: int | None  # numbers of periods (`period_of`)
    last: int | None
    format: DateFormat

    def __init__(
        self,
        *,
        by: Period | DatePart,
        first: str | int | date | None = None,
        last: str | int | date | None = None,
        format: DateFormat = "iso",
    ) -> None:
        known = (*get_args(Period), *get_args(DatePart))
        if by not in known:
            raise SchemaError("dates, by", expected="a period or a part of dates", given=by, available=known)
        if format not in get_args(DateFormat):
            raise SchemaError(
                "dates, format", expected="a known form", given=format, available=list(get_args(DateFormat))
            )
        recurs = by in get_args(DatePart)
        if recurs and (first is not None or last is not None):
            raise SchemaError("dates", expected=f"no first and last, as every {by} is counted")
        object.__setattr__(self, "by", by)
        object.__setattr__(self, "first", None if recurs else _checked_period("dates, first", by, first))
        object.__setattr__(self, "last", None if recurs else _checked_period("dates, last", by, last))
        object.__setattr__(self, "format", format)
        if self.first is not None and self.last is not None and not 0 <= self.last - self.first < _MOST_PERIODS:
            raise SchemaError(
                "dates",
                expected=f"a last {by} that is not before the first, and at most {_MOST_PERIODS:,} of them",
                given=Plain(f"{period_label(by, self.first)} to {period_label(by, self.last)}"),
            )

    @property
    def recurs(self) -> bool:
        """Whether the cells are parts that every date has, such as weekdays: then no date lies outside of them."""
        return self.first is None

    @property
    def offset(self) -> int:
        """The number of the first cell: of its period, or of the first part."""
        return _FIRST_PART[self.by] if self.first is None else self.first

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the cells."""
        if self.first is None or self.last is None:
            return _PART_LABELS[self.by]
        return tuple(period_label(self.by, number) for number in range(self.first, self.last + 1))

    @property
    def document(self) -> dict[str, str]:
        """As it is declared in a document."""
        ends = {"first": self.first, "last": self.last}
        declared = {key: _written(self.by, number) for key, number in ends.items() if number is not None}
        return {"by": self.by, **declared, **({} if self.format == "iso" else {"format": self.format})}

    def starts_of(self, subject: str, by: str) -> tuple[list[int], list[str]]:
        """Where longer periods begin among the cells, and their names.

        >>> Dates(by="month", first="2023-11", last="2024-02").starts_of("level", "year")
        ([0, 2], ['2023', '2024'])
        """
        longer = _LONGER.get(self.by, ())
        if by not in longer or self.first is None or self.last is None:
            raise SchemaError(subject, expected=f"a period made of whole {self.by}s", given=by, available=longer)
        found = [period_of(by, _day_in(self.by, number)) for number in range(self.first, self.last + 1)]
        starts = [at for at, number in enumerate(found) if at == 0 or number != found[at - 1]]
        return starts, [period_label(by, found[at]) for at in starts]


def period_of(by: str, day: date) -> int:
    """The number of the period that a day lies in; those that follow one another have consecutive numbers."""
    if by == "day":
        return day.toordinal()
    if by == "week":
        return (day.toordinal() - 1) // 7  # 0001-01-01 was a Monday
    months = day.year * 12 + day.month - 1
    return {"month": months, "quarter": months // 3, "year": day.year}[by]


def period_label(by: str, number: int) -> str:
    """How a period is called.

    >>> [period_label(by, period_of(by, date(2024, 1, 31))) for by in ("day", "week", "month", "quarter", "year")]
    ['2024-01-31', '2024-W05', '2024-01', '2024-Q1', '2024']
    """
    day = _day_in(by, number)
    if by == "week":
        year, week, _ = day.isocalendar()
        return f"{year:04d}-W{week:02d}"
    return f"{day.year:04d}-Q{(day.month + 2) // 3}" if by == "quarter" else _written(by, number)


def _written(by: str, number: int) -> str:
    """A period as it is declared: a week or quarter by its beginning."""
    whole = _day_in(by, number).isoformat()
    return whole[:4] if by == "year" else whole[:7] if by in ("month", "quarter") else whole


def _day_in(by: str, number: int) -> date:
    """The first day of a period."""
    if by == "day":
        return date.fromordinal(number)
    if by == "week":
        return date.fromordinal(1) + timedelta(days=7 * number)
    months = {"month": number, "quarter": 3 * number, "year": 12 * number}[by]
    return date(months // 12, months % 12 + 1, 1)


def _checked_period(subject: str, by: str, given: object) -> int:
    text = str(given) if isinstance(given, str | int | date) and not isinstance(given, bool) else ""
    parts = text[:10].split("-")
    try:
        if list(map(len, parts)) not in ([4], [4, 2], [4, 2, 2]) or not text.isascii() or len(text) > 10:
            raise ValueError
        day = date(*(int(part) for part in [*parts, "01", "01"][:3]))
    except ValueError:
        raise SchemaError(subject, expected=_WRITTEN[by], given=Plain("nothing") if given is None else given) from None
    if by in ("day", "week") and len(parts) < 3:
        raise SchemaError(subject, expected=_WRITTEN[by], given=given)
    return period_of(by, day)
