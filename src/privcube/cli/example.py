"""The example spec that `privcube init` writes and `privcube demo` runs: a hospital's discharge records."""

from __future__ import annotations

from typing import Final

EXAMPLE: Final = """\
# What to publish, from which data, with which guarantee. `privcube plan spec.toml` shows the error to expect.

[about]                         # for people: none of it changes the plan
title = "Hospital discharges"
description = "Stays of patients who were discharged, made up as an example."
publisher = "Example Hospital"
period = "2026"
licence = "CC0"
unit = "stays"                  # what is counted

[data]
source = "discharges.csv"       # file, glob, database file, SQL URL or Spark table
dataset = "discharges-2026"     # all releases with this name share one total, whatever their source is called
person = "patient_id"           # the protected unit; without it, one row is one unit
max_rows_per_person = 2         # at most this many rows per person are counted

[privacy]
epsilon = "1"                   # or epsilon and delta, or rho; read as exact decimals
neighbors = "add_remove"        # or "replace_one"
ledger = "ledger.db"            # records what was spent; use a PostgreSQL URL for several machines
total_epsilon = "4"             # what all releases together may spend

# Every attribute declares its values; they are published whether or not they occur. Of other values it says whether
# they have a category, drop the record, or (the default) refuse the release, which then tells that there are some.
[[attributes]]
name = "sex"
title = "Sex"
values = ["female", "male"]
labels = { female = "women", male = "men" }   # or a CSV file with columns value and label
missing = "category"            # or "drop", "refuse"
other = "category"              # or "drop", "refuse"

[[attributes]]
name = "age"
title = "Age"
bins = [0, 1, 5, 15, 25, 35, 45, 55, 65, 75, 85, 120]   # [0, 1), [1, 5), ...
underflow = "drop"              # no age is below 0
overflow = "clamp"              # counts in the last bin; or "category", "drop", "refuse"
missing = "drop"
other = "drop"

[[attributes.levels]]           # a coarser view of the same attribute; more may follow, each merging the one before
name = "stage"                  # it, or with of = "age" the bins themselves
title = "Stage of life"
bins = [0, 15, 65, 120]

[[attributes]]
name = "region"
title = "Region"
values = ["north", "east", "south", "west"]
missing = "drop"
other = "drop"

[[attributes]]
name = "admission"
title = "Admission"
values = ["planned", "emergency", "transfer"]
missing = "drop"
other = "drop"

[[attributes]]
name = "ward"
title = "Ward"
values = ["surgery", "medicine", "pediatrics", "maternity", "intensive care"]
missing = "drop"
other = "drop"

[[attributes]]
name = "diagnosis"
title = "Main diagnosis"
values = ["heart", "lungs", "digestion", "injury", "cancer", "birth", "infection"]
missing = "drop"
other = "category"

[[attributes]]
name = "stay"
title = "Length of stay in days"
bins = [0, 1, 3, 7, 14, 30, 366]
underflow = "drop"
overflow = "clamp"
missing = "drop"
other = "drop"

[[attributes]]
name = "outcome"
title = "Discharged to"
labels = { care = "a care facility" }
values = ["home", "care", "died"]
missing = "drop"
other = "drop"

[workload]
all_kway = [1, 2]               # all tables of one and of two attributes
tables = [
    { attributes = ["age", "ward", "outcome"], weight = 2, title = "Outcomes by age and ward" },
    ["sex", { attribute = "age", level = "stage" }, "ward"],
]

[plan]
strategy = "auto"

[output]
path = "out"
"""
