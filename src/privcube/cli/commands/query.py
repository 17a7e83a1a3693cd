"""`privcube query`: one count from a release, with its error bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from privcube.cli import completion
from privcube.cli.output import percent, places_for, say, say_json

if TYPE_CHECKING:
    from privcube.released.means import Mean
    from privcube.released.release import Answer


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
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def query(folder: str, condition: tuple[str, ...], confidence: float, measure: str | None, as_json: bool) -> None:
    """Ask a release for one count, or for a sum and a mean.

    Estimates the number of records that meet every CONDITION, from the release in DIR; no data is read.

    \b
    A condition is
      sex=F                    a label
      ward=surgery,medicine    any of several labels
      age=15..65               bins: from 15 to below 65, both edges of bins
      rooms=2..4               whole numbers and ordered labels: from 2 to 4, both included
      age.stage="[0, 15)"      a group, or several, of a level

    Without conditions, all records are counted. The standard error is exact for any set of conditions.

    \b
    Example:
      privcube query out sex=female age=15..65
      privcube query out ward=surgery outcome=died --confidence 0.99
      privcube query out ward=surgery --measure days
    """
    from privcube.cli.conditions import conditions_from
    from privcube.released.release import Release

    release = Release.open(folder)
    where = conditions_from(release.workload.schema, condition)
    answer = release.query(where, measure=measure, confidence=confidence)
    mean = None if measure is None else release.mean(measure, where, confidence=confidence)
    if as_json:
        say_json(
            {
                "conditions": list(condition),
                "estimate": answer.estimate,
                "std_error": answer.std_error,
                "low": answer.low,
                "high": answer.high,
                "confidence": confidence,
                **({} if mean is None else {"measure": measure, "mean": _mean_document(mean)}),
            }
        )
    else:
        show_answer(answer, condition, "Count" if measure is None else f"Sum of {measure}")
        if mean is not None:
            say(f"Mean        {mean}")


def _mean_document(mean: Mean) -> dict[str, float | None]:
    found = {"estimate": mean.estimate, "low": mean.low, "high": mean.high}
    return {key: number if mean.determined else None for key, number in found.items()}


def show_answer(answer: Answer, conditions: tuple[str, ...], what: str = "Count") -> None:
    """Print an answer for people."""
    places = places_for(answer.std_error)
    sure = percent(answer.confidence)
    of = ", ".join(conditions) or "all records"
    say(f"Count of    {of}" if what == "Count" else f"{what} over {of}")
    say(f"Estimate    {answer.estimate:z,.{places}f} ± {answer.high - answer.estimate:,.{places}f}")
    say(f"Interval    {answer.low:z,.{places}f} to {answer.high:z,.{places}f}, with {sure} confidence")
    say(f"Std. error  {answer.std_error:,.{places}f}")
