"""The files of one table, compared with what plan and measurements give. Zone: RELEASED.

Numbers that were worked out on another machine may differ in their last digits. So the numbers of the Parquet file are
taken as published and compared with our own to a millionth (`privcube.released.artifact.verification`); both files must
then be, byte for byte, what privcube writes for these numbers and the declared labels. If another version of pyarrow
wrote the Parquet file, its form and its values are compared instead (`privcube.released.artifact.parquet_form`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from privcube.algebra.lattice import Floats, Integers
from privcube.arrow import array_of
from privcube.model.workload import Table
from privcube.released.artifact.folder import TABLES, Contents
from privcube.released.artifact.parquet_form import read_parquet
from privcube.released.artifact.table_files import TableWriter
from privcube.released.labels import COUNTS, NUMBERS

_ROOM: Final = 2**16  # bytes by which a file may exceed its own numbers


class Published(NamedTuple):
    """A table as published beside the same numbers worked out again, and what is wrong with its files."""

    file: str
    table: Table
    numbers: Mapping[str, Floats | Integers]
    again: Mapping[str, Floats | Integers]
    wrong: tuple[str, ...]  # files with other bytes than their numbers and labels give
    same_writer: bool  # False: the Parquet file could not be compared byte for byte

    @property
    def other_digits(self) -> int:
        """How many numbers are not equal to ours to the last digit."""
        return sum(int(np.count_nonzero(self.numbers[name] != self.again[name])) for name in NUMBERS)


def published_table(
    contents: Contents, writer: TableWriter, stem: str, table: Table, again: Mapping[str, Floats | Integers]
) -> Published:
    """Read the numbers of a table, and compare the bytes of its files."""
    parquet, csv = (f"{TABLES}/{stem}.{kind}" for kind in ("parquet", "csv"))
    own = writer.parquet(table, again)
    if contents.holds(parquet, own):
        numbers: Mapping[str, Floats | Integers] = again
        wrong, same = [], True
    else:
        most = 2 * len(own) + sum(column.nbytes for column in again.values()) + _ROOM
        content = contents.content(parquet, most)
        found = read_parquet(content, own, parquet)
        numbers, same = _numbers(found.table, again), found.same_writer
        labels = found.table.drop_columns(list(again))
        as_written = content == writer.parquet(table, numbers) if same else labels.equals(writer.labels(table))
        wrong = [] if as_written else [parquet]
    if not contents.holds(csv, writer.csv(table, numbers)):
        wrong.append(csv)
    return Published(parquet, table, numbers, again, tuple(wrong), same)


def _numbers(found: Any, again: Mapping[str, Floats | Integers]) -> dict[str, Floats | Integers]:
    numbers: dict[str, Floats | Integers] = {
        name: np.asarray(array_of(found[name]), dtype=np.float64) for name in again if name not in COUNTS
    }
    numbers |= {name: np.asarray(array_of(found[name]), dtype=np.int64) for name in again if name in COUNTS}
    return numbers
