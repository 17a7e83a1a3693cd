"""`privcube plan`: what will be measured and what error to expect."""

from __future__ import annotations

import click

from privcube.model.options import Budgets, Recovery, Strategy
from privcube.model.plan import Plan
from privcube.model.spec import Spec


@click.command()
@click.argument("spec", type=click.Path())
@click.option("--strategy", metavar="NAME", help="Use this strategy instead of the one in the spec.")
@click.option("--budgets", metavar="NAME", help="optimal, uniform or iterated, instead of the spec's.")
@click.option("--recovery", metavar="NAME", help="optimal or direct, instead of the spec's.")
@click.option("--tables", default=20, show_default=True, help="How many tables to list; 0 for all.")
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
    from privcube.planning.planner import plan as make_plan

    declared = Spec.read(spec)
    options = declared.options
    made = make_plan(
        declared.workload,
        declared.guarantee,
        strategy or options.strategy,
        budgets=budgets or options.budgets,
        recovery=recovery or options.recovery,
        effort=options.effort,
    )
    if as_json:
        click.echo(made.to_json())
    else:
        show_plan(made, drafts=declared.schema.drafts, most_tables=tables)


def show_plan(made: Plan, *, drafts: tuple[str, ...] = (), most_tables: int = 20) -> None:
    """Print a plan for people."""
    from rich.console import Console
    from rich.table import Table

    from privcube.model.workload import table_cells, table_name

    console = Console(highlight=False, soft_wrap=True)
    schema = made.workload.schema
    console.print(f"Guarantee   {made.guarantee}")
    console.print(f"Schema      {len(schema)} attributes, {schema.domain_size:,} combinations of values")
    console.print(f"Workload    {len(made.workload):,} tables, {made.workload.cells:,} cells")
    console.print(
        f"Plan        strategy {made.options.strategy}: {made.rows:,} noisy counts in {len(made.groups):,} query "
        f"group{'s' if len(made.groups) > 1 else ''}"
    )
    console.print(f"Error       standard error of a cell {made.mean_cell_variance**0.5:,.2f} (root mean square)\n")
    listing = Table("table", header_style="bold", box=None, pad_edge=False)
    listing.add_column("cells", justify="right")
    listing.add_column("std. error of a cell", justify="right")
    shown = list(zip(made.workload, made.table_variances, strict=True))
    for table, variance in shown[: most_tables or None]:
        listing.add_row(table_name(table), f"{table_cells(schema, table):,}", f"{variance**0.5:,.2f}")
    console.print(listing)
    if most_tables and len(shown) > most_tables:
        console.print(f"... and {len(shown) - most_tables:,} more tables (--tables 0 lists all)")
    if drafts:
        console.print(
            f"\nDrafted from data, not yet confirmed: {', '.join(drafts)}. Check that their values are public "
            "knowledge and remove `draft = true`; a release refuses drafts."
        )
