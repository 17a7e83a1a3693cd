"""JSON-stat 2.0: a dataset for each table, with codes, labels, notes and source. Zone: RELEASED.

The last dimension separates estimates from their errors. Numbers are rounded as published; how far to trust an estimate
is its `status` (https://json-stat.org/full).
"""

from __future__ import annotations

import json
import math
from typing import Any

from privcube.released.exports.notes import notes, title_of
from privcube.released.presentation.tables import PublishedTable, number_titles
from privcube.released.release import Release


def json_stat_bytes(release: Release, tables: list[PublishedTable]) -> bytes:
    """A dataset, or a collection of several."""
    sets = [_dataset(release, own) for own in tables]
    document: dict[str, Any] = sets[0]
    if len(sets) > 1:
        items = [{key: own for key, own in each.items() if key != "version"} for each in sets]
        document = {"version": "2.0", "class": "collection", "label": title_of(release), "link": {"item": items}}
    return json.dumps(document, allow_nan=False, ensure_ascii=False).encode()


def _dataset(release: Release, table: PublishedTable) -> dict[str, Any]:
    measure = "measure"
    while measure in {column.name for column in table.columns}:
        measure += "_"
    titles = number_titles()
    numbers = list(table.numbers)
    dimensions: dict[str, Any] = {
        column.name: {
            "label": column.title,
            "category": {"index": list(column.codes), "label": dict(zip(column.codes, column.labels, strict=True))},
        }
        for column in table.columns
    }
    dimensions[measure] = {
        "label": "Measure",
        "category": {
            "index": numbers,
            "label": {name: titles.get(name, name) for name in numbers},
            "unit": {name: {"label": table.unit, "decimals": table.places[name]} for name in numbers},
        },
    }
    trust = table.reliability()
    at = numbers.index("estimate")
    status = {str(cell * len(numbers) + at): word for cell, word in enumerate(trust) if word != "ok"}
    rows = zip(*(column.tolist() for column in table.numbers.values()), strict=True)
    source = release.words.publisher
    return {
        "version": "2.0",
        "class": "dataset",
        "label": table.title,
        **({} if source is None else {"source": source}),
        "note": notes(release),
        "id": [*(column.name for column in table.columns), measure],
        "size": [*table.shape, len(numbers)],
        "role": {"metric": [measure]},
        "dimension": dimensions,
        "value": [number if math.isfinite(number) else None for row in rows for number in row],
        **({"status": status} if status else {}),
        "extension": {
            "table": table.name,
            "guarantee": str(release.plan.guarantee),
            "plan": release.plan.digest,
            **{key: text for key, text in release.words.about.items() if key != "publisher"},
        },
    }
