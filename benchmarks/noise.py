"""How fast exact noise is drawn: ours, opendp's and numpy's floats, in one run and one process.

Times on a busy machine vary, so each is the best of three, and ours is shown as a ratio to opendp's of the same run.
numpy's floating-point noise is unsafe and only shows what drawing costs at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np
import opendp.prelude as dp

from privcube.sensitive.noise import discrete_gaussian, discrete_laplace, max_norm, max_norm_noise, rounded_gaussian

SCALES: Final = [Fraction(1, 2), Fraction(3), Fraction(50), Fraction(500)]
OURS: Final = 1_000_000
THEIRS: Final = 20_000
RATIO_TARGET: Final = 50
BUNDLES: Final = {"100,000 x 1": [1] * 100_000, "100 x 1,000": [1000] * 100, "2 x 50,000": [50_000] * 2}
BUNDLE_TARGET: Final = 1.0


def best(run: Callable[[], object]) -> float:
    """Seconds of the fastest of three runs."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def verdict(met: bool) -> str:
    """Whether a target is reached."""
    return "met" if met else "MISSED"


def opendp_laplace(scale: Fraction) -> dp.Measurement:
    """Their discrete Laplace noise on a vector of 64-bit whole numbers."""
    return dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=float(scale))


def opendp_gaussian(scale: Fraction) -> dp.Measurement:
    """Their discrete Gaussian noise on a vector of 64-bit whole numbers."""
    return dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale=float(scale))


def draws() -> None:
    """Draws per second, by scale; the standard deviation for Gaussian noise, discrete and rounded."""
    zeros, floats = [0] * THEIRS, np.random.default_rng()
    print(f"million draws per second, best of 3; ratio to opendp, target {RATIO_TARGET}")
    print(f"{'':10}{'scale':>6}{'set-up s':>10}{'ours':>8}{'opendp':>8}{'numpy':>8}{'ratio':>8}")
    for name, ours, theirs, unsafe in (
        ("laplace", discrete_laplace, opendp_laplace, floats.laplace),
        ("gaussian", lambda scale, count: discrete_gaussian(scale**2, count), opendp_gaussian, floats.normal),
        ("rounded", lambda scale, count: rounded_gaussian(scale**2, count), opendp_gaussian, floats.normal),
    ):
        for scale in SCALES:
            start = time.perf_counter()
            ours(scale, 1)
            set_up = time.perf_counter() - start
            measurement = theirs(scale)
            rates = (
                OURS / best(lambda ours=ours, scale=scale: ours(scale, OURS)) / 1e6,
                THEIRS / best(lambda measurement=measurement: measurement(zeros)) / 1e6,
                OURS / best(lambda unsafe=unsafe, scale=scale: unsafe(0, float(scale), OURS)) / 1e6,
            )
            ratio = rates[0] / rates[1]
            shown = "".join(f"{rate:8.3f}" for rate in rates)
            print(f"{name:10}{float(scale):6g}{set_up:10.3f}{shown}{ratio:8.0f}  {verdict(ratio >= RATIO_TARGET)}")


def first_bundle(scale: Fraction, sizes: list[int]) -> None:
    """A bundle whose weights are not remembered from an earlier draw, as in a release."""
    max_norm._known_radius_weights.cache_clear()
    max_norm_noise(scale, sizes)


def bundles() -> None:
    """Seconds for one bundle of 100,000 rows, all of it counted."""
    print(f"\nseconds for one max-norm bundle of 100,000 rows, best of 3; target {BUNDLE_TARGET:g}")
    print(f"{'groups':16}{'scale':>6}{'seconds':>10}")
    for name, sizes in BUNDLES.items():
        for scale in (2, 20):
            seconds = best(lambda sizes=sizes, scale=scale: first_bundle(Fraction(scale), sizes))
            print(f"{name:16}{scale:6}{seconds:10.3f}  {verdict(seconds <= BUNDLE_TARGET)}")


def main() -> None:
    """Measure and print."""
    dp.enable_features("contrib")
    draws()
    bundles()


if __name__ == "__main__":
    main()
