"""One exception tree; a message is one line of bounded length and says what is available."""

from __future__ import annotations

import pickle

import pytest

from privcube import errors
from privcube.errors import PrivcubeError, listed, quoted

EVERY = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]


@pytest.mark.parametrize("kind", EVERY)
def test_one_root_and_drawn_in_the_docstring(kind: type[Exception]) -> None:
    assert issubclass(kind, PrivcubeError)
    assert kind.__name__ in (errors.__doc__ or "")


@pytest.mark.parametrize("kind", EVERY)
def test_survives_the_way_back_from_a_worker(kind: type[PrivcubeError]) -> None:
    """A process pool pickles the error; one that cannot be rebuilt takes the whole pool down."""
    problem = kind("epsilon", expected="a number", given="x", available=["y"])
    back = pickle.loads(pickle.dumps(problem))
    assert (type(back), str(back), vars(back)) == (kind, str(problem), vars(problem))


def test_names_the_nearest() -> None:
    assert "did you mean 'age'?" in str(PrivcubeError("x", expected="y", given="agee", available=["sex", "age"]))
    assert "did you mean" not in str(PrivcubeError("x", expected="y", given="zzz", available=["sex", "age"]))
    assert (
        str(PrivcubeError("x", expected="y", given=None, available=[]))
        == "x: expected y, given None; available: nothing"
    )


def test_long_things_are_cut() -> None:
    nested: dict[str, object] = {}
    for _ in range(10**5):
        nested = {"a": nested}
    for value in ("x" * 10**6, 10**10_000, list(range(10**5)), nested):
        assert len(quoted(value)) < 120
    assert listed(str(number) for number in range(1000)).endswith("10, 11 and 988 more")
