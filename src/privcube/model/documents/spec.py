"""One spec.toml: data source, schema, workload, guarantee, plan and output of a release. Zone: PUBLIC.

Every key is checked: an unknown one is refused with its path and the nearest known key, because ignoring a misspelled
privacy setting would fail open. Amounts are read as exact decimals.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, cast

from privcube.errors import GuaranteeError, Plain, SpecError
from privcube.model.amounts import Amount, decimal_text
from privcube.model.columns.text_files import TextFile
from privcube.model.documents.attributes import (
    MEASURE_KEYS,
    SPEC_ATTRIBUTE_KEYS,
    attribute_document,
    measure_document,
    present,
    schema_from,
    where_document,
)
from privcube.model.documents.request import WorkloadRequest
from privcube.model.documents.toml_reader import Section
from privcube.model.documents.words import with_words, words_from
from privcube.model.options import PlanOptions
from privcube.model.privacy.guarantee import ApproxDP, Calibration, Guarantee, guarantee_from
from privcube.model.publication.words import Words
from privcube.model.schema import Schema
from privcube.model.workload import Workload

_LARGEST_FILE: Final = 4 * 2**20  # bytes: a larger file is no spec, and must not fill the memory
_AMOUNTS: Final = ("epsilon", "delta", "rho")
_TEXT_FILE: Final = ("encoding", "separator", "decimal")
_SECTIONS: Final = ("about", "data", "privacy", "attributes", "measures", "workload", "plan")
_PLAN: Final = ("strategy", "effort", "budgets", "recovery", "objective")
_OUTPUT: Final = ("path", "whole_numbers", "records", "count_intervals", "effort", "decimals", "reliability")


@dataclass(frozen=True, kw_only=True)
class DataSource:
    """Where the records are; `person` names the column that identifies the protected unit, None if each row is one.

    `dataset` names what the records are part of. All releases with the same name charge the same ledger, whatever
    files, tables or queries they read.
    """

    source: str
    dataset: str | None = None
    table: str | None = None
    query: str | None = None
    person: str | None = None
    text: TextFile = field(default_factory=TextFile)  # how the files are written, if they are text

    def __post_init__(self) -> None:
        if self.table is not None and self.query is not None:
            raise SpecError("data", expected="a table or a query", given=Plain("both"))


def source_name(data: DataSource) -> str:
    """The source as written in the spec, without user and password, for the ledger to record.

    >>> source_name(DataSource(source="postgresql://ann:secret@db/hospital", table="discharges"))
    'postgresql://db/hospital, table discharges'
    """
    source = data.source
    if is_url(source):  # anything before the last @ may be a password, even one that is not URL-encoded
        scheme, mark, rest = source.partition("://")
        source = scheme + mark + rest.rpartition("@")[2].partition("?")[0]
    what = f", table {data.table}" if data.table else f", query {' '.join(data.query.split())}" if data.query else ""
    who = f", by {data.person}" if data.person else ""
    return source + what + who


def is_url(text: str) -> bool:
    """Whether a source or ledger is a URL or a Spark table, not a path."""
    return "://" in text or text.startswith("spark:")


@dataclass(frozen=True, kw_only=True)
class LedgerTerms:
    """Which ledger to charge, and the total it gets when it is created."""

    path: str
    total: Guarantee | None = None


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is publicly known beforehand: the exact number of records, and combinations that cannot occur."""

    records: int | None = None
    impossible: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True)
class WholeNumbers:
    """That tables are to have whole numbers."""

    records: bool = False  # whether to publish the synthetic records behind them
    count_intervals: bool = False  # whether to publish the whole numbers that each count can be
    effort: str = "normal"


