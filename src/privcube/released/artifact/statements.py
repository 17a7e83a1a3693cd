"""The privacy statement of an artifact, for people: PRIVACY.md. Zone: RELEASED.

It is built from the plan and the manifest alone, and quotes no name from the schema.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from textwrap import fill
from typing import Any, Final

from privcube.errors import counted
from privcube.model.amounts import shown
from privcube.model.groups import BlockGroup, MatrixGroup, has_helmert
from privcube.model.plan import Plan
from privcube.model.privacy.cautions import cautions, is_weak
from privcube.model.privacy.guarantee import ZCDP, ApproxDP, Guarantee, PureDP
from privcube.model.publication.words import Words
from privcube.released.artifact.manifest import CONFIDENCE, amounts_text, noise_of
from privcube.released.artifact.measure_words import measure_lines, published_numbers
from privcube.released.artifact.noise_words import drawn_words
from privcube.released.artifact.whole_words import known_words, whole_words
from privcube.released.presentation.numbers import percent_of_error

_WIDTH: Final = 120  # characters in a line of PRIVACY.md
_NOT_PROMISED: Final = (
    "Declared values, bins, levels, the unit and its bound on rows are public. They must not have been chosen by "
    "looking at the data: anything learned that way is not covered.",
    "The losses of several releases from the same data add up. The ledger adds them up and refuses a release that "
    "would exceed its total; releases outside the ledger, or after it was forked or restored from an old copy, are "
    "not counted.",
    "Facts about groups are published on purpose. What the tables say about a group may surprise its members, "
    "whether or not their data was used.",
    "There is no protection from anyone who can read the data itself or the machine that holds it, or who can observe "
    "how long the release took.",
)
_ONE_ROW: Final = (  # a plan does not know whether people were told apart and at most one row of each was counted
    " A person is protected as a whole if at most one row about this person counts, and less than stated here if "
    "several do."
)


# For people


def privacy_statement(plan: Plan, stated: Mapping[str, Any], words: Words) -> str:
    """PRIVACY.md, from a plan, its manifest, and what the publisher says of when numbers are uncertain."""
    sections = {
        "What is protected": [protected_unit(plan.guarantee), *counted_records(plan), *_number_of_records(plan)],
        "How much": [
            stated_budget(plan.guarantee),
            *in_words(plan.guarantee),
            *cautions(plan.guarantee),
            account(stated),
        ],
        "How": [*mechanism(plan), post_processing(plan)],
        "What is not protected": [f"- {line}" for line in not_promised(plan)],
        "How to read the tables": [
            *_reading(plan, words),
            *measure_lines(plan),
            *known_words(stated),
            *whole_words(stated, plan.workload),
        ],
        "How to check": [_checking()],
    }
    parts = ["# Privacy statement", _paragraph(_opening(plan))]
    for title, paragraphs in sections.items():
        separator = "\n" if paragraphs[0].startswith("- ") else "\n\n"
        parts += [f"## {title}", separator.join(map(_paragraph, paragraphs))]
    parts.append(f"Plan {plan.digest}, privcube {stated['privcube']}.")
    return "\n\n".join(parts) + "\n"


def statement_facts(plan: Plan) -> list[str]:
    """What PRIVACY.md must state, whichever version wrote it."""
    return [_amounts(amounts_text(plan.guarantee)), plan.guarantee.unit, plan.digest]


def _paragraph(text: str) -> str:
    indent = "  " if text.startswith("- ") else ""
    return fill(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _opening(plan: Plan) -> str:
    tables = "1 table" if len(plan.workload) == 1 else f"{len(plan.workload):,} tables"
    promise = (
        "but with a budget so large that this limits hardly anything that can be learned about a protected unit."
        if is_weak(plan.guarantee)
        else "so that anyone who sees all of it learns almost the same about a protected unit whether or not its true "
        "records were used."
    )
    tables += f" of {published_numbers(plan)} with added noise"
    return f"This folder contains {tables}. It satisfies differential privacy, {promise}"


def protected_unit(guarantee: Guarantee) -> str:
    """Whom the guarantee protects, and from which comparison."""
    rows = guarantee.max_rows_per_person
    unit = "one row of the data" if rows == 1 else f"one person, with at most {rows:,} rows in the data"
    caveat = _ONE_ROW if rows == 1 else ""
    if guarantee.row == "row of the query":
        unit = "one row of the query"
        caveat = (
            " The tables count the rows of a query, and a row of the query need not be a row of the data: a person, or "
            "a row of the data, that is in several rows of the query is protected less than stated here."
        )
    size = (
        "the records of one unit are replaced by any others; the number of units is considered public"
        if guarantee.neighbors == "replace_one"
        else "one of them has one more unit than the other; the number of units is protected, too"
    )
    return f"The protected unit is {unit}. Neighboring data sets differ by {guarantee.unit}: {size}.{caveat}"


def counted_records(plan: Plan) -> Iterator[str]:
    """Which records count, if not all do."""
    schema = plan.workload.schema
    if not schema.filters:
        return
    why = ["that do not meet its conditions on columns"] if schema.where else []
    why += ["with values that an attribute leaves out"] if any(attribute.drops for attribute in schema) else []
    yield (
        f"Not all records count: those {' and those '.join(why)} are left out, as plan.json states. That is decided "
        "for each record by itself, so whether the records of a unit count is protected like what they say."
    )


def _number_of_records(plan: Plan) -> Iterator[str]:
    """That the number of records is published, if it costs nothing."""
    if plan.known:
        name, noise = _noise_of_a_group(plan, min(plan.known))
        yield (
            "The number of records is not protected: every unit has exactly one record that counts, so it is the "
            "number of units, which these neighbors share. It is published, practically without noise (of a "
            f"{name} of about {shown(noise)}), and costs nothing of the budget."
        )


def _noise_of_a_group(plan: Plan, group: int) -> tuple[str, Fraction]:
    if isinstance(plan.guarantee, PureDP):
        return "scale", plan.noise_scale(group)
    return "variance", plan.noise_variance(group)


def stated_budget(guarantee: Guarantee) -> str:
    """The kind of the guarantee, and its amounts."""
    kind = {"pure": "pure", "approx": "approximate", "zcdp": "zero-concentrated"}[guarantee.kind]
    return (
        f"The guarantee is {kind} differential privacy with {_amounts(amounts_text(guarantee))}, for the unit and the "
        "neighbors above."
    )


def _amounts(texts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {text}" for name, text in texts.items())


def in_words(guarantee: Guarantee) -> Iterator[str]:
    """What the amounts mean."""
    if isinstance(guarantee, ZCDP):
        pairs = [f"epsilon {shown(guarantee.epsilon(delta))} at delta {delta}" for delta in ("1e-6", "1e-9")]
        yield f"It implies approximate differential privacy with {' and with '.join(pairs)}."
        return
    if is_weak(guarantee):
        return  # the odds would be astronomic; the cautions say so
    epsilon = float(guarantee.epsilon)
    odds = _up(math.exp(epsilon), "0.01")
    if isinstance(guarantee, ApproxDP):
        yield (
            f"In words: no set of outcomes is more than {odds} times as likely for one data set as for its neighbor, "
            f"apart from an additional probability of {shown(guarantee.delta)}."
        )
        return
    certain = 100 / (1 + math.exp(-epsilon))
    belief = _up(certain, "0.1" if certain < 99 else "0.001")  # below 100 for every epsilon that is not weak
    yield (
        f"In words: no outcome is more than {odds} times as likely for one data set as for its neighbor. Someone who "
        "considers two neighboring data sets equally likely before seeing this folder can be at most "
        f"{belief}% sure of either one afterwards."
    )


def _up(number: float, step: str) -> Decimal:
    """A number rounded up, with slack for floating-point error."""
    return Decimal(number * (1 + 1e-12)).quantize(Decimal(step), ROUND_CEILING)


def account(stated: Mapping[str, Any]) -> str:
    """Who paid for it."""
    ledger, total = stated["ledger"], stated["total"]
    if ledger is None:
        return "No ledger was kept: nothing records what else was released from the same data."
    text = f"It was charged to a ledger before any noise was drawn, as entry {ledger['entry']}, head {ledger['head']}."
    return text if total is None else f"{text} All releases in that ledger together are limited to {_amounts(total)}."


def not_promised(plan: Plan) -> tuple[str, ...]:
    """What the guarantee does not cover."""
    return (*_NOT_PROMISED, _failures(plan))


def _failures(plan: Plan) -> str:
    """What can be learned from a release that is refused."""
    schema = plan.workload.schema
    refusing = sum(attribute.may_refuse for attribute in schema)
    if not refusing:
        return (
            "Every attribute has policies (category, drop or clamp) for missing and undeclared values, so none of them "
            "could have stopped this release: whether it could be made says nothing about them. A record without the "
            "person it belongs to does stop a release, if people are protected."
        )
    attributes = "the 1 attribute" if len(schema) == 1 else f"{refusing:,} of {len(schema):,} attributes"
    return (
        "Whether a release could be made is not protected. A missing or undeclared value that an attribute refuses "
        "stops a release, and so does a record without the person it belongs to. Nothing is published or charged "
        "then, but anyone who sees that it failed learns that there is such a record. Here "
        f"{attributes} may refuse values. The policies category, drop and clamp refuse none."
    )


def mechanism(plan: Plan) -> list[str]:
    """What was measured, and what noise was added."""
    noise = noise_of(plan)
    weighted = any(isinstance(group, MatrixGroup | BlockGroup) for group in plan.groups)
    counts = "weighted sums of counts" if weighted else "counts"
    groups = "1 group" if len(plan.groups) == 1 else f"{len(plan.groups):,} groups"
    ends = [shown(noise.smallest), shown(noise.largest)]
    span = f"is about {ends[0]}" if ends[0] == ends[1] else f"lies between about {ends[0]} and {ends[1]}"
    return [
        f"A plan was made before any record was read (strategy {plan.options.strategy}, {plan.options.budgets} "
        f"budgets). It asks for {counted(plan.rows)} {counts} in {groups}, and divides the budget among them in exact "
        f"fractions. {drawn_words(noise.mechanism)}",
        f"The {noise.parameter} {span}; it follows exactly from plan.json. Counts and noise are whole numbers; the "
        "noise is drawn exactly, with the operating system's random generator and without floating-point numbers. "
        "The noisy counts are in measurements.parquet; all tables follow from them and from plan.json.",
    ]


def post_processing(plan: Plan) -> str:
    """How the tables follow from the measurements."""
    made = (
        "The tables are unbiased least-squares estimates from all noisy counts together, so they agree wherever they "
        "overlap."
        if plan.sources is None
        else "Every table is added up separately from noisy counts, so tables need not agree where they overlap."
    )
    return (
        f"{made} In Parquet files they are neither rounded nor truncated at zero. CSV files have them in steps "
        "of a tenth of the standard error or less unless the publisher chose other decimals. No number is left out for "
        "being uncertain."
    )


def _reading(plan: Plan, words: Words) -> list[str]:
    confidence = f"a probability of {round(100 * CONFIDENCE)}%"
    numbers = "a count" if plan.sources is None else "a count, on average over the table"
    close = ", or slightly more where rows have different noise" if any(map(has_helmert, plan.groups)) else ""
    return [
        "- `estimate` is unbiased: above the true count as often as below. It may be negative or fractional.",
        f"- `std_error` is the standard deviation of the noise in {numbers}{close}. It is known in advance and says "
        "nothing about the data. It does not cover errors in the original data.",
        f"- `low` to `high` contains the true count with {confidence}, for each row separately.",
        f"- `low_all` to `high_all` contain all true counts of a table at once with {confidence} or more.",
        f"- `reliability`, in CSV files, is {_trust(words)}. It follows from the other columns.",
        "- Text in CSV files that a spreadsheet would treat as a formula has an apostrophe in front; Parquet files "
        "have the original text.",
    ]


def _trust(words: Words) -> str:
    """What is said of how far to trust a number."""
    most = percent_of_error(words)
    return (
        f'"holds zero" if zero lies between `low` and `high`, else "uncertain" if the standard error is above {most} '
        'of the estimate, else "ok"'
    )


def _checking() -> str:
    return (
        "`sha256sum --check SHA256SUMS` shows whether a file was changed. `privcube verify` adds up the budget again "
        "in exact fractions, recomputes all tables and errors from plan.json and measurements.parquet, and compares."
    )
