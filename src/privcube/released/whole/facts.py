"""What is publicly known beforehand: the number of records, and combinations that cannot occur. Zone: RELEASED.

Facts are honored exactly: there are as many records as known, and none in an impossible combination. They must be
public; a number of records or a combination read off the data is not covered by the guarantee. Whole numbers honor them
record by record; estimates are conditioned on them (`privcube.accuracy.known`), table by table.

Facts that the release contradicts are wrong, and would move every number. A number that is known is compared with its
estimate, which is published anyway, so this costs no privacy. Noise is beyond `FAR` standard errors less than once in
ten million numbers, whatever its law: Laplace noise has the longest tail, and is beyond t of them with probability
exp(-sqrt(2) t), 4e-8.

See THEORY section 5.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from privcube.accuracy.known.conditioned import KnownNumbers, conditioned
from privcube.accuracy.predictor import Predictor, predictor
from privcube.errors import Plain, QueryError
from privcube.model.attribute import Attribute
from privcube.model.plan import Plan
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Table
from privcube.released.selection import Selection, selected_cells
from privcube.released.whole.records import Codes, Grid

if TYPE_CHECKING:
    from privcube.released.release import Release

Mask = NDArray[np.bool_]

_MOST_CELLS: Final = 2**22  # of all tables of impossible combinations
FAR: Final = 12.0  # standard errors between a fact and its estimate
_ROUNDED: Final = 1e-9  # relative; what floating point leaves
MOST_RECORDS: Final = 2**50  # so that all sums are exact in floating point, too


@dataclass(frozen=True)
class Facts:
    """The number of records, if it is public, and combinations of labels that cannot occur.

    >>> Facts(records=100, impossible=[{"age": "[0, 15)", "status": ["married", "widowed"]}]).records
    100
    """

    records: int | None = None
    impossible: Sequence[Mapping[str, Selection]] = ()

    def __post_init__(self) -> None:
        if self.records is not None and (type(self.records) is not int or not 0 <= self.records <= MOST_RECORDS):
            raise QueryError("records", expected="a whole number from 0 to 2^50", given=self.records)
        if not isinstance(self.impossible, Sequence) or not all(
            isinstance(own, Mapping) and own for own in self.impossible
        ):
            expected = 'a list of combinations such as {"age": "[0, 15)", "status": "married"}'
            raise QueryError("impossible", expected=expected, given=self.impossible)
        object.__setattr__(self, "impossible", tuple(dict(own) for own in self.impossible))

    def __bool__(self) -> bool:
        return self.records is not None or bool(self.impossible)


@dataclass(frozen=True, eq=False)
class Impossible:
    """Cells of small tables in which there can be no records."""

    masks: tuple[tuple[Grid, Mask], ...] = ()

    def allows(self, codes: Codes) -> Mask:
        """Which records are in no impossible combination."""
        allowed = np.ones(len(codes), dtype=bool)
        for grid, mask in self.masks:
            allowed &= ~mask[grid.keys(codes)]
        return allowed

    def touching(self, attribute: int) -> list[tuple[Grid, Mask, int]]:
        """The tables that an attribute is in, and its axis there."""
        return [
            (grid, mask, grid.attributes.index(attribute)) for grid, mask in self.masks if attribute in grid.attributes
        ]


def checked_facts(schema: Schema, facts: Facts) -> Facts:
    """Facts about attributes and labels of a schema."""
    for name in dict.fromkeys(name for combination in facts.impossible for name in combination):
        if name not in schema:
            raise QueryError("impossible", expected="attributes of the schema", given=name, available=schema.names)
    if facts.records != 0:
        _require_possible(impossible_cells(list(schema), facts.impossible), list(schema))
    return facts


def _require_possible(impossible: Impossible, attributes: Sequence[Attribute]) -> None:
    """Refuse combinations that together leave nothing; where they have many cells, the search will notice."""
    used = sorted({at for grid, _ in impossible.masks for at in grid.attributes})
    shape = [attributes[at].cells for at in used]
    if not used or prod(shape) > _MOST_CELLS:
        return
    none = np.zeros(shape, dtype=bool)
    for grid, mask in impossible.masks:
        none |= mask.reshape([attributes[at].cells if at in grid.attributes else 1 for at in used])
    if none.all():
        names = ", ".join(attributes[at].name for at in used)
        raise QueryError("impossible", expected="some combination that can occur", given=Plain(f"none of {names}"))


def impossible_cells(attributes: Sequence[Attribute], combinations: Iterable[Mapping[str, Selection]]) -> Impossible:
    """The cells of impossible combinations; those with an attribute that no table has say nothing, and are left out.

    >>> found = impossible_cells([Attribute("a", size=2), Attribute("b", size=3)], [{"a": 1, "b": [0, 2]}])
    >>> found.allows(np.array([[1, 0], [1, 1], [0, 2]])).tolist()
    [False, True, True]
    """
    place = {attribute.name: at for at, attribute in enumerate(attributes)}
    masks: dict[Grid, Mask] = {}
    for combination in combinations:
        if not set(combination) <= set(place):
            continue
        chosen = {place[name]: selected_cells(attributes[place[name]], own) for name, own in combination.items()}
        grid = Grid.of([attribute.cells for attribute in attributes], sorted(chosen))
        cells = sum(each.cells for each in masks.keys() | {grid})
        if cells > _MOST_CELLS:
            given = Plain(f"{cells:,}")
            raise QueryError(
                "impossible", expected=f"attributes with at most {_MOST_CELLS:,} combinations", given=given
            )
        mask = masks.setdefault(grid, np.zeros(grid.cells, dtype=bool)).reshape(grid.shape)
        mask[np.ix_(*(chosen[at] for at in grid.attributes))] = True
    for grid, mask in masks.items():
        if mask.all():
            names = ", ".join(attributes[at].name for at in grid.attributes)
            raise QueryError("impossible", expected="some combination that can occur", given=Plain(f"none of {names}"))
    return Impossible(tuple(masks.items()))


def known_numbers(schema: Schema, facts: Facts, sources: Iterable[Table]) -> list[KnownNumbers]:
    """The numbers of tables of cells or levels that follow from facts: of the total, and those that are 0.

    A number is 0 if all combinations of cells that it counts are impossible, as far as the table's attributes say.
    """
    found = [] if facts.records is None else [KnownNumbers((), np.zeros(1, dtype=np.int64), np.array([facts.records]))]
    if not facts.impossible:
        return found
    for source in dict.fromkeys(sources):
        attributes = [schema[Axis.of(entry).attribute] for entry in source]
        cells = [attribute.cells for attribute in attributes]
        impossible = impossible_cells(attributes, facts.impossible)
        if not impossible.masks or prod(cells) > _MOST_CELLS:
            continue
        allowed = np.ones(cells)
        for grid, mask in impossible.masks:
            shape = [size if at in grid.attributes else 1 for at, size in enumerate(cells)]
            allowed = allowed * ~mask.reshape(shape)
        for at, entry in enumerate(source):
            groups = np.asarray(attributes[at].partition(Axis.of(entry).level).group_of)
            sums = np.zeros((int(groups.max()) + 1, *np.delete(allowed.shape, at)))
            np.add.at(sums, groups, np.moveaxis(allowed, at, 0))
            allowed = np.moveaxis(sums, 0, at)
        places = np.flatnonzero(allowed == 0)
        if len(places) == allowed.size and (facts.records or 0) > 0:
            raise QueryError("impossible", expected="some combination that can occur", given=Plain("none"))
        if len(places):
            found.append(KnownNumbers(source, places, np.zeros(len(places))))
    return found


def predictor_given(plan: Plan, facts: Facts) -> Predictor:
    """The predictor of a plan, conditioned on facts where that is possible: not beside sums of measures."""
    base, schema = predictor(plan), plan.workload.schema
    used = {Axis.of(entry).attribute for table in plan.workload for entry in table}
    if not facts or any(schema[name].is_measure for name in used):
        return base
    known = known_numbers(schema, facts, map(base.source, plan.workload))
    return conditioned(plan, base, known) or base


def agreeing(release: Release, facts: Facts) -> Facts:
    """The facts, unless a release contradicts them."""
    plain, schema = release.without_facts(), release.workload.schema
    checked_facts(schema, facts)
    if facts.records is not None and (total := _total(plain)) is not None:
        found, error = total
        if abs(facts.records - found) > FAR * error + _ROUNDED * max(abs(found), 1.0):
            expected = f"about as many as were measured, {found:,.0f} with a standard error of {error:,.3g}"
            raise QueryError("records", expected=expected, given=facts.records)
    tables = [table for table in plain.workload if all(Axis.of(entry).queries == "cells" for entry in table)]
    for known in known_numbers(schema, Facts(impossible=facts.impossible), tables):
        values = plain.values(known.source)
        estimate, error_of = values.estimate.ravel()[known.places], values.std_error.ravel()[known.places]
        worst = int(np.argmax(np.abs(estimate) - FAR * error_of))
        if abs(estimate[worst]) > FAR * error_of[worst] + _ROUNDED * max(abs(estimate[worst]), 1.0):
            given = Plain(f"one with {estimate[worst]:,.0f}, and a standard error of {error_of[worst]:,.3g}")
            raise QueryError("impossible", expected="combinations without records", given=given)
    return facts


def _total(release: Release) -> tuple[float, float] | None:
    """The number of records as it was measured, with its standard error; None if no table tells it."""
    try:
        answer = release.query({})
    except QueryError:
        return None
    return answer.estimate, answer.std_error
