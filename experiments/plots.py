"""How plots look: one style per strategy, panels as in the paper's figures, files that do not change by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib import pyplot as plt

plt.switch_backend("Agg")
plt.rcParams.update({
    "svg.hashsalt": "privcube",  # the same plot gives the same file
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
})  # fmt: skip

LAYOUT = "constrained"

_GREY, _BLUE, _GREEN, _ORANGE, _RED = "#7f7f7f", "#1f77b4", "#2ca02c", "#ff7f0e", "#d62728"
_COLORS: Final = {"I": _GREY, "Q": _BLUE, "F": _GREEN, "C": _ORANGE, "auto": "black", "residual": _RED}
_MARKERS: Final = {"I": "x", "Q": "s", "F": "^", "C": "D", "auto": "o", "residual": "o"}


def style(symbol: str) -> dict[str, Any]:
    """Color and marker of a strategy's family; dashed for uniform budgets, ours thicker."""
    family = symbol.rstrip("+")
    own = family in ("auto", "residual")
    return {
        "color": _COLORS[family],
        "marker": _MARKERS[family],
        "linestyle": "-" if symbol.endswith("+") or own or family == "I" else "--",
        "markerfacecolor": _COLORS[family] if symbol.endswith("+") or own else "white",
        "linewidth": 2.2 if own else 1.3,
        "label": symbol,
    }


def bar_style(symbol: str) -> dict[str, Any]:
    """The same for bars: filled for optimal budgets."""
    look = style(symbol)
    return {"edgecolor": look["color"], "facecolor": look["markerfacecolor"], "linewidth": 1, "label": symbol}


def panels(rows: int, columns: int, *, shared: bool = True, width: float = 3.3) -> tuple[Any, Any]:
    """A figure of small panels; the axes as an array."""
    return plt.subplots(
        rows, columns, figsize=(width * columns, 2.7 * rows + 0.9), sharex=shared, sharey="row" if shared else False,
        squeeze=False, layout=LAYOUT,
    )  # fmt: skip


def legend_below(figure: Any, axes: Any, columns: int) -> None:
    """One legend for all panels, under them."""
    handles, labels = axes.get_legend_handles_labels()
    where = "outside lower center" if LAYOUT == "constrained" else "lower center"
    figure.legend(handles, labels, loc=where, ncols=columns, frameon=False)


def save(figure: Any, folder: Path, name: str) -> None:
    """Write a plot as SVG, without the date."""
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


def epsilon_axis(axes: Any, values: Sequence[float]) -> None:
    """A logarithmic axis with plain numbers."""
    axes.set_xscale("log")
    ticks = [value for value in (0.01, 0.1, 1, 10) if min(values) <= value <= max(values)]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])


def seconds_axis(axes: Any, values: Sequence[float]) -> None:
    """A logarithmic axis of seconds with plain numbers."""
    axes.set_yscale("log")
    axes.set_ylim(min(values) / 1.5, max(values) * 1.5)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
