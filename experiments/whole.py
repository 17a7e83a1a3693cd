"""Whole numbers beside least squares and clipping: mean absolute and root mean square errors, and seconds.

Every release is made once from the records; estimates as released, estimates with negative ones set to 0, and whole
numbers are then compared with the exact counts, over all cells of all tables.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

import privcube as pc
from experiments.data import DATASETS, Dataset, dataset, workload
from experiments.results import Row, write_rows
from privcube.model.privacy.guarantee import Guarantee
from privcube.released.whole.release import WholeRelease

_WORKLOADS: Final = ("Q1", "Q1*", "Q2", "Q2*", "Q3")
_EPSILONS: Final = ("0.1", "1")
_REPETITIONS: Final = 3
_WAYS: Final = ("least_squares", "clipped", "whole")


def run(folder: Path, quick: bool) -> None:
    """Write whole.csv, with one more release of every kind in each round."""
    kinds = [("pure", name) for name in DATASETS] + [("delta 1e-6", name) for name in DATASETS]
    studies = [
        _Study(dataset(name), wanted, epsilon, kind)
        for kind, name in (kinds[:1] if quick else kinds)
        for wanted in (_WORKLOADS[:1] if quick else _WORKLOADS)
        for epsilon in (_EPSILONS[1:] if quick else _EPSILONS)
    ]
    for _ in range(1 if quick else _REPETITIONS):
        for study in studies:
            study.release()
            write_rows(folder / "whole.csv", [own.row() for own in studies if own.seconds])


class _Study:
    """Releases of one workload under one guarantee, and the errors of each."""

    def __init__(self, data: Dataset, wanted: str, epsilon: str, kind: str) -> None:
        self._data, self._wanted, self._epsilon, self._kind = data, wanted, epsilon, kind
        self._absolute: list[NDArray[np.float64]] = []
        self._squares: list[NDArray[np.float64]] = []
        self.seconds: list[float] = []

    @cached_property
    def _plan(self) -> pc.Plan:
        guarantee: Guarantee = pc.PureDP(self._epsilon)
        if self._kind != "pure":
            guarantee = pc.ApproxDP(self._epsilon, "1e-6")
        return pc.plan(workload(self._data.schema, self._wanted), guarantee)

    def release(self) -> None:
        """Make one more release."""
        release = pc.release(self._plan, self._data.codes)
        release.recover()
        start = time.process_time()
        whole = release.whole()
        self.seconds.append(time.process_time() - start)
        errors = np.concatenate(list(_errors(self._data, whole)), axis=1)
        self._absolute.append(np.mean(np.abs(errors), axis=1))
        self._squares.append(np.mean(errors**2, axis=1))

    def row(self) -> Row:
        """The mean errors so far."""
        absolute, squares = np.mean(self._absolute, axis=0), np.mean(self._squares, axis=0)
        return {
            "dataset": self._data.name,
            "data": self._data.data,
            "workload": self._wanted,
            "epsilon": self._epsilon,
            "guarantee": self._kind,
            "releases": len(self.seconds),
            **{f"mean_absolute_{way}": float(absolute[at]) for at, way in enumerate(_WAYS)},
            **{f"root_mean_square_{way}": float(np.sqrt(squares[at])) for at, way in enumerate(_WAYS)},
            "cpu_seconds": float(np.mean(self.seconds)),
        }


def _errors(data: Dataset, whole: WholeRelease) -> Iterator[NDArray[np.float64]]:
    """For every table, the errors of its cells under the three ways."""
    for table in whole.workload:
        true, estimate = data.counts(table).ravel(), whole.estimates(table).ravel()
        yield np.stack([estimate - true, np.maximum(estimate, 0) - true, whole.counts(table).ravel() - true])
