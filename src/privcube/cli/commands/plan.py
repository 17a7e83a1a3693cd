"""`privcube plan`: what will be measured and what error to expect."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from privcube.cli import completion
from privcube.cli.files import write_new
from privcube.cli.output import count_of, percent, say, say_columns, say_json, say_warning

if TYPE_CHECKING:
    from privcube.cli.expectations import Needed
    from privcube.model.documents.spec import Spec
    from privcube.model.options import Budgets, Effort, Objective, PlanOptions, Recovery, Strategy
    from privcube.model.plan import Plan
    from privcube.progress import Progress

_SIZES: Final = "100,1000,10000"  # counts whose relative errors `--count` shows by default
_CONFIDENCE: Final = 0.95  # of the margins that relative errors are based on


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
@click.option("--objective", metavar="NAME", help="total or largest: which error to minimize, instead of the spec's.")
@click.option(
    "--effort", metavar="NAME", help="fast, normal or thorough: search for 1, 10 or 100 seconds, instead of the spec's."
)
@click.option(
    "--tables",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    metavar="N",
    help="How many tables to list (0: all).",
)
@click.option("--compare", is_flag=True, help="Compare all strategies by their predicted error, table by table.")
@click.option("--explain", is_flag=True, help="Explain the plan: what it measures, the runners-up, a known limit.")
@click.option(
    "--count",
    "sizes",
    is_flag=False,
    flag_value=_SIZES,
    metavar="N,...",
    help=f"Show the expected relative error of counts of these sizes ({_SIZES} if none are given).",
)
@click.option(
    "--accuracy",
    metavar="TEXT",
    help='Show the budget that accuracies need: "50 at 95% on age x region; 20 on sex", "5% of 1000 on sex".',
)
@click.option(
    "--save",
    type=click.Path(),
    metavar="FILE",
    help="Write the plan to FILE, for `privcube release --plan`; with --accuracy, the plan that reaches it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the plan, or the answers to other options, as JSON.")
def plan(
    spec: str,
    strategy: Strategy | None,
    budgets: Budgets | None,
    recovery: Recovery | None,
    objective: Objective | None,
    effort: Effort | None,
    tables: int,
    compare: bool,
    explain: bool,
    sizes: str | None,
    accuracy: str | None,
    save: str | None,
    as_json: bool,
) -> None:
    """Show what SPEC would measure and what error to expect. No data is read.

    The error is that of the noise. It does not depend on the data, and computing it costs no privacy.

    \b
    Example:
      privcube plan spec.toml
      privcube plan spec.toml --compare
      privcube plan spec.toml --count 50,500
      privcube plan spec.toml --explain
      privcube plan spec.toml --accuracy "50 at 95% on sex x age; 20 on sex" --save plan.json
      privcube plan spec.toml --strategy marginals --save plan.json
    """
    from privcube.cli.progress import Progress as Display
    from privcube.model.documents.spec import Spec
    from privcube.released.whole.release import checked_spec

    declared = Spec.read(spec)
    checked_spec(declared)
    given = {
        "strategy": strategy,
        "budgets": budgets,
        "recovery": recovery,
        "objective": objective,
        "effort": effort,
    }
    options = replace(declared.options, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
    wanted_sizes = None if sizes is None else _sizes(sizes)
    answers: dict[str, Any] = {}
    with Display() as progress:
        with progress.stopping_early():
            made = _made(declared, options, progress)
        if compare:
            from privcube.cli.comparison import compared

            answers["strategies"] = compared(declared.workload, declared.guarantee, options, progress)
        explanation = None
        if explain:
            from privcube.planning.explanation import explain as explained

            explanation = explained(made, progress=progress)
            answers["explanation"] = explanation.document()
        if wanted_sizes is not None:
            answers["relative_errors"] = _relative_errors(made, wanted_sizes, tables)
        needed = None if accuracy is None else _needed(made, options, accuracy, progress)
    if needed is not None:
        answers["accuracy"] = _accuracy_document(made, needed)
    if save is not None:
        write_new(save, (made if needed is None else needed.plan).to_json() + "\n")
    if as_json:
        say_json(answers or plan_document(made, declared.expected_records))
        return
    show_plan(made, drafts=declared.schema.drafts, most_tables=tables)
    show_warnings(warnings_of(made, declared.expected_records))
    _show_hint(made)
    if compare:
        from privcube.cli.comparison import show_comparison

        show_comparison(answers["strategies"], most_tables=tables)
    if explanation is not None:
        say()
        for line in str(explanation).splitlines():
            say(line)
    if wanted_sizes is not None:
        _show_relative_errors(answers["relative_errors"], len(made.workload))
    if needed is not None:
        _show_accuracy(answers["accuracy"], tables)
    if save is not None:
        say()
        first = ""
        if needed is not None and needed.plan.guarantee != declared.guarantee:
            first = f"set {_amounts(answers['accuracy']['saved'])} in {spec}; "
        say(f"wrote {save}; {first}next: `privcube release {spec} --plan {save}`")


def _made(declared: Spec, options: PlanOptions, progress: Progress) -> Plan:
    from privcube.planning.planner import plan_as

    return plan_as(declared.workload, declared.guarantee, options, or_pure=declared.may_be_pure, progress=progress)


def plan_document(made: Plan, expected_records: int | None) -> dict[str, Any]:
    """The plan's document, together with the exact variances under the noise that is drawn, and warnings."""
    from privcube.accuracy.predictor import drawn_table_variances

    return {
        **json.loads(made.to_json()),
        "drawn_variance_per_cell": drawn_table_variances(made).tolist(),
        "warnings": warnings_of(made, expected_records),
    }


