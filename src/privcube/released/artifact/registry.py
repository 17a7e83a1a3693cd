"""The record of a release for OpenDP's registry of deployments: registry.yaml. Zone: RELEASED.

The registry is at https://github.com/opendp/deployments-registry-data; these are the fields of its schema at commit
057e5d8. Fields that only the curator can fill in are left blank, unless the spec says what they are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final, NamedTuple

from privcube.model.amounts import shown
from privcube.model.plan import Plan
from privcube.model.publication.words import Words
from privcube.released.artifact.statements import (
    account,
    counted_records,
    mechanism,
    not_promised,
    post_processing,
    protected_unit,
    stated_budget,
)

_VARIANT: Final = {"pure": "Pure DP", "approx": "Approximate DP", "zcdp": "Zero-concentrated DP"}


class _Blank(NamedTuple):
    """A field that only the curator can fill in."""

    hint: str


class _Number(NamedTuple):
    text: str


def registry_record(plan: Plan, stated: Mapping[str, Any], words: Words) -> str:
    """registry.yaml, from a plan, its manifest and what the publisher says."""
    head = (
        "# A record for OpenDP's registry of deployments, https://github.com/opendp/deployments-registry-data\n"
        "# Copy this file, fill in the blanks in the copy, and submit the copy: SHA256SUMS covers the original.\n"
        "# Or fill them in in the spec, under [about] and [registry], before the release is made.\n"
        "# number_of_privacy_units is left out on purpose: it may itself be protected.\n"
    )
    return head + "".join(f"{line}\n" for line in _yaml(_record(plan, stated, _filled_in(words)), ""))


def registry_facts(plan: Plan) -> list[str]:
    """What registry.yaml must state, whichever version wrote it."""
    parameters = [f"{name}: {_number(amount).text}" for name, amount in plan.guarantee.amounts.items()]
    return [" ".join(["privacy_parameters:", *parameters]), plan.guarantee.unit, plan.digest]


def _record(plan: Plan, stated: Mapping[str, Any], said: Mapping[str, str]) -> dict[str, Any]:
    guarantee = plan.guarantee
    row = guarantee.max_rows_per_person == 1
    return {
        "url_slug": _said(said, "url_slug", "short name for the address"),
        "deployment": {
            "basic": {
                "name": _said(said, "name", "name of the data product"),
                "data_curators": [
                    {
                        "data_curator_name": _said(said, "data_curator_name", "who publishes it"),
                        "data_curator_type": _said(said, "data_curator_type", "Government, Industry, Nonprofit"),
                    }
                ],
                "description": _said(said, "description", "what the tables count"),
                "intended_use": _said(said, "intended_use", "what they are for"),
                "data_product_type": "Summary statistics",
                "data_product_region": _said(said, "data_product_region", "which region"),
                "data_product_sector": _said(
                    said, "data_product_sector", "Technology, Healthcare, Education, Government, Energy, Finance"
                ),
                "publication_date": _said(said, "publication_date", "YYYY-MM-DD"),
            },
            "dp_variant": {
                "variant_name": _VARIANT[guarantee.kind],
                "data_domain": " ".join(
                    [
                        "Tables of records with the attributes and values that plan.json declares.",
                        *counted_records(plan),
                    ]
                ),
                "unprotected_quantities": "None, except what was declared in advance."
                if guarantee.neighbors == "add_remove"
                else "The number of privacy units is considered public.",
            },
            "privacy_loss": {
                "privacy_unit": "Row" if row else "Person",
                "privacy_unit_details": protected_unit(guarantee),
                "privacy_parameters": {name: _number(amount) for name, amount in guarantee.amounts.items()},
                "privacy_parameters_details": f"{stated_budget(guarantee)} {account(stated)}",
            },
            "deployment_model": {
                "model_name": "Central",
                "trust_assumptions": " ".join(not_promised(plan)),
                "release_type": _said(said, "release_type", "One release, Many releases"),
                "data_source_type": _said(said, "data_source_type", "Static, Dynamic"),
                "access_type": "Non-interactive",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": _said(
                    said, "preprocessing_and_hyperparameter_tuning", "whether choices were made by looking at the data"
                ),
                "mechanisms": " ".join(mechanism(plan)),
                "composition": "Shares of the budget are whole numbers over one denominator; as exact fractions, the "
                "costs of all groups add up to at most the parameters above.",
                "post_processing": post_processing(plan),
                "justification": _said(said, "justification", "why these parameters"),
                "utility": f"The predicted standard error of a cell is {_root_mean_square(plan)} (root mean square); "
                "every published number comes with its own.",
                "additional_information": f"privcube {stated['privcube']}, plan {plan.digest}",
            },
            "administrative": {
                "status": "Draft",
                "registry_authors": [_said(said, "registry_authors", "who fills this in")],
                "tier": _Number("3"),
            },
        },
    }


def _filled_in(words: Words) -> dict[str, str]:
    """What the publisher says in the fields of the registry, some of which follow from the words about the release."""
    about = {"name": words.title, "data_curator_name": words.publisher, "description": words.description}
    return {**{key: text for key, text in about.items() if text is not None}, **words.registry}


def _said(said: Mapping[str, str], key: str, hint: str) -> str | _Blank:
    return said.get(key, _Blank(hint))


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
            yield f"{indent}{name} {item.text if isinstance(item, _Number) else json.dumps(item, ensure_ascii=False)}"
