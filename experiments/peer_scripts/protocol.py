"""What a script of a peer is asked and answers; runs inside the peer's own environment, with numpy alone.

The job is a JSON file: `records` (a CSV file of numbered values), `sizes` (values per attribute), `tables`, `epsilon`,
`delta` and `rho` (null for a pure guarantee), `repetitions`, `measurements` (a folder that privcube writes to and mbi
reads, or null), `strategy` (of privcube, if it is not to choose), `result` and, where it is limited, `processor_limit`,
seconds of the processor; `first`, where repetitions before that one are there already. Neighbors differ by one record
more or less. The answer, in `result`: a line of JSON for every release as soon as it is there, with its tables, flat in
the order of the job, the seconds from records in memory to tables, by the clock and of all processors, and peak memory
in MB so far. Releases after the first find libraries loaded and code compiled.
A script that cannot do what is asked raises; the last line of its message is the reason that is reported.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def serve(release: Callable[[dict[str, Any], np.ndarray], list[np.ndarray]]) -> None:
    """Do the job named on the command line; `release` makes the tables once, from codes with a column per attribute."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    if "processor_limit" in job:
        resource.setrlimit(resource.RLIMIT_CPU, (job["processor_limit"], job["processor_limit"] + 5))
    codes = np.loadtxt(job["records"], delimiter=",", skiprows=1, dtype=np.int64, ndmin=2)
    for repetition in range(job.get("first", 0), job["repetitions"]):
        start, used = time.perf_counter(), processor_seconds()
        tables = release({**job, "repetition": repetition}, codes)
        answer = {
            "tables": [np.asarray(table, dtype=float).ravel().tolist() for table in tables],
            "seconds": time.perf_counter() - start,
            "processor": processor_seconds() - used,
            "megabytes": peak_megabytes(),
        }
        with Path(job["result"]).open("a", encoding="utf-8") as result:
            result.write(json.dumps(answer) + "\n")


def shape_of(job: dict[str, Any], table: list[str]) -> tuple[int, ...]:
    """The shape of a table."""
    return tuple(job["sizes"][name] for name in table)


def counts(job: dict[str, Any], codes: np.ndarray, table: list[str]) -> np.ndarray:
    """The exact counts of a table."""
    shape, names = shape_of(job, table), list(job["sizes"])
    keys = np.ravel_multi_index(tuple(codes[:, names.index(name)] for name in table), shape)
    return np.bincount(keys, minlength=int(np.prod(shape))).reshape(shape)


def peak_megabytes() -> float:
    """Peak memory of this process and of those that it started and that still run (the Java of Spark).

    Not `ru_maxrss`, which counts what the parent had when it started this process.
    """
    parents, peaks = {}, {}
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
        except OSError:  # ended meanwhile
            continue
        parents[int(fields["Pid"])] = int(fields["PPid"])
        peaks[int(fields["Pid"])] = int(fields.get("VmHWM", "0 kB").split()[0]) / 1024
    return sum(peak for process, peak in peaks.items() if _is_own(process, parents))


def processor_seconds() -> float:
    """Seconds of all processors that this process has used, with those that it started: not more on a busy machine."""
    parents, ticks = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()  # after the name, which may have spaces
        except OSError:
            continue
        process = int(path.parent.name)
        parents[process] = int(fields[1])
        ticks[process] = sum(int(field) for field in fields[11:15])  # its own and those of children that ended
    used = sum(tick for process, tick in ticks.items() if _is_own(process, parents))
    return used / os.sysconf("SC_CLK_TCK")


def _is_own(process: int | None, parents: dict[int, int]) -> bool:
    while process and process != os.getpid():
        process = parents.get(process)
    return bool(process)
