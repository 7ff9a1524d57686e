"""Reads folders of single tensors (.npy, .pt) that no other tool wrote. Each file is a point with the file's name.

MindSpore's TensorDump and msprobe's `common` comparison name a file KEY_DTYPE_NUMBER.npy; the n-th file of a key is its
n-th call. Any other name is a key as it stands.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lakeprobe.errors import TensorError
from lakeprobe.readers import kernel_names, names
from lakeprobe.readers.dump import TENSOR_FOLDER
from lakeprobe.readers.source import ContentOf, Emit, Listing, Source, Summary, numbered, place_of
from lakeprobe.readers.tables import Tables

NAME = "npy folder"

_SUFFIXES = (".npy", ".pt")
_KEY_ALONE = "tensor"
"""The name of a tensor whose file is read alone, so that any two such files pair."""

_NUMBERED = re.compile(r"(.+)_(bool|(?:u?int|b?float|complex)\d{1,3})_(\d{1,9})", re.IGNORECASE)
_STEP, _RANK = numbered("step", "_?"), numbered("rank", "_?", least=0)


def find(listing: Listing) -> list[Source]:
    """Return the tensors in a folder. All such folders of a tree are one run, whose parts are the folders' paths."""
    files = [name for name in listing.files if name.endswith(_SUFFIXES) and not name.startswith(".")]
    if not files or _is_of_another(listing.folder, files):
        return []
    folder, root = listing.folder, place_of(listing.top).root
    step, rank, part = _place(folder.relative_to(root).parts)
    return [Source(NAME, root, folder, step, rank, tuple(folder / name for name in files), folder, part)]


def alone(path: Path) -> Source | None:
    """Return the source of a tensor file that the user names: a separate run. None for another kind of file."""
    return Source(NAME, path, path.parent, 0, 0, (path,), path.parent) if path.suffix in _SUFFIXES else None


def read(source: Source, content_of: ContentOf, emit: Emit) -> Summary:
    """Read every file's header and measure its tensor. A file without a tensor is a row that says so.

    Raises DumpError for file names that are not text.
    """
    tables = Tables(source, source.folder, content_of, emit)
    calls: Counter[str] = Counter()
    problems = []
    for path in sorted(source.files, key=_order):
        key = _KEY_ALONE if source.root == path else _key(path)
        op = f"{key}.{calls[key]}.debug"
        calls[key] += 1
        leaf, problem = _leaf(path)
        if problem is not None:
            problems.append(problem)
        tables.add(op, names.debug_point(op), leaf)
    _describe(tables.summary, source.files, problems)
    return tables.close()


def _is_of_another(folder: Path, files: Iterable[str]) -> bool:
    """Return whether the tensors belong to a dump with its own file elsewhere: of msprobe, ptdbg, or kernels."""
    return (
        folder.name == TENSOR_FOLDER
        or (folder.parent / f"{folder.name}.pkl").is_file()
        or any(map(kernel_names.parse, files))
    )


def _place(parts: Iterable[str]) -> tuple[int, int, str]:
    """Return step, rank, and the path without the folders that name these."""
    step, rank, rest = 0, 0, []
    for name in parts:
        if match := _STEP.fullmatch(name):
            step = int(match[1])
        elif match := _RANK.fullmatch(name):
            rank = int(match[1] or 0)
        else:
            rest.append(name)
    return step, rank, "/".join(rest)


def _key(path: Path) -> str:
    match = _NUMBERED.fullmatch(path.stem)
    return match[1] if match else path.stem


def _order(path: Path) -> tuple[int, list[tuple[str, int]], str]:
    """Return a sort key: by number. Files without one come first, by name; layer.2 comes before layer.10."""
    match = _NUMBERED.fullmatch(path.stem)
    by_name = [(text, int(digits or 0)) for text, digits in re.findall(r"(\D*)(\d{0,18})", path.name)]
    return int(match[3]) if match else -1, by_name, path.name


def _leaf(path: Path) -> tuple[dict[str, Any], str | None]:
    """Return the leaf of the tensor in `path`, and the error if the file cannot be read."""
    from lakeprobe.tensors import read_tensor
    from lakeprobe.tensors.reference import numpy_dtype
    from lakeprobe.tensors.statistics import measure

    kind, prefix = ("torch.Tensor", "torch.") if path.suffix == ".pt" else ("numpy.ndarray", "")
    try:
        reference = read_tensor(path)
        statistics = measure(reference)
    except TensorError as error:
        match = _NUMBERED.fullmatch(path.stem)
        recorded = prefix + match[2].lower() if match else None
        return {"type": kind, "dtype": recorded, "shape": None, "data_name": path.name}, str(error)
    dtype = prefix + numpy_dtype(reference.dtype).name
    return {"type": kind, "dtype": dtype, "shape": list(reference.shape), **statistics, "data_name": path.name}, None


def _describe(summary: Summary, files: Iterable[Path], problems: list[str]) -> None:
    is_torch = any(path.suffix == ".pt" for path in files)
    summary.task = "tensor"
    summary.framework = "pytorch" if is_torch else "mindspore"
    reason = "there are .pt files" if is_torch else "the files are .npy"
    summary.notes.append(f"the framework is not recorded; taken as {summary.framework}, as {reason}")
    if problems:
        summary.notes.append(f"{len(problems)} of the files hold no tensor that can be read; {problems[0]}")
