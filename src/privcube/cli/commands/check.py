"""`privcube check`: whether the data fits the spec, before anything is charged."""

from __future__ import annotations

import shlex
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from privcube.cli.files import with_source
from privcube.cli.output import say, say_json, say_warning
from privcube.cli.progress import Progress

if TYPE_CHECKING:
    from privcube.model.documents.spec import Spec

_TINY: Final = Fraction(1, 10**6)  # larger budgets have noise that can be drawn, unless workloads are extreme, too


@click.command()
@click.argument("spec", type=click.Path())
@click.option("--source", metavar="SOURCE", help="The records to look over, instead of the spec's.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def check(spec: str, source: str | None, as_json: bool) -> None:
    """Look the data of SPEC over, before anything is charged.

    Says for each attribute how many values are missing, not declared (with the most frequent ones), too small or too
    large, padded with blanks or in other letters; how many rows people have; and which lines of the spec would help.
    Nothing is charged, published or written. The report is about the data itself: do not publish it, and know that
    choices made from it are not covered by the privacy guarantee.

    \b
    Example:
      privcube check spec.toml
      privcube check spec.toml --source 2024-02.csv
    """
    from privcube.model.documents.spec import Spec
    from privcube.pipeline import check as look_over

    declared = with_source(Spec.read(spec), source, Path(spec).parent)
    with Progress() as display:
        report = look_over(declared, folder=Path(spec).parent, progress=display)
        if objection := _noise_objection(declared, display):
            report = replace(report, obstacles=(*report.obstacles, f"its noise cannot be drawn ({objection})"))
    if as_json:
        say_json(report.document)
        return
    for line in report.lines():
        say(line)
    say()
    again = f"privcube check {shlex.quote(spec)}"
    onward = f"privcube plan {shlex.quote(spec)}; privcube release {shlex.quote(spec)}"
    say(f"Next        {'change the spec, then ' + again if report.refused else onward}")
    say_warning(report.document["warning"])


def _noise_objection(spec: Spec, display: Progress) -> str | None:
    """Why the noise of a release cannot be drawn; planned only where the budget is so small that this may be."""
    from privcube.model.noise.limits import noise_objection
    from privcube.planning.planner import plan_as

    if min(amount for name, amount in spec.guarantee.amounts.items() if name != "delta") >= _TINY:
        return None
    made = plan_as(spec.workload, spec.guarantee, spec.options, or_pure=spec.may_be_pure, progress=display)
    return noise_objection(made)
