"""Whole numbers beside least squares, clipping and mbi: mean absolute and root mean square errors, and seconds.

Every release is made once from the records; estimates as released, estimates with negative ones set to 0, whole numbers
and, on the first release of every kind, the model that mbi fits to the same noisy answers are then compared with the
exact counts, over all cells of all tables. mbi runs in an environment of its own, for at most `LIMIT` seconds each.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import privcube as pc
from experiments.data import DATASETS, Dataset, dataset, workload
from experiments.peer_children import LEFT_OUT, OK, SCRIPTS, Outcome, installed, run_script
from experiments.peer_scripts.noisy_answers import answers_of
from experiments.peer_systems import OTHERS
from experiments.results import Row, write_rows
from experiments.whole_sizes import WAYS, draw, size_rows
from privcube.model.privacy.guarantee import Guarantee
from privcube.released.whole.release import WholeRelease

_WORKLOADS: Final = ("Q1", "Q1*", "Q2", "Q2*", "Q3")
_EPSILONS: Final = ("0.1", "1")
_REPETITIONS: Final = 3
_WAYS: Final = ("least_squares", "clipped", "whole")
_PICTURED: Final = (("Adult", "Q2"), ("NLTCS", "Q3"))  # at epsilon 1, pure
LIMIT: Final = 600  # seconds


def run(folder: Path, quick: bool) -> None:
    """Write whole.csv, with one more release of every kind in each round."""
    kinds = [("pure", name) for name in DATASETS] + [("delta 1e-6", name) for name in DATASETS]
    studies = [
        _Study(dataset(name), wanted, epsilon, kind)
        for kind, name in (kinds[:1] if quick else kinds)
        for wanted in (_WORKLOADS[:1] if quick else _WORKLOADS)
        for epsilon in (_EPSILONS[1:] if quick else _EPSILONS)
    ]
    (mbi,) = (peer for peer in OTHERS if peer.name == "mbi")
    python, outcome = (Path(), Outcome(LEFT_OUT)) if quick else installed({mbi.name: mbi.versions})[mbi.name]
    beside: list[Row] = []
    sizes: list[Row] = []
    for repetition in range(1 if quick else _REPETITIONS):
        for study in studies:
            study.release()
            write_rows(folder / "whole.csv", [own.row() for own in studies if own.seconds])
            if repetition == 0:
                found = study.with_mbi(python if outcome.status == OK else None)
                beside.append(study.beside(found))
                write_rows(folder / "whole-mbi.csv", beside)
                if study.pictured:
                    sizes += size_rows(study.title, study.true, found)
    draw(folder, sizes or list(size_rows(studies[0].title, studies[0].true, studies[0].with_mbi(None))))


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
        self._last, self.true = whole, _flat(whole.workload, self._data.counts)
        errors = np.concatenate(list(_errors(self._data, whole)), axis=1)
        self._absolute.append(np.mean(np.abs(errors), axis=1))
        self._squares.append(np.mean(errors**2, axis=1))

    @property
    def pictured(self) -> bool:
        """Whether errors are shown by the size of the true count."""
        return (self._data.name, self._wanted) in _PICTURED and (self._epsilon, self._kind) == ("1", "pure")

    @property
    def title(self) -> str:
        """What the study is about."""
        return f"{self._data.title} {self._wanted}, epsilon {self._epsilon}, {self._kind}"

    def with_mbi(self, python: Path | None) -> dict[str, NDArray[Any]]:
        """All numbers of the last release by every way, and by mbi if it runs."""
        whole = self._last
        estimates = _flat(whole.workload, whole.estimates)
        found = {"least_squares": estimates, "clipped": np.maximum(estimates, 0)}
        if python is not None:
            sizes = {attribute.name: attribute.cells for attribute in self._data.schema}
            tables = list(whole.workload)
            total = float(whole.estimates(tables[0]).sum())
            with tempfile.TemporaryDirectory(prefix="privcube-whole-") as folder:
                (Path(folder) / "0.json").write_text(json.dumps(answers_of(whole, sizes, total)))
                (Path(folder) / "records.csv").write_text(",".join(sizes) + "\n")  # mbi reads the answers alone
                job = {"records": f"{folder}/records.csv", "sizes": sizes, "tables": tables, "repetitions": 1}
                outcome = run_script(python, SCRIPTS / "run_mbi.py", {**job, "measurements": folder}, LIMIT)
            if outcome.status == OK:
                found["mbi"] = np.concatenate([np.asarray(table) for table in outcome.releases[0]])
        return {**found, "whole": _flat(whole.workload, whole.counts)}

    def beside(self, found: dict[str, NDArray[Any]]) -> Row:
        """The errors of every way on the same answers; empty where mbi did not run."""
        off = {way: found[way] - self.true if way in found else None for way in WAYS}
        return {
            "dataset": self._data.name,
            "workload": self._wanted,
            "epsilon": self._epsilon,
            "guarantee": self._kind,
            **{f"mean_absolute_{way}": "" if own is None else float(np.abs(own).mean()) for way, own in off.items()},
            **{
                f"root_mean_square_{way}": "" if own is None else float(np.sqrt((own**2).mean()))
                for way, own in off.items()
            },
        }

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


def _flat(workload: pc.Workload, numbers: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([numbers(table).ravel() for table in workload])


def _errors(data: Dataset, whole: WholeRelease) -> Iterator[NDArray[np.float64]]:
    """For every table, the errors of its cells under the three ways."""
    for table in whole.workload:
        true, estimate = data.counts(table).ravel(), whole.estimates(table).ravel()
        yield np.stack([estimate - true, np.maximum(estimate, 0) - true, whole.counts(table).ravel() - true])
