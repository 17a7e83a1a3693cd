"""Every system on every workload, five releases each: hours. `python -m experiments peers --full`.

One release of everything, then a second one, and so on, each in a process of its own. What is done is kept in the
folder `runs` beside the environments of the systems (`peer_children`), with the noisy answers that mbi needs, so that a
run can be ended at any time and taken up again; files are written after each round from what there is. Delete `runs` to
start anew. A release that takes more than LIMIT seconds is tried once. Writes what the study `peers` writes.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from experiments.data import dataset
from experiments.peer_children import LEFT_OUT, NOT_INSTALLED, OK, SCRIPTS, Outcome, home, run_script
from experiments.peer_systems import CASES, EVEN, OURS, SYSTEMS, Peer
from experiments.peers import GUARANTEES, PREDICTED, Case, others_installed, write, write_predicted
from experiments.results import Row

NAME: Final = "peers_full"
ROUNDS: Final = 5
LIMIT: Final = float(os.environ.get("PRIVCUBE_PEERS_LIMIT", "7200"))  # seconds of a release
SLOWEST: Final = ("OpenDP", "Tumult Analytics")
_NOT_REACHED: Final = "not reached before the study was ended"


def run(folder: Path, quick: bool) -> None:
    """Fill up what is missing, round by round, and write the files after each."""
    if quick:
        raise click.UsageError("a full run is not quick: expected one of --full and --quick, given both")
    pythons = others_installed() | {peer.name: (Path(sys.executable), Outcome(OK)) for peer in (*OURS, EVEN)}
    runs = home() / "runs"
    cases = []
    for name, asked in CASES:
        place = runs / f"{name}-{asked.replace('*', 's')}"
        place.mkdir(parents=True, exist_ok=True)
        cases.append((place, Case.of(dataset(name), asked, place)))
    for at, peers in _rounds():
        for peer in peers:
            for place, case in cases:
                for kind in GUARANTEES:
                    _fill(place, case, kind, peer, pythons[peer.name], at)
        write(folder, list(_rows(cases)))
    write_predicted(folder, PREDICTED)


def _rounds() -> Iterator[tuple[int, list[Peer]]]:
    """All releases of those that take seconds, privcube first, which mbi needs; then one of each of the others."""
    seconds = [peer for peer in SYSTEMS if peer.cases == CASES]
    slow = [peer for peer in SYSTEMS if peer.cases != CASES]
    slow.sort(key=lambda peer: SLOWEST.index(peer.name) if peer.name in SLOWEST else -1)
    yield from ((at, seconds) for at in range(ROUNDS))
    yield from ((at, slow) for at in range(ROUNDS))


def _fill(place: Path, case: Case, kind: str, peer: Peer, installation: tuple[Path, Outcome], at: int) -> None:
    """Make one release, if it is not there and none before it failed."""
    python, outcome = installation
    path = _path(place, kind, peer, at)
    if path.exists() or (at and _read(_path(place, kind, peer, at - 1)).status != OK):
        return
    if outcome.status == OK:
        kept = place / f"measured-{kind.replace(' ', '-')}-{at}"
        kept.mkdir(exist_ok=True)
        outcome = run_script(
            python, SCRIPTS / peer.script, case.job(kind, repetitions=1, measurements=str(kept)), LIMIT
        )
    if outcome.status != NOT_INSTALLED:  # which another run may change
        path.write_text(json.dumps(asdict(outcome)), encoding="utf-8")
    click.echo(
        f"  {case.data.name} {case.asked}, {kind}, {peer.name}, release {at + 1}: {outcome.status} {outcome.reason} "
        f"{outcome.seconds:.1f} s",
        err=True,
    )


def _rows(cases: list[tuple[Path, Case]]) -> Iterator[Row]:
    for place, case in cases:
        for kind in GUARANTEES:
            for peer in SYSTEMS:
                made = [_read(_path(place, kind, peer, at)) for at in range(ROUNDS)]
                yield case.row(kind, peer, together(made))


def together(made: list[Outcome]) -> Outcome:
    """The outcome of several releases: the mean of those that were made, or why there is none."""
    done = [outcome for outcome in made if outcome.status == OK]
    if not done:
        return made[0]
    return Outcome(
        OK,
        releases=[release for outcome in done for release in outcome.releases],
        seconds=sum(outcome.seconds for outcome in done) / len(done),
        processor=sum(outcome.processor for outcome in done) / len(done),
        megabytes=max(outcome.megabytes for outcome in done),
    )


def _path(place: Path, kind: str, peer: Peer, at: int) -> Path:
    return place / f"{peer.name.replace(' ', '-')}-{kind.replace(' ', '-')}-{at}.json"


def _read(path: Path) -> Outcome:
    return Outcome(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else Outcome(LEFT_OUT, _NOT_REACHED)
