"""Reads checkpoints: files of parameters, each an op of the kind parameter with one leaf.

    *.safetensors, *.bin, *.pt, *.pth        a state_dict; shards STEM-00001-of-00003.SUFFIX with STEM.SUFFIX.index.json
    *.ckpt                                   MindSpore's, or a state_dict (Lightning)
    .metadata, *.distcp                      torch.distributed.checkpoint; a tensor's chunks are put together
    mp_rank_TP[_PP]/model_optim_rng.pt       Megatron; see megatron.py

A folder's weights (model.safetensors, or the only file) have no part; other files of it are parts, named as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from lakeprobe.bounds import LARGEST_CHECKPOINT_HEADER
from lakeprobe.errors import DumpError, TensorError
from lakeprobe.readers.dump import TENSOR_FOLDER
from lakeprobe.readers.kernel_names import dtype_of
from lakeprobe.readers.names import parameter
from lakeprobe.readers.source import ContentOf, Emit, Listing, Source, Summary, place_of
from lakeprobe.readers.tables import Tables
from lakeprobe.system.files import open_regular

if TYPE_CHECKING:
    from lakeprobe.tensors import TensorReference
    from lakeprobe.tensors.saved import Saved, Whole

NAME = "checkpoint"

_STATE_DICTS = (".pt", ".pth", ".bin", ".ckpt")
_SUFFIXES = (".safetensors", *_STATE_DICTS)
_SHARD = re.compile(r"(?P<stem>.+)-\d{5}-of-(?P<count>\d{5})(?P<suffix>\.\w+)")
_INDEX = ".index.json"
_DISTRIBUTED, _CHUNKS = ".metadata", ".distcp"
_MEGATRON_FOLDER = re.compile(r"mp_rank_\d{2,4}(?:_\d{3,4})*")
_MEGATRON_FILE = "model_optim_rng.pt"
_WEIGHTS = ("model", "pytorch_model", "consolidated", "weights")
"""What the file with a model's weights is called; other files beside it hold the optimizer, the schedule, …"""

_SAME_MODEL = {"model", "pytorch_model", "consolidated"}
"""Names under which a folder of a model of transformers holds it in several formats."""

_MOST_NAMED = 5
"""Parameters, or things that were left out, that a note names."""


# ---- find -------------------------------------------------------------------------------------------------


def find(listing: Listing) -> list[Source]:
    """The checkpoints in a folder. A few bytes of each file tell a state_dict from a tensor."""
    folder = listing.folder
    if folder.name == TENSOR_FOLDER or _MEGATRON_FOLDER.fullmatch(folder.name):
        return []
    if _DISTRIBUTED in listing.files and any(name.endswith(_CHUNKS) for name in listing.files):
        names = [_DISTRIBUTED, *(name for name in listing.files if name.endswith(_CHUNKS))]
        return [_source(folder, names, "")]
    ranks = [name for name in listing.folders if _MEGATRON_FOLDER.fullmatch(name)]
    files = [folder / rank / _MEGATRON_FILE for rank in ranks]
    if files and all(file.is_file() for file in files):
        return [_source(folder, [f"{rank}/{_MEGATRON_FILE}" for rank in ranks], "")]
    groups = _groups(folder, listing.files)
    weights = [name for name in groups if len(groups) == 1 or name.rpartition(".")[0] in _WEIGHTS]
    again = {name for name in weights[1:] if {name.rpartition(".")[0], weights[0].rpartition(".")[0]} <= _SAME_MODEL}
    notes = tuple(
        f"{folder / name} is left out: {weights[0]} beside it has the model; name the file alone to read it"
        for name in groups if name in again
    )  # fmt: skip
    found = [
        _source(folder, files, "" if name in weights[:1] else name)
        for name, files in groups.items()
        if name not in again
    ]
    return [replace(found[0], notes=notes), *found[1:]] if found else []


def alone(source: Source, path: Path) -> Source:
    """`source`, a checkpoint in one file, as what the user names by that file: a run of its own."""
    return replace(source, root=path, step=0, rank=0, part="", process=None, notes=())


def _source(folder: Path, names: Iterable[str], part: str) -> Source:
    place = place_of(folder)
    files = tuple(folder / name for name in names)
    return Source(NAME, place.root, folder, place.step, place.rank, files, part=part, files_hold_tensors=True)


