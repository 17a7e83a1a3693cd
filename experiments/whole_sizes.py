"""Errors by the size of the true count: estimates, clipped estimates, whole numbers and, where it ran, mbi."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from experiments import plots
from experiments.results import Row, read_rows, write_rows

WAYS: Final = {"least_squares": "estimates", "clipped": "clipped at 0", "mbi": "mbi", "whole": "whole numbers"}
_LOOKS: Final = {"least_squares": "#7f7f7f", "clipped": "#ff7f0e", "mbi": "#1f77b4", "whole": "black"}
_SIZES: Final = ((0, 0), (1, 9), (10, 99), (100, 999), (1_000, 9_999), (10_000, 10**9))


def size_rows(case: str, true: NDArray[Any], found: Mapping[str, NDArray[Any]]) -> Iterator[Row]:
    """For every range of true counts, the mean absolute and the mean error of each way."""
    for low, high in _SIZES:
        inside = (true >= low) & (true <= high)
        if not inside.any():
            continue
        for way, counts in found.items():
            off = counts[inside] - true[inside]
            yield {
                "case": case,
                "true_count": str(low) if high == low else f"{low:,}+" if high == 10**9 else f"{low:,} to {high:,}",
                "cells": int(inside.sum()),
                "way": way,
                "mean_absolute": float(np.abs(off).mean()),
                "mean": float(off.mean()),
            }


def draw(folder: Path, rows: list[Row]) -> None:
    """Write whole-sizes.csv and its plot: mean absolute errors above, mean errors below, a column per case."""
    write_rows(folder / "whole-sizes.csv", rows)
    found = read_rows(folder / "whole-sizes.csv")
    cases = list(dict.fromkeys(row["case"] for row in found))
    made, axes = plots.panels(2, len(cases), shared=False, width=4.6)
    for across, case in enumerate(cases):
        own = [row for row in found if row["case"] == case]
        sizes = list(dict.fromkeys((row["true_count"], row["cells"]) for row in own))
        for down, column in enumerate(("mean_absolute", "mean")):
            panel = axes[down, across]
            for way in [way for way in WAYS if any(row["way"] == way for row in own)]:
                values = [float(row[column]) for row in own if row["way"] == way]
                panel.plot(values, "o-", color=_LOOKS[way], label=WAYS[way], linewidth=2 if way == "whole" else 1.3)
            panel.set_xticks(range(len(sizes)), [f"{size}\n({int(cells):,})" for size, cells in sizes], fontsize=7)
            if down == 0:
                panel.set_ylim(bottom=0)
                panel.set_title(case, fontsize=9)
            else:
                panel.axhline(0, color="#7f7f7f", linewidth=0.8)
                panel.set_xlabel("true count (cells)")
        axes[0, 0].set_ylabel("mean absolute error")
        axes[1, 0].set_ylabel("mean error")
    plots.legend_below(made, max(axes[0], key=lambda panel: len(panel.lines)), 4)
    plots.save(made, folder, "whole-sizes")
