"""A plan as a JSON document that states everything the plan decides. Zone: PUBLIC."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final, cast

from privcube.errors import Plain, PlanError
from privcube.model.amounts import decimal_text
from privcube.model.documents.attributes import PLAN_ATTRIBUTE_KEYS, attribute_document, schema_from, where_document
from privcube.model.documents.json_reader import strict_json
from privcube.model.documents.plan_groups import (
    group_document,
    groups_from,
    is_whole,
    require_room,
    require_sources,
)
from privcube.model.documents.toml_reader import Section
from privcube.model.frame import Frame, FrameKind
from privcube.model.noise.bundles import Gram, Law
from privcube.model.options import PlanOptions
from privcube.model.privacy.guarantee import Calibration, Neighbors, guarantee_from
from privcube.model.workload import Axis, Workload

if TYPE_CHECKING:
    from privcube.model.plan import Plan

FORMAT: Final = "privcube plan 1"
_KEYS: Final = (
    "format",
    "attributes",
    "where",
    "tables",
    "weights",
    "guarantee",
    "options",
    "frame",
    "groups",
    "shares",
    "denominator",
    "bundles",
    "laws",
    "sources",
    "predicted_variance_per_cell",
)
_AMOUNTS: Final = ("epsilon", "delta", "rho")
_LARGEST_DENOMINATOR: Final = 2**128  # the planner's is 2^48
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
            **({} if guarantee.row == "row" else {"row": guarantee.row}),
        },
        "options": {name: getattr(plan.options, name) for name in _OPTIONS},
        "frame": {
            "kind": plan.frame.kind,
            "branching": plan.frame.branching,
            "leveled": sorted(plan.frame.leveled),
            **({"kept": {name: list(levels) for name, levels in plan.frame.kept}} if plan.frame.kept else {}),
        },
        "groups": [group_document(group) for group in plan.groups],
        "shares": list(plan.shares),
        "denominator": plan.denominator,
        "bundles": None if plan.bundles is None else [list(bundle) for bundle in plan.bundles],
        **({} if plan.laws is None else {"laws": [_law_document(law) for law in plan.laws]}),
        "sources": None if plan.sources is None else [list(used) for used in plan.sources],
        "predicted_variance_per_cell": list(plan.table_variances),
    }


def digest_of(document: dict[str, Any]) -> str:
    """SHA-256 of a document in canonical JSON."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def plan_parts(text: str) -> tuple[dict[str, Any], str]:
    """The fields of the plan that a JSON text describes, and the digest that it states."""
    try:
        document = strict_json(text)
    except ValueError as problem:
        raise PlanError("plan", expected="JSON", given=Plain(str(problem))) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise PlanError("plan", expected=f"a document of the format {FORMAT!r}")
    given = document.pop("digest", None)
    for added in ("drawn_variance_per_cell", "warnings"):  # by `privcube plan --json`; they follow from the rest
        document.pop(added, None)
    try:
        found = digest_of(document)
    except (ValueError, RecursionError):  # lone surrogates, or brackets nested too deeply
        raise PlanError("plan", expected="text and numbers that can be written down") from None
    if given != found:
        raise changed_plan()
    return _parts(document), found


def changed_plan() -> PlanError:
    """The error for a plan whose digest does not match."""
    changed = Plain("a different one (the plan was changed)")
    return PlanError("plan", expected="the digest that matches its contents", given=changed)


