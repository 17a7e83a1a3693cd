"""Questions about all records, as SQL: what is undeclared, and who has how many rows. Zone: SENSITIVE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from privcube.model.attribute import Attribute
from privcube.sensitive.coding import BLANK, ColumnKind, Dialect, coded_records, coded_with, text_of_column


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
    said = [f"CASE WHEN c{n} = {attribute.ordered_cells} THEN t{n} END" for n, attribute in enumerate(attributes)]
    numbers = ", ".join(map(str, range(len(attributes))))
    pairs = f"SELECT unnest(ARRAY[{numbers}]) AS n, unnest(ARRAY[{', '.join(said)}]) AS t FROM ({coded}) AS coded"
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
