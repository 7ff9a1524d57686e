"""Reads kernel dumps of Ascend devices (ACL, GE; msprobe's level L2): one binary file for each call of a kernel.

    {dump_path}/{time}/{device}[/{model_name}][/{model_id}][/{iteration}]/{type}.{name}.{task}.{stream}.{timestamp}

A name may go on with .{task_type}.{context}.{thread}.{device} (FFTS+). Where a file is named by digits, because its
name was too long, mapping.csv beside it has the name.

A file is an unsigned integer of 8 bytes (little-endian), the length of the head; the head, a protobuf message (see
acl_message.py); and then, without gaps, the bytes of the inputs, outputs, buffers and workspaces, each as long as
the head says. The writer of the files and four readers agree on this:

- hicann/runtime: src/aicpu_sched/aicpu_schedule/core/dfx/dump_task.cpp, the writer; also for paths and names
- mindspore-ai/mindspore: mindspore/ccsrc/debug/dump_data_builder.h and
  mindspore/ccsrc/plugin/device/ascend/hal/device/dump/ascend_dump.cc
- msprobe (mindstudio-probe 26.2.0 from PyPI): msaccucmp/dump_parse/big_dump_data.py
- hicann/oam-tools: src/msaicerr/ms_interface/dump_data_parser.py
- xiaobingling93-pixel/Ascend-mstt: debug/accuracy_tools/msprobe/ccsrc/core/AclDumpDataProcessor.cpp

Names and folders: https://www.hiascend.com/document/detail/en/canncommercial/850/devaids/modelaccuracy/
atlasaccuracy_16_0061.html and mindspore-ai/docs: docs/mindspore/source_en/model_train/debug/dump.md.

Not read: buffers, workspaces, the records of overflow (Opdebug.Node_OpDebug), element types without one plain value
for each element, files of the old layout that is one protobuf message, and statistics (.csv). A tensor in a device
format (NC1HWC0, FRACTAL_NZ, …) is read as the device laid it out. A file that cannot be read is an op without
tensors, and the summary says so.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from lakeprobe.errors import DumpError, TensorError
from lakeprobe.readers.acl_message import (
    DTYPES,
    LARGEST_HEAD,
    DumpedTensor,
    DumpHead,
    decode,
    dtype_name,
    format_name,
)
from lakeprobe.readers.kernel_names import dtype_of
from lakeprobe.readers.mindspore_ir import Lines, graphs_of
from lakeprobe.readers.names import OpName
from lakeprobe.readers.source import ContentOf, Emit, Listing, Place, Source, Summary, numbered, place_of
from lakeprobe.readers.tables import Tables
from lakeprobe.system.files import open_regular

NAME = "Ascend kernel dump"
MAPPING_FILE = "mapping.csv"

_FILE = re.compile(
    r"(?P<type>[^.\s]+)\.(?P<name>\S+)\.(?P<task>[0-9]{1,10})\.(?P<stream>[0-9]{1,10})\.(?P<timestamp>[0-9]{10,20})"
    r"(?:\.(?P<task_type>[0-9]{1,10})\.(?P<context>[0-9]{1,10})\.(?P<thread>[0-9]{1,10})\.[0-9]{1,10})?"
)
_DIGITS = re.compile(r"[0-9]+")
_TIME = re.compile(r"[0-9]{14}")
_NUMBER = re.compile(r"[0-9]{1,9}")
_RANK, _STEP = numbered("rank", "_"), numbered("step")
_LARGEST_MAPPING = 1 << 26
"""Bytes of a mapping.csv that is read."""

_MOST_LEVELS = 3
"""Folders below {device}: model name, model id, iteration."""

_OVERFLOW = ("Opdebug", "Node_OpDebug")
_HOST_FORMATS = {
    "NCHW", "NHWC", "ND", "NCDHW", "NDHWC", "HWCN", "DHWCN", "CHWN", "DHWNC", "NC", "CN", "NCL", "RESERVED", "NULL"
}  # fmt: skip
"""Formats that store elements in the order of the shape. The others divide and pad dimensions."""

_MINDSPORE_SCOPES = ("Default_", "Default-", "Gradients_", "Gradients-")
_TENSOR_TYPES = {"mindspore": "mindspore.Tensor", "pytorch": "torch.Tensor"}
_LENGTH_BYTES = 8


class DumpFile(Struct, frozen=True):
    """A file of one call of a kernel: its name on disk, and what its full name says."""

    file: str
    type: str
    name: str
    task: int
    stream: int
    timestamp: int
    context: int | None
    thread: int | None

    @property
    def stem(self) -> str:
        """The fields that all calls of this kernel share."""
        return f"{self.type}.{self.name}.{self.task}"

    @property
    def is_overflow(self) -> bool:
        """Whether the file records an overflow instead of a kernel."""
        return (self.type, self.name) == _OVERFLOW


class Part(NamedTuple):
    """A tensor and the offset of its bytes in the file; None if unknown."""

    tensor: DumpedTensor
    offset: int | None


# ---- find -------------------------------------------------------------------------------------------------


def find(listing: Listing) -> list[Source]:
    """The dump in a folder with files of kernels."""
    if not any(_FILE.fullmatch(name) for name in listing.files) and not _mapped_names(listing.folder, listing.files):
        return []
    place = locate(listing.folder, listing.top)
    mapping = [listing.folder / name for name in listing.files if name == MAPPING_FILE]
    files = (*mapping, *graphs_of(listing.folder, place.root))
    beside_others = any(name.endswith((".npy", ".bin")) or name == "statistic.csv" for name in listing.files)
    part = "/".join(filter(None, (place.part, "bin" if beside_others else "")))
    return [Source(NAME, place.root, listing.folder, place.step, place.rank, files, tensors=listing.folder, part=part)]


def locate(folder: Path, top: Path) -> Place:
    """The place of the files' folder in the tree of a run.

    The run's folder is the one above {time}, or above a step folder between the two: stepN (msprobe), or N
    (MindSpore) if it lies below `top`. Without such a folder the iteration is the step. The part is
    [{k}/][{model_name}/][{model_id}][/{iteration}]: k numbers the times if several hold this device, and the
    iteration is there if it is not the step. Older releases of MindSpore wrote rank_R/{network}/{graph}/{iteration}.
    """
    chain = (folder, *folder.parents)
    for levels in range(min(_MOST_LEVELS + 1, len(chain) - 2)):
        if _NUMBER.fullmatch(chain[levels].name) and _TIME.fullmatch(chain[levels + 1].name):
            return _below_time(chain[levels], [level.name for level in chain[:levels][::-1]], top)
    if len(chain) > _MOST_LEVELS + 1 and (rank := _RANK.fullmatch(chain[3].name)) and _NUMBER.fullmatch(folder.name):
        return Place(chain[4], int(folder.name), int(rank[1]), f"{chain[2].name}/{chain[1].name}")
    return place_of(folder)


def _below_time(device: Path, below: Sequence[str], top: Path) -> Place:
    """The place of a folder that lies in {time}/{device} by the names `below`."""
    time, root = device.parent.name, device.parent.parent
    outer = place_of(root)
    has_step = any(_STEP.fullmatch(name) for name in root.relative_to(outer.root).parts)
    if _NUMBER.fullmatch(root.name) and top in root.parents:
        outer, has_step = Place(root.parent, int(root.name), 0), True
    ends_in_iteration = len(below) > 1 and all(map(_NUMBER.fullmatch, below[-1:] if len(below) > 2 else below))
    step, model = outer.step, below
    if ends_in_iteration and not has_step:
        step, model = int(below[-1]), below[:-1]
    times = [other.name for other in root.iterdir() if _TIME.fullmatch(other.name) and (other / device.name).is_dir()]
    number = [str(sum(other < time for other in times))] if len(times) > 1 else []
    return Place(outer.root, step, int(device.name), "/".join([*filter(None, [outer.part]), *number, *model]))


# ---- files ------------------------------------------------------------------------------------------------


def dump_files(folder: Path, names: Sequence[str]) -> list[DumpFile]:
    """The files of kernels among `names`, by their timestamps. Raises DumpError if mapping.csv cannot be read."""
    mapped = _mapped_names(folder, names)
    full_names = ((name, mapped.get(name, name)) for name in names)
    found = ((name, match) for name, full_name in full_names if (match := _FILE.fullmatch(full_name)))
    return sorted((_dump_file(name, match) for name, match in found), key=lambda it: (it.timestamp, it.stem, it.file))


def _dump_file(file: str, match: re.Match[str]) -> DumpFile:
    number = {key: int(text) for key, text in match.groupdict().items() if key not in ("type", "name") and text}
    return DumpFile(
        file, match["type"], match["name"], number["task"], number["stream"], number["timestamp"],
        number.get("context"), number.get("thread"),
    )  # fmt: skip


def _mapped_names(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The full names of the files that are named by digits, from mapping.csv. Raises DumpError if it cannot be read."""
    hashed = {name for name in names if _DIGITS.fullmatch(name)}
    if not hashed or MAPPING_FILE not in names:
        return {}
    path, mapped = folder / MAPPING_FILE, {}
    try:
        if path.stat().st_size > _LARGEST_MAPPING:
            raise DumpError(f"{path} has more than {_LARGEST_MAPPING} bytes; it is not a mapping of file names")
        with open_regular(path) as binary, io.TextIOWrapper(binary, encoding="utf-8", newline="") as file:
            for row in csv.reader(file):
                if len(row) == 2 and row[0] in hashed and _FILE.fullmatch(row[1]):
                    mapped[row[0]] = row[1]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DumpError(f"{path} cannot be read ({error}); copy it again, or remove it") from error
    return mapped


