"""An explanation in words, for terminals and notebooks. Zone: PUBLIC."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from privcube.model.amounts import error_text
from privcube.planning.limits import SAYS

if TYPE_CHECKING:
    from privcube.planning.explanation import Explanation

_MORE_THAN_ALL: Final = 1 + 1e-9  # the sum of shares, beyond rounding
_EQUAL: Final = 1e-6  # relative; errors further apart are weighted and not weighted
_MOST_LINES: Final = 12  # of measurements, so that an explanation fits on a screen
_MOST_NAMED: Final = 3  # groups of a bundle, so that they fit on a line


def as_text(found: Explanation) -> str:
    """An explanation as text, for a terminal."""
    parts = [_opening(found), *_columns(_measured_lines(found)), "", _ratios_of(found)]
    parts += _columns(_other_lines(found))
    parts += [f"{each.strategy}: cannot be used here; {each.refused}" for each in found.others if each.refused]
    return "\n".join([*parts, "", _closing(found)])


def as_html(found: Explanation) -> str:
    """An explanation as HTML, for a notebook."""
    refused = "".join(f"<li>{html.escape(f'{e.strategy}: {e.refused}')}</li>" for e in found.others if e.refused)
    return (
        f"<p>{html.escape(_opening(found))}</p>{_html_table(_measured_lines(found))}"
        f"<p>{html.escape(_ratios_of(found))}</p>{_html_table(_other_lines(found))}"
        + (f"<p>Cannot be used here:</p><ul>{refused}</ul>" if refused else "")
        + f"<p>{html.escape(_closing(found))}</p>"
    )


def _opening(found: Explanation) -> str:
    rows = _count(sum(each.rows for each in found.measured), "noisy count")
    groups = _count(sum(len(each.groups) for each in found.measured), "query group")
    made = f"made by a search (effort {found.effort})" if found.strategy == "search" else f"strategy {found.strategy}"
    aim = "the least total variance" if found.objective == "total" else "the least largest error"
    notes = ""
    if sum(each.share for each in found.measured) > _MORE_THAN_ALL:
        notes += (
            " Shares add up to more than the budget, since no replaced record moves all groups as far as it could move "
            "each."
        )
    if any(len(each.groups) > 1 for each in found.measured):
        notes += (
            " Several groups in a line are a bundle: noised together, they pay for their share once. A slice is a cell "
            "that all of them count; each has noise of its own."
        )
    return f"The plan, {made} for {aim}, has {rows} in {groups}.{notes}"


def _measured_lines(found: Explanation) -> list[tuple[str, ...]]:
    lines = [
        (f"{each.share:.1%}", f"{len(each.groups):,}", f"{each.slices:,}", f"{each.rows:,}", _few(each.groups))
        for each in found.measured[:_MOST_LINES]
    ]
    rest = found.measured[_MOST_LINES:]
    if rest:
        groups, rows = sum(len(each.groups) for each in rest), sum(each.rows for each in rest)
        share = sum(each.share for each in rest)
        lines.append((f"{share:.1%}", f"{groups:,}", "", f"{rows:,}", f"{len(rest):,} more"))
    return [("share", "groups", "slices", "counts", "of"), *lines]


def _ratios_of(found: Explanation) -> str:
    judged = "weighted as the tables are" if found.objective == "total" else "of the largest error"
    return f"Standard error of a cell (root mean square) by strategy, and the ratio to this plan, {judged}:"


def _other_lines(found: Explanation) -> list[tuple[str, ...]]:
    own = (error_text(found.std_error), "1.000", f"{found.strategy} (this plan)")
    usable = [
        (error_text(each.std_error), f"{each.ratio:,.3f}", each.strategy)
        for each in found.others
        if each.std_error is not None and each.ratio is not None
    ]
    return [("std. error", "ratio", "strategy"), own, *usable]


def _closing(found: Explanation) -> str:
    if found.limit is None:
        return "Limit: none is known for this workload and guarantee."
    what = "root mean square error" if found.objective == "total" else "largest standard error"
    wanted = (
        ""
        if found.objective == "total"
        else " (A plan does not record wanted errors per table; if there were any, it was made for those.)"
    )
    name = "Yardstick" if found.limit.kind == "yardstick" else "Limit"
    least, most = found.limit.std_error, found.limit.ratio
    if found.limit.kind != "optimum":  # a bound is rounded to the safe side
        steps = 100 if least >= 0.01 else 10 ** (1 - math.floor(math.log10(least)))
        least = math.floor(least * steps) / steps
        most = math.ceil(most * 1000) / 1000
    own = found.limit.std_error * found.limit.ratio
    weighted, at = "", f"{most:.3f} times that"
    if found.objective == "total" and not math.isclose(own, found.std_error, rel_tol=_EQUAL):
        weighted, at = ", weighted as the tables are,", f"{at}, {error_text(own)}"
    return f"{name}: a {what}{weighted} of {error_text(least)}; this plan is at {at}. {SAYS[found.limit.kind]}{wanted}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMED])
    return shown if len(names) <= _MOST_NAMED else f"{shown} and {len(names) - _MOST_NAMED:,} more"


def _columns(lines: Sequence[Sequence[str]]) -> list[str]:
    """Right-align all columns but the last."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)][:-1]
    return ["  ".join([*map(str.rjust, line[:-1], widths), line[-1]]) for line in lines]


def _html_table(lines: Sequence[Sequence[str]]) -> str:
    def row(fields: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(field)}</{tag}>" for field in fields) + "</tr>"

    body = "".join(row(line, "td") for line in lines[1:])
    return f"<table><thead>{row(lines[0], 'th')}</thead><tbody>{body}</tbody></table>"
