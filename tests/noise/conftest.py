"""What the noise tests share: sources of chosen words, and a chi-square test whose false alarms are rarer than 1e-8.

About forty comparisons of samples are made in this folder, so that all of them together give a false alarm less than
once in a million runs. Every comparison is also made with a scale that is slightly off, which it must reject.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mpmath
import numpy as np
import pytest
from scipy.special import chdtrc  # scipy.stats takes a second to load, in every worker

from privcube.sensitive.noise.bits import Words

FALSE_ALARM = 1e-8


class Script:
    """A source that hands out chosen words and fails if more are asked for."""

    def __init__(self, words: Sequence[int]) -> None:
        self.words = list(words)

    def __call__(self, count: int) -> Words:
        assert count <= len(self.words), "more random words are drawn than this decision needs"
        given, self.words = self.words[:count], self.words[count:]
        return np.array(given, dtype=np.uint64)


@pytest.fixture
def script() -> type[Script]:
    """Sources of chosen words."""
    return Script


@pytest.fixture
def exact() -> object:
    """mpmath at 200 digits."""
    with mpmath.workdps(200):
        yield mpmath


def _fits(observed: np.ndarray, expected: np.ndarray) -> bool:
    """Whether counts agree with expected counts, of which those of at least 30 are tested one by one."""
    large = expected >= 30
    seen, wanted = observed[large].astype(float), expected[large]
    rest = observed.sum() - seen.sum(), observed.sum() - wanted.sum()
    if rest[1] >= 30:
        seen, wanted = np.append(seen, rest[0]), np.append(wanted, rest[1])
    assert len(seen) >= 2, "nothing to compare"
    statistic = float(((seen - wanted) ** 2 / wanted).sum())
    return bool(chdtrc(len(seen) - 1, statistic) > FALSE_ALARM)


@pytest.fixture
def fits() -> Callable[[np.ndarray, np.ndarray], bool]:
    """A chi-square test of counts against expected counts."""
    return _fits


@pytest.fixture
def sample_fits() -> Callable[[np.ndarray, Callable[[np.ndarray], np.ndarray], int], bool]:
    """A chi-square test of a sample against weights of the values -reach..reach, joined to about 200 cells."""

    def compare(sample: np.ndarray, weight: Callable[[np.ndarray], np.ndarray], reach: int) -> bool:
        values = np.arange(-reach, reach + 1)
        share = weight(values)
        share = share / share.sum()
        cell = np.minimum((np.cumsum(share) * 200).astype(int), 199)
        assert np.abs(sample).max() <= reach
        observed = np.bincount(cell[sample + reach], minlength=200)
        expected = np.bincount(cell, weights=share, minlength=200) * len(sample)
        return _fits(observed[expected > 0], expected[expected > 0])

    return compare
