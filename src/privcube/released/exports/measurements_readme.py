"""README.md of measurements with names: what the files hold, and least squares in a few lines. Zone: RELEASED."""

from __future__ import annotations

from typing import Final

from privcube.released.exports.notes import notes, title_of
from privcube.released.release import Release

_README: Final = """# Measurements of: {title}

All numbers here are noisy already. They cost nothing more: whatever is worked out from them has the guarantee below.

- `groups.csv`: what every group measures, and how its noise was drawn. `drawn` is the scale or variance of the noise on
  `answer`, exactly; of contrasts, it is multiplied by the squared length of the row. Groups of a bundle are noised
  together.
- `measurements.csv`: the noisy numbers, by group and row: what each `counts`, the whole number `answer`, its `value` in
  records (`answer` over the `parts` of its group), and the `variance` by which least squares weighs it.
- `rows.csv`: what a row is: a sum of terms, each a product of one function per attribute. Attributes without a function
  are summed over; a row without a line counts all records.
- `functions.csv`: the `weight` that a function of an attribute gives to the cells from `first` to `last`; other cells
  get 0.
- `cells.csv`: the cells of every attribute. Padding never holds a record; it is here as the published numbers were
  worked out with it.
- `tables.csv`: the axes of the published tables, numbered as in the artifact; the total has none.
- `published.csv`: the functions of the numbers along every axis of a published table.

Text that a spreadsheet would take for a formula has an apostrophe in front.

## Least squares

{recovery}
Run in this folder, these lines find `estimates`: every published table with all its digits, in the order of its Parquet
file. They form all combinations of cells, so they are for small domains; larger ones need no such matrix, as the rows
are products.

```python
{code}```

## How to read the numbers

{notes}
"""

_LEAST_SQUARES: Final = """The published estimates are those of weighted least squares: they follow from counts x of
all combinations of cells with the least sum of (row x - value)^2 / variance. Where a `slice` is given, another group
(`told_by`) tells its sum, so rows and values are taken less their means over the slice.
"""
_DIRECT: Final = """This release was recovered directly: every table was added up from groups of its own, and tables
need not agree. The lines below make them agree, so their estimates are other than the published ones.
"""
_KNOWN: Final = """Some numbers were publicly known (`known` in `release.json`), and the published estimates were made
to meet them afterwards. The estimates below are those before that.
"""

CODE: Final = '''import csv
from collections import defaultdict
import numpy as np


def lines(name):
    with open(name, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


size = defaultdict(int)
for line in lines("cells.csv"):
    size[line["attribute"]] += 1
weights = {}
for line in lines("functions.csv"):
    own = weights.setdefault((line["attribute"], line["function"]), np.zeros(size[line["attribute"]]))
    own[int(line["first"]) : int(line["last"]) + 1] = float(line["weight"])


def product(factors):
    """One function per attribute, multiplied out over all combinations of cells."""
    found = np.ones(1)
    for name, cells in size.items():
        found = np.kron(found, weights[name, factors[name]] if name in factors else np.ones(cells))
    return found


terms = defaultdict(lambda: defaultdict(dict))
for line in lines("rows.csv"):
    terms[line["group"], line["row"]][line["term"]][line["attribute"]] = line["function"]
measured = lines("measurements.csv")
S = np.array([sum(map(product, terms[m["group"], m["row"]].values() or [{}])) for m in measured])
y = np.array([float(m["value"]) for m in measured])
slices = defaultdict(list)
for at, m in enumerate(measured):
    if m["slice"]:
        slices[m["group"], m["slice"]].append(at)
for own in slices.values():
    S[own], y[own] = S[own] - S[own].mean(axis=0), y[own] - y[own].mean()
root = np.sqrt([float(m["variance"]) for m in measured])
x = np.linalg.lstsq(S / root[:, None], y / root, rcond=1e-12)[0]

published = defaultdict(list)
for line in lines("published.csv"):
    published[line["attribute"], line["level"], line["queries"]].append(line["function"])
axes = defaultdict(list)
for line in lines("tables.csv"):
    axis = (line["attribute"], line["level"], line["queries"])
    axes[line["number"]] += [axis] if any(axis) else []
estimates = {}
for number, table in axes.items():
    queries = [{}]
    for axis in table:
        queries = [{**factors, axis[0]: own} for factors in queries for own in published[axis]]
    estimates[number] = np.array([product(factors) @ x for factors in queries])
'''


def readme(release: Release) -> str:
    """The text of README.md."""
    recovery = _LEAST_SQUARES if release.agrees else _DIRECT
    known = _KNOWN if release.facts and release.honors_facts else ""
    told = "\n".join(f"- {note}" for note in notes(release))
    return _README.format(title=title_of(release), recovery=f"{recovery}{known}", code=CODE, notes=told)
