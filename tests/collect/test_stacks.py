"""Call stacks: those of calls inside a module are the whole ones, though frames around it are looked at once."""

from __future__ import annotations

import sys
from types import FrameType

from lakeprobe.collect.watching.stacks import Around, Stack, Stacks


def whole(frame: FrameType) -> Stack:
    """The stack as if nothing were known of it."""
    return Stacks({}).of(frame)


def module(stacks: Stacks, around: Around | None, depth: int) -> list[tuple[Stack, Stack]]:
    """Stacks of a module, of a call in it and of the modules in it, and the whole ones."""
    frame = sys._getframe()
    (stack, inside), truth = stacks.within(frame, around), whole(frame)
    found = [(stack, truth), function(stacks, inside)]
    return found + (module(stacks, inside, depth - 1) if depth else [])


def function(stacks: Stacks, around: Around | None) -> tuple[Stack, Stack]:
    frame = sys._getframe()
    return stacks.of(frame, around), whole(frame)


def test_stacks_inside_modules_are_whole() -> None:
    stacks = Stacks({})
    for _ in range(2):
        found = module(stacks, None, 2)
        found += module(stacks, None, 2)  # the same lines below another one
        assert all(known == truth for known, truth in found)
        assert len({known for known, _ in found}) == len(found)
    again = [known for known, _ in module(stacks, None, 2)]
    assert not {*again} & {known for known, _ in found}  # from here they were not asked for yet


def test_equal_stacks_are_one_tuple() -> None:
    stacks = Stacks({})
    first, second = (module(stacks, None, 1) for _ in range(2))
    assert [known for known, _ in first] == [known for known, _ in second]
    assert all(one[0] is other[0] for one, other in zip(first, second, strict=True))


def test_a_frame_that_has_ended_is_around_nothing() -> None:
    stacks = Stacks({})

    def ended() -> Around:
        return stacks.within(sys._getframe(), None)[1]

    known, truth = function(stacks, ended())
    assert known == truth
