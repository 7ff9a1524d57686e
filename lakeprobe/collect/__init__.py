"""Collecting: what a training step does, recorded as it runs and handed to a sink as finished ops.

The module can be called: `lakeprobe.collect(model, run="npu")` is `lakeprobe.collect.session.collect`.
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
