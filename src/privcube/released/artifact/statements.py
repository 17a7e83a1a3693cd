"""The privacy statement of an artifact, for people (PRIVACY.md) and for registries (registry.yaml). Zone: RELEASED.

Both are built from the plan and the manifest alone, and quote no name from the schema. The registry is OpenDP's
(https://github.com/opendp/deployments-registry-data), with the fields of its schema at commit 057e5d8. Fields that only
the curator can fill in are left blank.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from textwrap import fill
from typing import Any, Final, NamedTuple

from privcube.errors import counted
from privcube.model.amounts import shown
from privcube.model.groups import BlockGroup, MatrixGroup, has_helmert
from privcube.model.plan import Plan
from privcube.model.privacy.cautions import cautions, is_weak
from privcube.model.privacy.guarantee import ZCDP, ApproxDP, Guarantee, PureDP
from privcube.released.artifact.manifest import CONFIDENCE, amounts_text, noise_of
from privcube.released.artifact.measure_words import measure_lines, published_numbers
from privcube.released.artifact.noise_words import drawn_words
from privcube.released.artifact.whole_words import known_words, whole_words

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
_VARIANT: Final = {"pure": "Pure DP", "approx": "Approximate DP", "zcdp": "Zero-concentrated DP"}


# For people


def privacy_statement(plan: Plan, stated: Mapping[str, Any]) -> str:
    """PRIVACY.md, from a plan and its manifest."""
    sections = {
        "What is protected": [_protected(plan.guarantee), *_records(plan), *_number_of_records(plan)],
        "How much": [
            _budget(plan.guarantee),
            *_in_words(plan.guarantee),
            *cautions(plan.guarantee),
            _account(stated),
        ],
        "How": [*mechanism(plan), post_processing(plan)],
        "What is not protected": [f"- {line}" for line in _not_promised(plan)],
        "How to read the tables": [
            *_reading(plan),
            *measure_lines(plan),
            *known_words(stated),
            *whole_words(stated),
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


def _protected(guarantee: Guarantee) -> str:
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


def _records(plan: Plan) -> Iterator[str]:
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


def _budget(guarantee: Guarantee) -> str:
    kind = {"pure": "pure", "approx": "approximate", "zcdp": "zero-concentrated"}[guarantee.kind]
    return (
        f"The guarantee is {kind} differential privacy with {_amounts(amounts_text(guarantee))}, for the unit and the "
        "neighbors above."
    )


def _amounts(texts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {text}" for name, text in texts.items())


def _in_words(guarantee: Guarantee) -> Iterator[str]:
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


def _account(stated: Mapping[str, Any]) -> str:
    ledger, total = stated["ledger"], stated["total"]
    if ledger is None:
        return "No ledger was kept: nothing records what else was released from the same data."
    text = f"It was charged to a ledger before any noise was drawn, as entry {ledger['entry']}, head {ledger['head']}."
    return text if total is None else f"{text} All releases in that ledger together are limited to {_amounts(total)}."


def _not_promised(plan: Plan) -> tuple[str, ...]:
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
    return f"{made} They are neither rounded nor truncated at zero: either would bias them."


def _reading(plan: Plan) -> list[str]:
    confidence = f"a probability of {round(100 * CONFIDENCE)}%"
    numbers = "a count" if plan.sources is None else "a count, on average over the table"
    close = ", or slightly more where rows have different noise" if any(map(has_helmert, plan.groups)) else ""
    return [
        "- `estimate` is unbiased: above the true count as often as below. It may be negative or fractional.",
        f"- `std_error` is the standard deviation of the noise in {numbers}{close}. It is known in advance and says "
        "nothing about the data. It does not cover errors in the original data.",
        f"- `low` to `high` contains the true count with {confidence}, for each row separately.",
        f"- `low_all` to `high_all` contain all true counts of a table at once with {confidence} or more.",
        "- Text in CSV files that a spreadsheet would treat as a formula has an apostrophe in front; Parquet files "
        "have the original text.",
    ]


def _checking() -> str:
    return (
        "`sha256sum --check SHA256SUMS` shows whether a file was changed. `privcube verify` adds up the budget again "
        "in exact fractions, recomputes all tables and errors from plan.json and measurements.parquet, and compares."
    )


# For registries


class _Blank(NamedTuple):
    """A field that only the curator can fill in."""

    hint: str


class _Number(NamedTuple):
    text: str


def registry_record(plan: Plan, stated: Mapping[str, Any]) -> str:
    """registry.yaml, from a plan and its manifest."""
    head = (
        "# A record for OpenDP's registry of deployments, https://github.com/opendp/deployments-registry-data\n"
        "# Copy this file, fill in the blanks in the copy, and submit the copy: SHA256SUMS covers the original.\n"
        "# number_of_privacy_units is left out on purpose: it may itself be protected.\n"
    )
    return head + "".join(f"{line}\n" for line in _yaml(_record(plan, stated), ""))


def registry_facts(plan: Plan) -> list[str]:
    """What registry.yaml must state, whichever version wrote it."""
    parameters = [f"{name}: {_number(amount).text}" for name, amount in plan.guarantee.amounts.items()]
    return [" ".join(["privacy_parameters:", *parameters]), plan.guarantee.unit, plan.digest]


def _record(plan: Plan, stated: Mapping[str, Any]) -> dict[str, Any]:
    guarantee = plan.guarantee
    row = guarantee.max_rows_per_person == 1
    return {
        "url_slug": _Blank("short name for the address"),
        "deployment": {
            "basic": {
                "name": _Blank("name of the data product"),
                "data_curators": [
                    {
                        "data_curator_name": _Blank("who publishes it"),
                        "data_curator_type": _Blank("Government, Industry, Nonprofit"),
                    }
                ],
                "description": _Blank("what the tables count"),
                "intended_use": _Blank("what they are for"),
                "data_product_type": "Summary statistics",
                "data_product_region": _Blank("which region"),
                "data_product_sector": _Blank("Technology, Healthcare, Education, Government, Energy, Finance"),
                "publication_date": _Blank("YYYY-MM-DD"),
            },
            "dp_variant": {
                "variant_name": _VARIANT[guarantee.kind],
                "data_domain": " ".join(
                    ["Tables of records with the attributes and values that plan.json declares.", *_records(plan)]
                ),
                "unprotected_quantities": "None, except what was declared in advance."
                if guarantee.neighbors == "add_remove"
                else "The number of privacy units is considered public.",
            },
            "privacy_loss": {
                "privacy_unit": "Row" if row else "Person",
                "privacy_unit_details": _protected(guarantee),
                "privacy_parameters": {name: _number(amount) for name, amount in guarantee.amounts.items()},
                "privacy_parameters_details": f"{_budget(guarantee)} {_account(stated)}",
            },
            "deployment_model": {
                "model_name": "Central",
                "trust_assumptions": " ".join(_not_promised(plan)),
                "release_type": _Blank("One release, Many releases"),
                "data_source_type": _Blank("Static, Dynamic"),
                "access_type": "Non-interactive",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": _Blank("whether choices were made by looking at the data"),
                "mechanisms": " ".join(mechanism(plan)),
                "composition": "Shares of the budget are whole numbers over one denominator; as exact fractions, the "
                "costs of all groups add up to at most the parameters above.",
                "post_processing": post_processing(plan),
                "justification": _Blank("why these parameters"),
                "utility": f"The predicted standard error of a cell is {_root_mean_square(plan)} (root mean square); "
                "every published number comes with its own.",
                "additional_information": f"privcube {stated['privcube']}, plan {plan.digest}",
            },
            "administrative": {
                "status": "Draft",
                "registry_authors": [_Blank("who fills this in")],
                "tier": _Number("3"),
            },
        },
    }


def _root_mean_square(plan: Plan) -> str:
    return f"{math.sqrt(plan.mean_cell_variance):.3g}"


def _number(amount: Fraction) -> _Number:
    """A number that YAML 1.1 reads as one, rounded up: a mantissa with a point, an exponent with a sign.

    >>> [_number(Fraction(*ratio)).text for ratio in ((1, 1), (1, 3), (1, 10**10))]
    ['1.0', '0.333334', '1.0e-10']
    """
    mantissa, _, exponent = shown(amount).lower().partition("e")
    return _Number((mantissa if "." in mantissa else f"{mantissa}.0") + (f"e{exponent}" if exponent else ""))


def _yaml(value: Any, indent: str) -> Iterator[str]:
    """Lines of YAML; text is in double quotes with JSON's escapes, which YAML shares."""
    items = value.items() if isinstance(value, dict) else [("-", item) for item in value]
    for key, item in items:
        name = "-" if key == "-" else f"{key}:"
        if isinstance(item, dict | list):
            yield f"{indent}{name}"
            yield from _yaml(item, f"{indent}  ")
        elif isinstance(item, _Blank):
            yield f'{indent}{name} ""  # fill in: {item.hint}'
        else:
            yield f"{indent}{name} {item.text if isinstance(item, _Number) else json.dumps(item)}"
