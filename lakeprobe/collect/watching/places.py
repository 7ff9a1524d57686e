"""Locates the functions to record in a framework, so that ours can replace them and be removed again."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

Function = Callable[..., Any]
_INHERITED = object()


@dataclass(frozen=True)
class Place:
    """Where a recorded function is found: an attribute of a module or class."""

    owner: Any
    attribute: str
    name: str
    """The prefix of the op's name: `Functional.linear`."""
    function: Function
    own: Any
    """What the owner itself holds under the attribute, or _INHERITED if a base class holds it."""
    _held: Mapping[str, Any] = field(init=False, repr=False, compare=False)
    """What the owner itself holds now."""

    def __post_init__(self) -> None:
        """Look into the owner once. It has hundreds of places, and each is asked several times in a step."""
        object.__setattr__(self, "_held", vars(self.owner))

    @property
    def path(self) -> tuple[str, str]:
        """The module of the place, and the path inside it."""
        if isinstance(self.owner, type):
            return self.owner.__module__, f"{self.owner.__qualname__}.{self.attribute}"
        return self.owner.__name__, self.attribute

    @property
    def unchanged(self) -> bool:
        """Whether the owner still has the original function."""
        return self.holds(self.own)

    def holds(self, function: Any) -> bool:
        """Whether the owner itself has `function` there."""
        return self.held is function

    @property
    def held(self) -> Any:
        """What the owner itself has there now, or _INHERITED."""
        return self._held.get(self.attribute, _INHERITED)

    def put(self, function: Function) -> None:
        """Replace the function."""
        setattr(self.owner, self.attribute, function)

    def restore(self) -> None:
        """Restore the original function."""
        if self.own is _INHERITED:
            delattr(self.owner, self.attribute)
        else:
            setattr(self.owner, self.attribute, self.own)


_REMEMBERED = (FunctionType, type)
"""The types of our functions, as far as they can be held weakly: not of properties, which no program patches."""
_ours: WeakKeyDictionary[Function, list[Place]] = WeakKeyDictionary()
"""The places in which each function of ours has been."""


class Replacements:
    """Our functions that replace a framework's functions.

    The program may replace them too, such as with a faster kernel, in the middle of a step. What it put there stays,
    unless it is one of ours, which it found there in an earlier step: a patch may begin in one step and end in another.
    """

    def __init__(self) -> None:
        self._made: list[tuple[Place, Function]] = []
        self._hiders = 0
        """How many threads see the original functions."""
        self._lock = threading.RLock()

    def put(self, place: Place, function: Function) -> None:
        """Put a function in a place until `remove`."""
        self.put_all([(place, function)])

    def put_all(self, functions: Sequence[tuple[Place, Function]]) -> None:
        """Put functions in places until `remove`."""
        with self._lock:
            for place, function in functions:
                place.put(function)
                _remember(place, function)
            self._made += functions

    def hide(self) -> None:
        """Restore the original functions until each thread that did so calls `show`."""
        with self._lock:
            self._hiders += 1
            self._restore()

    def show(self) -> None:
        """Put our functions back after `hide`."""
        with self._lock:
            self._hiders -= 1
            if not self._hiders:
                for place, function in self._made:
                    if place.unchanged:
                        place.put(function)

    def remove(self) -> None:
        """Restore the original functions for good."""
        with self._lock:
            self._restore()
            for place, _ in self._made:
                _restore_earlier(place)
            self._made = []

    def _restore(self) -> None:
        """Restore the original functions, the last replaced first."""
        for place, function in reversed(self._made):
            if place.holds(function):
                place.restore()


def _remember(place: Place, function: Function) -> None:
    if function is place.function or type(function) not in _REMEMBERED:  # the first is left as it is
        return
    known = _ours.get(function)
    if known is None:
        _ours[function] = [place]
    elif place not in known:
        known.append(place)


def _restore_earlier(place: Place) -> None:
    """Restore the original function where the program has put back one of ours."""
    while type(place.held) in _REMEMBERED and place.held in _ours:
        here = [one for one in _ours[place.held] if (one.owner, one.attribute) == (place.owner, place.attribute)]
        if not here:
            return
        here[0].restore()


def place_in(owner: Any, attribute: str) -> Place:
    """Return the place of what the owner itself may have as an attribute, and need not."""
    return Place(owner, attribute, attribute, lambda: None, vars(owner).get(attribute, _INHERITED))


def place_of(prefix: str, owner: Any, name: str) -> Place | None:
    """Return where a function is, or None if there is none. The name may have submodules of the owner before it."""
    *path, attribute = name.split(".")
    for part in path:
        owner = getattr(owner, part, None)
    function = getattr(owner, attribute, None)
    if not callable(function):
        return None
    own = vars(owner).get(attribute, _INHERITED)
    return Place(owner, attribute, f"{prefix}.{attribute}", function, own)
