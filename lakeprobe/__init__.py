"""lakeprobe: reads training dumps into a Parquet lake, and compares two runs in SQL.

>>> lake = lakeprobe.open("lake", create=True)
>>> lake.ingest("npu_dump")
>>> lake.compare("npu_dump", "gpu_dump").summary()
>>> lake.sql("SELECT op, norm FROM tensors WHERE run = 'npu_dump'").df()
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from lakeprobe.version import __version__

if TYPE_CHECKING:
    from lakeprobe.session import Lake

__all__ = [
    "PrecisionDebugger", "__version__", "callbacks", "collect", "load_ipython_extension", "monitor", "open",
    "preflight",
]  # fmt: skip


def open(path: str | os.PathLike[str] | None = None, *, create: bool = False) -> Lake:
    """Open the lake at `path`, $LAKEPROBE_LAKE or ./lake.

    Without `create` there must be one, so that a typing error makes no lake; with it, the first ingest or comparison
    makes it. Raises LakeError.
    """
    from lakeprobe.errors import LakeError
    from lakeprobe.lake import store
    from lakeprobe.session import Lake

    chosen = store.choose(path)
    if not create and not store.exists(chosen):
        raise LakeError(f"there is no lake at {chosen}; lakeprobe.open({str(path or chosen)!r}, create=True) makes one")
    return Lake(chosen)


def __dir__() -> list[str]:
    """List what is public, with what is loaded when it is first used."""
    return __all__


def __getattr__(name: str) -> Any:
    """Load `callbacks`, `collect`, `monitor`, `preflight` and `PrecisionDebugger` when they are first used."""
    if name == "PrecisionDebugger":
        from lakeprobe.collect.debugger import PrecisionDebugger

        return PrecisionDebugger
    if name in ("callbacks", "collect"):
        return importlib.import_module(f"lakeprobe.{name}")
    if name == "monitor":
        from lakeprobe.monitoring.session import monitor

        return monitor
    if name == "preflight":
        from lakeprobe.collect.preflight import preflight

        return preflight
    raise AttributeError(f"module lakeprobe has no attribute {name}")


def load_ipython_extension(shell: Any) -> None:
    """Add the magics %lake and %%lake to IPython: `%load_ext lakeprobe`."""
    from lakeprobe.jupyter import register

    register(shell)
