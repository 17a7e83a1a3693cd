"""What a script of a peer is asked about sums and answers; runs inside the peer's own environment, with numpy alone.

The job is that of `protocol`, with `columns` the names of the records' columns, `sizes` the attributes that make the
groups and `measures` the bounds of every measure. Neighbors differ by one record more or less. A release is the counts
of all groups, then the sums of every measure, flat; means are made of them by the study, in the same way for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from protocol import serve


def serve_sums(release: Callable[[dict[str, Any], dict[str, np.ndarray]], list[np.ndarray]]) -> None:
    """Do the job named on the command line; `release` makes counts and sums once, from a column of numbers per name."""
    serve(lambda job, columns: release(job, {name: columns[:, at] for at, name in enumerate(job["columns"])}))


def exact_groups(job: dict[str, Any], records: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The exact counts and sums of all groups."""
    shape = tuple(job["sizes"].values())
    keys = np.ravel_multi_index(tuple(records[name] for name in job["sizes"]), shape)
    cells = int(np.prod(shape))
    sums = [np.bincount(keys, records[name], cells) for name in job["measures"]]
    return [np.bincount(keys, minlength=cells).astype(float), *sums]


def groups_of(job: dict[str, Any], columns: Mapping[str, Sequence[float]], count: str) -> list[np.ndarray]:
    """Counts and sums from columns with the place of every group and its numbers, which must be all groups once."""
    shape = tuple(job["sizes"].values())
    places = tuple(np.asarray(columns[name], dtype=np.int64) for name in job["sizes"])
    keys = np.ravel_multi_index(places, shape)
    assert sorted(keys.tolist()) == list(range(int(np.prod(shape)))), "some groups are missing"
    made = []
    for name in (count, *job["measures"]):
        own = np.zeros(int(np.prod(shape)))
        own[keys] = np.asarray(columns[name], dtype=float)
        made.append(own)
    return made
