"""Picks the reader for a tensor file by its suffix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lakeprobe.errors import TensorError
from lakeprobe.tensors.npy import read_npy
from lakeprobe.tensors.pt import read_pt
from lakeprobe.tensors.reference import TensorReference

READERS: dict[str, Callable[[str | Path], TensorReference]] = {".npy": read_npy, ".pt": read_pt}


def read_tensor(path: str | Path) -> TensorReference:
    """Return the reference of the one tensor in a `.npy` or `.pt` file, without reading its values.

    Raises TensorError if the suffix is unknown, the file is missing, or it does not hold exactly one tensor.
    """
    reader = READERS.get(Path(path).suffix)
    if reader is None:
        raise TensorError(f"not a tensor file: {path}; the name must end in {' or '.join(READERS)}")
    return reader(path)
