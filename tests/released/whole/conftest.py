"""Searches of these tests are small: they are about promises, which do not depend on the number of particles."""

from __future__ import annotations

import pytest

from privcube.released.whole import search


@pytest.fixture(autouse=True)
def few_particles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(search._PARTICLES, "fast", 2**11)
