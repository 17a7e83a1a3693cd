"""How narrow and how wide the noise of each law can be drawn. Zone: PUBLIC.

The samplers refuse whatever lies beyond; a plan can be told so before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from privcube.errors import GuaranteeError
from privcube.model.groups import row_weights
from privcube.model.noise.bundles import Gram, GramLayout, row_squares
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import PureDP


@dataclass(frozen=True)
class Limits:
    """The least and the largest number that a sampler takes."""

    what: str
    least: Fraction
    most: Fraction

    def check(self, number: Fraction) -> None:
        """Refuse a number that is not exact, or beyond the limits."""
        if not isinstance(number, Fraction) or not self.least <= number <= self.most:
            expected = f"a fraction from {float(self.least):.0e} to {float(self.most):.0e}".replace("e+", "e")
            raise GuaranteeError(self.what, expected=expected, given=number)


SCALES: Final = Limits("noise scale", Fraction(1, 10**15), Fraction(10**15))  # of whole numbers
ROUNDED_SCALES: Final = Limits("noise scale", Fraction(1, 10**15), Fraction(10**12))  # of bundles of rounded noise
VARIANCES: Final = Limits("noise variance", Fraction(1, 10**15), Fraction(10**30))
SQUARED_FACTORS: Final = Limits("squared factor of noise", Fraction(1, 10**30), Fraction(10**24))  # of Gram matrices
_NEVER_BEYOND: Final = (1e-10, 1e14)  # variances of groups that are within all limits, whatever weights rows have


def noise_objection(plan: Plan) -> str | None:
    """Why the noise of a plan cannot be drawn; None if it can.

    >>> from privcube import PureDP, Schema, Workload, plan
    >>> workload = Workload.all_kway(Schema.from_sizes({"a": 2, "b": 2}), 1)
    >>> noise_objection(plan(workload, PureDP("1e-12"), "marginals"))
    """
    narrowest, widest = _NEVER_BEYOND
    variances = plan.drawn_variances()
    if narrowest <= variances.min() and variances.max() <= widest:
        return None
    try:
        for limits, number in _drawn(plan):
            limits.check(number)
    except GuaranteeError as problem:
        return str(problem)
    return None


def _drawn(plan: Plan) -> Iterator[tuple[Limits, Fraction]]:
    """The scales or variances that are drawn, as the samplers take them."""
    for bundle, law in zip(plan.noised_together, plan.noise_laws, strict=True):
        if isinstance(law, Gram):
            layout = GramLayout.of(plan.frame, [plan.groups[group] for group in bundle])
            for at, group in enumerate(bundle):
                squares = row_squares(layout, layout.entries(at), plan.drawn_variance(group))
                yield from ((SQUARED_FACTORS, square) for square in (min(squares), max(squares)))
        elif law == "section":
            yield ROUNDED_SCALES, plan.drawn_scale(bundle[0])
        elif law == "rounded_max_norm":
            yield from ((ROUNDED_SCALES, plan.drawn_scale(group)) for group in bundle)
        elif len(bundle) > 1 or isinstance(plan.guarantee, PureDP):
            yield SCALES, plan.drawn_scale(bundle[0])
        else:
            weights, variance = row_weights(plan.frame, plan.groups[bundle[0]]), plan.drawn_variance(bundle[0])
            yield from ((VARIANCES, variance * weight) for weight in (min(weights), max(weights)))
