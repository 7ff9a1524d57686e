"""Reads ptdbg_ascend's dumps, 1.x to 6.0: a .pkl that is JSON lines (no pickle), and a folder of .npy files beside it.

A line is a tensor or scalar, [name, dump_step, md5, dtype, shape, [max, min, mean(, norm)]] (without the last in an
overflow check), or a call stack, [name, [[path, line, function, code], …]]. The lines of a call stand together; but
those of calls inside it come first, and between the inputs and outputs of an in-place op. So the calls of the last
4 MiB of lines are kept open; then the one that began first is written. Calls stand in the order of their first lines.

A name may come again: after a second backward pass, and in later iterations where the tool did not number anew. The
n-th line of a name belongs to the n-th call of its op, which is an op of its own, OP#n; and so is what comes after its
call was written. No line is lost. The tool overwrites the .npy file of such a name, so of several calls in the window
only the last has one.

An overflow check also leaves the arguments of the calls that overflowed, forward_info_P.json and backward_info_P.json
with their stacks. Source of the formats: what ptdbg_ascend 2 to 6 write, and the guide of 2.2.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from lakeprobe.errors import DumpError, TensorError
from lakeprobe.readers import names, ptdbg_names
from lakeprobe.readers.members import read_members
from lakeprobe.readers.ptdbg_names import STACK, LineName
from lakeprobe.readers.source import ContentOf, Emit, Listing, Place, Source, Summary, place_of
from lakeprobe.readers.tables import Tables
from lakeprobe.system.files import open_regular

NAME = "ptdbg dump"

_SUFFIX = ".pkl"
_TAG = re.compile(r".+_v\d+\.\w[\w.]*")
"""The folder {tag}_v{version}, which holds the ranks of a run."""

_FROM_PROCESS = 100_000
"""A rank that the tool did not know is called by its process id and this on top."""

_MODES = (
    (re.compile(r"(api_stack|api_list|list|range|stack|acl)_.*"), r"\1"),
    (re.compile(r"Overflow_info_\d+_(\d+)"), r"overflow \1"),
    (re.compile(r"Overflow_info_.*|.*_(forward|backward)_\d+"), "overflow"),
)
"""How the tool names the .pkl of each mode but `all`, and what its part is called."""

_INFO = re.compile(r"(forward|backward)_info(?:_(\d{1,18}))?\.json")
_INFO_PART = "overflow info"

_INFO_SECTIONS = {"args": "input_args", "kwargs": "input_kwargs"}

_LONGEST_LINE = 1 << 24
_WINDOW = 1 << 22
"""Bytes of lines whose calls are kept open."""

_STATISTICS = ("Max", "Min", "Mean", "Norm")
_decode = msgspec.json.Decoder().decode


def find(listing: Listing) -> list[Source]:
    """The dumps in a folder: each .pkl that is JSON lines, and each process's forward_info and backward_info."""
    pickles = [name for name in listing.files if name.endswith(_SUFFIX) and _is_ours(listing.folder / name)]
    infos = [name for name in listing.files if _INFO.fullmatch(name)]
    if not pickles and not infos:
        return []
    place = _place(listing.folder)
    parts = _parts([name.removesuffix(_SUFFIX) for name in pickles])
    sources = [
        Source(
            NAME, place.root, listing.folder, place.step, place.rank, (listing.folder / f"{stem}{_SUFFIX}",),
            _tensor_folder(stem, listing), part, place.process,
        )
        for stem, part in parts.items()
    ]  # fmt: skip
    return sources + [_info_source(listing, number, place) for number in sorted({_number(name) for name in infos})]


def read(source: Source, content_of: ContentOf, emit: Emit) -> Summary:
    """Read the .pkl, or forward_info, backward_info and stack_info, of `source`. Raises DumpError."""
    path = source.files[0]
    tables = Tables(source, path, content_of, emit)
    tables.summary.framework, tables.summary.level = "pytorch", "L1"
    tables.summary.head = _head(source)
    if path.suffix == _SUFFIX:
        tables.summary.task = "tensor" if source.tensors else "statistics"
        read_lines(_lines(path), path, tables, source.tensors is not None)
    else:
        tables.summary.task = "statistics"
        _read_infos(source.files, tables)
    return tables.close()


