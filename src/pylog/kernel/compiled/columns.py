"""Arrow arrays over the buffers that `buffers` fills. It needs pyarrow, so it is imported only when it is asked for."""

from collections.abc import Sequence

import pyarrow as pa

from pylog.errors import CorruptBatch
from pylog.kernel.compiled.buffers import decode_buffers
from pylog.kernel.pure import columns as specification
from pylog.kernel.pure.columns import HEADERS_TYPE
from pylog.kernel.values import BytesLike, ColumnSource

_FIXED = {"offset": pa.int64(), "timestamp": pa.int64(), "timestamp_type": pa.int32()}
_Parts = tuple[int, int, BytesLike | None, BytesLike, BytesLike]
"""The rows of a column, its nulls, and its validity, offsets and bytes."""


def decode_columns(
    batches: Sequence[ColumnSource], first_offset: int, end_offset: int, want: frozenset[str]
) -> dict[str, pa.Array]:
    """Decode the records in [first_offset, end_offset) of several batches into one array a name in `want`.

    Raises CorruptBatch for what `decode_records` refuses, ValueError for 2 GiB of payload or more in one call and for a
    column that does not exist.
    """
    specification.check_columns(want)
    made = decode_buffers(batches, first_offset, end_offset, want)
    if made is None:
        specification.decode_columns(batches, first_offset, end_offset, want)
        raise CorruptBatch("the compiled kernel refuses what the pure one reads: please report this")
    rows, buffers = made
    found = {}
    for name, given in buffers.items():
        if name == "headers":
            found[name] = _headers(*given)
        elif name in _FIXED:
            found[name] = pa.Array.from_buffers(_FIXED[name], rows, [None, pa.py_buffer(given)])
        else:
            found[name] = _binary(*given)
    return found


def _binary(rows: int, nulls: int, validity: BytesLike | None, offsets: BytesLike, data: BytesLike) -> pa.Array:
    return pa.Array.from_buffers(
        pa.binary(), rows, [_buffer(validity), pa.py_buffer(offsets), pa.py_buffer(data)], null_count=nulls
    )


def _buffer(block: BytesLike | None) -> pa.Buffer | None:
    return None if block is None else pa.py_buffer(block)


def _headers(lists: _Parts, names: _Parts, values: _Parts) -> pa.Array:
    rows, nulls, validity, offsets, _ = lists
    texts = specification.texts(_binary(*names))
    pairs = pa.StructArray.from_arrays([texts, _binary(*values)], fields=list(HEADERS_TYPE.value_type))
    over = [_buffer(validity), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(HEADERS_TYPE, rows, over, null_count=nulls, children=[pairs])
