"""The plan of a release in plain words, for its page. Zone: RELEASED."""

from __future__ import annotations

from typing import Final

from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import PureDP
from privcube.planning.explanation import Measured, measured_by

_MOST_LINES: Final = 30  # of what was measured: the largest shares
_MOST_NAMED: Final = 6  # groups of a bundle


def plan_in_words(plan: Plan) -> list[str]:
    """How the numbers were made, in paragraphs; lines that start with "- " are a list."""
    measured = measured_by(plan)
    rows, groups = sum(each.rows for each in measured), sum(len(each.groups) for each in measured)
    agree = (
        "All tables were then worked out from these answers together, by least squares, so that they agree with each "
        "other: a table added up over an attribute is the smaller table."
        if plan.sources is None
        else "Each table was then added up from its own answers. Tables need not agree with each other."
    )
    return [
        f"The {_count(len(plan.workload), 'table')} of this release were not counted and blurred one by one. Before "
        "any record was read, a plan was made that says what to count and how much noise to add to each count, so "
        f"that the tables together have small errors. It asks {_count(rows, 'question')} in {_count(groups, 'group')}.",
        "Then the records were counted once, noise was added once, and only the noisy answers left the place where the "
        f"records are. {agree} That uses no records, so it costs no privacy, and the error of every number is known.",
        "What was measured, and which part of the privacy budget it took:",
        *[_line(each) for each in measured[:_MOST_LINES]],
        *([f"- and {_count(len(measured) - _MOST_LINES, 'smaller part')}"] if len(measured) > _MOST_LINES else []),
        *([] if not isinstance(plan.guarantee, PureDP) else [_bundles(measured)]),
    ]


def _line(each: Measured) -> str:
    named = ", ".join(each.groups[:_MOST_NAMED])
    more = f" and {len(each.groups) - _MOST_NAMED:,} more" if len(each.groups) > _MOST_NAMED else ""
    return f"- {each.share:.1%}: {named}{more} ({_count(each.rows, 'number')})"


def _bundles(measured: tuple[Measured, ...]) -> str:
    if all(len(each.groups) == 1 for each in measured):
        return "Each group has noise of its own."
    return "Groups in one line were noised together, which costs less than noise for each of them."


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
