"""A fixed hash of integers: it uses no randomness, so a plan can be checked. Zone: PUBLIC."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.algebra.lattice import Integers

GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: the increment of SplitMix64


def scrambled(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64 (Steele, Lea and Flood 2014): a permutation of the words that looks random."""
    state = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def mixed(numbers: Integers, key: int) -> NDArray[np.uint64]:
    """Hash integers with a key to 64 bits that look random."""
    start = np.uint64((key + 1) * 0xD1342543DE82EF95 % 2**64)
    return scrambled(numbers.astype(np.uint64) * GOLDEN + start)


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
