"""Query conditions as people write them: sex=F, age=30..40, ward=surgery,medicine, age.stage="[0, 15)"."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Final

from privcube.errors import DeclarationError, QueryError
from privcube.model.amounts import exact
from privcube.model.attribute import Attribute
from privcube.model.schema import Schema, parts_of

Label = str | int | bool

_MOST_DIGITS: Final = 12  # of a code: more than any attribute has, and int() stays fast


def conditions_from(schema: Schema, texts: Iterable[str]) -> dict[str, Any]:
    """The selections (`privcube.released.selection`) that texts describe, at most one per attribute.

    >>> schema = Schema([Attribute("sex", values=["F", "M"]), Attribute("age", bins=[0, 18, 30, 65])])
    >>> conditions_from(schema, ["sex=F", "age=18..65"]), conditions_from(schema, ["age=[0, 18),[30, 65)"])
    ({'sex': 'F', 'age': [18, 65]}, {'age': ['[0, 18)', '[30, 65)']})
    """
    selections: dict[str, Any] = {}
    for text in texts:
        attribute, level, value = _sides(schema, text)
        if attribute.name in selections:
            raise QueryError("conditions", expected="every attribute once", given=attribute.name)
        if level is not None:
            groups = attribute.partition(level).labels
            selections[attribute.name] = {level: parts_of(value, ",", {str(group): group for group in groups}.get)}
        else:
            selections[attribute.name] = _selection(attribute, value)
    return selections


def _sides(schema: Schema, text: str) -> tuple[Attribute, str | None, str]:
    """Attribute, level and value of a condition; names may contain equals signs."""
    place = text.find("=")
    while place >= 0:
        named = schema.attribute_and_level(text[:place].strip())
        if named is not None:
            return *named, text[place + 1 :].strip()
        place = text.find("=", place + 1)
    name, equals, _ = text.partition("=")
    if not equals:
        raise QueryError("condition", expected="attribute=value, such as sex=F or age=30..40", given=text)
    known = [*schema.names, *(f"{own.name}.{level}" for own in schema for level in own.level_names)]
    raise QueryError("condition", expected="an attribute or attribute.level", given=name, available=known)


def _selection(attribute: Attribute, text: str) -> Any:
    label = _label(attribute, text)
    if label is not None:
        return label
    low, dots, high = text.partition("..")
    if dots:
        return _range(attribute, low.strip(), high.strip())
    chosen = parts_of(text, ",", lambda part: _label(attribute, part))
    return chosen if len(chosen) > 1 else chosen[0]


def _label(attribute: Attribute, text: str) -> Label | None:
    """The label written as this text, or None."""
    labels = attribute.labels
    if isinstance(labels, range):  # possibly of a hundred million codes
        number = int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else -1
        return number if number in labels else None
    shown = text.capitalize() if text.lower() in ("true", "false") and isinstance(labels[0], bool) else text
    return next((own for own in labels if str(own) == shown), None)


def _range(attribute: Attribute, low: str, high: str) -> Any:
    """Between bin edges, [low, high], or between labels, both included; a missing end is no bound."""
    if not attribute.ordered:
        raise QueryError(f"range of {attribute.name!r}", expected="an ordered attribute (list labels for others)")
    first, last = (_label(attribute, end) if end else None for end in (low, high))
    labeled = (first is not None or not low) and (last is not None or not high)
    if attribute.bins is None or (labeled and (low or high)):
        return slice(low or None if first is None else first, high or None if last is None else last)
    ends = (low or attribute.bins[0], high or attribute.bins[-1])
    return [_plain(exact(end, f"range of {attribute.name!r}", DeclarationError)) for end in ends]


def _plain(number: Fraction) -> int | float | Fraction:
    """A number in the form that messages should quote."""
    if number.denominator == 1:
        return int(number)
    return float(number) if Fraction(str(float(number))) == number else number
