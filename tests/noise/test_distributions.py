"""Large samples against the exact probabilities and against opendp; a scale that is slightly off must be rejected."""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest

from privcube.sensitive.noise import discrete_gaussian, discrete_laplace

Draw = Callable[[Fraction, int], np.ndarray]
SCALES = [Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(50), Fraction(500)]
ATTACK = int(os.environ.get("PRIVCUBE_ATTACK", "1"))
MANY, OFF = (10_000_000, Fraction(103, 100)) if ATTACK > 1 else (300_000, Fraction(106, 100))
dp.enable_features("contrib")


def laplace(scale: Fraction, count: int) -> np.ndarray:
    return discrete_laplace(scale, count)


def gaussian(deviation: Fraction, count: int) -> np.ndarray:
    return discrete_gaussian(deviation**2, count)


def laplace_weight(scale: Fraction) -> Callable[[np.ndarray], np.ndarray]:
    return lambda k: np.exp(-np.abs(k) / float(scale))


def gaussian_weight(deviation: Fraction) -> Callable[[np.ndarray], np.ndarray]:
    return lambda k: np.exp(-(k**2) / (2 * float(deviation) ** 2))


@pytest.mark.parametrize(
    ("draw", "weight", "scale", "count", "off"),
    [
        *[(laplace, laplace_weight, scale, MANY, OFF) for scale in [*SCALES, Fraction(10001, 2)]],
        *[(gaussian, gaussian_weight, scale, MANY, OFF) for scale in [*SCALES, Fraction(2000)]],
        (gaussian, gaussian_weight, Fraction(3500), MANY if ATTACK > 1 else 12_000, Fraction(115, 100)),  # by rejection
    ],
)
def test_exact_probabilities(
    draw: Draw, weight: Any, scale: Fraction, count: int, off: Fraction, sample_fits: Callable[..., bool]
) -> None:
    """The right scale passes, scales slightly off in both directions do not."""
    reach = int(60 * scale) + 60
    assert sample_fits(draw(scale, count), weight(scale), reach)
    assert not sample_fits(draw(scale * off, count), weight(scale), reach)
    assert not sample_fits(draw(scale / off, count), weight(scale), reach)


def opendp_laplace(scale: Fraction, count: int) -> np.ndarray:
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    return np.array(dp.m.make_laplace(*space, scale=float(scale))([0] * count))


def opendp_gaussian(deviation: Fraction, count: int) -> np.ndarray:
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    return np.array(dp.m.make_gaussian(*space, scale=float(deviation))([0] * count))


# A second opinion on what is compared with exact probabilities above: one scale here, three in `make attack`.
OPENDP = [Fraction(3), Fraction(1, 2), Fraction(50)][: 3 if ATTACK > 1 else 1]


@pytest.mark.parametrize("scale", OPENDP)
@pytest.mark.parametrize(("draw", "oracle"), [(laplace, opendp_laplace), (gaussian, opendp_gaussian)])
def test_opendp(draw: Draw, oracle: Draw, scale: Fraction, fits: Callable[..., bool]) -> None:
    """Moments and histogram of opendp's draws agree with ours, and not with ours at a scale 15 % off."""
    theirs = oracle(scale, 20_000)

    def agrees(ours: np.ndarray) -> bool:
        """Their histogram against ours, which is 50 times larger: its own noise adds 2 % to chi-square's."""
        width = max(1, int(scale) // 5)
        cells = np.concatenate([ours, theirs]) // width
        low = int(cells.min())
        counts = np.bincount(ours // width - low, minlength=int(cells.max()) - low + 1)
        found = np.bincount(theirs // width - low, minlength=len(counts))
        return fits(found, counts * (len(theirs) / len(ours)))

    ours = draw(scale, 1_000_000)
    assert agrees(ours)
    assert not agrees(draw(scale * Fraction(115, 100), 1_000_000))
    error = np.sqrt((ours.astype(float) ** 4).mean() / len(theirs))
    assert abs((theirs.astype(float) ** 2).mean() - (ours.astype(float) ** 2).mean()) < 7 * error
    assert abs(theirs.mean() - ours.mean()) < 7 * ours.std() / np.sqrt(len(theirs))


@pytest.mark.parametrize("draw", [laplace, gaussian])
def test_independent(draw: Draw) -> None:
    """Neighboring draws are not correlated, nor are their sizes, nor sign and size."""
    sample = draw(Fraction(20), MANY).astype(float)
    for left, right in [
        (sample[1:], sample[:-1]),
        (np.abs(sample[1:]), np.abs(sample[:-1])),
        (np.sign(sample[1:]), np.sign(sample[:-1])),
        (np.sign(sample), np.abs(sample)),
    ]:
        assert abs(np.corrcoef(left, right)[0, 1]) < 6 / np.sqrt(MANY)
