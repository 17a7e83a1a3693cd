"""Searches of these tests are small: they are about promises, which do not depend on the number of particles.

Answers are made up, so that facts may be anything; some tests are about those that a release contradicts.
"""

from __future__ import annotations

import math

import pytest

from privcube.released.whole import facts, search


@pytest.fixture(autouse=True)
def few_particles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(search._PARTICLES, "fast", 2**11)


@pytest.fixture(autouse=True)
def any_facts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "contradict" not in request.node.name:
        monkeypatch.setattr(facts, "FAR", math.inf)
