"""Takes in the tensors of one unit: hashes each, stores equal contents once, and copies or links the bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeprobe.errors import TensorError
from lakeprobe.lake.values import LARGEST_VALUE, ValuesWriter
from lakeprobe.readers.archive import is_temporary
from lakeprobe.readers.source import ContentOf

if TYPE_CHECKING:
    from lakeprobe.tensors import TensorReference

_VALUES_FILE = "values-0.parquet"


class Contents:
    """The distinct tensor contents of a unit."""

    def __init__(self, unit_folder: Path, storage: str) -> None:
        """Read tensors. With the storage `copy`, write their bytes into `unit_folder`."""
        self._unit_folder = unit_folder
        self._storage = storage
        self._rows: dict[str, dict[str, Any]] = {}
        self._known: dict[Path | TensorReference, tuple[str | None, str | None]] = {}
        self._values: ValuesWriter | None = None
        self._in_values: list[str] = []
        self.bytes = 0
        self.too_large = 0

    def of(self, folder: Path | None) -> ContentOf:
        """Return a function that takes a file name in `folder`, or a tensor's reference.

        It returns the content hash and None, or None and what is wrong with the tensor. Both are None if tensors are
        left out.
        """

        def content_of(tensor: str | TensorReference) -> tuple[str | None, str | None]:
            if self._storage == "none":
                return None, None
            if not isinstance(tensor, str):
                return self._content(tensor)
            return self._content(folder / tensor) if folder else (None, f"there is no folder that holds {tensor}")

        return content_of

    def _content(self, tensor: Path | TensorReference) -> tuple[str | None, str | None]:
        if tensor not in self._known:
            try:
                self._known[tensor] = self._take_in(tensor), None
            except TensorError as error:
                self._known[tensor] = None, str(error)
        return self._known[tensor]

    def __len__(self) -> int:
        """Return the number of distinct contents."""
        return len(self._rows)

    def _take_in(self, tensor: Path | TensorReference) -> str:
        from lakeprobe.tensors import content_hash, read_tensor  # a dump without tensors does not need these imports
        from lakeprobe.tensors.merged import is_merged

        reference = read_tensor(tensor) if isinstance(tensor, Path) else tensor
        is_passing = is_merged(reference.file)
        if reference.length > LARGEST_VALUE and is_passing:
            raise TensorError(
                f"{len(reference.shape)} axes of {reference.length} bytes are too large to be put together"
            )
        if reference.length > LARGEST_VALUE and is_temporary(reference.file):
            raise TensorError(f"{tensor} is compressed and too large to be copied; unpack the archive, give the folder")
        content = content_hash(reference)
        if content not in self._rows:
            self._rows[content] = self._row(content, reference)
            self.bytes += int(self._rows[content]["length"])
            if self._storage == "copy" or is_passing:
                self._copy(content, reference)
        return content

    def _row(self, content: str, reference: TensorReference) -> dict[str, Any]:
        return {
            "content": content,
            "dtype": reference.dtype,
            "shape": list(reference.shape),
            "strides": None if reference.strides is None else list(reference.strides),
            "file": reference.file,
            "offset": reference.offset,
            "length": reference.length,
        }

    def _copy(self, content: str, reference: TensorReference) -> None:
        import numpy as np

        from lakeprobe.tensors import open_tensor

        if reference.length > LARGEST_VALUE:
            self.too_large += 1
            return
        if self._values is None:
            self._values = ValuesWriter(self._unit_folder / _VALUES_FILE)
        tensor = open_tensor(reference)
        data = np.ascontiguousarray(tensor).reshape(-1).view(np.uint8) if tensor.size else np.empty(0, np.uint8)
        self._values.add(content, data)
        self._in_values.append(content)
        self._rows[content] |= {"strides": None, "length": data.nbytes}

    def __enter__(self) -> Contents:
        return self

    def __exit__(self, *_: object) -> None:
        if self._values is not None:
            self._values.abandon()

    def close(self) -> list[dict[str, Any]]:
        """Finish the copies. Returns the rows of the table contents."""
        if self._values is not None:
            offsets = self._values.close()
            for content in self._in_values:
                self._rows[content] |= {"file": _VALUES_FILE, "offset": offsets[content]}
        return list(self._rows.values())
