"""Speed and memory of planning, recovery, clustering and consistency, against the targets and a dense alternative.

Each case runs in a fresh process, so that its peak memory is its own. Times are the best of the repeats.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable

import numpy as np

import privcube as pc
from privcube.accuracy.predictor import recover
from privcube.released.consistency import consistent_tables


def binary(count: int) -> pc.Schema:
    return pc.Schema.from_sizes({f"a{n}": 2 for n in range(count)})


def best_of(repeats: int, work: Callable[[], object]) -> float:
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def plan_hundred(strategy: str) -> float:
    """Q+ or F+ with optimal recovery for all 161,700 three-way tables of 100 binary attributes."""
    workload = pc.Workload.all_kway(binary(100), 3)
    return best_of(2, lambda: pc.plan(workload, pc.PureDP(1), strategy))


def recover_fifty() -> float:
    """All tables of up to 3 of 50 attributes of size 10: 20,876 tables, 19.7 million cells."""
    schema = pc.Schema.from_sizes({f"a{n}": 10 for n in range(50)})
    workload = pc.Workload.all_kway(schema, 0)
    for k in (1, 2, 3):
        workload = workload | pc.Workload.all_kway(schema, k)
    made = pc.plan(workload, pc.PureDP(1), "marginals")
    answers = np.random.default_rng(0).normal(size=made.rows) * 100
    return best_of(3, lambda: recover(made, answers))


def recover_twenty_thousand() -> float:
    """20,000 tables of 1,000 cells, the first of the 22,100 three-way tables of 52 attributes of size 10."""
    schema = pc.Schema.from_sizes({f"a{n}": 10 for n in range(52)})
    tables = list(pc.Workload.all_kway(schema, 3))[:20_000]
    made = pc.plan(pc.Workload.tables(schema, tables), pc.PureDP(1), "marginals")
    answers = np.random.default_rng(0).normal(size=made.rows) * 100
    return best_of(2, lambda: recover(made, answers))


def cluster_nltcs() -> float:
    """C on the 400 tables of Q2* of 16 binary attributes."""
    workload = pc.Workload.kway_plus_half(binary(16), 2)
    return best_of(3, lambda: pc.plan(workload, pc.PureDP(1), "clusters"))


def noisy_pairs(k: int) -> tuple[pc.Schema, dict]:
    schema = binary(16)
    made = pc.plan(pc.Workload.all_kway(schema, k), pc.PureDP(1), "marginals", recovery="direct")
    return schema, recover(made, np.random.default_rng(0).laplace(scale=100, size=made.rows))


def consistency(k: int, norm: float) -> float:
    """Consistency of noisy k-way tables of 16 binary attributes."""
    schema, tables = noisy_pairs(k)
    return best_of(3, lambda: consistent_tables(schema, tables, norm))


def recovery_against_dense() -> float:
    """How many times faster the closed form is than dense least squares, on all pairs of 6 attributes of size 4."""
    schema = pc.Schema.from_sizes({f"a{n}": 4 for n in range(6)})
    made = pc.plan(pc.Workload.all_kway(schema, 2), pc.PureDP(1), "marginals")
    answers = np.random.default_rng(0).normal(size=made.rows)
    strategy = pc.linear.strategy_matrix(made.frame, made.groups)
    noise = np.repeat(made.noise_variances(), 16)
    fast = best_of(5, lambda: recover(made, answers))
    dense = best_of(1, lambda: pc.linear.recovered(strategy, strategy, noise, answers))
    return dense / fast


CASES: list[tuple[str, Callable[..., float], tuple, str]] = [
    ("plan Q+ with GLS, 100 binary attributes, 3-way", plan_hundred, ("marginals",), "seconds"),
    ("plan F+ with GLS, 100 binary attributes, 3-way", plan_hundred, ("fourier",), "seconds"),
    ("recover <=3-way of 50 attributes of size 10", recover_fifty, (), "5 s, 2 GB (ResidualPlanner 44 s, 5.6 GB)"),
    ("recover 20,000 tables of 1,000 cells", recover_twenty_thousand, (), "seconds"),
    ("clusters on NLTCS Q2*", cluster_nltcs, (), "10 s"),
    ("consistency L1, NLTCS Q2", consistency, (2, 1), "1 s"),
    ("consistency L1, NLTCS 3-way", consistency, (3, 1), ""),
    ("consistency L-infinity, NLTCS Q2", consistency, (2, np.inf), ""),
    ("consistency L2, NLTCS 3-way", consistency, (3, 2), ""),
    ("closed form over dense least squares (ratio)", recovery_against_dense, (), ""),
]


def measured(work: Callable[..., float], arguments: tuple, pipe) -> None:
    seconds = work(*arguments)
    pipe.send((seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20))


def main() -> None:
    print(f"{'case':52} {'seconds':>9} {'peak GB':>8}  asked")
    for name, work, arguments, asked in CASES:
        receiver, sender = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("spawn").Process(target=measured, args=(work, arguments, sender))
        process.start()
        sender.close()
        seconds, memory = receiver.recv()
        process.join()
        print(f"{name:52} {seconds:9.3f} {memory:8.2f}  {asked}", flush=True)


if __name__ == "__main__":
    main()
