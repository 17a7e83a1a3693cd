"""Columns that need cleaning before they say what is declared: spellings, dates, records to leave out."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

from factories import Columns

from privcube import Attribute, Dates

TEXTS = [
    *(
        "Yes",
        "yes",
        "YES",
        " yes",
        "yes ",
        "\tyes\n",
        "\u00a0yes\u00a0",
        "y",
        "Y",
        "1",
        "No",
        "NO",
        "n",
        "N/A",
        "n/a",
        "?",
    ),
    *("\u00c9t\u00e9", "\u00e9T\u00c9", "E\u0301t\u00e9", "STRASSE", "stra\u00dfe", "STRA\u1e9eE", "Stra\u00dfe"),
    *(
        "\u0130",
        "i",
        "I",
        "\u0131",
        "\u212a",
        "k",
        "K",
        "\u03a3",
        "\u03c3",
        "\u03c2",
        "",
        " ",
        "\u00a0",
        None,
        "other",
        "-9",
    ),
    *("\u01c5", "\u01c4", "\u01c6", "ye s", "\ufeffyes", "it's", "IT'S", "a,b", "A,B", "-9 ", "99"),
]
NUMBERS = ["1", " 1", "1 ", "-9", "99", "0.5", "\u00a00.5", "nan", "NaN ", "7", "", None, " inf", "x", "\t", "-9.0"]
DATES = [
    *("2024-01-31", "2024-02-29", "2023-02-29", "1900-02-29", "2000-02-29", "2024-02-30", "2024-04-31", "2024-13-01"),
    *("2024-00-10", "2024-01-00", "0001-01-01", "0000-01-01", "9999-12-31", "2023-12-31", "2024-12-31", "2025-01-01"),
    *("2024-01-31 23:59:59", "2024-01-31T00:00", "2024-01-31 24:00:00", "2024-01-31 12:60", "2024-01-31 9:00"),
    *("2024-01-31 12:34:56.789", "2024-01-31T12:34:56Z", "2024-01-31 12:34:56+02:00", "2024-01-31 12:34:56 UTC"),
    *("31.01.2024", "1.2.2024", "01/02/2024", "2/29/2024", "29/2/2024", "31-12-2023", "12-31-2023", "1.2.24"),
    *("31.01.2024 08:15", "1.2.2024 8:15", "20240131", "20240230", "20231231 07:00", "2024013", "202401311"),
    *(" 2024-01-31", "2024-01-31 ", "2024-1-31", "2024/01/31", "NaT", "never", "", " ", None, "2024-01", "2024"),
    *(
        "2024-01-31 12:34:56,7",
        "2024-01-3\u0661",
        "-2024-01-31",
        "+2024-01-31",
        "2024-01-31\n",
        "infinity",
        "12024-01-01",
    ),
]
DAYS = [None, *map(date.fromisoformat, ("2024-01-31", "2024-02-29", "0001-01-01", "2023-12-31", "9999-12-31"))]
MOMENTS = [
    None,
    *map(
        datetime.fromisoformat,
        ("2024-01-31 23:59:59.999999", "2024-02-29 00:00:00", "2023-12-31 22:30:00", "1999-12-31 12:00:00.5"),
    ),
    datetime(2025, 1, 1),
]
INSTANTS = [
    None if moment is None else moment.replace(tzinfo=zone)
    for moment in MOMENTS
    for zone in (UTC, timezone(timedelta(hours=-5)))
]
VALUES: dict[str, tuple[str, list[Any]]] = {
    "texts": ("text", TEXTS),
    "numbers": ("text", NUMBERS),
    "codes": ("integer", [1, -9, 99, 0, 7, None]),
    "floats": ("float", [1.0, -9.0, 99.0, 0.5, float("nan"), None]),
    "flags": ("boolean", [True, False, None]),
    "dates": ("text", DATES),
    "compact": ("integer", [20240131, 20240230, 0, 20231231, None, -20240131]),
    "compact floats": ("float", [20240131.0, 20240230.0, float("nan"), 20231231.0, None, 0.5]),  # as pandas has them
    "days": ("date", DAYS),
    "moments": ("timestamp", MOMENTS),
    "instants": ("instant", INSTANTS),
}
WHOLE: dict[str, Any] = {"missing": "category", "other": "category"}
ENDS: dict[str, Any] = {"underflow": "category", "overflow": "category"}
RAW = {"yes": ["Y", "1"], "no": ["n"], "(missing)": ["N/A", "?", "-9"]}
LETTERS = ["yes", "no", "\u00e9t\u00e9", "strasse", "stra\u00dfe", "\u0130", "k", "\u03c3", "\u01c6", "It's", "A,b"]
SPELLED: dict[str, dict[str, Any]] = {
    "raw": {"values": ["yes", "no"], "raw": RAW},
    "raw and trimmed": {"values": ["yes", "no"], "raw": RAW, "trim": True},
    "raw and folded": {"values": ["yes", "no", "other"], "raw": RAW, "case": "fold"},
    "all of it": {"values": LETTERS, "raw": RAW, "case": "fold", "trim": True},
    "flags": {"values": [True, False], "raw": {"true": ["yes", "1"], "false": ["no"]}, "case": "fold", "trim": True},
    "codes": {"values": [0, 1, 2, 7], "raw": {"1": ["yes"], "(missing)": ["-9", "99"]}, "trim": True},
    "size": {"size": 100, "raw": {"(missing)": ["99", "-9"]}, "trim": True},
    "bins": {"bins": [0, 1, 100], "raw": {"(missing)": ["99", "-9"]}, "trim": True, **ENDS},
}
PERIODS: dict[str, tuple[Any, Any]] = {
    "day": ("2023-12-30", "2024-03-01"),
    "week": ("2023-12-25", "2024-03-01"),
    "month": ("2023-12", "2024-12"),
    "quarter": ("2023-10", "2024-12"),
    "year": (2000, 2024),
}
PARTS = ("quarter of year", "month of year", "day of month", "weekday", "hour")


def spellings_and_dates() -> tuple[list[Attribute], Columns]:
    """Every way of cleaning over every column that it may meet; several attributes share a column."""
    attributes = [
        Attribute(f"{title} of {column}", column=column, **declared, **WHOLE)
        for title, declared in SPELLED.items()
        for column in ("texts", "numbers", "codes", "floats", "flags")
    ]
    for form in ("iso", "day first", "month first", "compact"):
        others = {"iso": ("days", "moments", "instants"), "compact": ("compact", "compact floats")}
        for column in ("dates", *others.get(form, ())):
            attributes += [
                Attribute(
                    f"{by} of {column}, {form}",
                    column=column,
                    dates=Dates(by=by, first=first, last=last, format=form),  # type: ignore[arg-type]
                    trim=by == "year",
                    **WHOLE,
                    **ENDS,
                )
                for by, (first, last) in PERIODS.items()
            ]
            attributes += [
                Attribute(f"{by} of {column}, {form}", column=column, dates=Dates(by=by, format=form), **WHOLE)  # type: ignore[arg-type]
                for by in PARTS
            ]
    rows = max(len(values) for _, values in VALUES.values())
    return attributes, {
        name: (kind, [values[row % len(values)] for row in range(rows)]) for name, (kind, values) in VALUES.items()
    }
