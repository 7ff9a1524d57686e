"""Takes in the tensors of one unit: hashes each, stores equal contents once, and copies or links the bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeprobe.errors import TensorError
from lakeprobe.ingest.steady import Steady
from lakeprobe.lake.values import LARGEST_VALUE, VALUES_FILE, ValuesWriter
from lakeprobe.readers.archive import is_temporary
from lakeprobe.readers.source import ContentOf

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lakeprobe.tensors import TensorReference


class Contents:
    """The distinct tensor contents of a unit."""

    def __init__(self, unit_folder: Path, storage: str) -> None:
        """Read tensors. With the storage `copy`, write their bytes into `unit_folder`."""
        self._unit_folder = unit_folder
        self._storage = storage
        self._rows: dict[str, dict[str, Any]] = {}
        self._known: dict[Path | TensorReference, tuple[str | None, str | None]] = {}
        self._seen = Steady()
        self._values: ValuesWriter | None = None
        self._beginnings: set[bytes] = set()
        """Hashes of dtype, shape and first block of the tensors that were written."""
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
            if isinstance(tensor, Path):  # the files of references describe the dump, or are ours
                self._seen.see(tensor)
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
        is_large = reference.length > LARGEST_VALUE
        if is_large and is_passing:
            raise TensorError(
                f"a tensor {list(reference.shape)} of {reference.length} bytes is too large to be put together"
            )
        if is_large and is_temporary(reference.file):
            raise TensorError(f"{tensor} is compressed and too large to be copied; unpack the archive, give the folder")
        is_copied = self._storage == "copy" or is_passing
        content, place = self._copied(reference) if is_copied and not is_large else (content_hash(reference), {})
        if content not in self._rows:
            self._rows[content] = self._row(content, reference) | place
            self.bytes += reference.length
            self.too_large += is_copied and is_large
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

    def _copied(self, reference: TensorReference) -> tuple[str, dict[str, Any]]:
        """Write a tensor while it is hashed, unless the unit may have it. Returns its content, and where it is if new.

        A tensor that no other begins like is new. Of the others most are not, so they are hashed first.
        """
        from lakeprobe.tensors.content import begun, hashing, tensor_blocks

        if reference.content in self._rows:
            return reference.content, {}
        digest = begun(reference)
        blocks = hashing(digest, tensor_blocks(reference))
        first = [*islice(blocks, 1)]
        beginning = digest.digest()
        if beginning not in self._beginnings:
            self._beginnings.add(beginning)
            place = self._write(reference, chain(first, blocks), digest.hexdigest)
            return digest.hexdigest(), place
        for _ in blocks:
            pass
        content = digest.hexdigest()
        if content in self._rows:
            return content, {}
        return content, self._write(reference, tensor_blocks(reference), lambda: content)

    def _write(
        self, reference: TensorReference, blocks: Iterable[NDArray[Any]], content: Callable[[], str]
    ) -> dict[str, Any]:
        from lakeprobe.tensors.content import array_bytes
        from lakeprobe.tensors.reference import element_count, numpy_dtype

        if self._values is None:
            self._values = ValuesWriter(self._unit_folder / VALUES_FILE)
        length = element_count(reference) * numpy_dtype(reference.dtype).itemsize
        offset = self._values.add(length, (array_bytes(block).data for block in blocks), content)
        return {"strides": None, "file": VALUES_FILE, "offset": offset, "length": length}

    def __enter__(self) -> Contents:
        return self

    def __exit__(self, *_: object) -> None:
        if self._values is not None:
            self._values.abandon()

    def close(self) -> list[dict[str, Any]]:
        """Finish the copies. Returns the rows of the table contents. Raises DumpError if a tensor file has changed."""
        self._seen.check()
        if self._values is not None:
            self._values.close()
        return list(self._rows.values())
