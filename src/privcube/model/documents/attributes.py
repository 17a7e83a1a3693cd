"""Reading and writing an attribute as a section of a document. Zone: PUBLIC."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final, cast

from privcube.errors import Plain, SpecError, counted
from privcube.model.amounts import decimal_text
from privcube.model.attribute import MOST_CODES, Attribute
from privcube.model.documents.toml_reader import Section
from privcube.model.levels import Level
from privcube.model.schema import Schema

_POLICY_KEYS: Final = ("missing", "other", "underflow", "overflow")
ATTRIBUTE_KEYS: Final = ("name", "values", "size", "bins", "levels", "ordered", *_POLICY_KEYS, "draft")


def schema_from(sections: Sequence[Section]) -> Schema:
    """The schema that sections declare, if the codes that it writes out are not too many."""
    codes = 0
    for section in sections:
        size, levels = section.raw("size", None), section.raw("levels", None)
        extra = any(section.raw(key, None) == "category" for key in ("missing", "other"))
        if type(size) is int and (levels or extra):
            codes += size * (1 + len(levels) if isinstance(levels, list) else 1)
    if codes > MOST_CODES:
        expected = f"at most {MOST_CODES:,} codes of attributes with levels or categories, once per level"
        raise SpecError("attributes", expected=expected, given=Plain(counted(codes)))
    return Schema(attribute_from(section) for section in sections)


def attribute_from(section: Section) -> Attribute:
    """The attribute that a section declares."""
    levels = [
        Level(
            level.text("name"),
            groups=level.raw("groups", None),
            width=level.integer("width", None),
            bins=level.raw("bins", None),
        )
        for level in section.sections("levels", ("name", "groups", "width", "bins"), required=False)
    ]
    policies = {key: section.text(key) for key in _POLICY_KEYS if key in section.given}
    return Attribute(
        section.text("name"),
        values=section.raw("values", None),
        size=section.raw("size", None),
        bins=section.raw("bins", None),
        levels=levels,
        ordered=section.flag("ordered", None),
        draft=section.flag("draft", False),
        **cast(Any, policies),
    )


def attribute_document(attribute: Attribute) -> dict[str, Any]:
    """The section that declares an attribute."""
    document: dict[str, Any] = present(
        {
            "name": attribute.name,
            "values": None if attribute.values is None else list(attribute.values),
            "size": attribute.size,
            "bins": None if attribute.bins is None else [_number(edge) for edge in attribute.bins],
            "ordered": attribute.ordered,
            "missing": attribute.missing,
            "other": attribute.other,
            "draft": attribute.draft or None,
        }
    )
    if attribute.bins is not None:
        document |= {"underflow": attribute.underflow, "overflow": attribute.overflow}
    if attribute.levels:
        document["levels"] = [
            present(
                {
                    "name": level.name,
                    "groups": None if level.groups is None else {key: list(members) for key, members in level.groups},
                    "width": level.width,
                    "bins": None if level.bins is None else [_number(edge) for edge in level.bins],
                }
            )
            for level in attribute.levels
        ]
    return document


def _number(edge: Fraction) -> int | str:
    return int(edge) if edge.denominator == 1 and abs(edge) < 2**63 else decimal_text(edge)


def present(document: dict[str, Any]) -> dict[str, Any]:
    """The document without the keys that have no value."""
    return {key: value for key, value in document.items() if value is not None}
