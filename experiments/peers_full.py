"""Every system on every workload, five releases each: hours. `python -m experiments peers --full`.

The releases of a system and a workload are made by one process, which loads and compiles what it needs once. Each
release is a row of peer-releases.csv, written as soon as it is there, so that a run can be ended at any time and taken
up again, on another machine, too: what has a row is not done again, unless the system has another version. Delete rows
to do them again. What mbi needs, the noisy answers of privcube, is kept in the folder `runs` beside the environments of
the systems (`peer_children`); where it is missing, privcube's release is made again. A release that takes more than
LIMIT seconds is the last one that is tried, and what failed with one guarantee is not tried with the other. Writes
peer-releases.csv, and what the study `peers` writes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from experiments.data import dataset
from experiments.peer_children import LEFT_OUT, NOT_INSTALLED, OK, SCRIPTS, Outcome, home, releases_of
from experiments.peer_systems import CASES, EVEN, OURS, PRIVCUBE, SYSTEMS, Peer
from experiments.peers import GUARANTEES, PREDICTED, Case, others_installed, write, write_predicted
from experiments.results import Row, chosen, read_rows, write_rows

NAME: Final = "peers_full"
RELEASES: Final = "peer-releases.csv"
ROUNDS: Final = 5
LIMIT: Final = float(os.environ.get("PRIVCUBE_PEERS_LIMIT", "7200"))  # seconds of a release
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
    for peer in SYSTEMS:  # privcube first, which mbi needs
        before = known
        for place, case in cases:
            for kind in GUARANTEES:
                answers = place / f"measured-{kind.replace(' ', '-')}"
                for made in _filled(answers, case, kind, peer, pythons[peer.name], known):
                    known = [row for row in known if not _is_same(row, made)] + [made]
                    write_rows(folder / RELEASES, sorted(known, key=_order))
        if known is not before:
            write(folder, list(_rows([case for _, case in cases], known)))
    write_predicted(folder, PREDICTED)


def _filled(
    answers: Path, case: Case, kind: str, peer: Peer, installation: tuple[Path, Outcome], known: Sequence[Row]
) -> Iterator[Row]:
    """The releases from the first one that is not there, if none before it failed."""
    python, outcome = installation
    own = {row["release"]: row["status"] for row in _own(case, kind, peer, known)}
    there = [str(at + 1) in own and (peer != PRIVCUBE or (answers / f"{at}.json").exists()) for at in range(ROUNDS)]
    if all(there) or any(status != OK for status in own.values()):
        return
    first, outcomes = there.index(False), iter([outcome])
    other = [row["reason"] for each in GUARANTEES for row in _own(case, each, peer, known) if row["status"] != OK]
    if other:
        outcomes = iter([Outcome(LEFT_OUT, f"not tried, as with the other guarantee it was {other[0]}")])
    elif outcome.status == OK:
        answers.mkdir(exist_ok=True)
        job = case.job(kind, repetitions=ROUNDS, measurements=str(answers), first=first)
        outcomes = releases_of(python, SCRIPTS / peer.script, job, LIMIT)
    for at, made in enumerate(outcomes, start=first + 1):
        click.echo(
            f"  {case.data.name} {case.asked}, {kind}, {peer.name}, release {at}: {made.status} {made.reason} "
            f"{made.seconds:.1f} s",
            err=True,
        )
        if made.status != NOT_INSTALLED:  # which another run may change
            yield {"release": str(at), **{name: _text(each) for name, each in case.row(kind, peer, made).items()}}


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
