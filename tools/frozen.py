"""Noise and clock that stand still, so that a page shows the same figures whenever it is made.

For pages alone: nothing in the package knows of this, and whoever could call it here could read the records anyway.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

import numpy as np

from privcube.sensitive.ledger import durable
from privcube.sensitive.noise import bits

FIRST_DAY = datetime(2030, 5, 1, 9, 0, tzinfo=UTC)


class _Words:
    """Stands in for the module `os` where noise asks it for random words."""

    def __init__(self, name: str) -> None:
        self._generator = np.random.default_rng(np.frombuffer(hashlib.sha256(name.encode()).digest(), dtype=np.uint32))

    def urandom(self, count: int) -> bytes:
        return self._generator.bytes(count)


class _Clock:
    """A minute later whenever it is asked."""

    def __init__(self) -> None:
        self._asked = 0

    def __call__(self) -> datetime:
        self._asked += 1
        return FIRST_DAY + timedelta(minutes=self._asked)


def freeze(name: str) -> None:
    """From now on all noise of this process follows from a name."""
    bits.os = _Words(name)  # type: ignore[assignment]
    durable._now = _Clock()
