"""Python imports this before the script that `lakeprobe run` runs. It prepares collecting once torch is imported.

It also imports the sitecustomize that it hides. Nothing of lakeprobe is imported in a process without torch.
"""

import importlib.util
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

_HERE = str(Path(__file__).parent)


class _Torch:
    """Finds torch, and calls `begin` once torch has been imported. A program may look for torch first."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_begin(module: object) -> None:
                sys.meta_path.remove(self)
                load(module)  # type: ignore[arg-type]
                from lakeprobe.collect.running import begin

                begin()

            spec.loader.exec_module = load_and_begin  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, _Torch())

_hidden = PathFinder.find_spec("sitecustomize", [path for path in sys.path if path != _HERE])
if _hidden is not None and _hidden.loader is not None:
    _hidden.loader.exec_module(importlib.util.module_from_spec(_hidden))
