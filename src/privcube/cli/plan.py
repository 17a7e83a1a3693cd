"""`privcube plan`: what will be measured and what error to expect."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

import click

from privcube.cli import completion
from privcube.cli.files import write_new
from privcube.cli.output import count_of, percent, say, say_columns, say_json

if TYPE_CHECKING:
    from privcube.model.options import Budgets, Recovery, Strategy
    from privcube.model.plan import Plan

_SIZES: Final = "100,1000,10000"
_CONFIDENCE: Final = 0.95


@click.command()
@click.argument("spec", type=click.Path())
@click.option(
    "--strategy",
    metavar="NAME",
    shell_complete=completion.strategies,
    help="Use this strategy instead of the one in the spec.",
)
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
@click.option("--compare", is_flag=True, help="Compare all strategies by their predicted error, table by table.")
@click.option(
    "--count",
    "sizes",
    is_flag=False,
    flag_value=_SIZES,
    metavar="N,...",
    help=f"Show the relative error to expect of counts of these sizes ({_SIZES} if none is given).",
)
@click.option(
    "--accuracy",
    metavar="TEXT",
    help='Say which budget an accuracy needs, such as "50 at 95% on age x region".',
)
@click.option(
    "--save", type=click.Path(), metavar="FILE", help="Write the plan to FILE, for `privcube release --plan`."
)
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON, or the answers to what else was asked.")
def plan(
    spec: str,
    strategy: Strategy | None,
    budgets: Budgets | None,
    recovery: Recovery | None,
    tables: int,
    compare: bool,
    sizes: str | None,
    accuracy: str | None,
    save: str | None,
    as_json: bool,
) -> None:
    """Show what SPEC would measure and what error to expect. No data is read.

    The error is that of the noise. It does not depend on the data, and asking for it costs no privacy.

    \b
    Example:
      privcube plan spec.toml
      privcube plan spec.toml --compare
      privcube plan spec.toml --count 50,500
      privcube plan spec.toml --accuracy "50 at 95% on sex x age"
      privcube plan spec.toml --strategy marginals --save plan.json
    """
    from privcube.model.spec import Spec
    from privcube.planning.planner import plan as make_plan

    declared = Spec.read(spec)
    options = declared.options
    chosen: dict[str, Any] = {
        "budgets": options.budgets if budgets is None else budgets,
        "recovery": options.recovery if recovery is None else recovery,
        "effort": options.effort,
    }
    wanted_sizes = None if sizes is None else _sizes(sizes)
    made = make_plan(
        declared.workload, declared.guarantee, options.strategy if strategy is None else strategy, **chosen
    )
    answers: dict[str, Any] = {}
    if compare:
        from privcube.cli.comparison import compared

        answers["strategies"] = compared(declared.workload, declared.guarantee, **chosen)
    if wanted_sizes is not None:
        answers["relative_errors"] = _relative_errors(made, wanted_sizes, tables)
    if accuracy is not None:
        answers["accuracy"] = _accuracy(made, accuracy)
    if save is not None:
        write_new(save, made.to_json() + "\n")
    if as_json:
        say_json(answers or plan_document(made))
        return
    show_plan(made, drafts=declared.schema.drafts, most_tables=tables)
    if compare:
        from privcube.cli.comparison import show_comparison

        show_comparison(answers["strategies"], most_tables=tables)
    if wanted_sizes is not None:
        _show_relative_errors(answers["relative_errors"], len(made.workload))
    if accuracy is not None:
        _show_accuracy(answers["accuracy"])
    if save is not None:
        say()
        say(f"wrote {save}; next: `privcube release {spec} --plan {save}`")


def plan_document(made: Plan) -> dict[str, Any]:
    """The plan's document, and next to it what follows from it: the exact variance under the noise that is drawn."""
    from privcube.planning.accuracy import drawn_table_variances

    return {**json.loads(made.to_json()), "drawn_variance_per_cell": drawn_table_variances(made).tolist()}


