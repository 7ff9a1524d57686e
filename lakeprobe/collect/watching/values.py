"""Computes what is recorded of plain Python values and numpy arrays, for all frameworks."""

import dataclasses
import enum
import gc
import re
import zlib
from collections import UserDict, deque
from contextlib import suppress
from itertools import count
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import ml_dtypes
import numpy as np

from lakeprobe.bounds import MOST_LEAVES

Array = np.ndarray[Any, Any]
Leaf = dict[str, Any]
Number = float | int | bool | None

Statistics = tuple[Number, Number, Number, Number]
"""Max, Min, Mean and Norm as msprobe gives them. None stands for null."""
NUMBERS = ("Max", "Min", "Mean", "Norm")
NONE: Statistics = (None, None, None, None)

Wide = tuple[float | None, float | None, int, int, int, int | None]
"""Mean and norm (Euclidean) accumulated in float32 or float64, then the counts of NaN, inf, -inf and zeros of any sign.

Mean and norm are None if the tensor's own statistics are the same. The last is None if zeros were not counted.
"""

DEEPEST = 400
"""The maximum depth of nested containers, as in msprobe. Deeper values are null."""
MOST_REPEATED = 20_000
"""The maximum number of members of containers that a value has in several places. Further ones are null."""
MOST_MEMBERS = MOST_LEAVES // 4 - 1000
"""The maximum number of members of a section of an op, of which a forward has four. A last leaf stands for the others
of each of the `DEEPEST` containers that were open."""
MOST_SEARCHED = 1000
"""The maximum number of objects that are looked at for a tensor."""
PLAIN = (bool, int, float, str)
BUILTIN = (*PLAIN, complex, slice, type(...), np.generic)
"""The classes that `builtin` supports."""

_NOT_DATA = (
    type, FunctionType, BuiltinFunctionType, MethodType, ModuleType, CodeType, FrameType, enum.Enum,
)  # fmt: skip
"""What holds the program rather than its data."""
_NOT_IN_FILES = str.maketrans({"/": "%2F", "\\": "%5C", "\0": "%00"})
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


class Containers:
    """The containers met on the way through a value.

    They say which ones not to go into, so that every way ends. `l = [l, l]`, thirty times over, has a billion members.
    """

    __slots__ = ("_members", "_met", "_open", "_repeated")

    def __init__(self, members: int = 0) -> None:
        """Begin with a number of members that were recorded before."""
        self._members = members
        self._open: set[int] = set()
        self._met: dict[int, Any] = {}
        self._repeated = 0

    def enter(self, container: Any) -> bool:
        """Return whether to go into a container. If so, `leave` it afterwards.

        The answer is no inside itself, where it is too deep, and in a further place once many members were repeated.
        """
        key = id(container)
        if key in self._open or len(self._open) >= DEEPEST:
            return False
        if key in self._met:
            self._repeated += len(container) if isinstance(container, (list, tuple, dict)) else 1
            if self._repeated > MOST_REPEATED:
                return False
        self._met[key] = container  # kept alive, so that its id is not reused
        self._open.add(key)
        return True

    def leave(self, container: Any) -> None:
        """Leave the container entered last."""
        self._open.discard(id(container))

    def is_full(self) -> bool:
        """Count a member, and return whether there are too many to record it."""
        self._members += 1
        return self._members > MOST_MEMBERS


def builtin(value: Any) -> Leaf:
    """Return the leaf of a slice, `...`, a numpy scalar, a complex number or a plain value, or of a derived class."""
    if isinstance(value, slice):
        return {"type": "slice", "value": [_whole(part) for part in (value.start, value.stop, value.step)]}
    if value is ...:
        return {"type": "ellipsis", "value": "..."}
    if isinstance(value, np.generic):
        number = value.item()  # long doubles, complex numbers, bytes and dates have no equivalent in JSON
        return {"type": type(value).__name__, "value": number if type(number) in PLAIN else str(value)}
    if isinstance(value, complex):
        return {"type": type(value).__name__, "value": str(complex(value))}  # JSON has none
    plain = next(kind for kind in PLAIN if isinstance(value, kind))
    return {"type": type(value).__name__, "value": str.__str__(value) if plain is str else plain(value)}


