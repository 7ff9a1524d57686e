"""Reads the pickles that torch writes, without torch and without running what they name.

The unpickler has a world of its own: torch's names for plain tensors stand for inert values, and every other name ends
the reading (`read_tensor_pickle`) or becomes an `Inert` object that only remembers what it was given (`read_tree`).
Nothing is imported, and nothing that a pickle does outlives its reading. Source of the format: torch/serialization.py
and torch/_utils.py (torch 1.0 to 2.13).
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Callable
from types import FunctionType
from typing import IO, Any

from msgspec import Struct

from lakeprobe.errors import TensorError
from lakeprobe.tensors.reference import SMALL_FLOATS

LEGACY_MAGIC = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""How a file of the format before torch 1.6 begins: a pickle of the number 0x1950a86a20f9469cfc6c."""

_STORAGES = {
    "BFloat16Storage": "bfloat16",
    "BoolStorage": "bool",
    "ByteStorage": "uint8",
    "CharStorage": "int8",
    "ComplexDoubleStorage": "complex128",
    "ComplexFloatStorage": "complex64",
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "IntStorage": "int32",
    "LongStorage": "int64",
    "ShortStorage": "int16",
    "UntypedStorage": "uint8",
}
_DTYPES = {
    *_STORAGES.values(),
    *("uint16", "uint32", "uint64"),
    *(name for name in SMALL_FLOATS if name.startswith("float8_")),
}

_QUANTIZED = {
    "QInt32Storage": "qint32",
    "QInt8Storage": "qint8",
    "QUInt2x4Storage": "quint2x4",
    "QUInt4x2Storage": "quint4x2",
    "QUInt8Storage": "quint8",
}
"""The storages of quantized tensors, which only a tree has: their values are not read."""


def _refuse_state(stand_in: object, state: object) -> None:
    """Refuse what BUILD would set: a stand-in has no more than what made it."""
    raise TensorError("refused object with a state of its own")


class ElementType(Struct, frozen=True):
    """Stands for a storage class or a dtype of torch."""

    dtype: str

    __setstate__ = _refuse_state


class SavedStorage(Struct, frozen=True):
    """Stands for a storage: the key of its zip member, its element type, and how many elements it should have."""

    key: str
    dtype: str
    count: int

    __setstate__ = _refuse_state


class SavedTensor(Struct, frozen=True):
    """Stands for the tensor; offset and strides in elements, as torch counts."""

    storage: SavedStorage
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    __setstate__ = _refuse_state


class UnreadTensor(Struct, frozen=True):
    """Stands for a tensor that is quantized, or of an element type that is not known."""

    dtype: str
    shape: tuple[int, ...]

    __setstate__ = _refuse_state


