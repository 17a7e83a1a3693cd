"""Other systems run as child processes, each in an environment of its own, by one protocol (`peer_scripts`).

Environments are made once, in the folder in the environment variable PRIVCUBE_PEERS, or else in `.peers` in the
checkout, and made again when the versions wanted change. What goes wrong is an answer, too: a status and the reason.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SCRIPTS: Final = Path(__file__).resolve().parent / "peer_scripts"
OK, FAILED, TOO_SLOW, NOT_INSTALLED, LEFT_OUT = "ok", "failed", "time limit", "not installed", "left out"
_INSTALL_SECONDS: Final = 1800


@dataclass(frozen=True)
class Outcome:
    """What came of a run, or of an installation."""

    status: str
    reason: str = ""
    releases: list[list[list[float]]] = field(default_factory=list)  # tables, flat, of every repetition
    seconds: float = 0.0  # of a release, in the mean
    processor: float = 0.0  # seconds of all processors, likewise
    megabytes: float = 0.0  # peak


def run_script(python: Path, script: Path, job: Mapping[str, object], limit: float) -> Outcome:
    """Run a script of a peer on a job; everything that it started ends with it."""
    with tempfile.TemporaryDirectory(prefix="privcube-peer-") as folder:
        asked, result = Path(folder) / "job.json", Path(folder) / "result.json"
        asked.write_text(json.dumps({**job, "result": str(result)}), encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        line = [str(python), str(script), str(asked)]
        child = subprocess.Popen(
            line,
            cwd=folder,
            env=environment,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            _, said = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            return Outcome(TOO_SLOW, f"not done within {limit:g} s")
        if child.returncode == -signal.SIGXCPU:
            return Outcome(TOO_SLOW, f"not done within {job['processor_limit']} s of the processor")
        if child.returncode or not result.exists():
            return Outcome(FAILED, _last_line(said) or f"ended with code {child.returncode}")
        answer = json.loads(result.read_text(encoding="utf-8"))
    seconds, processor = (sum(answer[kind]) / len(answer[kind]) for kind in ("seconds", "processor"))
    return Outcome(OK, "", answer["releases"], seconds, processor, answer["megabytes"])


def together(made: Sequence[Outcome]) -> Outcome:
    """The outcome of several runs: the mean of those that were made, or why there is none."""
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


def home() -> Path:
    """Where environments are kept."""
    return Path(os.environ.get("PRIVCUBE_PEERS") or SCRIPTS.parents[1] / ".peers").resolve()


def installed(wanted: Mapping[str, Sequence[str]]) -> dict[str, tuple[Path, Outcome]]:
    """The Python of every environment, and what came of its installation; two are made at a time."""
    with ThreadPoolExecutor(2) as pool:
        made = pool.map(lambda name: _environment(home() / name.replace(" ", "-"), wanted[name]), wanted)
        return dict(zip(wanted, made, strict=True))


def _environment(folder: Path, versions: Sequence[str]) -> tuple[Path, Outcome]:
    python, mark = folder / "bin" / "python", folder / "installed.txt"
    if mark.exists() and mark.read_text(encoding="utf-8").split() == list(versions):
        return python, Outcome(OK)
    shutil.rmtree(folder, ignore_errors=True)
    pip = [str(python), "-m", "pip", "-qq", "--disable-pip-version-check", "install", "--no-compile", *versions]
    start = time.perf_counter()
    for line in ([sys.executable, "-m", "venv", str(folder)], pip):
        try:
            done = subprocess.run(line, capture_output=True, text=True, timeout=_INSTALL_SECONDS)
        except subprocess.TimeoutExpired:
            return python, Outcome(NOT_INSTALLED, f"installation took more than {_INSTALL_SECONDS} s")
        if done.returncode:
            return python, Outcome(NOT_INSTALLED, _last_line(done.stderr))
    mark.write_text("\n".join(versions), encoding="utf-8")
    return python, Outcome(OK, seconds=time.perf_counter() - start)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
