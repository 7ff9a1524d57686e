"""Where pickle finds functions of ours that the program kept, while the framework has its own in their places.

Pickle writes a function as its place, and only if the function is there. A function of ours that replaces one of the
framework's is pickled as that one. Once it is removed its place is this module, in which every function of a framework
can be found, too: a reader that imports lakeprobe gets the framework's own.
"""

import pkgutil
from typing import Any
from weakref import WeakValueDictionary

from lakeprobe.collect.watching.places import Function

_kept: WeakValueDictionary[str, Function] = WeakValueDictionary()


def keep(function: Function, path: tuple[str, str]) -> None:
    """Give a function that is removed from `path` (a module, and the path inside it) a place in this module."""
    place = f"{':'.join(path)}:{id(function)}".replace(".", "/")  # pickle takes what is behind a dot for a member
    function.__module__, function.__qualname__ = __name__, place
    _kept[place] = function


def __getattr__(name: str) -> Any:
    """Return a function that this process kept, or else the framework's own."""
    place, colon, _ = name.rpartition(":")
    if not colon:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return _kept.get(name) or pkgutil.resolve_name(place.replace("/", "."))
