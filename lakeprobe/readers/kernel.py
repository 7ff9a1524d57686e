"""Reads the dumps of MindSpore's static graphs: a file per tensor that a kernel takes or gives, or statistic.csv.

An op is one execution of a kernel. The n-th file of a slot by time, or row of statistic.csv, belongs to execution n
(the "Local Index" of msprobe's mindspore/compare/ms_graph_compare.py). Ops stand in the order of their first time.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lakeprobe.errors import DumpError, TensorError
from lakeprobe.readers.kernel_names import KernelName, dtype_of, parse, place_of
from lakeprobe.readers.mindspore_ir import Lines, graphs_of
from lakeprobe.readers.names import OpName
from lakeprobe.readers.source import ContentOf, Emit, Listing, Source, Summary
from lakeprobe.readers.tables import Tables
from lakeprobe.system.files import open_regular

if TYPE_CHECKING:
    from lakeprobe.tensors import TensorReference

NAME = "MindSpore kernel dump"
STATISTIC_FILE, MAPPING_FILE = "statistic.csv", "mapping.csv"

_SIDE_FOLDERS = frozenset(("constants", "execution_order", "graphs", ".dump_metadata"))
"""Folders next to those of the iterations. Files of constants are named like those of kernels."""

_SECTIONS = {"input": "input_args", "output": "output"}
_TYPE = "mindspore.Tensor"
_PARAMETER = "Parameter"
"""The type of what a dump has of a graph's inputs, which no line of code computes."""
_HOST_FORMATS = frozenset(("DefaultFormat", "ND", "NCHW", "NHWC", "HWCN", "NCDHW", "NDHWC", "NC", "CN", "NCL"))
"""Formats that store elements in the order of the shape. The device's other formats are tiled and padded."""

_IDENTITY = ("Op Type", "Op Name", "Task ID", "Stream ID", "Timestamp", "IO", "Slot")
"""The first columns of statistic.csv, which every writer has in this order. Some call IO Input/Output."""
_STATISTICS = {"Max Value": "Max", "Min Value": "Min", "Avg Value": "Mean", "L2Norm Value": "Norm"}
_DIGESTS = ("MD5", "MD5 Value")
_WORDS = {"null": None, "True": True, "False": False}
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_IDENTIFIER = re.compile(r"[0-9]{1,19}")
_SLOT = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})*")
_SHAPE = re.compile(r"[(\[]((-?[0-9]{1,18},)*(-?[0-9]{1,18})?)[)\]]")

_HEAD_BYTES = 1 << 14
"""The maximum number of bytes of a table that are read to recognise it."""
_LONGEST_LINE = 1 << 16
_MOST_ROWS = 2_000_000
"""The maximum number of rows of a table. They are kept until they are sorted, with about a kilobyte each."""


class Record(NamedTuple):
    """One tensor of a kernel: a file, or a row of statistic.csv."""

    kernel: KernelName
    file: str
    """The file's name; empty for a row."""
    leaf: dict[str, Any]
    """Dtype, shape and statistics of a row; empty for a file."""
    counts: dict[str, Any]
    """The other fields of a row: how many elements are NaN, 0, and the like."""


class Execution(NamedTuple):
    """An execution of a kernel."""

    op_type: str
    op_name: str
    task: int
    call: int


def find(listing: Listing) -> list[Source]:
    """The kernel dump in a folder that has tensor files of kernels, or a statistic.csv of them."""
    folder = listing.folder
    if folder.name in _SIDE_FOLDERS:
        return []
    has_mapping = MAPPING_FILE in listing.files
    has_tensors = any(map(parse, listing.files)) or (has_mapping and _begins(folder / MAPPING_FILE, _maps_a_kernel))
    has_rows = STATISTIC_FILE in listing.files and _begins(folder / STATISTIC_FILE, _is_header)
    if not has_tensors and not has_rows:
        return []
    place, note = place_of(folder, listing.top)
    notes = [note] if note else []
    if (folder.parent / "constants").is_dir():
        notes.append(f"{folder.parent / 'constants'} was left out: a graph's constants belong to no iteration")
    files = [folder / STATISTIC_FILE] * has_rows + [folder / MAPPING_FILE] * has_mapping
    tensors = folder if has_tensors else None
    files += graphs_of(folder, place.root)
    return [
        Source(NAME, place.root, folder, place.step, place.rank, tuple(files), tensors, place.part, notes=tuple(notes))
    ]


