"""Sums and means beside other systems: age, hours and capital gain of Adult by sex and education, one budget.

Every system publishes the count of each of the 32 groups and the sum of each measure, with the same bounds, guarantee
and neighbors, in an environment of its own (`peer_children`). A mean is the ratio of both where the count is above 1,
and moved into the bounds, for all systems alike. "split" is the baseline without a system: the budget split between
counts and sums. UCI's file adult.data is read from the folder of the data sets (`data`); where it is absent, numbers
are made up. What other systems released is kept in `runs/sums` beside their environments, so that the study can be
ended and taken up again; delete it to start anew. Writes measures.csv.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click
import numpy as np
import pandas as pd

import privcube as pc
from experiments.data import FROM_FILE, STAND_IN
from experiments.peer_children import NOT_INSTALLED, OK, SCRIPTS, Outcome, home, installed, run_script, together
from experiments.peer_systems import Peer
from experiments.results import Row, chosen, read_rows, short, write_rows
from privcube.model.privacy.guarantee import Guarantee

NAME: Final = "measures"
EPSILON, DELTA = "1", "1e-6"
LIMIT: Final = 600.0  # seconds of a round of releases
ROUND: Final = 5
SIZES: Final = {"sex": 2, "education": 16}
BOUNDS: Final = {"age": (17, 90), "hours": (0, 100), "gain": (0, 100_000)}  # known without the data
CASES: Final = (("hours",), ("age", "hours", "gain"))
GUARANTEES: Final[dict[str, Guarantee]] = {"pure": pc.PureDP(EPSILON), "with delta": pc.ApproxDP(EPSILON, DELTA)}

_COLUMNS: Final = (
    *("age", "workclass", "weight", "education", "years", "marital", "occupation", "relationship", "race", "sex"),
    *("gain", "loss", "hours", "country", "salary"),
)


SYSTEMS: Final = (
    Peer(
        name="privcube",
        script="sums_privcube.py",
        setting="a table of counts and one of sums per measure, planned together",
        repetitions=100,
    ),
    Peer(
        name="split",
        script="sums_split.py",
        setting="no system: the budget split evenly between counts and sums, in numpy",
        repetitions=200,
    ),
    Peer(
        name="OpenDP",
        script="sums_opendp.py",
        versions=("opendp[polars]==0.16.0",),
        setting="`len` and `sum` in one `group_by`, calibrated by the library",
        repetitions=10,
    ),
    Peer(
        name="PipelineDP",
        script="sums_pipelinedp.py",
        versions=("pipeline-dp==0.3.1",),
        setting="`COUNT`, `SUM` and `MEAN` per measure, public partitions",
        repetitions=30,
    ),
    Peer(
        name="SmartNoise SQL",
        script="sums_smartnoise.py",
        versions=("smartnoise-sql==1.0.10",),
        setting="`COUNT` and `SUM` in one `GROUP BY`",
        repetitions=20,
    ),
    Peer(
        name="Tumult Analytics",
        script="sums_tumult.py",
        versions=("tmlt.analytics==0.21.0", "pyspark==3.5.9"),
        setting="`count` and `sum` over a set of keys, on a local Spark",
        repetitions=4,
    ),
)


def run(folder: Path, quick: bool) -> None:
    """Write the file."""
    records, source = people()
    if quick:
        pythons = {each.name: (Path(), Outcome(NOT_INSTALLED, "in quick mode nothing is")) for each in SYSTEMS}
    else:
        found = installed({f"sums {each.name}": each.versions for each in SYSTEMS if each.versions})
        pythons = {name.removeprefix("sums "): python for name, python in found.items()}
    pythons |= {each.name: (Path(sys.executable), Outcome(OK)) for each in SYSTEMS if not each.versions}
    cases = CASES[:1] if quick else CASES
    write_rows(
        folder / "measures.csv", [row for case in cases for row in _of_case(records, source, case, pythons, quick)]
    )


def people() -> tuple[pd.DataFrame, str]:
    """Numbered sex and education, and the three measures, of UCI's file or made up."""
    folder = os.environ.get("PRIVCUBE_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(folder) / "adult.data"
    if path.exists():
        raw = pd.read_csv(path, header=None, names=list(_COLUMNS), skipinitialspace=True)
        codes = {name: pd.factorize(raw[name], sort=True)[0] for name in SIZES}
        return pd.DataFrame({**codes, **{name: raw[name] for name in BOUNDS}}), FROM_FILE
    pick = np.random.default_rng(1994)
    rows = 32_561
    made = {
        "sex": pick.choice(2, rows, p=[1 / 3, 2 / 3]),
        "education": pick.choice(16, rows, p=pick.dirichlet(np.full(16, 0.6))),
        "age": np.clip(pick.gamma(8.0, 4.8, rows), 17, 90).astype(np.int64),
        "hours": np.clip(pick.normal(40, 12, rows), 1, 99).astype(np.int64),
        "gain": np.where(pick.random(rows) < 0.08, pick.gamma(0.8, 16_000, rows), 0).clip(0, 99_999).astype(np.int64),
    }
    return pd.DataFrame(made), STAND_IN


def _of_case(
    records: pd.DataFrame, source: str, case: Sequence[str], pythons: Mapping[str, tuple[Path, Outcome]], quick: bool
) -> Iterator[Row]:
    """All systems on some measures, with both guarantees."""
    groups = records.groupby(list(SIZES))
    every = pd.MultiIndex.from_product([range(size) for size in SIZES.values()], names=list(SIZES))
    counts = groups.size().reindex(every, fill_value=0).to_numpy(dtype=float)
    sums = {name: groups[name].sum().reindex(every, fill_value=0).to_numpy(dtype=float) for name in case}
    with tempfile.TemporaryDirectory(prefix="privcube-sums-") as folder:
        path = Path(folder) / "records.csv"
        records[[*SIZES, *case]].to_csv(path, index=False)
        for kind, guarantee in GUARANTEES.items():
            for system in SYSTEMS:
                python, outcome = pythons[system.name]
                if outcome.status == OK:
                    job = {
                        "data": source,
                        "records": str(path),
                        "columns": [*SIZES, *case],
                        "sizes": SIZES,
                        "measures": {name: BOUNDS[name] for name in case},
                        "epsilon": float(EPSILON),
                        "delta": float(DELTA) if isinstance(guarantee, pc.ApproxDP) else None,
                        "rho": float(guarantee.rho) if isinstance(guarantee, pc.ApproxDP) else None,
                        "repetitions": 1 if quick else system.repetitions,
                    } | ({"strategy": "marginals"} if quick else {})  # no search
                    kept = home() / "runs" / "sums" / f"{'-'.join([*case, kind, system.name])}.json".replace(" ", "-")
                    outcome = _outcome(python, system, job, None if quick or not system.versions else kept)
                click.echo(f"  {', '.join(case)}, {kind}, {system.name}: {outcome.status} {outcome.reason}", err=True)
                for at, name in enumerate(case, start=1):
                    yield {
                        "data": source,
                        "measures": ", ".join(case),
                        "measure": name,
                        "guarantee": kind,
                        "epsilon": EPSILON,
                        "delta": DELTA if kind != "pure" else "",
                        "system": system.name,
                        "versions": " ".join(system.versions),
                        "status": outcome.status,
                        "reason": outcome.reason,
                        "releases": len(outcome.releases),
                        **errors(counts, sums[name], BOUNDS[name], [(each[0], each[at]) for each in outcome.releases]),
                        "processor seconds": outcome.processor if outcome.status == OK else "",
                    }


def _outcome(python: Path, system: Peer, job: dict[str, object], kept: Path | None) -> Outcome:
    """What a system did, a few releases at a time; what it did in runs before counts, if the same was asked of it.

    That includes whether the records are those of the file.
    """
    wanted = int(str(job["repetitions"]))
    asked = json.loads(json.dumps({"versions": system.versions, **job, "records": "", "repetitions": ""}))
    made: list[Outcome] = []
    if kept is not None and kept.exists():
        before = json.loads(kept.read_text(encoding="utf-8"))
        made = [Outcome(**each) for each in before["outcomes"]] if before["asked"] == asked else []
    while (done := sum(len(each.releases) for each in made)) < wanted and all(each.status == OK for each in made):
        part = {**job, "repetitions": wanted if kept is None else min(ROUND, wanted - done)}
        made.append(run_script(python, SCRIPTS / system.script, part, LIMIT))
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps({"asked": asked, "outcomes": [*map(asdict, made)]}), encoding="utf-8")
    return together(made)


