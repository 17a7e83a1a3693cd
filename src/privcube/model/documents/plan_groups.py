"""The query groups of a plan document, and the limits that keep a plan of any origin within memory. Zone: PUBLIC.

A few bytes of a document can ask for any number of rows. So sizes are worked out from what is declared, before anything
of that size is made. See "Limits" in docs/guide/artifact.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any, Final, get_args

from privcube.errors import Plain, PlanError, counted
from privcube.model.frame import Frame
from privcube.model.groups import (
    Block,
    BlockGroup,
    Group,
    GroupPart,
    MatrixGroup,
    PartKind,
    SketchGroup,
    group_rows,
    has_helmert,
    is_structured,
)
from privcube.model.workload import Axis, Table, Workload

_MOST_ROWS: Final = 10**9  # of a plan: its answers take 8 bytes each
_MOST_HELMERT: Final = 2 * 10**7  # rows of one group with noise weights of their own, which are listed
_MOST_EXPLICIT: Final = 2**24  # rows times cells of explicit matrices, which are dense
_MOST_CELLS: Final = 1_024  # columns of an explicit matrix
_MOST_CONTRASTED: Final = 4_096  # cells of a contrasted attribute, whose Helmert rows are dense
_MOST_BLOCK_CELLS: Final = 2**26  # cells of the matrices of blocks times cells of a table's other attributes
_MOST_PARTITIONS: Final = 2**31  # numbers of partitions of a sketch


def group_document(group: Group) -> dict[str, Any] | list[list[Any]]:
    """A group; the rows of a matrix are stripped of zeros at both ends and start with the position of their first."""
    if isinstance(group, SketchGroup):
        return group._asdict()
    if isinstance(group, MatrixGroup):
        return {"attributes": list(group.attributes), "cells": len(group.rows[0]), "rows": _row_documents(group)}
    if isinstance(group, BlockGroup):
        blocks = [{"contrasted": list(each.contrasted), "rows": _row_documents(each.matrix)} for each in group.blocks]
        return {"attributes": list(group.attributes), "cells": len(group.blocks[0].matrix.rows[0]), "blocks": blocks}
    return [list(part) for part in group]


def _row_documents(group: MatrixGroup) -> list[list[int]]:
    ends = [[at for at, entry in enumerate(row) if entry] or [0] for row in group.rows]
    return [[own[0], *row[own[0] : own[-1] + 1]] for own, row in zip(ends, group.rows, strict=True)]


def groups_from(documents: Sequence[Any], frame: Frame) -> tuple[Group, ...]:
    """The groups of a plan document, each of which must fit the frame."""
    left = _MOST_EXPLICIT  # entries that matrices may still have
    groups: list[Group] = []
    known: dict[tuple[Any, ...], GroupPart] = {}
    for document in documents:
        if isinstance(document, list):
            groups.append(_product(document, frame, known))
        elif isinstance(document, dict) and set(document) == {"partition", "buckets"}:
            groups.append(_sketch(document, frame))
        elif isinstance(document, dict) and set(document) == {"attributes", "cells", "rows"}:
            groups.append(_matrix(document, frame, left))
            left -= document["cells"] * len(document["rows"])
        elif isinstance(document, dict) and set(document) == {"attributes", "cells", "blocks"}:
            groups.append(_blocks(document, frame, left))
            left -= sum(document["cells"] * len(block["rows"]) for block in document["blocks"])
        else:
            raise PlanError("group", expected="parts, a partition, a matrix or blocks", given=document)
    return tuple(groups)


def _product(document: list[Any], frame: Frame, known: dict[tuple[Any, ...], GroupPart]) -> Group:
    parts = []
    for part in document:
        form = isinstance(part, list) and len(part) == 3 and is_whole(part[0]) and is_whole(part[1])
        if not form or not isinstance(part[2], str):
            raise PlanError("group", expected="parts [axis, level, kind]", given=part)
        key = tuple(part)
        if key not in known:
            known[key] = _part(key, frame)
        parts.append(known[key])
    if any(left.axis >= right.axis for left, right in pairwise(parts)):
        raise PlanError("group", expected="each axis at most once, in order", given=document)
    return tuple(parts)


def _part(part: tuple[Any, ...], frame: Frame) -> GroupPart:
    axis, level, kind = part
    if not 0 <= axis < len(frame.fan_outs) or not 1 <= level <= len(frame.fan_outs[axis]):
        raise PlanError("group", expected="axes and levels of the frame", given=part)
    if kind not in get_args(PartKind):
        raise PlanError("group", expected="a known kind of part", given=kind, available=get_args(PartKind))
    if kind == "contrast" and frame.fan_outs[axis][level - 1] != 2:
        raise PlanError("group", expected="contrasts of two halves only", given=part)
    if kind in ("helmert", "squares") and frame.fan_outs[axis][level - 1] < 2:
        raise PlanError("group", expected="Helmert rows of two children or more", given=part)
    return GroupPart(axis, level, kind)


def _sketch(document: dict[str, Any], frame: Frame) -> SketchGroup:
    partition, buckets = document["partition"], document["buckets"]
    if not is_whole(partition) or not 0 <= partition < _MOST_PARTITIONS:
        raise PlanError("partition", expected="the number of a partition", given=partition)
    if not is_whole(buckets) or not 1 <= buckets <= _MOST_EXPLICIT or frame.has_padding:
        raise PlanError("buckets", expected="a partition of the base cells into buckets", given=buckets)
    return SketchGroup(partition, buckets)


def _matrix(document: dict[str, Any], frame: Frame, left: int) -> MatrixGroup:
    names, cells, rows = document["attributes"], document["cells"], document["rows"]
    schema = frame.schema
    known = isinstance(names, list) and names == [name for name in schema.names if name in names]
    if not known or cells != prod(schema[name].cells for name in names) or not is_whole(cells):
        raise PlanError("matrix", expected="one over the cells of its attributes, in schema order", given=names)
    if not isinstance(rows, list) or cells > _MOST_CELLS or cells * len(rows) > left:
        expected = f"at most {_MOST_CELLS:,} columns, and {_MOST_EXPLICIT:,} entries in all groups"
        raise PlanError("matrix", expected=expected)
    whole = []
    for row in rows:
        if not isinstance(row, list) or not row or not all(map(is_whole, row)):
            raise PlanError("matrix", expected="rows of whole numbers", given=row)
        first, after = row[0], cells - row[0] - len(row) + 1
        if first < 0 or after < 0:
            raise PlanError("matrix", expected=f"rows of {cells:,} entries", given=row)
        whole.append((0,) * first + tuple(row[1:]) + (0,) * after)
    return MatrixGroup(tuple(names), tuple(whole))


def _blocks(document: dict[str, Any], frame: Frame, left: int) -> BlockGroup:
    blocks, names = [], frame.schema.names
    if not isinstance(document["blocks"], list):
        raise PlanError("blocks", expected="a list of blocks")
    for each in document["blocks"]:
        if not isinstance(each, dict) or set(each) != {"contrasted", "rows"}:
            raise PlanError("block", expected="contrasted attributes and rows", given=each)
        contrasted, rows = each["contrasted"], each["rows"]
        if not isinstance(contrasted, list) or contrasted != [name for name in names if name in contrasted]:
            raise PlanError("block", expected="contrasted attributes in schema order", given=contrasted)
        matrix = {"attributes": document["attributes"], "cells": document["cells"], "rows": rows}
        blocks.append(Block(tuple(contrasted), _matrix(matrix, frame, left)))
        left -= document["cells"] * len(rows)
    return BlockGroup(tuple(blocks))


def is_whole(value: object) -> bool:
    """Whether a value of a document is a whole number."""
    return type(value) is int


# Limits


def require_room(workload: Workload, frame: Frame, groups: Sequence[Group]) -> None:
    """Refuse groups with too many rows, and tables that take more memory than the rows that determine them.

    A table is recovered on the cells of its axes, with padding. Each of them is determined by some row, so there are at
    least as many rows as cells; a plan with fewer determines nothing, whatever it says.
    """
    rows = [group_rows(frame, group) for group in groups]
    in_all = sum(rows)
    if in_all > _MOST_ROWS:
        raise PlanError("plan", expected=f"at most {_MOST_ROWS:,} rows", given=Plain(counted(in_all)))
    if any(count > _MOST_HELMERT for group, count in zip(groups, rows, strict=True) if has_helmert(group)):
        raise PlanError("group", expected=f"at most {_MOST_HELMERT:,} Helmert rows")
    if any(isinstance(group, BlockGroup) for group in groups):
        _require_block_room(workload, frame, groups)
        return
    if not is_structured(groups):
        _require_explicit_room(workload, frame, groups, in_all)
        return
    sizes: dict[str | Axis, int] = {}
    for table in workload:
        for entry in table:
            if entry not in sizes:
                sizes[entry] = _padded_cells(frame, entry)
        cells = prod([sizes[entry] for entry in table])
        if cells > in_all:
            expected = f"as many rows as a table has cells, {counted(cells)} with padding"
            raise PlanError("plan", expected=expected, given=Plain(counted(in_all)))


def _padded_cells(frame: Frame, entry: str | Axis) -> int:
    axis = Axis.of(entry)
    attribute = frame.schema[axis.attribute]
    return frame.nested_sizes(attribute, frame.source(attribute, axis.level))[-1]


def _require_explicit_room(workload: Workload, frame: Frame, groups: Sequence[Group], rows: int) -> None:
    """Refuse what dense algebra on the cells of the attributes in use cannot handle."""
    if frame.kind != "natural" or frame.leveled or frame.kept:
        raise PlanError("frame", expected="a natural one without levels, for rows without product structure")
    cells = prod(frame.schema[name].cells for name in _attributes_in_use(workload, frame, groups))
    if cells > _MOST_CELLS or rows * cells > _MOST_EXPLICIT:
        expected = f"a domain of at most {_MOST_CELLS:,} cells, and {_MOST_EXPLICIT:,} entries"
        raise PlanError("explicit rows", expected=expected, given=Plain(f"{counted(cells)} cells"))


def _require_block_room(workload: Workload, frame: Frame, groups: Sequence[Group]) -> None:
    """Refuse what block recovery cannot handle: a table is added up from blocks for all sets of its attributes."""
    group = groups[0]
    if len(groups) > 1 or not isinstance(group, BlockGroup) or frame.kind != "natural" or frame.leveled:
        raise PlanError("blocks", expected="one group of blocks alone, in a natural frame without levels")
    known = {block.contrasted for block in group.blocks}
    for name in {name for contrasted in known for name in contrasted}:
        if frame.schema[name].cells > _MOST_CONTRASTED:
            expected = f"contrasted attributes of at most {_MOST_CONTRASTED:,} cells"
            raise PlanError("blocks", expected=expected, given=name)
    for table in workload:
        names = tuple([axis.attribute for axis in map(Axis.of, table) if axis.attribute not in group.attributes])
        if tuple(name for name in names if frame.schema[name].cells > 1) not in known:
            raise PlanError("blocks", expected="a block for the attributes of every table", given=names)
        cells = len(group.blocks[0].matrix.rows[0]) * prod(frame.schema[name].cells for name in names)
        if cells > _MOST_BLOCK_CELLS:
            expected = f"at most {_MOST_BLOCK_CELLS:,} cells of the matrices and of a table's other attributes"
            raise PlanError("blocks", expected=expected, given=Plain(counted(cells)))


def _attributes_in_use(workload: Workload, frame: Frame, groups: Sequence[Group]) -> set[str]:
    names = {Axis.of(entry).attribute for table in workload for entry in table}
    for group in groups:
        names.update(group.attributes if isinstance(group, MatrixGroup) else frame.schema.names)
    return names


def require_sources(
    workload: Workload, frame: Frame, groups: Sequence[Group], sources: Sequence[Sequence[int]]
) -> None:
    """Refuse direct recovery from groups that a table cannot be added up from."""
    if frame.kind == "binary" or not is_structured(groups):
        raise PlanError("sources", expected="groups of cells on one axis per attribute")
    for table, used in zip(workload, sources, strict=True):
        levels = [_levels_of_cells(groups[number]) for number in used]
        if not used or not all(_adds_up(frame, table, own) for own in levels) or not _has_leaves(frame, table, levels):
            raise PlanError("sources", expected="for every table, groups of its cells or finer ones", given=used)


def _levels_of_cells(group: Group) -> dict[int, int] | None:
    """The level of each axis of a group of cells; None if it is another kind of group."""
    if isinstance(group, SketchGroup | MatrixGroup | BlockGroup) or any(part.kind != "cells" for part in group):
        return None
    return {part.axis: part.level for part in group}


def _adds_up(frame: Frame, table: Table, levels: dict[int, int] | None) -> bool:
    """Whether the rows of a group of cells can be added up to the cells of a table, apart from ranges."""
    if levels is None:
        return False
    for axis in map(Axis.of, table):
        ((number, level),) = frame.footprint(frame.schema[axis.attribute], axis.level)
        if not axis.is_ranged and levels.get(number, 0) < level:
            return False
    return True


def _has_leaves(frame: Frame, table: Table, levels: Sequence[dict[int, int] | None]) -> bool:
    """Whether some group has the cells of every attribute by ranges, from which any range can be added up."""
    ranged = [axis for axis in map(Axis.of, table) if axis.is_ranged]
    finest = dict(frame.footprint(frame.schema[axis.attribute])[0] for axis in ranged)
    return any(own is not None and all(own.get(axis, 0) == level for axis, level in finest.items()) for own in levels)
