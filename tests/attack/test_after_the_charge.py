"""What is charged is published: random specs, from records to a folder that `verify` takes, or a refusal that is free.

Whatever can be known before the charge must be refused before it. So no random spec, however odd, may fail once its
ledger is charged: with measures, facts that are publicly known (some contradict each other), whole numbers, words,
persons, conditions, levels, ranges, every guarantee, tiny and huge budgets. `PRIVCUBE_ATTACK` multiplies how many are
tried; as a script it takes a first seed and a number, and prints what was refused and what failed.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from privcube import Release
from privcube.errors import PrivcubeError
from privcube.model.documents.spec import Spec
from privcube.pipeline import ledger_status, publish
from privcube.planning.search import annealing
from privcube.released.artifact.verification import verify

ATTACK = int(os.environ.get("PRIVCUBE_ATTACK", "1"))
SEED = int(os.environ.get("PRIVCUBE_SEED", "0"))
WORDS = ["Age", "=1+1", "<b>x</b>", "a; b", '"quoted"', "\u05e9\u05dc\u05d5\u05dd", "x" * 90, "-1", "@sum", "caf\u00e9"]


def any_attribute(dice: random.Random, name: str) -> dict[str, Any]:
    count = dice.choice([1, 2, 2, 3, 4, 6])
    declared: dict[str, Any] = {"name": name}
    kind = dice.randrange(4)
    if kind == 0:
        declared |= {"values": [f"v{at}" for at in range(count)], "other": "category"}
        if count > 2 and dice.random() < 0.5:
            half = declared["values"]
            declared["levels"] = [{"name": "half", "groups": {"x": half[:1], "y": half[1:]}}]
            if dice.random() < 0.4:  # one that does not nest
                ends = {"x": [half[0], half[-1]], "y": half[1:-1]}
                declared["levels"].append({"name": "ends", "of": name, "groups": ends})
    elif kind == 1:
        declared |= {
            "bins": list(range(count + 1)),
            "underflow": "clamp",
            "overflow": dice.choice(["clamp", "category"]),
        }
        declared["other"] = "category"
    elif kind == 2:
        declared |= {"size": count, "other": dice.choice(["category", "drop"])}
    else:
        declared |= {"values": list(range(count)), "ordered": True, "other": "category"}
    declared["missing"] = dice.choice(["category", "category", "drop"])
    if dice.random() < 0.3:
        declared |= {"title": dice.choice(WORDS), "description": dice.choice(WORDS)}
    return declared


def any_measure(dice: random.Random, name: str) -> dict[str, Any]:
    declared: dict[str, Any] = {"name": name, "low": dice.choice([0, -3]), "high": 6, "step": dice.choice([1, 3])}
    declared |= {"missing": "category", "other": "category", "underflow": "clamp"}
    declared["overflow"] = dice.choice(["clamp", "category"])
    return declared | ({"knots": [3]} if dice.random() < 0.3 else {})


def any_entry(dice: random.Random, attribute: dict[str, Any]) -> Any:
    ordered = "bins" in attribute or attribute.get("ordered")
    if ordered and dice.random() < 0.25:
        return {"attribute": attribute["name"], "queries": dice.choice(["ranges", "prefixes"])}
    if attribute.get("levels") and dice.random() < 0.5:
        return {"attribute": attribute["name"], "level": dice.choice(attribute["levels"])["name"]}
    return attribute["name"]


def any_privacy(dice: random.Random) -> dict[str, Any]:
    amount = dice.choice(["1e-6", "0.01", "1", "20", "3000"])
    told = [{"epsilon": amount}, {"rho": amount}, {"epsilon": "2", "delta": "1e-6"}][dice.randrange(3)]
    told |= {"calibration": dice.choice(["exact", "zcdp"])} if "delta" in told else {}
    totals = {f"total_{name}": amount for name, amount in told.items() if name != "calibration"}
    return {**told, **totals, "neighbors": dice.choice(["add_remove", "replace_one"]), "ledger": "ledger.db"}


def any_label(dice: random.Random, attribute: dict[str, Any]) -> Any:
    if "bins" in attribute:
        return dice.choice([f"[{at}, {at + 1})" for at in range(len(attribute["bins"]) - 1)])
    return dice.choice(attribute.get("values") or list(range(attribute["size"])))


def any_spec(dice: random.Random) -> dict[str, Any]:
    privacy = any_privacy(dice)
    wide = privacy.get("epsilon", privacy.get("rho")) != "3000"
    measures = [any_measure(dice, f"m{at}") for at in range(dice.choice([0, 0, 0, 1, 2]) * wide)]
    # intervals of means take long, those under narrow noise very long
    attributes = [any_attribute(dice, f"a{at}") for at in range(1 if measures else dice.randint(1, 4))]
    tables = {
        str(table): table
        for table in (
            [any_entry(dice, each) for each in dice.sample(attributes, dice.randint(0, len(attributes)))]
            for _ in range(dice.randint(1, 3))
        )
    }
    document: dict[str, Any] = {
        "data": {"source": "people.csv", "dataset": "people"},
        "privacy": privacy,
        "attributes": attributes,
        "workload": {"tables": [{"attributes": table} for table in tables.values()]},
        "plan": {
            "strategy": dice.choice(["auto", "auto", "search", "residual", "fourier", "marginals", "base_counts"])
        },
        "output": {"path": "out"},
    }
    if measures:
        document["measures"] = measures
        document["workload"]["measures"] = [dice.choice(measures)["name"]]
    if dice.random() < 0.3:
        document["data"] |= {"person": "who", "max_rows_per_person": dice.choice([1, 3])}
    if dice.random() < 0.2:
        document["data"]["where"] = {"status": ["in"]}
    if dice.random() < 0.4:
        document["known"] = {"records": dice.choice([0, 1, 30, 10**6])}
    if dice.random() < 0.3:
        chosen = dice.sample(attributes, dice.randint(1, min(2, len(attributes))))
        document["impossible"] = [
            {each["name"]: [any_label(dice, each)] for each in chosen} for _ in range(dice.randint(1, 2))
        ]
    if dice.random() < 0.4:
        document["output"] |= {"whole_numbers": True, "records": dice.random() < 0.5, "effort": "fast"}
    if dice.random() < 0.3:
        document["output"]["decimals"] = dice.choice([0, 1, 6])
        document["about"] = {"title": dice.choice(WORDS), "unit": dice.choice(WORDS)}
    if dice.random() < 0.2:
        document["plan"]["recovery"] = "direct"
    return document


def records(dice: random.Random, document: dict[str, Any]) -> str:
    names = [each["name"] for each in (*document["attributes"], *document.get("measures", ()))]
    values = ["", "v0", "v1", "0", "1", "2", "5", "99", "-4", "2.4", "NaN", "x"]
    lines = [",".join(["who", "status", *names])]
    for _ in range(dice.choice([0, 1, 30])):
        who, status = f"p{dice.randrange(9)}", dice.choice(["in", "out"])
        lines.append(",".join([who, status, *(dice.choice(values) for _ in names)]))
    return "\n".join(lines) + "\n"


def attempt(seed: int, folder: Path) -> str:
    """What becomes of a spec: refused for nothing, or published and verified; anything else fails."""
    dice = random.Random(seed)
    document = any_spec(dice)
    (folder / "people.csv").write_text(records(dice, document), encoding="utf-8")
    try:
        spec = Spec.from_toml(tomli_w.dumps(document))
    except PrivcubeError as problem:
        return f"no spec: {problem.subject}"
    told = ""
    try:
        publish(spec, folder=folder)
    except PrivcubeError as problem:
        told = f"{problem}"
        if not (folder / "out").exists():
            if (folder / "ledger.db").exists() and ledger_status(spec, folder=folder).entries:
                raise AssertionError(f"charged, then failed: {problem}") from problem
            return f"refused: {problem.subject}"
    checks = verify(folder / "out")
    assert all(check.passed for check in checks), [check for check in checks if not check.passed]
    found = Release.open(folder / "out")
    for table in found.workload:
        found.values(table)
    return f"published, but {told}" if told else "published"


@pytest.fixture(autouse=True)
def _short_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annealing, "_SECONDS", dict.fromkeys(annealing._SECONDS, 0.01))


QUICK = [1, 6, 8, 9, 10, 13, 14, 15, 20, 25]  # in `make test`, specs that are published within half a second
TENS = [range(SEED + start, SEED + start + 10) for start in range(0, 10 * ATTACK, 10)] if ATTACK > 1 else [QUICK]


@pytest.mark.parametrize("seeds", TENS, ids=lambda seeds: f"from {seeds[0]}")
def test_what_is_charged_is_published(seeds: Sequence[int], tmp_path: Path) -> None:
    found = Counter[str]()
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        found[attempt(seed, folder).partition(":")[0]] += 1
    assert found["published"] >= 2, found


if __name__ == "__main__":
    annealing._SECONDS.update(dict.fromkeys(annealing._SECONDS, 0.01))
    outcomes = Counter[str]()
    for number in range(int(sys.argv[1]), int(sys.argv[1]) + int(sys.argv[2])):
        with tempfile.TemporaryDirectory() as place:
            try:
                outcomes[attempt(number, Path(place))] += 1
            except Exception:
                outcomes["FAILED"] += 1
                print(number, traceback.format_exc()[-1_500:], flush=True)  # noqa: T201
    for outcome, times in outcomes.most_common():
        print(times, outcome)  # noqa: T201
