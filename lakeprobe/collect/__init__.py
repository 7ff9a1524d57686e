"""Records what happens in a training step and hands it to a sink as finished ops.

The package is callable: `lakeprobe.collect(model, run="npu")` calls `lakeprobe.collect.session.collect`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from lakeprobe.collect.session import collect

        return collect(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
