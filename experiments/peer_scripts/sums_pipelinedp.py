"""PipelineDP without a cluster: COUNT, SUM and MEAN of every group, public groups, one aggregation per measure.

Its mean is that of values around the middle of the bounds, and its sum the mean times the count. With several measures
it counts once for each; the mean of these counts is better than any of them, so means are multiplied by that here.
"""

import numpy as np
import pipeline_dp
from sums_protocol import groups_of, serve_sums


def release(job, records):
    """Laplace or Gaussian noise, as its accountant divides the budget; counts of several measures are averaged."""
    gaussian = job["delta"] is not None
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=job["epsilon"], total_delta=job["delta"] or 1e-15)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    by, rows = list(job["sizes"]), range(len(next(iter(records.values()))))
    public = [tuple(place) for place in np.ndindex(*job["sizes"].values())]
    found = {}
    for name, (low, high) in job["measures"].items():
        columns = [records[each].tolist() for each in (*by, name)]
        extractors = pipeline_dp.DataExtractors(
            privacy_id_extractor=lambda row: row,
            partition_extractor=lambda row, columns=columns: tuple(column[row] for column in columns[:-1]),
            value_extractor=lambda row, columns=columns: columns[-1][row],
        )
        asked = pipeline_dp.AggregateParams(
            metrics=[pipeline_dp.Metrics.COUNT, pipeline_dp.Metrics.SUM, pipeline_dp.Metrics.MEAN],
            noise_kind=pipeline_dp.NoiseKind.GAUSSIAN if gaussian else pipeline_dp.NoiseKind.LAPLACE,
            max_partitions_contributed=1,
            max_contributions_per_partition=1,
            min_value=low,
            max_value=high,
        )
        found[name] = engine.aggregate(rows, asked, extractors, public_partitions=public)
    accountant.compute_budgets()
    made = {name: dict(result) for name, result in found.items()}
    columns = {name: [place[at] for place in public] for at, name in enumerate(by)}
    columns["n"] = [float(np.mean([made[name][place].count for name in made])) for place in public]
    columns |= {
        name: [made[name][place].mean * count for place, count in zip(public, columns["n"], strict=True)]
        for name in made
    }
    return groups_of(job, columns, "n")


serve_sums(release)
