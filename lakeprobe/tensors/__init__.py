"""Reads `.npy` and `.pt` files without torch, hashes their contents, and measures how far two tensors are apart.

It unpickles nothing but the few names that a tensor needs, never holds a whole tensor in memory, and knows nothing of
dumps, lakes or tables. It takes a `TensorReference` and returns numbers.
"""

from __future__ import annotations

from lakeprobe.tensors.content import content_hash
from lakeprobe.tensors.files import read_tensor
from lakeprobe.tensors.metrics import TensorMetrics, measure, measure_pairs
from lakeprobe.tensors.reference import TensorReference, open_tensor

__all__ = [
    "TensorMetrics",
    "TensorReference",
    "content_hash",
    "measure",
    "measure_pairs",
    "open_tensor",
    "read_tensor",
]
