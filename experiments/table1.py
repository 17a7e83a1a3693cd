"""Table 1 of the paper with its constants: exact errors of all k-way tables of d binary attributes against the bounds.

Table 1 bounds the expected L1 error of one k-way table up to a constant. For growing d and k, per strategy and for both
kinds of guarantee at epsilon 1: the error by the plan's variances (2^k standard errors, Jensen), the formula inside the
O as printed, the constant between them, and the bound with the constants of its proof. Writes table1.csv, table1.svg.
"""

from __future__ import annotations

from math import comb, log, sqrt
from pathlib import Path
from typing import Any, Final

import privcube as pc
from experiments import plots
from experiments.bounds import BoundedStrategy, expected_error_bound
from experiments.results import Row, chosen, read_rows, write_rows
from experiments.simulate import AUTO, F_PLUS, RESIDUAL, Choice, F, I, Q, planned
from privcube.model.privacy.guarantee import Guarantee

NAME: Final = "table1"
DELTA: Final = 1e-6
_BOUNDED: Final[tuple[tuple[Choice, BoundedStrategy], ...]] = (
    (I, "base_counts"),
    (Q, "marginals"),
    (F, "fourier_uniform"),
    (F_PLUS, "fourier"),
)


def run(folder: Path, quick: bool) -> None:
    """Write the files."""
    attributes = (4, 8) if quick else (4, 6, 8, 10, 12, 14, 16, 20, 24)
    ways = (1, 2) if quick else (1, 2, 3, 4)
    rows = [row for d in attributes for k in ways if k < d / 2 for row in errors(d, k)]
    write_rows(folder / "table1.csv", rows)
    plots.save(_figure(read_rows(folder / "table1.csv")), folder, "table1")


def errors(d: int, k: int) -> list[Row]:
    """The rows of Table 1 for one d and k, and our plans beside them."""
    workload = pc.Workload.all_kway(pc.Schema.from_sizes({f"a{number}": 2 for number in range(d)}), k)
    pure, approximate = pc.PureDP(1), pc.ApproxDP(1, "1e-6", calibration="classic")
    guarantees: tuple[tuple[str, Guarantee, float | None, Choice], ...] = (
        ("pure", pure, None, AUTO),
        ("(epsilon, delta)", approximate, DELTA, RESIDUAL),
    )
    rows: list[Row] = []
    for guarantee_name, guarantee, delta, ours in guarantees:
        for choice, strategy in _BOUNDED:
            exact = _error_of_a_table(workload, guarantee, choice, k)
            inside = formula(strategy, d, k, delta)
            most = expected_error_bound(strategy, d, k, 1.0, delta)
            rows.append(
                {"guarantee": guarantee_name, "strategy": choice.symbol, "d": d, "k": k, "error": exact}
                | {"formula": inside, "constant": exact / inside, "bound": most, "bound over error": most / exact}
            )
        if comb(d, k) <= 600:  # a search over more tables takes longer than all the rest
            exact, least = _error_of_a_table(workload, guarantee, ours, k), sqrt(comb(d, k))
            rows.append(
                {"guarantee": guarantee_name, "strategy": ours.symbol, "d": d, "k": k, "error": exact}
                | {"formula": least, "constant": exact / least, "bound": "", "bound over error": ""}
            )
    return rows


def _error_of_a_table(workload: pc.Workload, guarantee: Guarantee, choice: Choice, k: int) -> float:
    """2^k standard errors; the root of the mean variance, which is the same for all tables but in searched plans."""
    return float(2.0**k * sqrt(planned(workload, guarantee, choice).mean_cell_variance))


def formula(strategy: BoundedStrategy, d: int, k: int, delta: float | None) -> float:
    """What Table 1 has inside its O, at epsilon 1."""
    tables, more = comb(d, k), comb(d + k, k)
    found: dict[str, float]
    if delta is None:
        found = {
            "base_counts": 2.0 ** ((d + k) / 2),
            "marginals": 2.0**k * tables,
            "fourier_uniform": k * tables * sqrt(2.0**k),
            "fourier": k * sqrt(tables * more),
        }
        return found[strategy]
    found = {
        "base_counts": 2.0 ** ((d + k) / 2),
        "marginals": 2.0**k * sqrt(tables),
        "fourier_uniform": sqrt(k * 2.0**k * tables),
        "fourier": sqrt(k * more),
    }
    return sqrt(log(1 / delta)) * found[strategy]


def _figure(rows: list[dict[str, str]]) -> Any:
    """Above the errors with their bounds, pure, per k; below the constants."""
    pure = chosen(rows, guarantee="pure")
    ways = list(dict.fromkeys(row["k"] for row in pure))
    made, axes = plots.panels(2, len(ways))
    for column, k in enumerate(ways):
        for symbol in ("I", "Q", "F", "F+", "auto"):
            line = chosen(pure, strategy=symbol, k=k)
            d = [int(row["d"]) for row in line]
            look = plots.style(symbol)
            axes[0, column].plot(d, [float(row["error"]) for row in line], **look)
            if symbol != "auto":
                bounds = [float(row["bound"]) for row in line]
                axes[0, column].plot(d, bounds, color=look["color"], linewidth=0.9, linestyle=":")
                axes[1, column].plot(d, [float(row["constant"]) for row in line], **look)
        axes[0, column].set_title(f"all {k}-way tables", fontsize=9)
        axes[1, column].set_xlabel("number of binary attributes d")
    axes[0, 0].set_yscale("log")
    axes[0, 0].set_ylabel("L1 error of a table (records)")
    axes[1, 0].set_ylabel("error / formula of Table 1")
    axes[1, 0].set_ylim(bottom=0)
    key = "above: errors (dotted: their bounds; for I and Q the same), below: measured constants"
    made.suptitle(f"Table 1 of the paper, pure guarantee, ε = 1\n{key}", fontsize=10)
    plots.legend_below(made, axes[0, 0], 5)
    return made
