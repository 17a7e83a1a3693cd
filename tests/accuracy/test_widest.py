"""The margin that is enough for every shape of noise: against densities at random, sums of draws, and bundles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcube import ZCDP, PureDP, Schema, Workload, plan
from privcube.accuracy.errors.widest import largest_chance, log_concave_factor, widest_factor
from privcube.accuracy.intervals import ErrorLaw, interval_factor
from privcube.accuracy.predictor import predictor


@settings(deadline=None, max_examples=200)
@given(
    slopes=st.lists(st.floats(0, 20), min_size=1, max_size=40),
    cut=st.floats(0.05, 1),
    factor=st.floats(0.3, 4),
)
def test_no_log_concave_density_has_more_beyond(slopes: list[float], cut: float, factor: float) -> None:
    """Densities on [0, 1] whose logarithms are concave and fall: slopes in order, cut off somewhere."""
    x = (np.arange(4000) + 0.5) / 4000
    steps = np.repeat(np.sort(slopes), math.ceil(4000 / len(slopes)))[:4000]
    density = np.exp(-np.cumsum(steps) / 4000) * (x < cut)
    density /= density.sum()
    deviation = math.sqrt(float(density @ x**2))
    beyond = float(density @ np.clip((x - factor * deviation) * 4000 + 0.5, 0, 1))
    assert beyond <= largest_chance(factor) + 3e-3 / max(cut, 0.05) * density.max()


def test_it_is_enough_for_known_shapes_and_hardly_more() -> None:
    for confidence in (0.5, 0.9, 0.95, 0.99, 1 - 1e-6):
        shapes = [interval_factor(kurtosis, confidence) for kurtosis in (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)]
        assert log_concave_factor(confidence) >= max(shapes)
    assert log_concave_factor(0.95) <= 1.03 * interval_factor(3.0, 0.95)
    with pytest.raises(Exception, match="confidence"):
        widest_factor(plan(Workload.all_kway(Schema.from_sizes({"a": 2}), 1), PureDP(1)), 1.5)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_sums_of_whole_number_draws_are_covered(data: st.DataObject) -> None:
    """The exact half-width of sums with any weights of draws of any scale is at most the margin with its step."""
    terms = data.draw(st.integers(1, 5))
    weights = np.array([data.draw(st.floats(0.05, 1)) for _ in range(terms)])
    parameters = np.array([data.draw(st.floats(0.3, 400)) for _ in range(terms)])
    law = ErrorLaw.of("laplace", weights, np.ones(terms), parameters)
    confidence = data.draw(st.sampled_from([0.8, 0.95, 0.999]))
    assert law.half_width(confidence) <= log_concave_factor(confidence) * math.sqrt(law.variance) + law.step + 1e-9


@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP("0.5")])
def test_sums_and_differences_of_planned_tables_are_covered(guarantee: PureDP | ZCDP) -> None:
    """Whatever the search bundles: the half-width that a release states for a sum is at most the page's."""
    made = plan(Workload.all_kway(Schema.from_sizes({"a": 3, "b": 4, "c": 2}), 2), guarantee)
    found, rng = predictor(made), np.random.default_rng(1)
    for _ in range(40):
        weights = rng.integers(-1, 2, (3, 4)).astype(float)
        if weights.any():
            law = found.query_law(("a", "b"), weights)
            margin = widest_factor(made, 0.95) * math.sqrt(law.variance) + 1
            assert law.half_width(0.95) <= margin * (1 + 1e-6)
