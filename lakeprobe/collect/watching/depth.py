"""Gives the stack room for our functions, so that no program fails in the deep because it is collected."""

import contextlib
import sys
from collections.abc import Callable

_TIMES = 2
"""torch's calls of a module with hooks, and ours around them, take less than twice the frames of a module without."""
_MOST = 2**31 - 1
"""The highest limit that Python takes."""


def deepen() -> Callable[[], None]:
    """Raise Python's limit of recursion. Returns a function that restores it, unless the program has changed it."""
    before = sys.getrecursionlimit()
    raised = min(before * _TIMES, _MOST)
    sys.setrecursionlimit(raised)

    def restore() -> None:
        if sys.getrecursionlimit() == raised:
            with contextlib.suppress(RecursionError):  # what runs is deeper than that already
                sys.setrecursionlimit(before)

    return restore
