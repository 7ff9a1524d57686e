"""The names in MindSpore's kernel dumps: of the files, and of the folders that say rank, network, graph and iteration.

    {op type}.{op name}.{task}.{stream}.{timestamp}[.{context}…].{input|output}.{slot}[.{slot}…].{format}[.{dtype}].npy

The same with .bin, or (msprobe's dumps of a whole graph) without a suffix, is the bare bytes of a tensor. Folders are

    rank_{R}/{network}/{graph}/{iteration}                                        graphs run kernel by kernel (O0, O1)
    [{step}/][{time}/]{device}/{network}/{graph}/{iteration}, {device}/{x}/{iteration}       whole graphs (O2, GE)
    rank_{R}/{time}/step_{N}                                                whole graphs, dumped through msprobe

Source: MindSpore's pages on dumps in graph mode (r2.4 to r2.10), msprobe's AclDumpDataProcessor.cpp and
mindspore/compare/ms_graph_compare.py (26.2).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from lakeprobe.readers.source import Place, numbered

_NAME = re.compile(
    r"([^.]+)\.([^.]+)\.(\d{1,10})\.(\d{1,10})\.(\d{1,19})((?:\.\d{1,19})*)"
    r"\.(input|output)((?:\.\d{1,9})+)\.([^.]*[^.\d][^.]*)(?:\.([^.]+))?",
    re.ASCII,
)
_SUFFIXES = (".npy", ".bin")
_ADUMP_DTYPE = re.compile(r"[A-Z][A-Z0-9_]*")
"""A dtype in msprobe's spelling. Files without a suffix end in one, which tells them from other files."""

_NUMBER = re.compile(r"[0-9]{1,9}")
_DEVICE = re.compile(r"[0-9]{1,6}")
_TIME = re.compile(r"[0-9]{14,20}")
_RANK, _STEP = numbered("rank", "_"), numbered("step", "_")
_DTYPES = {
    name.lower(): name
    for name in (
        "Bool", "Int4", "Int8", "Int16", "Int32", "Int64", "UInt1", "UInt8", "UInt16", "UInt32", "UInt64",
        "Float16", "Float32", "Float64", "BFloat16", "Complex64", "Complex128", "String",
    )
} | {"float": "Float32", "double": "Float64", "bf16": "BFloat16"}  # fmt: skip


class KernelName(NamedTuple):
    """A tensor's file name, or its row of statistic.csv, in parts."""

    op_type: str
    op_name: str
    task: int
    stream: int
    timestamp: int
    """Microseconds since 1970."""
    context: str
    """Numbers after the timestamp: the contexts and threads of a kernel that runs in several. Empty otherwise."""
    role: str
    """input or output."""
    slot: str
    """The index of the input or output, from 0. Indexes of a nested one are joined by dots."""
    format: str
    dtype: str
    """The dtype in MindSpore's spelling (Float32). Empty if the name has none."""
    suffix: str
    """.npy, .bin, or empty, which both mean bare bytes."""


def parse(name: str) -> KernelName | None:
    """Split the file name `name`. Returns None if it is not a kernel's tensor."""
    suffix = next((suffix for suffix in _SUFFIXES if name.endswith(suffix)), "")
    match = _NAME.fullmatch(name.removesuffix(suffix))
    if match is None or (not suffix and not _ADUMP_DTYPE.fullmatch(match[10] or "")):
        return None
    op_type, op_name, task, stream, timestamp, context, role, slot, format, dtype = match.groups()
    return KernelName(
        op_type, op_name, int(task), int(stream), int(timestamp), context[1:], role, slot[1:], format,
        dtype_of(dtype or ""), suffix,
    )  # fmt: skip


def dtype_of(word: str) -> str:
    """Return the dtype `word` of MindSpore, msprobe or numpy in MindSpore's spelling. An unknown one is unchanged."""
    return _DTYPES.get(word.lower(), word)


def place_of(folder: Path, top: Path) -> tuple[Place, str | None]:
    """The place of a folder with kernel files, and a note where its path does not say it all.

    `top` is the path that the user gave. A number above the time is a step only if it lies below `top`; else it is
    a folder of the user's.
    """
    parents = (folder, *folder.parents)
    last, second, third, fourth = (*(parent.name for parent in parents[:4]), "", "", "")[:4]
    if (step := _STEP.fullmatch(last)) and (rank := _RANK.fullmatch(third)):
        return Place(parents[3], int(step[1]), int(rank[1])), None
    if not _NUMBER.fullmatch(last):
        return Place(folder, 0, 0), "the path does not say step and rank; taken as step 0 rank 0"
    iteration, graph = int(last), f"{third}/{second}"
    if rank := _RANK.fullmatch(fourth):
        return Place(parents[4], iteration, int(rank[1]), graph), None
    if _DEVICE.fullmatch(fourth):
        return _place_on_device(parents[4:], int(fourth), graph, iteration, top), None
    if _DEVICE.fullmatch(third):
        return _place_on_device(parents[3:], int(third), second, iteration, top), None
    if _NUMBER.fullmatch(second) and third:
        return Place(parents[3], iteration, 0, graph), "the path does not say the rank; taken as rank 0"
    return Place(folder.parent, iteration, 0), "the path does not say the rank; taken as rank 0"


def _place_on_device(above: tuple[Path, ...], device: int, part: str, iteration: int, top: Path) -> Place:
    """The place in a folder of a device, which lies in `above`: perhaps a time's, and that perhaps in a step's."""
    root = above[0]
    if _TIME.fullmatch(root.name):
        root = above[1]
        if _NUMBER.fullmatch(root.name) and top in root.parents:
            return Place(root.parent, int(root.name), device, f"{part}/{iteration}")
    return Place(root, iteration, device, part)
