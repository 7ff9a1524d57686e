"""Lets the program pickle the framework's own functions while ours are in their places.

Pickle writes a function as its place, and refuses one that is not there. A model that was made before the step may hold
one, as nn.TransformerEncoderLayer holds its activation.
"""

import pickle
import pkgutil
from collections.abc import Sequence
from io import BytesIO
from multiprocessing.reduction import ForkingPickler
from types import FunctionType
from typing import Any

from lakeprobe.collect.watching.places import Place, Replacements, place_in, place_of

_Pickler = pickle.Pickler


def let_pickle(in_place: Replacements, replaced: Sequence[Place]) -> None:
    """Make pickle, multiprocessing and what builds on them write the functions that were `replaced` as their places."""

    def reduced(_: Any, value: Any) -> Any:
        if type(value) is FunctionType:
            for place in replaced:
                if place.function is value:
                    return pkgutil.resolve_name, (":".join(place.path),)
        return NotImplemented

    class Pickler(_Pickler):
        """Writes a function of the framework's as a call that finds it."""

        reducer_override = reduced

    def dump(value: Any, file: Any, *args: Any, **kwargs: Any) -> None:
        Pickler(file, *args, **kwargs).dump(value)

    def dumps(value: Any, *args: Any, **kwargs: Any) -> bytes:
        file = BytesIO()
        dump(value, file, *args, **kwargs)
        return file.getvalue()

    for function in (Pickler, dump, dumps):
        place = place_of("Pickle", pickle, function.__name__)
        if place is not None:
            in_place.put(place, function)
    if not hasattr(ForkingPickler, "reducer_override"):
        in_place.put(place_in(ForkingPickler, "reducer_override"), reduced)
