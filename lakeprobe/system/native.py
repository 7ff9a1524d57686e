"""Loads the functions in C of the folder `native`.

They are compiled when lakeprobe is installed (`hatch_build.py`). If that found no compiler, or LAKEPROBE_NATIVE is 0,
there are none, and whoever would call one takes a slower road in numpy to the same result, to the last bit.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from lakeprobe import resources

ADDRESS = ctypes.c_void_p
"""Type of an argument: the address of memory as an int, or `memory`."""
SIZE = ctypes.c_size_t
"""Type of an argument: a number that is not negative."""

_FILE = "kernels.so"


def function(name: str, *arguments: type) -> Callable[..., None] | None:
    """Return the function `name`, which takes `arguments` and returns nothing; None if it is not there.

    While it runs, other threads run, too. It reads and writes the memory it is given without any check.
    """
    library = _library()
    if library is None:
        return None
    try:
        found = library[name]
    except AttributeError:  # compiled from older sources
        return None
    found.argtypes = arguments
    found.restype = None
    return found


def memory(size: int) -> type[Any]:
    """Return the type whose objects are `size` bytes of memory, zeros at first, for a function to write to."""
    return ctypes.c_char * size


def state() -> str:
    """Return in words whether the functions are there."""
    if not _is_wanted():
        return "not used, because LAKEPROBE_NATIVE is 0"
    return str(_path()) if _library() else "missing: install lakeprobe again where there is a C compiler"


@cache
def _library() -> ctypes.CDLL | None:
    if not _is_wanted():
        return None
    try:
        return ctypes.CDLL(str(_path()))
    except OSError:
        return None


def _is_wanted() -> bool:
    return os.environ.get("LAKEPROBE_NATIVE") != "0"


def _path() -> Path:
    return resources.folder("native") / _FILE
