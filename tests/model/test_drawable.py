"""Which law of max-norm noise a bundle is drawn from, by its scale and its rows."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from privcube import Measure, Plan, PureDP, Schema, Workload, plan
from privcube.model.frame import Frame
from privcube.model.groups import MatrixGroup
from privcube.model.noise import drawable as module
from privcube.model.noise.drawable import drawable, fine_laws
from privcube.model.slices import largest_scale


@cache
def planned() -> Plan:
    made = plan(Workload.all_kway(Schema.from_sizes({"a": 2, "b": 2}), 1), PureDP(1), "search")
    assert [len(bundle) for bundle in made.noised_together] == [2]
    return made


def bundled(epsilon: str) -> Plan:
    """A bundle of two groups, two rows each, with noise of whole numbers."""
    return replace(planned(), guarantee=PureDP(epsilon), laws=("max_norm",))


def test_noise_is_rounded_from_the_scale_on_that_cannot_be_drawn() -> None:
    """By tenths of an epsilon: the first of them whose scale is too wide, and the one before it."""
    tenths = [bundled(f"0.{'0' * zeros}1") for zeros in range(9)]
    wide = [made.drawn_scale(0) > largest_scale(made.rows) for made in tenths]
    assert not wide[0]
    assert wide[-1]
    assert wide == sorted(wide)
    for made, too_wide in zip(tenths, wide, strict=True):
        assert drawable(made).noise_laws == (("rounded_max_norm",) if too_wide else ("max_norm",))


def test_noise_of_too_many_rows_or_of_one_group_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = bundled("0.00001")
    monkeypatch.setattr(module, "MOST_ON_SECTION", wide.rows)
    assert drawable(wide).noise_laws == ("rounded_max_norm",)
    monkeypatch.setattr(module, "MOST_ON_SECTION", wide.rows - 1)
    assert drawable(wide) is wide
    alone = plan(Workload.all_kway(Schema.from_sizes({"a": 3}), 1), PureDP("0.00001"), "search")
    assert drawable(alone) is alone


def test_groups_without_parts_in_common_that_are_few_are_rounded() -> None:
    """Steps of 10^6 and of 10^6 - 1 have 10^12 parts in common; a group alone has its own, and other laws need none."""
    schema = Schema([Measure("x", low=0, high=10**6, step=1), Measure("y", low=0, high=10**6 - 1, step=1)])
    frame = Frame(schema, "natural")
    groups = [MatrixGroup((name,), ((1, 0), (0, 1))) for name in ("x", "y", "x", "y")]
    both = MatrixGroup(("x", "y"), ((1, 0, 0, 1),))  # which is too many parts by itself
    assert fine_laws(frame, groups, [[0, 1], [2], [3]], ["max_norm"] * 3) == [
        "rounded_max_norm",
        "max_norm",
        "max_norm",
    ]
    assert fine_laws(frame, groups, [[0, 2], [1, 3]], ["max_norm"] * 2) == ["max_norm"] * 2
    assert fine_laws(frame, groups, [[0, 1], [2, 3]], ["section", "gram"]) == ["section", "gram"]
    assert fine_laws(frame, [both], [[0]], ["max_norm"]) == ["max_norm"]
