"""Bad input is refused at once and in clear words; no noise is drawn for it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from privcube.errors import GuaranteeError
from privcube.model.slices import largest_scale
from privcube.sensitive.noise import discrete_gaussian, discrete_laplace, max_norm, max_norm_noise

BAD_SCALES = [
    Fraction(0),
    Fraction(-1),
    1.0,
    1,
    True,
    "1",
    None,
    Fraction(1, 10**15 + 1),
    Fraction(10**15 + 1),
    float("nan"),
]


@pytest.mark.parametrize("scale", BAD_SCALES)
@pytest.mark.parametrize(
    "draw",
    [
        lambda scale, source: discrete_laplace(scale, 5, source),
        lambda scale, source: max_norm_noise(scale, [2, 3], source),
    ],
)
def test_scales(draw: Callable[..., object], scale: Any, script: Any) -> None:
    """Not a fraction, or outside of what the samplers are built for."""
    with pytest.raises(GuaranteeError, match=r"^noise scale: expected a fraction from 1e-15 to 1e15, given "):
        draw(scale, script([]))


@pytest.mark.parametrize("scale", [Fraction(1, 10**15), Fraction(10**15)])
def test_extreme_scales(scale: Fraction) -> None:
    """The ends of the range are allowed."""
    assert len(discrete_laplace(scale, 5)) == 5
    assert len(discrete_gaussian(scale, 5)) == 5


@pytest.mark.parametrize("sizes", [[], [0], [3, 0], [2, -1]])
def test_bundles(sizes: list[int], script: Any) -> None:
    """No groups, or a group without rows."""
    with pytest.raises(GuaranteeError, match=r"^bundle: expected groups of at least one row, given"):
        max_norm_noise(Fraction(1), sizes, script([]))


@pytest.mark.parametrize(("scale", "sizes"), [(Fraction(10**5), [2, 1]), (Fraction(300), [1] * 100_000)])
def test_bundles_too_large(scale: Fraction, sizes: list[int], script: Any, effort: Any) -> None:
    """Refused before any work is done."""
    refusal = pytest.raises(GuaranteeError, match=r"a scale of at most [\d,]+ for [\d,]+ rows; noise its groups")
    with effort.counted(), refusal:
        max_norm_noise(scale, sizes, script([]))
    assert effort.calls < 1000
    assert effort.most_bytes < 2**20


def test_the_largest_scale_of_a_bundle_is_allowed() -> None:
    most = largest_scale(3)
    max_norm.check_bundle(Fraction(most), [2, 1])
    with pytest.raises(GuaranteeError, match=f"a scale of at most {most:,} for 3 rows"):
        max_norm.check_bundle(most + Fraction(1, 7), [2, 1])


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3), Fraction(10**6), Fraction(10**12)])
@pytest.mark.parametrize("draw", [discrete_laplace, discrete_gaussian])
def test_nothing_to_draw(draw: Callable[..., np.ndarray], scale: Fraction) -> None:
    """An empty array of whole numbers."""
    drawn = draw(scale, 0)
    assert drawn.shape == (0,)
    assert drawn.dtype == np.int64
