"""Plans over all strategies, guarantees, neighbors, levels, ranges, bundles and objectives, whose content is pinned.

`python tests/golden/pinned_plans.py --write` writes pinned_plans.json anew, with the content that plans have now. Look
at its differences before you commit them: a plan that changes without being meant to is a mistake.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from privcube import ZCDP, ApproxDP, Attribute, Level, Plan, PureDP, Schema, Workload, plan, plan_for
from privcube.planning import largest
from privcube.planning.search import annealing

_BITS: Final = Schema.from_sizes({f"b{i}": 2 for i in range(6)})
_MIXED: Final = Schema.from_sizes({"sex": 2, "race": 5, "age": 8, "region": 3})
_LEVELED: Final = Schema(
    [
        Attribute("age", bins=[0, 15, 30, 45, 65, 80, 120], levels=[Level("stage", groups={
            "young": ["[0, 15)", "[15, 30)"],
            "adult": ["[30, 45)", "[45, 65)"],
            "old": ["[65, 80)", "[80, 120)"],
        })]),
        Attribute("area", values=["a", "b", "c", "d", "e"], levels=[Level("part", groups={
            "north": ["a", "b"], "south": ["c", "d", "e"],
        })]),
        Attribute("sex", values=["F", "M"]),
    ]
)  # fmt: skip
_SMALL: Final = Schema.from_sizes({"sex": 2, "race": 5, "region": 3})
_SCALE: Final = Schema([Attribute("income", bins=list(range(0, 33, 2))), Attribute("sex", values=["F", "M"])])

_TWO_WAY: Final = Workload.all_kway(_MIXED, 1) | Workload.all_kway(_MIXED, 2)
_FEW: Final = Workload.all_kway(_SMALL, 1) | Workload.all_kway(_SMALL, 2)
_TWO: Final = Schema.from_sizes({"sex": 2, "race": 5})
_LEVELS: Final = Workload.closure(_LEVELED, [("age", "area")]) | Workload.all_kway(_LEVELED, 1)
_RANGES: Final = Workload.ranges(_SCALE, ["income"]) | Workload.all_kway(_SCALE, 2)

PINNED: Final[dict[str, Callable[[], Plan]]] = {
    "base counts": lambda: plan(_TWO_WAY, PureDP(1), "base_counts"),
    "marginals, uniform, direct": lambda: plan(
        _TWO_WAY, PureDP(1), "marginals", budgets="uniform", recovery="direct"
    ),
    "marginals, optimal": lambda: plan(_TWO_WAY, PureDP("0.3"), "marginals"),
    "marginals, iterated, replace one": lambda: plan(
        _TWO_WAY, PureDP(1, neighbors="replace_one", max_rows_per_person=3), "marginals", budgets="iterated"
    ),
    "marginals, Gaussian": lambda: plan(_TWO_WAY, ZCDP("0.1", neighbors="replace_one"), "marginals"),
    "fourier": lambda: plan(_TWO_WAY, PureDP(1), "fourier", budgets="iterated"),
    "fourier, classic": lambda: plan(_TWO_WAY, ApproxDP("0.5", "1e-6", calibration="classic"), "fourier"),
    "clusters": lambda: plan(Workload.kway_plus_half(_BITS, 2), PureDP(1), "clusters", budgets="iterated"),
    "clusters, direct": lambda: plan(Workload.kway_plus_half(_BITS, 2), PureDP(1), "clusters", recovery="direct"),
    "hierarchy, direct": lambda: plan(_RANGES, PureDP(1), "hierarchy", recovery="direct"),
    "hierarchy, Gaussian": lambda: plan(_RANGES, ZCDP(1), "hierarchy", budgets="iterated"),
    "wavelet": lambda: plan(_RANGES, PureDP(1), "wavelet"),
    "residual": lambda: plan(_TWO_WAY, ApproxDP(1, "1e-6", calibration="zcdp"), "residual"),
    "residual, levels": lambda: plan(_LEVELS, ZCDP("0.2", neighbors="replace_one"), "residual"),
    "sketch": lambda: plan(Workload.all_kway(Schema.from_sizes({"a": 3, "b": 4}), 1), PureDP(1), "sketch"),
    "matrix, pure": lambda: plan(Workload.prefixes(_SCALE, ["income"]), PureDP(1), "matrix"),
    "matrix, Gaussian": lambda: plan(Workload.ranges(_SCALE, ["income"]), ZCDP(1), "matrix"),
    "search": lambda: plan(Workload.kway_plus_attribute(_BITS, 1, "b0"), PureDP(1), "search"),
    "auto, mixed sizes": lambda: plan(_TWO_WAY, PureDP(1)),
    "auto, levels": lambda: plan(_LEVELS, PureDP(2)),
    "auto, ranges": lambda: plan(_RANGES, PureDP(1)),
    "auto, Gaussian levels": lambda: plan(_LEVELS, ApproxDP(1, "1e-6", calibration="zcdp")),
    "auto, Gaussian ranges": lambda: plan(_RANGES, ZCDP(1)),
    "auto, wide budget": lambda: plan(Workload.all_kway(_BITS, 2), PureDP(10)),
    "largest, pure": lambda: plan(_FEW, PureDP(1), objective="largest"),
    "largest, Gaussian": lambda: plan(_TWO_WAY, ZCDP("0.5"), objective="largest"),
    "wanted": lambda: plan(Workload.full_cube(_TWO), PureDP(1), wanted={("sex",): 3, ("sex", "race"): 9}),
    "accuracy first": lambda: plan_for(Workload.all_kway(_TWO, 1), {("sex",): 10, ("race",): 20}, PureDP(1)),
    "accuracy first, Gaussian": lambda: plan_for(Workload.all_kway(_MIXED, 2), {("sex", "race"): 10}, ZCDP(1)),
}  # fmt: skip

FILE: Final = Path(__file__).with_suffix(".json")


def found(name: str) -> dict[str, Any]:
    """What is pinned of the plan of this name, made by searches that end soon: they change if anything in them does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(annealing._SECONDS, "fast", 0.05)
        patch.setattr(largest, "_SEARCHES", 1)
        return content(PINNED[name]())


def content(made: Plan) -> dict[str, Any]:
    """What is pinned of a plan. Entries of matrices are not: they come out of numerical searches."""
    document = json.loads(made.to_json())
    groups = [
        {**group, "rows": len(group["rows"])} if isinstance(group, dict) and "rows" in group else group
        for group in document["groups"]
    ]
    frame = [document["frame"][part] for part in ("kind", "branching", "leveled")]
    canonical = json.dumps([frame, groups, document["bundles"]], sort_keys=True, separators=(",", ":"))
    return {
        "sha256": hashlib.sha256(canonical.encode()).hexdigest(),
        "groups": len(groups),
        "shares": [share / document["denominator"] for share in document["shares"]],
        "variances": document["predicted_variance_per_cell"],
    }


def main() -> None:
    """Write the file."""
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python tests/golden/pinned_plans.py --write")
    pinned = {name: found(name) for name in PINNED}
    lines = (f" {json.dumps(name)}: {json.dumps(made)}" for name, made in pinned.items())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
