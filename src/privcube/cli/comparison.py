"""Comparison of strategies by the predicted error of each table."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from privcube.cli.output import count_of, say, say_columns
from privcube.errors import PrivcubeError
from privcube.model.amounts import error_text
from privcube.model.measures.measure import scale_of
from privcube.model.options import PlanOptions
from privcube.model.privacy.guarantee import Guarantee
from privcube.model.workload import Workload, table_name
from privcube.planning.candidates import compared_as, every_strategy
from privcube.progress import Progress, silent


@dataclass(frozen=True)
class Compared:
    """A strategy's predicted standard errors of a cell, over all tables and per table, or why it cannot be used."""

    strategy: str
    options: dict[str, str]  # of `privcube plan`, which give this very plan
    std_error: float | None
    worst_table: str | None
    worst_std_error: float | None
    tables: dict[str, float]
    refused: str | None


def compared(
    workload: Workload, guarantee: Guarantee, options: PlanOptions, progress: Progress = silent
) -> list[dict[str, Any]]:
    """All strategies by increasing weighted error; those that cannot be used come last.

    As with "auto", budgets are iterated if budgets and recovery are both optimal, and the objective is the total.
    """
    names = [table_name(table) for table in workload]
    scales = [scale_of(workload.schema, table) for table in workload]
    found: list[tuple[float, Compared]] = []
    for name, made in every_strategy(workload, guarantee, options, progress).items():
        chosen = asdict(replace(compared_as(options), strategy=name))
        if isinstance(made, PrivcubeError):
            found.append((float("inf"), Compared(name, chosen, None, None, None, {}, str(made))))
            continue
        errors = {
            table: variance**0.5 * scale
            for table, variance, scale in zip(names, made.table_variances, scales, strict=True)
        }
        worst = max(errors, key=errors.__getitem__)
        line = Compared(name, chosen, made.mean_cell_variance**0.5, worst, errors[worst], errors, None)
        found.append((made.weighted_variance, line))
    return [asdict(line) for _, line in sorted(found, key=lambda pair: pair[0])]


def show_comparison(strategies: list[dict[str, Any]], *, most_tables: int) -> None:
    """Print the errors of the strategies, first over all tables, then table by table."""
    usable = [line for line in strategies if line["refused"] is None]
    say()
    say("Strategies by predicted standard error of a cell, the best for this workload first:")
    say()
    lines = [
        (line["strategy"], line["worst_table"], error_text(line["worst_std_error"]), error_text(line["std_error"]))
        for line in usable
    ]
    say_columns(("strategy", "worst table", "error there", "root mean square"), lines, left=2)
    shared = " ".join(f"--{key} {value}" for key, value in usable[0]["options"].items() if key != "strategy")
    say(f"To get one of these plans: --strategy NAME {shared}")
    for line in strategies:
        if line["refused"] is not None:
            say(f"{line['strategy']}: cannot be used here; {line['refused']}")
    say()
    names = list(usable[0]["tables"])
    rows = [(name, *(error_text(line["tables"][name]) for line in usable)) for name in names[: most_tables or None]]
    say_columns(("table", *(line["strategy"] for line in usable)), rows)
    if most_tables and len(names) > most_tables:
        say(f"... and {count_of(len(names) - most_tables, 'more table')} (--tables 0 lists all)")