def _whole(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def fields_of(value: Any) -> list[tuple[str, Any]]:
    """Return the fields of an instance of a dataclass, by name, without those that it has not got yet."""
    names = (field.name for field in dataclasses.fields(value))
    return [(name, getattr(value, name)) for name in names if hasattr(value, name)]


class UnseenError(Exception):
    """An object may hold tensors that cannot be seen."""


class TooManyError(Exception):
    """A value has more members than are recorded."""

    def __init__(self) -> None:
        super().__init__(f"only the first {MOST_MEMBERS} members of an op's arguments or results are recorded")


def members_of(value: Any, tensors: tuple[type, ...], opaque: tuple[type, ...]) -> Any:
    """Return a container's members, enumerated or as pairs of name and member. None for what holds none to record.

    Of any other object these are the attributes that hold an object of the classes `tensors`, at any depth but not in
    objects of the classes `opaque`. Raises UnseenError if there is such a tensor elsewhere in the object.
    """
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return zip(value._fields, value, strict=False)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return fields_of(value)
    if isinstance(value, (list, tuple, deque)):
        return enumerate(value)
    if isinstance(value, (dict, MappingProxyType)):
        return value.items()
    attributes = attributes_of(value)
    if isinstance(value, SimpleNamespace):
        return attributes.items()
    if isinstance(value, UserDict) and type(attributes.get("data")) is dict:
        return attributes["data"].items()
    if not _holds(value, tensors, opaque):
        return None
    found = [(name, member) for name, member in attributes.items() if _holds(member, tensors, opaque)]
    if not found:
        raise UnseenError("its tensors are in no attribute")
    return found


def attributes_of(value: Any) -> dict[str, Any]:
    """Return the attributes that an object keeps, in its dict and in slots. No code of its class runs."""
    try:
        found = dict(object.__getattribute__(value, "__dict__"))
    except AttributeError:
        found = {}
    for kind in type(value).__mro__:
        for name, slot in vars(kind).items():
            if type(slot) is MemberDescriptorType and name not in found and name != "__dict__":
                with suppress(AttributeError):  # not set
                    found[name] = slot.__get__(value)
    return found


def _holds(value: Any, tensors: tuple[type, ...], opaque: tuple[type, ...]) -> bool:
    """Return whether a value is a tensor, or holds one.

    The garbage collector says what objects hold, so no code of theirs runs, and iterators stay where they are.
    """
    opaque = (*_NOT_DATA, *opaque)
    met = {id(value): value}
    waiting = deque([value])
    while waiting:
        one = waiting.popleft()
        if issubclass(type(one), tensors):
            return True
        if issubclass(type(one), opaque) or not gc.is_tracked(one):  # what is not tracked holds no other objects
            continue
        for other in gc.get_referents(one):
            if id(other) not in met:
                met[id(other)] = other
                waiting.append(other)
        if len(met) > MOST_SEARCHED:
            raise UnseenError(f"it holds more than {MOST_SEARCHED} objects")
    return False


def unrecordable(value: Any) -> Leaf:
    """Return the leaf of a value that could not be recorded, with the name of its class."""
    return {"type": f"{type(value).__module__}.{type(value).__qualname__}"}


def key_text(key: Any, taken: Any) -> str:
    """Return a key of a dict as a text that is not `taken`: 1 beside "1" is 1#2.

    Addresses are left out, because each run has others.
    """
    text = key if type(key) is str else _ADDRESS.sub("", str(key))
    if text not in taken:
        return text
    return next(other for number in count(2) if (other := f"{text}#{number}") not in taken)


def file_name(path: str, ending: str) -> str:
    """Return the name of the file of a tensor. `path` has names of the program's, in which any character may be."""
    return path.translate(_NOT_IN_FILES) + ending


def array_leaf(array: Array, kinds: str) -> Leaf:
    """Return the leaf of a numpy array, without contents.

    `kinds` are the dtype kinds that msprobe has statistics of.
    """
    leaf: Leaf = {"type": "numpy.ndarray", "dtype": str(array.dtype), "shape": list(array.shape)}
    numbers: tuple[Any, ...] = NONE
    if array.size and array.dtype.kind in kinds:
        numbers = tuple(measure(array).item() for measure in (np.max, np.min, np.mean, np.linalg.norm))
    leaf.update(zip(NUMBERS, numbers, strict=True))
    measured = wide(array)
    if measured is not None:
        leaf["wide"] = measured
    return leaf


def wide(array: Array) -> Wide | None:
    """Return an array's statistics in float64, for which its own dtype may be too narrow.

    Returns None for an empty array and for dtypes that are not numeric. NaN and inf are not skipped: the mean of
    numbers with NaN or inf is NaN, inf or -inf. In bool arrays False is 0 and True is 1. Complex numbers count by
    absolute value, which is NaN if either part is.
    """
    if not array.size or not (array.dtype.kind in "biufc" or array.dtype in _HALVES):
        return None
    with np.errstate(all="ignore"):
        if array.dtype.kind == "c":
            array = np.where(np.isnan(array), np.nan, np.abs(array.astype(np.complex128)))
        flat = array.reshape(-1).astype(np.float64)
        mean, norm = flat.mean().item(), np.linalg.norm(flat).item()
    zeros = flat.size - int(np.count_nonzero(flat))
    if np.isfinite(norm):
        return mean, norm, 0, 0, 0, zeros
    special = [int(np.count_nonzero(which)) for which in (np.isnan(flat), flat == np.inf, flat == -np.inf)]
    return mean, norm, special[0], special[1], special[2], zeros


def crc32(data: Array) -> str:
    """Return the CRC-32 of bytes (uint8) as 8 hexadecimal digits. msprobe writes that of a tensor's bytes as md5."""
    return f"{zlib.crc32(data.data):08x}"


def xor(data: Array) -> str:
    """Return the XOR of all 64-bit words of bytes (uint8) as 0x and 16 digits. The last word is padded with zeros."""
    whole = data.size // 8 * 8
    word = np.bitwise_xor.reduce(data[:whole].view(np.uint64)) if whole else np.uint64(0)
    rest = int.from_bytes(data[whole:].tobytes(), "little")
    return f"0x{int(word) ^ rest:016x}"