def _head(source: Source) -> str:
    folder = source.folder.relative_to(source.root)  # it has the tag and the tool's version
    return json.dumps({"folder": folder.as_posix(), "files": [file.name for file in source.files]})


# ---- recognising ------------------------------------------------------------------------------------------


def _is_ours(path: Path) -> bool:
    """Return whether the .pkl begins with a line of the tool. An empty file is recognised by its name."""
    if not path.is_file():
        return False
    try:
        with open_regular(path) as file:
            start = file.read(256)
    except OSError:
        return False
    return start.lstrip().startswith(b'["') or (not start.strip() and path.name.endswith("dump.pkl"))


def _place(folder: Path) -> Place:
    place = place_of(folder)
    root = place.root.parent if _TAG.fullmatch(place.root.name) else place.root
    if place.rank >= _FROM_PROCESS:
        return Place(root, place.step, 0, process=place.rank - _FROM_PROCESS)
    return Place(root, place.step, place.rank, process=place.process)


def _parts(stems: list[str]) -> dict[str, str]:
    """Return the part of each .pkl of a folder: its mode, or its name if several have that mode. "" for one."""
    if len(stems) == 1:
        return {stems[0]: ""}
    modes = {stem: _mode(stem) for stem in stems}
    often = Counter(modes.values())
    return {stem: mode if often[mode] == 1 else stem for stem, mode in modes.items()}


def _mode(stem: str) -> str:
    return next((match.expand(mode) for pattern, mode in _MODES if (match := pattern.fullmatch(stem))), "")


def _tensor_folder(stem: str, listing: Listing) -> Path | None:
    """The folder of the .npy files: called as the .pkl, in 1.0 with the time behind it."""
    if stem in listing.folders:
        return listing.folder / stem
    dated = [name for name in listing.folders if re.fullmatch(re.escape(stem) + r"_\d+", name)]
    return listing.folder / dated[-1] if dated else None


def _number(info: str) -> str:
    match = _INFO.fullmatch(info)
    return (match[2] if match else None) or ""


def _info_source(listing: Listing, number: str, place: Place) -> Source:
    behind = f"_{number}.json" if number else ".json"
    wanted = [f"{kind}_info{behind}" for kind in ("forward", "backward", "stack")]
    files = tuple(listing.folder / name for name in wanted if name in listing.files)
    process = int(number) if number else None
    return Source(NAME, place.root, listing.folder, place.step, 0, files, None, _INFO_PART, process)


# ---- the .pkl ---------------------------------------------------------------------------------------------


class _Call(Struct):
    """A call whose lines are still coming: its leaves by what and index, and its stack."""

    op: str
    number: int
    leaves: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    frames: list[str] | None = None
    size: int = 0


class _Calls:
    """The calls that are open, and how often each op was called."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._queue: dict[tuple[str, int], _Call] = {}
        self._open: dict[str, list[_Call]] = {}
        self._called: Counter[str] = Counter()
        self._size = 0
        self.again = 0
        self.stacks_left_out = 0

    def add(self, name: LineName, leaf: dict[str, Any], size: int) -> None:
        """Add a line's leaf to the first call of its op that lacks this leaf. Begins a new call if none does."""
        key = name.what, name.indexes
        calls = self._open.setdefault(name.op, [])
        place = bisect_left(calls, True, key=lambda call: key not in call.leaves)
        call = calls[place] if place < len(calls) else self._begin(name.op, calls)
        if place and (earlier := calls[place - 1].leaves[key]).get("data_name") == leaf.get("data_name"):
            earlier.pop("data_name", None)
        call.leaves[key] = leaf
        self.again += call.number > 1
        self._hold(call, size)

    def add_stack(self, op: str, frames: list[str], size: int) -> None:
        """Add a stack to the first call of its op that has none."""
        calls = self._open.setdefault(op, [])
        place = bisect_left(calls, True, key=lambda call: call.frames is None)
        if place == len(calls) > 0:
            self.stacks_left_out += 1
            return
        call = calls[place] if calls else self._begin(op, calls)
        call.frames = frames
        self._hold(call, size)

    def _begin(self, op: str, calls: list[_Call]) -> _Call:
        self._called[op] += 1
        call = self._queue[op, self._called[op]] = _Call(op, self._called[op])
        calls.append(call)
        return call

    def _hold(self, call: _Call, size: int) -> None:
        call.size += size
        self._size += size

    def write(self, beyond: int) -> None:
        """Write the calls that began first, until the open ones have at most `beyond` bytes."""
        while self._queue and self._size > beyond:
            call = self._queue.pop(next(iter(self._queue)))
            self._open[call.op].pop(0)
            if not self._open[call.op]:
                del self._open[call.op]
            self._size -= call.size
            self._write(call)

    def _write(self, call: _Call) -> None:
        op = call.op if call.number == 1 else f"{call.op}#{call.number}"
        inputs = "input" if names.parse(call.op).direction == "backward" else "input_args"
        body: dict[str, dict[int | str, Any]] = {}
        for (what, indexes), leaf in call.leaves.items():
            section = body.setdefault(inputs if what == "input" else what, {})
            section[int(indexes) if indexes.isdecimal() else indexes] = leaf
        stack = None if call.frames is None else self._tables.stack(call.frames)
        self._tables.add(op, names.parse(op), body, stack=stack)


