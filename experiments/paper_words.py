"""What the page "The paper reproduced" says, from the files of the studies alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.data import DATASETS, WORKLOADS
from experiments.results import chosen, escaped, short
from experiments.simulate import PAPER

_PAPER: Final = tuple(choice.symbol for choice in PAPER)
_MEANING: Final = {
    "I": "noise on every cell of the table of all attributes",
    "Q": "noise on every wanted table",
    "F": "noise on Fourier coefficients",
    "C": "noise on fewer, larger tables (clusters)",
}
Rows = Sequence[dict[str, str]]


def figures(accuracy: Rows) -> str:
    if not accuracy:
        return ""
    names = [name for name in DATASETS if chosen(accuracy, dataset=name)]
    meaning = "; ".join(f"**{symbol}** {words}" for symbol, words in _MEANING.items())
    return "\n\n".join(
        [
            "## The figures of the paper, with ours beside them",
            f"Strategies: {meaning}. A **+** stands for budgets that are optimal instead of equal, **auto** for the "
            f"plan that "
            "privcube makes by itself. Both axes are logarithmic; lower is better.",
            *[f"![Error over epsilon, {name}](results:accuracy-{name.lower()}.svg)" for name in names],
            _where_beaten(accuracy),
            "Numbers: [accuracy.csv](results:accuracy.csv).",
        ]
    )


def _where_beaten(accuracy: Rows) -> str:
    """Where a strategy of the paper was clearly better than ours: by three standard deviations of a release."""
    beaten = []
    for row in accuracy:
        case = {key: row[key] for key in ("dataset", "workload", "epsilon")}
        (ours,) = chosen(accuracy, strategy="auto", **case)
        spread = 3 * (float(row["scaled error stddev"]) + float(ours["scaled error stddev"]))
        if row["strategy"] in _PAPER and float(row["scaled error"]) + spread < float(ours["scaled error"]):
            beaten.append(
                f"{row['strategy']} on {escaped(row['dataset'] + ' ' + row['workload'])} at ε = {row['epsilon']}"
            )
    points = len({(row["dataset"], row["workload"], row["epsilon"]) for row in accuracy})
    if not beaten:
        return f"At none of the {points} points is a strategy of the paper clearly better than auto."
    return (
        f"Of {points} points, a strategy of the paper is clearly better than auto at these: {'; '.join(beaten)}. "
        "Plans are made with the variance of continuous noise. Where a group gets an epsilon well above 1, "
        "whole-number noise is mostly 0, and to measure few groups with much budget each is better than predicted."
    )


def claims(found: Rows) -> str:
    if not found:
        return ""
    return "\n".join(
        [
            "## Does what the paper says hold?",
            "",
            "The gain of S+ over S is by how much the scaled error falls: as predicted from the variances, and over "
            "the simulated releases with epsilon 0.1 to 1 (± one standard error). The prediction decides.",
            "",
            "| the paper (section 5) | found | verdict | why |",
            "|---|---|---|---|",
            *[
                "| " + " | ".join(escaped(row[column]) for column in ("claim", "found", "verdict", "why")) + " |"
                for row in found
            ],
            "",
            "All readings: [gains.csv](results:gains.csv); all k-way tables: [degrees.csv](results:degrees.csv).",
        ]
    )


def gaussian(accuracy: Rows, delta: Rows, calibration: Rows, prices: Rows) -> str:
    if not delta or not calibration:
        return ""
    body = []
    for name, asked in cases(delta):
        one = chosen(delta, dataset=name, workload=asked, epsilon="1")
        pure = chosen(accuracy, dataset=name, workload=asked, epsilon="1", strategy="auto")
        ours, best = chosen(one, strategy="residual")[0], best_of_paper(one)
        error = float(ours["error in records predicted"])
        beside = short(float(pure[0]["error in records predicted"])) if pure else ""
        body.append(
            f"| {name} {escaped(asked)} | {short(error)} | {short(float(best['error in records predicted']))} "
            f"({best['strategy']}) "
            f"| {beside} |"
        )
    single = chosen(calibration, tables="1")
    small, large = single[0], chosen(single, epsilon="1")[0]
    names = [name for name in DATASETS if chosen(delta, dataset=name)]
    return "\n".join(
        [
            "## With a delta",
            "",
            f"(ε, δ)-differential privacy with δ = {calibration[0]['delta']}, Gaussian noise at its exact price. "
            "`residual` has the least total variance of all linear strategies with such noise; auto takes it, or a "
            "pure plan with the same ε where that is better. Accounted for through zCDP, noise is "
            f"{float(small['zcdp over exact']):.2f} times as large at ε = {small['epsilon']}, "
            f"{float(large['zcdp over exact']):.2f} times at ε = 1; by the paper's classic constant "
            f"{float(small['classic over exact']):.2f} and {float(large['classic over exact']):.2f} times, and beyond "
            "1 that is not proven. Predicted mean error of a count at ε = 1, in people:",
            "",
            "| workload | residual | best of the paper's | pure guarantee, auto |",
            "|---|---|---|---|",
            *body,
            "",
            when_delta_pays(accuracy, delta),
            "",
            *_prices(prices),
            *[f"![Error over epsilon with delta, {name}](results:gaussian-{name.lower()}.svg)\n" for name in names],
            "![Size of the noise by guarantee](results:calibration.svg)",
            "",
            "Numbers: [gaussian.csv](results:gaussian.csv), [prices.csv](results:prices.csv), "
            "[calibration.csv](results:calibration.csv).",
        ]
    )


def _prices(prices: Rows) -> list[str]:
    """Variances by account, and how close they are to the best."""
    if not prices:
        return []
    pairs = list(dict.fromkeys((row["epsilon"], row["delta"]) for row in prices))
    body = []
    for name, asked in cases(prices):
        own = chosen(prices, dataset=name, workload=asked)
        cells = [
            f"{short(float(row['zcdp']))} | {short(float(row['pure']))} | {short(float(row['auto']))} "
            f"({'pure' if row['auto is pure'] == 'True' else 'Gaussian'}) | {float(row['auto over zcdp']):.2f}"
            for row in own
        ]
        body.append(f"| {name} {escaped(asked)} | {' | '.join(cells)} |")
    most = {pair: max(float(row["exact over zcdp"]) for row in prices if _pair(row) == pair) for pair in pairs}
    wide = [float(row["exact over continuous"]) for row in prices if float(row["narrowest row"]) >= 10]
    return [
        f"The variance of a count, as drawn, for (ε, δ) = {' and '.join(f'({e}, {d})' for e, d in pairs)}: discrete "
        "Gaussian noise accounted for through zCDP, the pure guarantee, and what auto takes:",
        "",
        f"| workload | {' | '.join(f'zCDP, ε = {e} | pure | auto | auto over zCDP' for e, _ in pairs)} |",
        f"|---|{'---|' * 4 * len(pairs)}",
        *body,
        "",
        f"Gaussian noise alone has at most {' and '.join(f'{most[pair]:.3f}' for pair in pairs)} of the variance that "
        f"it has through zCDP. To round it to whole numbers adds at most {100 * (max(wide) - 1):.2f} % wherever no row "
        "has noise of a variance below 10.",
        "",
    ]


def _pair(row: dict[str, str]) -> tuple[str, str]:
    return row["epsilon"], row["delta"]


def when_delta_pays(accuracy: Rows, gaussian: Rows) -> str:
    """In how many workloads the pure guarantee, which is the stronger one, is the more accurate one as well."""
    pure, approximate = (
        {
            (row["dataset"], row["workload"]): float(row["error in records predicted"])
            for row in chosen(rows, epsilon="1", strategy=symbol)
        }
        for rows, symbol in ((accuracy, "auto"), (gaussian, "residual"))
    )
    both = [case for case in cases(gaussian) if case in pure]
    better = [f"{name} {asked}" for name, asked in both if pure[name, asked] < approximate[name, asked]]
    if not both:
        return ""
    named = f": {escaped(', '.join(better))}" if better else ""
    return (
        f"The pure guarantee is the stronger one. It is the more accurate one as well on {len(better)} of these "
        f"{len(both)} workloads{named}. "
        "The more tables, the more a delta helps: Laplace noise grows with their number, Gaussian noise with its "
        "root."
    )


def table1(rows: Rows) -> str:
    if not rows:
        return ""
    body = []
    for guarantee in dict.fromkeys(row["guarantee"] for row in rows):
        for symbol in ("I", "Q", "F", "F+"):
            own = chosen(rows, guarantee=guarantee, strategy=symbol)
            constants = [float(row["constant"]) for row in own]
            slack = [float(row["bound over error"]) for row in own]
            body.append(
                f"| {guarantee} | {symbol} | {min(constants):.2f} to {max(constants):.2f} "
                f"| {min(slack):.2f} to {max(slack):.2f} |"
            )
    largest = max(int(row["d"]) for row in rows)
    return "\n".join(
        [
            "## Against the theory: Table 1 with its constants",
            "",
            "Table 1 of the paper bounds the expected error of a table of all k-way tables of d binary attributes, "
            "up to a "
            f"constant. Over all d up to {largest} and k up to {max(int(row['k']) for row in rows)}, k < d/2:",
            "",
            "| guarantee | strategy | error over formula (the constant) | bound with its constants over error |",
            "|---|---|---|---|",
            *body,
            "",
            "![Errors and constants of Table 1](results:table1.svg)",
            "",
            "Numbers: [table1.csv](results:table1.csv).",
        ]
    )


def cases(rows: Rows) -> list[tuple[str, str]]:
    found = {(row["dataset"], row["workload"]) for row in rows}
    return [(name, asked) for name in DATASETS for asked in WORKLOADS if (name, asked) in found]


def best_of_paper(rows: Rows) -> dict[str, str]:
    """The paper's strategy with the least predicted error in records."""
    return min(
        (row for row in rows if row["strategy"] in _PAPER), key=lambda row: float(row["error in records predicted"])
    )