def errors(
    counts: np.ndarray,
    sums: np.ndarray,
    bounds: tuple[float, float],
    releases: Sequence[tuple[Sequence[float], Sequence[float]]],
) -> dict[str, object]:
    """Root mean square errors over groups and releases; of means, only over groups that have records.

    A mean is the middle of the bounds plus the ratio of the sum around it and the count, or 1 if that is less.

    Medians of the absolute errors of means say how a typical group does, as the smallest ones decide the square.
    """
    columns = ("rms error of a count", "rms error of a sum", "rms error of a mean", "median error of a mean")
    if not releases:
        return dict.fromkeys(columns, "")
    noisy_counts, noisy_sums = (np.array([each[at] for each in releases]) for at in (0, 1))
    there, middle = counts > 0, sum(bounds) / 2
    means = np.clip(middle + (noisy_sums - middle * noisy_counts) / np.maximum(noisy_counts, 1), *bounds)
    wrong = (means - np.divide(sums, counts, out=np.zeros_like(sums), where=there))[:, there]
    found = (
        *(float(np.sqrt(np.mean((noisy - true) ** 2))) for noisy, true in ((noisy_counts, counts), (noisy_sums, sums))),
        float(np.sqrt(np.mean(wrong**2))),
        float(np.median(np.abs(wrong))),
    )
    return dict(zip(columns, found, strict=True))


