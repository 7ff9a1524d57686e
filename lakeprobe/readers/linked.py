"""What the files beside a dump say of its ops, under a number for each op: so names are kept once, and little else."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import count, repeat
from typing import Any, NamedTuple

_NONE = -1


class Links(NamedTuple):
    """Columns of ops: the parent in construct.json, the place in that file, the micro step, the number of the stack."""

    parent: Sequence[str | None]
    began: Sequence[int | None]
    micro_step: Sequence[int | None]
    stack: Sequence[int | None]


class LinkedOps:
    """The names of the ops of a dump: which were read, and what the files beside it say of them."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = _codes()
        self._read = bytearray()
        """1 under the number of an op that was read."""
        self._parents, self._began, self._stacks = array("i"), array("i"), array("i")
        self._micro_steps: dict[int, int] = {}
        self._parent_codes: dict[str | None, int] = _codes()
        assert self._parent_codes[None] == 0
        self._parent_names: list[str | None] = []
        self._linked = 0

    def _numbered(self, ops: Sequence[str]) -> list[int]:
        numbers = [*map(self._numbers.__getitem__, ops)]
        new = len(self._numbers) - len(self._read)
        if new:
            self._read.extend(bytes(new))
            self._parents.extend(repeat(0, new))
            self._began.extend(repeat(_NONE, new))
            self._stacks.extend(repeat(_NONE, new))
        return numbers

    def are_new(self, ops: Sequence[str]) -> bool:
        """Return whether none of `ops` was read, and none is among them twice."""
        numbers = self._numbered(ops)
        return len(set(numbers)) == len(numbers) and not any(map(self._read.__getitem__, numbers))

    def read(self, ops: Sequence[str]) -> None:
        """Note that `ops` are read."""
        for number in self._numbered(ops):
            self._read[number] = 1

    def add_stack(self, ops: Sequence[str], stack: int) -> None:
        """Note the number of the stack of `ops`."""
        for number in self._numbered(ops):
            self._stacks[number] = stack

    def add_parents(self, parents: Mapping[str, str | None]) -> bool:
        """Note the parent of each op, in the order of construct.json. False, and no notes, if one was there before."""
        numbers = self._numbered([*parents])
        if any(self._began[number] != _NONE for number in numbers):
            return False
        for number, code in zip(numbers, map(self._parent_codes.__getitem__, parents.values()), strict=True):
            self._parents[number] = code
            self._began[number] = self._linked
            self._linked += 1
        return True

    def add_parent(self, op: str, parent: str | None, micro_step: int | None) -> None:
        """Note what construct.json says of one op. What it says last counts."""
        [number] = self._numbered([op])
        is_new = self._began[number] == _NONE
        self._parents[number] = self._parent_codes[parent]
        self._began[number] = self._linked
        self._linked += is_new
        self._micro_steps.pop(number, None)
        if micro_step is not None:
            self._micro_steps[number] = micro_step

    def of(self, ops: Sequence[str]) -> Links:
        """Return what was noted of `ops`."""
        return self._links(self._numbered(ops))

    def _links(self, numbers: Sequence[int]) -> Links:
        if len(self._parent_names) < len(self._parent_codes):
            self._parent_names = [*self._parent_codes]
        return Links(
            [self._parent_names[self._parents[number]] for number in numbers],
            _with_nulls(map(self._began.__getitem__, numbers)),
            [*map(self._micro_steps.get, numbers)],
            _with_nulls(map(self._stacks.__getitem__, numbers)),
        )

    def left(self) -> tuple[list[str], Links]:
        """Return the ops of which something was noted and that were not read: those of construct.json, then others."""
        numbers = [number for number, is_read in enumerate(self._read) if not is_read]
        linked = sorted((number for number in numbers if self._began[number] != _NONE), key=self._began.__getitem__)
        linked += [n for n in numbers if self._began[n] == _NONE and self._stacks[n] != _NONE]
        if not linked:
            return [], self._links([])
        names = [*self._numbers]
        return [names[number] for number in linked], self._links(linked)


def _codes() -> defaultdict[Any, int]:
    """Number values in the order in which they are first asked for; without a call of Python's for a new one."""
    return defaultdict(count().__next__)


def _with_nulls(numbers: Iterable[int]) -> list[int | None]:
    return [None if number == _NONE else number for number in numbers]
