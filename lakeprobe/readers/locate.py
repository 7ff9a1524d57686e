"""Finds the dumps under a path: a dump.json, a rank folder, a step folder, or a folder of steps."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from lakeprobe.errors import DumpError

DUMP_FILE = "dump.json"
TENSOR_FOLDER = "dump_tensor_data"
_STEP = re.compile(r"step(\d+)")
_RANK = re.compile(r"rank(\d*)")
_PROCESS = re.compile(r"proc(\d+)")


@dataclass(frozen=True, slots=True)
class DumpFolder:
    """One dump: the folder that holds its dump.json, and the step and rank it is of."""

    folder: Path
    step: int
    rank: int
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Located:
    """What lies under a path: the folder that all dumps are in (the run's), and the dumps by step and rank."""

    root: Path
    dumps: tuple[DumpFolder, ...]


def locate(path: Path) -> Located:
    """The dumps under `path`. Raises DumpError if there are none."""
    try:
        return _locate(path.expanduser().absolute())
    except OSError as error:
        raise DumpError(f"{error.filename or path} cannot be read: {error.strerror}") from error


def _locate(path: Path) -> Located:
    if not path.exists():
        raise DumpError(f"{path} does not exist; give a dump.json or a folder with dumps")
    if path.is_file():
        if path.name != DUMP_FILE:
            raise DumpError(f"{path} is not a {DUMP_FILE}; give a {DUMP_FILE} or a folder with dumps")
        path = path.parent
    if (path / DUMP_FILE).is_file():
        return _single(path)
    ranks = _ranks(path, _step_of(path) or 0)
    if ranks:
        return Located(path.parent if _step_of(path) is not None else path, tuple(ranks))
    dumps = [
        dump
        for child in sorted(path.iterdir()) if child.is_dir() and _step_of(child) is not None
        for dump in _step_dumps(child)
    ]  # fmt: skip
    if not dumps:
        raise DumpError(
            f"{path} holds no dump: neither {DUMP_FILE} nor rank*/, proc*/ or step*/ folders with one; "
            f"give the folder that msprobe wrote"
        )
    _refuse_doubles(path, dumps)
    return Located(path, tuple(sorted(dumps, key=lambda dump: (dump.step, dump.rank))))


def _single(folder: Path) -> Located:
    root = folder
    rank, note = _rank_of(folder)
    if rank is not None:
        root = folder.parent
    step = _step_of(root)
    if step is not None:
        root = root.parent
    return Located(root, (DumpFolder(folder, step or 0, rank or 0, note),))


def _step_dumps(folder: Path) -> list[DumpFolder]:
    step = _step_of(folder) or 0
    if (folder / DUMP_FILE).is_file():
        return [DumpFolder(folder, step, 0)]
    return _ranks(folder, step)


def _ranks(folder: Path, step: int) -> list[DumpFolder]:
    """The dumps in the rank folders of a step; processes of unknown rank are numbered in order of their id."""
    folders = [child for child in folder.iterdir() if (child / DUMP_FILE).is_file()]
    dumps = []
    for child in folders:
        match = _RANK.fullmatch(child.name)
        if match:
            dumps.append(DumpFolder(child, step, int(match[1] or 0)))
    taken = {dump.rank for dump in dumps}
    free = (rank for rank in range(len(folders)) if rank not in taken)
    processes = sorted((int(match[1]), child) for child in folders if (match := _PROCESS.fullmatch(child.name)))
    for rank, (_, child) in zip(free, processes, strict=False):
        dumps.append(DumpFolder(child, step, rank, _assumed(child, rank)))
    _refuse_doubles(folder, dumps)
    dumps.sort(key=lambda dump: dump.rank)
    strangers = sorted({child.name for child in folders} - {dump.folder.name for dump in dumps})
    if dumps and strangers:
        left_out = f"left out, because they are named neither rank* nor proc*: {', '.join(strangers)}"
        first = dumps[0]
        dumps[0] = replace(first, note=f"{first.note}; {left_out}" if first.note else left_out)
    return dumps


def _refuse_doubles(folder: Path, dumps: list[DumpFolder]) -> None:
    seen: dict[tuple[int, int], Path] = {}
    for dump in dumps:
        here, key = dump.folder.relative_to(folder), (dump.step, dump.rank)
        if key in seen:
            raise DumpError(
                f"{folder}: {seen[key]} and {here} are both step {dump.step} rank {dump.rank}; move one away"
            )
        seen[key] = here


def _rank_of(folder: Path) -> tuple[int | None, str | None]:
    match = _RANK.fullmatch(folder.name)
    if match:
        return int(match[1] or 0), None
    if _PROCESS.fullmatch(folder.name):
        return 0, _assumed(folder, 0)
    return None, None


def _assumed(folder: Path, rank: int) -> str:
    return f"the dump does not know its rank ({folder.name}); taken as rank {rank}"


def _step_of(folder: Path) -> int | None:
    match = _STEP.fullmatch(folder.name)
    return int(match[1]) if match else None