@dataclass(frozen=True, kw_only=True)
class Spec:
    """Everything that defines a release.

    >>> spec = Spec.from_toml('''
    ... [data]
    ... source = "people.csv"
    ... [privacy]
    ... epsilon = "0.5"
    ... [[attributes]]
    ... name = "sex"
    ... values = ["Female", "Male"]
    ... [workload]
    ... all_kway = [1]
    ... ''')
    >>> print(spec.guarantee)
    epsilon = 0.5 (pure), adding or removing one row
    >>> Spec.from_toml(spec.to_toml()) == spec
    True
    """

    data: DataSource
    guarantee: Guarantee
    schema: Schema
    request: WorkloadRequest
    ledger: LedgerTerms | None = None
    options: PlanOptions = field(default_factory=PlanOptions)
    output: str = "out"
    expected_records: int | None = None  # roughly, as publicly known; only for warnings
    known: Known = field(default_factory=Known)
    whole: WholeNumbers | None = None
    words: Words = field(default_factory=Words)

    def __post_init__(self) -> None:
        if self.data.person is not None and self.data.person in {attribute.column for attribute in self.schema}:
            raise SpecError(
                "data.person", expected="a column that is not an attribute to publish", given=self.data.person
            )
        paying = "" if self.ledger is None else self.ledger.path
        for key, place in (
            ("data.source", self.data.source),
            ("output.path", self.output),
            ("privacy.ledger", paying),
        ):
            if "\0" in place:
                raise SpecError(key, expected="a path without zero bytes", given=place)
        if self.data.person is None and self.guarantee.max_rows_per_person != 1:
            raise SpecError(
                "data.person",
                expected="the column that identifies people, since max_rows_per_person is above 1",
                given=Plain("nothing"),
            )
        if self.expected_records is not None and self.expected_records < 1:
            raise SpecError("privacy.expected_records", expected="a number above 0", given=self.expected_records)
        if self.data.query is not None and self.data.person is None and self.guarantee.row == "row":
            raise SpecError(
                "data.query",
                expected='person and max_rows_per_person, or unit = "row of the query", as a row of the data may be in '
                "many rows of a query",
                given=Plain("neither"),
            )
        if self.guarantee.row != "row" and (self.data.query is None or self.data.person is not None):
            given = Plain("no query" if self.data.query is None else "a person as well")
            raise SpecError("data.unit", expected="a query, and no person, who would be the unit", given=given)
        if self.ledger is not None and self.ledger.total is not None:
            _check_total(self.guarantee, self.ledger.total)
        if self.words != Words():
            self.words.require_fits(self.workload)

    @property
    def workload(self) -> Workload:
        """The requested tables."""
        return self.request.workload(self.schema)

    @property
    def may_be_pure(self) -> bool:
        """Whether a release under (epsilon, delta) may have a pure plan instead, if that is more accurate.

        Such a plan takes a larger part of a total: if a release asks for a tenth of a ledger's epsilon, it takes a
        tenth, and leaves room for pure releases alone, while Gaussian noise takes about a hundredth. So a plan that
        a ledger pays for is not pure, unless the release asks for all of the total.
        """
        return self.ledger is None or (
            self.ledger.total is not None and self.ledger.total.amounts == self.guarantee.amounts
        )

    @classmethod
    def read(cls, path: str | Path) -> Spec:
        """Read a spec.toml."""
        file = Path(path)
        subject = f"spec {file.name!r}"
        try:
            with file.open("rb") as stream:
                content = stream.read(_LARGEST_FILE + 1)
        except (OSError, ValueError) as problem:  # ValueError: a path with a zero byte in it
            reason = getattr(problem, "strerror", None) or str(problem)
            raise SpecError(subject, expected="a readable file", given=Plain(reason)) from None
        if len(content) > _LARGEST_FILE:
            raise SpecError(subject, expected=f"at most {_LARGEST_FILE // 2**20} MiB", given=Plain("a larger file"))
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise SpecError(subject, expected="UTF-8 text", given=Plain("other bytes")) from None
        return cls.from_toml(text, folder=file.parent)

    @classmethod
    def from_toml(cls, text: str, *, folder: Path = Path()) -> Spec:
        """Read the text of a spec.toml; files with values are relative to `folder`."""
        if len(text) > _LARGEST_FILE:
            raise SpecError("spec", expected=f"at most {_LARGEST_FILE // 2**20} MiB", given=Plain("a longer text"))
        try:
            document = tomllib.loads(text, parse_float=Decimal)
        except RecursionError:
            raise SpecError("spec", expected="TOML", given=Plain("brackets nested too deeply")) from None
        except (ValueError, ArithmeticError) as problem:
            raise SpecError("spec", expected="TOML", given=Plain(str(problem))) from None
        return _from_document(document, folder)

    def to_toml(self) -> str:
        """Write a spec.toml that reads back as this spec."""
        import tomli_w

        return tomli_w.dumps(with_words(_to_document(self), self.words, self.workload))


