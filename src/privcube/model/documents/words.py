"""Words in documents: the keys of a spec.toml that hold them, and words.json of an artifact. Zone: PUBLIC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from privcube.errors import Plain, SpecError, WordsError
from privcube.model.attribute import Attribute
from privcube.model.documents.attributes import present
from privcube.model.documents.request import WorkloadRequest, weighted_tables, written
from privcube.model.documents.toml_reader import Section
from privcube.model.documents.value_files import labels_in
from privcube.model.publication.readings import codes
from privcube.model.publication.words import ABOUT, REGISTRY, AttributeWords, LevelWords, Words, code_text
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Table, Workload, canonical

FORMAT: Final = "privcube words 1"
_LEVEL: Final = ("title", "description", "labels")


# In a spec


def words_from(root: Section, schema: Schema, known: Sequence[str], folder: Path) -> Words:
    """The words of a spec; files with labels are relative to `folder`, and `known` are the keys of [output]."""
    about = root.section("about", ABOUT, required=False)
    output = root.section("output", known, required=False)
    registry = root.section("registry", REGISTRY, required=False)
    attributes = {}
    for section, attribute in zip([*root.array("attributes"), *root.array("measures")], schema, strict=True):
        said = _attribute_words(section, attribute, folder)
        if said != AttributeWords():
            attributes[attribute.name] = said
    tables = {}
    workload = root.section("workload", WorkloadRequest.KEYS)
    for index, given in enumerate(workload.array("tables")):
        if isinstance(given, dict) and "title" in given:
            table, _ = weighted_tables(workload, index, given)[0]
            tables[canonical(schema, table)] = given["title"]
    return Words(
        **{key: about.text(key) for key in about.given},
        attributes=attributes,
        tables=tables,
        decimals=output.integer("decimals", None),
        reliability=output.raw("reliability", None),
        registry={key: registry.text(key) for key in registry.given},
    )


def _attribute_words(section: Mapping[str, Any], attribute: Attribute, folder: Path) -> AttributeWords:
    """What the section of an attribute says about it; `attribute_from` has checked its keys."""
    levels = {}
    for own in section.get("levels", ()):
        said = _said(own, attribute, own["name"], folder)
        if said:
            levels[own["name"]] = LevelWords(**said)
    try:
        return AttributeWords(**_said(section, attribute, None, folder), levels=levels)
    except WordsError as problem:
        raise WordsError(f"attribute {attribute.name!r}, {problem.subject}", expected=problem.expected) from None


def _said(section: Mapping[str, Any], attribute: Attribute, level: str | None, folder: Path) -> dict[str, Any]:
    said = {key: section[key] for key in (*_LEVEL, *(("unit",) if attribute.is_measure else ())) if key in section}
    subject = f"attribute {attribute.name!r}, labels" if level is None else f"level {level!r}, labels"
    labels = said.get("labels")
    if isinstance(labels, str):
        said["labels"] = labels_in(folder / labels, subject)
    elif isinstance(labels, list):
        said["labels"] = _in_order(subject, labels, attribute, level)
    elif labels is not None and not isinstance(labels, dict):
        expected = 'a table such as { F = "Female" }, a list in the order of the values, or a CSV or JSON file'
        raise SpecError(subject, expected=expected, given=labels)
    return said


def _in_order(subject: str, labels: list[Any], attribute: Attribute, level: str | None) -> dict[str, Any]:
    """Labels of all cells, or of all but the categories for what is not declared."""
    called = [code_text(code) for code in codes(attribute, level)]
    if level is None and len(labels) == attribute.declared_cells:
        called = called[attribute.first_declared :][: len(labels)]
    if len(labels) != len(called):
        expected = f"{attribute.declared_cells if level is None else len(called):,} labels, in the order of the values"
        raise SpecError(subject, expected=expected, given=Plain(f"{len(labels):,}"))
    return dict(zip(called, labels, strict=True))


def with_words(document: dict[str, Any], words: Words, workload: Workload) -> dict[str, Any]:
    """The document of a spec, with its words."""
    attributes = []
    for section in document["attributes"]:
        own = words.attribute(section["name"])
        section = {**section, **_level_document(own)}
        if own.levels:
            levels = section["levels"]
            section["levels"] = [
                {**level, **_level_document(words.level(section["name"], level["name"]))} for level in levels
            ]
        attributes.append(section)
    measures = [{**own, **_level_document(words.attribute(own["name"]))} for own in document.get("measures", ())]
    tables = list(document["workload"].get("tables", ()))
    listed = [canonical(workload.schema, _listed(table)) for table in tables]
    for table, title in words.tables.items():
        if table in listed:
            given = tables[listed.index(table)]
            named = given if isinstance(given, dict) else {"attributes": given}
            tables[listed.index(table)] = {**named, "title": title}
        else:
            tables.append({"attributes": written(table), "weight": workload.weight(table), "title": title})
    return {
        **({"about": words.about} if words.about else {}),
        **document,
        "attributes": attributes,
        **({"measures": measures} if measures else {}),
        "workload": {**document["workload"], **({"tables": tables} if tables else {})},
        "output": {
            **document["output"],
            **present({"decimals": words.decimals, "reliability": words.reliability}),
        },
        **({"registry": dict(words.registry)} if words.registry else {}),
    }


def _listed(table: Any) -> list[Any]:
    entries = table["attributes"] if isinstance(table, dict) else table
    return [Axis(**entry) if isinstance(entry, dict) else entry for entry in entries]


def _level_document(words: LevelWords) -> dict[str, Any]:
    labels = dict(words.labels)
    unit = words.unit if isinstance(words, AttributeWords) else None
    return present({"title": words.title, "description": words.description, "labels": labels or None, "unit": unit})


# In an artifact


def words_document(words: Words) -> dict[str, Any]:
    """The fields of words.json."""
    attributes = {}
    for name, own in words.attributes.items():
        levels = {level: _level_document(said) for level, said in own.levels.items()}
        attributes[name] = {**_level_document(own), **({"levels": levels} if levels else {})}
    tables = [
        {"axes": [list(Axis.of(entry)) for entry in table], "title": title} for table, title in words.tables.items()
    ]
    return present(
        {
            "format": FORMAT,
            **words.about,
            "attributes": attributes or None,
            "tables": tables or None,
            "decimals": words.decimals,
            "reliability": words.reliability,
            "registry": dict(words.registry) or None,
        }
    )


def words_in(document: Any, workload: Workload) -> Words:
    """The words in the fields of a words.json, if they are words about this workload."""
    known = (*ABOUT, "attributes", "tables", "decimals", "reliability", "registry")
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise WordsError("words.json", expected=f"the format {FORMAT!r}")
    said = {key: own for key, own in document.items() if key != "format"}
    for key in said:
        if key not in known:
            raise WordsError("words.json", expected="a known field", given=key, available=known)
    tables = said.pop("tables", [])
    if not isinstance(tables, list) or not all(map(_is_titled, tables)):
        raise WordsError("words.json, tables", expected="axes and titles", given=Plain("something else"))
    titles = {_table(own["axes"]): own["title"] for own in tables}
    words = Words(**said, tables=titles)
    words.require_fits(workload)
    return words


def _is_titled(own: Any) -> bool:
    if not isinstance(own, dict) or set(own) != {"axes", "title"} or not isinstance(own["axes"], list):
        return False
    return all(isinstance(axis, list) and len(axis) == 3 and _are_texts(axis) for axis in own["axes"])


def _are_texts(axis: list[Any]) -> bool:
    return isinstance(axis[0], str) and isinstance(axis[1], str | None) and isinstance(axis[2], str)


def _table(axes: list[list[Any]]) -> Table:
    found = [Axis(*axis) for axis in axes]
    return tuple(axis.attribute if axis == Axis(axis.attribute) else axis for axis in found)
