"""Reads the values that a user saved with msprobe's SingleSave, as the points of debug.json are.

data/TAG/stepN/rankR[/micro_stepM] holds TAG.json and TAG.npy, or TAG.I.npy for each tensor of a list, TAG.KEY.npy for
each of a dict. TAG.json has under "data" the statistics of the one tensor, a list of them, or an object of them by key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lakeprobe.errors import DumpError, TensorError
from lakeprobe.readers import names
from lakeprobe.readers.kernel_names import dtype_of
from lakeprobe.readers.members import read_members
from lakeprobe.readers.source import ContentOf, Emit, Listing, Source, Summary
from lakeprobe.readers.tables import Tables

if TYPE_CHECKING:
    from lakeprobe.tensors import TensorReference

NAME = "msprobe SingleSave"

_FOLDER = "data"
_NUMBER = r"(0|[1-9]\d{0,8})"
_STEP, _RANK, _MICRO_STEP = (re.compile(word + _NUMBER) for word in ("step", "rank", "micro_step"))
_STATISTICS = {"max": "Max", "min": "Min", "mean": "Mean", "norm": "Norm"}
_OF_PYTORCH = "float32"
"""The dtype that every tensor of PyTorch is saved as."""

References = Mapping[Path, "TensorReference"]


class _Point(NamedTuple):
    """A value that was saved: its micro step (None where it has none), tag, folder and the names of its files."""

    micro_step: int | None
    tag: str
    folder: Path
    files: frozenset[str]


def find(listing: Listing) -> list[Source]:
    """Return the values in a folder called data, or in the user's folder: a source for each step and rank."""
    folder = listing.folder
    if folder.name != _FOLDER and folder != listing.top:
        return []
    files: dict[tuple[int, int], list[Path]] = {}
    for tag in listing.folders:
        for step_folder, step in _numbered(folder / tag, _STEP):
            for rank_folder, rank in _numbered(step_folder, _RANK):
                saved = list(_saved(rank_folder, tag))
                if saved:
                    files.setdefault((step, rank), []).extend(saved)
    root = folder.parent if folder.name == _FOLDER else folder
    return [Source(NAME, root, folder, *place, tuple(files[place]), folder) for place in sorted(files)]


def read(source: Source, content_of: ContentOf, emit: Emit) -> Summary:
    """Read the json files, and the header of every npy file. Raises DumpError."""
    place = Path()

    def content_in_place(tensor: str | TensorReference) -> tuple[str | None, str | None]:
        return content_of(f"{place}/{tensor}" if isinstance(tensor, str) else tensor)

    tables = Tables(source, source.folder, content_in_place, emit)
    references = _references(source.files)
    is_pytorch = all(reference.dtype == _OF_PYTORCH for reference in references.values())
    points = _points(source)
    numbered = {(point.tag, point.micro_step) for point in points}
    for point in points:
        place = point.folder.relative_to(source.folder)
        body, left_over = _body(point, references, is_pytorch)
        is_beside_first = point.micro_step is None and (point.tag, 0) in numbered
        op = f"{point.tag}.debug" if is_beside_first else f"{point.tag}.{point.micro_step or 0}.debug"
        tables.add(op, names.debug_point(op), body, micro_step=point.micro_step)
        tables.summary.notes += [f"left out, as it is not a part of {op}: {place / name}" for name in sorted(left_over)]
    _describe(tables.summary, is_pytorch)
    return tables.close()


# ---- folders and files --------------------------------------------------------------------------------------


def _numbered(folder: Path, name: re.Pattern[str]) -> list[tuple[Path, int]]:
    """The folders in `folder` whose names fit `name`, and their numbers, in order."""
    matches = ((child, name.fullmatch(child.name)) for child in folder.iterdir())
    found = [(child, int(match[1])) for child, match in matches if match and child.is_dir()]
    return sorted(found, key=lambda it: it[1])


def _saved(rank_folder: Path, tag: str) -> Iterator[Path]:
    """The files of `tag` in the folder of a rank and in its micro steps."""
    for folder in (rank_folder, *(folder for folder, _ in _numbered(rank_folder, _MICRO_STEP))):
        yield from sorted(file for file in folder.iterdir() if _is_of(tag, file.name))


def _is_of(tag: str, file: str) -> bool:
    return file == f"{tag}.json" or (file.startswith(f"{tag}.") and file.endswith(".npy"))


