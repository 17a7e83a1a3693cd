"""`pc.Ledger`, and a release in Python that it pays for."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import privcube as pc

ROWS = pd.DataFrame({"a": [0, 1, 1]})


@pytest.fixture
def plan() -> pc.Plan:
    return pc.plan(pc.Workload.all_kway(pc.Schema.from_sizes({"a": 2}), 1), pc.PureDP("1.5"), "marginals")


def test_a_ledger_pays_for_releases_and_the_command_line_sees_them(
    plan: pc.Plan, tmp_path: Path, write_spec: Callable[..., Path], said: Callable[..., str]
) -> None:
    total = pc.PureDP(4)
    ledger = pc.Ledger.open(tmp_path / "ledger.db", dataset="people-2030", total=total)
    assert (ledger.remaining, ledger.entries(), ledger.total, ledger.dataset) == (4, [], total, "people-2030")
    made = pc.release(plan, ROWS, ledger)
    again = pc.Ledger.open(str(tmp_path / "ledger.db"), dataset="people-2030")
    assert again.remaining == ledger.remaining == Fraction("2.5")
    (entry,) = again.entries()
    assert (entry.plan, entry.guarantee, entry.state) == (plan.digest, plan.guarantee, "reserved")
    assert made.provenance["head"] == entry.head
    pc.release(plan, ROWS, again)
    with pytest.raises(pc.errors.GuaranteeError, match=r"what is left, 1, given one that costs 1\.5") as caught:
        pc.release(plan, ROWS, ledger)
    assert caught.value.__notes__ == ["Nothing was charged."]
    write_spec(privacy='epsilon = "1"\nledger = "ledger.db"\ntotal_epsilon = "4"')
    found = json.loads(said("ledger", "spec.toml", "--json"))
    assert [release["left_after"] for release in found["releases"]] == ["2.5", "1"]
    assert found["next"] == {"cost": "1", "fitting": 1}


@pytest.mark.parametrize(
    ("location", "terms", "words"),
    [
        (3, {"dataset": "people"}, "a file or postgresql"),
        ("ledger.db", {"dataset": 3}, "its name"),
        ("ledger.db", {"dataset": "people", "total": 4}, r"such as pc.PureDP\(4\), given 4"),
        ("ledger.db", {"dataset": "people"}, "a total to create it with"),
        ("ledger.db", {"dataset": "People", "total": pc.PureDP(4)}, "a to z"),
        ("mysql://x", {"dataset": "people", "total": pc.PureDP(4)}, "mysql"),
        ("a\0b", {"dataset": "people", "total": pc.PureDP(4)}, "the path of a file"),
    ],
)
def test_what_is_no_ledger(
    location: Any, terms: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pc.errors.PrivcubeError, match=words):
        pc.Ledger.open(location, **terms)
    assert not list(tmp_path.iterdir())


def test_a_path_is_no_ledger(plan: pc.Plan) -> None:
    with pytest.raises(pc.errors.LedgerError, match=r"expected one such as pc.Ledger.open\(...\) returns") as caught:
        pc.release(plan, ROWS, "ledger.db")  # type: ignore[arg-type]
    assert caught.value.__notes__ == ["Nothing was charged."]
