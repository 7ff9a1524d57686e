"""Takes in the tensor files of one dump: hashes each, keeps equal contents once, copies or links the bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lakeprobe.errors import TensorError
from lakeprobe.lake.values import LARGEST_VALUE, ValuesWriter
from lakeprobe.readers.locate import TENSOR_FOLDER
from lakeprobe.tensors import content_hash, open_tensor, read_tensor

if TYPE_CHECKING:
    from lakeprobe.tensors import TensorReference

_VALUES_FILE = "values-0.parquet"


class Contents:
    """The distinct tensor contents of a dump. Called with a data_name, it answers with its content hash."""

    def __init__(self, dump_folder: Path, unit_folder: Path, storage: str) -> None:
        """Read files of `dump_folder`; with the storage `copy`, write their bytes into `unit_folder`."""
        self._folder = dump_folder / TENSOR_FOLDER
        self._unit_folder = unit_folder
        self._storage = storage
        self._rows: dict[str, dict[str, Any]] = {}
        self._known: dict[str, tuple[str | None, str | None]] = {}
        self._values: ValuesWriter | None = None
        self._in_values: list[str] = []
        self.bytes = 0
        self.too_large = 0

    def __call__(self, data_name: str) -> tuple[str | None, str | None]:
        """The content hash of the file `data_name`, or what is wrong with it; neither if files are left out."""
        if self._storage == "none":
            return None, None
        if data_name not in self._known:
            try:
                self._known[data_name] = self._take_in(str(self._folder / data_name)), None
            except TensorError as error:
                self._known[data_name] = None, str(error)
        return self._known[data_name]

    def __len__(self) -> int:
        """How many distinct contents there are."""
        return len(self._rows)

    def _take_in(self, path: str) -> str:
        reference = read_tensor(path)
        content = content_hash(reference)
        if content not in self._rows:
            self._rows[content] = self._row(content, reference)
            self.bytes += int(self._rows[content]["length"])
            if self._storage == "copy":
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
