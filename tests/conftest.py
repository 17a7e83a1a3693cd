"""What all rooms share: how much work something is, how long searches are, and garbage that is not looked for."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings

from privcube.planning import largest
from privcube.planning.search import annealing

# Examples and their making may take as long as a busy machine needs.
settings.register_profile("privcube", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("privcube")


class Effort:
    """How many calls were made, of functions in Python or in C, and how much memory was taken at once."""

    def __init__(self) -> None:
        self.calls = 0
        self.most_bytes = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count what is done meanwhile."""

        def seen(frame: FrameType, event: str, argument: object) -> None:
            self.calls += event in ("call", "c_call")

        tracemalloc.start()
        sys.setprofile(seen)
        try:
            yield
        finally:
            sys.setprofile(None)
            self.most_bytes = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()


@pytest.fixture
def effort() -> Effort:
    """A count of calls and bytes: `with effort.counted(): ...`"""
    return Effort()


@pytest.fixture
def whole_search() -> None:
    """Searches as long as users have them, for tests of how good a plan is."""


@pytest.fixture
def short_search() -> None:
    """Searches that end soon, in rooms that have whole ones."""


_WHOLE_SEARCHES = ("golden", "guide")  # rooms to which the plan matters
_LONG = (annealing._SECONDS["fast"], largest._SEARCHES)
_SHORT = (0.02, 1)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Searches for a plan end soon, unless the test asks for whole ones."""
    room = item.path.relative_to(Path(__file__).parent).parts[0]
    asked = getattr(item, "fixturenames", ())
    whole = (room in _WHOLE_SEARCHES or "whole_search" in asked) and "short_search" not in asked
    annealing._SECONDS["fast"], vars(largest)["_SEARCHES"] = _LONG if whole else _SHORT


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Tests and modules stay to the end: looking for garbage among them took a quarter of the time of collecting."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
