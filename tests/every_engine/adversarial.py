"""Attributes and values that are hard to read alike: special numbers, spellings, blanks, quotes, scripts, names."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from decimal import Decimal
from itertools import product
from typing import Any

from factories import Columns
from holders import Holder
from reference import REFUSED, code_of

from privcube import Attribute, Dates
from privcube.errors import SchemaError
from privcube.model.attribute import Policy, RangePolicy
from privcube.model.measures.grid import Grid


def words(text: str) -> list[str]:
    return text.split()


BLANKS = ["", " ", "\t", " \t  ", "\n", "\r\n", "\r", "\v\f"]
NO_BLANKS = ["\u00a0", "\u2003", "\u200b", "\ufeff", "_", "."]
COMPOSED, DECOMPOSED = "\u00e9", "e\u0301"
HEBREW, ARABIC, HAN, THUMB = "\u05e9\u05dc\u05d5\u05dd", "\u0645\u0631\u062d", "\u6f22\u5b57", "\U0001f44d\U0001f3fd"
FAMILY = "\U0001f468\u200d\U0001f469"
FULL_WIDTH_01, FULL_WIDTH_5, ARABIC_5, MINUS_5 = "\uff10\uff11", "\uff15", "\u0665", "\u22125"

SPECIAL_TEXTS = [
    *words("a A i ss fi 0 1 01 1.0 true NaN nan NULL null None NA #N/A - -- /* O'Brien a,b a;b x|y a\\b \\N %s {0}"),
    *('say "hi"', '"', "'", "1 000", "'; DROP TABLE people; --", COMPOSED, DECOMPOSED, FULL_WIDTH_01, THUMB, FAMILY),
    *(
        HEBREW,
        ARABIC,
        HAN,
        "\u00df",
        "\u0130",
        "\ufb01",
    ),  # ones with other cases
]
NEAR_TEXTS = [
    *words("I SS 001 +1 1. 1.00 True TRUE tRUE t yes False FALSE false f no NAN (other) (missing) O''Brien a,b,c"),
    *("a ", " a", "\u00e1", "A\u0301", "say hi", '""', "a\nb", "a\r\nb", "a\rb", "line\n", "\nline", "01 ", "x" * 3000),
    *("\uff11", "\u0661", "\u202eabc", "\u0131"),
]
NUMBERS_AS_TEXT = [
    *words("5 05 +5 -5 5. .5 5.0 5e0 1e1 1E+1 -0 -0.0 +.5e-3 0.1 0.3 18 17.9999 00 4 1e300 -1e300 1e-300 1e308 1e309"),
    *words("0.30000000000000004 0.29999999999999999 0.29999999999999998 17.999999999999999999 -1e400 1e-400 1e999"),
    *words("inf -inf +inf Infinity -Infinity INF Inf infinity -nan +NaN 0x10 1_000 1,5 1e e5 + --5 5- 1e5.5 1.2.3"),
    *words("1e1000 1d5 5f 1e+ 9007199254740991 9007199254740993 -9223372036854775808 9223372036854775807"),
    *("9223372036854775808", "9" * 30, "9" * 31, "0." + "3" * 30, "0." + "3" * 31, "5 000", " 5", "5 ", "\t5", "5\n"),
    *("\u00bd", MINUS_5, FULL_WIDTH_5, ARABIC_5),
]

VALUES: dict[str, list[Any]] = {
    "text": [None, *BLANKS, *NO_BLANKS, *SPECIAL_TEXTS, *NEAR_TEXTS, *NUMBERS_AS_TEXT],
    "integer": [
        *(None, 0, 1, 2, 3, 4, 5, -1, -2, -3, 10, 17, 18, 19, 100, 255, 256, 2**31, 2**62, 2**63 - 1, -(2**63)),
        *(2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 2**53 + 3, -(2**53) - 1),
    ],
    "float": [
        *(None, float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.0, 2.0, 3.0, 4.0, 5.0, -1.0, -2.0, -2.5, 10.0),
        *(0.1, 0.5, 0.30000000000000004, 0.3, 0.29999999999999993, 18.0, 17.999999999999996, 18.000000000000004, 100.0),
        *(1e300, -1e300, 1e-300, 5e-324, 2.0**53 - 1, 2.0**53, 2.0**53 + 2, -(2.0**53), 2.0**63, 1e15, 1e16, 123456.75),
    ],
    "boolean": [True, False, None, True, True, False],
    "decimal": [
        None,
        *map(Decimal, words("0 -0 1 1.00 3 4.5 5 -2 10 18 17.99999999999999999999 0.1 0.3 0.30000000000000001")),
        *map(Decimal, words("0.29999999999999999999 5.00000000000000000001 0.00000000000000000001 100000000000000001")),
        *map(Decimal, words("9007199254740991 9007199254740992 9007199254740993 -9007199254740993")),
    ],
    "date": [
        None,
        *map(date.fromisoformat, ("2024-01-31", "2024-02-29", "0001-01-01", "1582-10-10", "9999-12-31")),
    ],
}

BINS = ["0", "0.1", "0.3", "18", "100"]
EVERYTHING: dict[str, Any] = {"missing": "category", "other": "category"}
DECLARATIONS: dict[str, dict[str, Any]] = {
    "texts": {"values": SPECIAL_TEXTS},
    "digits": {"values": ["1", "01", "1.0", "2024-01-31", "0.5", "-0", "5", "9007199254740993", "true"]},
    "integers": {"values": [3, 10, -2, 0, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]},
    "run": {"values": [-2, -1, 0, 1, 2, 3]},
    "far run": {"values": [2**53, 2**53 + 1, 2**53 + 2]},
    "least": {"values": [-(2**63), -(2**63) + 1]},
    "booleans": {"values": [False, True]},
    "size": {"size": 5},
    "bins": {"bins": BINS, "underflow": "category", "overflow": "category"},
    "clamped": {"bins": BINS, "underflow": "clamp", "overflow": "clamp"},
    "far bins": {"bins": [-(2**60), 2**53, 2**53 + 1, 2**53 + 2, "1e60"], "underflow": "category", "overflow": "clamp"},
    "grid": {"grid": Grid(low=0, high=18, step="0.1"), "underflow": "category", "overflow": "category"},
    "knots": {"grid": Grid(low=-3, high=18, step=1, knots=[0, 5]), "underflow": "clamp", "overflow": "clamp"},
    "far grid": {"grid": Grid(low="-1e17", high="2e17", step="1e15"), "underflow": "category", "overflow": "clamp"},
    "close grid": {"grid": Grid(low=0, high="3e-20", step="1e-20"), "underflow": "clamp", "overflow": "category"},
    "close bins": {"bins": ["-1e-20", 0, "1e-60", "1e-20", 1], "underflow": "clamp", "overflow": "category"},
}

NAMES = [
    *words("age SELECT dots.in.it a,b a;b x|y a\\b * ^a.*$ $1 %s {0} -- /* `tick` [brackets] it's # a=b 1 1.5 none"),
    *words("person nobody place turn c0 v0 m1 x0 x1 f0 records numbered rowid filename"),
    *("two words", 'with "quotes"', "'; DROP TABLE people; --", " led by a blank", "n" * 60),
    *("\u00fcmlaut", HAN, THUMB, HEBREW),
]


def every_declaration_and_kind() -> tuple[list[Attribute], Columns]:
    """Each declaration over a column of each kind with all its values; nothing is refused."""
    rows = max(map(len, VALUES.values()))
    attributes, columns = [], {}
    for (title, declared), (kind, values) in product(DECLARATIONS.items(), VALUES.items()):
        if kind in ("boolean", "date") and title not in ("digits", "run", "booleans", "size", "bins"):
            continue  # much the same
        attributes.append(Attribute(f"{title} {kind}", **declared, **EVERYTHING))
        columns[f"{title} {kind}"] = kind, [values[row % len(values)] for row in range(rows)]
    return attributes, columns


def every_policy() -> list[Attribute]:
    """All combinations of policies, for each way of declaring an attribute."""
    both: tuple[Policy, ...] = ("refuse", "category")
    ways: tuple[RangePolicy, ...] = ("refuse", "category", "clamp")
    declared: list[dict[str, Any]] = [
        {"values": ["a", "01", "1"]},
        {"values": [3, 10, 0]},
        {"values": [True, False]},
        {"size": 4},
    ]
    attributes = [
        Attribute(f"{number} {missing} {other}", **declaration, missing=missing, other=other)
        for (number, declaration), missing, other in product(enumerate(declared), both, both)
    ]
    return attributes + [
        Attribute(
            f"{missing} {other} {below} {above}",
            bins=BINS,
            missing=missing,
            other=other,
            underflow=below,
            overflow=above,
        )
        for missing, other, below, above in product(both, both, ways, ways)
    ]


CLEANED: dict[str, dict[str, Any]] = {
    "few texts": {"values": ["a", "fi", "O'Brien", COMPOSED, "true"]},
    "respelled": {
        "values": ["a", "1"],
        "raw": {"a": ["I", "ss", DECOMPOSED, "x|y"], "(missing)": ["NA", "--", "null"]},
    },
    "flags": {"values": [True, False], "raw": {"true": ["yes", "1"], "false": ["no", "0"]}},
    "codes": {"values": [0, 1, 5], "raw": {"5": ["05", "a"], "(missing)": ["-1", "100"]}},
    "days": {"dates": Dates(by="day", first="2024-01-30", last="2024-03-01")},
    "months": {"dates": Dates(by="month", first="2023-12", last="2024-02")},
    "weekdays": {"dates": Dates(by="weekday")},
}


def random_attribute(chance: random.Random, name: str) -> Attribute:
    """A declaration with policies and cleaning, by chance; some draws contradict themselves and are drawn again."""
    policies: list[Policy] = ["refuse", "category", "category", "drop"]
    while True:
        declared = dict(chance.choice([*DECLARATIONS.values(), *CLEANED.values()]))
        has_ends = (
            "bins" in declared or "grid" in declared or ("dates" in declared and declared["dates"].first is not None)
        )
        if has_ends:
            declared |= {key: chance.choice([*policies, "clamp"]) for key in ("underflow", "overflow")}
        with suppress(SchemaError):
            return Attribute(
                name,
                **declared,
                missing=chance.choice(policies),
                other=chance.choice(policies),
                trim=chance.random() < 0.4,
                case=chance.choice(["exact", "fold"]) if "values" in declared else "exact",
            )


def accepted(holder: Holder, attribute: Attribute, kind: str) -> list[Any]:
    """The values of a kind that the policies do not refuse, in the way they are held; none if there are none."""
    values = VALUES[kind]
    while True:  # what a holder says of a value can depend on the column's other values
        told_kind, told = holder.told({"x": (kind, values)})["x"]
        codes = [code_of(attribute, told_kind, value) for value in told]
        if REFUSED not in codes:
            return values
        values = [value for value, code in zip(values, codes, strict=True) if code is not REFUSED]


def random_table(chance: random.Random, holder: Holder, attributes: Sequence[Attribute], rows: int) -> Columns:
    """A column for each attribute, by chance, of values that are not refused.

    Few values, so that they meet often and cells of several attributes are not all 0 or 1.
    """
    columns: Columns = {}
    for attribute in attributes:
        pools = {kind: accepted(holder, attribute, kind) for kind in VALUES}
        kind = chance.choice([kind for kind, pool in pools.items() if pool])
        pool = chance.sample(pools[kind], min(len(pools[kind]), 6))
        columns[attribute.name] = kind, [chance.choice(pool) for _ in range(rows)]
    return columns