def read(source: Source, content_of: ContentOf, emit: Emit) -> Summary:
    """Read the tensors of a folder or, where there are none, statistic.csv. Raises DumpError."""
    path = source.folder / STATISTIC_FILE
    rows = read_statistics(path) if path in source.files else []
    tables = Tables(source, source.folder if source.tensors else path, content_of, emit)
    summary = tables.summary
    summary.framework, summary.level = "mindspore", "L2"
    lines = Lines(source.files, tables)
    if source.tensors is None:
        summary.task = "statistics"
        _add(tables, executions(rows), lambda _, row: row.leaf, lines)
    else:
        summary.task = "tensor"
        reader = _TensorReader(source.tensors, executions(rows))
        _add(tables, executions(_tensor_files(source, summary.notes)), reader.leaf, lines)
        summary.notes += reader.notes()
    summary.notes += lines.notes()
    return tables.close()


def _add(
    tables: Tables,
    found: Mapping[Execution, Sequence[Record]],
    leaf_of: Callable[[Execution, Record], dict[str, Any]],
    lines: Lines,
) -> None:
    """Write the executions as ops. `leaf_of` returns the leaf of a tensor."""
    for execution, records in found.items():
        kind, name, task, call = execution
        body: dict[str, dict[str, Any]] = {section: {} for section in _SECTIONS.values()}
        for record in sorted(records, key=lambda record: [int(index) for index in record.kernel.slot.split(".")]):
            body[_SECTIONS[record.kernel.role]][record.kernel.slot] = leaf_of(execution, record)
        body = {section: leaves for section, leaves in body.items() if leaves}
        stem = f"{kind}.{name}.{task}"
        parts = OpName("kernel", kind, name, None, None, call, stem)
        stack = None if kind == _PARAMETER else lines.stack(name)
        tables.add(f"{stem}.{call}", parts, body, stack=stack, extra=_extra(records))


def _extra(records: Sequence[Record]) -> dict[str, Any]:
    """The fields of an execution that have no column. They are kept with the op, because they differ by run."""
    first = records[0].kernel
    extra: dict[str, Any] = {"task": first.task, "stream": first.stream, "timestamp": first.timestamp}
    if first.context:
        extra["context"] = first.context
    formats = {f"{record.kernel.role}.{record.kernel.slot}": record.kernel.format for record in records}
    if any(formats.values()):
        extra["format"] = first.format if len(set(formats.values())) == 1 else formats
    counts = {f"{record.kernel.role}.{record.kernel.slot}": record.counts for record in records if record.counts}
    return extra | ({"counts": counts} if counts else {})


def executions(records: Iterable[Record]) -> dict[Execution, list[Record]]:
    """The executions of kernels in the order of their first time, each with its tensors."""
    seen: Counter[tuple[str, str, int, str, str]] = Counter()
    found: dict[Execution, list[Record]] = {}
    for record in sorted(records, key=lambda record: (record.kernel.timestamp, record.kernel.context)):
        kernel = record.kernel
        tensor = (kernel.op_type, kernel.op_name, kernel.task, kernel.role, kernel.slot)
        execution = Execution(kernel.op_type, kernel.op_name, kernel.task, seen[tensor])
        found.setdefault(execution, []).append(record)
        seen[tensor] += 1
    return found


# ---- tensor files ---------------------------------------------------------------------------------------------


def _tensor_files(source: Source, notes: list[str]) -> list[Record]:
    """Return the folder's tensor files under their long names. Adds to `notes` what is left out."""
    path = source.folder / MAPPING_FILE
    long_names = dict(_long_names(path)) if path in source.files else {}
    names = sorted(file.name for file in source.folder.iterdir())
    kernels = {name: parse(long_names.get(name, name)) for name in names}
    tables = {table.name for table in source.files}
    others = [name for name in names if not kernels[name] and name not in tables and (source.folder / name).is_file()]
    if others:
        notes.append(f"{len(others)} other files were not read as kernels' tensors, for example {others[0]}")
    missing = [short for short, long in long_names.items() if parse(long) and short not in kernels]
    if missing:
        notes.append(f"{len(missing)} files that {MAPPING_FILE} names are missing, for example {missing[0]}")
    return [Record(kernel, name, {}, {}) for name, kernel in kernels.items() if kernel]


