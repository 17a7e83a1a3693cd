"""A fixed hash for the partitions of a sketch: no randomness, so that a plan can be checked. Zone: PUBLIC."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privcube.algebra.lattice import Integers


def mixed(numbers: Integers, key: int) -> NDArray[np.uint64]:
    """Whole numbers to 64 bits that look random: the finalizer of splitmix64 on each number and the key."""
    step = np.uint64(0x9E3779B97F4A7C15)
    state = numbers.astype(np.uint64) * step + np.uint64((key + 1) * 0xD1342543DE82EF95 % 2**64)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def bucket_and_sign(partition: int, buckets: int, cells: int) -> tuple[Integers, Integers]:
    """The bucket and the sign of every cell in a numbered partition.

    >>> bucket, sign = bucket_and_sign(0, 4, 1000)
    >>> sorted(set(bucket.tolist())), sorted(set(sign.tolist()))
    ([0, 1, 2, 3], [-1, 1])
    """
    bits = mixed(np.arange(cells), partition)
    bucket = (bits >> np.uint64(1)) % np.uint64(buckets)
    sign = 1 - 2 * (bits & np.uint64(1)).astype(np.int64)
    return bucket.astype(np.int64), sign
