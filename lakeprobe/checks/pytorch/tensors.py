"""numpy arrays as torch tensors and back, dtypes included that numpy has only through ml_dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[Any]

_WORDS = {1: torch.uint8, 2: torch.int16}
WIDER = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float8_e4m3fn: torch.float32,
    torch.float8_e5m2: torch.float32,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}
"""The dtype in which a reference is computed."""


def dtype_of(name: str) -> torch.dtype | None:
    """The dtype that is called 'float32', 'torch.float32' or 'Float32'; None if torch has none of that name."""
    found = getattr(torch, name.rpartition(".")[2].lower(), None)
    return found if isinstance(found, torch.dtype) else None


def name_of(dtype: torch.dtype) -> str:
    """'float32' for torch.float32."""
    return str(dtype).removeprefix("torch.")


def to_torch(array: Array) -> torch.Tensor:
    """A tensor of its own with the array's elements."""
    dtype = dtype_of(array.dtype.name)
    if array.dtype.newbyteorder("=") != array.dtype:
        array = array.astype(array.dtype.newbyteorder("="))
    if hasattr(ml_dtypes, array.dtype.name) and dtype is not None and array.dtype.kind not in "iub":
        words = np.ascontiguousarray(array).view(
            np.dtype(f"i{array.dtype.itemsize}" if array.dtype.itemsize > 1 else "u1")
        )
        return torch.from_numpy(words.copy()).view(dtype).reshape(array.shape)
    return torch.from_numpy(np.array(array, order="C"))


def to_numpy(tensor: torch.Tensor) -> Array:
    """The elements of a tensor on any device, with the dtype that numpy or ml_dtypes has for it."""
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    name = name_of(tensor.dtype)
    if hasattr(ml_dtypes, name) and tensor.dtype.is_floating_point:
        words = tensor.view(_WORDS[tensor.element_size()]).numpy()
        small: Array = words.view(getattr(ml_dtypes, name))
        return small
    array: Array = tensor.numpy()
    return array
