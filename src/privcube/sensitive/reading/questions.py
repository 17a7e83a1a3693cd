"""Questions about all records, as SQL: what is undeclared, and who has how many rows. Zone: SENSITIVE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from privcube.model.attribute import Attribute
from privcube.model.columns.dates import Dates
from privcube.sensitive.coding import (
    BLANK,
    ColumnKind,
    Dialect,
    coded_records,
    coded_with,
    number_of_column,
    text_of_column,
)
from privcube.sensitive.reading.dates import date_or_hour


def number_of_records(source: str) -> str:
    """A query for how many records there are."""
    return f"SELECT count(*) FROM {source}"


def counted_where(
    source: str,
    attributes: Sequence[Attribute],
    kinds: Mapping[str, ColumnKind],
    dialect: Dialect,
    conditions: Sequence[str],
) -> str:
    """A query for how many records there are, and how many meet each condition on the codes c0, c1, ..."""
    amounts = ["count(*)", *(f"count(*) FILTER (WHERE {condition})" for condition in conditions)]
    return f"SELECT {', '.join(amounts)} FROM ({coded_records(source, attributes, kinds, dialect)}) AS coded"


def undeclared_texts(
    source: str,
    attributes: Sequence[Attribute],
    kinds: Mapping[str, ColumnKind],
    dialect: Dialect,
    filters: Sequence[Attribute],
    most: int,
) -> str:
    """A query for the texts that are not declared, for people to look at: number of the attribute, text, how often.

    The attributes have a category for what is not declared. At most `most` texts of each, the most frequent first.
    """
    texts = [
        (f"t{number}", text_of_column(dialect.column(attribute.column))) for number, attribute in enumerate(attributes)
    ]
    coded = coded_with(source, attributes, kinds, dialect, texts, filters)
    undeclared = [f"c{n} = {attribute.other_code}" for n, attribute in enumerate(attributes)]
    said = [f"CASE WHEN {condition} THEN t{n} END" for n, condition in enumerate(undeclared)]
    numbers = ", ".join(map(str, range(len(attributes))))
    some = " OR ".join(undeclared)
    amiss = f"SELECT * FROM ({coded}) AS coded WHERE {some}"
    pairs = f"SELECT unnest(ARRAY[{numbers}]) AS n, unnest(ARRAY[{', '.join(said)}]) AS t FROM ({amiss}) AS amiss"
    grouped = f"SELECT n, t, count(*) AS times FROM ({pairs}) AS pairs WHERE t IS NOT NULL GROUP BY n, t"
    turn = "row_number() OVER (PARTITION BY n ORDER BY times DESC, t) AS turn"
    return f"SELECT n, t, times FROM (SELECT *, {turn} FROM ({grouped}) AS grouped) AS turned WHERE turn <= {most:d}"


def rows_per_person(
    source: str, kinds: Mapping[str, ColumnKind], dialect: Dialect, filters: Sequence[Attribute], person: str
) -> str:
    """A query for how many people have how many rows, of records that are not dropped; for nobody, the number is 0."""
    who = text_of_column(dialect.column(person))
    nobody = f"({who} IS NULL OR {dialect.matches(who, BLANK)})"
    named = coded_with(source, (), kinds, dialect, (("person", who), ("nobody", nobody)), filters)
    each = "SELECT nobody, count(*) AS own FROM ({}) AS named GROUP BY nobody, CASE WHEN nobody THEN '' ELSE person END"
    told = "CASE WHEN nobody THEN 0 ELSE own END, CASE WHEN nobody THEN own ELSE count(*) END"
    return f"SELECT {told} FROM ({each.format(named)}) AS each_one GROUP BY nobody, own ORDER BY 1"


def frequent_texts(source: str, kinds: Mapping[str, ColumnKind], dialect: Dialect, records: int, most: int) -> str:
    """A query for what columns say: number of the column, text, how often, how many different ones, how many records.

    From at most `records` records; at most `most` texts of each column, the most frequent first, and null.
    """
    texts = [written(dialect.column(name), kind, dialect) for name, kind in kinds.items()]
    numbers = ", ".join(map(str, range(len(texts))))
    some = ", ".join(f"{text} AS t{number}" for number, text in enumerate(texts))
    said = ", ".join(f"t{number}" for number in range(len(texts)))
    part = f"SELECT {some} FROM {source} LIMIT {records:d}"
    pairs = f"SELECT unnest(ARRAY[{numbers}]) AS n, unnest(ARRAY[{said}]) AS t FROM ({part}) AS part"
    grouped = f"SELECT n, t, count(*) AS times FROM ({pairs}) AS pairs GROUP BY n, t"
    whole = "count(*) OVER (PARTITION BY n) AS different, sum(times) OVER (PARTITION BY n) AS total"
    turn = "row_number() OVER (PARTITION BY n, t IS NULL ORDER BY times DESC, t) AS turn"
    return (
        f"SELECT n, t, times, different, CAST(total AS INT8) "
        f"FROM (SELECT *, {whole}, {turn} FROM ({grouped}) AS grouped) AS turned WHERE turn <= {most:d}"
    )


def numbers_between(source: str, name: str, kind: ColumnKind, dialect: Dialect) -> str:
    """A query for the least and the largest finite number of a column."""
    bins = Attribute(name, bins=[0, 1])
    value, _ = number_of_column(bins, dialect.column(name), kind, dialect)
    finite = f"SELECT x FROM (SELECT {value} AS x FROM {source}) AS numbers WHERE abs(x) < 1e300"
    return f"SELECT min(x), max(x) FROM ({finite}) AS finite"


def days_between(source: str, name: str, kind: ColumnKind, dialect: Dialect, dates: Dates) -> str:
    """A query for the years of the first and the last day of a column."""
    day = date_or_hour(dates, written(dialect.column(name), kind, dialect), dialect)
    years = ", ".join(f"CAST(extract(year FROM {which}(x)) AS INT8)" for which in ("min", "max"))
    return f"SELECT {years} FROM (SELECT {day} AS x FROM {source}) AS days"


def written(column: str, kind: ColumnKind, dialect: Dialect) -> str:
    """A column as text."""
    return dialect.instant(column) if kind == "instant" else text_of_column(column)
