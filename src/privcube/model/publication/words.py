"""What a publisher says about a release: titles, descriptions, labels, and how its numbers are written. Zone: PUBLIC.

Words change neither the schema nor the plan and its digest. They are attached to a release, are written down beside it
(words.json), and go to every output. They are the publisher's own: nobody can check whether they are true. What can be
checked is: they are text that every program can show, they are about attributes, values and tables that exist, and no
two values of an attribute read the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from privcube.errors import Plain, WordsError
from privcube.model.attribute import Attribute, Value
from privcube.model.levels import is_plain
from privcube.model.publication.readings import between, codes, readings, run_reading
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Table, Workload, canonical, table_name

_LONGEST_LINE: Final = 300  # characters of a title or label: it must fit over a table
_LONGEST_TEXT: Final = 10_000  # characters of a description
_LINES: Final = ("description",)  # what may have several lines
_REORDERS: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # what stands around them, too
_MOST_DECIMALS: Final = 10
MOST_RELATIVE_ERROR: Final = 0.3  # by default, as official statistics flag estimates

REGISTRY: Final = (  # what only the publisher can tell OpenDP's registry of deployments
    "url_slug",
    "name",
    "data_curator_name",
    "data_curator_type",
    "description",
    "intended_use",
    "data_product_region",
    "data_product_sector",
    "publication_date",
    "release_type",
    "data_source_type",
    "preprocessing_and_hyperparameter_tuning",
    "justification",
    "registry_authors",
)
ABOUT: Final = ("title", "description", "publisher", "contact", "period", "licence", "unit")


@dataclass(frozen=True, kw_only=True)
class LevelWords:
    """What a level of an attribute is called, and its groups."""

    title: str | None = None
    description: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)  # by what they are called in the schema, as text

    def __post_init__(self) -> None:
        for key in ("title", "description"):
            _check_text(key, getattr(self, key))
        if not isinstance(self.labels, Mapping):
            raise WordsError("labels", expected='a table such as { F = "Female" }', given=self.labels)
        for code, label in self.labels.items():
            if not isinstance(code, str):
                raise WordsError("labels", expected="values as text", given=code)
            if label is None:
                raise WordsError(f"label of {code!r}", expected="text", given=Plain("none"))
            _check_text(f"label of {code!r}", label)
        object.__setattr__(self, "labels", dict(self.labels))


@dataclass(frozen=True, kw_only=True)
class AttributeWords(LevelWords):
    """What an attribute is called, and its values and levels.

    >>> AttributeWords(title="Sex", labels={"F": "Female"}).labels["F"]
    'Female'
    """

    levels: Mapping[str, LevelWords] = field(default_factory=dict)
    unit: str | None = None  # of a measure: "days", "euros"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_text("unit", self.unit)
        object.__setattr__(self, "levels", _each("levels", self.levels, LevelWords))


@dataclass(frozen=True, kw_only=True)
class Words:
    """What a publisher says about a release; `attributes` and `tables` by their names.

    >>> words = Words(title="Discharges", unit="stays", attributes={"sex": {"title": "Sex", "labels": {"f": "Women"}}},
    ...               tables={("sex",): "Stays of women and men"})
    >>> words.attributes["sex"].title, words.attribute("age").title
    ('Sex', None)
    """

    title: str | None = None
    description: str | None = None
    publisher: str | None = None
    contact: str | None = None
    period: str | None = None
    licence: str | None = None
    unit: str | None = None  # what is counted: "persons", "stays"
    attributes: Mapping[str, AttributeWords] = field(default_factory=dict)
    tables: Mapping[Table, str] = field(default_factory=dict)
    decimals: int | None = None  # of numbers as published; None: as many as the standard error warrants
    reliability: float | None = None  # relative standard error above which a number is uncertain; None: 0.3

    registry: Mapping[str, str] = field(default_factory=dict)  # fields of registry.yaml

    def __post_init__(self) -> None:
        for key in ABOUT:
            _check_text(key, getattr(self, key))
        if not isinstance(self.registry, Mapping):
            raise WordsError("registry", expected="texts by field", given=self.registry)
        for key, text in self.registry.items():
            if key not in REGISTRY:
                raise WordsError("registry", expected="a known field", given=key, available=REGISTRY)
            if text is None:
                raise WordsError(f"registry, {key}", expected="text", given=Plain("none"))
            _check_text("description", text)
        object.__setattr__(self, "registry", dict(self.registry))
        object.__setattr__(self, "attributes", _each("attributes", self.attributes, AttributeWords))
        if not isinstance(self.tables, Mapping):
            raise WordsError("tables", expected="titles by table", given=self.tables)
        for title in self.tables.values():
            if title is None:
                raise WordsError("title of a table", expected="text", given=Plain("none"))
            _check_text("title of a table", title)
        object.__setattr__(self, "tables", dict(self.tables))
        if self.decimals is not None and (type(self.decimals) is not int or not 0 <= self.decimals <= _MOST_DECIMALS):
            expected = f"a whole number from 0 to {_MOST_DECIMALS}"
            raise WordsError("decimals", expected=expected, given=self.decimals)
        known = self.reliability is None or (type(self.reliability) in (int, float) and 0 < self.reliability <= 1)
        if not known:
            expected = "a relative standard error above 0 and at most 1, such as 0.3"
            raise WordsError("reliability", expected=expected, given=self.reliability)

    @property
    def most_relative_error(self) -> float:
        """The relative standard error above which a number is called uncertain."""
        return MOST_RELATIVE_ERROR if self.reliability is None else float(self.reliability)

    @property
    def about(self) -> dict[str, str]:
        """What is said about the release as a whole."""
        return {key: getattr(self, key) for key in ABOUT if getattr(self, key) is not None}

    def attribute(self, name: str) -> AttributeWords:
        """What is said about an attribute, perhaps nothing."""
        return self.attributes.get(name, _NOTHING)

    def level(self, attribute: str, level: str | None) -> LevelWords:
        """What is said about a level of an attribute; without a level, about the attribute."""
        own = self.attribute(attribute)
        return own if level is None else own.levels.get(level, _NOTHING)

    # As they are read

    def axis_title(self, entry: str | Axis) -> str:
        """What an entry of a table is called: its title, or its name."""
        axis = Axis.of(entry)
        own = self.attribute(axis.attribute).title
        title = self.level(axis.attribute, axis.level).title
        if title is None:
            title = axis.attribute if own is None else own
            title = title if axis.level is None else f"{title} by {axis.level}"
        if axis.queries == "count":
            return f"{self.unit or 'records'} with a number for {title}"
        if axis.queries == "sum":
            unit = self.attribute(axis.attribute).unit
            return f"sum of {title}" + ("" if unit is None else f" ({unit})")
        return _QUERIES[axis.queries].replace("{}", title)

    def table_title(self, table: Table) -> str:
        """What a table is called: its title, or what follows from the unit and the titles of its attributes.

        >>> Words(unit="stays", attributes={"sex": {"title": "Sex"}}).table_title(("sex", "age"))
        'Stays by Sex and age'
        >>> Words().table_title(("sex", "age")), Words().table_title(())
        ('sex x age', 'total')
        """
        if table in self.tables:
            return self.tables[table]
        if self.unit is None and not any(map(self._is_titled, table)):
            return table_name(table)
        titles = [self.axis_title(entry) for entry in table if not Axis.of(entry).is_measured]
        numbers = [self.axis_title(entry) for entry in table if Axis.of(entry).is_measured]
        counted = numbers[0] if numbers else "counts" if self.unit is None else self.unit
        counted = capitalized(counted)
        if not titles:
            return counted
        *others, last = titles
        return f"{counted} by {', '.join(others)} and {last}" if others else f"{counted} by {last}"

    def _is_titled(self, entry: str | Axis) -> bool:
        axis = Axis.of(entry)
        said = self.attribute(axis.attribute)
        return any((said.title, said.unit, self.level(axis.attribute, axis.level).title))

    def labels(self, schema: Schema, attribute: str, level: str | None = None) -> Sequence[Value]:
        """What cells, or groups of a level, read like: as labeled, or as they read by themselves.

        >>> schema = Schema([Attribute("age", bins=[0, 18, 65, 120], overflow="clamp")])
        >>> Words(attributes={"age": {"labels": {"[0, 18)": "Children"}}}).labels(schema, "age")
        ['Children', '18 to under 65', '65 and over']
        """
        declared = schema[attribute]
        given, cells = self.level(attribute, level).labels, self.attribute(attribute).labels
        read = readings(declared, level)
        if not given and not cells:
            return read
        labels = given if level is None else {**_of_categories(declared, cells), **given}
        return [labels.get(code_text(code), own) for code, own in zip(codes(declared, level), read, strict=True)]

    def run_labels(self, schema: Schema, attribute: str, runs: Sequence[tuple[int, int]]) -> list[str]:
        """What runs of neighboring cells, each from its first to its last, read like."""
        if not self.attribute(attribute).labels:
            return [run_reading(schema[attribute], first, last) for first, last in runs]
        own = self.labels(schema, attribute)
        return [between(own[first], own[last]) for first, last in runs]

    # Whether they are about what there is

    def require_fits(self, workload: Workload) -> None:
        """Refuse words about attributes, levels, values or tables that do not exist, and labels that are the same."""
        schema = workload.schema
        for name, own in self.attributes.items():
            if name not in schema:
                raise WordsError("words", expected="attributes of the schema", given=name, available=schema.names)
            _require_labels(self, schema, name, None)
            if own.unit is not None and not schema[name].is_measure:
                expected = "no unit: only measures have one (that of counts is in [about])"
                raise WordsError(f"words about attribute {name!r}", expected=expected, given=own.unit)
            for level in own.levels:
                known = schema[name].level_names
                if level not in known:
                    subject = f"words about attribute {name!r}"
                    raise WordsError(subject, expected="its levels", given=level, available=known)
                _require_labels(self, schema, name, level)
        titled = [name for name in schema.names if self.attribute(name).title is not None]
        if titled:
            seen: dict[str, str] = {}
            for name in schema.names:
                other = seen.setdefault(self.axis_title(name), name)
                if other != name:
                    given = Plain(f"the same for {other!r} and {name!r}")
                    raise WordsError("titles of attributes", expected="titles that differ", given=given)
        for table in self.tables:
            if table not in workload:
                near = [table_name(other) for other in workload]
                expected = "a table of the workload"
                raise WordsError("title of a table", expected=expected, given=table_name(table), available=near)

    def for_workload(self, workload: Workload) -> Words:
        """The words, with tables named in any way, once they fit."""
        tables = {canonical(workload.schema, table): title for table, title in self.tables.items()}
        same = {key.name: getattr(self, key.name) for key in fields(self)}
        found = Words(**{**same, "tables": tables})
        found.require_fits(workload)
        return found


_QUERIES: Final = {"cells": "{}", "prefixes": "{} (up to)", "ranges": "{} (from ... to)"}


def capitalized(text: str) -> str:
    """A text that begins a line.

    >>> capitalized("sum of days")
    'Sum of days'
    """
    return text[:1].upper() + text[1:]


def code_text(code: Value) -> str:
    """A declared value as text, by which its label is found."""
    return str(code).lower() if isinstance(code, bool) else str(code)


def _of_categories(attribute: Attribute, labels: Mapping[str, str]) -> dict[str, str]:
    """The labels of cells that are no declared ones: every level keeps these categories."""
    first = attribute.first_declared
    others = (*attribute.labels[:first], *attribute.labels[first + attribute.declared_cells :])
    return {code: labels[code] for code in map(code_text, others) if code in labels}


def _each(subject: str, given: Any, kind: Any) -> dict[str, Any]:
    """Words by name, each of them as an object or as a table of its fields."""
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise WordsError(subject, expected="words by name", given=given)
    known = [own.name for own in fields(kind)]
    found = {}
    for name, own in given.items():
        if isinstance(own, Mapping):
            for key in own:
                if key not in known:
                    raise WordsError(f"{subject}, {name!r}", expected="a known field", given=key, available=known)
            found[name] = kind(**own)
        elif isinstance(own, kind):
            found[name] = own
        else:
            raise WordsError(f"{subject}, {name!r}", expected=f"a table, or privcube.{kind.__name__}", given=own)
    return found


def _check_text(key: str, text: object) -> None:
    """Refuse what some program could not show, or would show in another place."""
    if text is None:
        return
    longest = _LONGEST_TEXT if key in _LINES else _LONGEST_LINE
    if not isinstance(text, str) or not text.strip() or len(text) > longest:
        raise WordsError(key, expected=f"non-empty text of at most {longest:,} characters", given=text)
    plain = text.replace("\n", " ") if key in _LINES else text
    if not all(map(is_plain, plain)):
        lines = "" if key in _LINES else ", on one line"
        raise WordsError(key, expected=f"text without control and other non-characters{lines}", given=text)
    if not _REORDERS.isdisjoint(text):
        raise WordsError(key, expected="text without marks that change the direction of what follows", given=text)


def _require_labels(words: Words, schema: Schema, name: str, level: str | None) -> None:
    """Refuse labels of values that do not exist, and values that read the same."""
    given = words.level(name, level).labels
    if not given:
        return
    called = [code_text(code) for code in codes(schema[name], level)]
    subject = f"labels of {name!r}" if level is None else f"labels of {name!r}, level {level!r}"
    known = set(called)
    for code in given:
        if code not in known:
            raise WordsError(subject, expected="values that are declared", given=code, available=called)
    seen: dict[str, str] = {}
    for code, label in zip(called, map(str, words.labels(schema, name, level)), strict=True):
        other = seen.setdefault(label.strip(), code)
        if other != code:
            raise WordsError(subject, expected="labels that differ", given=Plain(f"{label!r} for {other} and {code}"))


_NOTHING: Final = AttributeWords()