def section(folder: Path) -> str:
    """Sums and means in words and a table for each guarantee, for the page."""
    rows = read_rows(folder / "measures.csv")
    cases = list(dict.fromkeys(row["measures"] for row in rows))
    lines = [
        "## Sums and means",
        "Counts, sums and means of Adult by sex and education, 32 groups. Age is taken to be from 17 to 90, hours per "
        "week from 0 to 100, capital gain from 0 to 100,000: the same bounds for all systems, as well as the guarantee "
        "and the neighbors. Every system publishes the counts and the sums of all measures named, with one budget, in "
        "the best way that it documents; a mean is the ratio of both, with a count of at least 1 and sums taken around "
        "the middle of the bounds. *Even split* is no system: counts and sums with an equal part of the budget each.",
    ]
    if rows and rows[0]["data"] == STAND_IN:
        lines.append("**The records of Adult were not at hand: the figures are for made-up ones.**")
    for kind in GUARANTEES:
        amount = f"epsilon = {EPSILON}" + ("" if kind == "pure" else f", delta = {DELTA}")
        names = [(case, measure) for case in cases for measure in case.split(", ")]
        heads = [f"{measure}{', alone' if case == measure else ''}: sum, mean" for case, measure in names]
        table = [f"| {amount} | " + " | ".join(heads) + " |", "|---" * (len(names) + 1) + "|"]
        for system in SYSTEMS:
            cells = []
            for case, measure in names:
                (row,) = chosen(rows, measures=case, measure=measure, guarantee=kind, system=system.name) or [{}]
                ok = row.get("status") == OK
                columns = ("rms error of a sum", "rms error of a mean")
                cells.append(
                    ", ".join(short(float(row[column])) for column in columns) if ok else row.get("status", "")
                )
            table.append(f"| {_SHOWN.get(system.name, system.name)} | " + " | ".join(cells) + " |")
        lines.append("\n".join(table))
    lines.append(_verdict(rows) + _limit(rows))
    made: dict[str, list[int]] = {}
    for row in rows:
        if row["status"] == OK:
            made.setdefault(row["system"], []).append(int(row["releases"]))
    counts = {name: f"{min(own)}" + (f" to {max(own)}" if len(set(own)) > 1 else "") for name, own in made.items()}
    lines.append(
        f"Releases: {', '.join(f'{_SHOWN.get(name, name)} {count}' for name, count in counts.items())}. "
        "Root mean square errors over groups and releases; means are moved into the bounds. The smallest groups, of "
        "some ten people, decide the error of means. "
        + " ".join(f"{each.name}: {each.setting}." for each in SYSTEMS[2:])
        + " A system that fails with a delta could publish the pure release instead."
        + " Numbers: [measures.csv](measures.csv)."
    )
    return "\n\n".join(lines)


_SHOWN: Final = {"privcube": "**privcube**", "split": "even split"}


def _limit(rows: Sequence[dict[str, str]]) -> str:
    """What sums and means of hours can hardly be better than, if that is more than half the error of the others."""
    alone = math.sqrt(2) * max(map(abs, BOUNDS["hours"])) / float(EPSILON)
    pure = [row for row in chosen(rows, measures="hours", guarantee="pure") if row["status"] == OK]
    best = min([float(row["rms error of a sum"]) for row in pure if row["system"] not in _SHOWN], default=math.inf)
    if best / 2 >= alone:
        return ""
    return (
        f" Laplace noise with the whole of epsilon = {EPSILON} on the sums of hours, and no counts, has an error of "
        f"{short(alone)}: beside counts and with one measure alone, half of {short(best)} is out of reach. A mean near "
        "the middle of its bounds is off by the sum around the middle over the count. That sum has an error of "
        f"{short(alone / 2)} if nothing else is published, and of {short(alone)} in a system that gives it half of the "
        "budget: half of the error of such a mean would leave nothing for counts."
    )


def _verdict(rows: Sequence[dict[str, str]]) -> str:
    """How far the best other system is from privcube, per guarantee; the pure releases are valid with a delta, too."""
    said = []
    for kind in GUARANTEES:
        for column, word in (("rms error of a sum", "sums"), ("rms error of a mean", "means")):
            ratios = []
            for case, measure in dict.fromkeys((row["measures"], row["measure"]) for row in rows):
                of_case = [row for row in chosen(rows, measures=case, measure=measure) if row["status"] == OK]
                known = [row for row in of_case if row["guarantee"] in ("pure", kind)]
                ours = [float(row[column]) for row in known if row["system"] == "privcube" and row["guarantee"] == kind]
                others = [float(row[column]) for row in known if row["system"] not in ("privcube", "split")]
                if ours and others:
                    ratios.append(min(others) / ours[0])
            if ratios:
                said.append(f"{word} {short(min(ratios))} to {short(max(ratios))} times ({kind})")
    return "The best other system has errors of " + "; ".join(said) + " those of privcube." if said else ""