# ---- read -------------------------------------------------------------------------------------------------


def read(source: Source, content_of: ContentOf, emit: Emit) -> Summary:
    """Read the files of a folder in the order of their timestamps. Raises DumpError if the folder cannot be read."""
    try:
        names = sorted(entry.name for entry in source.folder.iterdir() if entry.is_file())
    except OSError as error:
        raise DumpError(f"{source.folder} cannot be read: {error.strerror}") from error
    files = dump_files(source.folder, names)
    framework = _framework(files)
    reader = _Reader(source.folder, framework)
    tables = Tables(source, source.folder, content_of, emit)
    lines = Lines(source.files, tables)
    calls: Counter[str] = Counter()
    for file in files:
        call = calls[file.stem]
        calls[file.stem] += 1
        body, extra = reader.body(file)
        op = OpName("kernel", file.type, file.name, None, None, call, file.stem)
        tables.add(f"{file.stem}.{call}", op, body, extra=extra, stack=lines.stack(file.name))
    summary = tables.summary
    summary.framework, summary.task, summary.level = framework, "tensor", "L2"
    summary.notes.append(f"kernel dumps do not name their framework; taken as {framework}, by the names of the kernels")
    summary.notes += [*reader.notes(), *lines.notes()]
    return tables.close()


def _framework(files: Iterable[DumpFile]) -> str:
    """Return the framework. MindSpore's graphs name their kernels by a scope, PyTorch does not."""
    return "mindspore" if any(file.name.startswith(_MINDSPORE_SCOPES) for file in files) else "pytorch"


