"""Arrow columns from numpy arrays and lists, and back. Zone: PUBLIC.

pyarrow's own conversions load pandas if it is installed, which takes longer than most commands. These use the raw bytes
instead, and leave everything but plain numbers and text to pyarrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_MOST_BYTES: Final = 2**31 - 1  # of text in one column, which Arrow addresses with signed 32-bit offsets


def array_of(column: Any) -> NDArray[Any]:
    """The values of an Arrow column, chunked or not.

    >>> array_of(column_of([3, 1, 2])).tolist()
    [3, 1, 2]
    """
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    is_number = pa.types.is_integer(whole.type) or pa.types.is_floating(whole.type)
    if whole.null_count or not is_number:
        return np.asarray(whole.to_numpy(zero_copy_only=False))
    return np.from_dlpack(whole)


def column_of(values: NDArray[Any] | Sequence[Any]) -> Any:
    """An array or list as an Arrow column, of the type that pyarrow would choose.

    >>> [str(column_of(values).type) for values in (np.zeros(2), [1, 2], ["a", "é"], [True], [1, None])]
    ['double', 'int64', 'string', 'bool', 'int64']
    """
    if not isinstance(values, np.ndarray):
        kinds = set(map(type, values))
        if kinds == {str}:
            return _texts(values)
        if kinds not in ({int}, {float}):
            return pa.array(values)
        values = np.array(values, dtype=np.float64 if kinds == {float} else np.int64)
    if values.dtype.kind not in "iuf" or not values.dtype.isnative:
        return pa.array(values)
    plain = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(plain.dtype), len(plain), [None, pa.py_buffer(plain)])


def _texts(texts: Sequence[str]) -> Any:
    encoded = [text.encode() for text in texts]
    ends = [0, *accumulate(map(len, encoded))]
    if ends[-1] > _MOST_BYTES:
        return pa.array(texts, pa.string())
    buffers = [None, pa.py_buffer(np.array(ends, dtype=np.int32)), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)