def _from_document(document: dict[str, Any], folder: Path) -> Spec:
    root = Section("", document, (*_SECTIONS, "output", "known", "impossible", "registry"))
    output = root.section("output", _OUTPUT, required=False)
    known = ("source", "dataset", "table", "query", "person", "max_rows_per_person", "unit", "where", *_TEXT_FILE)
    data = root.section("data", known)
    source = DataSource(
        source=data.text("source"),
        dataset=data.text("dataset", None),
        table=data.text("table", None),
        query=data.text("query", None),
        person=data.text("person", None),
        text=TextFile(**{key: _sign(data, key) for key in _TEXT_FILE if key in data.given}),
    )
    rows = data.integer("max_rows_per_person", None)
    if (rows is None) != (source.person is None):
        raise SpecError(
            "data",
            expected="both person and max_rows_per_person (whom to protect, and how many rows each may have)",
            given=Plain("only person" if rows is None else "only max_rows_per_person"),
        )
    totals = tuple(f"total_{name}" for name in _AMOUNTS)
    privacy = root.section("privacy", (*_AMOUNTS, "neighbors", "calibration", "expected_records", "ledger", *totals))
    protected = {
        "neighbors": privacy.text("neighbors", "add_remove"),
        "max_rows_per_person": 1 if rows is None else rows,
        "row": _unit(data),
    }
    amounts = privacy.amounts(_AMOUNTS)
    calibration = privacy.text("calibration", _calibration(amounts))
    guarantee = guarantee_from(amounts, **cast(Any, protected), calibration=cast(Any, calibration))
    options = root.section("plan", _PLAN, required=False)
    measures = root.sections("measures", MEASURE_KEYS, required=False)
    schema = schema_from(root.sections("attributes", SPEC_ATTRIBUTE_KEYS), data.raw("where", None), folder, measures)
    request = WorkloadRequest.from_section(root.section("workload", WorkloadRequest.KEYS))
    spec = Spec(
        data=source,
        guarantee=guarantee,
        ledger=_ledger(privacy, privacy.amounts(totals), protected),
        schema=schema,
        request=request,
        options=PlanOptions(**cast(Any, {key: options.text(key) for key in options.given})),
        output=output.text("path", "out"),
        expected_records=privacy.integer("expected_records", None),
        known=_known(root),
        whole=_whole_numbers(output),
        words=words_from(root, schema, _OUTPUT, folder),
    )
    _ = spec.workload  # check names and levels against the schema now, not when the data is read
    return spec


def _known(root: Section) -> Known:
    known, impossible = root.section("known", ("records",), required=False), root.array("impossible")
    if not all(isinstance(combination, dict) and combination for combination in impossible):
        raise SpecError("impossible", expected="tables of attributes and labels, [[impossible]]", given=impossible)
    return Known(records=known.integer("records", None), impossible=tuple(impossible))


def _whole_numbers(output: Section) -> WholeNumbers | None:
    if not output.flag("whole_numbers", False):
        for key in ("records", "count_intervals", "effort"):
            if key in output.given:
                raise SpecError(f"output.{key}", expected="whole_numbers = true in [output], which it is about")
        return None
    return WholeNumbers(
        records=output.flag("records", False),
        count_intervals=output.flag("count_intervals", False),
        effort=output.text("effort", "normal"),
    )


