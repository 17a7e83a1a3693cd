"""Which law of max-norm noise a bundle is drawn from, by its scale and its rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from privcube import Plan, PureDP, Schema, Workload, plan
from privcube.model.noise import drawable as module
from privcube.model.noise.drawable import drawable
from privcube.model.slices import largest_scale


def bundled(epsilon: str) -> Plan:
    """A bundle of two groups, two rows each, with noise of whole numbers."""
    made = plan(Workload.all_kway(Schema.from_sizes({"a": 2, "b": 2}), 1), PureDP(epsilon), "search")
    assert [len(bundle) for bundle in made.noised_together] == [2]
    return replace(made, laws=("max_norm",))


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