def show_plan(made: Plan, *, drafts: tuple[str, ...] = (), most_tables: int = 20) -> None:
    """Print a plan for people; `most_tables=0` lists all tables."""
    from privcube.accuracy.predictor import drawn_table_variances
    from privcube.cli.measure_hints import measure_hints
    from privcube.model.amounts import error_text
    from privcube.model.measures.measure import measure_of, scale_of
    from privcube.model.workload import table_cells, table_name

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
    sums = ", sums in units of the largest number" if any(map(measure_of, made.workload)) else ""
    say(
        f"Error       standard error of a cell {error_text(made.mean_cell_variance**0.5)} (root mean square{sums}), "
        f"{error_text(drawn**0.5)} with the whole-number noise that is drawn"
    )
    for line in measure_hints(made):
        say(f"            {line}")
    say()
    scales = [scale_of(schema, table) for table in made.workload]
    lines = [
        (table_name(table), f"{count:,}", error_text(variance**0.5 * scale))
        for table, count, variance, scale in zip(made.workload, cells, made.table_variances, scales, strict=True)
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


def warnings_of(made: Plan, expected_records: int | None) -> list[str]:
    """What is weak about a plan's guarantee, and what will or may stop a release."""
    from privcube.errors import listed
    from privcube.model.noise.limits import noise_objection
    from privcube.model.privacy.cautions import cautions

    found = cautions(made.guarantee, expected_records)
    if objection := noise_objection(made):
        found.append(f"A release will refuse this plan, as its noise cannot be drawn: {objection}.")
    refusing = [attribute.name for attribute in made.workload.schema if attribute.may_refuse]
    if refusing:
        found.append(
            f"Values that are missing or undeclared may stop the release: {listed(refusing)}. If it fails, that tells "
            "that there are some. The policies category, drop and clamp avoid it."
        )
    return found


def show_warnings(warnings: list[str]) -> None:
    """Print warnings, each in lines of a readable length."""
    for warning in warnings:
        say()
        say_warning(warning)


def _show_hint(made: Plan) -> None:
    """Say so if a small delta would make the tables far more accurate."""
    from privcube.model.amounts import error_text, shown
    from privcube.planning.hints import with_delta

    other = with_delta(made)
    if other is not None:
        delta, then = shown(other.guarantee.amounts["delta"]), other.mean_cell_variance**0.5
        say()
        say(
            f"Hint        With delta = {delta} besides epsilon, the standard error of a cell would be "
            f"{error_text(then)} instead of {error_text(made.mean_cell_variance**0.5)}."
        )
        say(f'            If that guarantee will do, write `delta = "{delta}"` into [privacy].')


# Counts of a given size


def _sizes(text: str) -> list[int]:
    from privcube.errors import PlanError

    parts = text.replace(" ", "").split(",")
    if not all(part.isascii() and part.isdecimal() and len(part) <= 15 and int(part) > 0 for part in parts):
        raise PlanError("--count", expected=f"whole numbers above 0, such as {_SIZES}", given=text)
    return [int(part) for part in parts]


def _relative_errors(made: Plan, sizes: list[int], most_tables: int) -> list[dict[str, Any]]:
    from privcube.model.workload import table_name
    from privcube.planning.targets import margins

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
    say(f"Expected relative error ({percent(_CONFIDENCE)} confidence) of a count of this size:")
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


def _needed(made: Plan, options: PlanOptions, text: str, progress: Progress) -> Needed:
    from privcube.cli.expectations import accuracies, needed_for, targets_of

    wanted = accuracies(made.workload.schema, text)
    return needed_for(made, options, targets_of(made.workload, wanted), progress)


def _accuracy_document(made: Plan, needed: Needed) -> dict[str, Any]:
    from privcube.cli.expectations import law
    from privcube.model.workload import table_name

    then = needed.then
    lines: list[dict[str, Any]] = [
        {
            "table": table_name(target.table),
            "confidence": target.confidence,
            "wanted_margin": target.margin,
            "margin_now": now,
            "margin_then": reached,
        }
        for target, now, reached in zip(needed.targets, needed.now, then, strict=True)
    ]
    worst = max(lines, key=lambda line: line["margin_now"] / line["wanted_margin"])
    return {
        **worst,
        "targets": lines,
        "guarantee_now": str(made.guarantee),
        "needed": _named(needed.scaled),
        "needed_guarantee": str(needed.scaled.guarantee),
        "needed_by_a_plan_made_for_it": None if needed.fitted is None else _named(needed.fitted),
        "saved": _named(needed.plan),
        "largest_std_error_of_others": needed.largest_std_error_of_others,
        "law": law(made.guarantee),
    }


def _named(made: Plan) -> dict[str, str]:
    from privcube.model.amounts import decimal_text

    return {name: decimal_text(amount) for name, amount in made.guarantee.amounts.items()}


def _amounts(named: dict[str, str]) -> str:
    return ", ".join(f"{name} = {amount}" for name, amount in named.items())


def _show_accuracy(found: dict[str, Any], most_tables: int) -> None:
    from privcube.model.amounts import error_text

    say()
    lines, fitted = found["targets"], found["needed_by_a_plan_made_for_it"]
    wanted = {(line["confidence"], line["wanted_margin"]) for line in lines}
    each = f"each number of {found['table']}" if len(wanted) == 1 else f"{found['table']}, and the others,"
    say(
        f"Accuracy    ± {found['wanted_margin']:,g} with {percent(found['confidence'])} confidence for {each} "
        f"needs {_amounts(found['needed'])}"
    )
    say(f"            Now: ± {found['margin_now']:,.1f}, {found['guarantee_now']}")
    if fitted is not None:
        say(f"            A plan made for it needs only {_amounts(fitted)} (--save FILE writes that plan)")
        if found["largest_std_error_of_others"] is not None:
            most = error_text(found["largest_std_error_of_others"])
            say(f"            It spends nothing on other tables, whose standard errors are then up to {most}")
    say(f"            {found['law']}")
    if len(wanted) > 1 or len(lines) > 1:
        say()
        columns = ("wanted_margin", "margin_now", "margin_then")
        shown = [
            (line["table"], percent(line["confidence"]), *(f"± {line[name]:,.1f}" for name in columns))
            for line in lines[: most_tables or None]
        ]
        say_columns(("table", "confidence", "wanted", "now", f"with {_amounts(found['saved'])}"), shown)
        if most_tables and len(lines) > most_tables:
            say(f"... and {count_of(len(lines) - most_tables, 'more target')} (--tables 0 lists all)")
