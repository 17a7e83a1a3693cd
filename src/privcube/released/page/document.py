"""What the page of a release knows: tables, labels, statements, as one JSON document. Zone: RELEASED.

    format, confidence, guarantee, agrees, plan    of the whole release
    texts                                          the privacy statement, and the plan in plain words
    attributes                                     the codebook: titles, labels, levels
    axes                                           what tables are made of: an attribute, at a level or by ranges
    records                                        how many there are, if that is publicly known
    quantities                                     what tables have numbers of: a key, a title, a unit
    tables                                         all tables: their axes, cells, standard errors, files
    numbers                                        by number of the table, the numbers that the page carries

The numbers of a table are a list of quantities (`privcube.released.page.numbers`). A page carries the smallest tables
up to a limit; `privcube explore` serves the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from privcube.accuracy.errors.covariances import Covariances
from privcube.accuracy.errors.widest import widest_factor
from privcube.accuracy.predictor import Predictor, covariances, predictor
from privcube.algebra.lattice import Floats, Integers
from privcube.model.measures.asked import measured_axis
from privcube.model.measures.measure import scale_of
from privcube.model.plan import Plan
from privcube.model.publication.words import Words, capitalized
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Table, Workload, axis_cells
from privcube.released.artifact.manifest import CONFIDENCE
from privcube.released.labels import MEANS, labeled, shown_labels
from privcube.released.page.numbers import averages, covariance_document, quantity, to_digits, up_to_digits
from privcube.released.page.words import plan_in_words

FORMAT: Final = "privcube page 2"

_MOST_CARRIED: Final = 2_000_000  # bytes of numbers in a page, by the estimates below
_CELL_BYTES: Final = 9  # an estimate with digits that its error leaves
_TABLE_BYTES: Final = 200  # names of fields, standard errors, covariances
_TITLE: Final = "Statistical tables"
_ABOUT: Final = ("publisher", "contact", "period", "licence")
_MOST_RUNS: Final = 3_000  # labels of ranges that are written out; the page makes more of them itself


def carried_tables(workload: Workload) -> frozenset[int]:
    """The numbers of the tables, from 0, that a page carries: the smallest, as many as fit.

    >>> from privcube.model.schema import Schema
    >>> sorted(carried_tables(Workload.all_kway(Schema.from_sizes({"a": 2, "b": 300_000}), 1)))
    [0]
    """
    left, found = _MOST_CARRIED, []
    for number in sorted(range(len(workload)), key=workload.sizes.__getitem__):
        left -= _bytes_of(workload.sizes[number])
        if left < 0:
            break
        found.append(number)
    return frozenset(found)


def carried_bytes(workload: Workload) -> int:
    """About how many bytes the numbers take that a page carries."""
    return sum(_bytes_of(workload.sizes[number]) for number in carried_tables(workload))


def _bytes_of(cells: int) -> int:
    return _TABLE_BYTES + _CELL_BYTES * cells


class PageNumbers:
    """Gathers the numbers that a page carries, table by table in the order of the workload."""

    def __init__(self, plan: Plan, *, facts: bool = False) -> None:
        """`facts` says whether estimates honor public facts, which have covariances of their own."""
        self.found: dict[int, list[dict[str, Any]]] = {}
        self.errors: list[float] = []  # of all tables: the standard error of a cell, root mean square
        self._plan, self._tables, self._next = plan, list(plan.workload), 0
        self._carried = carried_tables(plan.workload)
        self._predictor = None if facts else predictor(plan, [self._tables[number] for number in self._carried])

    def add(self, numbers: Mapping[str, Floats | Integers]) -> None:
        """Take the columns of the next table."""
        self.errors.append(to_digits(float(np.sqrt(np.mean(numbers["std_error"] ** 2)))))
        if self._next in self._carried:
            table = self._tables[self._next]
            self.found[self._next] = table_numbers(self._plan, self._predictor, table, numbers)
        self._next += 1


def page_document(
    plan: Plan,
    words: Words,
    stated: Mapping[str, Any],
    statement: str,
    errors: Sequence[float],
    numbers: Mapping[int, list[dict[str, Any]]],
) -> dict[str, Any]:
    """The document of a page.

    `stated` is the manifest, `statement` the text of PRIVACY.md, `errors` has the standard error of a cell of every
    table, and `numbers` the quantities of the tables that the page carries.
    """
    workload, schema = plan.workload, plan.workload.schema
    axes = list(dict.fromkeys(Axis.of(entry) for table in workload for entry in labeled(table)))
    place = {axis: at for at, axis in enumerate(axes)}
    has_numbers = any(Axis.of(entry).queries == "count" for table in workload for entry in table)
    used = list(
        dict.fromkeys(axis.attribute for axis in sorted(axes, key=lambda axis: schema.position(axis.attribute)))
    )
    units = {name: words.attribute(name).unit or "" for name in schema.measures}
    records = stated.get("known", {}).get("records")
    return {
        "format": FORMAT,
        "privcube": stated["privcube"],
        "title": words.title or _TITLE,
        "description": words.description or "",
        "about": {name: text for name, text in words.about.items() if name in _ABOUT},
        "decimals": words.decimals,
        "reliability": words.most_relative_error,
        "confidence": CONFIDENCE,
        "factor": up_to_digits(widest_factor(plan, CONFIDENCE)),
        "guarantee": str(plan.guarantee),
        "agrees": plan.sources is None,
        "plan": plan.digest,
        "whole": "whole" in stated,
        **({} if records is None else {"records": records}),
        "texts": {"privacy": statement, "plan": plan_in_words(plan)},
        "attributes": [_attribute(schema, words, name) for name in used],
        "axes": [_axis(schema, words, axis, used.index(axis.attribute)) for axis in axes],
        "quantities": [
            {"key": "count", "title": "Count", "unit": words.unit or "records", "adds": True},
            *(
                {"key": f"sum {name}", "title": f"Sum of {words.axis_title(name)}", "unit": units[name], "adds": True}
                for name in schema.measures
            ),
            *(
                {
                    "key": f"mean {name}",
                    "title": f"Mean of {words.axis_title(name)}",
                    "unit": units[name],
                    "adds": False,
                }
                for name in schema.measures
            ),
            *(
                {"key": "count", "title": capitalized(words.axis_title(axis)), "unit": "", "adds": True}
                for name, axis in {name: Axis(name, queries="count") for name in schema.measures}.items()
                if has_numbers
            ),
        ],
        "tables": [
            {
                "axes": [place[Axis.of(entry)] for entry in labeled(table)],
                "cells": cells,
                "error": error,
                **({"quantities": _quantities_of(schema, table)} if measured_axis(table) is not None else {}),
                **({"title": words.tables[table]} if table in words.tables else {}),
            }
            for table, cells, error in zip(workload, workload.sizes, errors, strict=True)
        ],
        "numbers": {str(number): own for number, own in sorted(numbers.items())},
    }


def table_numbers(
    plan: Plan, found: Predictor | None, table: Table, numbers: Mapping[str, Floats | Integers]
) -> list[dict[str, Any]]:
    """The numbers of a table, as a list of quantities; `found` is the predictor of the plan, if it is that simple."""
    schema = plan.workload.schema
    of, *of_means = _quantities_of(schema, table)
    own = quantity(of, numbers)
    known = covariances(found, table) if found is not None else None
    if known is not None:
        own["covariance"] = covariance_document(_of_labels(known, table, scale_of(schema, table)))
    cells = len(numbers["estimate"])
    pairs = cells * (cells - 1) // 2
    own["pair_factor"] = up_to_digits(widest_factor(plan, 1 - (1 - CONFIDENCE) / max(pairs, 1)))
    if of_means:
        own["step"] = scale_of(schema, table)
    return [own, *(averages(at, numbers) for at in of_means if MEANS[0] in numbers)]


def _of_labels(known: Covariances, table: Table, scale: float) -> Covariances:
    """Covariances of numbers in units of 1 by the axes that have labels: a sum has one number along its measure."""
    kept = [at for at, entry in enumerate(table) if not Axis.of(entry).is_measured]
    values = known.values.reshape([known.values.shape[at] for at in kept])
    return Covariances(tuple(known.class_of[at] for at in kept), scale**2 * values)


def _quantities_of(schema: Schema, table: Table) -> list[int]:
    """The places of what a table has numbers of in the list of quantities: 0 for counts; sums, means, numbers."""
    axis = measured_axis(table)
    if axis is None:
        return [0]
    at, measures = 1 + schema.measures.index(axis.attribute), len(schema.measures)
    return [at, measures + at] if axis.queries == "sum" else [2 * measures + at]


# Attributes and axes


def _attribute(schema: Schema, words: Words, name: str) -> dict[str, Any]:
    attribute, said = schema[name], words.attribute(name)
    return {
        "name": name,
        "title": words.axis_title(name),
        "description": said.description or "",
        "labels": _labels(schema, words, name),
        "ordered": attribute.ordered_cells,
        "levels": [
            {
                "name": level,
                "title": words.level(name, level).title or level,
                "description": words.level(name, level).description or "",
                "labels": _labels(schema, words, name, level),
                "group_of": list(attribute.partition(level).group_of),
            }
            for level in attribute.level_names
        ],
    }


def _axis(schema: Schema, words: Words, axis: Axis, attribute: int) -> dict[str, Any]:
    """An axis: its attribute, its level (0 for the values themselves, 1 for the first level), and how it is counted."""
    level = 0 if axis.level is None else 1 + schema[axis.attribute].level_names.index(axis.level)
    found: dict[str, Any] = {
        "attribute": attribute,
        "level": level,
        "queries": axis.queries,
        "title": words.axis_title(axis),
    }
    if axis.queries != "cells" and axis_cells(schema, axis) <= _MOST_RUNS:
        found["labels"] = [str(label) for label in shown_labels(schema, words, axis)]
    return found


def _labels(schema: Schema, words: Words, name: str, level: str | None = None) -> list[str] | int:
    """Labels as they read; of many whole numbers from 0, only how many there are."""
    plain = level is None and isinstance(schema[name].labels, range) and not words.attribute(name).labels
    return schema[name].cells if plain else [str(label) for label in words.labels(schema, name, level)]
