"""The mirror flow: weights of particles follow the gradient of the squared error, and stop before they fit the noise.

Zone: RELEASED.

Weights are x_0 exp(-Theta), x_0 independent attributes and d Theta / dt the gradient of the workload's squared distance
from the estimates, in implicit steps (`privcube.released.whole.dual`) that grow. Between steps particles are drawn anew
in proportion to their weights and moved (`privcube.released.whole.particles`).

Stein's unbiased estimate of the risk says where to stop. The expected squared error of the fit c(e) at estimates e with
noise is that of |c(e) - e|^2 - |noise|^2 + 2 z . (c(e + d z) - c(e)) / d, with z a fresh copy of the noise, d small. A
perturbed copy of the flow on the same particles, from a start of its own, gives the last term. The estimates themselves
are the far end of the flow, with c(e) = e. The same z makes both risks comparable, though each is uncertain: where
stopping early gains next to nothing, the flow's last point is taken, near the best fit that is not negative, which is
never worse.

See THEORY section 5.3.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from privcube.algebra.lattice import Floats
from privcube.progress import Work
from privcube.released.whole.blocks import Problem
from privcube.released.whole.dual import Curvature, implicit_step
from privcube.released.whole.facts import Impossible
from privcube.released.whole.generator import Generator, systematic
from privcube.released.whole.particles import Particles, first_particles, first_shares, sweep

MOST_STEPS: Final = 40  # beyond which nothing changes: steps double
_FIRST: Final = 0.03  # of the step in which a typical weight would follow its estimate
_GROWTH: Final = 2.0
_PATIENCE: Final = 2  # steps without a smaller risk before the flow stops
_NEARLY: Final = 0.02  # of the least risk, or of the gain over the estimates: risks are not known more exactly
_WORTH: Final = 0.02  # of the noise; a smaller gain is not worth a bias
_LEAST_STEPS: Final = 5
_SAME: Final = 1e-7  # relative
_PERTURBED: Final = 0.25  # of the noise
_SWEEPS: Final = 2  # between steps
_RENEWED: Final = 0.7  # particles are drawn anew when weights are as uneven as if this share of them were equal


class Fit(NamedTuple):
    """Particles with weights, and the coordinates that records should meet."""

    particles: Particles
    weights: Floats
    coordinates: Floats
    risk: float  # the estimated squared error, in the metric


def flow(problem: Problem, impossible: Impossible, most: int, random: Generator, work: Work) -> Fit:
    """Follow the flow to nearly the least estimated risk."""
    shares = first_shares(problem.goals)
    particles, weights = first_particles(problem, shares, impossible, most, random)
    records = max(problem.goals.total, 1.0)
    weights = records * weights
    fresh = random.standard_normal(len(problem.estimate)) * np.sqrt(problem.variance)
    perturbed = problem.estimate + _PERTURBED * fresh
    copy = problem.goals_at(perturbed)
    apart_first = [np.log(new / old) for new, old in zip(first_shares(copy), shares, strict=True)]
    more_records = np.log(max(copy.total, 1.0) / records)
    theta, other = np.zeros(len(fresh)), np.zeros(len(fresh))  # of the flow, and of its perturbed copy
    deepest = (problem.order == problem.order[problem.metric > 0].max()) & (problem.metric > 0)
    length = _FIRST / float(np.median((problem.metric * records / problem.dimension)[deepest]))
    curvature = Curvature(len(fresh))
    unfitted = float(np.sum(problem.metric * (2 * fresh**2 - problem.variance)))  # the risk of the estimates
    good: list[Fit] = []  # whose risk is nearly the least so far; the first of them has fitted the least noise
    least, worse, distance = np.inf, 0, np.inf
    for step in range(MOST_STEPS):
        apart = more_records - problem.on_records(particles.keys, other - theta)
        for logarithms, column in zip(apart_first, particles.codes.T, strict=True):
            apart += logarithms[column]
        apart = np.clip(apart, -30.0, 30.0)
        moved = implicit_step(problem, particles.keys, weights, problem.estimate, length, curvature)
        copied = implicit_step(
            problem, particles.keys, weights * np.exp(apart), perturbed, length, curvature, moved.change
        )
        theta, other, weights = theta + moved.change, other + copied.change, moved.weights
        found = problem.coordinates(particles.keys, weights)
        follows = fresh * (problem.coordinates(particles.keys, copied.weights) - found) / _PERTURBED
        risk = float(np.sum(problem.metric * ((found - problem.estimate) ** 2 - problem.variance + 2 * follows)))
        before, distance = distance, float(np.sum(problem.metric * (found - problem.estimate) ** 2))
        work.add()
        if good and distance > (1 - _SAME) * before:  # the fit no longer improves
            break
        worse = 0 if risk < least else worse + 1
        least = min(least, risk)
        near = least + _NEARLY * min(abs(least), max(unfitted - least, 0.0))
        last = Fit(particles, weights, found, risk)
        good = [own for own in (*good, last) if own.risk <= near]
        if worse >= _PATIENCE and step >= _LEAST_STEPS:
            break
        if not particles.complete and weights.sum() ** 2 < _RENEWED * len(weights) * np.sum(weights**2):
            particles = particles.picked(systematic(weights, len(weights), random))
            weights = np.full(len(weights), weights.sum() / len(weights))
            functions = problem.functions(theta)
            for _ in range(_SWEEPS):
                sweep(problem, particles, functions, shares, impossible, random)
        if step:
            length *= _GROWTH
    return last if good[0].risk > unfitted - _WORTH * problem.noise else good[0]
