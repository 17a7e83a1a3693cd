"""`privcube release`: from records to a folder that can be published."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from privcube.cli.files import with_source
from privcube.cli.output import count_of, say, say_json, say_warning
from privcube.cli.progress import Progress
from privcube.progress import COUNTING, NOISE

if TYPE_CHECKING:
    from privcube.model.documents.spec import Spec
    from privcube.model.options import Effort
    from privcube.model.plan import Plan

_LARGEST_PLAN: Final = 2**29  # bytes: a larger file must not fill the memory


@click.command()
@click.argument("spec", type=click.Path())
@click.option("--plan", "plan_file", type=click.Path(), metavar="FILE", help="Use a plan written by `plan --save`.")
@click.option("--effort", metavar="NAME", help="fast, normal or thorough: how long to search for a plan.")
@click.option("--source", metavar="SOURCE", help="The records to read, instead of the spec's.")
@click.option("--output", type=click.Path(), metavar="DIR", help="The folder to create, instead of the spec's.")
@click.option("--json", "as_json", is_flag=True, help="Print what was published as JSON.")
def release(
    spec: str, plan_file: str | None, effort: Effort | None, source: str | None, output: str | None, as_json: bool
) -> None:
    """Publish the tables of SPEC in a new folder.

    Counts the records, adds noise once, and recovers tables that agree. The ledger is charged when the records are
    counted and before any noise is drawn: a refusal costs nothing, and a crash after the charge costs budget, never
    privacy. Every refusal says what was charged. Nothing else printed here depends on the records.

    \b
    Example:
      privcube release spec.toml
      privcube release spec.toml --plan plan.json --output tables-2024
      privcube release spec.toml --source 2024-02.csv --output tables-2024-02
    """
    from privcube.model.documents.spec import Spec
    from privcube.pipeline import nothing_charged

    with nothing_charged():
        declared = with_source(Spec.read(spec), source, Path(spec).parent)
        if output is not None:
            declared = replace(declared, output=str(Path(output).absolute()))
        if effort is not None:
            declared = replace(declared, options=replace(declared.options, effort=effort))
        plan = None if plan_file is None else _read_plan(plan_file)
    place = publish_with_progress(declared, plan, Path(spec).parent)
    report = _report(declared, Path(spec).parent, place if output is None else Path(output))
    if as_json:
        say_json(report)
    else:
        show_report(report, spec)


def publish_with_progress(spec: Spec, plan: Plan | None, folder: Path) -> Path:
    """Publish, and show the progress on a terminal."""
    from privcube.pipeline import publish

    with Progress() as display:

        def progress(stage: str, done: int, total: int | None) -> None:
            display(stage, done, total)
            if stage == COUNTING and done == total:
                display(NOISE, 0, None)

        return publish(spec, plan, folder=folder, progress=progress)


def _read_plan(file: str) -> Plan:
    from privcube.errors import Plain, PlanError
    from privcube.model.plan import Plan

    subject = f"plan {Path(file).name!r}"
    try:
        with Path(file).open("rb") as stream:
            content = stream.read(_LARGEST_PLAN + 1)
        if len(content) > _LARGEST_PLAN:
            raise PlanError(subject, expected=f"at most {_LARGEST_PLAN // 2**20} MiB", given=Plain("a larger file"))
        text = content.decode("utf-8")
    except (OSError, ValueError) as problem:  # ValueError: not UTF-8, or a path that contains a zero byte
        reason = getattr(problem, "strerror", None) or "text that is not UTF-8"
        raise PlanError(subject, expected="a readable file", given=Plain(reason)) from None
    return Plan.from_json(text)


def _report(spec: Spec, folder: Path, place: Path) -> dict[str, Any]:
    from privcube.cli.rooms import room_left
    from privcube.model.amounts import decimal_text
    from privcube.model.privacy.cautions import cautions
    from privcube.model.privacy.guarantee import pure_instead
    from privcube.pipeline import ledger_status

    workload, guarantee = spec.workload, spec.guarantee
    if pure_instead(guarantee) is not None:  # the plan decided
        guarantee = _read_plan(str(place / "plan.json")).guarantee
    report: dict[str, Any] = {
        "folder": str(place),
        "tables": len(workload),
        "cells": workload.cells,
        "guarantee": str(guarantee),
        "amounts": {name: decimal_text(amount) for name, amount in guarantee.amounts.items()},
        "warnings": cautions(spec.guarantee, spec.expected_records),
        "ledger": None,
    }
    if spec.ledger is not None:
        status = ledger_status(spec, folder=folder)
        report["ledger"] = {
            "dataset": status.dataset,
            "guarantee": str(status.total),
            "releases": len(status.entries),
            "currency": status.account.currency,
            "total": decimal_text(status.account.limit),
            "remaining": decimal_text(status.remaining),
            **room_left(status.spending),
        }
    return report


def show_report(report: dict[str, Any], spec: str) -> None:
    """Print what was published, what it cost, and what to do next."""
    from fractions import Fraction

    from privcube.model.amounts import shown, shown_down

    say(f"Published   {report['folder']}: {count_of(report['tables'], 'table')}, {count_of(report['cells'], 'cell')}")
    say(f"Guarantee   {report['guarantee']}")
    for warning in report["warnings"]:
        say_warning(warning)
    ledger, folder = report["ledger"], shlex.quote(report["folder"])
    if ledger is None:
        say("Ledger      none: nothing records what was spent (set `ledger` and a total in [privacy] to change that)")
        say(f"Next        privcube show {folder}; privcube verify {folder}")
        return
    if ledger["releases"] == 1:
        say(f"Ledger      created for data set {ledger['dataset']} with total {ledger['guarantee']}")
    left, total = shown_down(Fraction(ledger["remaining"])), shown(Fraction(ledger["total"]))
    say(f"Ledger      {ledger['currency']} {left} of {total} left after {count_of(ledger['releases'], 'release')}")
    if "room" in ledger:
        say(f"Room        {ledger['room']}")
    say(f"Next        privcube show {folder}; privcube verify {folder} --spec {shlex.quote(spec)}")
