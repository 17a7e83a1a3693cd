"""What an artifact states about itself in release.json, field by field, and nothing else. Zone: RELEASED.

The fields are a whitelist. All of them follow from the plan, which was made before data was read, and from the ledger;
none reveals how many rows the data has, where it is, how large it is, when it was read or what it hashes to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from privcube.errors import ArtifactError, Plain, listed
from privcube.model.amounts import decimal_text
from privcube.model.noise.bundles import Gram, Law
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import Guarantee, PureDP, guarantee_from
from privcube.version import __version__

FORMAT: Final = "privcube release 2"
OLDER: Final = ("privcube release 1",)  # formats whose plan and measurements can still be read
CONFIDENCE: Final = 0.95  # of the published intervals

_FIELDS: Final = ("format", "privcube", "plan", "guarantee", "noise", "confidence", "ledger", "total", "files")
_KNOWN: Final = "known"  # only there if something was publicly known
_WHOLE: Final = "whole"  # only there if tables have whole numbers
_HEAD: Final = re.compile("[0-9a-f]{64}")
_NUMBER: Final = "(?:0|[1-9][0-9]{0,5})"
_VERSION: Final = re.compile(
    rf"{_NUMBER}(?:\.{_NUMBER}){{1,3}}(?:(?:a|b|rc){_NUMBER})?(?:\.post{_NUMBER})?(?:\.dev{_NUMBER})?"
)
_PURE: Final = {  # in this order
    "max_norm": "discrete max-norm",
    "rounded_max_norm": "rounded max-norm",
    "section": "rounded section",
    "gram": "rounded Gram",
}
_SINGLE: Final = "discrete Laplace"


@dataclass(frozen=True)
class Noise:
    """The noise that was drawn: its distribution, the name of its parameter, and the parameter's range over groups."""

    mechanism: str
    parameter: str
    smallest: Fraction
    largest: Fraction


def noise_of(plan: Plan) -> Noise:
    """The noise of a plan; that of a number of records which is public hides nothing and is left out.

    >>> from privcube import PureDP, Schema, Workload, plan
    >>> made = plan(Workload.all_kway(Schema.from_sizes({"a": 2}), 1), PureDP("0.5"))
    >>> noise_of(made)
    Noise(mechanism='discrete Laplace', parameter='scale', smallest=Fraction(2, 1), largest=Fraction(2, 1))
    """
    if not isinstance(plan.guarantee, PureDP):
        variances = plan.noise_variances()
        hiding = [group for group in range(len(plan.groups)) if group not in plan.known] or sorted(plan.known)
        least, most = (end(hiding, key=variances.__getitem__) for end in (min, max))
        return Noise(
            mechanism_of(plan, 1, "max_norm"), "variance", plan.noise_variance(least), plan.noise_variance(most)
        )
    shared = list(zip(plan.noised_together, plan.shares, plan.noise_laws, strict=True))
    shared = [each for each in shared if each[0][0] not in plan.known] or shared
    bundles, shares, laws = zip(*shared, strict=True)
    drawn = {mechanism_of(plan, len(bundle), law) for bundle, law in zip(bundles, laws, strict=True)}
    mechanism = " and ".join(name for name in (_SINGLE, *_PURE.values()) if name in drawn)
    least, most = (bundles[shares.index(share)][0] for share in (max(shares), min(shares)))
    return Noise(mechanism, "scale", plan.noise_scale(least), plan.noise_scale(most))


def mechanism_of(plan: Plan, groups: int, law: Law) -> str:
    """The name of the noise of a bundle of so many groups."""
    if not isinstance(plan.guarantee, PureDP):
        return plan.guarantee.noise.replace("_gaussian", " Gaussian")
    if law == "max_norm" and groups == 1:
        return _SINGLE
    return _PURE["gram" if isinstance(law, Gram) else law]


def manifest(
    plan: Plan,
    provenance: Mapping[str, Any],
    files: Sequence[str],
    version: str = __version__,
    *,
    known: Mapping[str, Any] | None = None,
    whole: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The fields of release.json; only entry, head and total are taken from the provenance.

    `known` is what was publicly known, and `whole` says how whole numbers were made, if there are any
    (`privcube.released.artifact.whole_files`).
    """
    guarantee, noise = plan.guarantee, noise_of(plan)
    return {
        "format": FORMAT,
        "privcube": version,
        "plan": plan.digest,
        "guarantee": {
            "kind": guarantee.kind,
            "amounts": amounts_text(guarantee),
            "neighbors": guarantee.neighbors,
            "max_rows_per_person": guarantee.max_rows_per_person,
            "unit": guarantee.unit,
        },
        "noise": {
            "mechanism": noise.mechanism,
            f"smallest_{noise.parameter}": decimal_text(noise.smallest),
            f"largest_{noise.parameter}": decimal_text(noise.largest),
        },
        "confidence": CONFIDENCE,
        "ledger": _ledger(provenance),
        "total": _total(provenance.get("total")),
        **({} if known is None else {_KNOWN: dict(known)}),
        **({} if whole is None else {_WHOLE: dict(whole)}),
        "files": sorted(files),
    }


def older_format(document: Any) -> str | None:
    """The format of a release.json, if it is an older one that can still be read."""
    found = document.get("format") if isinstance(document, dict) else None
    return found if found in OLDER else None


def stated_in(document: Any) -> dict[str, Any]:
    """The fields of a release.json: all of them, no others, and a version that is one."""
    if not isinstance(document, dict) or document.get("format") not in (FORMAT, *OLDER):
        given = document.get("format") if isinstance(document, dict) else Plain("something else")
        raise ArtifactError("release.json", expected=f"the format {FORMAT!r}", given=given)
    if set(document) - {_KNOWN, _WHOLE} != set(_FIELDS):
        raise ArtifactError(
            "release.json", expected="its fields and no others", given=Plain(listed(map(str, document)))
        )
    version = document["privcube"]
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise ArtifactError("release.json, privcube", expected="a version such as 1.2.0", given=version)
    return document


def provenance_from(stated: Mapping[str, Any]) -> dict[str, Any]:
    """The provenance in the fields of release.json: ledger entry, head and total, where known."""
    ledger, total = stated["ledger"], stated["total"]
    if ledger is not None and (not isinstance(ledger, dict) or set(ledger) != {"entry", "head"}):
        raise ArtifactError("release.json, ledger", expected="entry and head, or null", given=ledger)
    found = {**(ledger or {}), **({} if total is None else {"total": total})}
    _ledger(found)
    _total(total)
    return found


def amounts_text(guarantee: Guarantee) -> dict[str, str]:
    """The amounts of a guarantee as exact text."""
    return {name: decimal_text(amount) for name, amount in guarantee.amounts.items()}


def _ledger(provenance: Mapping[str, Any]) -> dict[str, Any] | None:
    entry, head = provenance.get("entry"), provenance.get("head")
    if entry is None and head is None:
        return None
    if type(entry) is not int or entry < 1:
        raise ArtifactError("ledger entry", expected="a whole number of at least 1", given=entry)
    if not isinstance(head, str) or not _HEAD.fullmatch(head):
        raise ArtifactError("ledger head", expected="a SHA-256 in 64 hexadecimal digits", given=head)
    return {"entry": entry, "head": head}


def _total(total: Any) -> dict[str, str] | None:
    """The amounts of the ledger's total as exact text."""
    if total is None:
        return None
    if not isinstance(total, Mapping) or not set(total) <= {"epsilon", "delta", "rho"}:
        raise ArtifactError("total", expected="amounts named epsilon, delta or rho", given=total)
    return amounts_text(guarantee_from(dict(total)))
