"""What an outsider can check about the page of an artifact. Zone: RELEASED."""

from __future__ import annotations

import math
from typing import Any, Final

from privcube.errors import ArtifactError, Plain
from privcube.released.artifact.checks.artifact import Artifact, Finding, InPart
from privcube.released.artifact.statements import privacy_statement
from privcube.released.artifact.store import PAGE
from privcube.released.page.document import PageNumbers, page_document
from privcube.released.page.html import document_in, page_bytes
from privcube.version import __version__

_TOLERANCE: Final = 1e-6  # relative difference allowed between fractions that only the page has


def checked_page(artifact: Artifact) -> Finding:
    """Make the page again from the published tables, the plan and the words, and compare its bytes.

    Of the fractions that only the page has, such as covariances, the last digits may differ from those worked out here.
    """
    carried = PageNumbers(artifact.plan, facts=bool(artifact.release.facts))
    for published in artifact.tables:
        carried.add(published.numbers)
    stated, contents = artifact.stated, artifact.contents
    statement = privacy_statement(artifact.plan, stated, artifact.words)
    expected = page_document(artifact.plan, artifact.words, stated, statement, carried.errors, carried.found)
    if contents.holds(PAGE, page_bytes(expected)):
        return f"{PAGE} shows these tables, and is byte for byte what is written for them"
    if stated["privcube"] != __version__:
        unchecked = f"{PAGE}, said to be written by privcube {stated['privcube']} (this is {__version__})"
        return InPart(f"there is an {PAGE}", unchecked)
    found = document_in(contents.content(PAGE))
    if not _same(found, expected) or not contents.holds(PAGE, page_bytes(found)):
        raise ArtifactError(PAGE, expected="what is written for this release", given=Plain("something else"))
    return InPart(f"{PAGE} shows these tables", "digits beyond a millionth of the covariances in it")


def _same(found: Any, expected: Any) -> bool:
    """Whether two documents are equal, but for the last digits of fractions."""
    if type(found) is not type(expected):
        return False
    if isinstance(found, dict):
        return list(found) == list(expected) and all(_same(found[key], expected[key]) for key in found)
    if isinstance(found, list):
        return len(found) == len(expected) and all(map(_same, found, expected))
    return math.isclose(found, expected, rel_tol=_TOLERANCE) if isinstance(found, float) else bool(found == expected)
