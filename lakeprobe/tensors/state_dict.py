"""Finds the tensors in a file that `torch.save` wrote of a state_dict, or of any nest of dicts, lists and tensors.

Two formats: a zip (torch 1.6 and newer), and before that pickles one after the other, then the storages, each an
8-byte count of elements and its bytes. Nothing of either is executed (torch_pickle.py). Source of the formats:
torch/serialization.py (torch 1.0 to 2.13).
"""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from lakeprobe.bounds import LARGEST_CHECKPOINT_DIRECTORY, LARGEST_CHECKPOINT_PICKLE
from lakeprobe.errors import TensorError
from lakeprobe.system.zip_member import LimitedReads
from lakeprobe.tensors.pt import Span, content, locate, members_of, reference_to
from lakeprobe.tensors.reference import TensorReference, numpy_dtype, open_file, placed, reason
from lakeprobe.tensors.saved import Saved, Unread, flattened
from lakeprobe.tensors.torch_pickle import (
    BROKEN_PICKLE,
    LEGACY_MAGIC,
    Inert,
    SavedTensor,
    UnreadTensor,
    pickle_end,
    read_tree,
)

_ZIP = b"PK\x03\x04"
_HEAD_BYTES = 4096
_PROTOCOL = re.compile(rb"\x80[\x02-\x05]")
_DICT = re.compile(rb"\x80[\x02-\x05](?:\x95.{8})?(?:\}|ccollections\n|\x8c\x0bcollections)", re.DOTALL)
"""How the pickle of a dict or an OrderedDict begins."""

_COUNT = struct.Struct("<q")
_AGAIN = "save it again with torch.save"

Place = Callable[[SavedTensor], TensorReference]
"""Where the bytes of a tensor that a pickle names lie in the file."""


def is_state_dict(path: str | Path) -> bool:
    """Whether `path` is a file of torch.save that holds a dict, by its first bytes."""
    try:
        with open_file(path) as file:
            head = file.read(_HEAD_BYTES)
        start = _tree_start(head)
        return start is not None and _DICT.match(head, start) is not None
    except (OSError, ValueError):
        return False


def _tree_start(head: bytes) -> int | None:
    """Where the pickle of the object begins in the first bytes of a file; None if the file is not torch.save's."""
    if head.startswith(LEGACY_MAGIC):
        try:
            return pickle_end(head, pickle_end(head, len(LEGACY_MAGIC)))
        except BROKEN_PICKLE:
            return None
    if head.startswith(_ZIP) and b"/data.pkl" in head[:256]:
        match = _PROTOCOL.search(head, head.find(b"/data.pkl"))
        return match.start() if match else None
    return None


def read_state_dict(path: str | Path) -> Saved:
    """The tensors, numbers and texts in a `.pt` file, in their order. No tensor's values are read.

    A tensor that torch cannot rebuild from plain bytes is left out, by its name (sparse, of a subclass), or unread
    (quantized).
    Raises TensorError for a file that is damaged, forged, compressed, or not torch.save's.
    """
    try:
        with open_file(path) as file:
            saved = _read(file, str(path))
            saved.tensors = {name: _placed(tensor, path) for name, tensor in saved.tensors.items()}
            return saved
    except zipfile.BadZipFile as error:
        raise TensorError(f"not a sound checkpoint: {path} ({error}); {_AGAIN}") from error
    except (OSError, ValueError, NotImplementedError) as error:
        raise TensorError(f"cannot open checkpoint {path}: {reason(error)}; {_AGAIN}") from error


def _placed(tensor: Any, path: str | Path) -> TensorReference:
    assert isinstance(tensor, TensorReference)
    return placed(tensor, path)


def _read(file: IO[bytes], path: str) -> Saved:
    size = file.seek(0, 2)
    file.seek(0)
    if file.read(len(LEGACY_MAGIC)) == LEGACY_MAGIC:
        return _read_legacy(file, path, size)
    with zipfile.ZipFile(LimitedReads(file, LARGEST_CHECKPOINT_DIRECTORY)) as archive:
        members = members_of(archive, path)
        found = tree(content(file, members, "data.pkl", LARGEST_CHECKPOINT_PICKLE, path), path)
        order = content(file, members, "byteorder", 16, path) if "byteorder" in members else b"little"

        def place(tensor: SavedTensor) -> TensorReference:
            storage = locate(file, members, f"data/{tensor.storage.key}", path)
            return reference_to(path, size, tensor, storage, order)

        return _saved(found, place, path)


