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
    """Where the one tensor of a `.npy` or `.pt` file lies; its values are not read.

    Raises TensorError when the suffix is another one, the file is missing, or it does not hold one tensor.
    """
    reader = READERS.get(Path(path).suffix)
    if reader is None:
        raise TensorError(f"not a tensor file: {path}; the name must end in {' or '.join(READERS)}")
    return reader(path)