def _torch_dtype(name: str) -> str:
    """The element type as dump.json of PyTorch spells it."""
    return f"torch.{name}" if name in DTYPES.values() else name


class _Reader:
    """Makes the bodies of ops from the files of one folder, and counts the files that it leaves out."""

    def __init__(self, folder: Path, framework: str) -> None:
        self._folder = folder
        self._tensor_type = _TENSOR_TYPES[framework]
        self._dtype_of = dtype_of if framework == "mindspore" else _torch_dtype
        self._files = 0
        self._left_out: Counter[str] = Counter()
        self._unread_types: set[str] = set()
        self._device_formats: Counter[str] = Counter()
        self._unreadable = 0
        self._first_problem = ""

    def body(self, file: DumpFile) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the body of the op of `file` in the layout of dump.json, and its other fields."""
        self._files += 1
        extra: dict[str, Any] = {"stream": file.stream, "task": file.task, "timestamp": file.timestamp}
        if file.context is not None:
            extra |= {"context": file.context, "thread": file.thread}
        if file.is_overflow:
            self._left_out["overflow records (Opdebug.Node_OpDebug)"] += 1
            return {}, extra
        path = self._folder / file.file
        try:
            head, data, size = read_head(path)
        except DumpError as error:
            return {}, extra | self._problem(path, str(error))
        inputs, outputs, problem = parts(head, data, size)
        if problem:
            extra |= self._problem(path, f"{path}: {problem}")
        extra |= self._described(head)
        body = {
            "input_args": [self._leaf(part, path) for part in inputs],
            "output": [self._leaf(part, path) for part in outputs],
        }
        return body, extra

    def _problem(self, path: Path, what: str) -> dict[str, Any]:
        self._unreadable += 1
        self._first_problem = self._first_problem or what.removeprefix(f"{path}: ")
        return {"problem": what}

    def _described(self, head: DumpHead) -> dict[str, Any]:
        self._left_out["buffers"] += len(head.buffers)
        self._left_out["workspaces"] += len(head.workspaces)
        fields = {
            "dump_time": head.dump_time,
            "op_name": head.op_name,
            "version": head.version,
            "buffers": head.buffers,
            "workspaces": head.workspaces,
        }
        return {key: value for key, value in fields.items() if value}

    def _leaf(self, part: Part, path: Path) -> dict[str, Any]:
        from lakeprobe.tensors import TensorReference
        from lakeprobe.tensors.reference import placed
        from lakeprobe.tensors.statistics import measure

        tensor = part.tensor
        layout = format_name(tensor.format)
        leaf: dict[str, Any] = {
            "type": self._tensor_type,
            "dtype": self._dtype_of(dtype_name(tensor.data_type)),
            "shape": tensor.shape,
            "format": layout,
        }
        if tensor.original_shape and tensor.original_shape != tensor.shape:
            leaf["original_shape"] = tensor.original_shape
        if layout not in _HOST_FORMATS:
            self._device_formats[layout] += 1
        length = None if part.offset is None else self._length(tensor)
        if length is None or part.offset is None:
            return leaf
        dtype = DTYPES[tensor.data_type]
        reference = TensorReference(str(path), part.offset, length, dtype, tuple(tensor.shape), None)
        with suppress(OSError):  # a member of an archive was there a moment ago
            reference = placed(reference, path)
        with suppress(TensorError):  # the same is recorded with the content
            leaf |= measure(reference)
        return leaf | {"data_name": path.name, "content": reference}

    def _length(self, tensor: DumpedTensor) -> int | None:
        """Return the bytes of the tensor's elements. None if type, shape and size do not determine them."""
        from lakeprobe.tensors.reference import numpy_dtype

        if tensor.size == 0 and 0 not in tensor.shape:
            self._left_out["tensors that have no bytes in their file"] += 1
            return None
        if tensor.data_type not in DTYPES:
            self._left_out["tensors whose element type is not read"] += 1
            self._unread_types.add(dtype_name(tensor.data_type))
            return None
        needed = prod(tensor.shape) * numpy_dtype(DTYPES[tensor.data_type]).itemsize
        fits = needed <= tensor.size if tensor.shape else needed == tensor.size  # kernels pad, but not a 0-d tensor
        if min(tensor.shape, default=0) < 0 or not fits:
            self._left_out["tensors whose shape does not fit their size"] += 1
            return None
        return needed

    def notes(self) -> Iterator[str]:
        """Return notes on what was left out, for the summary."""
        if self._unreadable:
            counted = f"{self._unreadable} of {self._files} files"
            yield f"{counted} could not be read and are ops without contents, see their extra: {self._first_problem}"
        for what, count in self._left_out.items():
            if count:
                types = f" ({', '.join(sorted(self._unread_types))})" if "element type" in what else ""
                yield f"not read: {count} {what}{types}"
        if self._device_formats:
            formats = ", ".join(f"{count} {name}" for name, count in sorted(self._device_formats.items()))
            yield f"in the layout of the device, padding included: {formats}"