def _parts(document: dict[str, Any]) -> dict[str, Any]:
    plan = Section("", document, _KEYS)
    schema = schema_from(plan.sections("attributes", PLAN_ATTRIBUTE_KEYS), plan.raw("where", None))
    guarantee = plan.section("guarantee", ("amounts", "neighbors", "max_rows_per_person", "calibration", "row"))
    amounts = guarantee.section("amounts", _AMOUNTS).amounts(_AMOUNTS)
    options = plan.section("options", _OPTIONS)
    layout = plan.section("frame", ("kind", "branching", "leveled", "kept"))
    kind, calibration = cast(FrameKind, layout.text("kind")), cast(Calibration, guarantee.text("calibration"))
    frame = Frame(schema, kind, layout.integer("branching"), frozenset(_names(layout, "leveled")), _kept(layout))
    workload = Workload.exactly(schema, map(_table, plan.array("tables")), weights=plan.array("weights"))
    groups = groups_from(plan.array("groups"), frame)
    require_room(workload, frame, groups)
    sources = _numbers(plan, "sources", len(groups))
    if sources is not None:
        if len(sources) != len(workload):
            raise PlanError("sources", expected="groups for every table", given=len(sources))
        require_sources(workload, frame, groups, sources)
    return {
        "workload": workload,
        "guarantee": guarantee_from(
            amounts,
            neighbors=cast(Neighbors, guarantee.text("neighbors")),
            max_rows_per_person=guarantee.integer("max_rows_per_person"),
            calibration=calibration,
            row=cast(Any, guarantee.text("row", "row")),
        ),
        "options": PlanOptions(**cast(Any, {name: options.text(name) for name in _OPTIONS})),
        "frame": frame,
        "groups": groups,
        "shares": tuple(_amount("shares", share) for share in plan.array("shares")),
        "denominator": _amount("denominator", plan.raw("denominator")),
        "sources": sources,
        "bundles": _numbers(plan, "bundles", len(groups)),
        "laws": None if plan.raw("laws", None) is None else tuple(map(_law, plan.array("laws"))),
        "table_variances": tuple(_variance(variance) for variance in plan.array("predicted_variance_per_cell")),
    }


def _table(entries: Any) -> list[str | Axis]:
    if not isinstance(entries, list):
        raise PlanError("tables", expected="lists of attributes", given=entries)
    table: list[str | Axis] = []
    for entry in entries:
        if isinstance(entry, list) and len(entry) == 3 and all(isinstance(part, str | None) for part in entry):
            table.append(Axis(*entry))
        elif isinstance(entry, str):
            table.append(entry)
        else:
            raise PlanError("tables", expected="attributes, or [attribute, level, queries]", given=entry)
    return table


def _names(section: Section, key: str) -> list[str]:
    names = section.array(key)
    if not all(isinstance(name, str) for name in names):
        raise PlanError(section.path(key), expected="names of attributes", given=names)
    return names


def _kept(layout: Section) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Attributes with some of their levels; none if the key is missing."""
    kept = layout.raw("kept", {})
    known = isinstance(kept, dict) and all(isinstance(levels, list) for levels in kept.values())
    if not known or not all(isinstance(level, str) for levels in kept.values() for level in levels):
        raise PlanError(layout.path("kept"), expected="lists of levels by attribute", given=kept)
    return tuple((name, tuple(levels)) for name, levels in kept.items())


def _numbers(section: Section, key: str, groups: int) -> tuple[tuple[int, ...], ...] | None:
    """Lists of numbers of groups, or None."""
    if section.raw(key) is None:
        return None
    lists = section.array(key)
    for numbers in lists:
        if not isinstance(numbers, list) or not all(is_whole(each) and 0 <= each < groups for each in numbers):
            raise PlanError(section.path(key), expected="lists of numbers of groups", given=numbers)
    return tuple(tuple(numbers) for numbers in lists)


def _law_document(law: Law) -> Any:
    return {"gram": list(law.weights)} if isinstance(law, Gram) else law


def _law(document: Any) -> Law:
    """The law of a bundle: a name, or the weights of a Gram bundle."""
    if isinstance(document, dict) and set(document) == {"gram"} and isinstance(document["gram"], list):
        return Gram(tuple(document["gram"]))
    if document not in ("max_norm", "rounded_max_norm", "section"):
        expected = '"max_norm", "rounded_max_norm", "section" or the weights of a Gram bundle'
        raise PlanError("laws", expected=expected, given=document)
    return cast(Law, document)


def _amount(subject: str, value: Any) -> int:
    if not is_whole(value) or not 1 <= value <= _LARGEST_DENOMINATOR:
        raise PlanError(subject, expected="whole numbers from 1 to 2^128", given=value)
    return int(value)


def _variance(value: Any) -> float:
    if not isinstance(value, float) or not value >= 0:
        raise PlanError("predicted_variance_per_cell", expected="variances, with a decimal point", given=value)
    return value
