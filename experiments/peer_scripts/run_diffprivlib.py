"""diffprivlib: a histogram per table, the budget split by its accountant (with a delta, by advanced composition)."""

import numpy as np
from diffprivlib.accountant import BudgetAccountant
from diffprivlib.tools import histogramdd
from protocol import serve, shape_of


def release(job, codes):
    """Truncated geometric noise: whole numbers, none below 0."""
    names, delta = list(job["sizes"]), job["delta"] or 0.0
    accountant = BudgetAccountant(epsilon=job["epsilon"], delta=delta, slack=delta)
    epsilon, _ = accountant.remaining(k=len(job["tables"]))
    epsilon *= 1 - 1e-6  # spent so many times, what remains may exceed the budget by rounding
    made = []
    for table in job["tables"]:
        edges = [np.arange(size + 1) - 0.5 for size in shape_of(job, table)]
        sample = codes[:, [names.index(name) for name in table]]
        made.append(histogramdd(sample, epsilon=epsilon, bins=edges, accountant=accountant)[0])
    spent = accountant.total()
    assert spent[0] <= job["epsilon"] * (1 + 1e-9), spent
    assert spent[1] <= delta, spent
    return made


serve(release)
