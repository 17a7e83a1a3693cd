"""How long it takes to start: each command in a fresh process, best and median of ten runs.

Times on a busy machine vary, so the work is also shown as a ratio to importing numpy (and pandas) in the same run.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from privcube.cli.example import EXAMPLE

RUNS: Final = 10
PROGRAM: Final = str(Path(sys.executable).with_name("privcube"))
IMPORT_TARGET: Final = 0.15
HELP_TARGET: Final = 0.4


@dataclass(frozen=True)
class Timing:
    """Seconds over all runs."""

    best: float
    median: float


def measured(*commands: list[str], folder: Path) -> list[Timing]:
    """Time the commands in turns, so that a slow moment of the machine hits all of them."""
    seconds: list[list[float]] = [[] for _ in commands]
    for _ in range(RUNS):
        for command, times in zip(commands, seconds, strict=True):
            start = time.perf_counter()
            result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            times.append(time.perf_counter() - start)
            if result.returncode != 0:
                sys.exit(f"{' '.join(command)} failed:\n{result.stderr}")
    return [Timing(min(times), statistics.median(times)) for times in seconds]


def installed(module: str) -> bool:
    """Whether a module can be imported, found out in another process so that nothing is loaded here."""
    return subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def python(code: str) -> list[str]:
    """The command that runs a line of Python."""
    return [sys.executable, "-c", code]


def main() -> None:
    """Measure and print."""
    libraries = ["numpy", "pandas"]
    present = [name for name in libraries if installed(name)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "spec.toml").write_text(EXAMPLE, encoding="utf-8")
        bare, ours, shown, planned, *others = measured(
            python("pass"),
            python("import privcube"),
            [PROGRAM, "--help"],
            [PROGRAM, "plan", "spec.toml"],
            *(python(f"import {library}") for library in present),
            folder=folder,
        )

    def beyond(timing: Timing) -> Timing:
        """What an import adds to starting Python."""
        return Timing(max(timing.best - bare.best, 0.0), max(timing.median - bare.median, 0.0))

    added = beyond(ours)
    print(f"{'seconds, of ' + str(RUNS) + ' runs':<32}{'best':>8}{'median':>8}{'target':>8}")
    for label, timing, target in (
        ("python -c pass", bare, None),
        ("import privcube, added", added, IMPORT_TARGET),
        ("privcube --help", shown, HELP_TARGET),
        ("privcube plan spec.toml", planned, None),
        *((f"import {library}, added", beyond(timing), None) for library, timing in zip(present, others, strict=True)),
    ):
        verdict = "" if target is None else f"{target:>8.2f}  {'met' if timing.median <= target else 'missed'}"
        print(f"{label:<32}{timing.best:>8.3f}{timing.median:>8.3f}{verdict}")
    for library, timing in zip(present, others, strict=True):
        print(f"import privcube / import {library}: {added.median / max(beyond(timing).median, 1e-9):.3f}")
    for library in sorted(set(libraries) - set(present)):
        print(f"{library} is not installed here")


if __name__ == "__main__":
    main()