def _calibration(amounts: dict[str, Amount]) -> Calibration:
    """The calibration if none is given."""
    return "exact" if set(amounts) == {"epsilon", "delta"} else "zcdp"


def _unit(data: Section) -> str:
    """What a row is, where that must be said."""
    unit = data.text("unit", None)
    if unit not in (None, "row of the query"):
        raise SpecError("data.unit", expected="'row of the query', or nothing", given=unit)
    return unit or "row"


def _sign(data: Section, key: str) -> str:
    """A text that may be a tab, which is blank."""
    value = data.raw(key)
    return value if value == "\t" else data.text(key)


def _ledger(privacy: Section, totals: dict[str, Amount], protected: dict[str, object]) -> LedgerTerms | None:
    path = privacy.text("ledger", None)
    if path is None:
        if totals:
            raise SpecError("privacy", expected="a ledger that the total applies to", given=", ".join(totals))
        return None
    if not totals:
        return LedgerTerms(path=path)
    try:
        amounts = {name.removeprefix("total_"): amount for name, amount in totals.items()}
        total = guarantee_from(amounts, **cast(Any, protected), calibration=_calibration(amounts))
    except GuaranteeError as problem:
        raise GuaranteeError(f"total of the ledger, {problem.subject}", expected=problem.expected) from None
    return LedgerTerms(path=path, total=total)


def _check_total(spent: Guarantee, total: Guarantee) -> None:
    if total.kind != spent.kind:
        raise SpecError(
            "privacy",
            expected="a total in the amounts of the release: " + ", ".join(f"total_{n}" for n in spent.amounts),
            given=", ".join(f"total_{name}" for name in total.amounts),
        )
    if total.unit != spent.unit:
        raise SpecError(
            "privacy", expected=f"a total for the unit of the release, {spent.unit}", given=Plain(total.unit)
        )
    for name, amount in spent.amounts.items():
        if amount > total.amounts[name]:
            raise SpecError(
                f"privacy.total_{name}",
                expected=f"at least the {name} of the release, {decimal_text(amount)}",
                given=decimal_text(total.amounts[name]),
            )


def _to_document(spec: Spec) -> dict[str, Any]:
    rows = spec.guarantee.max_rows_per_person
    data = {
        "source": spec.data.source,
        "dataset": spec.data.dataset,
        "table": spec.data.table,
        "query": spec.data.query,
        "person": spec.data.person,
        "max_rows_per_person": rows if spec.data.person is not None else None,
        "unit": None if spec.guarantee.row == "row" else spec.guarantee.row,
        **spec.data.text.document,
        **where_document(spec.schema),
    }
    measures = [measure_document(own) for own in spec.schema if own.is_measure]
    amounts = {name: decimal_text(amount) for name, amount in spec.guarantee.amounts.items()}
    privacy: dict[str, Any] = {**amounts, "neighbors": spec.guarantee.neighbors}
    if isinstance(spec.guarantee, ApproxDP) and spec.guarantee.calibration != "exact":
        privacy["calibration"] = spec.guarantee.calibration
    if spec.expected_records is not None:
        privacy["expected_records"] = spec.expected_records
    if spec.ledger is not None:
        privacy["ledger"] = spec.ledger.path
        if spec.ledger.total is not None:
            privacy |= {f"total_{name}": decimal_text(amount) for name, amount in spec.ledger.total.amounts.items()}
    return {
        "data": present(data),
        "privacy": privacy,
        "attributes": [attribute_document(own) for own in spec.schema if not own.is_measure],
        **({"measures": measures} if measures else {}),
        "workload": spec.request.to_document(),
        "plan": {key: getattr(spec.options, key) for key in _PLAN},
        "output": {"path": spec.output, **_whole_document(spec.whole)},
        **({} if spec.known.records is None else {"known": {"records": spec.known.records}}),
        **({"impossible": list(spec.known.impossible)} if spec.known.impossible else {}),
    }


def _whole_document(whole: WholeNumbers | None) -> dict[str, Any]:
    return {} if whole is None else {"whole_numbers": True, **asdict(whole)}
