"""The codebook: what every attribute, level and value is called, and what it means. Zone: RELEASED.

It has a line for every attribute, measure and level, without a code, and one for every value or group. Attributes
declared by size alone, of which there may be a hundred million codes, have one line for all unless some have labels.
"""

from __future__ import annotations

from collections.abc import Iterator

from privcube.model.publication.readings import codes
from privcube.model.publication.words import Words, code_text
from privcube.model.schema import Schema
from privcube.model.workload import Axis

COLUMNS = ("attribute", "level", "code", "title", "description")


def codebook_rows(schema: Schema, words: Words) -> Iterator[tuple[str, str, str, str, str]]:
    """Attribute, level, code, title (of a value: its label) and description.

    >>> from privcube.model.attribute import Attribute
    >>> schema = Schema([Attribute("sex", values=["f", "m"])])
    >>> list(codebook_rows(schema, Words(attributes={"sex": {"title": "Sex", "labels": {"f": "Women"}}})))
    [('sex', '', '', 'Sex', ''), ('sex', '', 'f', 'Women', ''), ('sex', '', 'm', 'm', '')]
    """
    for attribute in schema:
        for level in (None, *attribute.level_names):
            said, name = words.level(attribute.name, level), level or ""
            title = words.axis_title(Axis(attribute.name, level))
            unit = words.attribute(attribute.name).unit
            told = [said.description or "", "" if unit is None else f"Unit: {unit}"]
            yield attribute.name, name, "", title, "; ".join(filter(None, told))
            if attribute.is_measure:
                continue
            called, read = codes(attribute, level), words.labels(schema, attribute.name, level)
            if isinstance(read, range):
                yield attribute.name, name, f"{read[0]} to {read[-1]}", "codes", ""
                continue
            for code, label in zip(called, read, strict=True):
                yield attribute.name, name, code_text(code), code_text(label), ""
