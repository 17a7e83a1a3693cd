"""A bound on the rows of each person, by a rule that looks at nobody else. Zone: SENSITIVE.

Formal guarantee. Which rows of a person are kept depends on the key and on that person's name and rows alone: the rows
are ordered by a keyed hash of the name and of what they say, and only the first `max_rows` are kept. The key is drawn
for the release, independently of the data. So for every key, adding, removing or replacing one person changes at most
`max_rows` of the kept rows in each direction, whatever the others' rows are and in whatever order they come. Rows of
one person that say the same are the same to every count, so it does not matter which of them is kept.

The name is hashed too so that people choose independently of each other. Otherwise all people with the same rows would
keep the same ones, and a table could lose a whole category instead of a fair share of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from hashlib import sha256

from privcube.errors import PlanError

Codes = tuple[int, ...]


def kept_rows(rows: Iterable[tuple[Hashable, Codes]], max_rows: int, key: bytes) -> Iterator[Codes]:
    """The rows that count, out of (person, codes) pairs: the reference that every engine must equal.

    >>> list(kept_rows([("ann", (0,)), ("ann", (1,)), ("ann", (1,)), ("bob", (0,))], 5, b"k"))
    [(0,), (1,), (1,), (0,)]
    """
    if max_rows < 1:
        raise PlanError("max_rows_per_person", expected="at least 1")
    of_person: defaultdict[Hashable, list[Codes]] = defaultdict(list)
    for person, codes in rows:
        of_person[person].append(codes)
    for person, own in of_person.items():
        if len(own) <= max_rows:
            yield from own
        else:
            yield from sorted(own, key=lambda codes: row_hash(str(person), codes, key))[:max_rows]


def row_hash(person: str, codes: Sequence[int], key: bytes) -> bytes:
    """A keyed hash of a person's row, by its codes of the attributes in use; every database can work it out."""
    return sha256(f"{key.hex()}:{','.join(map(str, codes))}:{person}".encode()).digest()
