"""What the page says of the comparison with other systems, from its files alone: for those who choose a system."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from experiments.data import STAND_IN
from experiments.peer_children import LEFT_OUT, OK
from experiments.peer_systems import OURS, PRIVCUBE, SYSTEMS, WHOLE
from experiments.results import chosen, escaped, read_rows, short

Rows = Sequence[dict[str, str]]
_CLEARLY: Final = 0.97  # errors of single releases that are closer than this are taken to be the same
_COST: Final = "processor seconds"
_AGREE: Final = 0.5  # records: tables closer than this on what they share agree; models have rounding errors


def section(folder: Path) -> str:
    """For those who choose a system: what each is, how far off, how long, what it does better."""
    rows, beside = read_rows(folder / "peers.csv"), read_rows(folder / "peers-reference.csv")
    made_up = sorted({row["dataset"] for row in rows if row["data"] == STAND_IN})
    names, epsilon = ", ".join(made_up), rows[0]["epsilon"]
    delta = next(row["delta"] for row in rows if row["delta"])
    parts = [
        "## Compared with other systems",
        "Every system got the same records, the same tables and the same guarantee, adding or removing one record, and "
        "ran with the best settings that it documents, in an environment of its own. Mean absolute error of a count "
        f"in people at ε = {epsilon}, pure, and after the stroke with δ = {delta}:"
        + (f" **(The records of {names} are a {STAND_IN}.)**" if made_up else ""),
        _errors_table(rows),
        "![Error by system](peers.svg)",
        _losses(rows),
        "What they are, and what they do better than privcube; seconds and memory are those of the first workload that "
        "they ran on, pure." + (" Seconds are those of all processors together." if _COST in rows[0] else ""),
        _systems_table(rows),
        _how_often(rows),
        _failures(rows),
        "DP Wizard leads to OpenDP: what it writes runs `contingency_table` or one query per column, so its errors are "
        "those of OpenDP above, or larger.",
        _reference_table(beside),
        "Numbers: [peers.csv](peers.csv)" + (", [peers-reference.csv](peers-reference.csv)." if beside else "."),
    ]
    return "\n\n".join(part for part in parts if part)


def _errors_table(rows: Rows) -> str:
    cases = list(dict.fromkeys((row["dataset"], row["workload"]) for row in rows))
    lines = ["| system | " + " | ".join(f"{data} {escaped(asked)}" for data, asked in cases) + " |"]
    lines.append("|---" * (len(cases) + 1) + "|")
    for peer in SYSTEMS:
        shown = []
        for data, asked in cases:
            own = chosen(rows, dataset=data, workload=asked, system=peer.name)
            words = [short(float(row["error in records"])) if row["status"] == OK else row["status"] for row in own]
            shown.append(words[0] if words[0] == words[-1] == LEFT_OUT else " / ".join(words))
        lines.append(f"| {peer.name} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def _losses(rows: Rows) -> str:
    """Where another system was more accurate, and where it was more accurate than whole numbers as well."""
    lost, points, behind = [], 0, []
    for ours in chosen(rows, system=PRIVCUBE.name, status=OK):
        case = {key: ours[key] for key in ("dataset", "workload", "guarantee")}
        whole = chosen(rows, system=WHOLE.name, status=OK, **case)
        for row in chosen(rows, status=OK, **case):
            if row["system"] in {own.name for own in OURS}:
                continue
            points += 1
            error, own = float(row["error in records"]), float(ours["error in records"])
            if error < _CLEARLY * own:
                name = f"{row['system']} on {row['dataset']} {escaped(row['workload'])}, {row['guarantee']}"
                numbers = "; whole numbers: " + short(float(whole[0]["error in records"])) if whole else ""
                lost.append(f"{name} ({short(error)} against {short(own)}{numbers})")
                if not whole or error < _CLEARLY * float(whole[0]["error in records"]):
                    behind.append(name)
    clearly = f"more accurate by more than {100 * (1 - _CLEARLY):.0f} %"
    if not lost:
        return f"In none of {points} comparisons was another system {clearly}."
    return (
        f"In {len(lost)} of {points} comparisons another system was {clearly} than privcube's estimates: "
        f"{'; '.join(lost)}. Models know that no count is below 0, which helps most where many counts are small; for "
        "that their counts are biased, and no error bars of their counts come with them. Estimates of privcube are "
        "unbiased, and may be below 0. Its [whole numbers](../guide/whole-numbers.md), made of the same release, use "
        f"what models know: another system was {clearly} than these in {len(behind) or 'none'} of them"
        + (f": {'; '.join(behind)}." if behind else ".")
    )


def _systems_table(rows: Rows) -> str:
    lines = [
        "| system | setting | tables agree | error bars | seconds | peak memory (MB) | does better |",
        "|---|---|---|---|---|---|---|",
    ]
    for peer in SYSTEMS:
        ran = chosen(rows, system=peer.name, status=OK)
        if ran:
            apart = max(float(row["largest disagreement"]) for row in ran)
            agree = "yes" if apart < _AGREE else f"no, up to {short(apart)} people apart"
            cost = f"{short(float(ran[0].get(_COST) or ran[0]['seconds']))} | {float(ran[0]['peak MB']):,.0f}"
        else:
            agree, cost = "not run", " | "
        lines.append(f"| {peer.name} | {peer.setting} | {agree} | {peer.error_bars} | {cost} | {peer.better} |")
    return "\n".join(lines)


def _how_often(rows: Rows) -> str:
    """How many releases the errors are means of."""
    made = {peer.name: [int(row["releases"]) for row in chosen(rows, system=peer.name, status=OK)] for peer in SYSTEMS}
    words = [
        f"{name} {min(own)}" + (f" to {max(own)}" if max(own) > min(own) else "") for name, own in made.items() if own
    ]
    return f"Releases that a figure is the mean of: {', '.join(words)}."


def _failures(rows: Rows) -> str:
    """What did not run, with the reasons as they were given."""
    where: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        if row["status"] != OK:
            case = f"{row['dataset']} {escaped(row['workload'])}"
            both = chosen(rows, system=row["system"], dataset=row["dataset"], workload=row["workload"])
            case += f" {row['guarantee']}" if len({each["status"] for each in both}) > 1 else ""
            where.setdefault((row["system"], row["status"], row["reason"]), []).append(case)
    lines = [
        f"- {system}, {', '.join(dict.fromkeys(cases))}: {status}"
        + (f" ({escaped(reason.rstrip('.'))})." if reason else ".")
        for (system, status, reason), cases in where.items()
    ]
    return "\n".join(["What did not run:", "", *lines]) if lines else ""


def _reference_table(rows: Rows) -> str:
    if not rows:
        return "Figures of HDMM and ResidualPlanner were not at hand: that table is left out."
    lines = [
        "HDMM and ResidualPlanner also place the budget for the workload. Root mean square error of a count as they "
        "predict it, beside what privcube predicts for the plan that it makes by default:",
        "",
        "| workload | guarantee | system | its error | privcube | its error over ours |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        theirs, ours, ratio = (float(row[key]) for key in ("rms error", "privcube rms error", "system over privcube"))
        lines.append(
            f"| {row['dataset']} {escaped(row['workload'])} | {row['guarantee']} | {row['system']} | {short(theirs)} "
            f"| {short(ours)} | {ratio:.2f} |"
        )
    worse = [row for row in rows if float(row["system over privcube"]) < 0.995]
    lines += ["", f"privcube's plan is the worse one in {len(worse)} of {len(rows)} (by more than half a percent)."]
    return "\n".join(lines)
