"""Whole numbers of large releases: their errors beside those of the estimates, seconds of the processor, memory.

Records are made up (`data.made_up`). Each case runs in a process of its own, so that its memory is its own. That the
tables are those of the records is checked in whole numbers.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

import privcube as pc
from experiments.data import STAND_IN, Dataset, made_up
from experiments.results import Row

_CASES: Final = {
    "100 binary attributes": ({f"x{at}": 2 for at in range(100)}, 100_000),
    "5,000 x 8 x 3 values": ({"place": 5_000, "age": 8, "kind": 3}, 20_000),
}
_QUICK: Final = {"6 binary attributes": ({f"x{at}": 2 for at in range(6)}, 1_000)}


def large_rows(quick: bool) -> Iterator[Row]:
    """One row per case: all pairs of attributes at epsilon 1."""
    for name, (sizes, records) in (_QUICK if quick else _CASES).items():
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found = pool.apply(_found, (sizes, records))
        yield {"case": name, "data": STAND_IN, "records": records, **found}


def _found(sizes: dict[str, int], records: int) -> dict[str, Any]:
    data = Dataset("Large", STAND_IN, pc.Schema.from_sizes(sizes), made_up(sizes, records))
    release = pc.release(pc.plan(pc.Workload.all_kway(data.schema, 2), pc.PureDP(1), effort="fast"), data.codes)
    start = time.process_time()
    whole = release.whole()
    seconds = time.process_time() - start
    records_found = whole.records()
    every = records_found.loc[records_found.index.repeat(records_found["count"])]
    behind = Dataset("Found", STAND_IN, data.schema, every)
    off: dict[str, list[Any]] = {"least_squares": [], "whole": []}
    agree = True
    for table in whole.workload:
        true, counts = data.counts(table), whole.counts(table)
        agree = agree and np.array_equal(counts, behind.counts(table))
        off["least_squares"].append(np.ravel(release.estimates(table) - true))
        off["whole"].append(np.ravel(counts - true))
    errors = {way: np.concatenate(own) for way, own in off.items()}
    return {
        "tables": len(whole.workload),
        **{f"mean_absolute_{way}": float(np.abs(own).mean()) for way, own in errors.items()},
        **{f"root_mean_square_{way}": float(np.sqrt(np.mean(own**2))) for way, own in errors.items()},
        "tables_of_records": "yes" if agree else "no",
        "cpu_seconds": seconds,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
