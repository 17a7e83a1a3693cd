"""Every system on every workload, five releases each: hours. `python -m experiments peers --full`.

One release of everything, then a second one, and so on, each in a process of its own. Each release is a row of
peer-releases.csv, written as soon as it is there, so that a run can be ended at any time and taken up again, on another
machine, too: what has a row is not done again, unless the system has another version. Delete rows to do them again.
What mbi needs, the noisy answers of privcube, is kept in the folder `runs` beside the environments of the systems
(`peer_children`); where it is missing, privcube's release is made again. A release that takes more than LIMIT seconds
is tried once. Writes peer-releases.csv, and what the study `peers` writes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from experiments.data import dataset
from experiments.peer_children import LEFT_OUT, NOT_INSTALLED, OK, SCRIPTS, Outcome, home, run_script
from experiments.peer_systems import CASES, EVEN, OURS, PRIVCUBE, SYSTEMS, Peer
from experiments.peers import GUARANTEES, PREDICTED, Case, others_installed, write, write_predicted
from experiments.results import Row, chosen, read_rows, write_rows

NAME: Final = "peers_full"
RELEASES: Final = "peer-releases.csv"
ROUNDS: Final = 5
LIMIT: Final = float(os.environ.get("PRIVCUBE_PEERS_LIMIT", "7200"))  # seconds of a release
SLOWEST: Final = ("OpenDP", "Tumult Analytics")
_NOT_REACHED: Final = Outcome(LEFT_OUT, "not reached before the study was ended")
_MEANS: Final = ("error in records", "scaled error", "seconds", "processor seconds")
_MOST: Final = ("largest disagreement", "peak MB")


def run(folder: Path, quick: bool) -> None:
    """Fill up what is missing, release by release."""
    if quick:
        raise click.UsageError("a full run is not quick: expected one of --full and --quick, given both")
    pythons = others_installed() | {peer.name: (Path(sys.executable), Outcome(OK)) for peer in (*OURS, EVEN)}
    runs = home() / "runs"
    cases = []
    for name, asked in CASES:
        place = runs / f"{name}-{asked.replace('*', 's')}"
        place.mkdir(parents=True, exist_ok=True)
        cases.append((place, Case.of(dataset(name), asked, place)))
    known: list[Row] = list(read_rows(folder / RELEASES))
    for at, peer in _rounds():
        before = known
        for place, case in cases:
            for kind in GUARANTEES:
                answers = place / f"measured-{kind.replace(' ', '-')}-{at}"
                made = _filled(answers, case, kind, peer, pythons[peer.name], at, known)
                if made is None:
                    continue
                known = [row for row in known if not _is_same(row, made)] + [made]
                write_rows(folder / RELEASES, sorted(known, key=_order))
        if known is not before:
            write(folder, list(_rows([case for _, case in cases], known)))
    write_predicted(folder, PREDICTED)


def _rounds() -> Iterator[tuple[int, Peer]]:
    """Releases in the order in which they are made: those that take seconds, privcube first, which mbi needs; then
    those that take minutes; the slowest last."""
    seconds = [peer for peer in SYSTEMS if peer.cases == CASES]
    slowest = [peer for peer in SYSTEMS if peer.name in SLOWEST]
    slow = [peer for peer in SYSTEMS if peer not in seconds and peer not in slowest]
    yield from ((at, peer) for few in (seconds, slow, slowest) for at in range(ROUNDS) for peer in few)


def _filled(
    answers: Path, case: Case, kind: str, peer: Peer, installation: tuple[Path, Outcome], at: int, known: Sequence[Row]
) -> Row | None:
    """One release, if it is not there and none before it failed."""
    python, outcome = installation
    own = {row["release"]: row["status"] for row in _own(case, kind, peer, known)}
    is_there = str(at + 1) in own and (peer != PRIVCUBE or answers.exists())
    if is_there or any(status != OK for status in own.values()):
        return None
    if outcome.status == OK:
        answers.mkdir(exist_ok=True)
        job = case.job(kind, repetitions=1, measurements=str(answers))
        outcome = run_script(python, SCRIPTS / peer.script, job, LIMIT)
    click.echo(
        f"  {case.data.name} {case.asked}, {kind}, {peer.name}, release {at + 1}: {outcome.status} {outcome.reason} "
        f"{outcome.seconds:.1f} s",
        err=True,
    )
    if outcome.status == NOT_INSTALLED:  # which another run may change
        return None
    return {"release": str(at + 1), **{name: _text(each) for name, each in case.row(kind, peer, outcome).items()}}


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _own(case: Case, kind: str, peer: Peer, known: Sequence[Row]) -> list[dict[str, str]]:
    """The releases of a system, of the versions that are wanted now."""
    wanted = {"dataset": case.data.name, "workload": case.asked, "guarantee": kind, "system": peer.name}
    return chosen(known, **wanted, versions=" ".join(peer.versions))  # type: ignore[arg-type]


def _is_same(row: Row, other: Row) -> bool:
    return all(row[name] == other[name] for name in ("dataset", "workload", "guarantee", "system", "release"))


def _order(row: Row) -> tuple[int, ...]:
    names = [peer.name for peer in SYSTEMS]
    case = CASES.index((str(row["dataset"]), str(row["workload"])))
    return (
        case,
        list(GUARANTEES).index(str(row["guarantee"])),
        names.index(str(row["system"])),
        int(str(row["release"])),
    )


def _rows(cases: Sequence[Case], known: Sequence[Row]) -> Iterator[Row]:
    for case in cases:
        for kind in GUARANTEES:
            for peer in SYSTEMS:
                own = _own(case, kind, peer, known)
                yield mean_of(own) if own else case.row(kind, peer, _NOT_REACHED)


def mean_of(made: Sequence[dict[str, str]]) -> Row:
    """Several releases in one row: means of those that were made, the largest of some; or why there is none.

    >>> rows = [{"release": "1", "status": "ok", **dict.fromkeys([*_MEANS, *_MOST], "1"), "rms error in records": "3"},
    ...         {"release": "2", "status": "ok", **dict.fromkeys([*_MEANS, *_MOST], "2"), "rms error in records": "4"}]
    >>> found = mean_of(rows)
    >>> found["releases"], found["seconds"], found["peak MB"], found["rms error in records"]
    (2, 1.5, 2.0, 3.5355339059327378)
    """
    done = chosen(made, status=OK)
    if not done:
        return {name: value for name, value in made[0].items() if name != "release"}
    numbers = {name: [float(row[name]) for row in done] for name in (*_MEANS, *_MOST, "rms error in records")}
    found: dict[str, object] = {name: value for name, value in done[0].items() if name != "release"}
    found["releases"] = len(done)
    found |= {name: sum(numbers[name]) / len(done) for name in _MEANS}
    found |= {name: max(numbers[name]) for name in _MOST}
    found["rms error in records"] = (sum(each**2 for each in numbers["rms error in records"]) / len(done)) ** 0.5
    return found
