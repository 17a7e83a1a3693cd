"""A plan as a JSON document that states everything the plan decides. Zone: PUBLIC."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

from privcube.errors import Plain, PlanError, PrivcubeError
from privcube.model.amounts import decimal_text
from privcube.model.documents.attributes import ATTRIBUTE_KEYS, attribute_document, attribute_from, where_document
from privcube.model.documents.toml_reader import Section
from privcube.model.frame import Frame
from privcube.model.groups import Group, GroupPart, MatrixGroup, SketchGroup
from privcube.model.options import PlanOptions
from privcube.model.privacy.guarantee import guarantee_from
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Workload

if TYPE_CHECKING:
    from privcube.model.plan import Plan

FORMAT: Final = "privcube plan 1"
_OPTIONS: Final = ("strategy", "budgets", "recovery", "effort", "objective")


def plan_document(plan: Plan) -> dict[str, Any]:
    """The plan as JSON-ready values, without its digest."""
    guarantee = plan.guarantee
    return {
        "format": FORMAT,
        "attributes": [attribute_document(attribute) for attribute in plan.workload.schema],
        **where_document(plan.workload.schema),
        "tables": [[entry if isinstance(entry, str) else list(entry) for entry in table] for table in plan.workload],
        "weights": list(plan.workload.weights),
        "guarantee": {
            "amounts": {name: decimal_text(amount) for name, amount in guarantee.amounts.items()},
            "neighbors": guarantee.neighbors,
            "max_rows_per_person": guarantee.max_rows_per_person,
            "calibration": guarantee.calibration,
        },
        "options": {name: getattr(plan.options, name) for name in _OPTIONS},
        "frame": {
            "kind": plan.frame.kind,
            "branching": plan.frame.branching,
            "leveled": sorted(plan.frame.leveled),
        },
        "groups": [_group_document(group) for group in plan.groups],
        "shares": list(plan.shares),
        "denominator": plan.denominator,
        "bundles": None if plan.bundles is None else [list(bundle) for bundle in plan.bundles],
        "sources": None if plan.sources is None else [list(used) for used in plan.sources],
        "predicted_variance_per_cell": list(plan.table_variances),
    }


def digest_of(document: dict[str, Any]) -> str:
    """SHA-256 of a document in canonical JSON."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def plan_parts(text: str) -> dict[str, Any]:
    """The fields of the plan that a JSON text describes."""
    try:
        document = json.loads(text)
        given = document.pop("digest", None)
        document.pop("drawn_variance_per_cell", None)  # `privcube plan --json` adds it; it follows from the rest
        if document.get("format") != FORMAT:
            raise PlanError("plan", expected=f"the format {FORMAT!r}", given=document.get("format"))
        if given != digest_of(document):
            changed = Plain("a different one (the plan was changed)")
            raise PlanError("plan", expected="the digest that matches its contents", given=changed)
        return _parts(document)
    except PrivcubeError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise PlanError("plan", expected="the JSON of a plan", given=text) from None


def _parts(document: dict[str, Any]) -> dict[str, Any]:
    sections = [Section(f"attributes[{i}]", item, ATTRIBUTE_KEYS) for i, item in enumerate(document["attributes"])]
    schema = Schema((attribute_from(section) for section in sections), where=document.get("where"))
    tables = [[entry if isinstance(entry, str) else Axis(*entry) for entry in table] for table in document["tables"]]
    guarantee, frame = document["guarantee"], document["frame"]
    return {
        "workload": Workload.tables(schema, tables, weights=document["weights"]),
        "guarantee": guarantee_from(
            guarantee["amounts"],
            neighbors=guarantee["neighbors"],
            max_rows_per_person=guarantee["max_rows_per_person"],
            calibration=guarantee["calibration"],
        ),
        "options": PlanOptions(**document["options"]),
        "frame": Frame(schema, frame["kind"], frame["branching"], frozenset(frame["leveled"])),
        "groups": tuple(_group(group) for group in document["groups"]),
        "shares": tuple(int(share) for share in document["shares"]),
        "denominator": int(document["denominator"]),
        "sources": _numbers(document["sources"]),
        "bundles": _numbers(document["bundles"]),
        "table_variances": tuple(float(variance) for variance in document["predicted_variance_per_cell"]),
    }


def _numbers(lists: Any) -> tuple[tuple[int, ...], ...] | None:
    return None if lists is None else tuple(tuple(int(number) for number in numbers) for numbers in lists)


def _group_document(group: Group) -> dict[str, Any] | list[list[Any]]:
    """A group; the rows of a matrix are stripped of zeros at both ends and start with the position of their first."""
    if isinstance(group, SketchGroup):
        return group._asdict()
    if isinstance(group, MatrixGroup):
        ends = [[at for at, entry in enumerate(row) if entry] or [0] for row in group.rows]
        rows = [[own[0], *row[own[0] : own[-1] + 1]] for own, row in zip(ends, group.rows, strict=True)]
        return {"attributes": list(group.attributes), "cells": len(group.rows[0]), "rows": rows}
    return [list(part) for part in group]


def _group(group: Any) -> Group:
    if not isinstance(group, dict):
        return tuple(GroupPart(*part) for part in group)
    if "partition" in group:
        return SketchGroup(group["partition"], group["buckets"])
    cells = int(group["cells"])
    rows = [(0,) * row[0] + tuple(row[1:]) + (0,) * (cells - row[0] - len(row) + 1) for row in group["rows"]]
    return MatrixGroup(tuple(group["attributes"]), tuple(rows))
