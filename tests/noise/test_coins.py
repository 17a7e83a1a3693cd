"""Coins with probability exp(-x): the bounds hold the exponential and are tight, and decisions are those of numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from privcube.sensitive.noise import coins as module
from privcube.sensitive.noise.bits import Uniform, system_words
from privcube.sensitive.noise.coins import LARGEST, POINT, bounds, coins, times
from privcube.sensitive.noise.fixed import exp_bounds

UNITS = st.integers(0, LARGEST)


@given(st.lists(st.tuples(UNITS, UNITS), min_size=1))
@example([(0, 0), (1, 1), (2**24, 2**24), (2**56, 2**56 + 1), (LARGEST - 1, LARGEST), (LARGEST, LARGEST), (0, LARGEST)])
def test_bounds(pairs: list[tuple[int, int]]) -> None:
    """exp(-x) is inside for every x from the lower bound to the upper one; for a point the bounds are tight."""
    lowest, highest = (np.array(side) for side in zip(*map(sorted, pairs), strict=True))
    low, high = bounds((lowest, highest))
    for place, (least, most) in enumerate(zip(lowest.tolist(), highest.tolist(), strict=True)):
        assert 0 <= low[place] <= exp_bounds(Fraction(most, 2**POINT), 31)[1]
        assert exp_bounds(Fraction(least, 2**POINT), 31)[0] <= high[place]
        sharp = 400
        assert int(low[place]) << sharp <= exp_bounds(Fraction(most, 2**POINT), 31 + sharp)[0]
        assert int(high[place]) << sharp >= exp_bounds(Fraction(least, 2**POINT), 31 + sharp)[1]
    low, high = bounds((lowest, lowest))
    assert np.all(high - low <= 24)


def test_what_is_certain() -> None:
    """exp(0) is 1: always; bounds that say nothing decide nothing."""
    low, high = bounds((np.array([0, 0]), np.array([0, LARGEST])))
    assert low.tolist() == [2**31, 0]
    assert high[1] >= 2**31


@given(st.lists(st.integers(0, 2**62), min_size=1), st.fractions(0, 10**6))
@example([0, 1, 2**62], Fraction(0))
@example([0, 1, 5], Fraction(10**20))
def test_products(numbers: list[int], factor: Fraction) -> None:
    low, high = (bound.tolist() for bound in times(np.array(numbers), factor))
    for place, number in enumerate(numbers):
        exact = number * factor * 2**POINT
        assert 0 <= low[place] <= exact
        assert exact <= high[place] or high[place] == LARGEST
        assert exact > LARGEST - number or high[place] - low[place] <= number


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(-40, 40)), min_size=1), st.fractions(0, 1))
def test_words_at_the_edge_are_decided_as_real_numbers_are(cases: list[tuple[int, int]], factor: Fraction) -> None:
    """Words right at exp(-x), where 31 bits do not decide, go on with the same following words as one at a time."""
    numbers = np.array([number for number, _ in cases])
    edges = [exp_bounds(number * factor, 64)[0] + off for number, off in cases]
    words = np.array([min(max(edge, 0), 2**64 - 1) for edge in edges], dtype=np.uint64)
    after = system_words(3)

    def source(count: int) -> np.ndarray:
        assert count == 1
        return after[:1]

    found = coins(words, times(numbers, factor), lambda place: int(numbers[place]) * factor, source)
    for place, word in enumerate(words.tolist()):
        exact = Uniform(source, word).below(lambda bits, at=place: exp_bounds(int(numbers[at]) * factor, bits))
        assert bool(found[place]) is exact


@pytest.mark.parametrize("exponent", [Fraction(1, 1000), Fraction(1, 3), Fraction(7, 2)])
def test_frequencies(exponent: Fraction) -> None:
    tries = 400_000
    found = coins(
        system_words(tries), times(np.ones(tries, dtype=np.int64), exponent), lambda _: exponent, system_words
    )
    probability = float(np.exp(-float(exponent)))
    assert abs(found.mean() - probability) < 5 * (probability * (1 - probability) / tries) ** 0.5


def test_few_are_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one in ten million: of 2 million coins one at most."""
    seen = []
    monkeypatch.setattr(module, "Uniform", lambda *given: seen.append(given) or Uniform(*given))
    numbers = np.random.default_rng(1).integers(0, 300, 2_000_000)
    coins(
        system_words(len(numbers)),
        times(numbers, Fraction(1, 70)),
        lambda at: int(numbers[at]) / Fraction(70),
        system_words,
    )
    assert len(seen) <= 1
