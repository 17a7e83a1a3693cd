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
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SCRIPTS: Final = Path(__file__).resolve().parent / "peer_scripts"
OK, FAILED, TOO_SLOW, NOT_INSTALLED, LEFT_OUT = "ok", "failed", "time limit", "not installed", "left out"
_INSTALL_SECONDS: Final = 1800
_LOOK: Final = 0.5  # seconds between two looks at what a script has done


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
    """Run a script of a peer on a job: all releases, or what went wrong; `limit` is in seconds of a release."""
    *_, last = made = list(releases_of(python, script, job, limit))
    return together(made) if last.status == OK else last


def releases_of(python: Path, script: Path, job: Mapping[str, object], limit: float) -> Iterator[Outcome]:
    """Run a script of a peer: every release as soon as it is there, and what went wrong, if that is so, at the end.

    Everything that the script started ends with it.
    """
    with tempfile.TemporaryDirectory(prefix="privcube-peer-") as folder:
        asked, result, said = (Path(folder) / name for name in ("job.json", "result.jsonl", "said.txt"))
        asked.write_text(json.dumps({**job, "result": str(result)}), encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with said.open("w") as errors:
            child = subprocess.Popen(
                [str(python), str(script), str(asked)],
                cwd=folder,
                env=environment,
                start_new_session=True,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        try:
            known, since, ended = 0, time.monotonic(), False
            while not ended:
                ended = _has_ended(child, min(_LOOK, limit))
                for line in _lines(result)[known:]:
                    known, since = known + 1, time.monotonic()
                    each = json.loads(line)
                    yield Outcome(OK, "", [each["tables"]], each["seconds"], each["processor"], each["megabytes"])
                if not ended and time.monotonic() > since + limit:
                    yield Outcome(TOO_SLOW, f"not done within {limit:g} s")
                    return
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        if child.returncode == -signal.SIGKILL:
            yield Outcome(FAILED, "ended by the operating system, as a rule for using up the memory")
        elif child.returncode == -signal.SIGXCPU:
            yield Outcome(TOO_SLOW, f"not done within {job['processor_limit']} s of the processor")
        elif child.returncode or not known:
            reason = _last_line(said.read_text(encoding="utf-8", errors="replace"))
            yield Outcome(FAILED, reason or f"ended with code {child.returncode}")


def _has_ended(child: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _lines(path: Path) -> list[str]:
    """The lines of a file that another process may be writing, as far as they are whole."""
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []


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
