"""`privcube query`: one count from a release, with its error bars."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from privcube.cli import completion
from privcube.cli.output import places_for, say, say_json

if TYPE_CHECKING:
    from privcube.released.means import Mean
    from privcube.released.quantiles import Quantile
    from privcube.released.ratios import Share
    from privcube.released.release import Answer, Release


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path())
@click.argument("condition", nargs=-1, shell_complete=completion.conditions)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="The probability that the interval contains the true count.",
)
@click.option("--measure", help="Ask for the sum and the mean of a measure instead of the count.")
@click.option(
    "--share-of",
    multiple=True,
    metavar="CONDITION",
    shell_complete=completion.conditions,
    help="Give the share among records with this condition (repeatable), or among all.",
)
@click.option("--median", metavar="ATTRIBUTE", help="Give the median of an ordered attribute.")
@click.option(
    "--quantile",
    nargs=2,
    type=(str, float),
    metavar="ATTRIBUTE PART",
    help="Give any quantile: age 0.9 is the age that nine out of ten are below.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def query(
    folder: str,
    condition: tuple[str, ...],
    confidence: float,
    measure: str | None,
    share_of: tuple[str, ...],
    median: str | None,
    quantile: tuple[str, float] | None,
    as_json: bool,
) -> None:
    """Ask a release for a count, share, sum or quantile.

    Estimates the number of records that meet every CONDITION, from the release in DIR; no data is read.

    \b
    A condition is
      sex=F                    a label
      ward=surgery,medicine    any of several labels
      age=15..65               bins: from 15 to below 65, both edges of bins
      rooms=2..4               whole numbers and ordered labels: from 2 to 4, both included
      age.stage="[0, 15)"      a group, or several, of a level

    Without conditions, all records are counted. The standard error is exact for any set of conditions. With --share-of
    it is the part of these records that also meet every CONDITION; "not determined" if there may be none of them.
    With --median or --quantile, it is that of an attribute with an order, among the records that meet all conditions.

    \b
    Example:
      privcube query out sex=female age=15..65
      privcube query out ward=surgery outcome=died --confidence 0.99
      privcube query out ward=surgery --measure days
      privcube query out outcome=died --share-of ward=surgery
      privcube query out sex=female --share-of all
      privcube query out ward=surgery --median age
    """
    from privcube.cli.conditions import conditions_from
    from privcube.released.release import Release

    release = Release.open(folder)
    where = conditions_from(release.workload.schema, condition)
    if sum([bool(share_of), median is not None, quantile is not None, measure is not None]) > 1:
        asked = "--measure, --share-of, --median and --quantile"
        raise click.UsageError(f"{asked} ask for different answers: use one of them")
    if median is not None or quantile is not None:
        attribute, part = quantile or (median or "", 0.5)
        found = release.quantile(attribute, part, where, confidence=confidence)
        if as_json:
            ends = {name: _plain(getattr(found, name)) for name in ("estimate", "low", "high")}
            known = {"conditions": list(condition), "attribute": attribute, "part": part}
            say_json({**known, **ends, "cells": list(found.cells or ()), "confidence": confidence})
        else:
            show_quantile(found, attribute, condition)
        return
    if share_of:
        among = () if share_of == ("all",) else share_of
        share = release.share(where, conditions_from(release.workload.schema, among), confidence=confidence)
        if as_json:
            say_json(
                {
                    "conditions": list(condition),
                    "share_of": list(among),
                    **{
                        name: getattr(share, name) if share.determined else None for name in ("estimate", "low", "high")
                    },
                    "confidence": confidence,
                }
            )
        else:
            show_share(share, condition, among)
        return
    answer = release.query(where, measure=measure, confidence=confidence)
    mean = None if measure is None else _mean(release, measure, where, confidence)
    if as_json:
        say_json(
            {
                "conditions": list(condition),
                "estimate": answer.estimate,
                "std_error": answer.std_error,
                "low": answer.low,
                "high": answer.high,
                "confidence": confidence,
                **({} if measure is None else {"measure": measure, "mean": _mean_document(mean)}),
            }
        )
    else:
        unit = None if measure is None else release.words.attribute(measure).unit
        what = "Count" if measure is None else f"Sum of {measure}" + ("" if unit is None else f" ({unit})")
        show_answer(answer, condition, what)
        if mean is not None:
            say(f"Mean        {mean}")


def _mean(release: Release, measure: str, where: dict[str, Any], confidence: float) -> Mean | None:
    """The mean; None if only sums are known."""
    from privcube.errors import QueryError

    try:
        return release.mean(measure, where, confidence=confidence)
    except QueryError:
        return None


def _mean_document(mean: Mean | None) -> dict[str, float | None] | None:
    if mean is None:
        return None
    found = {"estimate": mean.estimate, "low": mean.low, "high": mean.high}
    return {key: number if mean.determined else None for key, number in found.items()}


def show_answer(answer: Answer, conditions: tuple[str, ...], what: str = "Count") -> None:
    """Print an answer for people."""
    from privcube.released.presentation.numbers import confidence_text, end_of

    places = places_for(answer.std_error)
    sure = confidence_text(answer.confidence)
    margin = end_of("high", answer.high - answer.estimate, places)
    low, high = end_of("low", answer.low, places), end_of("high", answer.high, places)
    of = ", ".join(conditions) or "all records"
    say(f"Count of    {of}" if what == "Count" else f"{what} over {of}")
    say(f"Estimate    {answer.estimate:z,.{places}f} ± {margin:,.{places}f}")
    say(f"Interval    {low:z,.{places}f} to {high:z,.{places}f}, with {sure} confidence")
    say(f"Std. error  {answer.std_error:,.{places}f}")


def show_share(share: Share, conditions: tuple[str, ...], among: tuple[str, ...]) -> None:
    """Print a share for people."""
    from privcube.released.presentation.numbers import confidence_text, end_of

    sure = confidence_text(share.confidence)
    say(f"Share of    {', '.join(conditions) or 'all records'}")
    say(f"Among       {', '.join(among) or 'all records'}")
    if share.determined:
        say(f"Estimate    {100 * share.estimate:.2f} %")
        low, high = 100 * end_of("low", share.low, 4), 100 * end_of("high", share.high, 4)
        say(f"Interval    {low:.2f} % to {high:.2f} %, with {sure} confidence")
    else:
        say(f"Estimate    not determined: with {sure} confidence, there may be no such records")


def show_quantile(found: Quantile, attribute: str, conditions: tuple[str, ...]) -> None:
    """Print a quantile for people."""
    from privcube.released.presentation.numbers import confidence_text

    sure = confidence_text(found.confidence)
    say(f"{'Median of ' if found.part == 0.5 else f'{found.part:g} of'.ljust(10)}  {attribute}")
    say(f"Among       {', '.join(conditions) or 'all records'}")
    if found.cells is None:
        say(f"Estimate    not determined: with {sure} confidence, there may be no such records")
        return
    first, last = found.cells
    if isinstance(found.estimate, float):
        say(f"Estimate    {_number(found.estimate)}, if values are spread evenly within bins")
        say(f"Interval    {_number(found.low, 'low')} to {_number(found.high, 'high')}, with {sure} confidence")
        say(f"Bins        {first}" + ("" if first == last else f" to {last}"))
    else:
        say(f"Estimate    {found.estimate}")
        say(f"Interval    {first}" + ("" if first == last else f" to {last}") + f", with {sure} confidence")


def _number(number: Any, name: str = "estimate") -> str:
    """An estimate, or an end of an interval, rounded outward; one in a bin without a bound has none."""
    from privcube.released.presentation.numbers import end_of, in_digits

    if math.isinf(number):
        return "no bound"
    return in_digits(name, number, 4) if abs(number) < 1000 else f"{end_of(name, number, 0):,.0f}"


def _plain(end: Any) -> Any:
    """An end for JSON, which has no infinity."""
    return None if isinstance(end, float) and math.isinf(end) else end
