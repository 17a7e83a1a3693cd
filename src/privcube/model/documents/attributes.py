"""Reading and writing an attribute as a section of a document. Zone: PUBLIC."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, cast

from privcube.errors import Plain, SchemaError, SpecError, counted
from privcube.model.amounts import decimal_text
from privcube.model.attribute import MOST_CODES, Attribute
from privcube.model.columns.dates import Dates
from privcube.model.documents.toml_reader import Section
from privcube.model.documents.value_files import joined_spellings, values_in
from privcube.model.levels import Level
from privcube.model.measures.grid import Grid
from privcube.model.schema import Schema

_POLICY_KEYS: Final = ("missing", "other", "underflow", "overflow")
_DECLARED_KEYS: Final = ("name", "values", "size", "bins", "dates")
_GRID_KEYS: Final = ("low", "high", "step", "knots")
_CLEANING_KEYS: Final = ("column", "trim", "case", "raw")
_DATE_KEYS: Final = ("by", "first", "last", "format")
ATTRIBUTE_KEYS: Final = (*_DECLARED_KEYS, "levels", "ordered", *_POLICY_KEYS, *_CLEANING_KEYS, "draft")
_LEVEL_KEYS: Final = ("name", "groups", "width", "bins", "by", "of")
_WORD_KEYS: Final = ("title", "description", "labels")  # words are not part of a plan
SPEC_ATTRIBUTE_KEYS: Final = (*ATTRIBUTE_KEYS, "values_from", *_WORD_KEYS)  # a plan contains the values themselves
PLAN_ATTRIBUTE_KEYS: Final = (*ATTRIBUTE_KEYS, "grid")  # a spec declares measures by themselves
MEASURE_KEYS: Final = (
    "name",
    *_GRID_KEYS,
    *_POLICY_KEYS,
    "column",
    "trim",
    "raw",
    "draft",
    "title",
    "description",
    "unit",
)


def schema_from(
    sections: Sequence[Section], where: Any, folder: Path | None = None, measures: Sequence[Section] = ()
) -> Schema:
    """The schema that sections and conditions declare, if the codes that it writes out are not too many.

    With a folder they are those of a spec there, which may have words; without, those of a plan.
    """
    codes = 0
    for section in sections:
        size, levels = section.raw("size", None), section.raw("levels", None)
        extra = any(section.raw(key, None) == "category" for key in ("missing", "other"))
        if type(size) is int and (levels or extra):
            codes += size * (1 + len(levels) if isinstance(levels, list) else 1)
    if codes > MOST_CODES:
        expected = f"at most {MOST_CODES:,} codes of attributes with levels or categories, once per level"
        raise SpecError("attributes", expected=expected, given=Plain(counted(codes)))
    attributes = [attribute_from(section, folder) for section in sections]
    return Schema([*attributes, *map(measure_from, measures)], where=where)


def attribute_from(section: Section, folder: Path | None = None) -> Attribute:
    """The attribute that a section of a plan declares, or with a folder, that of a spec there."""
    level_keys = _LEVEL_KEYS if folder is None else (*_LEVEL_KEYS, *_WORD_KEYS)
    levels = [
        Level(
            level.text("name"),
            groups=level.raw("groups", None),
            width=level.integer("width", None),
            bins=level.raw("bins", None),
            by=level.text("by", None),
            of=level.text("of", None),
        )
        for level in section.sections("levels", level_keys, required=False)
    ]
    values, spelled = section.raw("values", None), section.raw("raw", ())
    if "values_from" in section.given:
        if values is not None:
            raise SpecError(section.path("values_from"), expected="values or values_from", given=Plain("both"))
        values, codes = values_in((folder or Path()) / section.text("values_from"), section.path("values_from"))
        spelled = joined_spellings(section.path("raw"), codes, spelled)
    words = {key: section.text(key) for key in (*_POLICY_KEYS, "column", "case") if key in section.given}
    return Attribute(
        section.text("name"),
        values=values,
        size=section.raw("size", None),
        bins=section.raw("bins", None),
        dates=_dates(section) if "dates" in section.given else None,
        grid=_grid(section.section("grid", _GRID_KEYS), section.text("name")) if "grid" in section.given else None,
        levels=levels,
        ordered=section.flag("ordered", None),
        trim=section.flag("trim", False),
        raw=spelled,
        draft=section.flag("draft", False),
        **cast(Any, words),
    )


def measure_from(section: Section) -> Attribute:
    """The measure that a section declares."""
    policies = {"underflow": "clamp", "overflow": "clamp"}
    words = {key: section.text(key) for key in (*_POLICY_KEYS, "column") if key in section.given}
    return Attribute(
        section.text("name"),
        grid=_grid(section, section.text("name")),
        trim=section.flag("trim", False),
        raw=section.raw("raw", ()),
        draft=section.flag("draft", False),
        **cast(Any, policies | words),
    )


def _grid(section: Section, name: str) -> Grid:
    ends = {key: section.raw(key) for key in ("low", "high", "step")}
    try:
        return Grid(**ends, knots=section.raw("knots", ()))
    except SchemaError as problem:
        raise SchemaError(f"measure {name!r}, {problem.subject}", expected=problem.expected) from None


def _dates(section: Section) -> Dates:
    dates = section.section("dates", _DATE_KEYS)
    try:
        return Dates(
            by=cast(Any, dates.text("by")),
            first=dates.raw("first", None),
            last=dates.raw("last", None),
            format=cast(Any, dates.text("format", "iso")),
        )
    except SchemaError as problem:
        named = f"attribute {section.text('name')!r}, {problem.subject}"
        raise SchemaError(named, expected=problem.expected) from None


def attribute_document(attribute: Attribute) -> dict[str, Any]:
    """The section that declares an attribute."""
    document: dict[str, Any] = present(
        {
            "name": attribute.name,
            "values": None if attribute.values is None else list(attribute.values),
            "size": attribute.size,
            "bins": None if attribute.bins is None else [_number(edge) for edge in attribute.bins],
            "dates": None if attribute.dates is None else attribute.dates.document,
            "grid": None if attribute.grid is None else attribute.grid.document,
            "ordered": attribute.ordered,
            "missing": attribute.missing,
            "other": attribute.other,
            "column": None if attribute.column == attribute.name else attribute.column,
            "trim": attribute.trim or None,
            "case": None if attribute.case == "exact" else attribute.case,
            "raw": {label: list(spelled) for label, spelled in attribute.raw} or None,
            "draft": attribute.draft or None,
        }
    )
    if attribute.has_ends:
        document |= {"underflow": attribute.underflow, "overflow": attribute.overflow}
    if attribute.levels:
        document["levels"] = [
            present(
                {
                    "name": level.name,
                    "groups": None if level.groups is None else {key: list(members) for key, members in level.groups},
                    "width": level.width,
                    "bins": None if level.bins is None else [_number(edge) for edge in level.bins],
                    "by": level.by,
                    "of": level.of,
                }
            )
            for level in attribute.levels
        ]
    return document


def measure_document(attribute: Attribute) -> dict[str, Any]:
    """The section of a spec that declares a measure."""
    document = attribute_document(attribute)
    return {"name": document.pop("name"), **document.pop("grid"), **_without(document, ("ordered",))}


def _without(document: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in keys}


def where_document(schema: Schema) -> dict[str, Any]:
    """The conditions of a schema, under their key; nothing if there are none."""
    where = {condition.name: condition.document for condition in schema.where}
    return {"where": where} if where else {}


def _number(edge: Fraction) -> int | str:
    return int(edge) if edge.denominator == 1 and abs(edge) < 2**63 else decimal_text(edge)


def present(document: dict[str, Any]) -> dict[str, Any]:
    """The document without the keys that have no value."""
    return {key: value for key, value in document.items() if value is not None}
