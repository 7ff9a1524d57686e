"""Prepares a process that does lakeprobe's work alone: what it leaves out is not a library's to leave out."""

from __future__ import annotations

import gc
import os
import sys

_OBJECTS_BEFORE_COLLECTING = 100_000
"""A command makes few cycles, and most of its objects, those of the imports, stay: looking for cycles takes 0.05 s."""


class _WithoutPandas:
    """Lets pandas be missing. Nothing here uses it; pyarrow imports it to see that a list is none of its series.

    Where it is installed, that takes 0.15 s and 40 MB of every process.
    """

    def find_spec(self, name: str, *_: object) -> None:
        """Raise ModuleNotFoundError for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def prepare() -> None:
    """Make this process start sooner and take less. To be called before numpy or pyarrow is imported."""
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTING)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's: nothing here multiplies matrices, and they spin
    sys.meta_path.insert(0, _WithoutPandas())
