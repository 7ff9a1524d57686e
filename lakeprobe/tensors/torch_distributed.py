"""Finds the tensors in a folder that torch.distributed.checkpoint wrote: `.metadata`, a pickle, and `*.distcp` files.

The metadata say of each tensor its dtype, its shape, and for each chunk in which file, from which byte and how long it
is saved; the bytes there are those of torch.save, of one tensor. Nothing is executed (torch_pickle.py). Source of the
format: torch/distributed/checkpoint/metadata.py and filesystem.py (torch 2.1 to 2.13).
"""

from __future__ import annotations

import io
import os
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from lakeprobe.bounds import LARGEST_CHECKPOINT_PICKLE, MOST_PARAMETERS
from lakeprobe.errors import TensorError
from lakeprobe.system.files import descriptor_of
from lakeprobe.system.part_of_file import PartOfFile
from lakeprobe.system.window import PathInFile, Window
from lakeprobe.tensors.pt import read_open_pt
from lakeprobe.tensors.reference import TensorReference, open_file, reason
from lakeprobe.tensors.saved import Piece, Saved, Whole
from lakeprobe.tensors.state_dict import tree
from lakeprobe.tensors.torch_pickle import ElementType, Inert

METADATA = ".metadata"
_AGAIN = "save it again"


def read_distributed(folder: Path) -> Saved:
    """The tensors of a folder, those of several chunks as a Whole. Raises TensorError.

    Values that are not tensors lie in the files as pickles of their own, and are left out.
    """
    path = folder / METADATA
    metadata = _fields(_metadata(path), "Metadata", path)
    described, stored = metadata.get("state_dict_metadata"), metadata.get("storage_data")
    if not isinstance(described, dict) or not isinstance(stored, dict) or len(stored) > MOST_PARAMETERS:
        raise TensorError(f"{path} names no tensors and files; {_AGAIN}")
    chunks: dict[str, list[tuple[tuple[int, ...], dict[str, Any]]]] = {}
    for index, info in stored.items():
        key = _fields(index, "MetadataIndex", path)
        name, starts = key.get("fqn"), key.get("offset")
        if isinstance(name, str):
            place = () if starts is None else _sizes(starts, path)
            chunks.setdefault(name, []).append((place, _fields(info, "_StorageInfo", path)))
    saved = Saved()
    for name, tensor in described.items():
        if isinstance(tensor, Inert) and tensor.name.endswith(".TensorStorageMetadata") and isinstance(name, str):
            fields = _fields(tensor, "TensorStorageMetadata", path)
            saved.tensors[name] = _tensor(folder, name, fields, chunks.get(name, []))
        else:
            saved.left_out[str(name)] = "bytes"
    return saved


def _metadata(path: Path) -> Any:
    try:
        with open_file(path) as file:
            data = file.read(LARGEST_CHECKPOINT_PICKLE + 1)
    except OSError as error:
        raise TensorError(f"cannot open {path}: {reason(error)}; copy it again") from error
    if len(data) > LARGEST_CHECKPOINT_PICKLE:
        raise TensorError(
            f"{path} is larger than {LARGEST_CHECKPOINT_PICKLE >> 20} MiB; it is not metadata of a checkpoint"
        )
    return tree(data, path)


def _fields(value: Any, kind: str, path: Path) -> dict[str, Any]:
    """The attributes of an object of the class `kind`."""
    if not isinstance(value, Inert) or value.name.rpartition(".")[2] != kind or not isinstance(value.state, dict):
        raise TensorError(f"{path} is not metadata of torch.distributed.checkpoint; {_AGAIN}")
    return value.state


def _sizes(value: Any, path: Path) -> tuple[int, ...]:
    if isinstance(value, tuple) and all(type(number) is int and number >= 0 for number in value):
        return value
    raise TensorError(f"{path} has an invalid offset or size; {_AGAIN}")


def _tensor(
    folder: Path, name: str, tensor: dict[str, Any], chunks: list[tuple[tuple[int, ...], dict[str, Any]]]
) -> TensorReference | Whole:
    shape = _sizes(tensor.get("size"), folder / METADATA)
    properties = tensor.get("properties")
    dtype = properties.state[0] if isinstance(properties, Inert) and isinstance(properties.state, tuple) else None
    if not isinstance(dtype, ElementType) or not chunks:
        raise TensorError(f"{folder / METADATA} does not say where {name!s:.80} lies; {_AGAIN}")
    pieces = [Piece(_chunk(folder, name, info), starts) for starts, info in chunks]
    if len(pieces) == 1 and pieces[0].reference.shape == shape:
        return pieces[0].reference
    return Whole(dtype.dtype, shape, tuple(pieces))


def _chunk(folder: Path, name: str, info: dict[str, Any]) -> TensorReference:
    file_name, offset, length = info.get("relative_path"), info.get("offset"), info.get("length")
    if not isinstance(file_name, str) or "/" in file_name or "\\" in file_name or file_name in ("", ".", ".."):
        raise TensorError(f"{folder / METADATA} names the file {file_name!r:.80}, which leaves the folder; {_AGAIN}")
    if type(offset) is not int or type(length) is not int or min(offset, length) < 0:
        raise TensorError(f"{folder / METADATA} does not say where {name!s:.80} lies; {_AGAIN}")
    path = folder / file_name
    try:
        window = path.window() if isinstance(path, PathInFile) else Window(str(path), 0, path.stat().st_size)
        if offset + length > window.length:
            raise TensorError(f"{path} is truncated: {name!s:.80} ends after its {window.length} bytes; copy it again")
        descriptor = descriptor_of(window.file)
        try:
            part = io.BufferedReader(PartOfFile(descriptor, window.offset + offset, length, str(path)))
            reference = read_open_pt(part, str(path))
        finally:
            os.close(descriptor)
        return replace(reference, file=window.file, offset=window.offset + offset + reference.offset)
    except zipfile.BadZipFile as error:
        raise TensorError(f"{path}: {name!s:.80} is not what torch.save writes ({error}); {_AGAIN}") from error
    except (OSError, ValueError, NotImplementedError) as error:
        raise TensorError(f"cannot open {str(path)!r}: {reason(error)}; copy it again") from error
