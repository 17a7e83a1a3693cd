"""What a worker of Spark does with one partition of the records. Zone: SENSITIVE.

Records come as Arrow batches with the columns x0, x1, ...; DuckDB codes them and numpy counts them, as on one machine.
The counts of all tables are one long vector; it is sent in pieces, to be summed. What a worker raises would be logged,
with what it quotes, so these functions raise nothing: what they refuse is sent as a flag, a piece of negative number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from privcube.arrow import array_of
from privcube.model.attribute import Attribute
from privcube.sensitive.counting import Codes, Counts, TableCounter, code_bytes
from privcube.sensitive.cover import Block, Positions
from privcube.sensitive.duckdb_session import connected
from privcube.sensitive.measures.dividing import divided_places
from privcube.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa

    Report = Callable[[int], None]  # called with the number of records read
    Batches = Iterator[pa.RecordBatch]
    Coded = Iterator[tuple[set[int], list[Codes]]]  # the flags of a batch and, if there is none, its codes

PIECE: Final = 1 << 17  # cells that are sent together: at most 1 MiB
UNREADABLE: Final = -1  # flags
FIRST_REFUSED: Final = -2  # of the first attribute; -3 of the second, and so on; the last is of the person

PIECES: Final = "piece bigint, counts binary"
PACKED: Final = "flag bigint, person string, place binary, codes binary"

_CODES_IN_MEMORY: Final = 64 << 20
_BATCH: Final = 1 << 18  # records counted at a time
_PACKED_BATCH: Final = 1 << 14  # records packed at a time: their bytes are addressed by 32 bits


@dataclass(frozen=True)
class Work:
    """The instructions for workers; nothing in them depends on the data."""

    query: str  # from the columns x0, x1, ... of `records` to codes c0, c1, ...; with a person: nobody, person, place
    sizes: tuple[int, ...]
    attributes: tuple[Attribute, ...]
    tables: tuple[Positions, ...]
    blocks: tuple[Block, ...]  # the cover, found once
    cells: int

    @property
    def packed(self) -> np.dtype[np.void]:
        """How the codes of a record are written as bytes."""
        return np.dtype([(f"c{at}", f"<u{code_bytes(own.codes)}") for at, own in enumerate(self.attributes)])


def tell_version(batches: Batches) -> Batches:
    """The version of privcube that the worker has."""
    import pyarrow as pa

    for batch in batches:
        yield pa.record_batch({"version": pa.array([__version__] * batch.num_rows, pa.string())})


def ignore(rows: int) -> None:
    """Report to nobody how many records were read."""


def count_coded(work: Work, report: Report, batches: Batches) -> Batches:
    """Code and count records."""
    return _counted(work, _coded(work, report, batches))


def count_packed(work: Work, batches: Batches) -> Batches:
    """Count the flags and codes that are left of what `pack_coded` made."""
    return _counted(work, _unpacked(work, batches))


def pack_coded(work: Work, report: Report, batches: Batches) -> Batches:
    """Code records; the codes of each become a few bytes, as they are then sent and sorted."""
    import pyarrow as pa

    flags: set[int] = set()
    try:
        for batch in _queried(work.query, batches, _PACKED_BATCH, report):
            flags |= _refused(batch, len(work.sizes))
            if not flags:
                yield pa.record_batch(
                    {
                        "flag": pa.array(np.zeros(batch.num_rows, dtype=np.int64)),
                        "person": batch["person"],
                        "place": batch["place"],
                        "codes": _packed_codes(batch, work.packed),
                    }
                )
    except Exception:
        flags = {UNREADABLE}
    if flags:
        nothing = {name: pa.nulls(len(flags), kind) for name, kind in _packed_columns().items()}
        yield pa.record_batch({**nothing, "flag": pa.array(sorted(flags), pa.int64())})


def sum_pieces(cells: int, batches: Batches) -> Batches:
    """Sum the pieces that have the same number; flags stay flags."""
    sums: dict[int, Counts] = {}
    flags: set[int] = set()
    try:
        for batch in batches:
            for piece, counts in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                if piece < 0:
                    flags.add(piece)
                elif piece in sums:
                    sums[piece] += unpacked_counts(counts.as_buffer(), cells, piece)
                else:
                    sums[piece] = unpacked_counts(counts.as_buffer(), cells, piece)
    except Exception:
        flags = {UNREADABLE}
    yield from map(_row, flags)
    for piece, counts in sums.items():
        yield _row(piece, counts)


def unpacked_counts(packed: Any, cells: int, piece: int) -> Counts:
    """The counts in a piece of a vector of a given number of cells."""
    size, rest = divmod(len(packed), min(PIECE, cells - piece * PIECE))
    if rest:
        raise ValueError("a piece of another vector")
    return np.frombuffer(packed, dtype=f"<u{size}").astype(np.int64)


def _counted(work: Work, coded: Coded) -> Batches:
    flags: set[int] = set()
    try:
        counter = TableCounter(
            work.sizes, work.tables, codes_in_memory=_CODES_IN_MEMORY, workers=1, blocks=work.blocks,
            divided=divided_places(work.attributes),
        )  # fmt: skip
        for refused, codes in coded:
            flags |= refused
            if not flags:
                counter.add(codes)
        if not flags:
            counter.finish()
    except Exception:
        flags = {UNREADABLE}
    if flags:
        yield from map(_row, flags)
        return
    for piece, start in enumerate(range(0, work.cells, PIECE)):
        counts = counter.cells[start : start + PIECE]
        if counts.any():
            yield _row(piece, counts)


def _row(piece: int, counts: Counts | None = None) -> pa.RecordBatch:
    """A piece, or a flag; counts are sent in as few bytes as hold them."""
    import pyarrow as pa

    packed = b"" if counts is None else counts.astype(np.min_scalar_type(counts.max()).newbyteorder("<")).tobytes()
    return pa.record_batch({"piece": pa.array([piece], pa.int64()), "counts": pa.array([packed], pa.binary())})


def _coded(work: Work, report: Report, batches: Batches) -> Coded:
    for batch in _queried(work.query, batches, _BATCH, report):
        flags = _refused(batch, len(work.sizes))
        yield flags, [] if flags else [array_of(batch.column(number)) for number in range(len(work.sizes))]


def _queried(query: str, batches: Batches, rows: int, report: Report) -> Batches:
    """The answer to a query about all batches, which DuckDB sees as one stream."""
    import pyarrow as pa

    first = next(batches, None)
    if first is None:
        return
    with connected() as connection:
        connection.execute("SET threads = 1")  # a machine has one worker per core
        connection.register("records", pa.RecordBatchReader.from_batches(first.schema, chain([first], batches)))
        for batch in connection.sql(query).to_arrow_reader(rows):
            if batch.num_rows:
                report(batch.num_rows)
                yield batch


def _refused(batch: pa.RecordBatch, attributes: int) -> set[int]:
    """Flags of the attributes that a policy refuses somewhere, and of the person if a record names nobody."""
    flags = {FIRST_REFUSED - number for number in range(attributes) if batch.column(number).null_count}
    if batch.num_columns > attributes and batch["nobody"].true_count:
        flags.add(FIRST_REFUSED - attributes)
    return flags


def _packed_columns() -> dict[str, pa.DataType]:
    import pyarrow as pa

    return {"flag": pa.int64(), "person": pa.string(), "place": pa.binary(), "codes": pa.binary()}


def _packed_codes(batch: pa.RecordBatch, packed: np.dtype[np.void]) -> pa.Array:
    import pyarrow as pa

    codes = np.empty(batch.num_rows, dtype=packed)
    for name in packed.names or ():
        codes[name] = array_of(batch[name])
    ends = np.arange(batch.num_rows + 1, dtype=np.int32) * np.int32(packed.itemsize)
    return pa.Array.from_buffers(pa.binary(), batch.num_rows, [None, pa.py_buffer(ends), pa.py_buffer(codes)])


def _unpacked(work: Work, batches: Batches) -> Coded:
    """Codes unpacked from their bytes, many records at a time."""
    import pyarrow as pa

    gathered: list[Any] = []
    for batch in batches:
        numbers = array_of(batch["flag"])
        flags = set(numbers[numbers != 0].tolist())
        if flags:
            yield flags, []
            continue
        codes = batch["codes"].cast(pa.binary(work.packed.itemsize))
        gathered.append(np.frombuffer(codes.buffers()[1], dtype=work.packed, count=len(codes)))
        if sum(map(len, gathered)) >= _BATCH:
            yield set(), _columns(gathered)
            gathered = []
    if gathered:
        yield set(), _columns(gathered)


def _columns(gathered: Sequence[Any]) -> list[Codes]:
    return [np.concatenate([part[name] for part in gathered]) for name in gathered[0].dtype.names]
