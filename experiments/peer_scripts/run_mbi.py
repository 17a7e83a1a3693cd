"""mbi (Private-PGM): a model fitted to the noisy answers that privcube measured, by the recommended estimator."""

import json
from functools import cache
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from mbi import Domain, LinearMeasurement, estimation
from protocol import serve


class Rows:
    """Some rows of a product of transforms, one per attribute, each with a scale, applied to a marginal."""

    def __init__(self, factors, rows, scales):
        self.factors = [jnp.asarray(factor) for factor in factors]
        self.rows, self.scales = jnp.asarray(rows), jnp.asarray(scales)

    def __call__(self, factor):
        values = factor.values
        for at, rows in enumerate(self.factors):
            values = jnp.moveaxis(jnp.tensordot(rows, values, axes=(1, at)), 0, at)
        return values.ravel()[self.rows] * self.scales


@cache
def rows_of(said):
    """The same object for the same rows: nothing is compiled again for another release."""
    return Rows(*json.loads(said))


def release(job, _codes):
    """Read nothing but the noisy answers."""
    path = Path(job["measurements"]) / f"{job['repetition']}.json"
    given = json.loads(path.read_text(encoding="utf-8"))
    measured = []
    for group in given["groups"]:
        answers, attributes = np.array(group["answers"]), tuple(group["attributes"])
        said = json.dumps([group["factors"], group["rows"], group["scales"]])
        measured.append(LinearMeasurement(answers, attributes, 1.0, rows_of(said)))
    domain = Domain.fromdict(job["sizes"])
    model = estimation.MirrorDescent().estimate(domain, measured, known_total=max(given["total"], 1.0))
    return [np.asarray(model.project(tuple(table)).values) for table in job["tables"]]


serve(release)