def _groups(folder: Path, names: Sequence[str]) -> dict[str, list[str]]:
    """The files of each checkpoint by its name: one file, or its shards and their index."""
    indexes = [name for name in names if name.endswith(tuple(f"{suffix}{_INDEX}" for suffix in _SUFFIXES))]
    groups: dict[str, list[str]] = {}
    for name in names:
        if name.endswith(_SUFFIXES) and not name.startswith(".") and _is_checkpoint(folder / name):
            shard = _SHARD.fullmatch(name)
            whole = f"{shard['stem']}{shard['suffix']}" if shard else name
            if not shard and len(indexes) == 1 and indexes[0].endswith(f"{Path(name).suffix}{_INDEX}"):
                whole = indexes[0].removesuffix(_INDEX)
            groups.setdefault(whole, []).append(name)
    for index in indexes:
        groups.get(index.removesuffix(_INDEX), []).append(index)
    return groups


def _is_checkpoint(path: Path) -> bool:
    from lakeprobe.tensors.mindspore_ckpt import is_ckpt
    from lakeprobe.tensors.state_dict import is_state_dict

    if path.suffix == ".safetensors":
        return True
    return is_state_dict(path) or (path.suffix == ".ckpt" and is_ckpt(path))


# ---- read -------------------------------------------------------------------------------------------------


def read(source: Source, content_of: ContentOf, emit: Emit) -> Summary:
    """Read the heads of the files, and each tensor's bytes once for its statistics. Raises DumpError."""
    tables = Tables(source, source.files[0], content_of, emit)
    try:
        saved, kind = _saved(source)
    except TensorError as error:
        raise DumpError(str(error)) from error
    write = _Parameters(tables, "mindspore" if kind == "MindSpore" else "pytorch", saved)
    for name, tensor in saved.tensors.items():
        write.tensor(name, tensor)
    for name, unread in saved.unread.items():
        write.unread(name, unread.dtype, unread.shape)
    for name, made_by in saved.left_out.items():
        write.left_out(name, made_by)
    for name, value in saved.values.items():
        tables.add(name, parameter(name), _scalar(value))
    summary = tables.summary
    summary.task, summary.framework = "tensor", write.framework
    summary.head = json.dumps({"checkpoint": kind})
    summary.notes += write.problems
    if saved.apart:
        summary.notes.append(
            f"parameters differ between ranks that should hold the same: {', '.join(saved.apart[:_MOST_NAMED])}"
            f"{' and more' if len(saved.apart) > _MOST_NAMED else ''}; training let them drift apart"
        )
    if saved.unread:
        types = {name: unread.dtype for name, unread in saved.unread.items()}
        summary.notes.append(f"these have no values, as their element types are not read: {_shown(types)}")
    if saved.left_out:
        summary.notes.append(f"not read, as they are not tensors, numbers or texts: {_shown(saved.left_out)}")
    return tables.close()


def _saved(source: Source) -> tuple[Saved, str]:
    """Return the parameters of all files together, and what wrote them. Raises TensorError and DumpError."""
    from lakeprobe.tensors.torch_distributed import read_distributed

    first = source.files[0]
    if first.name == _DISTRIBUTED:
        return read_distributed(source.folder), "torch.distributed.checkpoint"
    if first.name == _MEGATRON_FILE and _MEGATRON_FOLDER.fullmatch(first.parent.name):
        from lakeprobe.readers import megatron

        return megatron.read(source.files), "Megatron"
    files = [path for path in source.files if not path.name.endswith(_INDEX)]
    together, kind = _read_file(files[0])
    for path in files[1:]:
        _add(together, _read_file(path)[0], path)
    for path in source.files:
        if path.name.endswith(_INDEX):
            _check_index(path, together)
    _check_shards(files)
    return together, kind


def _check_shards(files: Sequence[Path]) -> None:
    """Raise DumpError unless the shards among `files` are as many as their names say. Not all have an index."""
    shards = [(path, match) for path in files if (match := _SHARD.fullmatch(path.name))]
    for path, match in shards:
        count = int(match["count"])
        if count != len(shards):
            raise DumpError(
                f"{path} is one of {count} shards, and {len(shards)} are here; copy the others too, or remove those of "
                "another checkpoint"
            )


def _read_file(path: Path) -> tuple[Saved, str]:
    from lakeprobe.tensors.mindspore_ckpt import is_ckpt, read_ckpt
    from lakeprobe.tensors.safetensors import read_safetensors
    from lakeprobe.tensors.state_dict import read_state_dict

    readers: dict[str, Callable[[Path], Saved]] = {
        "safetensors": read_safetensors, "MindSpore": read_ckpt, "torch": read_state_dict,
    }  # fmt: skip
    if path.suffix == ".safetensors":
        kind = "safetensors"
    else:
        kind = "MindSpore" if path.suffix == ".ckpt" and is_ckpt(path) else "torch"
    return readers[kind](path), kind