def show_plan(made: Plan, *, drafts: tuple[str, ...] = (), most_tables: int = 20) -> None:
    """Print a plan for people; `most_tables` of 0 lists all."""
    from privcube.model.workload import table_cells, table_name
    from privcube.planning.accuracy import drawn_table_variances

    schema, options = made.workload.schema, made.options
    say(f"Guarantee   {made.guarantee}")
    say(f"Schema      {count_of(len(schema), 'attribute')}, {count_of(schema.domain_size, 'combination')} of values")
    say(f"Workload    {count_of(len(made.workload), 'table')}, {count_of(made.workload.cells, 'cell')}")
    say(
        f"Plan        strategy {options.strategy}, {options.budgets} budgets, {options.recovery} recovery: "
        f"{count_of(made.rows, 'noisy count')} in {count_of(len(made.groups), 'query group')}"
    )
    cells = [table_cells(schema, table) for table in made.workload]
    variances = zip(cells, drawn_table_variances(made).tolist(), strict=True)
    drawn = math.fsum(count * variance for count, variance in variances) / sum(cells)
    say(
        f"Error       standard error of a cell {made.mean_cell_variance**0.5:,.2f} (root mean square), "
        f"{drawn**0.5:,.2f} with the whole-number noise that is drawn"
    )
    say()
    lines = [
        (table_name(table), f"{count:,}", f"{variance**0.5:,.2f}")
        for table, count, variance in zip(made.workload, cells, made.table_variances, strict=True)
    ]
    say_columns(("table", "cells", "std. error of a cell"), lines[: most_tables or None])
    if most_tables and len(lines) > most_tables:
        say(f"... and {count_of(len(lines) - most_tables, 'more table')} (--tables 0 lists all)")
    if drafts:
        say()
        say(
            f"Drafted from data, not yet confirmed: {', '.join(drafts)}. Check that their values are public knowledge "
            "and remove `draft = true`; a release refuses drafts."
        )


# Counts of a given size


def _sizes(text: str) -> list[int]:
    from privcube.errors import PlanError

    parts = text.replace(" ", "").split(",")
    if not all(part.isascii() and part.isdecimal() and len(part) <= 15 and int(part) > 0 for part in parts):
        raise PlanError("--count", expected=f"whole numbers above 0, such as {_SIZES}", given=text)
    return [int(part) for part in parts]


def _relative_errors(made: Plan, sizes: list[int], most_tables: int) -> list[dict[str, Any]]:
    from privcube.cli.expectations import margins
    from privcube.model.workload import table_name

    listed = list(made.workload)[: most_tables or None]
    return [
        {
            "table": table_name(table),
            "confidence": _CONFIDENCE,
            "margin": margin,
            "relative_error": {str(size): margin / size for size in sizes},
        }
        for table, margin in zip(listed, margins(made, listed, _CONFIDENCE), strict=True)
    ]


def _show_relative_errors(found: list[dict[str, Any]], tables: int) -> None:
    say()
    say(f"Relative error to expect ({percent(_CONFIDENCE)} confidence) of a count of this size:")
    say()
    sizes = list(found[0]["relative_error"])
    lines = [
        (line["table"], f"± {line['margin']:,.1f}", *(percent(line["relative_error"][size]) for size in sizes))
        for line in found
    ]
    say_columns(("table", "margin", *(f"{int(size):,}" for size in sizes)), lines)
    if len(found) < tables:
        say(f"... and {count_of(tables - len(found), 'more table')} (--tables 0 lists all)")


# The budget that an accuracy needs


def _accuracy(made: Plan, text: str) -> dict[str, Any]:
    from privcube.cli.expectations import Accuracy, budget_for, law
    from privcube.model.amounts import decimal_text
    from privcube.model.workload import table_name

    needed = budget_for(made, Accuracy.from_text(made.workload.schema, text))
    return {
        "table": table_name(needed.table),
        "confidence": needed.accuracy.confidence,
        "wanted_margin": needed.accuracy.margin,
        "margin_now": needed.margin_now,
        "guarantee_now": str(made.guarantee),
        "needed": {name: decimal_text(amount) for name, amount in needed.guarantee.amounts.items()},
        "needed_guarantee": str(needed.guarantee),
        "margin_then": needed.margin,
        "law": law(made.guarantee),
    }


def _show_accuracy(found: dict[str, Any]) -> None:
    say()
    amounts = ", ".join(f"{name} = {amount}" for name, amount in found["needed"].items())
    say(
        f"Accuracy    ± {found['wanted_margin']:,g} with {percent(found['confidence'])} confidence for each number of "
        f"{found['table']} needs {amounts}"
    )
    say(f"            Now: ± {found['margin_now']:,.1f}, {found['guarantee_now']}")
    say(f"            {found['law']}")
