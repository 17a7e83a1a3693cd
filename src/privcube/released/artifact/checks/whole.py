"""Whole numbers of an artifact, compared with the records, the facts and the estimates. Zone: RELEASED."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from privcube.errors import ArtifactError, Plain
from privcube.model.workload import Workload
from privcube.released.artifact.checks.tables import Published
from privcube.released.artifact.store import MANIFEST, RECORDS
from privcube.released.artifact.whole_files import Distance, require_facts, terms_in
from privcube.released.labels import COUNT
from privcube.released.whole.records import Records

_ROUNDED: Final = 1e-5  # of the stated distance, which has six digits


def checked_counts(
    workload: Workload, tables: Sequence[Published], stated: Mapping[str, Any], records: Records | None
) -> str:
    """What was found about the counts of tables; refuse those that are negative, far off or not of the records."""
    apart = Distance()
    for found in tables:
        apart.add(found.numbers)
        if int(found.numbers[COUNT].min(initial=0)) < 0:
            raise ArtifactError(found.file, expected="counts of at least 0", given=Plain("negative ones"))
        if records is not None and not np.array_equal(found.numbers[COUNT], found.again[COUNT]):
            raise ArtifactError(found.file, expected=f"the counts of {RECORDS}", given=Plain("different ones"))
    if not math.isclose(apart.value, stated["distance"], rel_tol=_ROUNDED, abs_tol=_ROUNDED):
        expected = f"that of the tables, {apart.value}"
        raise ArtifactError(f"{MANIFEST}, distance", expected=expected, given=stated["distance"])
    near = f"{apart.value:.3g} standard errors from the estimates (root mean square)"
    if records is None:
        return f"counts are whole, not negative, agree wherever tables overlap, and are {near}"
    require_facts(records, workload, terms_in(stated).facts)
    return f"all counts are those of the records in {RECORDS}, and {near}"
