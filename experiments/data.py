"""The two data sets of the paper's section 5 and its six workloads.

Adult and NLTCS are read from the folder in the environment variable PRIVCUBE_DATA, or from shared/data beside the
checkout. They are not ours to pass on. Where they are absent, records of the same shape are made up; every result says
which of the two it is about. Values are numbered as they sort: for public records an experiment may read them off.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import privcube as pc
from privcube.model.workload import Table

FROM_FILE: Final = "file"
STAND_IN: Final = "generated stand-in"
WORKLOADS: Final = ("Q1", "Q1*", "Q1a", "Q2", "Q2*", "Q2a")

_ADULT: Final = {
    "workclass": 9,
    "education": 16,
    "marital-status": 7,
    "occupation": 15,
    "relationship": 6,
    "race": 5,
    "sex": 2,
    "salary": 2,
}
_NLTCS: Final = dict.fromkeys(
    (
        *("eating", "getting_in_out_of_bed", "getting_around_inside", "dressing", "bathing", "using_toilet"),
        *("heavy_house_work", "light_house_work", "laundry", "cooking", "grocery_shopping", "getting_about_outside"),
        *("traveling", "managing_money", "taking_medicine", "telephoning"),
    ),
    2,
)
_GENERATED: Final = {f"x{at}": size for at, size in enumerate((2, 3, 4, 5, 6, 8, 10, 12, 16, 20))}
_SHAPES: Final = {"Adult": (_ADULT, 32_561), "NLTCS": (_NLTCS, 21_574), "Generated": (_GENERATED, 20_000)}
DATASETS: Final = ("Adult", "NLTCS")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Records as numbered values, and whether they are the real ones."""

    name: str
    data: str  # FROM_FILE or STAND_IN
    schema: pc.Schema
    codes: pd.DataFrame

    @property
    def records(self) -> int:
        """How many records there are."""
        return len(self.codes)

    @property
    def title(self) -> str:
        """Its name in plots."""
        return self.name if self.data == FROM_FILE else f"{self.name} ({self.data})"

    def counts(self, table: Table) -> NDArray[np.int64]:
        """The exact counts of a table."""
        shape = tuple(self.schema[name].cells for name in map(str, table))
        keys = np.ravel_multi_index(tuple(self.codes[name].to_numpy() for name in map(str, table)), shape)
        return np.bincount(keys, minlength=int(np.prod(shape))).reshape(shape)


@cache
def dataset(name: str) -> Dataset:
    """One of `DATASETS`."""
    sizes, rows = _SHAPES[name]
    folder = os.environ.get("PRIVCUBE_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(folder) / f"{name.lower()}.csv"
    if path.exists():
        codes = _numbered(pd.read_csv(path, dtype=str, keep_default_na=False), sizes)
        return Dataset(name, FROM_FILE, pc.Schema.from_sizes(sizes), codes)
    return Dataset(name, STAND_IN, pc.Schema.from_sizes(sizes), made_up(sizes, rows))


def _numbered(frame: pd.DataFrame, sizes: dict[str, int]) -> pd.DataFrame:
    codes = {name: pd.factorize(frame[name], sort=True)[0] for name in sizes}
    for name, size in sizes.items():
        if codes[name].max() >= size:
            raise ValueError(f"{name}: expected at most {size} values, given {codes[name].max() + 1}")
    return pd.DataFrame(codes)


def made_up(sizes: dict[str, int], rows: int) -> pd.DataFrame:
    """Six kinds of people, each with its own skewed distribution of every attribute."""
    generator = np.random.default_rng(2013)
    kind = generator.choice(6, rows, p=[0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
    columns = {}
    for name, size in sizes.items():
        tops = generator.dirichlet(np.full(size, 0.4), 6).cumsum(axis=1)
        draws = generator.random(rows)[:, None]
        columns[name] = np.minimum((draws > tops[kind]).sum(axis=1), size - 1)
    return pd.DataFrame(columns)


def workload(schema: pc.Schema, name: str) -> pc.Workload:
    """Qk: all k-way tables; Qk*: and half of the (k+1)-way ones; Qka: and those with the first attribute."""
    way = int(name[1])
    if name.endswith("*"):
        return pc.Workload.kway_plus_half(schema, way)
    if name.endswith("a"):
        return pc.Workload.kway_plus_attribute(schema, way, schema.names[0])
    return pc.Workload.all_kway(schema, way)
