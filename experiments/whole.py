"""Whole numbers beside least squares and clipping: mean absolute and root mean square errors, and seconds.

Every release is made once from the records; estimates as released, estimates with negative ones set to 0, and whole
numbers are then compared with the exact counts, over all cells of all tables.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

import privcube as pc
from experiments.data import DATASETS, Dataset, dataset, workload
from experiments.results import Row, write_rows
from privcube.model.privacy.guarantee import Guarantee

_WORKLOADS: Final = ("Q1", "Q1*", "Q2", "Q2*", "Q3")
_EPSILONS: Final = ("0.1", "1")
_REPETITIONS: Final = {"pure": 3, "delta 1e-6": 1}


def run(folder: Path, quick: bool) -> None:
    """Write whole.csv."""
    rows: list[Row] = []
    for kind, repetitions in _REPETITIONS.items():
        for name in DATASETS:
            for wanted in _WORKLOADS[:1] if quick else _WORKLOADS:
                for epsilon in _EPSILONS[1:] if quick else _EPSILONS:
                    rows.append(_compared(dataset(name), wanted, epsilon, kind, 1 if quick else repetitions))
                    write_rows(folder / "whole.csv", rows)


def _compared(data: Dataset, wanted: str, epsilon: str, kind: str, repetitions: int) -> Row:
    guarantee: Guarantee = pc.PureDP(epsilon) if kind == "pure" else pc.ApproxDP(epsilon, "1e-6")
    plan = pc.plan(workload(data.schema, wanted), guarantee)
    seconds, errors = 0.0, []
    for _ in range(repetitions):
        release = pc.release(plan, data.codes)
        release.recover()
        start = time.process_time()
        whole = release.whole()
        seconds += time.process_time() - start
        errors.append(np.concatenate(list(_errors(data, whole)), axis=1))
    squares = [np.mean(own**2, axis=1) for own in errors]
    means = [np.mean(np.abs(own), axis=1) for own in errors]
    row: dict[str, object] = {
        "dataset": data.name,
        "data": data.data,
        "workload": wanted,
        "epsilon": epsilon,
        "guarantee": kind,
        "releases": repetitions,
    }
    for at, way in enumerate(("least_squares", "clipped", "whole")):
        row[f"mean_absolute_{way}"] = float(np.mean([own[at] for own in means]))
        row[f"root_mean_square_{way}"] = float(np.sqrt(np.mean([own[at] for own in squares])))
    row["cpu_seconds"] = seconds / repetitions
    return row


def _errors(data: Dataset, whole: pc.Release) -> Iterator[NDArray[np.float64]]:
    """For every table, the errors of its cells under the three ways."""
    for table in whole.workload:
        values = whole.values(table)
        true = data.counts(table).ravel()
        estimate = values.estimate.ravel()
        assert values.count is not None
        yield np.stack([estimate - true, np.maximum(estimate, 0) - true, values.count.ravel() - true])
