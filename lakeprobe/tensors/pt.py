"""Finds the tensor in a `.pt` file that `torch.save` wrote, without torch and without running what it names.

Such a file is a zip with uncompressed members: `data.pkl` rebuilds the tensor and names a storage, and `data/KEY` has
the storage's bytes. The unpickler knows only the few names below, each of which stands for an inert value of ours. Any
other name stops it. Source of the format: torch/serialization.py and torch/_utils.py (torch 1.6 to 2.13).
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
    """Stands for the tensor. Offset and strides are in elements, as in torch."""

    storage: _Storage
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Span(NamedTuple):
    """The span of a zip member's bytes in the file."""

    offset: int
    length: int


def read_pt(path: str | Path) -> TensorReference:
    """Return the reference of the one tensor (or Parameter) in a zip-format `.pt` file.

    It keeps storage offset, strides (0 for expanded axes) and byte order. Raises TensorError for the format before
    torch 1.6, compressed or forged zips, anything but one plain dense tensor, and lazily conjugated or negated tensors,
    whose values differ from the bytes.
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
    """A zip member and the end of its space, where the next member or the zip's directory begins."""

    info: zipfile.ZipInfo
    end: int


def _members(archive: zipfile.ZipFile, path: str) -> dict[str, _Member]:
    """Return the zip's members by name, without the folder that contains all of them."""
    infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
    starts = [info.header_offset for info in infos]
    ends = [*starts[1:], archive.start_dir] if infos else []
    members = {info.filename.partition("/")[2]: _Member(info, end) for info, end in zip(infos, ends, strict=True)}
    if len(members) != len(infos) or len({info.filename.partition("/")[0] for info in infos}) > 1:
        raise TensorError(f"names that torch.save does not write in {path}; save it again with torch.save")
    return members


def _locate(file: IO[bytes], members: dict[str, _Member], name: str, path: str) -> _Span:
    """Return the span of an uncompressed member from its local header, checked against the zip's directory."""
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
    """Return the bytes of a small member."""
    offset, length = _locate(file, members, name, path)
    if length > limit:
        raise TensorError(f"{name} in {path} is too large for one tensor; save tensors singly")
    file.seek(offset)
    return file.read(length)


def _reference(path: str, size: int, tensor: _Tensor, storage: _Span, order: bytes) -> TensorReference:
    """Return the tensor's reference, checked to be within its storage, and the storage within the file."""
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
    """Return the tensor that the pickle rebuilds, as our stand-in. Anything else in the pickle is refused."""
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


#: Errors that a damaged or forged pickle can raise when only our stand-ins exist.
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
    """Refuse, before the unpickler runs, what no tensor's pickle has and what could outlast the reading.

    BUILD sets attributes, even on our stand-ins, which the next file would see. The memo is an array as long as its
    largest index: 5 forged bytes could request 64 GB.
    """
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name in _REFUSED_OPCODES:
            raise TensorError("refused object with a state of its own")
        if opcode.name in _MEMO_OPCODES and (argument or 0) > len(data):
            raise TensorError("refused pickle with a forged memo")


_REFUSED_OPCODES = {"BUILD", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4"}
_MEMO_OPCODES = {"PUT", "BINPUT", "LONG_BINPUT"}


class _Unpickler(pickle.Unpickler):
    """An unpickler that knows only torch's names for plain tensors."""

    def find_class(self, module: str, name: str) -> Any:
        """Return our stand-in for a global.

        A refused global is never imported, because this is called before any use.
        """
        if module in ("torch", "torch.storage") and name in _STORAGES:
            return _Type(_STORAGES[name])
        if module == "torch" and name in _DTYPES:
            return _Type(name)
        stand_in = _NAMES.get((module, name))
        if stand_in is None:
            raise TensorError(f"refused global {module}.{name}")
        return stand_in

    def persistent_load(self, pid: Any) -> _Storage:
        """Return the storage, which is pickled as ('storage', its class, key, device, element count)."""
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
    """Return the stand-in after checking that torch could have written every part of it."""
    # Other entries describe the device's memory (torch_npu: 'npu_format_/ND'). The bytes are plain nevertheless.
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
    """Rebuild a tensor with Python attributes as one without."""
    if kind is not _PlainTensor or rebuild not in (_rebuild_tensor_v2, _rebuild_tensor_v3):
        raise TensorError("refused tensor subclass")
    return rebuild(*arguments)


class _PlainTensor:
    """Stands for the class torch.Tensor."""


def _no_hooks(*items: Any) -> dict[str, Any]:
    """Stands for collections.OrderedDict, which torch pickles for hooks, though it never saves any."""
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
