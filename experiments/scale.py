"""The page "How large can it get?" and its figure, from the CSV files of the study `scaling`, down to every number."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.ticker import LogLocator

from experiments import plots
from experiments.results import chosen, number, read_rows
from experiments.scaling import RUN
from experiments.stages import STAGES
from privcube.sensitive.counting import CODES_IN_MEMORY

Rows = Sequence[dict[str, str]]

CLUSTERS: Final = (16, 100, 1000)  # cores
LAPTOP: Final = 16  # GB
_ROWS: Final = tuple(10**power for power in range(6, 13))
_SECONDS: Final = ((86400.0, "days"), (3600.0, "h"), (60.0, "min"))


def parts(folder: Path, quick: bool) -> list[str]:
    """The page, part by part; nothing if the study was not run."""
    rows, engines, exponents = _files(folder)
    if not rows:
        return []
    return [
        "# How large can it get?",
        f"This page is written by `make experiments` from the files in [results](results:), down to every number; what "
        f"was done is in `python -m experiments scaling --help`. Measured on {rows[0]['cores']} cores."
        + (" **It was made by a quick run: tiny sizes.**" if quick else ""),
        _short_version(rows),
        _where(engines),
        _arithmetic(engines),
        "![Time and memory by rows and tables](results:scaling.svg)",
        _rows_table(rows),
        _tables_table(rows),
        _exponent_table(exponents),
        "Numbers: [scaling.csv](results:scaling.csv), [scaling-engines.csv](results:scaling-engines.csv), "
        "[scaling-exponents.csv](results:scaling-exponents.csv).",
    ]


def in_short(folder: Path) -> str:
    """The section of the page on accuracy."""
    rows, _, _ = _files(folder)
    body = _short_version(rows).partition("\n\n")[2]
    return f"{body}\n\nWhat runs on a laptop, on Spark and on a cluster: [How large can it get?](../guide/scale.md)"


def _files(folder: Path) -> tuple[Rows, Rows, Rows]:
    first, second, third = (read_rows(folder / f"scaling{end}.csv") for end in ("", "-engines", "-exponents"))
    return first, second, third


def _short_version(rows: Rows) -> str:
    streamed = chosen(rows, sweep="rows")
    small, large = streamed[0], streamed[-1]
    whole = max((row for row in rows if row["noise seconds"]), key=lambda row: int(row["tables"]))
    widest = max(rows, key=lambda row: int(row["cells"]))
    slowest = max(STAGES, key=lambda stage: float(whole[f"{stage} seconds"]))
    return "\n".join(
        [
            "## In short",
            "",
            f"- **Rows cost time, and little memory.** {_many(large['rows'])} rows, {large['tables']} tables of up to "
            f"three of {large['attributes']} attributes: counted in {_time(float(large['count seconds']))}, as a "
            f"stream, within {float(large['count GB']):.2g} GB ({_many(small['rows'])} rows: "
            f"{float(small['count GB']):.2g} GB). They are counted whenever {CODES_IN_MEMORY >> 20} MiB of them are "
            "there. All other stages know nothing of rows.",
            f"- **Tables cost time.** A whole release of {_many(whole['tables'])} tables, {_many(whole['cells'])} "
            f"counts ({whole['attributes']} attributes of {whole['size']} values, {whole['guarantee']}), takes "
            f"{_time(float(whole['total seconds']))} and {_most(whole):.2g} GB; the longest stage is {slowest}, "
            f"{_time(float(whole[f'{slowest} seconds']))}.",
            f"- **Counts cost memory.** {_many(widest['cells'])} of them, {_many(widest['tables'])} tables of "
            f"{widest['attributes']} attributes of {widest['size']} values, are planned in "
            f"{_time(float(widest['plan seconds']))}, counted in {_time(float(widest['count seconds']))} and recovered "
            f"in {_time(float(widest['recover seconds']))}, within {_most(widest):.2g} GB"
            + (
                f". Their noise was not drawn: by arithmetic it takes {_time(_open_noise(rows)[0])} and "
                f"{_open_noise(rows)[1]:.2g} GB."
                if not widest["noise seconds"]
                else "."
            ),
        ]
    )


# What runs where


def rate(engines: Rows, engine: str) -> tuple[float, float] | None:
    """What an engine takes on the measured cores: fixed seconds, and seconds per row beyond; None if not measured."""
    own = chosen(engines, engine=engine, status=RUN)
    return _straight(own[0], own[-1], "rows", "seconds") if own else None


def _straight(small: dict[str, str], large: dict[str, str], size: str, seconds: str) -> tuple[float, float]:
    """The straight line through two cases; where the larger is not slower, a fixed part is not to be told."""
    (first, t_first), (last, t_last) = ((int(row[size]), float(row[seconds])) for row in (small, large))
    if t_last <= t_first:
        return 0.0, t_last / last
    slope = (t_last - t_first) / (last - first)
    return max(0.0, t_first - slope * first), slope


def cluster_seconds(fixed: float, per_row: float, measured_cores: int, rows: int, cores: int) -> float:
    """By arithmetic: the fixed part stays, the rest is shared by all cores."""
    return fixed + rows * per_row * measured_cores / cores


def _where(engines: Rows) -> str:
    cores = int(engines[0]["cores"])
    local, spark = rate(engines, "local"), rate(engines, "Spark")
    assert local is not None
    per_row = _bytes_per_row(engines)
    body = []
    for rows in _ROWS:
        cells = [_cell(engines, "local", rows, cluster_seconds(*local, cores, rows, cores))]
        for size in (cores, *CLUSTERS):
            if spark is None:
                cells.append("not measured")
            else:
                seconds = cluster_seconds(*spark, cores, rows, size)
                cells.append(_cell(engines, "Spark" if size == cores else "", rows, seconds))
        body.append(f"| {_many(rows)} | {_storage(rows * per_row)} | {' | '.join(cells)} |")
    case = engines[0]
    why = next((row["status"] for row in engines if row["engine"] == "Spark" and row["status"] != RUN), "")
    return "\n".join(
        [
            "## What runs where",
            "",
            f"Time to count {case['tables']} tables of three of {case['attributes']} attributes of {case['size']} "
            "values, from Parquet files. **Bold** is measured, the rest is arithmetic (below)."
            + (f" Spark was {why}." if why else ""),
            "",
            f"| rows | Parquet | laptop, {cores} cores | Spark, {cores} cores | "
            + " | ".join(f"cluster, {size:,} cores" for size in CLUSTERS)
            + " |",
            "|---|" + "---|" * (3 + len(CLUSTERS)),
            *body,
        ]
    )


def _cell(engines: Rows, engine: str, rows: int, seconds: float) -> str:
    """What was measured, else what was worked out."""
    own = [row for row in chosen(engines, engine=engine, status=RUN) if int(row["rows"]) == rows]
    return f"**{_time(float(own[0]['seconds']))}**" if own else _time(seconds)


def _arithmetic(engines: Rows) -> str:
    cores, per_row = int(engines[0]["cores"]), _bytes_per_row(engines)
    lines = ["The arithmetic, from the smallest and the largest file measured:", ""]
    for engine in ("local", "Spark"):
        found = rate(engines, engine)
        if found is None:
            continue
        fixed, slope = found
        own = chosen(engines, engine=engine, status=RUN)
        each = 1 / (slope * cores)
        lines.append(
            f"- {engine}: {_many(own[0]['rows'])} rows in {float(own[0]['seconds']):.2f} s, {_many(own[-1]['rows'])} "
            f"in {float(own[-1]['seconds']):.2f} s. So {fixed:.2g} s whatever the rows, and then {_rounded(each)} rows "
            f"per second and core: seconds = {fixed:.2g} + rows / ({_rounded(each)} * cores)."
        )
        if engine == "Spark":
            example = cluster_seconds(fixed, slope, cores, 10**10, 100)
            lines.append(
                f"- 100 cores, {_many(10**10)} rows: {fixed:.2g} + {_many(10**10)} / ({_rounded(each)} * 100) = "
                f"{_time(example)}. It takes for granted that cores are as fast as these, that storage delivers "
                f"{each * per_row / 1e6:.2g} MB per second and core, and that a cluster starts its tasks as fast as "
                "one machine. It was not run on a cluster."
            )
            local = rate(engines, "local")
            assert local is not None
            lines.append(f"- Spark needs {slope / local[1] * cores:.0f} cores to be as fast as the laptop.")
    lines.append(
        "- Memory does not grow with the rows. Every core of a cluster holds all counts, 8 bytes each "
        "([Spark](../guide/spark.md))."
    )
    return "\n".join(lines)


def _bytes_per_row(engines: Rows) -> float:
    return int(engines[-1]["bytes"]) / int(engines[-1]["rows"])


# Tables of what was measured


def _rows_table(rows: Rows) -> str:
    own = chosen(rows, sweep="rows")
    return "\n".join(
        [
            "## Rows",
            "",
            f"{own[0]['tables']} tables, {_many(own[0]['cells'])} counts: all of up to three of {own[0]['attributes']} "
            f"attributes of {own[0]['size']} values, a whole release; rows are made up while they are counted, which "
            "is part of the time.",
            "",
            "| rows | count | of it, making rows | rows per second | memory | plan | noise | recover |",
            "|---|---|---|---|---|---|---|---|",
            *[
                f"| {_many(row['rows'])} | {_time(float(row['count seconds']))} "
                f"| {_time(float(row['of count, making rows']))} "
                f"| {_rounded(int(row['rows']) / float(row['count seconds']))} | {float(row['count GB']):.2g} GB | "
                + " | ".join(_time(float(row[f"{stage} seconds"])) for stage in ("plan", "noise", "recover"))
                + " |"
                for row in own
            ],
        ]
    )


def _tables_table(rows: Rows) -> str:
    own = chosen(rows, sweep="attributes")
    body = []
    for row in own:
        cells = [
            f"{_time(float(row[f'{stage} seconds']))}, {float(row[f'{stage} GB']):.2g} GB"
            if row[f"{stage} seconds"]
            else f"about {_time(_open_noise(rows)[0])}, {_open_noise(rows)[1]:.2g} GB, by arithmetic"
            for stage in STAGES
        ]
        body.append(
            f"| {row['guarantee']} | {row['attributes']} of {row['size']} values | {_many(row['tables'])} "
            f"| {_many(row['cells'])} | {' | '.join(cells)} |"
        )
    widest = max(own, key=lambda row: int(row["cells"]))
    gigabytes = _most(widest) if widest["noise seconds"] else max(_most(widest), _open_noise(rows)[1])
    per_cell = gigabytes * 1e9 / int(widest["cells"])
    return "\n".join(
        [
            "## Attributes and tables",
            "",
            f"All tables of up to three attributes of {_many(own[0]['rows'])} rows, strategy auto: seconds, and the "
            "most memory of the process meanwhile. *noise* is what the gate does: it checks the plan, works out the "
            "answers and draws.",
            "",
            f"| guarantee | attributes | tables | counts | {' | '.join(STAGES)} |",
            "|---|---|---|---|" + "---|" * len(STAGES),
            *body,
            "",
            *([_open_noise(rows)[2], ""] if not widest["noise seconds"] else []),
            f"The largest case needs {gigabytes:.2g} GB for {_many(widest['cells'])} counts: {per_cell:.0f} bytes "
            f"each. A laptop with {LAPTOP} GB holds {LAPTOP} GB / {per_cell:.0f} bytes = "
            f"{_rounded(LAPTOP * 1e9 / per_cell)} counts; the rows do not matter.",
        ]
    )


def _open_noise(rows: Rows) -> tuple[float, float, str]:
    """The seconds and GB of the noise that was not drawn, by arithmetic, and the arithmetic in words."""
    (case,) = (row for row in rows if not row["noise seconds"])
    alike = chosen(rows, **{name: case[name] for name in ("sweep", "guarantee", "size")})
    small, large = [row for row in alike if row["noise seconds"]][-2:]
    (fixed, each), (least, more) = (_straight(small, large, "answers", f"noise {unit}") for unit in ("seconds", "GB"))
    count = int(case["answers"])
    seconds, gigabytes = fixed + each * count, least + more * count
    return (
        seconds,
        gigabytes,
        f"The noise of {_many(case['tables'])} tables of {case['size']} values was left out, as it takes longest; "
        "they were recovered from answers that are made up. "
        f"{_many(small['answers'])} answers take {float(small['noise seconds']):.1f} s, {_many(large['answers'])} take "
        f"{float(large['noise seconds']):.1f} s. So {fixed:.2g} s, and {1e6 * each:.2g} millionths of a second for "
        f"every answer: {_many(count)} of them take {_time(seconds)}. In the same way, {least:.2g} GB and "
        f"{1e9 * more:.0f} bytes for every answer are {gigabytes:.2g} GB.",
    )


def _exponent_table(exponents: Rows) -> str:
    body = []
    for sweep, guarantee, size in dict.fromkeys((row["sweep"], row["guarantee"], row["size"]) for row in exponents):
        own = chosen(exponents, sweep=sweep, guarantee=guarantee, size=size)
        cells = [
            f"{number(own, 'exponent', measure=f'{stage} seconds'):.2f} "
            f"({number(own, 'last exponent', measure=f'{stage} seconds'):.2f})"
            for stage in STAGES
        ]
        memory = max(number(own, "exponent", measure=f"{stage} GB") for stage in STAGES)
        body.append(f"| {own[0]['against']}, {size} values, {guarantee} | {' | '.join(cells)} | {memory:.2f} |")
    return "\n".join(
        [
            "## How it grows",
            "",
            "Exponents p of time = constant * size^p, by least squares of logarithms over all sizes; in brackets "
            "between the two largest, where fixed costs weigh least. 1 is linear, 0 is constant. Under the pure "
            "guarantee planning is a search, whose length its effort sets: its exponents say little.",
            "",
            f"| against | {' | '.join(STAGES)} | memory, most of all stages |",
            "|---|" + "---|" * (len(STAGES) + 1),
            *body,
        ]
    )


def _most(row: dict[str, str]) -> float:
    return max(float(row[f"{stage} GB"]) for stage in STAGES if row[f"{stage} GB"])


def _time(seconds: float) -> str:
    for unit, name in _SECONDS:
        if seconds >= 2 * unit:
            return f"{_rounded(seconds / unit)} {name}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def _storage(size: float) -> str:
    unit, name = next((pair for pair in ((1e12, "TB"), (1e9, "GB")) if size >= pair[0]), (1e6, "MB"))
    return f"{_rounded(size / unit)} {name}"


def _rounded(value: float) -> str:
    """Two digits."""
    return f"{float(f'{value:.2g}'):,g}" if value < 1e6 else f"{float(f'{value:.2g}') / 1e6:,g} million"


def _many(count: str | int) -> str:
    return f"{int(count):,}"


# Figure


def figure(rows: Rows, engines: Rows) -> Any:
    """Counting over rows, stages over tables for either size, memory over counts."""
    made, axes = plots.panels(2, 2, shared=False, width=4.2)
    over_rows, small, large, memory = axes.flat
    streamed = chosen(rows, sweep="rows")
    lines = [("local, streamed", streamed, "count seconds", "k-")]
    for engine, look in (("local", "C0--"), ("Spark", "C1--")):
        lines.append((f"{engine}, Parquet", chosen(engines, engine=engine, status=RUN), "seconds", look))
    for label, own, column, look in lines:
        if own:
            over_rows.plot(*_points(own, "rows", column), look, marker="o", label=label)
    over_rows.set(xlabel="rows", ylabel="seconds to count")
    over_rows.set_title(f"counting all tables of three of {streamed[0]['attributes']} attributes", fontsize=9)
    sizes = list(dict.fromkeys(row["size"] for row in chosen(rows, sweep="attributes", guarantee="(ε, δ)")))
    for panel, size in zip((small, large), sizes, strict=True):
        own = chosen(rows, sweep="attributes", guarantee="(ε, δ)", size=size)
        for stage, color in zip(STAGES, ("C7", "C0", "C3", "C2"), strict=True):
            drawn = [row for row in own if row[f"{stage} seconds"]]
            panel.plot(*_points(drawn, "tables", f"{stage} seconds"), color=color, marker="o", label=stage)
        panel.set(xlabel="tables of up to three attributes", ylabel="seconds")
        panel.set_title(f"attributes of {size} values, (ε, δ)", fontsize=9)
    for size, color in zip(sizes, ("C4", "C5"), strict=True):
        own = chosen(rows, sweep="attributes", guarantee="(ε, δ)", size=size)
        most = [_most(row) for row in own]
        memory.plot([int(row["cells"]) for row in own], most, color=color, marker="o", label=f"{size} values")
    memory.plot([int(row["cells"]) for row in streamed], [_most(row) for row in streamed], "kx", label="rows growing")
    memory.set(xlabel="counts of all tables", ylabel="GB at most")
    memory.set_title("memory of the process", fontsize=9)
    for panel in axes.flat:
        panel.set(xscale="log", yscale="log")
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_minor_formatter("")  # numbers at powers of ten only
        panel.yaxis.set_major_formatter("{x:g}")
        if panel in (over_rows, memory):
            panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.legend(frameon=False, fontsize=8)
    made.suptitle(f"Time and memory, {rows[0]['cores']} cores", fontsize=10)
    return made


def _points(rows: Rows, x: str, y: str) -> tuple[list[float], list[float]]:
    return [float(row[x]) for row in rows], [float(row[y]) for row in rows]