def _read_legacy(file: IO[bytes], path: str, size: int) -> Saved:
    """The format before torch 1.6: magic number, version, system, object, keys of the storages; then the storages."""
    file.seek(0)
    head = file.read(LARGEST_CHECKPOINT_PICKLE)
    try:
        system_start = pickle_end(head, len(LEGACY_MAGIC))
        tree_start = pickle_end(head, system_start)
        keys_start = pickle_end(head, tree_start)
        end = pickle_end(head, keys_start)
    except BROKEN_PICKLE as error:
        raise TensorError(f"the pickles of {path} cannot be read; {_AGAIN}") from error
    system, keys = tree(head[system_start:tree_start], path), tree(head[keys_start:end], path)
    found = tree(head[tree_start:keys_start], path)
    order = b"little" if not isinstance(system, dict) or system.get("little_endian", True) else b"big"
    leaves = [value for _, value in _flattened(found, path) if isinstance(value, SavedTensor)]
    spans = _storages(file, keys, {leaf.storage.key: leaf.storage.dtype for leaf in leaves}, end, size, path)

    def place(tensor: SavedTensor) -> TensorReference:
        return reference_to(path, size, tensor, spans[tensor.storage.key], order)

    return _saved(found, place, path)


def _storages(file: IO[bytes], keys: Any, dtypes: dict[str, str], start: int, size: int, path: str) -> dict[str, Span]:
    """The spans of the storages of a legacy file, which lie one after the other in the order of `keys`.

    Only their element types, which the tensors name, say how long they are.
    """
    if not isinstance(keys, list) or not all(map(_is_text, keys)) or not dtypes.keys() <= set(keys):
        raise TensorError(f"{path} does not list its storages; {_AGAIN}")
    spans: dict[str, Span] = {}
    for key in keys:
        file.seek(start)
        raw = file.read(_COUNT.size)
        if len(raw) < _COUNT.size or key not in dtypes:
            raise TensorError(f"{path} ends before its storage {key!s:.40}, or names it in no tensor; {_AGAIN}")
        length = _COUNT.unpack(raw)[0] * numpy_dtype(dtypes[key]).itemsize
        if not 0 <= length <= size - start - _COUNT.size:
            raise TensorError(f"{path} is truncated in its storage {key!s:.40}; copy it again")
        spans[key] = Span(start + _COUNT.size, length)
        start += _COUNT.size + length
    return spans


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def tree(data: bytes, path: str | Path) -> Any:
    """What a pickle in the file `path` rebuilds (torch_pickle.read_tree). Raises TensorError."""
    try:
        return read_tree(data)
    except TensorError as error:
        raise TensorError(f"{error}: {path}; {_AGAIN}") from error
    except BROKEN_PICKLE as error:
        raise TensorError(f"unreadable pickle in {path}; {_AGAIN}") from error


def _flattened(tree: Any, path: str) -> list[tuple[str, Any]]:
    try:
        return list(flattened(tree))
    except TensorError as error:
        raise TensorError(f"{path} has {error}; it is not a checkpoint") from error


def _saved(tree: Any, place: Place, path: str) -> Saved:
    saved = Saved(shared={})
    assert saved.shared is not None
    first: dict[TensorReference, str] = {}
    for name, value in _flattened(tree, path):
        if isinstance(value, SavedTensor):
            reference = place(value)
            saved.tensors[name] = reference
            earlier = first.setdefault(reference, name)
            if earlier != name and reference.length:
                saved.shared[name] = earlier
        elif isinstance(value, UnreadTensor):
            saved.unread[name] = Unread(value.dtype, value.shape)
        elif value is None or isinstance(value, (bool, int, float, str)):
            saved.values[name] = value
        else:
            saved.left_out[name] = value.name if isinstance(value, Inert) else type(value).__name__
    return saved
