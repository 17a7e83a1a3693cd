"""The reference figures beside the checkout, and the domains and workloads they are about."""

from __future__ import annotations

import csv
import os
from pathlib import Path

from privcube import Schema, Workload

SIZES = {"nltcs:2^16": (2,) * 16, "adult8:9x16x7x15x6x5x2x2": (9, 16, 7, 15, 6, 5, 2, 2)}


def reference_rows() -> list[dict[str, str]]:
    """Rows of the reference file, from PRIVCUBE_REFERENCE or beside the checkout; empty if it is not there."""
    default = Path(__file__).parents[3] / "shared" / "reference"
    file = Path(os.environ.get("PRIVCUBE_REFERENCE", default)) / "accuracy.csv"
    if not file.exists():
        return []
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


def workload(domain: str, name: str) -> Workload:
    """The workloads of the paper's section 5 by the names of the reference file."""
    schema = Schema.from_sizes({f"a{number}": size for number, size in enumerate(SIZES[domain])})
    plain = name.partition("=")[0] if name.startswith("Q") else name
    if plain.endswith("way"):
        if plain.startswith("<="):
            whole = Workload.all_kway(schema, 0)
            for k in range(1, int(plain[2]) + 1):
                whole = whole | Workload.all_kway(schema, k)
            return whole
        return Workload.all_kway(schema, int(plain[0]))
    k = int(plain[1])
    if plain.endswith("*"):
        return Workload.kway_plus_half(schema, k)
    if plain.endswith("a"):
        return Workload.kway_plus_attribute(schema, k, "a0")
    return Workload.all_kway(schema, k)
