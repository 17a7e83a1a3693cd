"""Plans against the best known figures of other systems: accuracy, and the time that planning takes.

Mean variance per workload cell at epsilon 1 (adding or removing a record) for the paper's two domains, by effort; the
exact optimum under Gaussian noise; ranges; a hundred attributes; and schemas on which strategies other than the search
would take minutes and gigabytes, with processor time and peak memory, each in a process of its own. Figures to beat are
those of ../shared/reference and the design pages: the least of HDMM, weighted supersets and bundles of Fourier
coefficients. `python -m benchmarks.planning asked` compares plans of normal effort with what is asked of them, and
simulated releases with their predictions; it fails if one is worse. Names of workloads after it ("NLTCS:Q2*") choose
some of them.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Sequence

from experiments.data import workload

import privcube as pc
from privcube.accuracy.predictor import recover
from privcube.sensitive.gate import SystemNoise, _noise

ADULT = pc.Schema.from_sizes(dict(zip("abcdefgh", (9, 16, 7, 15, 6, 5, 2, 2), strict=True)))
NLTCS = pc.Schema.from_sizes({f"a{number:02d}": 2 for number in range(16)})
TO_BEAT = {
    "NLTCS": {"Q1": 52.2, "Q1*": 351, "Q1a": 101, "Q2": 864, "Q2*": 3300, "Q2a": 1270, "Q3": 4498},
    "Adult": {"Q1": 70.8, "Q1*": 210.6, "Q1a": 110.3, "Q2": 579.7, "Q2*": 719.2, "Q2a": 543.9, "Q3": 1375},
}
ASKED = {
    "NLTCS": {"Q1": 46.7, "Q1*": 335.02, "Q2": 355, "Q2*": 2500, "Q2a": 400, "Q3": 2825},
    "Adult": {"Q1": 58.5, "Q1*": 170, "Q1a": 78, "Q2": 440, "Q2*": 600, "Q2a": 432, "Q3": 1026},
    "3^10": {"Q1": 42, "Q2": 375},
}  # mean variance per cell at epsilon 1 that plans of normal effort must stay below
ROWS = 1_000_000  # drawn for simulated releases of one plan
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


def asked(only: Sequence[str] = ()) -> int:
    """Plans of normal effort against what is asked of them, and releases of pure noise against their prediction."""
    missed = 0
    schemas = {"NLTCS": NLTCS, "Adult": ADULT, "3^10": pc.Schema.from_sizes({f"a{at}": 3 for at in range(10)})}
    print(f"{'workload':14}{'asked':>10}{'now':>10}{'ratio':>8}{'CPU s':>8}{'simulated / predicted':>24}")
    for data, most in ASKED.items():
        for name, bound in most.items():
            if only and f"{data}:{name}" not in only:
                continue
            wanted = workload(schemas[data], name)
            began = time.process_time()
            made = pc.plan(wanted, pc.PureDP(1), effort="normal")
            spent, found = time.process_time() - began, made.mean_cell_variance
            missed += found > bound
            line = f"{data + ' ' + name:14}{bound:10,.2f}{found:10,.2f}{found / bound:8.3f}{spent:8.1f}"
            print(line + f"{simulated(made) / found:24.3f}", flush=True)
    return missed


def simulated(made: pc.Plan) -> float:
    """The mean square of all cells of releases without records: noise alone, drawn and recovered as ever."""
    squares, cells = 0.0, 0
    for _ in range(20 + min(480, ROWS // made.rows)):
        for table in recover(made, _noise(made, SystemNoise())).values():
            squares, cells = squares + float((table**2).sum()), cells + table.size
    return squares / cells


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


def _kway(sizes: tuple[int, ...], *ks: int) -> pc.Workload:
    schema = pc.Schema.from_sizes({f"a{number:02d}": size for number, size in enumerate(sizes)})
    found = pc.Workload.all_kway(schema, ks[0])
    for k in ks[1:]:
        found = found | pc.Workload.all_kway(schema, k)
    return found


def _ranged(size: int, queries: str) -> pc.Workload:
    schema = pc.Schema.from_sizes({"big": size, "b": 5})
    return getattr(pc.Workload, queries)(schema, ["big"]) | pc.Workload.all_kway(schema, 2)


MIXED = (2, 3, 5, 8, 10, 2, 16, 101, 7, 4, 2, 20, 9, 3)
ANY = {
    "14 attributes as Adult's, 2-way": lambda: _kway((85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2), 2),
    "1,000 values and three more, 1- and 2-way": lambda: _kway((1000, 5, 7, 2), 1, 2),
    "5,000 values and three more, 1- and 2-way": lambda: _kway((5000, 5, 7, 2), 1, 2),
    "5,000 values, 1-way": lambda: _kway((5000,), 1),
    "ranges of 1,000": lambda: _ranged(1000, "ranges"),
    "prefixes of 5,000": lambda: _ranged(5000, "prefixes"),
    "10^20, up to 3-way": lambda: _kway((10,) * 20, 0, 1, 2, 3),
    "10^40, 3-way": lambda: _kway((10,) * 40, 3),
    "14 attributes of 2 to 101, 3-way": lambda: _kway(MIXED, 3),
    "14 attributes of 2 to 101, 5-way": lambda: _kway(MIXED, 5),
}


def any_schema(efforts: list[str]) -> None:
    for name in ANY:
        for effort in efforts:
            subprocess.run([sys.executable, "-m", "benchmarks.planning", "one", name, effort], check=True)


def one(name: str, effort: str) -> None:
    wanted = ANY[name]()
    began = time.process_time()
    made = pc.plan(wanted, pc.PureDP(1), effort=effort)  # type: ignore[arg-type]
    spent, peak = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    found = f"{made.options.strategy} {made.mean_cell_variance:,.2f}"
    print(f"{name}, {effort}: {found}, {spent:.1f} s of processor time, {peak:.2f} GB", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        one(*sys.argv[2:])
    elif sys.argv[1:2] == ["asked"]:
        sys.exit(bool(asked(sys.argv[2:])))
    else:
        asked()
        pure(sys.argv[1:] or ["fast", "normal"])
        ranges()
        hundred()
        any_schema(sys.argv[1:] or ["fast", "normal"])