def _long_names(path: Path) -> Iterator[tuple[str, str]]:
    """The file names of mapping.csv with the names that were too long for a file. A header does no harm.

    Some writers quote the names and some do not, but neither name has a comma.
    """
    for number, row in _rows(path):
        if len(row) < 2:
            raise _damaged(path, number, "does not have two columns")
        yield row[0], row[1]


class _TensorReader:
    """Makes leaves of tensor files, with the shapes of bare bytes from statistic.csv."""

    def __init__(self, folder: Path, described: Mapping[Execution, Sequence[Record]]) -> None:
        """Read files of `folder`. `described` are the rows of its statistic.csv, if it has one."""
        self._folder = folder
        self._shapes = {
            (execution, row.kernel.role, row.kernel.slot): row.leaf["shape"]
            for execution, rows in described.items()
            for row in rows
        }
        self._bare = 0

    def leaf(self, execution: Execution, record: Record) -> dict[str, Any]:
        """Return the leaf of the tensor in a file. The error of an unreadable file is reported with its content."""
        from lakeprobe.tensors import read_tensor
        from lakeprobe.tensors.statistics import measure

        kernel = record.kernel
        path = self._folder / record.file
        leaf: dict[str, Any] = {"type": _TYPE, "dtype": kernel.dtype or None, "shape": None}
        try:
            if kernel.suffix == ".npy":
                reference = read_tensor(path)
            else:
                reference = _bare_bytes(path, kernel, self._shapes.get((execution, kernel.role, kernel.slot)))
                leaf["content"] = reference
            leaf |= {"dtype": kernel.dtype or dtype_of(reference.dtype), "shape": list(reference.shape)}
            leaf |= measure(reference)
        except TensorError:
            leaf.pop("content", None)
            self._bare += kernel.suffix != ".npy"
        return leaf | {"data_name": record.file}

    def notes(self) -> list[str]:
        """Return notes on the files that were not read, and on the rows of statistic.csv that were not used."""
        notes = []
        if self._shapes:
            notes.append(f"{STATISTIC_FILE} lies beside the tensors; the statistics are computed from the tensors")
        if self._bare:
            notes.append(
                f"{self._bare} files hold bare bytes of a shape that is not known, or in a format of the device; "
                "they are listed but not read"
            )
        return notes


def _bare_bytes(path: Path, kernel: KernelName, shape: Sequence[int] | None) -> TensorReference:
    """A tensor in a file without a header. Raises TensorError if shape, dtype and format do not say how to read it."""
    from math import prod

    from lakeprobe.tensors import TensorReference
    from lakeprobe.tensors.reference import numpy_dtype, placed

    if shape is None or kernel.format not in _HOST_FORMATS:
        raise TensorError(f"{path}: neither its name nor {STATISTIC_FILE} says how its bytes lie")
    dtype = kernel.dtype.lower()
    length = prod(shape) * numpy_dtype(dtype).itemsize
    try:
        size = path.stat().st_size
        reference = placed(TensorReference(str(path), 0, length, dtype, tuple(shape), None), path)
    except OSError as error:
        raise TensorError(f"{path} cannot be read: {error.strerror}") from error
    if size != length:
        raise TensorError(f"{path} has {size} bytes where {dtype} of shape {list(shape)} has {length}")
    return reference


# ---- statistic.csv --------------------------------------------------------------------------------------------


def read_statistics(path: Path) -> list[Record]:
    """The rows of statistic.csv. Columns are known by their headers, one of the first seven otherwise by its place.

    Raises DumpError for a row that is cut off or has what cannot be.
    """
    rows = _rows(path)
    _, header = next(rows, (1, []))
    if not _is_header(header):
        raise _damaged(path, 1, f"does not name the columns of {STATISTIC_FILE}")
    places = {name: place for names in (_IDENTITY, header) for place, name in enumerate(names)}
    columns = max(places.values()) + 1
    records: list[Record] = []
    for number, row in rows:
        if row == header:  # a second process went on with the file
            continue
        row = _with_whole_shape(row, places.get("Shape", len(row)))
        if len(row) < columns:
            raise _damaged(path, number, f"has {len(row)} of {columns} columns")
        cells = {name: row[place] for name, place in places.items()}
        try:
            records.append(_record(cells))
        except ValueError as error:
            raise _damaged(path, number, str(error)) from None
    return records


