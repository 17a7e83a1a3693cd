"""Plans against the best known figures of other systems: accuracy, and the time that planning takes.

Mean variance per workload cell at epsilon 1 (adding or removing a record) for the paper's two domains, by effort; the
exact optimum under Gaussian noise; ranges; and a hundred attributes. Figures to beat are those of ../shared/reference
and the design pages: the least of HDMM, weighted supersets and bundles of Fourier coefficients.
"""

from __future__ import annotations

import sys
import time

from experiments.data import workload

import privcube as pc

ADULT = pc.Schema.from_sizes(dict(zip("abcdefgh", (9, 16, 7, 15, 6, 5, 2, 2), strict=True)))
NLTCS = pc.Schema.from_sizes({f"a{number:02d}": 2 for number in range(16)})
TO_BEAT = {
    "NLTCS": {"Q1": 52.2, "Q1*": 351, "Q1a": 101, "Q2": 864, "Q2*": 3300, "Q2a": 1270, "Q3": 4498},
    "Adult": {"Q1": 70.8, "Q1*": 210.6, "Q1a": 110.3, "Q2": 579.7, "Q2*": 719.2, "Q2a": 543.9, "Q3": 1375},
}
RANGES = {
    (64, "ranges"): (64177.59, 11024.381533), (64, "prefixes"): (1813.5527, 282.2014263),
    (256, "ranges"): (2139526.88, 276929.31139), (256, "prefixes"): (13831.1115, 1631.4032533),
}  # fmt: skip


def timed(*arguments: object, **options: object) -> tuple[pc.Plan, float]:
    began = time.perf_counter()
    made = pc.plan(*arguments, **options)  # type: ignore[arg-type]
    return made, time.perf_counter() - began


def pure(efforts: list[str]) -> None:
    print(f"{'workload':14}{'to beat':>10}" + "".join(f"{effort:>12}{'ratio':>8}{'s':>7}" for effort in efforts))
    for data, schema in (("NLTCS", NLTCS), ("Adult", ADULT)):
        for name, best in TO_BEAT[data].items():
            line = f"{data + ' ' + name:14}{best:10,.1f}"
            for effort in efforts:
                made, seconds = timed(workload(schema, name), pc.PureDP(1), effort=effort)
                found = made.mean_cell_variance
                line += f"{found:12,.2f}{found / best:8.3f}{seconds:7.1f}"
            print(line, flush=True)


def ranges() -> None:
    for (size, kind), (laplace, gaussian) in RANGES.items():
        wanted = getattr(pc.Workload, kind)(pc.Schema.from_sizes({"x": size}), ["x"])
        for guarantee, best in ((pc.PureDP(1), laplace), (pc.ZCDP("0.5"), gaussian)):
            made, seconds = timed(wanted, guarantee)
            ratio = made.total_variance / best
            found = f"{made.options.strategy} {made.total_variance:,.3f}, HDMM {best:,.3f}, ratio {ratio:.6f}"
            print(f"{kind} of {size}, {guarantee}: {found}, {seconds:.1f} s", flush=True)


def hundred() -> None:
    schema = pc.Schema.from_sizes({f"a{number:02d}": 10 for number in range(100)})
    everything = pc.Workload.all_kway(schema, 0)
    for k in (1, 2, 3):
        everything = everything | pc.Workload.all_kway(schema, k)
    for name, wanted, guarantee, objective in (
        ("up to 3-way, Gaussian, total", everything, pc.ZCDP("0.5"), "total"),
        ("up to 3-way, Gaussian, largest", everything, pc.ZCDP("0.5"), "largest"),
        ("2-way, pure", pc.Workload.all_kway(schema, 2), pc.PureDP(1), "total"),
        ("3-way, pure", pc.Workload.all_kway(schema, 3), pc.PureDP(1), "total"),
    ):
        made, seconds = timed(wanted, guarantee, objective=objective)
        print(f"100 attributes of size 10, {name}: {len(wanted):,} tables, {made.options.strategy}, {seconds:.1f} s",
              flush=True)  # fmt: skip


if __name__ == "__main__":
    pure(sys.argv[1:] or ["fast", "normal"])
    ranges()
    hundred()
