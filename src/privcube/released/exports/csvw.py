"""CSV on the Web: the tables as CSV files, and csv-metadata.json that describes their columns. Zone: RELEASED.

See https://www.w3.org/TR/tabular-metadata. The CSV files are those of an artifact.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from privcube.progress import WRITING, Progress, told
from privcube.released.artifact.table_files import TableWriter
from privcube.released.exports.identifiers import identifiers
from privcube.released.exports.notes import notes, title_of
from privcube.released.labels import RELIABILITY
from privcube.released.presentation.tables import number_titles
from privcube.released.release import Release, TableValues
from privcube.released.values import taken_in

_PLAIN: Final = re.compile("[a-z][a-z0-9_]*")
METADATA: Final = "csv-metadata.json"
_TERMS: Final = {
    "description": "dc:description",
    "publisher": "dc:publisher",
    "contact": "dcat:contactPoint",
    "period": "dc:temporal",
    "licence": "dc:rights",
}


def csvw_files(release: Release, values: list[TableValues], progress: Progress) -> dict[str, bytes]:
    """The CSV file of every table, and the metadata of all."""
    writer, words = TableWriter(release.workload.schema, release.words, taken_in(values)), release.words
    files: dict[str, bytes] = {}
    tables = []
    for number, own in enumerate(told(values, WRITING, progress), start=1):
        name = f"{number:04d}.csv"
        files[name] = writer.csv_of(own)
        shown = writer.shown(own)
        tables.append(
            {
                "url": name,
                "dc:title": words.table_title(own.table),
                "tableSchema": {"columns": _columns(release, own, shown)},
            }
        )
    said = {_TERMS[key]: text for key, text in words.about.items() if key in _TERMS}
    document = {
        "@context": ["http://www.w3.org/ns/csvw", {"@language": "en"}],
        "dc:title": title_of(release),
        **said,
        "rdfs:comment": " ".join(notes(release)),
        "tables": tables,
    }
    return {**files, METADATA: json.dumps(document, indent=1, ensure_ascii=False).encode()}


def _columns(release: Release, values: TableValues, shown: Any) -> list[dict[str, Any]]:
    """What the columns of a CSV file are: attributes, their labels, numbers."""
    header = shown.column_names
    titles = number_titles()
    by_type = {"int64": "integer", "double": "number", "bool": "boolean", "null": "number"}
    return [
        {
            "name": own,
            "titles": name,
            "datatype": "string" if name == RELIABILITY else by_type.get(str(shown[name].type), "string"),
            "required": str(shown[name].type) != "double" and shown[name].null_count == 0,
            **({"dc:description": titles[name]} if name in titles else {}),
        }
        for own, name in zip(_names(header), header, strict=True)
    ]


def _names(header: Sequence[str]) -> list[str]:
    """Names of columns, none of which is the title of another: readers look for both in a header.

    >>> _names(["reliability_", "A b", "a_b", "reliability"])
    ['reliability_', 'a_b_2', 'a_b', 'reliability']
    """
    kept = [name for name in header if _PLAIN.fullmatch(name)]
    others = [name for name in header if name not in kept]
    made = dict(zip(others, identifiers(others, kept), strict=True))
    return [made[name].lower() if name in made else name for name in header]
