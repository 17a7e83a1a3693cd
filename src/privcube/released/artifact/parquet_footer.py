"""What the footer of a Parquet file says of its row groups, read byte by byte. Zone: RELEASED.

pyarrow opens footers with care, but takes the word of what is in them: asked about a column that has no description, an
encrypted one, or a compression that does not exist, it ends the whole process. So columns are looked at here. A footer
is a struct of Thrift's compact protocol: fields with a number and a type, structs and lists within each other. Fields
that privcube's files have no use for, such as texts of a column or the path of another file, are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

_END: Final = b"PAR1"
_DEEPEST: Final = 16  # structs and lists within each other; Parquet has 7
_TRUE, _FALSE, _BYTE, _SHORT, _INT, _LONG, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = *range(1, 11), 12

Struct = dict[int, Any]
_FOOTER: Final = {1, 2, 3, 4, 6, 7}  # version, schema, rows, row groups, writer, orders
_GROUP: Final = {1, 2, 3, 5, 6, 7}  # columns, bytes, rows, offset, compressed bytes, number
_CHUNK: Final = {2, 3, 4, 5, 6, 7}  # offset, description, places of indexes
_COLUMN: Final = {1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16}  # with sizes and statistics, without texts and filters
_GROUPS, _COLUMNS, _ROWS, _DESCRIPTION, _CODEC = 4, 1, 3, 3, 4


class RowGroup(NamedTuple):
    """The rows of a row group, and how each of its columns is compressed, by number."""

    rows: int
    compressions: tuple[int, ...]


def row_groups(content: bytes) -> list[RowGroup]:
    """The row groups of a file; a ValueError if its footer is none, or has more in it than is known.

    >>> import io, pyarrow as pa, pyarrow.parquet as pq
    >>> made = io.BytesIO()
    >>> pq.write_table(pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]}), made, compression="none", store_schema=False)
    >>> row_groups(made.getvalue())
    [RowGroup(rows=3, compressions=(0, 0))]
    """
    size = int.from_bytes(content[-8:-4], "little")
    if content[-4:] != _END or size > len(content) - 12:
        raise ValueError("expected the footer of a Parquet file")
    reader = _Reader(content[-8 - size : -8])
    footer = _known(reader.struct(0), _FOOTER)
    if reader.at != size:
        raise ValueError("expected nothing after the footer")
    groups = [_known(group, _GROUP) for group in _listed(footer, _GROUPS)]
    return [RowGroup(_number(group, _ROWS), tuple(map(_compression, _listed(group, _COLUMNS)))) for group in groups]


def _compression(chunk: object) -> int:
    return _number(_known(_known(chunk, _CHUNK).get(_DESCRIPTION), _COLUMN), _CODEC)


def _known(struct: object, fields: set[int]) -> Struct:
    if not isinstance(struct, dict) or not struct.keys() <= fields:
        raise ValueError("expected a struct of known fields")
    return struct


def _listed(struct: Struct, field: int) -> list[object]:
    if not isinstance(found := struct.get(field), list):
        raise ValueError("expected a list")
    return found


def _number(struct: Struct, field: int) -> int:
    if type(found := struct.get(field)) is not int:
        raise ValueError("expected a number")
    return found


class _Reader:
    """Goes through the bytes of a struct once."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.at = 0
        self._values: dict[int, Callable[[int], object]] = {
            _BYTE: lambda _: self._taken(1),
            **dict.fromkeys((_SHORT, _INT, _LONG), lambda _: self._zigzag()),
            _DOUBLE: lambda _: self._taken(8),
            _BINARY: lambda _: self._taken(self._varint()),
            **dict.fromkeys((_LIST, _SET), self._list),
            _STRUCT: self.struct,
        }

    def struct(self, depth: int) -> Struct:
        """A struct by the numbers of its fields, which must rise."""
        found: Struct = {}
        field = 0
        while head := self._taken(1)[0]:
            step, kind = head >> 4, head & 15
            number = field + step if step else self._zigzag()
            if number <= field:
                raise ValueError("expected fields in order")
            field = number
            found[field] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return found

    def _list(self, depth: int) -> list[object]:
        head = self._taken(1)[0]
        size = head >> 4 if head >> 4 < 15 else self._varint()
        kind = head & 15
        if size > len(self._content) - self.at:
            raise ValueError("expected as many entries as there are bytes")
        return [self._value(_BYTE if kind in (_TRUE, _FALSE) else kind, depth) for _ in range(size)]

    def _value(self, kind: int, depth: int) -> object:
        if kind not in self._values or depth >= _DEEPEST:
            raise ValueError("expected types that a footer has")
        return self._values[kind](depth + 1)

    def _zigzag(self) -> int:
        number = self._varint()
        return number >> 1 ^ -(number & 1)

    def _varint(self) -> int:
        found = 0
        for shift in range(0, 70, 7):
            byte = self._taken(1)[0]
            found |= (byte & 127) << shift
            if byte < 128:
                return found
        raise ValueError("expected numbers of 64 bits")

    def _taken(self, size: int) -> bytes:
        found = self._content[self.at : self.at + size]
        if len(found) != size:
            raise ValueError("expected more bytes")
        self.at += size
        return found
