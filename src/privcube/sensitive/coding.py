"""From what a column says to the cell it is counted in: one rule, written once as SQL. Zone: SENSITIVE.

Every engine codes by the expressions of this module, run by DuckDB (also inside Spark's workers) or by the database
that holds the data; the two dialects differ in a few functions. `tests/every_engine` has a plain twin. The rule:
- A missing value is a null, a NaN, or text of nothing but blanks, unless that very text was declared.
- Declared `values` match the text of the column, letter by letter. Integers are written plainly, booleans as true and
  false (text may also say True, TRUE, False, FALSE for declared booleans), dates as 2024-01-31; a float or decimal
  without a fraction, below 2^53, is written as the integer it is, and any other is no declared value.
- A `size` matches plainly written integers from 0 to size - 1.
- `bins` take numbers as 64-bit floats, edges as the nearest float: text such as -1.5e3, of at most 30 digits before and
  after the point and three in the exponent, inf or Infinity; the text NaN or nan is missing. Infinities lie outside all
  bins.
- A `grid` takes numbers as `bins` do, with low, high and step as the nearest floats. A number x between low and high
  becomes point 0 of the grid if it is at most the float next to low + step/2, else point ceil((x - low)/step - 0.5),
  each operation rounded to 64 bits: the nearest, and the lower of two. On steps of 1 integers need no floats.
- `dates` take the text of a date or timestamp in the declared form, of the years 1 to 9999; a time may follow after a
  blank or T, and is needed for hours. Timestamps with a time zone are taken in UTC, text as it is written.
- Cleaning comes first: `trim` removes blanks at both ends, `case` = "fold" makes letters small, and a spelling of
  (missing) is missing; then declared values and spellings are looked up. A decimal comma becomes a point.
- Anything else is not declared: `other`. What a policy refuses is coded as NULL, and the engine stops. What a policy
  drops is coded as -1, and the record is left out, whatever its other values are, and before rows per person are
  bounded. Conditions (`where`) are attributes that are not counted and drop what they do not declare.

Formal guarantee. What becomes of a record, its codes or that it is left out, depends on this record and the declaration
alone. So data sets that differ in the records of one unit still differ in the records of that unit alone once they are
cleaned. The bound on rows per person, applied to what is left, keeps at most c of them (`privcube.sensitive.units`).
Under replace_one a unit may lose records or gain some. If a record can be left out, the noise covers that, too: a
record alone is priced beside the exchange of two, and the number of records is not public (`model.noise.pairs`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from privcube.errors import SchemaError
from privcube.model.attribute import Attribute
from privcube.model.columns.spelling import BLANKS, capitals
from privcube.sensitive.measures.points import is_plain, point_of_grid, whole_point_of_grid
from privcube.sensitive.reading.dates import date_or_hour, number_of_period

if TYPE_CHECKING:
    from privcube.sensitive.engine import CountRequest

ColumnKind = Literal[
    "text", "integer", "float", "decimal", "boolean",
    "comma",  # text in which numbers have a decimal comma
    "timestamp",  # as it is written
    "instant",  # a timestamp with a time zone
]  # fmt: skip

BLANK: Final = r"[ \t\n\r\f\v]*"
WHOLE: Final = r"0|[1-9][0-9]{0,8}"
NUMBER: Final = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?"
TOO_MANY_DIGITS: Final = r".*[0-9]{31}.*"  # apart, and only looked for in long text, as PostgreSQL is slow at it
INFINITE: Final = r"[+-]?(inf|Infinity)"
_NOT_A_NUMBER: Final = "CAST('NaN' AS FLOAT8)"
DROPPED: Final = "-1"
_EXACT_BELOW: Final = 2**53


def quoted_name(name: str) -> str:
    """A name as an SQL identifier: the only way names enter SQL.

    >>> print(quoted_name('a "b"; DROP TABLE c'))
    "a ""b""; DROP TABLE c"
    """
    if "\x00" in name:
        raise SchemaError("name of a column", expected="no NUL character")
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    """A text as an SQL literal: the only way texts enter SQL.

    >>> print(quoted_text("it's"))
    'it''s'
    """
    if "\x00" in text:
        raise SchemaError("text", expected="no NUL character")
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True)
class Dialect:
    """What databases write in different ways; FLOAT8, INT8 and TEXT mean the same in all of them."""

    matches: Callable[[str, str], str]  # whether a text as a whole has the form of a pattern
    lookup: Callable[[str, Mapping[str, int]], str]  # the number of a text among some; NULL if it is none of them
    parsed: Callable[[str, str], str]  # text as a float, infinite or zero if it is out of range; if it is a number
    interval: Callable[[str, Sequence[str], Sequence[str]], str]  # of a float between edges: one result more than edges
    decimal: Callable[[str], str]  # a column of decimal numbers as 64-bit floats, rounded to the nearest
    digest: Callable[[str], str]  # SHA-256 of a text, to order by
    trimmed: Callable[[str, str], str]  # a text without some characters at both ends
    part: Callable[[str, str, int], str]  # what a group of a pattern matches of a text; nothing if it does not match
    instant: Callable[[str], str]  # a column of timestamps with a time zone as text in UTC
    column: Callable[[str], str] = quoted_name  # what the source calls a column


def _keys(text: str, numbers: Mapping[str, int]) -> str:
    """PostgreSQL finds a key of a JSON object by bisection, among the branches of CASE one by one."""
    places = json.dumps(dict(numbers), ensure_ascii=False)
    return f"CAST(CAST({quoted_text(places)} AS JSONB) ->> {text} AS INT8)"


def _members(text: str, numbers: Mapping[str, int]) -> str:
    place = f"enum_code(TRY_CAST({text} AS ENUM({', '.join(map(quoted_text, numbers))})))"
    in_order = list(numbers.values()) == list(range(len(numbers)))
    return place if in_order else f"([{', '.join(map(str, numbers.values()))}])[CAST({place} AS INT8) + 1]"


def _within_range(column: str) -> str:
    """PostgreSQL stops at a number that no float holds; one that is too large is infinite instead, too small zero."""
    size = f"abs({column})"
    return (
        f"CASE WHEN {size} > 1.7976931348623158e308 THEN CAST(sign({column}) AS FLOAT8) * CAST('Infinity' AS FLOAT8) "
        f"WHEN {size} < 2.4703282292062328e-324 THEN 0 ELSE CAST({column} AS FLOAT8) END"
    )


def _parsed(text: str, is_number: str) -> str:
    """PostgreSQL stops at text out of range; without an exponent, text of so few digits is within it."""
    large = _within_range(f"CAST({text} AS NUMERIC)")
    return f"CASE WHEN NOT {is_number} THEN NULL WHEN {text} ~ '[eE]' THEN {large} ELSE CAST({text} AS FLOAT8) END"


def _first_below(value: str, edges: Sequence[str], results: Sequence[str]) -> str:
    whens = " ".join(f"WHEN {value} < {edge} THEN {result}" for edge, result in zip(edges, results, strict=False))
    return f"CASE {whens} ELSE {results[-1]} END"


def _bucket(value: str, edges: Sequence[str], results: Sequence[str]) -> str:
    """PostgreSQL works out an expression again wherever it is used: here once, and edges are bisected."""
    return f"(ARRAY[{', '.join(results)}])[width_bucket({value}, ARRAY[{', '.join(edges)}]) + 1]"


def _float(column: str, kind: ColumnKind, dialect: Dialect) -> str:
    return dialect.decimal(column) if kind == "decimal" else f"CAST({column} AS FLOAT8)"


DUCKDB: Final = Dialect(
    matches=lambda text, pattern: f"regexp_full_match({text}, {quoted_text(pattern)})",
    lookup=_members,
    parsed=lambda text, is_number: f"CAST(CASE WHEN {is_number} THEN {text} END AS FLOAT8)",
    interval=_first_below,
    decimal=lambda column: f"CAST(CAST({column} AS TEXT) AS FLOAT8)",
    digest=lambda text: f"sha256({text})",
    trimmed=lambda text, characters: f"trim({text}, {quoted_text(characters)})",
    part=lambda text, pattern, group: f"regexp_extract({text}, {quoted_text(f'^(?:{pattern})$')}, {group})",
    instant=lambda column: f"CAST(make_timestamp(epoch_us({column})) AS TEXT)",
)
POSTGRESQL: Final = Dialect(
    matches=lambda text, pattern: f"({text} ~ {quoted_text(f'^({pattern})$')})",
    lookup=_keys,
    parsed=_parsed,
    interval=_bucket,
    decimal=_within_range,
    digest=lambda text: f"sha256(convert_to({text}, 'UTF8'))",
    trimmed=lambda text, characters: f"btrim({text}, {quoted_text(characters)})",
    part=lambda text, pattern, group: f"(regexp_match({text}, {quoted_text(f'^(?:{pattern})$')}))[{group}]",
    instant=lambda column: f"CAST({column} AS TEXT)",  # the session is in UTC
)


def coded_records(
    source: str,
    attributes: Sequence[Attribute],
    kinds: Mapping[str, ColumnKind],
    dialect: Dialect,
    filters: Sequence[Attribute] = (),
) -> str:
    """A query for the codes c0, c1, ... of some attributes of all records of a source; NULL where a policy refuses.

    Records that one of the `filters` drops are left out (`privcube.model.schema.Schema.filters`).
    """
    return coded_with(source, attributes, kinds, dialect, (), filters)


def ranked_records(
    source: str,
    attributes: Sequence[Attribute],
    kinds: Mapping[str, ColumnKind],
    dialect: Dialect,
    *,
    person: str,
    key: bytes,
    filters: Sequence[Attribute] = (),
) -> str:
    """Coded records with the person, whether none is named (`nobody`), and a keyed hash to order them by (`place`)."""
    who = text_of_column(dialect.column(person))
    nobody = f"({who} IS NULL OR {dialect.matches(who, BLANK)})"
    said = " || ',' || ".join(f"CAST(c{number} AS TEXT)" for number in range(len(attributes)))
    order = dialect.digest(f"{quoted_text(key.hex() + ':')} || {said} || ':' || person")
    coded = coded_with(source, attributes, kinds, dialect, (("person", who), ("nobody", nobody)), filters)
    return f"SELECT *, {order} AS place FROM ({coded}) AS coded"


def kept_records(
    source: str,
    attributes: Sequence[Attribute],
    kinds: Mapping[str, ColumnKind],
    dialect: Dialect,
    *,
    person: str,
    max_rows: int,
    key: bytes,
    filters: Sequence[Attribute] = (),
) -> str:
    """The codes, and `nobody`, of at most `max_rows` records of each person: those with the least keyed hashes.

    The rule is that of `privcube.sensitive.units`. Records that must be refused are kept, to be seen: a code is
    NULL, or nobody is named.
    """
    ranked = ranked_records(source, attributes, kinds, dialect, person=person, key=key, filters=filters)
    codes = [f"c{number}" for number in range(len(attributes))]
    refused = " OR ".join(["nobody", *(f"{code} IS NULL" for code in codes)])
    return (
        f"SELECT {', '.join(codes)}, nobody FROM (SELECT *, row_number() OVER (PARTITION BY person ORDER BY place) "
        f"AS turn FROM ({ranked}) AS ranked) AS placed WHERE turn <= {max_rows:d} OR {refused}"
    )


def counted_records(
    source: str,
    attributes: Sequence[Attribute],
    kinds: Mapping[str, ColumnKind],
    dialect: Dialect,
    request: CountRequest,
) -> str:
    """The codes of some attributes of all records that a request counts; with a person column, `nobody` as well."""
    if request.person is None:
        return coded_records(source, attributes, kinds, dialect, request.filters)
    return kept_records(
        source, attributes, kinds, dialect,
        person=request.person, max_rows=request.max_rows_per_person, key=request.key, filters=request.filters,
    )  # fmt: skip


def coded_with(
    source: str,
    attributes: Sequence[Attribute],
    kinds: Mapping[str, ColumnKind],
    dialect: Dialect,
    extra: Sequence[tuple[str, str]],
    filters: Sequence[Attribute],
) -> str:
    """Codes with some `extra` columns, given as names and expressions; records that a filter drops are left out.

    In two steps, so that what a column says is worked out once and then compared many times; a third drops records.
    """
    looked_at = [*attributes, *(each for each in filters if each not in attributes)]
    stated = [f"{expression} AS {name}" for name, expression in extra]
    codes = [name for name, _ in extra]
    for number, attribute in enumerate(looked_at):
        value, missing, code = _expressions(attribute, kinds[attribute.column], number, dialect)
        stated += [f"{value} AS v{number}", *([f"{missing} AS m{number}"] if missing else [])]
        codes.append(f"{code} AS c{number}")
    coded = f"SELECT {', '.join(codes)} FROM (SELECT {', '.join(stated)} FROM {source}) AS stated"
    kept = [f"COALESCE(c{number}, 0) >= 0" for number, attribute in enumerate(looked_at) if attribute.drops]
    if not kept:
        return coded
    wanted = [*(name for name, _ in extra), *(f"c{number}" for number in range(len(attributes)))]
    return f"SELECT {', '.join(wanted)} FROM ({coded}) AS cleaned WHERE {' AND '.join(kept)}"


def _expressions(attribute: Attribute, kind: ColumnKind, number: int, dialect: Dialect) -> tuple[str, str, str]:
    """What is taken from the column as v, whether it is missing as m (empty: not needed), and the code made of them."""
    column = dialect.column(attribute.column)
    other = _decided(attribute.other, attribute.other_code)
    missing = _decided(attribute.missing, attribute.codes - 1)
    v, m = f"v{number}", f"m{number}"
    if attribute.grid is not None and kind == "integer" and not attribute.raw and is_plain(attribute.grid):
        found = whole_point_of_grid(attribute, v, _outside(attribute))
        return column, "", f"CASE WHEN {v} IS NULL THEN {missing} ELSE {found} END"
    if attribute.bins is not None or attribute.grid is not None:
        value, absent = number_of_column(attribute, column, kind, dialect)
        at = _outside(attribute)
        found = point_of_grid(attribute, v, at) if attribute.grid is not None else _bins(attribute, v, dialect)
        return value, absent, f"CASE WHEN {m} THEN {missing} WHEN {v} IS NULL THEN {other} ELSE {found} END"
    if attribute.dates is not None:
        text = _as_text(attribute, column, kind, dialect)
        value = date_or_hour(attribute.dates, text, dialect)
        found = f"CASE WHEN {m} THEN {missing} WHEN {v} IS NULL THEN {other} ELSE {_period(attribute, v)} END"
        return value, f"({_absent(attribute, text, text, dialect)})", found  # the text of a NaN is null
    run = _run_of_integers(attribute)
    if kind == "integer" and run is not None and not attribute.raw:
        first, last = run
        return column, "", (
            f"CASE WHEN {v} BETWEEN {first} AND {last} THEN CAST({v} AS INT8) - ({first}) "
            f"WHEN {v} IS NULL THEN {missing} ELSE {other} END"
        )  # fmt: skip
    text = _as_text(attribute, column, kind, dialect)
    absent = _absent(attribute, v, v, dialect)
    if attribute.size is None:
        found = dialect.lookup(v, {text: cell for text, cell in attribute.spellings if cell is not None})
    else:
        whole = f"CAST(CASE WHEN {dialect.matches(v, WHOLE)} THEN {v} END AS INT8)"
        among = f"NOT ({absent}) AND " if attribute.raw else ""  # a code may be a spelling of (missing)
        found = f"CASE WHEN {among}{whole} < {attribute.size} THEN {whole} END"
    return text, "", f"COALESCE({found}, CASE WHEN {absent} THEN CAST({missing} AS INT8) ELSE {other} END)"


def _decided(policy: str, cell: int) -> str:
    """The code of a value that is missing or not declared."""
    return {"refuse": "NULL", "category": str(cell), "drop": DROPPED}[policy]


def _absent(attribute: Attribute, column: str, text: str, dialect: Dialect) -> str:
    """Whether a value is missing: null, blank, or spelled in a way that means so."""
    spelled = [quoted_text(text) for text, cell in attribute.spellings if cell is None]
    among = f" OR {text} IN ({', '.join(spelled)})" if spelled else ""
    return f"{column} IS NULL OR {dialect.matches(text, BLANK)}{among}"


def _run_of_integers(attribute: Attribute) -> tuple[int, int] | None:
    """The first and last of declared integers that follow one another."""
    if attribute.size is not None:
        return 0, attribute.size - 1
    values = attribute.values or ()
    whole = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    if len(whole) == len(values) and whole == list(range(whole[0], whole[0] + len(whole))):
        return whole[0], whole[-1]
    return None


def text_of_column(column: str) -> str:
    """A column as text that is compared letter by letter, whatever collation the column has."""
    return f'CAST({column} AS TEXT) COLLATE "C"'


def _as_text(attribute: Attribute, column: str, kind: ColumnKind, dialect: Dialect) -> str:
    """What a column says as text, cleaned; numbers and booleans as declared values are written."""
    text = text_of_column(column)
    if kind in ("float", "decimal"):
        number = _float(column, kind, dialect)
        whole = f"{column} = trunc({column}) AND abs({number}) < {_EXACT_BELOW}"
        plain = f"CAST(CAST(CASE WHEN {whole} THEN {number} END AS INT8) AS TEXT)"
        absent = f"{column} IS NULL OR {number} = {_NOT_A_NUMBER}"
        # chr(1) is no declared value: those have no control characters
        return f"CASE WHEN {absent} THEN NULL ELSE COALESCE({plain}, chr(1)) END"
    if kind == "instant":
        return dialect.instant(column)
    if kind not in ("text", "comma"):
        return text
    if attribute.trim:
        text = dialect.trimmed(text, BLANKS)
    pairs = capitals(text for text, _ in attribute.spellings) if attribute.case == "fold" else {}
    if pairs:
        text = f"translate({text}, {quoted_text(''.join(pairs))}, {quoted_text(''.join(pairs.values()))})"
    if attribute.values and isinstance(attribute.values[0], bool):
        return f"CASE WHEN {text} IN ('True', 'TRUE', 'False', 'FALSE') THEN lower({text}) ELSE {text} END"
    return text


def number_of_column(attribute: Attribute, column: str, kind: ColumnKind, dialect: Dialect) -> tuple[str, str]:
    """A column as a float, NULL if it is no number, and whether it is missing."""
    text = _as_text(attribute, column, kind, dialect)
    spelled = _absent(attribute, column, text, dialect)
    if kind == "boolean":
        return "CAST(NULL AS FLOAT8)", f"({spelled if attribute.raw else f'{column} IS NULL'})"
    if kind in ("text", "comma"):
        said = f"translate({text}, ',.', '.,')" if kind == "comma" else text
        short = f"(length({said}) <= 30 OR NOT {dialect.matches(said, TOO_MANY_DIGITS)})"
        finite = dialect.parsed(said, f"({dialect.matches(said, NUMBER)} AND {short})")
        infinite = f"CAST(CASE WHEN {dialect.matches(said, INFINITE)} THEN {said} END AS FLOAT8)"
        return f"COALESCE({finite}, {infinite})", f"({spelled} OR {text} IN ('NaN', 'nan'))"
    number = _float(column, kind, dialect)
    return number, f"({spelled if attribute.raw else f'{column} IS NULL'} OR {number} = {_NOT_A_NUMBER})"


def _bins(attribute: Attribute, value: str, dialect: Dialect) -> str:
    """The code of the bin that a number lies in, or what the policies for numbers outside say."""
    assert attribute.bins is not None
    edges = [f"CAST('{float(edge)!r}' AS FLOAT8)" for edge in attribute.bins]
    below, above = _outside(attribute)
    declared = range(attribute.first_declared, attribute.first_declared + attribute.declared_cells)
    return dialect.interval(value, edges, [below, *map(str, declared), above])


def _period(attribute: Attribute, value: str) -> str:
    """The code of the period or part of a date, or what the policies for dates outside say."""
    assert attribute.dates is not None
    number = number_of_period(attribute.dates, value)
    if attribute.dates.recurs:
        return f"{number} - {attribute.dates.offset}"
    below, above = _outside(attribute)
    return (
        f"CASE WHEN {number} < {attribute.dates.first} THEN {below} WHEN {number} > {attribute.dates.last} "
        f"THEN {above} ELSE {number} - ({attribute.dates.offset - attribute.first_declared}) END"
    )


def _outside(attribute: Attribute) -> tuple[str, str]:
    """The codes of what is too small and too large."""
    first, last = attribute.first_declared, attribute.first_declared + attribute.declared_codes - 1
    below = {"refuse": "NULL", "category": "0", "clamp": str(first), "drop": DROPPED}[attribute.underflow]
    above = {"refuse": "NULL", "category": str(last + 1), "clamp": str(last), "drop": DROPPED}[attribute.overflow]
    return below, above
