"""Plans keep their content: frame, groups and bundles exactly, shares and predicted variances but for rounding.

Where a change of plans is meant, `python tests/golden/pinned_plans.py --write` writes pinned_plans.json anew.
"""

from __future__ import annotations

import json

import pytest
from pinned_plans import FILE, PINNED, found

CONTENT = json.loads(FILE.read_text(encoding="utf-8"))
NUMERICAL = {
    "matrix, pure",
    "matrix, Gaussian",
    "auto, Gaussian levels",
    "auto, Gaussian ranges",
}  # see `content` there


def test_all_plans_are_pinned() -> None:
    assert list(CONTENT) == list(PINNED)


@pytest.mark.parametrize("name", PINNED)
def test_content_of_a_plan(name: str) -> None:
    made, pinned = found(name), CONTENT[name]
    assert (made["sha256"], made["groups"]) == (pinned["sha256"], pinned["groups"])
    assert made["shares"] == pytest.approx(pinned["shares"], rel=1e-6, abs=1e-9)
    assert made["variances"] == pytest.approx(pinned["variances"], rel=1e-4 if name in NUMERICAL else 1e-7)
