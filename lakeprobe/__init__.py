"""lakeprobe: training dumps into a Parquet lake, two runs held against each other in SQL.

>>> lake = lakeprobe.open("lake")
>>> lake.ingest("npu_dump")
>>> lake.compare("npu_dump", "gpu_dump").summary()
>>> lake.sql("SELECT op, norm FROM tensors WHERE run = 'npu_dump'").df()
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lakeprobe.version import __version__

if TYPE_CHECKING:
    from lakeprobe.session import Lake

__all__ = ["__version__", "load_ipython_extension", "open"]


def open(path: str | os.PathLike[str] | None = None) -> Lake:
    """Open the lake at `path`, $LAKEPROBE_LAKE or ./lake; a new one is made where there is none."""
    from lakeprobe.session import Lake

    return Lake(path)


def load_ipython_extension(shell: Any) -> None:
    """Add the magics %lake and %%lake to IPython: `%load_ext lakeprobe`."""
    from lakeprobe.jupyter import register

    register(shell)
