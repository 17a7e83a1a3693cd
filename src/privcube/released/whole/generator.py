"""The seeded generator of whole numbers; it makes no noise, and nothing secret goes into it. Zone: RELEASED.

Looking for records needs random moves. They are drawn from a generator whose seed is a digest of the released
measurements, so that the same release gives the same records.
"""

from __future__ import annotations

import hashlib

import numpy as np

from privcube.algebra.lattice import Floats, Integers
from privcube.model.measurements import Measurements

Generator = np.random.Generator


def seed_of(measurements: Measurements) -> int:
    """A seed from the plan and its noisy answers, all of which are published."""
    digest = hashlib.sha256(b"privcube whole numbers\n" + measurements.plan.digest.encode())
    digest.update(measurements.answers.tobytes())
    return int.from_bytes(digest.digest()[:16], "big")


def generator(seed: int) -> Generator:
    """A generator of numbers that look random.

    >>> generator(1).random() == generator(1).random()
    True
    """
    return np.random.Generator(np.random.PCG64(seed))


def systematic(weights: Floats, draws: int, random: Generator) -> Integers:
    """Places drawn in proportion to weights, each about as often as expected: rounded down or up.

    >>> systematic(np.array([1.0, 0.0, 3.0]), 4, generator(1)).tolist()
    [0, 2, 2, 2]
    """
    ends = np.cumsum(weights)
    points = (np.arange(draws) + random.random()) * (ends[-1] / max(draws, 1))
    return np.asarray(np.minimum(np.searchsorted(ends, points, side="right"), len(weights) - 1), dtype=np.int64)