def _points(source: Source) -> list[_Point]:
    """The points of a source by micro step, then tag: their own order is not recorded."""
    files: dict[Path, list[str]] = {}
    for path in source.files:
        files.setdefault(path.parent, []).append(path.name)
    points = []
    for folder, saved in files.items():
        tag, *_, last = folder.relative_to(source.folder).parts
        match = _MICRO_STEP.fullmatch(last)
        points.append(_Point(int(match[1]) if match else None, tag, folder, frozenset(saved)))
    return sorted(points, key=lambda point: (point.micro_step or 0, point.tag, point.micro_step is not None))


def _references(files: Iterable[Path]) -> References:
    """Return the places of the tensors. Empty for a file that cannot be read."""
    from lakeprobe.tensors import read_tensor

    references = {}
    for path in files:
        if path.suffix == ".npy":
            try:
                references[path] = read_tensor(path)
            except TensorError:
                continue  # whoever asks for the content is told what is wrong with it
    return references


# ---- values -------------------------------------------------------------------------------------------------


def _body(point: _Point, references: References, is_pytorch: bool) -> tuple[Any, frozenset[str]]:
    """The value of a point as debug.json would have it, a leaf or a list or object of leaves, and files left over."""
    json_file = f"{point.tag}.json"
    data = _recorded(point.folder / json_file) if json_file in point.files else _by_files(point)
    named = {json_file}

    def leaf(name: str, statistics: Any) -> dict[str, Any]:
        if not isinstance(statistics, dict):
            raise DumpError(f"{point.folder / json_file} has {statistics!r:.40} for {name}; write its statistics again")
        named.add(name)
        return _leaf(name, statistics, references.get(point.folder / name), is_pytorch)

    body: Any
    if isinstance(data, list):
        body = [leaf(f"{point.tag}.{index}.npy", item) for index, item in enumerate(data)]
    elif isinstance(data.get("shape", {}), dict):
        body = {key: leaf(f"{point.tag}.{key}.npy", item) for key, item in data.items()}
    else:
        body = leaf(f"{point.tag}.npy", data)
    return body, point.files - named


def _recorded(path: Path) -> list[Any] | dict[str, Any]:
    """Return the content of the json file: statistics of a tensor, a list of these, or an object of these by key."""
    for _, name, value in read_members(path):
        if name == "data" and isinstance(value, (list, dict)):
            return value
    raise DumpError(f"{path} has no data; it is not SingleSave's, or the run was killed before it wrote it")


def _by_files(point: _Point) -> list[Any] | dict[str, Any]:
    """The same by the names of the npy files alone, without statistics."""
    one = f"{point.tag}.npy"
    if one in point.files:
        return {"shape": []}
    keys = {name.removeprefix(f"{point.tag}.").removesuffix(".npy") for name in point.files}
    if keys == {str(index) for index in range(len(keys))}:
        return [{}] * len(keys)
    return {key: {} for key in sorted(keys)}


def _leaf(file: str, recorded: dict[str, Any], reference: TensorReference | None, is_pytorch: bool) -> dict[str, Any]:
    statistics = {_STATISTICS.get(key, key): value for key, value in recorded.items() if key != "shape"}
    if reference is not None and not statistics:
        statistics = _measured(reference)
    shape = list(reference.shape) if reference else recorded.get("shape", [])
    kind = "torch.Tensor" if is_pytorch else "mindspore.Tensor"
    fixed = {"type": kind, "dtype": _dtype(reference, is_pytorch), "data_name": file}
    return statistics | fixed | {"shape": shape}


def _measured(reference: TensorReference) -> dict[str, Any]:
    from lakeprobe.tensors.statistics import measure

    try:
        return dict(measure(reference))
    except TensorError:
        return {}


def _dtype(reference: TensorReference | None, is_pytorch: bool) -> str:
    """The dtype as the framework writes it. A file of PyTorch that cannot be read had the only one there is."""
    from lakeprobe.tensors.reference import numpy_dtype

    if is_pytorch:
        return f"torch.{_OF_PYTORCH}"
    if reference is None:
        return "unknown"
    return dtype_of(numpy_dtype(reference.dtype).name)


def _describe(summary: Summary, is_pytorch: bool) -> None:
    summary.task = "tensor"
    summary.framework = "pytorch" if is_pytorch else "mindspore"
    reason = "no tensor is" if is_pytorch else "a tensor is"
    summary.notes += [
        f"the framework is not recorded; taken as {summary.framework}, as {reason} of another dtype than {_OF_PYTORCH}",
        "the order of the values is not recorded; they stand by micro step and name",
    ]
