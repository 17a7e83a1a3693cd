"""Other systems beside privcube: the same records, tables, guarantee and neighbors, each in its own environment.

Every system is a child process that reads the records and a job and writes tables (`peer_scripts`), with the best
settings that it documents. Measured: error of a count, whether tables agree, seconds and peak memory of a release. What
a system cannot do, or not in time, is reported as that. Environments come from PyPI and are kept (`peer_children`).
HDMM and ResidualPlanner are not on PyPI: predicted errors are put beside the figures in shared/reference, if these are
there. SmartNoise's synthesizers are left out: they take 6 GB. Writes peers.csv, peers-reference.csv, peers.svg.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import click
import numpy as np

import privcube as pc
from experiments import plots
from experiments.data import Dataset, dataset, workload
from experiments.peer_children import LEFT_OUT, NOT_INSTALLED, OK, SCRIPTS, Outcome, installed, run_script
from experiments.peer_systems import CASES, EVEN, OTHERS, OURS, SYSTEMS, Peer
from experiments.peer_words import section
from experiments.results import Row, chosen, read_rows, short, write_rows
from privcube.model.privacy.guarantee import Guarantee
from privcube.model.workload import Table

__all__ = ["NAME", "run", "section"]
NAME: Final = "peers"
EPSILON: Final = "1"
DELTA: Final = "1e-6"
PREDICTED: Final = ("Q1", "Q1*", "Q1a", "Q2", "Q2*", "Q2a", "Q3")
LIMIT: Final = 120.0  # seconds of a release
GUARANTEES: Final[dict[str, Guarantee]] = {"pure": pc.PureDP(EPSILON), "with delta": pc.ApproxDP(EPSILON, DELTA)}
REFERENCE: Final = Path(__file__).resolve().parents[2] / "shared" / "reference" / "accuracy.csv"


_REFERENCE_NAMES: Final = {"1way": "Q1", "Q1=1way": "Q1", "2way": "Q2", "Q2=2way": "Q2", "3way": "Q3"}
Tables = Sequence[Table]
Rows = Sequence[dict[str, str]]


def run(folder: Path, quick: bool) -> None:
    """Write the files."""
    cases = (("Adult", "Q1"),) if quick else CASES
    if quick:
        pythons = {peer.name: (Path(), Outcome(NOT_INSTALLED, "in quick mode nothing is")) for peer in OTHERS}
    else:
        pythons = others_installed()
    pythons |= {peer.name: (Path(sys.executable), Outcome(OK)) for peer in (*OURS, EVEN)}
    rows = [row for name, asked in cases for row in _of_case(dataset(name), asked, pythons, quick)]
    write(folder, rows)
    write_predicted(folder, PREDICTED[:1] if quick else PREDICTED)


def others_installed() -> dict[str, tuple[Path, Outcome]]:
    """The Python of every other system, and what came of its installation."""
    pythons = installed({peer.name: peer.versions for peer in OTHERS})
    for name, (_, outcome) in pythons.items():
        made = f"installed in {outcome.seconds:.0f} s" if outcome.seconds else "installed"
        click.echo(f"  {name}: {made if outcome.status == OK else outcome.reason}", err=True)
    return pythons


def write(folder: Path, rows: Sequence[Row]) -> None:
    """Write what was measured, and its plot."""
    write_rows(folder / "peers.csv", rows)
    plots.save(_figure(read_rows(folder / "peers.csv")), folder, "peers")


def write_predicted(folder: Path, names: Sequence[str]) -> None:
    """Write what other planners predict for some workloads, and our plans."""
    beside = list(reference(names))
    if beside:
        write_rows(folder / "peers-reference.csv", beside)


def _of_case(data: Dataset, asked: str, pythons: dict[str, tuple[Path, Outcome]], quick: bool) -> Iterator[Row]:
    """All systems on one workload, with both guarantees; privcube first, since mbi needs what it measured."""
    with tempfile.TemporaryDirectory(prefix="privcube-peers-") as folder:
        case = Case.of(data, asked, Path(folder))
        for kind in GUARANTEES:
            for peer in SYSTEMS:
                python, outcome = pythons[peer.name]
                if outcome.status == OK and (data.name, asked) not in peer.cases and peer in OTHERS:
                    outcome = Outcome(LEFT_OUT, peer.why)
                elif outcome.status == OK:
                    job = case.job(kind, repetitions=1 if quick else peer.repetitions, measurements=folder)
                    job |= {"strategy": "marginals"} if quick else {}  # no search
                    outcome = run_script(python, SCRIPTS / peer.script, job, LIMIT)
                click.echo(
                    f"  {data.name} {asked}, {kind}, {peer.name}: {outcome.status} {outcome.reason} "
                    f"{outcome.seconds:.1f} s",
                    err=True,
                )
                yield case.row(kind, peer, outcome)


@dataclass(frozen=True, eq=False)
class Case:
    """A workload of a data set, with its records in a file."""

    data: Dataset
    asked: str
    records: Path
    tables: Tables
    true: Sequence[np.ndarray]

    @classmethod
    def of(cls, data: Dataset, asked: str, folder: Path) -> Case:
        """The case; records are written to the folder."""
        records = folder / "records.csv"
        data.codes.to_csv(records, index=False)
        tables = list(workload(data.schema, asked))
        return cls(data, asked, records, tables, [data.counts(table) for table in tables])

    def job(self, kind: str, *, repetitions: int, measurements: str, first: int = 0) -> dict[str, object]:
        """What a script is asked (`peer_scripts.protocol`)."""
        guarantee = GUARANTEES[kind]
        return {
            "records": str(self.records),
            "sizes": {attribute.name: attribute.cells for attribute in self.data.schema},
            "tables": self.tables,
            "epsilon": float(EPSILON),
            "delta": float(DELTA) if isinstance(guarantee, pc.ApproxDP) else None,
            "rho": float(guarantee.rho) if isinstance(guarantee, pc.ApproxDP) else None,
            "repetitions": repetitions,
            "first": first,
            "measurements": measurements,
        }

    def row(self, kind: str, peer: Peer, outcome: Outcome) -> Row:
        """What is kept of a run."""
        return {
            "dataset": self.data.name,
            "data": self.data.data,
            "workload": self.asked,
            "tables": len(self.tables),
            "cells": sum(counts.size for counts in self.true),
            "guarantee": kind,
            "epsilon": EPSILON,
            "delta": DELTA if kind != "pure" else "",
            "system": peer.name,
            "versions": " ".join(peer.versions),
            "status": outcome.status,
            "reason": outcome.reason,
            "releases": len(outcome.releases),
            **measured(self.tables, self.true, outcome.releases),
            "error bars": peer.error_bars,
            "seconds": outcome.seconds if outcome.status == OK else "",
            "processor seconds": outcome.processor if outcome.status == OK else "",
            "peak MB": outcome.megabytes if outcome.status == OK else "",
        }


def measured(
    tables: Tables, true: Sequence[np.ndarray], releases: Sequence[Sequence[Sequence[float]]]
) -> dict[str, object]:
    """Errors of released tables against the true ones, in the mean over cells and releases, and how far they disagree.

    The scaled error of a cell is its error over the mean count of its table.
    """
    columns = ("error in records", "rms error in records", "scaled error", "largest disagreement")
    if not releases:
        return dict.fromkeys(columns, "")
    errors = [np.array([each[at] for each in releases]) - counts.ravel() for at, counts in enumerate(true)]
    scaled = [np.abs(own) / counts.mean() for own, counts in zip(errors, true, strict=True)]
    every = np.concatenate([own.ravel() for own in errors])
    apart = max(disagreement(tables, true, each) for each in releases)
    mean = float(np.concatenate([own.ravel() for own in scaled]).mean())
    return dict(
        zip(columns, (float(np.abs(every).mean()), float(np.sqrt((every**2).mean())), mean, apart), strict=True)
    )


def disagreement(tables: Tables, true: Sequence[np.ndarray], release: Sequence[Sequence[float]]) -> float:
    """The largest difference between two tables of a release on a count that both imply."""
    lowest: dict[Table, np.ndarray] = {}
    highest: dict[Table, np.ndarray] = {}
    for table, counts, values in zip(tables, true, release, strict=True):
        array = np.reshape(values, counts.shape)
        for kept in (axes for few in range(array.ndim + 1) for axes in combinations(range(array.ndim), few)):
            shared = tuple(table[axis] for axis in kept)
            implied = array.sum(axis=tuple(axis for axis in range(array.ndim) if axis not in kept))
            lowest[shared] = np.minimum(lowest.get(shared, implied), implied)
            highest[shared] = np.maximum(highest.get(shared, implied), implied)
    return max(float(np.max(highest[shared] - lowest[shared])) for shared in lowest)


def reference(names: Sequence[str]) -> Iterator[Row]:
    """Root mean square errors of HDMM and ResidualPlanner, as computed by them, and of our plans; none without them."""
    for row in read_rows(REFERENCE):
        data = {"adult8": "Adult", "nltcs": "NLTCS"}.get(row["domain"].partition(":")[0])
        asked = _REFERENCE_NAMES.get(row["workload"], row["workload"])
        system = {"HDMM min(OPT_M best of 10, OPT_x)": "HDMM", "ResidualPlanner sumvar": "ResidualPlanner"}.get(
            row["method"]
        )
        if data is None or system is None or asked not in names or row["metric"] != "total_sq_error":
            continue
        wanted = workload(dataset(data).schema, asked)
        plan = pc.plan(wanted, pc.PureDP(1) if system == "HDMM" else pc.ZCDP("0.5"))
        theirs = (float(row["value"]) / wanted.cells) ** 0.5
        ours = plan.mean_cell_variance**0.5
        yield {
            "dataset": data,
            "workload": asked,
            "guarantee": "epsilon = 1 (pure)" if system == "HDMM" else "rho = 1/2 (zCDP)",
            "system": system,
            "how": row["how"],
            "rms error": theirs,
            "privcube rms error": ours,
            "system over privcube": theirs / ours,
        }


def _figure(rows: Rows) -> Any:
    """A panel per guarantee and workload: bars with their values, and words where there is none."""
    cases = list(dict.fromkeys((row["dataset"], row["workload"]) for row in rows))
    names = [peer.name for peer in SYSTEMS]
    known = [float(row["error in records"]) for row in rows if row["status"] == OK]
    low, high = 0.6 * min(known), 5 * max(known)  # room for the labels
    ticks = [tick for tick in (1, 3, 10, 30, 100, 300, 1000, 3000) if low <= tick <= high]
    made, axes = plots.panels(len(GUARANTEES), len(cases), shared=False)
    made.set_size_inches(2.3 + 2.5 * len(cases), 5.6)
    for down, kind in enumerate(GUARANTEES):
        for across, (data, asked) in enumerate(cases):
            panel, own = axes[down, across], chosen(rows, dataset=data, workload=asked, guarantee=kind)
            errors = {row["system"]: float(row["error in records"]) for row in own if row["status"] == OK}
            panel.set_xscale("log")
            panel.set_xlim(low, high)
            panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            panel.minorticks_off()
            for row in own:
                place = names.index(row["system"])
                if row["status"] == OK:
                    color = "black" if row["system"] in {own.name for own in OURS} else "#1f77b4"
                    panel.plot(errors[row["system"]], place, "o", markersize=6, color=color)
                    panel.annotate(
                        short(errors[row["system"]]), (errors[row["system"]], place), xytext=(6, 0),
                        textcoords="offset points", va="center", fontsize=8, color=color,
                    )  # fmt: skip
                else:
                    panel.text(
                        0.03, place, row["status"], transform=panel.get_yaxis_transform(),
                        va="center", fontsize=7.5, style="italic", color="#7f7f7f",
                    )  # fmt: skip
            panel.set_yticks(range(len(names)), names if across == 0 else [""] * len(names))
            panel.set_ylim(len(names) - 0.5, -0.5)
            if down == 0:
                size = f"{own[0]['tables']} tables, {int(own[0]['cells']):,} counts"
                panel.set_title(f"{data} {asked.replace('*', '$^*$')}\n{size}", fontsize=9)
            else:
                panel.set_xlabel("error of a count (people)")
        axes[down, 0].set_ylabel(f"ε = {EPSILON}" + ("" if kind == "pure" else f", δ = {DELTA}"), fontsize=10)
    made.suptitle("Mean absolute error of a released count\n(logarithmic axis; lower is better)", fontsize=10)
    return made
