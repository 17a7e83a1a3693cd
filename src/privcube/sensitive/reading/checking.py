"""`privcube check`: looks the data over against the schema before anything is charged. Zone: SENSITIVE.

Records are coded as for a release, by attributes whose policies are all "category", so that the code tells what a value
was. One pass counts what is missing, undeclared, too small or too large; where something is undeclared, a second one
finds the most frequent texts; with a person column, another counts the rows of each person.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, cast

from privcube.errors import SchemaError, listed, quoted
from privcube.model.attribute import Attribute
from privcube.model.columns.spelling import MEANS_MISSING, cleaned
from privcube.model.columns.text_files import TextFile
from privcube.model.schema import Schema
from privcube.progress import READING, Progress, silent
from privcube.sensitive.coding import ColumnKind
from privcube.sensitive.engine import Engine
from privcube.sensitive.reading.drafting import DRESSED
from privcube.sensitive.reading.inquiry import Inquiry, inquiry_into
from privcube.sensitive.reading.questions import counted_where, number_of_records, rows_per_person, undeclared_texts
from privcube.sensitive.reading.report import ColumnReport, DataReport, PersonReport

_MOST_TEXTS: Final = 1_000  # of each attribute, looked at for what cleaning would make of them
_SHOWN: Final = 5
_DECIMAL_COMMA: Final = re.compile(r"[+-]?[0-9]+,[0-9]+")
_FORMS: Final = {
    "day first": re.compile(r"(1[3-9]|2[0-9]|3[01])[./-][01]?[0-9][./-][0-9]{4}.*"),
    "month first": re.compile(r"[01]?[0-9][./-](1[3-9]|2[0-9]|3[01])[./-][0-9]{4}.*"),
    "compact": re.compile(r"[12][0-9]{3}[01][0-9][0-3][0-9]"),
}
_ALL: Final[dict[str, Any]] = {"missing": "category", "other": "category"}
_ENDS: Final[dict[str, Any]] = {"underflow": "category", "overflow": "category"}


def look_over(
    engine: Engine,
    schema: Schema,
    *,
    person: str | None,
    max_rows_per_person: int,
    text: TextFile,
    progress: Progress = silent,
) -> DataReport:
    """Look at every record, charge nothing, publish nothing."""
    with inquiry_into(engine) as inquiry:
        progress(READING, 0, 3)
        kinds = {name: kind for name, kind in inquiry.columns if kind is not None}
        names = [name for name, _ in inquiry.columns]
        problems = {attribute.name: _problem(attribute, names, kinds) for attribute in schema}
        looked_at = [attribute for attribute in schema if problems[attribute.name] is None]
        conditions = [one for one in schema.filters[: len(schema.where)] if one.column in kinds]
        totals, found = _counted(inquiry, looked_at, conditions, kinds)
        progress(READING, 1, 3)
        texts = _texts(inquiry, [one for one in looked_at if found[one.name]["undeclared"]], conditions, kinds)
        progress(READING, 2, 3)
        dropping = [*conditions, *(attribute for attribute in looked_at if attribute.drops)]
        people = None
        if person is not None and names.count(person) == 1 and kinds.get(person) in ("text", "comma", "integer"):
            people = _people(inquiry, person, max_rows_per_person, dropping, kinds)
        progress(READING, 3, 3)
    columns = tuple(
        _column_report(
            attribute, problems[attribute.name], found.get(attribute.name, {}), texts.get(attribute.name, [])
        )
        for attribute in schema
    )
    obstacles = {
        "a column cannot be counted": any(problems.values()),
        "no column names people": person is not None and people is None,
        "records name nobody": people is not None and people.without_name > 0,
        "a draft is not confirmed: remove `draft = true`": bool(schema.drafts),
        "a policy refuses values that occur": any(_refuses(schema[each.attribute], each) for each in columns),
    }
    return DataReport(
        source=inquiry.name,
        text_file=inquiry.text_file,
        records=totals[0],
        outside=totals[0] - totals[1],
        dropped=totals[1] - totals[2],
        columns=columns,
        person=people,
        advice=_data_advice(schema, texts, text, person, names, people),
        obstacles=tuple(obstacle for obstacle, is_there in obstacles.items() if is_there),
    )


def _problem(attribute: Attribute, names: Sequence[str], kinds: dict[str, ColumnKind]) -> str | None:
    """Why the column of an attribute cannot be looked at."""
    times = names.count(attribute.column)
    if times != 1:
        alike = [name for name in names if name.strip().casefold() == attribute.column.strip().casefold()]
        others = f", but {alike[0]!r}" if alike else f"; available: {listed(map(quoted, names))}"
        return "several columns of that name" if times else f"no such column{others}"
    if attribute.column not in kinds:
        return "a column of a type that cannot be counted"
    if attribute.dates is None and kinds[attribute.column] in ("timestamp", "instant"):
        return "a column of timestamps, which needs `dates`"
    return None


def _telling(attribute: Attribute) -> Attribute:
    """The attribute with a category for everything that is not declared; levels are not needed."""
    try:
        return replace(attribute, levels=(), **_ALL, **(_ENDS if attribute.has_ends else {}))
    except SchemaError:  # a declared value has the name of a category
        return replace(attribute, values=None, size=1, case="exact", raw=(), levels=(), **_ALL)


def _asking(condition: Attribute) -> Attribute:
    """A condition that drops nothing, so that records which do not meet it are seen; at an open end it clamps."""
    ends: dict[str, Any] = {key: "category" for key in _ENDS if getattr(condition, key) == "drop"}
    return replace(condition, **_ALL, **ends)


def _declared(attribute: Attribute) -> str:
    """The first and the last declared cell."""
    return f"{attribute.first_declared} AND {attribute.first_declared + attribute.declared_cells - 1}"


def _counted(
    inquiry: Inquiry, attributes: Sequence[Attribute], conditions: Sequence[Attribute], kinds: dict[str, ColumnKind]
) -> tuple[tuple[int, int, int], dict[str, dict[str, int]]]:
    """How many records there are, meet the conditions and are not dropped; and of each attribute, what is amiss."""
    telling = [_telling(attribute) for attribute in attributes]
    used = list(dict.fromkeys(attribute.column for attribute in (*telling, *conditions)))
    source, dialect = inquiry.opened(used or list(kinds)[:1])
    if not used:
        ((total,),) = inquiry.rows(number_of_records(source))
        return (total, total, total), {}
    tried = [_asking(condition) for condition in conditions]
    meets = " AND ".join(f"c{len(telling) + at} BETWEEN {_declared(own)}" for at, own in enumerate(tried)) or "TRUE"
    asked, drops = [], []
    for number, (attribute, own) in enumerate(zip(attributes, telling, strict=True)):
        cells = {"missing": own.codes - 1, "undeclared": own.other_code}
        policies: dict[str, str] = {"missing": attribute.missing, "undeclared": attribute.other}
        if attribute.has_ends:
            cells |= {"below": 0, "above": own.other_code - 1}
            policies |= {"below": attribute.underflow, "above": attribute.overflow}
        for what, cell in cells.items():
            asked.append((attribute.name, what, f"c{number} = {cell}"))
            if policies[what] == "drop":
                drops.append(f"c{number} = {cell}")
    kept = f"{meets} AND NOT ({' OR '.join(drops)})" if drops else meets
    which = [meets, kept, *(f"{meets} AND {condition}" for _, _, condition in asked)]
    query = counted_where(source, [*telling, *tried], kinds, dialect, which)
    ((total, within, left, *numbers),) = inquiry.rows(query)
    found: dict[str, dict[str, int]] = {attribute.name: {} for attribute in attributes}
    for (name, what, _), number in zip(asked, numbers, strict=True):
        found[name][what] = number
    return (total, within, left), found


def _texts(
    inquiry: Inquiry, attributes: Sequence[Attribute], conditions: Sequence[Attribute], kinds: dict[str, ColumnKind]
) -> dict[str, list[tuple[str, int]]]:
    """The undeclared texts of each attribute that has any, the most frequent first."""
    if not attributes:
        return {}
    telling = [_telling(attribute) for attribute in attributes]
    source, dialect = inquiry.opened(list(dict.fromkeys(one.column for one in (*telling, *conditions))))
    query = undeclared_texts(source, telling, kinds, dialect, conditions, _MOST_TEXTS)
    found: dict[str, list[tuple[str, int]]] = {attribute.name: [] for attribute in attributes}
    for number, said, times in inquiry.rows(query):
        found[attributes[number].name].append((said, times))
    return {name: sorted(pairs, key=lambda pair: (-pair[1], pair[0])) for name, pairs in found.items()}


def _people(
    inquiry: Inquiry, person: str, bound: int, dropping: Sequence[Attribute], kinds: dict[str, ColumnKind]
) -> PersonReport:
    source, dialect = inquiry.opened(list(dict.fromkeys([person, *(each.column for each in dropping)])))
    rows = inquiry.rows(rows_per_person(source, kinds, dialect, dropping, person))
    named = [(own, people) for own, people in rows if own]
    return PersonReport(
        column=person,
        bound=bound,
        people=sum(people for _, people in named),
        largest=max((own for own, _ in named), default=0),
        above_bound=sum(people for own, people in named if own > bound),
        rows_lost=sum((own - bound) * people for own, people in named if own > bound),
        without_name=sum(people for own, people in rows if not own),
        rows_per_person=tuple(named),
    )


def _column_report(
    attribute: Attribute, problem: str | None, found: dict[str, int], texts: Sequence[tuple[str, int]]
) -> ColumnReport:
    declared = {cell for cell, _ in attribute.spellings}
    padded = cased = 0
    for said, times in texts if attribute.values is not None else ():
        if cleaned(said, trim=True, case=attribute.case) in declared:
            padded += times
        elif cleaned(said, trim=True, case="fold") in {cleaned(each, trim=True, case="fold") for each in declared}:
            cased += times
    report = ColumnReport(
        attribute.name, attribute.column, **cast(Any, found), frequent=tuple(texts[:_SHOWN]), padded=padded,
        cased=cased, problem=problem,
    )  # fmt: skip
    return replace(report, advice=tuple(_advice(attribute, report, [said for said, _ in texts])))


def _advice(attribute: Attribute, report: ColumnReport, texts: Sequence[str]) -> list[str]:
    """Lines that would let a release go through; people choose among them."""
    lines = []
    if report.problem is not None:
        alike = re.search(r", but '(.*)'$", report.problem)
        return [f'column = "{alike[1]}"'] if alike else []
    if report.padded and not attribute.trim:
        lines.append("trim = true")
    if report.cased and attribute.case == "exact":
        lines.append('case = "fold"')
    gone = [said for said in texts if said.strip().casefold() in MEANS_MISSING]
    if gone and report.undeclared:
        lines.append(f'raw = {{"(missing)" = [{", ".join(_toml(said) for said in gone[:_SHOWN])}]}}')
    dressed = next(filter(_is_dressed, texts), None)
    if _has_numbers(attribute) and dressed is not None:
        lines.append(f"# {_toml(dressed)} is no number here: take grouping and signs such as % out of the data")
    form = next((form for form, shape in _FORMS.items() if any(map(shape.fullmatch, texts))), None)
    if attribute.dates is not None and form is not None and attribute.dates.format != form:
        lines.append(f'dates = {{..., format = "{form}"}}')
    rest = report.undeclared - report.padded - report.cased
    for key, number, policy, instead in (
        ("missing", report.missing, attribute.missing, "category"),
        ("other", rest, attribute.other, "category"),
        ("underflow", report.below, attribute.underflow, "clamp"),
        ("overflow", report.above, attribute.overflow, "clamp"),
    ):
        if number and policy == "refuse":
            lines.append(f'{key} = "{instead}"  # or "drop"')
    return lines


def _has_numbers(attribute: Attribute) -> bool:
    return attribute.bins is not None or attribute.is_measure


def _is_dressed(text: str) -> bool:
    """Whether a text is a number with signs of thousands, of percent or of money; 1,500 may have a decimal comma."""
    return DRESSED.fullmatch(text) is not None and _DECIMAL_COMMA.fullmatch(text) is None


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _data_advice(
    schema: Schema,
    texts: dict[str, list[tuple[str, int]]],
    text: TextFile,
    person: str | None,
    names: Sequence[str],
    people: PersonReport | None,
) -> tuple[str, ...]:
    lines = []
    told = [said for own in schema if _has_numbers(own) for said, _ in texts.get(own.name, [])]
    if text.decimal == "." and any(map(_DECIMAL_COMMA.fullmatch, told)) and not any(map(_is_dressed, told)):
        lines.append('decimal = ","')
    if person is not None and people is None:
        alike = [name for name in names if name.strip().casefold() == person.strip().casefold()]
        lines.append(
            f"person = {_toml(alike[0])}" if alike else "person = ...  # there is no such column to name people"
        )
    return tuple(lines)


def _refuses(attribute: Attribute, report: ColumnReport) -> bool:
    return any(
        number and policy == "refuse"
        for number, policy in (
            (report.missing, attribute.missing),
            (report.undeclared, attribute.other),
            (report.below, attribute.underflow),
            (report.above, attribute.overflow),
        )
    )
