"""Which levels of its attributes a plan measures: the frames that are worth a look for a workload. Zone: PUBLIC.

A level whose groups are of equal size needs no padding on an axis. One of unequal sizes needs padded cells, which hold
noise alone, but lets a plan measure its groups directly. Without it, a table at that level is a sum of cells, and the
plan is at least as good as one for the finer table. So the axes without padding always come first. To see which levels
pay for some attribute, those in use are tried with Gaussian noise on residuals, whose error is a closed form, whatever
the guarantee; the best axes found come second. If neighbors differ by an added or removed record, levels without
padding always pay; if by a replaced one, each residual has a price of its own, and fewer levels may be better.

See THEORY section 5.2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import combinations, pairwise
from math import inf
from typing import Final

from privcube.accuracy.published import has_single_cells
from privcube.errors import PlanError
from privcube.model.attribute import Attribute
from privcube.model.axis_levels import levels_on_axis
from privcube.model.frame import Frame
from privcube.model.options import PlanOptions
from privcube.model.privacy.guarantee import ZCDP, Guarantee, PureDP
from privcube.model.workload import Axis, Workload
from privcube.planning.steps import plan_of
from privcube.strategies import residual

_MOST_TABLES: Final = 2_000  # of a workload; for more, looking at further frames takes too long
_MOST_PRICED: Final = 14  # attributes in use; with more, pairs of records are too many to price them for every frame
_MOST_LEVELS: Final = 4  # of an attribute in use, all of whose chains are tried


def frames(workload: Workload, guarantee: Guarantee) -> list[Frame]:
    """The natural frame with all levels that need no padding and, if there is one, a better one for Gaussian noise."""
    plain = Frame.unpadded(workload)
    if not workload.leveled or len(workload) > _MOST_TABLES:
        return [plain]
    if guarantee.neighbors == "add_remove" and asks_for_single_cells(workload, plain):
        return [plain]
    noise = ZCDP("0.5", neighbors=guarantee.neighbors) if isinstance(guarantee, PureDP) else guarantee
    if len({Axis.of(entry).attribute for table in workload for entry in table}) > _MOST_PRICED:
        noise = ZCDP("0.5")
    levels_of = {attribute.name: plain.levels_of(attribute) for attribute in workload.schema}
    best, least = plain, _residual_error(workload, noise, plain)
    for name, used in workload.levels.items():
        for chain in _chains(workload.schema[name], used):
            tried = Frame.of_levels(workload.schema, {**levels_of, name: chain})
            error = _residual_error(workload, noise, tried)
            if error < least:
                best, least = tried, error
        levels_of[name] = best.levels_of(workload.schema[name])
    return [plain] if best == plain else [plain, best]


def asks_for_single_cells(workload: Workload, frame: Frame) -> bool:
    """Whether every number of a workload is a cell of the axes, so that the numbers of a table are all alike."""
    return all(has_single_cells(frame, entry) for entry in {entry for table in workload for entry in table})


def with_cells(workload: Workload) -> Iterator[Workload]:
    """The workload with one, and with all, of its tables at levels replaced by tables of cells.

    >>> from privcube import Attribute, Level, Schema
    >>> schema = Schema([Attribute("age", size=4, levels=[Level("two", bins=[0, 3, 4])])])
    >>> list(with_cells(Workload.tables(schema, [("age",), (("age", "two"),)], weights=[1, 2])))
    [<workload of 1 table, 4 cells: age>]
    """
    weights = dict(zip(workload, workload.weights, strict=True))
    finer = {table: tuple([Axis.of(e).attribute if Axis.of(e).level else e for e in table]) for table in workload}
    leveled = [table for table in workload if finer[table] != table]
    for changed in [[table] for table in leveled] + ([leveled] if len(leveled) > 1 else []):
        left = {table: weight for table, weight in weights.items() if table not in changed}
        yield Workload(workload.schema, {finer[table]: weights[table] for table in changed} | left)


def _residual_error(workload: Workload, guarantee: Guarantee, frame: Frame) -> float:
    try:
        proposal = residual.propose(workload, guarantee, frame)
        return plan_of(workload, guarantee, PlanOptions(strategy="residual"), proposal).weighted_variance
    except PlanError:  # too large on these axes
        return inf


def _chains(attribute: Attribute, used: Collection[str | None]) -> Iterator[tuple[str, ...]]:
    """Chains of the levels in use for the axis of an attribute, from fine to coarse.

    >>> from privcube.model.levels import Level
    >>> age = Attribute("age", size=6, levels=[Level("two", width=2), Level("half", bins=[0, 4, 6])])
    >>> list(_chains(age, [None, "two", "half"])), list(_chains(age, ["two", "half"]))
    ([(), ('two',), ('half',), ('two', 'half')], [('two',), ('two', 'half')])
    """
    whole = levels_on_axis(attribute, used, even=False)
    finest = () if None in used else whole[:1]  # with the cells out of use, measured by the coarsest groups needed
    named = [level for level in attribute.level_names if level in used and level not in finest]
    most = len(named) if len(named) <= _MOST_LEVELS else 1
    for count in range(most + 1):
        for levels in combinations(named, count):
            chain = [attribute.partition(level) for level in (*finest, *levels)]
            if all(coarse.cells < fine.cells and coarse.merges(fine) for fine, coarse in pairwise(chain)):
                yield (*finest, *levels)
    if most < len(named):
        yield whole
