"""Changes settings of a process that only lakeprobe uses. A library must not change them."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Callable
from typing import NoReturn

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


def end(program: Callable[[], None]) -> NoReturn:
    """Run `program`, and end this process with its exit code.

    What Python and DuckDB hold is left to the system. To take it apart piece by piece takes 0.05 s and more.
    """
    code = 0
    try:
        program()
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        code = ended.code or 0
    atexit._run_exitfuncs()
    try:
        for stream in filter(None, (sys.__stdout__, sys.__stderr__)):
            stream.flush()
    except OSError:  # the reader has left, or the disk is full: Python says so
        sys.exit(code)
    os._exit(code)


def give_memory_back() -> None:
    """Return the memory that reading took to the system. A comparison in the same process needs as much again."""
    import ctypes

    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
