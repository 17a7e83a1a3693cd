"""Reference figures, and the domains and workloads they are about.

reference_figures.csv has expected errors that other programs gave for these domains, without any data: HDMM (McKenna et
al. 2018) and ResidualPlanner (Xiao et al. 2023) were run; those of I, Q, Q+, Fourier bundles, H2 and Haar wavelets and
the SVD bound are from dense matrices and closed forms, written apart from this package. Figures of ResidualPlanner and
of HDMM's convex strategy are under Gaussian noise with rho = 1/2, all others under Laplace noise with epsilon = 1, for
adding or removing one record.
"""

from __future__ import annotations

import csv
from pathlib import Path

from privcube import Schema, Workload

SIZES = {"nltcs:2^16": (2,) * 16, "adult8:9x16x7x15x6x5x2x2": (9, 16, 7, 15, 6, 5, 2, 2)}


def reference_rows() -> list[dict[str, str]]:
    """All figures: method, domain, workload, metric and value."""
    with Path(__file__).with_name("reference_figures.csv").open(newline="", encoding="utf-8") as stream:
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
