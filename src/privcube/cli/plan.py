"""`privcube plan`: what will be measured and what error to expect."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import click

from privcube.cli.output import say, visible

if TYPE_CHECKING:
    from privcube.model.options import Budgets, Recovery, Strategy
    from privcube.model.plan import Plan

_LONG_NUMBER: Final = 10**15


@click.command()
@click.argument("spec", type=click.Path())
@click.option("--strategy", metavar="NAME", help="Use this strategy instead of the one in the spec.")
@click.option("--budgets", metavar="NAME", help="optimal, uniform or iterated, instead of the spec's.")
@click.option("--recovery", metavar="NAME", help="optimal or direct, instead of the spec's.")
@click.option(
    "--tables",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    metavar="N",
    help="How many tables to list; 0 for all.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def plan(
    spec: str,
    strategy: Strategy | None,
    budgets: Budgets | None,
    recovery: Recovery | None,
    tables: int,
    as_json: bool,
) -> None:
    """Show what SPEC would measure and what error to expect. No data is read.

    \b
    Example:
      privcube plan spec.toml
      privcube plan spec.toml --strategy marginals --json > plan.json
    """
    from privcube.model.spec import Spec
    from privcube.planning.planner import plan as make_plan

    declared = Spec.read(spec)
    options = declared.options
    made = make_plan(
        declared.workload,
        declared.guarantee,
        options.strategy if strategy is None else strategy,
        budgets=options.budgets if budgets is None else budgets,
        recovery=options.recovery if recovery is None else recovery,
        effort=options.effort,
    )
    if as_json:
        click.echo(made.to_json())
    else:
        show_plan(made, drafts=declared.schema.drafts, most_tables=tables)


def show_plan(made: Plan, *, drafts: tuple[str, ...] = (), most_tables: int = 20) -> None:
    """Print a plan for people; `most_tables` of 0 lists all."""
    from privcube.model.workload import table_cells, table_name

    schema, options = made.workload.schema, made.options
    say(f"Guarantee   {made.guarantee}")
    say(f"Schema      {_count(len(schema), 'attribute')}, {_count(schema.domain_size, 'combination')} of values")
    say(f"Workload    {_count(len(made.workload), 'table')}, {_count(made.workload.cells, 'cell')}")
    say(
        f"Plan        strategy {options.strategy}, {options.budgets} budgets, {options.recovery} recovery: "
        f"{_count(made.rows, 'noisy count')} in {_count(len(made.groups), 'query group')}"
    )
    say(f"Error       standard error of a cell {made.mean_cell_variance**0.5:,.2f} (root mean square)")
    say("")
    lines = [
        (visible(table_name(table)), f"{table_cells(schema, table):,}", f"{variance**0.5:,.2f}")
        for table, variance in zip(made.workload, made.table_variances, strict=True)
    ]
    _print_columns(("table", "cells", "std. error of a cell"), lines[: most_tables or None])
    if most_tables and len(lines) > most_tables:
        say(f"... and {_count(len(lines) - most_tables, 'more table')} (--tables 0 lists all)")
    if drafts:
        say("")
        say(
            f"Drafted from data, not yet confirmed: {', '.join(drafts)}. Check that their values are public knowledge "
            "and remove `draft = true`; a release refuses drafts."
        )


def _count(number: int, noun: str) -> str:
    shown = f"{number:,}" if number < _LONG_NUMBER else f"about 10^{math.log10(number):.0f}"
    return f"{shown} {noun}{'' if number == 1 else 's'}"


def _print_columns(header: tuple[str, str, str], lines: list[tuple[str, str, str]]) -> None:
    """The first column to the left, the numbers to the right; as wide as it needs to be, whatever the terminal."""
    first, second, third = (max(map(len, column)) for column in zip(header, *lines, strict=True))
    for name, cells, error in (header, *lines):
        say(f"{name:<{first}}  {cells:>{second}}  {error:>{third}}")
