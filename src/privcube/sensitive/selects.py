"""What is read from a database, a table or a query, as one SELECT with a name for messages. Zone: SENSITIVE."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from privcube.errors import DataError, Plain
from privcube.sensitive.coding import quoted_name

_END_OF_QUERY: Final = re.compile(r"""(?:;|\s|--[^\n'"$*]*(?=\n|\Z))+\Z""")  # what no quotation or comment can contain


@dataclass(frozen=True)
class Select:
    """A statement to read from, and how messages call it."""

    name: str
    statement: str


def select_from(database: str, table: str | None, query: str | None) -> Select:
    """The SELECT for a table, a view or a query of a database; whether it is one, the database must say.

    >>> select_from("database 'people'", "adults", None)
    Select(name="table 'adults' of database 'people'", statement='SELECT * FROM "adults"')
    """
    if query is not None and table is None:
        return Select(f"query of {database}", without_end(query))
    if table is not None and query is None:
        named = ".".join(map(quoted_name, table.split(".")))
        return Select(f"table {table!r} of {database}", f"SELECT * FROM {named}")
    given = Plain("neither" if table is None else "both")
    raise DataError(database, expected="a table or a query to read from it", given=given)


def without_end(query: str) -> str:
    """A query without the semicolons, blanks and comments that end it.

    >>> without_end("SELECT 1 ; -- all of it")
    'SELECT 1'
    """
    return _END_OF_QUERY.sub("", query)
