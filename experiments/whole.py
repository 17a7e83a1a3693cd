"""Whole numbers beside least squares, clipping, mbi and OpenDP's model: errors over all cells, seconds and memory.

Noisy answers are drawn once from the records and kept, with their plans, in the folder of the other systems'
environments (`peer_children.home`), and so is what has been worked out from them. A study that was stopped goes on
where it was, and mbi gets the very answers that whole numbers are made of. Delete the folder `whole` there to start
anew.

mbi fits a model to the first release of every kind, of the smallest workload to ten of them. OpenDP counts, draws and
fits for itself, so it is compared by the size of its errors. Each gets `LIMIT` seconds of the processor; one that is
not done by then has no figures.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import privcube as pc
from experiments.data import DATASETS, Dataset, dataset, workload
from experiments.peer_children import OK, SCRIPTS, Outcome, home, installed, run_script
from experiments.peer_scripts.noisy_answers import answers_of
from experiments.peer_systems import OTHERS
from experiments.results import Row, write_rows
from experiments.whole_large import large_rows
from experiments.whole_sizes import WAYS, draw, size_rows
from privcube.model.measurements import Measurements
from privcube.model.privacy.guarantee import Guarantee
from privcube.released.whole.release import WholeRelease, count_range

LIMIT: Final = 300  # seconds of the processor for one fit of another system

_WORKLOADS: Final = ("Q1", "Q1*", "Q2", "Q2*", "Q3")
_EPSILONS: Final = ("0.1", "1")
_GUARANTEES: Final = ("pure", "delta 1e-6")
_REPETITIONS: Final = 3
_PATIENCE: Final = 3600  # seconds by the clock, on a busy machine
_HELD: Final = ("covered_by_estimates", "covered_by_count_intervals", "counts_inside", "relative_width")
_PICTURED: Final = (("Adult", "Q2"), ("NLTCS", "Q3"))  # at epsilon 1, pure
_OPENDP: Final = ("Q1", "Q1*", "Q2")  # at epsilon 1, pure
_FITS: Final = {"Q1": 10}  # releases that mbi fits, else one: with so few numbers a single one tells little


def run(folder: Path, quick: bool) -> None:
    """Write whole.csv, then whole-mbi.csv and whole-opendp.csv, row by row, and whole-large.csv."""
    if quick:
        with tempfile.TemporaryDirectory(prefix="privcube-whole-") as kept:
            case = Case("pure", "Adult", "Q1", "1", Path(kept))
            write_rows(folder / "whole.csv", [_means(case, [case.ours(0)])])
            draw(folder, list(size_rows(case.title, case.true, case.found(0))))
        write_rows(folder / "whole-large.csv", list(large_rows(quick)))
        return
    kept_in = home() / "whole"
    kept_in.mkdir(parents=True, exist_ok=True)
    cases = [
        Case(kind, name, wanted, epsilon, kept_in)
        for kind in _GUARANTEES
        for name in DATASETS
        for wanted in _WORKLOADS
        for epsilon in _EPSILONS
    ]
    cases += [Case(kind, "Generated", "Q2", epsilon, kept_in) for kind in _GUARANTEES for epsilon in _EPSILONS]
    found: dict[Case, list[dict[str, float]]] = {case: [] for case in cases}
    for repetition in range(_REPETITIONS):
        for case in cases:
            found[case].append(case.ours(repetition))
            write_rows(folder / "whole.csv", [_means(own, rows) for own, rows in found.items() if rows])
        if repetition == 0:
            _beside(folder, cases)
            write_rows(folder / "whole-large.csv", list(large_rows(quick)))


def _beside(folder: Path, cases: list[Case]) -> None:
    peers = {peer.name: peer for peer in OTHERS if peer.name in ("mbi", "OpenDP")}
    python = installed({name: peer.versions for name, peer in peers.items()})
    rows: list[Row] = []
    for case in sorted((own for own in cases if own.name in DATASETS), key=lambda own: _WORKLOADS.index(own.wanted)):
        fits = [case.fitted(_fit(at), *python["mbi"], partial(case.mbi, at)) for at in range(_FITS.get(case.wanted, 1))]
        rows.append(case.beside(fits))
        write_rows(folder / "whole-mbi.csv", rows)
    draw(folder, [row for case in cases if case.pictured for row in size_rows(case.title, case.true, case.found(0))])
    others: list[Row] = []
    for case in cases:
        if case.wanted in _OPENDP and (case.kind, case.epsilon) == ("pure", "1"):
            others.append(case.apart(case.fitted("opendp", *python["OpenDP"], case.opendp)))
            write_rows(folder / "whole-opendp.csv", others)


@dataclass(frozen=True)
class Case:
    """Releases of one workload under one guarantee, and what is known of each."""

    kind: str
    name: str
    wanted: str
    epsilon: str
    folder: Path  # of what is kept

    @property
    def _data(self) -> Dataset:
        return dataset(self.name)

    @property
    def pictured(self) -> bool:
        """Whether errors are shown by the size of the true count."""
        return (self.name, self.wanted) in _PICTURED and (self.epsilon, self.kind) == ("1", "pure")

    @property
    def title(self) -> str:
        """What the case is about."""
        return f"{self._data.title} {self.wanted}, epsilon {self.epsilon}, {self.kind}"

    @property
    def labels(self) -> dict[str, str]:
        """The first columns of every row."""
        return {"dataset": self.name, "workload": self.wanted, "epsilon": self.epsilon, "guarantee": self.kind}

    @cached_property
    def true(self) -> NDArray[np.int64]:
        """The exact counts of all cells of all tables."""
        return _flat(workload(self._data.schema, self.wanted), self._data.counts)

    def _path(self, what: str) -> Path:
        parts = [self.name, self.wanted.replace("*", "s"), self.epsilon, self.kind.split()[0], what]
        return self.folder / f"{'-'.join(parts)}.json"

    def kept(self, what: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A document of the case, made if it is not there."""
        path = self._path(what)
        if not path.exists():
            staged = path.with_suffix(".new")
            staged.write_text(json.dumps(make()), encoding="utf-8")
            staged.rename(path)
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found

    @cached_property
    def _plan(self) -> pc.Plan:
        guarantee: Guarantee = pc.PureDP(self.epsilon) if self.kind == "pure" else pc.ApproxDP(self.epsilon, "1e-6")
        made = self.kept(
            "plan", lambda: {"plan": pc.plan(workload(self._data.schema, self.wanted), guarantee).to_json()}
        )
        return pc.Plan.from_json(made["plan"])

    def release(self, repetition: int) -> pc.Release:
        """A release of the case, the same whenever it is asked for."""

        def measured() -> dict[str, Any]:
            return {"answers": pc.release(self._plan, self._data.codes).measurements.answers.tolist()}

        answers = self.kept(f"answers{repetition}", measured)["answers"]
        return pc.Release(Measurements(self._plan, np.array(answers, dtype=np.int64)))

    def found(self, repetition: int) -> dict[str, NDArray[Any]]:
        """All numbers of a release by every way; by mbi if it ran."""
        release = self.release(repetition)
        estimates = _flat(release.workload, release.estimates)
        whole = np.array(self.kept(f"whole{repetition}", lambda: self._whole(release))["numbers"])
        found = {"least_squares": estimates, "clipped": np.maximum(estimates, 0), "whole": whole}
        fit = _fit(repetition)
        mbi = self.kept(fit, dict)["numbers"] if self._path(fit).exists() else []
        return {**found, "mbi": np.array(mbi)} if mbi else found

    def _whole(self, release: pc.Release) -> dict[str, Any]:
        release.recover()
        start = time.process_time()
        whole = release.whole()
        seconds = time.process_time() - start
        numbers = _flat(whole.workload, whole.counts)
        held = dict(zip(_HELD, _held(self.true, numbers, whole), strict=True))
        return {"numbers": numbers.tolist(), "cpu_seconds": seconds, **held}

    def ours(self, repetition: int) -> dict[str, float]:
        """The errors of a release, and the seconds of its whole numbers."""

        def worked_out() -> dict[str, float]:
            found = self.found(repetition)
            kept = self.kept(f"whole{repetition}", dict)
            errors = _errors(self.true, {way: found[way] for way in WAYS if way != "mbi"})
            return {**errors, **{name: kept[name] for name in ("cpu_seconds", *_HELD)}}

        return self.kept(f"ours{repetition}", worked_out)

    def beside(self, fits: Sequence[Mapping[str, Any]]) -> Row:
        """The errors of every way on the same answers; none where mbi was not done."""
        blank = dict.fromkeys([f"{error}_mbi" for error in ("mean_absolute", "root_mean_square")], "")
        errors = _mean([_errors(self.true, self.found(at)) for at in range(len(fits))])
        return {**self.labels, **_in_order({**blank, **errors}), "releases": len(fits), **_cost(fits[0], "mbi")}

    def apart(self, fitted: Mapping[str, Any]) -> Row:
        """The errors of OpenDP's own release."""
        numbers = np.array(fitted["numbers"])
        errors = _errors(self.true, {"opendp": numbers}) if len(numbers) else {}
        blank = {"mean_absolute_opendp": "", "root_mean_square_opendp": ""}
        return {**self.labels, **blank, **errors, **_cost(fitted, "opendp")}

    def _job(self) -> dict[str, Any]:
        sizes = {attribute.name: attribute.cells for attribute in self._data.schema}
        tables = [list(table) for table in workload(self._data.schema, self.wanted)]
        return {"sizes": sizes, "tables": tables, "repetitions": 1, "measurements": None, "processor_limit": LIMIT}

    def fitted(self, what: str, python: Path, made: Outcome, fit: Callable[[Path], Outcome]) -> dict[str, Any]:
        """What came of a fit of another system, if it was installed."""

        def run_it() -> dict[str, Any]:
            outcome = fit(python) if made.status == OK else made
            numbers = [number for table in outcome.releases[0] for number in table] if outcome.releases else []
            came = {"status": outcome.status, "reason": outcome.reason, "numbers": numbers}
            return {**came, "cpu_seconds": outcome.processor, "megabytes": outcome.megabytes}

        return self.kept(what, run_it)

    def mbi(self, repetition: int, python: Path) -> Outcome:
        """Fit mbi's model to what a release says."""
        with tempfile.TemporaryDirectory(prefix="privcube-whole-") as folder:
            job = {**self._job(), "measurements": folder, "records": f"{folder}/records.csv"}
            (Path(folder) / "0.json").write_text(json.dumps(answers_of(self.release(repetition))))
            (Path(folder) / "records.csv").write_text(",".join(job["sizes"]) + "\n")  # mbi reads the answers alone
            return run_script(python, SCRIPTS / "run_mbi.py", job, _PATIENCE)

    def opendp(self, python: Path) -> Outcome:
        """OpenDP's own release of the same tables at the same epsilon."""
        with tempfile.TemporaryDirectory(prefix="privcube-whole-") as folder:
            self._data.codes.to_csv(f"{folder}/records.csv", index=False)
            job = {**self._job(), "records": f"{folder}/records.csv", "epsilon": float(self.epsilon), "rho": None}
            return run_script(python, SCRIPTS / "run_opendp.py", job, _PATIENCE)


