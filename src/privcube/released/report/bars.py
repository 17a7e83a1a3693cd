"""Bars with intervals as SVG, drawn by hand: readable in print, where color alone tells nothing. Zone: RELEASED."""

from __future__ import annotations

import math
from html import escape
from typing import Final

from privcube.released.report.content import Chart

_WIDTH: Final = 720
_LABELS: Final = 250  # of the width
_TEXTS: Final = 130
_ROW: Final = 18
_LONGEST: Final = 40  # characters of a label


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers from low to high, at most so many and a few more.

    >>> ticks(-3, 100), ticks(0, 0.7)
    ([0.0, 50.0, 100.0], [0.0, 0.2, 0.4, 0.6000000000000001])
    """
    span = high - low
    if not 0 < span < math.inf:
        return [low]
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= span / most)
    return [step * at for at in range(math.ceil(low / step), math.floor(high / step) + 1)]


def extent(chart: Chart) -> tuple[float, float]:
    """From the lowest to the highest number, zero included."""
    ends = [end for bar in chart.bars for end in (bar.low, bar.high, bar.estimate) if math.isfinite(end)]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    return (low, high) if high > low else (low, low + 1.0)


def shortened(label: str) -> str:
    """A label that fits beside a bar."""
    return label if len(label) <= _LONGEST else f"{label[: _LONGEST - 1]}…"


def svg(chart: Chart) -> str:
    """A chart as SVG; its text says all that it shows."""
    low, high = extent(chart)
    plot = _WIDTH - _LABELS - _TEXTS
    height = _ROW * len(chart.bars) + 24

    def x(number: float) -> float:
        return round(_LABELS + (number - low) / (high - low) * plot, 1) if math.isfinite(number) else _LABELS

    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(chart.title)}" '
        f'xmlns="http://www.w3.org/2000/svg">'
    ]
    for tick in ticks(low, high):
        parts.append(f'<line class="grid" x1="{x(tick)}" x2="{x(tick)}" y1="0" y2="{height - 18}"/>')
        parts.append(f'<text class="tick" x="{x(tick)}" y="{height - 4}">{tick:,.10g}</text>')
    for number, bar in enumerate(chart.bars):
        top = _ROW * number
        middle = top + _ROW / 2
        kind = bar.trust.replace(" ", "-")
        left, right = sorted((x(0.0), x(bar.estimate)))
        parts.append(f'<g class="{kind}"><title>{escape(f"{bar.label}: {bar.text} ({bar.trust})")}</title>')
        parts.append(f'<text class="label" x="{_LABELS - 8}" y="{middle + 4}">{escape(shortened(bar.label))}</text>')
        parts.append(
            f'<rect class="bar" x="{left}" y="{top + 4}" width="{round(right - left, 1)}" height="{_ROW - 8}"/>'
            f'<line class="whisker" x1="{x(bar.low)}" x2="{x(bar.high)}" y1="{middle}" y2="{middle}"/>'
        )
        parts.append(f'<text class="value" x="{_WIDTH - _TEXTS + 8}" y="{middle + 4}">{escape(bar.text)}</text></g>')
    parts.append(f'<line class="zero" x1="{x(0.0)}" x2="{x(0.0)}" y1="0" y2="{height - 18}"/></svg>')
    return "".join(parts)
