"""Finds the ops in which NaN or inf is born: their outputs contain NaN or inf, and their inputs do not."""

import math
from typing import Any

from lakeprobe.collect.watching.entries import Op

_GIVEN = ("input_args", "input_kwargs", "input", "parameters")
_COLLECTIVES = "Distributed."


class Births:
    """Judges the ops of a run as they end, and counts births.

    An op that gets NaN or inf and passes it on is not a birth. That includes numbers such as the -inf of a mask. A
    module is not a birth if one was found inside it. A collective is not a birth: it may bring what another rank made,
    and that rank finds the birth. Values without statistics count as finite.
    """

    def __init__(self, limit: int) -> None:
        """Stop after `limit` births. -1 means no limit."""
        self.number = 0
        self._limit = limit
        self._last_began = -1

    @property
    def enough(self) -> bool:
        """Whether the limit is reached."""
        return self.number == self._limit

    def next_step(self) -> None:
        """Prepare for the next step, which numbers its ops from 0 again."""
        self._last_began = -1

    def is_birth(self, op: Op) -> bool:
        """Return whether NaN or inf was born in the op, which has ended and has `began`. Call once per op."""
        began = -1 if op.began is None else op.began
        if began < self._last_began or op.name.startswith(_COLLECTIVES):  # the last birth is inside of this op
            return False
        if _is_finite(op.body.get("output")) or not all(_is_finite(op.body.get(section)) for section in _GIVEN):
            return False
        self._last_began = began
        self.number += 1
        return True


def _is_finite(value: Any) -> bool:
    """Return whether the leaves of a section contain neither NaN nor inf."""
    if isinstance(value, dict):
        if "Max" in value:
            return _is_number(value["Max"]) and _is_number(value["Min"])
        return all(map(_is_finite, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_finite, value))
    return _is_number(value)


def _is_number(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)
