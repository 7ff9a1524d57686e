"""Tensors of MindSpore as arrays of numpy and back, bfloat16 included, which numpy has through ml_dtypes."""

from typing import Any

import mindspore
import ml_dtypes
import numpy as np
from mindspore import Tensor

from lakeprobe.collect.watching.values import Array


def to_tensor(array: Array) -> Any:
    """Return a tensor of its own with the elements of an array."""
    if array.dtype.name == "bfloat16":
        return Tensor(array.astype(np.float32)).astype(mindspore.bfloat16)
    return Tensor(np.array(array, order="C"))


def to_array(tensor: Any) -> Array:
    """Return an array of its own with the elements of a tensor."""
    if tensor.dtype == mindspore.bfloat16:
        small: Array = tensor.astype(mindspore.float32).asnumpy().astype(ml_dtypes.bfloat16)
        return small
    array: Array = np.array(tensor.asnumpy())
    return array
