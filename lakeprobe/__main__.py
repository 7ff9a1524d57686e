"""The program `lakeprobe`."""

from __future__ import annotations

import gc
import os
import sys

_OBJECTS_BEFORE_COLLECTING = 100_000
"""A command makes few cycles, and most of its objects, those of the imports, stay: looking for cycles takes 0.05 s."""


class _WithoutPandas:
    """Lets pandas be missing, as no command uses it: pyarrow imports it only to see that a list is none of its series.

    Where it is installed, that takes 0.15 s and 40 MB of every process.
    """

    def find_spec(self, name: str, *_: object) -> None:
        """Raise ModuleNotFoundError for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def main() -> None:
    """Run the command line."""
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTING)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's: no command multiplies matrices, and they spin
    sys.meta_path.insert(0, _WithoutPandas())
    from lakeprobe import cli

    cli.main()


if __name__ == "__main__":
    main()
