"""Finds the tensor in a `.pt` file that `torch.save` wrote, without torch and without running what it names.

Such a file is a zip with uncompressed members: `data.pkl` rebuilds the tensor and names a storage, and `data/KEY` has
the storage's bytes. An unpickler that knows only a few of torch's names reads the pickle (torch_pickle.py); any other
name stops it. Source of the format: torch/serialization.py (torch 1.6 to 2.13).
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO, NamedTuple

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
from lakeprobe.tensors.torch_pickle import BROKEN_PICKLE, LEGACY_MAGIC, SavedStorage, SavedTensor, read_tensor_pickle


class Span(NamedTuple):
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
            return placed(read_open_pt(file, str(path)), path)
    except zipfile.BadZipFile as error:
        raise TensorError(f"not a sound .pt file: {path} ({error}); save it again with torch.save") from error
    except (OSError, ValueError, NotImplementedError) as error:
        raise TensorError(f"cannot open tensor file {path}: {reason(error)}; dump it again") from error


def read_open_pt(file: IO[bytes], path: str) -> TensorReference:
    """As `read_pt`, of a file that is open; the place counts from its start. Raises BadZipFile and OSError as well."""
    if file.read(len(LEGACY_MAGIC)) == LEGACY_MAGIC:
        raise TensorError(f"{path} has the format before torch 1.6; load it and torch.save it again")
    size = file.seek(0, 2)
    with zipfile.ZipFile(LimitedReads(file, LARGEST_ZIP_DIRECTORY)) as archive:
        members = members_of(archive, path)
        tensor = _unpickle(content(file, members, "data.pkl", LARGEST_PICKLE, path), path)
        order = b"little"
        if "byteorder" in members:
            order = content(file, members, "byteorder", 16, path)
        storage = locate(file, members, f"data/{tensor.storage.key}", path)
    return reference_to(path, size, tensor, storage, order)


class _Member(NamedTuple):
    """A zip member and the end of its space, where the next member or the zip's directory begins."""

    info: zipfile.ZipInfo
    end: int


def members_of(archive: zipfile.ZipFile, path: str) -> dict[str, _Member]:
    """Return the zip's members by name, without the folder that contains all of them."""
    infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
    starts = [info.header_offset for info in infos]
    ends = [*starts[1:], archive.start_dir] if infos else []
    members = {info.filename.partition("/")[2]: _Member(info, end) for info, end in zip(infos, ends, strict=True)}
    if len(members) != len(infos) or len({info.filename.partition("/")[0] for info in infos}) > 1:
        raise TensorError(f"names that torch.save does not write in {path}; save it again with torch.save")
    return members


def locate(file: IO[bytes], members: dict[str, _Member], name: str, path: str) -> Span:
    """Return the span of an uncompressed member from its local header, checked against the zip's directory."""
    if name not in members:
        raise TensorError(f"no {name!r:.100} in {path}; save one tensor with torch.save")
    info, end = members[name]
    if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size or info.flag_bits & 1:
        raise TensorError(f"{name!r:.100} in {path} is compressed or encrypted; save it again with torch.save")
    offset = data_offset(file, info)
    if offset + info.file_size > end:
        raise TensorError(f"zip member {name!r:.100} overlaps what follows it in {path}; save it again")
    return Span(offset, info.file_size)


def content(file: IO[bytes], members: dict[str, _Member], name: str, limit: int, path: str) -> bytes:
    """Return the bytes of a small member."""
    offset, length = locate(file, members, name, path)
    if length > limit:
        raise TensorError(f"{name!r:.100} in {path} is too large for one tensor; save tensors singly")
    file.seek(offset)
    return file.read(length)


def reference_to(path: str, size: int, tensor: SavedTensor, storage: Span, order: bytes) -> TensorReference:
    """Return the tensor's reference, checked to be within its storage, and the storage within the file."""
    dtype = numpy_dtype(tensor.dtype)
    if order == b"big" and dtype.itemsize > 1:
        if tensor.dtype in SMALL_FLOATS:
            raise TensorError(f"big-endian {tensor.dtype} in {path}; save it as float32")
        dtype = dtype.newbyteorder(">")
    # storage_offset counts elements of the tensor's dtype, also over an untyped storage.
    lead = tensor.offset * dtype.itemsize
    strides = tuple(stride * dtype.itemsize for stride in tensor.strides)
    length = _bytes_of(tensor.storage, storage, path)
    whole = TensorReference(path, storage.offset, length, dtype_name(dtype), tensor.shape, strides)
    check_reference(whole, size)
    needed = span(tensor.shape, strides, dtype.itemsize)
    if lead + needed > length:
        raise TensorError(f"the tensor leaves its storage in {path}; save it again with torch.save")
    kept = None if is_contiguous(whole) else strides
    return TensorReference(path, storage.offset + lead, needed, whole.dtype, tensor.shape, kept)


def _bytes_of(storage: SavedStorage, found: Span, path: str) -> int:
    """Return how many bytes the pickle gives the storage. Raises TensorError if the file does not have them."""
    length = storage.count * numpy_dtype(storage.dtype).itemsize
    if not 0 <= length <= found.length:
        raise TensorError(
            f"a storage should have {storage.count} elements and has {found.length} bytes in {path}; "
            "save it again with torch.save"
        )
    return length


def _unpickle(data: bytes, path: str) -> SavedTensor:
    """Return the tensor that the pickle rebuilds, as our stand-in. Anything else in the pickle is refused."""
    try:
        value = read_tensor_pickle(data)
    except TensorError as error:
        raise TensorError(f"{error}: {path}; save one plain tensor") from error
    except BROKEN_PICKLE as error:
        raise TensorError(f"unreadable data.pkl in {path}; save one plain tensor with torch.save") from error
    if not isinstance(value, SavedTensor):
        raise TensorError(f"{path} holds a {type(value).__name__}, not one tensor; save tensors singly")
    return value