BROKEN_PICKLE = (
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What a damaged or forged pickle can raise while only our stand-ins exist."""


def read_tensor_pickle(data: bytes) -> Any:
    """What the pickle of one tensor rebuilds. Raises TensorError for what no tensor has, and BROKEN_PICKLE."""
    _check_opcodes(data, _REFUSED_OPCODES)
    return _Unpickler(io.BytesIO(data)).load()


def read_tree(data: bytes) -> Any:
    """What a pickle rebuilds: containers, numbers, texts, SavedTensors, UnreadTensors, and Inert objects for the rest.

    Raises TensorError for forged memos and extension codes, and BROKEN_PICKLE.
    """
    _check_opcodes(data, _REFUSED_IN_TREES)
    return _TreeUnpickler(io.BytesIO(data)).load()


def pickle_end(data: bytes, start: int = 0) -> int:
    """Where the pickle that begins at `start` ends. Raises BROKEN_PICKLE."""
    file = io.BytesIO(data)
    file.seek(start)
    for _ in pickletools.genops(file):
        pass
    return file.tell()


def _check_opcodes(data: bytes, refused: set[str]) -> None:
    """Refuses, before the unpickler runs, what no tensor's pickle has and what could outlive the reading.

    BUILD sets attributes, also of our stand-ins, which the next file would meet. The memo is an array as long
    as its greatest index: 5 forged bytes could ask for 64 GB.
    """
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name in refused:
            raise TensorError("refused object with a state of its own")
        if opcode.name in _MEMO_OPCODES and (argument or 0) > len(data):
            raise TensorError("refused pickle with a forged memo")


_REFUSED_OPCODES = {"BUILD", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4"}
_REFUSED_IN_TREES = {"INST", "OBJ", "EXT1", "EXT2", "EXT4"}
"""Of these, those that a tree cannot do with. Its stand-ins are of one reading, so BUILD changes no other."""

_MEMO_OPCODES = {"PUT", "BINPUT", "LONG_BINPUT"}


class _Unpickler(pickle.Unpickler):
    """An unpickler in whose world only torch's names for plain tensors exist."""

    def find_class(self, module: str, name: str) -> Any:
        """Called for every global before anything can use it, so a refused one is never imported."""
        if module in ("torch", "torch.storage") and name in _STORAGES:
            return ElementType(_STORAGES[name])
        if module == "torch" and name in _DTYPES:
            return ElementType(name)
        stand_in = _NAMES.get((module, name))
        if stand_in is None:
            raise TensorError(f"refused global {module}.{name}")
        return stand_in

    def persistent_load(self, pid: Any) -> SavedStorage:
        """A storage is pickled as ('storage', its class, key, device, element count)."""
        match pid:
            case ("storage", ElementType(dtype=dtype), str(key), str(), int(count), *_):
                return SavedStorage(key, dtype, count)
        raise TensorError("refused persistent id")


def _rebuild_tensor_v2(
    storage: Any,
    offset: Any,
    shape: Any,
    strides: Any,
    requires_grad: Any,
    hooks: Any,
    metadata: Any = None,
) -> SavedTensor:
    return _tensor(storage, storage.dtype, offset, shape, strides, metadata)


def _rebuild_tensor_v3(
    storage: Any,
    offset: Any,
    shape: Any,
    strides: Any,
    requires_grad: Any,
    hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> SavedTensor | UnreadTensor:
    if isinstance(dtype, type) and issubclass(dtype, Inert):
        return _unread(dtype.name, shape)
    return _tensor(storage, dtype.dtype, offset, shape, strides, metadata)


def _rebuild_qtensor(storage: Any, offset: Any, shape: Any, *_: Any) -> UnreadTensor:
    return _unread(f"torch.{storage.dtype}", shape)


def _unread(dtype: str, shape: Any) -> UnreadTensor:
    if not all(type(extent) is int and extent >= 0 for extent in shape):
        raise TensorError("forged tensor: its shape is no counts")
    return UnreadTensor(dtype, tuple(shape))


def _tensor(storage: Any, dtype: str, offset: Any, shape: Any, strides: Any, metadata: Any) -> SavedTensor:
    """The stand-in, once every part of it is what torch would have written."""
    # Other entries describe the device's memory (torch_npu: 'npu_format_/ND'); the bytes are plain even so.
    lazy = [bit for bit in ("conj", "neg") if metadata and metadata.get(bit)]
    if lazy:
        raise TensorError(f"{lazy[0]} bit set (the values differ from the bytes; .resolve_{lazy[0]}() first)")
    if not all(type(number) is int and number >= 0 for number in (offset, *shape, *strides)):
        raise TensorError("forged tensor: offset, shape or strides are not counts")
    if len(shape) != len(strides):
        raise TensorError("forged tensor: shape and strides of different length")
    return SavedTensor(storage, dtype, offset, tuple(shape), tuple(strides))


def _rebuild_parameter(data: Any, requires_grad: Any, hooks: Any, state: Any = None) -> Any:
    return data


def _rebuild_from_type_v2(rebuild: Any, kind: Any, arguments: Any, state: Any) -> Any:
    """A tensor with Python attributes: rebuilt as one without."""
    rebuild = rebuild.function if isinstance(rebuild, _Function) else rebuild
    if kind is not _PlainTensor or rebuild not in (_rebuild_tensor_v2, _rebuild_tensor_v3):
        raise TensorError("refused tensor subclass")
    return rebuild(*arguments)


class _PlainTensor:
    """Stands for the class torch.Tensor."""

    __setstate__ = _refuse_state


class _Function:
    """Stands for a function of torch: calls ours, and has no attributes that a pickle could set."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    __setstate__ = _refuse_state


def _no_hooks(*items: Any) -> dict[str, Any]:
    """Stands for collections.OrderedDict, which torch pickles for the hooks it never saves."""
    return {}


_NAMES: dict[tuple[str, str], Callable[..., Any] | type] = {
    ("collections", "OrderedDict"): _no_hooks,
    ("torch", "Size"): tuple,
    ("torch", "Tensor"): _PlainTensor,
    ("torch._tensor", "_rebuild_from_type_v2"): _rebuild_from_type_v2,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): _rebuild_parameter,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor_v2,
    ("torch._utils", "_rebuild_tensor_v3"): _rebuild_tensor_v3,
}


class Inert:
    """Stands for an object of a class that is unknown: its class's name, what it was made of, and its state."""

    name = ""
    arguments: tuple[Any, ...]
    state: Any

    def __new__(cls, *arguments: Any, **_: Any) -> Inert:
        """Remember what the class is called with."""
        self = object.__new__(cls)
        self.arguments, self.state = arguments, None
        return self

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __call__(self, *arguments: Any) -> Inert:
        """Another of its class: what a method that was looked up by name would return is not known."""
        return type(self)(*arguments)

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None: ...

    def append(self, item: Any) -> None:
        """Take an item of a list of its own kind, which nobody asks for."""

    def extend(self, items: Any) -> None:
        """Take items of a list of its own kind, which nobody asks for."""


class _Mapping(dict[Any, Any]):
    """Stands for OrderedDict and defaultdict, without the attributes that a state_dict's has."""

    def __init__(self, items: Any = ()) -> None:
        super().__init__(items if isinstance(items, (list, tuple, dict)) else ())

    def __setstate__(self, state: Any) -> None: ...


class _TreeUnpickler(_Unpickler):
    """An unpickler to which a name that it does not know is an inert class, made for this reading alone."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self._inert: dict[str, type[Inert]] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _MAPPINGS:
            return _Mapping
        if (module, name) == ("torch.nn.parameter", "Parameter"):
            return _PlainTensor
        if module == "torch" and name in _QUANTIZED:
            return ElementType(_QUANTIZED[name])
        if (module, name) == ("torch._utils", "_rebuild_qtensor"):
            return _Function(_rebuild_qtensor)
        try:
            known = super().find_class(module, name)
        except TensorError:
            return self._inert_class(f"{module}.{name}")
        return _Function(known) if isinstance(known, FunctionType) else known

    def _inert_class(self, name: str) -> type[Inert]:
        if name not in self._inert:
            if len(self._inert) == _MOST_CLASSES:
                raise TensorError(f"refused pickle that names more than {_MOST_CLASSES} classes")
            self._inert[name] = type("Inert", (Inert,), {"name": name})
        return self._inert[name]


_MOST_CLASSES = 1000
_MAPPINGS = {("collections", "OrderedDict"), ("collections", "defaultdict")}
