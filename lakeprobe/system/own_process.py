"""Changes settings of a process that only lakeprobe uses. A library must not change them."""

from __future__ import annotations

import gc
import os
import sys

_OBJECTS_BEFORE_COLLECTING = 100_000
"""Objects to allocate before a garbage collection. A command makes few cycles, most of its objects stay, and looking
for cycles takes 0.05 s."""


class _WithoutPandas:
    """Makes pandas seem not installed. lakeprobe does not use it, but pyarrow imports it to check the type of a list.

    If it is installed, that takes 0.15 s and 40 MB of every process.
    """

    def find_spec(self, name: str, *_: object) -> None:
        """Raise ModuleNotFoundError for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def prepare() -> None:
    """Make this process start faster and use less memory. Call it before numpy or pyarrow is imported."""
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTING)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's threads spin, and lakeprobe multiplies no matrices
    sys.meta_path.insert(0, _WithoutPandas())


def give_memory_back() -> None:
    """Return the memory that reading took to the system. A comparison in the same process needs as much again."""
    import ctypes

    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