def read_lines(lines: Iterator[bytes], path: Path, tables: Tables, has_files: bool) -> None:
    """Write the ops that the lines of the .pkl `path` tell of to `tables`. Raises DumpError."""
    calls = _Calls(tables)
    number = 0
    for number, raw in enumerate(lines, 1):
        if not raw.strip():
            continue
        where = f"{path}, line {number}"
        fields = _fields(raw, where)
        name = ptdbg_names.split(fields[0])
        if (name.what == STACK) != (len(fields) == 2):
            raise DumpError(f"{where}: {fields[0]:.80} has {len(fields)} fields; the file is damaged")
        if name.what == STACK:
            calls.add_stack(name.op, _frames(fields, where), len(raw))
        else:
            leaf = _leaf(fields, where)
            if has_files and "dtype" in leaf:
                leaf["data_name"] = f"{fields[0]}.npy"
            calls.add(name, leaf, len(raw))
        calls.write(_WINDOW)
    if number == 0:
        raise DumpError(f"{path} is empty; dump again, or leave this file out")
    calls.write(0)
    _note(calls, tables.summary)


def _note(calls: _Calls, summary: Summary) -> None:
    if calls.again:
        summary.notes.append(
            f"{calls.again} lines have the name of an earlier line; they are ops of their own (OP#2, …), "
            "and a file holds what was written last"
        )
    if calls.stacks_left_out:
        summary.notes.append(f"{calls.stacks_left_out} further stacks of calls that have one were left out")


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with open_regular(path) as file:
            while line := file.readline(_LONGEST_LINE):
                if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
                    raise DumpError(f"{path} has a line of more than {_LONGEST_LINE} bytes; it is not ptdbg_ascend's")
                yield line
    except OSError as error:
        raise DumpError(f"{path} cannot be read: {error.strerror}") from error


def _fields(raw: bytes, where: str) -> list[Any]:
    """The fields of a line: 6 of a tensor, 5 of one without statistics, 2 of a stack. The first is its name."""
    try:
        fields = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        fields = _decode_plainly(raw, where)
    if fields.__class__ is not list or len(fields) not in (2, 5, 6) or not _is_name(fields[0]):
        raise DumpError(f"{where} is not a line of ptdbg_ascend: a name and 1, 4 or 5 fields behind it")
    return list(fields)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value != "" and value.isprintable()