def _with_whole_shape(row: list[str], place: int) -> list[str]:
    """A row whose shape, where its commas were not quoted, is one cell again: (2 and 3) are (2,3)."""
    if place < len(row) and row[place].startswith("(") and not row[place].endswith(")"):
        end = next((end for end in range(place, len(row)) if row[end].endswith(")")), None)
        if end is not None:
            return [*row[:place], ",".join(row[place : end + 1]), *row[end + 1 :]]
    return row


def _record(cells: Mapping[str, str]) -> Record:
    """The tensor of a row. Raises ValueError with what is wrong."""
    op_type, op_name, *numbers, role, slot = (sys.intern(cells[name]) for name in _IDENTITY)  # few, and long
    for name, text in zip(_IDENTITY[2:5], numbers, strict=True):
        if not _IDENTIFIER.fullmatch(text):
            raise ValueError(f"has the {name} {text!r:.40}, which is not a number")
    if role not in _SECTIONS:
        raise ValueError(f"has the IO {role!r:.40}, which is neither input nor output")
    if not _SLOT.fullmatch(slot):
        raise ValueError(f"has the Slot {slot!r:.40}, which is not a number")
    task, stream, timestamp = map(int, numbers)
    dtype, format = dtype_of(cells.get("Data Type", "")), cells.get("Format", "")
    kernel = KernelName(op_type, op_name, task, stream, timestamp, "", role, slot, format, dtype, "")
    leaf: dict[str, Any] = {"type": _TYPE, "dtype": dtype, "shape": _shape(cells.get("Shape") or "()")}
    leaf |= {key: _number(cells[name]) for name, key in _STATISTICS.items() if cells.get(name)}
    if digest := next(filter(None, map(cells.get, _DIGESTS)), None):
        leaf["md5"] = digest
    counts = {name: _number(text) for name, text in cells.items() if name.endswith("Count") and text}
    return Record(kernel, "", leaf, counts)


def _shape(text: str) -> list[int]:
    """The shape in a text such as (4,16), (1), (2,) or ()."""
    match = _SHAPE.fullmatch(text.replace(" ", ""))
    if match is None:
        raise ValueError(f"has the Shape {text!r:.40}, which is not a shape")
    return [int(size) for size in match[1].split(",") if size]


def _number(text: str) -> float | int | bool | None:
    """A statistic: an integer if it is written as one, true or false of a bool, None where it says null."""
    if text in _WORDS:
        return _WORDS[text]
    try:
        return int(text) if _INTEGER.fullmatch(text) else float(text)
    except ValueError:
        raise ValueError(f"has the statistic {text!r:.40}, which is not a number") from None


# ---- tables ---------------------------------------------------------------------------------------------------


def _begins(path: Path, says: Callable[[list[str]], bool]) -> bool:
    """Return whether `says` holds for one of the first rows of a table."""
    with open_regular(path) as file:
        lines = file.read(_HEAD_BYTES).decode("utf-8-sig", "replace").splitlines()
    try:
        return any(map(says, csv.reader(lines[:3])))
    except csv.Error:
        return False


def _maps_a_kernel(row: Sequence[str]) -> bool:
    return len(row) > 1 and parse(row[1]) is not None


def _is_header(row: Sequence[str]) -> bool:
    """Return whether a row has the names of the first columns of statistic.csv. Two of them may have other names."""
    return sum(name == known for name, known in zip(row, _IDENTITY, strict=False)) >= len(_IDENTITY) - 2


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table, blank ones left out, with the number of the line that each ends in. Raises DumpError."""
    try:
        with open_regular(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
            reader = csv.reader(_lines(text, path))
            for count, row in enumerate(reader):
                if count == _MOST_ROWS:
                    raise DumpError(f"{path} has more than {_MOST_ROWS} rows; dump fewer kernels at a time")
                if row:
                    yield reader.line_num, row
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DumpError(f"{path} cannot be read as a table: {error}; dump or copy it again") from error


def _lines(text: io.TextIOWrapper, path: Path) -> Iterator[str]:
    while line := text.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise DumpError(f"{path} has a line of more than {_LONGEST_LINE} characters; it is damaged")
        yield line


def _damaged(path: Path, line: int, what: str) -> DumpError:
    return DumpError(f"{path}: line {line} {what}; dump or copy it again, or take the line out to read the rest")
