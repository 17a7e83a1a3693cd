"""Searches of this room compare few starts, too: what is tested holds for any plan."""

from __future__ import annotations

import pytest

from privcube.planning.search import search


@pytest.fixture(autouse=True)
def _few_starts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "whole_search" not in request.fixturenames:
        monkeypatch.setitem(search._STARTS, "fast", 0.05)
        monkeypatch.setattr(search, "_LEAST_FOR_STARTS", 0.05)
