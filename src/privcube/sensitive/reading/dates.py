"""Dates in SQL that PostgreSQL and DuckDB understand alike, and that never fails on a record. Zone: SENSITIVE.

Whatever form the data has, a date is first brought into the form 2024-01-31, with the time behind it. A pattern then
says whether there is such a day, also whether it is a leap year, so that the cast to a date cannot fail. Dates are of
the Gregorian calendar, in all years from 1 to 9999.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from privcube.model.columns.dates import Dates

if TYPE_CHECKING:
    from privcube.sensitive.coding import Dialect

_LEAP_YEAR: Final = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DAY: Final = (
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    f"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
_TIME: Final = (
    "(?:[ T](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.,][0-9]{1,12})?)?"
    "(?: ?(?:Z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?))?)"
)
_APART: Final = "([0-9]{1,2})[./-]([0-9]{1,2})[./-]([0-9]{4})(.*)"  # day and month, or month and day


def date_or_hour(dates: Dates, text: str, dialect: Dialect) -> str:
    """The day that a text says as a DATE, or the hour as a number; NULL if it says none."""
    iso = _iso(dates, text, dialect)
    after_year_0 = f"{iso} >= '0001'"
    if dates.by == "hour":
        stated = f"{dialect.matches(iso, _DAY + _TIME)} AND {after_year_0}"
        return f"CAST(CASE WHEN {stated} THEN substr({iso}, 12, 2) END AS INT8)"
    stated = f"{dialect.matches(iso, _DAY + _TIME + '?')} AND {after_year_0}"
    return f"CAST(CASE WHEN {stated} THEN substr({iso}, 1, 10) END AS DATE)"


def number_of_period(dates: Dates, value: str) -> str:
    """The number of the period or part that a day lies in, as `privcube.model.columns.dates.period_of` has it."""
    days = f"({value} - DATE '0001-01-01')"
    year, month, quarter, day, weekday = (
        f"CAST(extract({part} FROM {value}) AS INT8)" for part in ("year", "month", "quarter", "day", "isodow")
    )
    return {
        "day": f"({days} + 1)",
        "week": f"CAST(floor({days} / 7.0) AS INT8)",
        "month": f"({year} * 12 + {month} - 1)",
        "quarter": f"({year} * 4 + {quarter} - 1)",
        "year": year,
        "quarter of year": quarter,
        "month of year": month,
        "day of month": day,
        "weekday": f"({weekday} - 1)",
        "hour": value,
    }[dates.by]


def _iso(dates: Dates, text: str, dialect: Dialect) -> str:
    """A text with its date in the form 2024-01-31; what is no date does not become one."""
    if dates.format == "iso":
        return text
    if dates.format == "compact":
        pieces = [f"substr({text}, {place})" for place in ("1, 4", "5, 2", "7, 2")]
        dashed = " || '-' || ".join(pieces)
        return f"({dashed} || substr({text}, 9))"
    day, month = (1, 2) if dates.format == "day first" else (2, 1)
    two_digits = [f"lpad({dialect.part(text, _APART, place)}, 2, '0')" for place in (month, day)]
    year, rest = (dialect.part(text, _APART, place) for place in (3, 4))
    return f"({' || '.join([year, repr('-'), two_digits[0], repr('-'), two_digits[1], rest])})"
