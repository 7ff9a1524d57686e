"""Finds the tensor in a `.pt` file that `torch.save` wrote, without torch and without running what it names.

Such a file is a zip whose members are not compressed: `data.pkl` rebuilds the tensor and names a storage,
`data/KEY` is the storage's bytes. The pickle is read by an unpickler for which only the handful of names
below exist, each standing for an inert value of ours; any other name ends the reading. Source of the format:
torch/serialization.py and torch/_utils.py (torch 1.6 to 2.13).
"""

from __future__ import annotations

import io
import pickle
import pickletools
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from lakeprobe.bounds import LARGEST_PICKLE, LARGEST_ZIP_DIRECTORY
from lakeprobe.errors import TensorError
from lakeprobe.system.zip_member import LimitedReads, data_offset
from lakeprobe.tensors.reference import (
    SMALL_FLOATS,
    TensorReference,
    check_reference,
    dtype_name,
    is_contiguous,
    numpy_dtype,
    open_file,
    placed,
    reason,
    span,
)

_LEGACY_MAGIC = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."

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


@dataclass(frozen=True, slots=True)
class _Type:
    """Stands for a storage class or a dtype of torch."""

    dtype: str


@dataclass(frozen=True, slots=True)
class _Storage:
    """Stands for a storage: the key of its zip member, and its element type."""

    key: str
    dtype: str


@dataclass(frozen=True, slots=True)
class _Tensor:
    """Stands for the tensor; offset and strides in elements, as torch counts."""

    storage: _Storage
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Span(NamedTuple):
    """Where the bytes of a zip member lie in the file."""

    offset: int
    length: int


def read_pt(path: str | Path) -> TensorReference:
    """Where the one tensor (or Parameter) of a zip-format `.pt` file lies and how it is strided.

    Its storage offset, strides (0 for expanded axes) and byte order are kept. Raises TensorError for the
    format before torch 1.6, compressed or forged zips, anything but one plain dense tensor, and lazily
    conjugated or negated tensors, whose values are not what the bytes say.
    """
    try:
        with open_file(path) as file:
            return placed(_read_zip(file, str(path)), path)
    except zipfile.BadZipFile as error:
        raise TensorError(f"not a sound .pt file: {path} ({error}); save it again with torch.save") from error
    except (OSError, ValueError, NotImplementedError) as error:
        raise TensorError(f"cannot open tensor file {path}: {reason(error)}; dump it again") from error


def _read_zip(file: IO[bytes], path: str) -> TensorReference:
    if file.read(len(_LEGACY_MAGIC)) == _LEGACY_MAGIC:
        raise TensorError(f"{path} has the format before torch 1.6; load it and torch.save it again")
    size = file.seek(0, 2)
    with zipfile.ZipFile(LimitedReads(file, LARGEST_ZIP_DIRECTORY)) as archive:
        members = _members(archive, path)
        tensor = _unpickle(_content(file, members, "data.pkl", LARGEST_PICKLE, path), path)
        order = b"little"
        if "byteorder" in members:
            order = _content(file, members, "byteorder", 16, path)
        storage = _locate(file, members, f"data/{tensor.storage.key}", path)
    return _reference(path, size, tensor, storage, order)


class _Member(NamedTuple):
    """A zip member and the end of the room it has: where the next one, or the zip's directory, begins."""

    info: zipfile.ZipInfo
    end: int


def _members(archive: zipfile.ZipFile, path: str) -> dict[str, _Member]:
    """The zip's members by name, without the folder that all of them lie in."""
    infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
    starts = [info.header_offset for info in infos]
    ends = [*starts[1:], archive.start_dir] if infos else []
    members = {info.filename.partition("/")[2]: _Member(info, end) for info, end in zip(infos, ends, strict=True)}
    if len(members) != len(infos) or len({info.filename.partition("/")[0] for info in infos}) > 1:
        raise TensorError(f"names that torch.save does not write in {path}; save it again with torch.save")
    return members


def _locate(file: IO[bytes], members: dict[str, _Member], name: str, path: str) -> _Span:
    """The span of an uncompressed member, found by its local header and held against the zip's directory."""
    if name not in members:
        raise TensorError(f"no {name} in {path}; save one tensor with torch.save")
    info, end = members[name]
    if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size or info.flag_bits & 1:
        raise TensorError(f"{name} in {path} is compressed or encrypted; save it again with torch.save")
    offset = data_offset(file, info)
    if offset + info.file_size > end:
        raise TensorError(f"zip member {name} overlaps what follows it in {path}; save it again")
    return _Span(offset, info.file_size)


def _content(file: IO[bytes], members: dict[str, _Member], name: str, limit: int, path: str) -> bytes:
    """The bytes of a small member."""
    offset, length = _locate(file, members, name, path)
    if length > limit:
        raise TensorError(f"{name} in {path} is too large for one tensor; save tensors singly")
    file.seek(offset)
    return file.read(length)


