"""Accuracy under (epsilon, delta): the figures that the paper omits, with Gaussian noise and delta one in a million.

The paper's strategies with the Gaussian budgets of its appendix, and "residual", the optimum for Gaussian noise, on the
same data and workloads as `accuracy`. Noise is accounted for through zCDP; the paper's classic constant gives the same
plans with noise of another size, shown beside it, and so is "auto" under the pure guarantee. Writes gaussian.csv,
calibration.csv, gaussian-adult.svg, gaussian-nltcs.svg, calibration.svg.
"""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from typing import Any, Final

import privcube as pc
from experiments import accuracy, plots
from experiments.data import DATASETS, WORKLOADS, dataset
from experiments.results import Row, chosen, read_rows, write_rows
from experiments.simulate import PAPER, RESIDUAL, unit_variance

NAME: Final = "gaussian"
DELTA: Final = "1e-6"
EPSILONS: Final = ("0.01", "0.1", "1", "10")
TABLES: Final = (1, 3, 10, 30, 100, 300, 1000)


def run(folder: Path, quick: bool) -> None:
    """Write the files."""
    epsilons = ("0.1", "1") if quick else EPSILONS
    names = ("Q1",) if quick else WORKLOADS
    guarantees = [pc.ApproxDP(epsilon, DELTA) for epsilon in epsilons]
    choices = (*PAPER, RESIDUAL)
    rows = accuracy.simulated(
        names, choices, guarantees, "fast", repetitions=2 if quick else 3, workers=1 if quick else 2
    )
    write_rows(folder / "gaussian.csv", rows)
    write_rows(folder / "calibration.csv", calibration(epsilons))
    written = read_rows(folder / "gaussian.csv")
    for data in map(dataset, DATASETS):
        title = f"{data.title}: error of released tables under (ε, δ)-differential privacy, δ = {DELTA}"
        made = accuracy.figure(chosen(written, dataset=data.name), title)
        plots.save(made, folder, f"gaussian-{data.name.lower()}")
    plots.save(_figure(read_rows(folder / "calibration.csv")), folder, "calibration")


def calibration(epsilons: tuple[str, ...]) -> list[Row]:
    """The standard deviation of the noise on each of some tables with equal budgets, for three guarantees.

    A record is in one cell of every table: noise of the pure guarantee grows with the number of tables, Gaussian noise
    with its root.
    """
    rows: list[Row] = []
    for epsilon in epsilons:
        pure = sqrt(unit_variance(pc.PureDP(epsilon)))
        zcdp, classic = (
            sqrt(unit_variance(pc.ApproxDP(epsilon, DELTA, calibration=how))) for how in ("zcdp", "classic")
        )
        for tables in TABLES:
            rows.append(
                {"epsilon": epsilon, "delta": DELTA, "tables": tables, "pure": pure * tables}
                | {"zcdp": zcdp * sqrt(tables), "classic": classic * sqrt(tables)}
                | {"classic over zcdp": classic / zcdp}
            )
    return rows


def _figure(rows: list[dict[str, str]]) -> Any:
    made, axes = plots.panels(1, 2, shared=False)
    left, right = axes[0]
    left.plot(
        [float(row["epsilon"]) for row in chosen(rows, tables="1")],
        [float(row["classic over zcdp"]) for row in chosen(rows, tables="1")],
        marker="o", color="#9467bd",
    )  # fmt: skip
    left.axhline(1, color="black", linewidth=0.6, linestyle=":")
    plots.epsilon_axis(left, [float(row["epsilon"]) for row in rows])
    left.set(xlabel="privacy budget ε", ylabel="classic / zCDP noise (standard deviation)")
    left.set_title("any number of tables", fontsize=9)
    own = chosen(rows, epsilon="1")
    for column, label, line in (
        ("pure", "pure (Laplace)", "k-"),
        ("classic", "(ε, δ), classic constant", "C4--"),
        ("zcdp", "(ε, δ), zCDP", "C3-"),
    ):
        right.plot([float(r["tables"]) for r in own], [float(r[column]) for r in own], line, marker=".", label=label)
    right.set(xscale="log", yscale="log", xlabel="number of tables", ylabel="standard deviation of a count (records)")
    right.set_title("ε = 1, equal budgets", fontsize=9)
    right.legend(frameon=False, fontsize=8)
    made.suptitle(f"Size of the noise, δ = {DELTA}", fontsize=10)
    return made