def _add(together: Saved, shard: Saved, path: Path) -> None:
    twice = _names(shard) & _names(together)
    if twice:
        raise DumpError(
            f"{path}: {min(twice)!s:.80} is in an earlier shard too; remove the shard of the other checkpoint"
        )
    together.tensors |= shard.tensors
    together.values |= shard.values
    together.unread |= shard.unread
    together.left_out |= shard.left_out
    if together.shared is not None:
        together.shared |= shard.shared or {}


def _names(saved: Saved) -> set[str]:
    return {*saved.tensors, *saved.unread, *saved.values}


def _check_index(path: Path, saved: Saved) -> None:
    """Raises DumpError unless every parameter that the index names was in a shard."""
    try:
        with open_regular(path) as file:
            data = file.read(LARGEST_CHECKPOINT_HEADER + 1)
        if len(data) > LARGEST_CHECKPOINT_HEADER:
            raise DumpError(f"{path} is larger than {LARGEST_CHECKPOINT_HEADER >> 20} MiB; it is not an index")
        named = json.loads(data)["weight_map"]
        known = {*saved.tensors, *saved.unread}
        missing = [(name, file) for name, file in named.items() if name not in known]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DumpError(f"{path} is not an index of shards ({error!s:.80}); copy it again") from error
    if missing:
        name, file = missing[0]
        raise DumpError(f"{path} names {name!s:.80} in {file!s:.80}, which is missing; copy that shard too")


class _Parameters:
    """Writes the tensors of a checkpoint, each an op."""

    def __init__(self, tables: Tables, framework: str, saved: Saved) -> None:
        self.framework = framework
        self.problems: list[str] = []
        self._tables, self._shared = tables, saved.shared
        self._tensor_type = "torch.Tensor" if framework == "pytorch" else "mindspore.Tensor"

    def tensor(self, name: str, tensor: TensorReference | Whole) -> None:
        """Write a tensor, put together if it is saved in pieces."""
        with _one(tensor) as reference:
            leaf = self._leaf(name, reference, _file(tensor))
            shared = None if self._shared is None else {"shares": self._shared.get(name)}
            self._tables.add(name, parameter(name), leaf, extra=shared)

    def unread(self, name: str, dtype: str, shape: Sequence[int]) -> None:
        """Write a tensor whose element type is not read."""
        self._without_values(name, {"type": self._tensor_type, "dtype": dtype, "shape": list(shape)})

    def left_out(self, name: str, made_by: str) -> None:
        """Write what is left out as a tensor that was not recorded."""
        is_tensor = "tensor" in made_by.lower()  # sparse, of a subclass
        self._without_values(name, {"type": self._tensor_type if is_tensor else made_by, "dtype": None, "shape": None})

    def _without_values(self, name: str, head: dict[str, Any]) -> None:
        """Write a row without numbers, so that no comparison calls it equal."""
        self._tables.add(name, parameter(name), head | dict.fromkeys(("Max", "Min", "Mean", "Norm")))

    def _leaf(self, name: str, reference: TensorReference, file: str) -> dict[str, Any]:
        from lakeprobe.tensors.reference import numpy_dtype
        from lakeprobe.tensors.statistics import measured

        dtype = numpy_dtype(reference.dtype).name
        leaf: dict[str, Any] = {
            "type": self._tensor_type,
            "dtype": f"torch.{dtype}" if self.framework == "pytorch" else dtype_of(dtype),
            "shape": list(reference.shape),
        }
        try:
            numbers, reference = measured(reference)
            leaf |= numbers
        except TensorError as error:
            self.problems.append(f"{name} cannot be read: {error}")
        return leaf | {"data_name": file, "content": reference}


@contextmanager
def _one(tensor: TensorReference | Whole) -> Iterator[TensorReference]:
    from lakeprobe.tensors.merged import merged
    from lakeprobe.tensors.saved import Whole

    if not isinstance(tensor, Whole):
        yield tensor
        return
    try:
        with merged(tensor) as reference:
            yield reference
    except TensorError as error:
        raise DumpError(str(error)) from error


def _file(tensor: TensorReference | Whole) -> str:
    from lakeprobe.tensors.saved import Whole

    reference = tensor.pieces[0].reference if isinstance(tensor, Whole) else tensor
    return Path(reference.file).name


def _scalar(value: bool | int | float | str | None) -> dict[str, Any] | None:
    return None if value is None else {"type": type(value).__name__, "value": value}


def _shown(kinds: dict[str, str]) -> str:
    """Return the first names, each with what it is, and how many more there are."""
    named = list(kinds.items())[:_MOST_NAMED]
    shown = ", ".join(" ".join(f"{name} ({kind})".split()) for name, kind in named)  # a damaged name may have lines
    more = len(kinds) - _MOST_NAMED
    return shown + (f", and {more} more" if more > 0 else "")