def read_head(path: Path) -> tuple[DumpHead, int, int]:
    """The head of a file, where the tensors begin in it, and its size. Raises DumpError."""
    try:
        with open_regular(path) as file:
            size = file.seek(0, 2)
            file.seek(0)
            length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
            if size < _LENGTH_BYTES or length > size - _LENGTH_BYTES:
                raise DumpError(f"{path}: cut off, or no kernel dump of the layout 2.0")
            if length > LARGEST_HEAD:
                raise DumpError(f"{path}: a head of {length} bytes is more than the {LARGEST_HEAD} that are read")
            head = file.read(length)
    except (OSError, ValueError) as error:
        raise DumpError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    try:
        return decode(head), _LENGTH_BYTES + length, size
    except DumpError as error:
        raise DumpError(f"{path}: {error}") from None


def parts(head: DumpHead, data: int, size: int) -> tuple[list[Part], list[Part], str | None]:
    """Inputs and outputs with the offsets of their bytes in a file of `size` bytes whose tensors begin at `data`.

    Where the sizes do not add up to the file's, the offsets are not known (the writer passes over tensors without an
    address, and a file may be cut off) and the third value says so.
    """
    tensors = [*head.inputs, *head.outputs]
    announced = sum(tensor.size for tensor in tensors) + sum(head.buffers) + sum(head.workspaces)
    problem = None
    if data + announced != size:
        problem = f"{size - data} bytes follow the head, which speaks of {announced}; dump or copy the file again"
    placed: list[Part] = []
    for tensor in tensors:
        placed.append(Part(tensor, None if problem else data))
        data += tensor.size
    return placed[: len(head.inputs)], placed[len(head.inputs) :], problem