def _decode_plainly(raw: bytes, where: str) -> Any:
    """Decode what msgspec refuses: NaN and Infinity."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        advice = "leave that line out to read the rest" if not raw.endswith(b"\n") else "the file is damaged"
        raise DumpError(f"{where} is not complete JSON; {advice}") from None


def _leaf(fields: list[Any], where: str) -> dict[str, Any]:
    """Return the leaf of dump.json for a line."""
    name, step, digest, dtype, shape, *rest = fields
    statistics = rest[0] if rest else []
    if dtype.__class__ is not str or statistics.__class__ is not list or len(statistics) > len(_STATISTICS):
        raise DumpError(f"{where}: {name:.80} has no dtype, or no list of up to 4 statistics; the file is damaged")
    if dtype.startswith("<class '") and dtype.endswith("'>"):
        value = {"value": statistics[0]} if statistics and statistics[0] != [] else {}
        return {"type": dtype[8:-2], **value}
    leaf: dict[str, Any] = {"type": "torch.Tensor", "dtype": dtype, "shape": shape}
    for key, value in zip(_STATISTICS, statistics, strict=False):
        if value.__class__ in (float, int):
            leaf[key] = value
        elif value not in ([], "Nan"):  # which stand for a statistic that the tensor has not
            raise DumpError(f"{where}: {name:.80} has a statistic that is not a number; the file is damaged")
    if digest.__class__ is str and digest:
        leaf["md5"] = digest
    if step.__class__ is int and 1 < step <= 100:  # 1.x could save each n-th element only
        leaf["dump_step"] = step
    return leaf


def _frames(fields: list[Any], where: str) -> list[str]:
    """The stack of a line as stack.json has it, innermost frame first."""
    name, frames = fields
    if frames.__class__ is not list or not all(frame.__class__ in (list, str) for frame in frames):
        raise DumpError(f"{where}: {name:.80} is not a list of frames; the file is damaged")
    return [_frame(frame) for frame in frames if frame]


def _frame(frame: list[Any] | str) -> str:
    if isinstance(frame, str):
        return frame
    path, line, function, code = ["" if part is None else str(part) for part in [*frame, "", "", "", ""][:4]]
    return f"File {path}, line {line}, in {function}, \n {code}"


# ---- forward_info, backward_info --------------------------------------------------------------------------


def _read_infos(files: tuple[Path, ...], tables: Tables) -> None:
    stacks = {}
    for path in files:
        if path.name.startswith("stack"):
            stacks = {api: _info_stack(frames, f"{path}: {api!r:.80}") for _, api, frames in read_members(path)}
    for path in files:
        if not path.name.startswith("stack"):
            _read_info(path, path.name.partition("_")[0], stacks, tables)


def _read_info(path: Path, direction: str, stacks: dict[str, list[str]], tables: Tables) -> None:
    saved = _Saved(path.parent / f"{direction}_real_data")
    for _, api, arguments in read_members(path):
        if direction == "backward":
            body = {"input": arguments}
        elif isinstance(arguments, dict):
            body = {_INFO_SECTIONS[key]: value for key, value in arguments.items() if key in _INFO_SECTIONS}
        else:
            raise DumpError(f"{path}: the arguments of {api!r:.80} are not an object; the file is damaged")
        try:
            body = saved.filled_in(body)
        except RecursionError:
            raise DumpError(f"{path}: the arguments of {api!r:.80} are nested too deep to be read") from None
        op = ptdbg_names.today(api, direction)
        frames = stacks.get(api) if direction == "forward" else None
        tables.add(op, names.parse(op), body, stack=None if frames is None else tables.stack(frames))
    if saved.found:
        tables.summary.task = "tensor"
    if saved.missing:
        tables.summary.notes.append(
            f"{saved.missing} tensors of {path.name} are not in {saved.folder}, or not readable"
        )


def _info_stack(frames: Any, where: str) -> list[str]:
    if not isinstance(frames, list) or not all(isinstance(frame, str) for frame in frames):
        raise DumpError(f"{where} is not a list of lines; the file is damaged")
    return frames


class _Saved:
    """The tensors that an overflow check saved: their leaves have the path of a file on the machine of the run only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found = 0
        self.missing = 0

    def filled_in(self, value: Any) -> Any:
        """`value` with dtype, shape, statistics and place of each tensor whose file is in the folder."""
        if isinstance(value, list):
            return [self.filled_in(item) for item in value]
        if not isinstance(value, dict):
            return value
        if isinstance(value.get("datapath"), str):
            return value | self._described(value["datapath"].rpartition("/")[2])
        return {key: self.filled_in(item) for key, item in value.items()}

    def _described(self, name: str) -> dict[str, Any]:
        from lakeprobe.tensors import read_tensor
        from lakeprobe.tensors.statistics import measure

        try:
            reference = read_tensor(self.folder / name)
            statistics = measure(reference)
        except TensorError:
            self.missing += 1
            return {}
        self.found += 1
        shape = list(reference.shape)
        return {
            "dtype": f"torch.{reference.dtype}",
            "shape": shape,
            **statistics,
            "data_name": name,
            "content": reference,
        }
