"""Counts the calls that draw random numbers in a process, by function and by the line that calls it.

A function of random or numpy that was imported by its name before counting began is not seen.
"""

from __future__ import annotations

import functools
import sys
import sysconfig
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from torch.overrides import TorchFunctionMode

_FUNCTIONS = {
    "random": """
        random uniform randint randrange choice choices sample shuffle gauss normalvariate betavariate getrandbits
    """,
    "numpy.random": """
        rand randn randint random random_sample uniform normal choice shuffle permutation standard_normal
    """,
}
_TORCH = """
    rand rand_like randn randn_like randint randint_like randperm normal bernoulli multinomial poisson
    kaiming_uniform_ uniform_ normal_ random_ bernoulli_ exponential_ log_normal_ geometric_ cauchy_
"""
_LIBRARIES = (sysconfig.get_path("stdlib"), "<frozen")


class Draws(TorchFunctionMode):  # type: ignore[misc] # torch has no types for it
    """The calls from its making to `stop`. Functions of torch are watched and not replaced: scripting reads them."""

    def __init__(self) -> None:
        super().__init__()
        self._watched = frozenset(_TORCH.split())
        self._counts: dict[str, Counter[str]] = {}
        self._own: list[tuple[Any, str, Any]] = []
        for place, names in _FUNCTIONS.items():
            module = sys.modules.get(place)
            for name in names.split() if module is not None else ():
                own = getattr(module, name)
                self._own.append((module, name, own))
                setattr(module, name, self._counting(f"{place}.{name}", own))
        self.__enter__()

    def stop(self) -> dict[str, str]:
        """Stop counting. Returns the calls of each function: `2 at train.py:12, 1 at data.py:7`."""
        self.__exit__(None, None, None)
        for module, name, own in self._own:
            setattr(module, name, own)
        return {
            name: ", ".join(f"{count} at {line}" for line, count in sorted(lines.items()))
            for name, lines in sorted(self._counts.items())
        }

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        if name in self._watched:
            self._count(f"torch.{name}", sys._getframe(1))
        return function(*args, **(kwargs or {}))

    def _counting(self, name: str, own: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(own)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._count(name, sys._getframe(1))
            return own(*args, **kwargs)

        return call

    def _count(self, name: str, frame: FrameType | None) -> None:
        """Count a call for the innermost line outside libraries; one that has none is a library's own."""
        while frame is not None:
            file = frame.f_code.co_filename
            if "-packages" not in file and not file.startswith(_LIBRARIES):
                self._counts.setdefault(name, Counter())[f"{Path(file).name}:{frame.f_lineno}"] += 1
                return
            frame = frame.f_back
