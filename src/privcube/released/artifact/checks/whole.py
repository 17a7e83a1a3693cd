"""Whole numbers of an artifact, compared with the records, the facts and the estimates. Zone: RELEASED."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from privcube.errors import ArtifactError, Plain
from privcube.model.workload import Axis, Workload
from privcube.released.artifact.checks.tables import Published
from privcube.released.artifact.store import MANIFEST, RECORDS
from privcube.released.artifact.whole_files import Distance, require_facts
from privcube.released.labels import COUNT, COUNTS
from privcube.released.whole.facts import MOST_RECORDS, Facts, known_numbers
from privcube.released.whole.records import Records
from privcube.released.whole.release import count_range

_ROUNDED: Final = 1e-5  # of the stated distance, which has six digits
_FAR: Final = 100.0  # standard errors, or records if that is more: further than any search leaves a count


def checked_counts(
    workload: Workload, tables: Sequence[Published], stated: Mapping[str, Any], facts: Facts, records: Records | None
) -> str:
    """What was found about the counts of tables; refuse those that are negative, far off or not of the records."""
    apart, tables = Distance(), [found for found in tables if COUNT in found.numbers]  # sums have none
    for found in tables:
        apart.add(found.numbers)
        if int(found.numbers[COUNT].min(initial=0)) < 0:
            raise ArtifactError(found.file, expected="counts of at least 0", given=Plain("negative ones"))
        if records is not None and not np.array_equal(found.numbers[COUNT], found.again[COUNT]):
            raise ArtifactError(found.file, expected=f"the counts of {RECORDS}", given=Plain("different ones"))
        _require_range(found, facts)
    if not math.isclose(apart.value, stated["distance"], rel_tol=_ROUNDED, abs_tol=_ROUNDED):
        expected = f"that of the tables, {apart.value}"
        raise ArtifactError(f"{MANIFEST}, distance", expected=expected, given=stated["distance"])
    if apart.largest > _FAR:
        expected = f"counts within {_FAR:,.0f} standard errors of the estimates, or records"
        raise ArtifactError(MANIFEST, expected=expected, given=Plain(f"one {apart.largest:,.0f} off"))
    near = f"{apart.value:.3g} standard errors from the estimates (root mean square)"
    if records is None:
        for found in tables:
            _require_facts_in(found, workload, facts)
        return f"counts are whole, not negative, agree wherever tables overlap, and are {near}"
    require_facts(records, workload, facts)
    return f"all counts are those of the records in {RECORDS}, and {near}"


def _require_range(found: Published, facts: Facts) -> None:
    """Refuse intervals of counts, if there are any, that do not follow from the other columns."""
    if COUNTS[1] in found.numbers:
        count = np.asarray(found.numbers[COUNT], dtype=np.int64)
        low, high = (np.asarray(found.numbers[name], dtype=np.float64) for name in ("low", "high"))
        for name, own in zip(COUNTS[1:], count_range(low, high, count, facts.records), strict=True):
            if not np.array_equal(found.numbers[name], own):
                expected = f"{name} as follows from low, high and count"
                raise ArtifactError(found.file, expected=expected, given=Plain("something else"))


def _require_facts_in(found: Published, workload: Workload, facts: Facts) -> None:
    """Refuse counts of a table, without ranges, that do not add up to what is known, or are in impossible cells."""
    counts = found.numbers[COUNT]
    if any(Axis.of(entry).queries != "cells" for entry in found.table):
        return
    total = float(np.sum(counts, dtype=np.float64))
    if total > MOST_RECORDS or (facts.records is not None and total != facts.records):
        expected = "at most 2^50 records" if facts.records is None else f"{facts.records:,} records, as is known"
        raise ArtifactError(found.file, expected=expected, given=Plain(f"{total:,.0f}"))
    for known in known_numbers(workload.schema, Facts(impossible=facts.impossible), [found.table]):
        if counts[known.places].any():
            raise ArtifactError(found.file, expected="no impossible combination", given=Plain("some"))