def _reference(path: str, size: int, tensor: _Tensor, storage: _Span, order: bytes) -> TensorReference:
    """The tensor's span in the file, checked to lie in its storage and the storage in the file."""
    dtype = numpy_dtype(tensor.dtype)
    if order == b"big" and dtype.itemsize > 1:
        if tensor.dtype in SMALL_FLOATS:
            raise TensorError(f"big-endian {tensor.dtype} in {path}; save it as float32")
        dtype = dtype.newbyteorder(">")
    # storage_offset counts elements of the tensor's dtype, also over an untyped storage.
    lead = tensor.offset * dtype.itemsize
    strides = tuple(stride * dtype.itemsize for stride in tensor.strides)
    whole = TensorReference(path, storage.offset, storage.length, dtype_name(dtype), tensor.shape, strides)
    check_reference(whole, size)
    length = span(tensor.shape, strides, dtype.itemsize)
    if lead + length > storage.length:
        raise TensorError(f"the tensor leaves its storage in {path}; save it again with torch.save")
    kept = None if is_contiguous(whole) else strides
    return TensorReference(path, storage.offset + lead, length, whole.dtype, tensor.shape, kept)


def _unpickle(data: bytes, path: str) -> _Tensor:
    """The tensor that the pickle rebuilds, as our stand-in. Whatever else it holds or asks for is refused."""
    try:
        _check_opcodes(data)
        value = _Unpickler(io.BytesIO(data)).load()
    except TensorError as error:
        raise TensorError(f"{error}: {path}; save one plain tensor") from error
    except _BROKEN_PICKLE as error:
        raise TensorError(f"unreadable data.pkl in {path}; save one plain tensor with torch.save") from error
    if not isinstance(value, _Tensor):
        raise TensorError(f"{path} holds a {type(value).__name__}, not one tensor; save tensors singly")
    return value


#: What a damaged or forged pickle can raise while only our stand-ins exist.
_BROKEN_PICKLE = (
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


def _check_opcodes(data: bytes) -> None:
    """Refuses, before the unpickler runs, what no tensor's pickle has and what could outlive the reading.

    BUILD sets attributes, also of our stand-ins, which the next file would meet. The memo is an array as long
    as its greatest index: 5 forged bytes could ask for 64 GB.
    """
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name in _REFUSED_OPCODES:
            raise TensorError("refused object with a state of its own")
        if opcode.name in _MEMO_OPCODES and (argument or 0) > len(data):
            raise TensorError("refused pickle with a forged memo")


_REFUSED_OPCODES = {"BUILD", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4"}
_MEMO_OPCODES = {"PUT", "BINPUT", "LONG_BINPUT"}


class _Unpickler(pickle.Unpickler):
    """An unpickler in whose world only torch's names for plain tensors exist."""

    def find_class(self, module: str, name: str) -> Any:
        """Called for every global before anything can use it, so a refused one is never imported."""
        if module in ("torch", "torch.storage") and name in _STORAGES:
            return _Type(_STORAGES[name])
        if module == "torch" and name in _DTYPES:
            return _Type(name)
        stand_in = _NAMES.get((module, name))
        if stand_in is None:
            raise TensorError(f"refused global {module}.{name}")
        return stand_in

    def persistent_load(self, pid: Any) -> _Storage:
        """A storage is pickled as ('storage', its class, key, device, element count)."""
        match pid:
            case ("storage", _Type(dtype=dtype), str(key), str(), int()):
                return _Storage(key, dtype)
        raise TensorError("refused persistent id")


def _rebuild_tensor_v2(
    storage: Any,
    offset: Any,
    shape: Any,
    strides: Any,
    requires_grad: Any,
    hooks: Any,
    metadata: Any = None,
) -> _Tensor:
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
) -> _Tensor:
    return _tensor(storage, dtype.dtype, offset, shape, strides, metadata)


def _tensor(storage: Any, dtype: str, offset: Any, shape: Any, strides: Any, metadata: Any) -> _Tensor:
    """The stand-in, once every part of it is what torch would have written."""
    # Other entries describe the device's memory (torch_npu: 'npu_format_/ND'); the bytes are plain even so.
    lazy = [bit for bit in ("conj", "neg") if metadata and metadata.get(bit)]
    if lazy:
        raise TensorError(f"{lazy[0]} bit set (the values differ from the bytes; .resolve_{lazy[0]}() first)")
    if not all(type(number) is int and number >= 0 for number in (offset, *shape, *strides)):
        raise TensorError("forged tensor: offset, shape or strides are not counts")
    if len(shape) != len(strides):
        raise TensorError("forged tensor: shape and strides of different length")
    return _Tensor(storage, dtype, offset, tuple(shape), tuple(strides))


def _rebuild_parameter(data: Any, requires_grad: Any, hooks: Any, state: Any = None) -> Any:
    return data


def _rebuild_from_type_v2(rebuild: Any, kind: Any, arguments: Any, state: Any) -> Any:
    """A tensor with Python attributes: rebuilt as one without."""
    if kind is not _PlainTensor or rebuild not in (_rebuild_tensor_v2, _rebuild_tensor_v3):
        raise TensorError("refused tensor subclass")
    return rebuild(*arguments)


class _PlainTensor:
    """Stands for the class torch.Tensor."""


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
