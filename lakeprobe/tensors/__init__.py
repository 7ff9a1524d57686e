"""Reads `.npy` and `.pt` files without torch, hashes what they hold and measures how far two are apart.

It never unpickles anything but the few names that a tensor needs, never holds a whole tensor in memory, and
knows nothing of dumps, lakes or tables: a `TensorReference` comes in, numbers go out.
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
