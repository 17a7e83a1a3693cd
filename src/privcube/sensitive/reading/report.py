"""What `privcube check` found in the data, for the custodian alone. Zone: SENSITIVE.

A report is about the records, so it must not be published. It does not pickle or copy, and it shows nothing by itself:
only `lines` and `document` tell what it holds, to whoever asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from privcube.errors import quoted

WARNING: Final = (
    "This report is about the data itself: do not publish it. Choices made from it, such as which values to declare, "
    "are not covered by the privacy guarantee; prefer what is publicly known."
)


@dataclass(frozen=True)
class ColumnReport:
    """What one attribute's column has that is not simply declared."""

    attribute: str
    column: str
    missing: int = 0
    undeclared: int = 0
    frequent: tuple[tuple[str, int], ...] = ()  # undeclared texts, the most frequent first
    below: int = 0
    above: int = 0
    padded: int = 0  # undeclared, but declared without the blanks around it
    cased: int = 0  # undeclared, but declared in other letters
    problem: str | None = None  # why the column was not looked at
    advice: tuple[str, ...] = ()  # lines for the attribute in the spec


@dataclass(frozen=True)
class PersonReport:
    """How many rows people have, and what the bound costs."""

    column: str
    bound: int
    people: int
    largest: int
    above_bound: int  # people with more rows than the bound
    rows_lost: int
    without_name: int  # records
    rows_per_person: tuple[tuple[int, int], ...]  # how many rows, how many people


@dataclass(frozen=True, eq=False, repr=False)
class DataReport:
    """What was found; `lines` are for people, `document` is for programs."""

    source: str
    text_file: dict[str, str] | None  # encoding and separator, as they were read
    records: int
    outside: int  # records that do not meet the conditions of `where`
    dropped: int  # of the others, records that a policy drops
    columns: tuple[ColumnReport, ...]
    person: PersonReport | None
    advice: tuple[str, ...]  # lines for [data] in the spec
    obstacles: tuple[str, ...]  # why a release would stop

    @property
    def refused(self) -> bool:
        """Whether a release would stop."""
        return bool(self.obstacles)

    @property
    def counted(self) -> int:
        """How many records a release would count, before the bound on rows per person."""
        return self.records - self.outside - self.dropped

    @property
    def document(self) -> dict[str, Any]:
        """Everything, as values that JSON has."""
        return {
            "warning": WARNING,
            "source": self.source,
            "text_file": self.text_file,
            "records": self.records,
            "outside_where": self.outside,
            "dropped": self.dropped,
            "counted": self.counted,
            "release_would_stop": self.refused,
            "obstacles": list(self.obstacles),
            "attributes": [
                {**vars(column), "frequent": [list(pair) for pair in column.frequent], "advice": list(column.advice)}
                for column in self.columns
            ],
            "person": None
            if self.person is None
            else {**vars(self.person), "rows_per_person": [list(pair) for pair in self.person.rows_per_person]},
            "advice": list(self.advice),
        }

    def lines(self) -> Iterator[str]:
        """The report for people, without the warning."""
        yield f"Source      {self.source}"
        if self.text_file is not None:
            yield "Text file   " + ", ".join(f"{key} {value}" for key, value in self.text_file.items())
        counted = f"{self.records:,}" if self.refused else f"{self.counted:,} of {self.records:,} count"
        left_out = {"do not meet `where`": self.outside, "are dropped by policies": self.dropped}
        told = ", ".join(f"{number:,} {why}" for why, number in left_out.items() if number)
        yield f"Records     {counted}{f' ({told})' if told else ''}"
        for column in self.columns:
            yield from _column_lines(column)
        if self.person is not None:
            yield from _person_lines(self.person)
        yield f"Release     would stop: {'; '.join(self.obstacles)}" if self.refused else "Release     would not stop"
        if self.advice or any(column.advice for column in self.columns):
            yield ""
            yield "Lines to consider for the spec:"
        for line in self.advice:
            yield f"  [data]:  {line}"
        for column in self.columns:
            for line in column.advice:
                yield f"  [[attributes]] {column.attribute}:  {line}"

    def __repr__(self) -> str:
        return "<report about data, not shown; see lines() and document>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a report about data cannot be pickled or copied")


def _column_lines(column: ColumnReport) -> Iterator[str]:
    name = column.attribute if column.column == column.attribute else f"{column.attribute} (column {column.column})"
    if column.problem is not None:
        yield f"  {name}: {column.problem}"
        return
    found = {
        "missing": column.missing,
        "undeclared": column.undeclared,
        "below the range": column.below,
        "above it": column.above,
    }
    told = ", ".join(f"{number:,} {what}" for what, number in found.items() if number)
    yield f"  {name}: {told or 'all values are declared'}"
    if column.padded or column.cased:
        yield f"    of these, {column.padded:,} only padded with blanks, {column.cased:,} only in other letters"
    if column.frequent:
        yield "    most often " + ", ".join(f"{quoted(text)} ({times:,})" for text, times in column.frequent)


def _person_lines(person: PersonReport) -> Iterator[str]:
    rows = "1 row" if person.largest == 1 else f"up to {person.largest:,} rows"
    yield (
        f"Persons     {person.people:,} in column {person.column}, with {rows} each; "
        f"{person.above_bound:,} have more than {person.bound:,}, which leaves out {person.rows_lost:,} rows"
    )
    if person.without_name:
        yield f"            {person.without_name:,} records name nobody: a release refuses them"
    shown = person.rows_per_person[:10]
    more = ", ..." if len(person.rows_per_person) > len(shown) else ""
    yield "            rows: people   " + ", ".join(f"{rows:,}: {people:,}" for rows, people in shown) + more
