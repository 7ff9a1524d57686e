"""Stores tensor contents as a Parquet file whose bytes can be memory-mapped.

The file is ordinary Parquet (columns content and data, see schemas/values.yaml), uncompressed and plainly encoded, so
that any tool can read it. A page of such a column ends with its values, each as a length of four bytes and the bytes.
The sizes in the footer determine where each value begins, and a metric maps it from there without a copy.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lakeprobe.errors import LakeError
from lakeprobe.schema import arrow_schema

if TYPE_CHECKING:
    import numpy.typing as npt

LARGEST_VALUE = 1 << 30
"""Bytes of the largest tensor that is copied, because Parquet pages end at 2 GiB. Larger ones stay in the dump's
files."""

_GROUP = 1 << 23
_LENGTH = struct.Struct("<I")


class ValuesWriter:
    """Writes one values-*.parquet. Small contents share a row group, and each large one has its own."""

    def __init__(self, path: Path) -> None:
        """Begin the file `path`."""
        import pyarrow.parquet as pq

        self._path = path
        self._schema = arrow_schema("values")
        self._writer = pq.ParquetWriter(
            path, self._schema, compression="NONE", use_dictionary=False, write_statistics=False,
            data_page_size=2 * LARGEST_VALUE, column_encoding={"data": "PLAIN"},
        )  # fmt: skip
        self._contents: list[str] = []
        self._buffers: list[npt.NDArray[np.uint8]] = []
        self._pending = 0
        self._groups: list[list[tuple[str, int]]] = []

    def add(self, content: str, data: npt.NDArray[np.uint8]) -> None:
        """Append the bytes `data` of the tensor `content`."""
        self._contents.append(content)
        # A small one may be a memory-mapped file. A process cannot keep many of these open.
        self._buffers.append(data if data.nbytes >= _GROUP else data.copy())
        self._pending += data.nbytes
        if self._pending >= _GROUP:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        if not self._contents:
            return
        sizes = [buffer.nbytes for buffer in self._buffers]
        offsets = pa.array([0, *accumulate(sizes)], type=pa.int64())
        joined = pa.py_buffer(self._buffers[0] if len(sizes) == 1 else np.concatenate(self._buffers))
        data = pa.Array.from_buffers(pa.large_binary(), len(sizes), [None, offsets.buffers()[1], joined])
        batch = pa.record_batch([pa.array(self._contents, type=pa.string()), data], schema=self._schema)
        self._writer.write_batch(batch, row_group_size=len(sizes))
        self._groups.append(list(zip(self._contents, sizes, strict=True)))
        self._contents, self._buffers, self._pending = [], [], 0

    def abandon(self) -> None:
        """Release the file without finishing it, because its folder is about to be removed."""
        self._writer.is_open = False

    def close(self) -> dict[str, int]:
        """Finish the file. Returns the offset of the first byte of each content."""
        import pyarrow.parquet as pq

        self._flush()
        self._writer.close()
        metadata = pq.read_metadata(self._path)
        with self._path.open("rb") as file:
            return {
                content: offset
                for index, group in enumerate(self._groups)
                for content, offset in _offsets(self._path, file, metadata.row_group(index).column(1), group)
            }


def _offsets(path: Path, file: Any, chunk: Any, group: list[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """Yield the offset of each value of a row group. Its page ends with the values, one after the other."""
    end: int = chunk.data_page_offset + chunk.total_compressed_size
    place = end - sum(size + _LENGTH.size for _, size in group)
    for content, size in group:
        file.seek(place)
        if _LENGTH.unpack(file.read(_LENGTH.size)) != (size,):
            raise LakeError(f"{path}: the Parquet library does not lay out values as expected; use --tensors link")
        yield content, place + _LENGTH.size
        place += _LENGTH.size + size
