"""Facts that a release contradicts: they are wrong, and would move every number. Zone: RELEASED.

A number that is known is compared with its estimate, which is published anyway, so this costs no privacy. Noise is
beyond `FAR` standard errors less than once in ten million numbers, whatever its law: Laplace noise has the longest
tail, and is beyond t of them with probability exp(-sqrt(2) t), 4e-8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from privcube.errors import Plain, QueryError
from privcube.model.workload import Axis
from privcube.released.whole.facts import Facts, checked_facts, known_numbers

if TYPE_CHECKING:
    from privcube.released.release import Release

FAR: Final = 12.0
_ROUNDED: Final = 1e-9  # relative; what floating point leaves


def agreeing(release: Release, facts: Facts) -> Facts:
    """The facts, unless a release contradicts them."""
    plain, schema = release.without_facts(), release.workload.schema
    checked_facts(schema, facts)
    if facts.records is not None and (total := _total(plain)) is not None:
        found, error = total
        if abs(facts.records - found) > FAR * error + _ROUNDED * max(abs(found), 1.0):
            expected = f"about as many as were measured, {found:,.0f} with a standard error of {error:,.3g}"
            raise QueryError("records", expected=expected, given=facts.records)
    tables = [table for table in plain.workload if all(Axis.of(entry).queries == "cells" for entry in table)]
    for known in known_numbers(schema, Facts(impossible=facts.impossible), tables):
        values = plain.values(known.source)
        estimate, error_of = values.estimate.ravel()[known.places], values.std_error.ravel()[known.places]
        worst = int(np.argmax(np.abs(estimate) - FAR * error_of))
        if abs(estimate[worst]) > FAR * error_of[worst] + _ROUNDED * max(abs(estimate[worst]), 1.0):
            given = Plain(f"one with {estimate[worst]:,.0f}, and a standard error of {error_of[worst]:,.3g}")
            raise QueryError("impossible", expected="combinations without records", given=given)
    return facts


def _total(release: Release) -> tuple[float, float] | None:
    """The number of records as it was measured, with its standard error; None if no table tells it."""
    try:
        answer = release.query({})
    except QueryError:
        return None
    return answer.estimate, answer.std_error
