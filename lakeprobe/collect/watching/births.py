"""Finds the ops in which NaN or inf is born: what is not finite comes out of them, and nothing of the kind went in."""

import math
from typing import Any

from lakeprobe.collect.watching.entries import Op

_GIVEN = ("input_args", "input_kwargs", "input", "parameters")
_NOT_OURS = "Distributed."


class Births:
    """Judges the ops of a run as they end, and counts births.

    An op that is handed NaN or inf (a number such as the -inf of a mask too) and hands it on is no birth. Nor is a
    module in which one was found: what is inside it is. Nor is a collective: it may bring what another rank made, and
    that rank finds the birth. What statistics do not show is taken as finite.
    """

    def __init__(self, limit: int) -> None:
        """There are enough after `limit` births; never where it is -1."""
        self.number = 0
        self._limit = limit
        self._last_began = -1

    @property
    def enough(self) -> bool:
        """Whether the limit is reached."""
        return self.number == self._limit

    def next_step(self) -> None:
        """Ops are numbered from 0 again."""
        self._last_began = -1

    def is_birth(self, op: Op) -> bool:
        """Whether NaN or inf was born in the op, which has ended and has `began`. Asked once per op."""
        began = -1 if op.began is None else op.began
        if began < self._last_began or op.name.startswith(_NOT_OURS):  # it began before the last birth, and ends now
            return False
        if _is_finite(op.body.get("output")) or not all(_is_finite(op.body.get(section)) for section in _GIVEN):
            return False
        self._last_began = began
        self.number += 1
        return True


def _is_finite(value: Any) -> bool:
    """Whether there is neither NaN nor inf in the leaves of a section."""
    if isinstance(value, dict):
        if "Max" in value:
            return _is_number(value["Max"]) and _is_number(value["Min"])
        return all(map(_is_finite, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_finite, value))
    return _is_number(value)


def _is_number(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)
