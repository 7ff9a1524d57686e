"""Where a recorded function of a framework is found, so that one of ours can replace it and be taken out again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Function = Callable[..., Any]
_INHERITED = object()


@dataclass(frozen=True)
class Place:
    """Where a recorded function is found: an attribute of a module or class."""

    owner: Any
    attribute: str
    name: str
    """As ops are named: `Functional.linear`."""
    function: Function
    own: Any
    """What the owner itself holds under the attribute; _INHERITED where a base class holds it."""

    @property
    def unchanged(self) -> bool:
        """Whether the owner still has the function."""
        return vars(self.owner).get(self.attribute, _INHERITED) is self.own

    def put(self, function: Function) -> None:
        """Replaces the function."""
        setattr(self.owner, self.attribute, function)

    def restore(self) -> None:
        """Restores the function."""
        if self.own is _INHERITED:
            delattr(self.owner, self.attribute)
        else:
            setattr(self.owner, self.attribute, self.own)


class Replacements:
    """Functions of ours in the place of a framework's."""

    def __init__(self) -> None:
        self._made: list[tuple[Place, Function]] = []

    def put(self, place: Place, function: Function) -> None:
        """Puts a function in a place, until `remove`."""
        place.put(function)
        self._made.append((place, function))

    def hide(self) -> None:
        """Takes all out for a while, the last first."""
        for place, _ in reversed(self._made):
            place.restore()

    def show(self) -> None:
        """Puts them back."""
        for place, function in self._made:
            place.put(function)

    def remove(self) -> None:
        """Takes all out for good."""
        self.hide()
        self._made = []


def place_of(prefix: str, owner: Any, name: str) -> Place | None:
    """Where a function is, whose name may have submodules of the owner before it; None where there is none."""
    *path, attribute = name.split(".")
    for part in path:
        owner = getattr(owner, part, None)
    function = getattr(owner, attribute, None)
    if not callable(function):
        return None
    own = vars(owner).get(attribute, _INHERITED)
    return Place(owner, attribute, f"{prefix}.{attribute}", function, own)
