"""Error bars of whole numbers, by a parametric bootstrap: what would happen if the records found were the true ones.

Zone: RELEASED.

Fresh noise with the variances of the plan is added to the coordinates of the records found, records are looked for
again, and the errors of their counts against those found are collected. It uses the release alone and costs no privacy.

Not promised. The counts are biased, and the records found have less variety than the true ones: a cell that was pulled
to 0 will be pulled to 0 again, and its error bar is too small. So these are standard errors of typical cells, for
comparing whole numbers with estimates; intervals that hold are those of the estimates, cut off at 0.

See THEORY section 5.3.
"""

from __future__ import annotations

import numpy as np

from privcube.algebra.lattice import Floats
from privcube.model.workload import Table
from privcube.progress import Progress, silent
from privcube.released.whole.blocks import Problem
from privcube.released.whole.generator import generator, seed_of
from privcube.released.whole.goals import counted_tables, goals_of
from privcube.released.whole.records import Records
from privcube.released.whole.release import WholeRelease, counts_of
from privcube.released.whole.search import fitted_records


def count_errors(
    release: WholeRelease, records: Records, repetitions: int, progress: Progress = silent
) -> dict[Table, Floats]:
    """For every table of the workload, the root mean square error of each count under repeated noise."""
    problem = Problem(goals_of(release.without_facts()))
    truth = problem.coordinates(problem.keys(records.codes), records.times.astype(np.float64))
    random = generator(seed_of(release.measurements) + 1)
    workload, facts = release.workload, release.facts
    exact = {table: counts_of(records, workload, table) for table in counted_tables(workload)}
    squares = {table: np.zeros(counts.shape) for table, counts in exact.items()}
    for _ in range(repetitions):
        noisy = truth + random.standard_normal(len(truth)) * np.sqrt(problem.variance)
        again = fitted_records(problem.goals_at(noisy), "fast", facts, random, progress)
        for table, counts in exact.items():
            squares[table] += (counts_of(again, workload, table) - counts) ** 2.0
    return {table: np.sqrt(own / repetitions) for table, own in squares.items()}
