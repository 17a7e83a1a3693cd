"""A draft of a spec as text, with comments that say what is to be decided. Zone: PUBLIC."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, Final

from privcube.model.attribute import Attribute
from privcube.model.documents.attributes import attribute_document, present

_OPENING: Final = """\
# A draft made from the data. Which values occur is itself sensitive, so `privcube release` refuses it until you
# have gone through every attribute: is each value public knowledge, and is nothing missing that could occur?
# Then remove its line `draft = true`. `privcube check` shows how the data fits.
"""
_DATASET: Final = """\
# decide: whose data these are, not which file. All releases under this name add up, and share one total.
"""
_NO_PERSON: Final = """\
# decide: may one person have several rows? Then name the column that tells people apart. Without it, one row is
# protected, not one person.
# person = "..."
# max_rows_per_person = 1
"""
_PRIVACY: Final = """\
[privacy]
epsilon = "1"                   # decide: what this release may tell about one person; or epsilon and delta, or rho
neighbors = "add_remove"        # or "replace_one"
ledger = "ledger.db"            # records what was spent on these data; keep it with them
total_epsilon = "4"             # decide: what all releases of these data together may tell
"""
_ALIKE: Final = """\
# decide: some values occurred in other letters or with blanks around them; `trim` and `case` count them together.
"""
_GONE: Final = """\
# decide: do the texts under `raw` mean that the value is missing?
"""
_ODD: Final = """\
# decide: some texts are neither a number nor a date, and count as (other); `privcube check` names them.
"""
_END: Final = """\
[workload]
all_kway = [1]                  # decide: all tables of one attribute; [1, 2] adds those of two

[output]
path = "out"
"""


def draft_text(
    data: dict[str, Any],
    attributes: Sequence[Attribute],
    left_out: Sequence[tuple[str, str]],
    person: str | None,
) -> str:
    """The text of a spec.toml that is marked as a draft: a release refuses it until people have gone through it."""
    return "\n".join(_parts(data, attributes, left_out, person))


def _parts(
    data: dict[str, Any], attributes: Sequence[Attribute], left_out: Sequence[tuple[str, str]], person: str | None
) -> Iterator[str]:
    yield _OPENING
    yield _toml({"data": present(data)}) + _DATASET + _toml({"dataset": _dataset(data)}) + _person(person)
    yield _PRIVACY
    for attribute in attributes:
        document = attribute_document(attribute)
        document.pop("ordered", None)
        yield f"# decide: {_question(attribute)}\n" + _cleaning(attribute) + _toml({"attributes": [document]})
    for name, reason in left_out:
        yield f"# Left out: column {_quoted(name)}. It would need {reason}.\n"
    yield _END


def _dataset(data: dict[str, Any]) -> str:
    """A name for the data that a ledger takes.

    >>> _dataset({"source": "in/Entlassungen März.csv.gz"}), _dataset({"source": "postgresql://db/x", "table": "Stays"})
    ('entlassungen-marz', 'stays')
    """
    last = re.split(r"[/\\]", data["source"].partition("?")[0])[-1]
    plain = (
        unicodedata.normalize("NFKD", data.get("table") or last.partition(".")[0]).encode("ascii", "ignore").decode()
    )
    return "-".join(re.findall(r"[a-z0-9]+", plain.lower()))[:60].strip("-") or "records"


def _person(person: str | None) -> str:
    if person is None:
        return _NO_PERSON
    return _toml({"person": person}) + (
        "max_rows_per_person = 1         # decide: how many rows of each person count; `privcube check` shows how many "
        "there are\n"
    )


def _question(attribute: Attribute) -> str:
    if attribute.bins is not None:
        return "are these edges public knowledge, such as round numbers? What lies outside counts in the outer bins."
    if attribute.dates is not None:
        return "are these months public knowledge? Dates outside count in the first and the last."
    return 'are these values public knowledge? Others are refused; other = "category" would count them together.'


def _cleaning(attribute: Attribute) -> str:
    alike, odd = attribute.case == "fold", attribute.values is None and attribute.other == "category"
    return alike * _ALIKE + bool(attribute.raw) * _GONE + odd * _ODD


def _quoted(name: str) -> str:
    return repr(name)[:200]


def _toml(document: dict[str, Any]) -> str:
    import tomli_w

    return tomli_w.dumps(document)