def _fit(repetition: int) -> str:
    """The name of what mbi made of a release."""
    return f"mbi{repetition}" if repetition else "mbi"


def _mean(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The means of what releases have; of squares, for root mean square errors."""
    return {
        name: float(np.sqrt(np.mean([row[name] ** 2 for row in rows])))
        if name.startswith("root")
        else float(np.mean([row[name] for row in rows]))
        for name in rows[0]
    }


def _means(case: Case, rows: list[dict[str, float]]) -> Row:
    labels = case.labels
    first = {"dataset": labels.pop("dataset"), "data": dataset(case.name).data, **labels, "releases": len(rows)}
    return {**first, **_mean(rows)}


def _flat(tables: pc.Workload, numbers: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([numbers(table).ravel() for table in tables])


def _errors(true: NDArray[Any], found: Mapping[str, NDArray[Any]]) -> dict[str, float]:
    off = {way: numbers - true for way, numbers in found.items()}
    absolute = {f"mean_absolute_{way}": float(np.abs(own).mean()) for way, own in off.items()}
    return {**absolute, **{f"root_mean_square_{way}": float(np.sqrt(np.mean(own**2))) for way, own in off.items()}}


def _held(true: NDArray[Any], counts: NDArray[Any], whole: WholeRelease) -> tuple[float, float, float, float]:
    """The shares of true counts in both kinds of intervals, of whole numbers in those of estimates, and widths."""
    values = [whole.values(table) for table in whole.workload]
    low, high = (np.concatenate([(own.estimate + sign * own.margin).ravel() for own in values]) for sign in (-1.0, 1.0))
    least, largest = count_range(low, high, counts, None)
    return (
        float(np.mean((low <= true) & (true <= high))),
        float(np.mean((least <= true) & (true <= largest))),
        float(np.mean((low <= counts) & (counts <= high))),
        float(np.mean(largest - least) / np.mean(high - low)),
    )


def _in_order(errors: Mapping[str, object]) -> dict[str, object]:
    return dict(_ordered(errors))


def _ordered(errors: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for error in ("mean_absolute", "root_mean_square"):
        for way in WAYS:
            yield f"{error}_{way}", errors[f"{error}_{way}"]


def _cost(fitted: Mapping[str, Any], name: str) -> dict[str, object]:
    done = fitted["status"] == OK
    return {
        f"status_{name}": fitted["status"] if done else f"{fitted['status']}: {fitted['reason']}",
        f"cpu_seconds_{name}": float(fitted["cpu_seconds"]) if done else "",
        f"megabytes_{name}": float(fitted["megabytes"]) if done else "",
    }
