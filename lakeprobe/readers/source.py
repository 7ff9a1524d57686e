"""Defines what readers share: sources, the listing of a folder, and the summary of what was read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field

from lakeprobe.errors import DumpError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeprobe.tensors import TensorReference

Emit = Callable[[str, "pa.RecordBatch"], None]
"""Takes a table's name (ops, tensors, stacks) and its next rows."""

ContentOf = Callable[["str | TensorReference"], "tuple[str | None, str | None]"]
"""From a tensor file's name in the source's folder of tensors, or the place of a tensor, to (content hash, None), or
to (None, what is wrong with it); (None, None) if contents are not wanted."""


class Source(Struct, frozen=True):
    """One dump to read, of one step and rank; picklable.

    `files` say what was dumped (dump.json, dump.pkl, statistic.csv), `tensors` is the folder of the tensor files.
    `root` is the folder of the run that it belongs to. Sources of one run, step and rank differ in `part`: graph
    and pynative of a mixed dump; "" where there is one only. A source that knows its `process` and not its rank
    gets a free one when it is located.
    """

    format: str
    root: Path
    folder: Path
    step: int
    rank: int
    files: tuple[Path, ...] = ()
    tensors: Path | None = None
    part: str = ""
    process: int | None = None
    notes: tuple[str, ...] = ()
    files_hold_tensors: bool = False
    """Whether `files` are the tensor files too, as those of a checkpoint are."""


class Listing(Struct, frozen=True):
    """The names of the files and folders in `folder`, sorted. `top` is the path that the user gave.

    `linked` are those of the folders that are links; `left_out` says of other things that lie there why they are.
    """

    folder: Path
    files: Sequence[str]
    folders: Sequence[str]
    top: Path
    linked: frozenset[str] = frozenset()
    left_out: Mapping[str, str] = field(default_factory=dict)


COUNTS = ("ops", "tensor_rows", "digests", "files", "unreadable")
"""The counts of a summary that the table dumps keeps, each in the column of its name."""


class Summary(Struct):
    """The metadata of a source, and counts of what was read from it."""

    framework: str = ""
    task: str | None = None
    level: str | None = None
    head: str = "{}"
    ops: int = 0
    tensor_rows: int = 0
    digests: int = 0
    files: int = 0
    unreadable: int = 0
    stacks: int = 0
    layout: dict[str, Any] = field(default_factory=dict)
    """How the side files were written (dumps.layout)."""
    notes: list[str] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """COUNTS, by name."""
        return {count: getattr(self, count) for count in COUNTS}


class Format(Protocol):
    """A format that dumps come in: a module of lakeprobe.readers with these names, listed in formats.py."""

    @property
    def NAME(self) -> str:  # noqa: N802 a constant of the module
        """The name of the format in messages and in the lake (dumps.format)."""

    @property
    def find(self) -> Callable[[Listing], list[Source]]:
        """Return the sources of this format in a folder. Names decide; a few bytes of a file may be read."""

    @property
    def read(self) -> Callable[[Source, ContentOf, Emit], Summary]:
        """Reads a source and hands its tables to `emit`, batch by batch. Raises DumpError."""


class Place(Struct, frozen=True):
    """The place of a dump folder in the tree of a run: the run's folder, step, rank, part, and what was assumed."""

    root: Path
    step: int
    rank: int
    part: str = ""
    process: int | None = None
    """The process id of a folder procN, whose rank is not known."""


_DIGITS = 9
"""The most digits of a step or a rank, which are columns of 32 bits."""


def numbered(word: str, between: str = "", least: int = 1) -> re.Pattern[str]:
    """The names of folders that are a word and a number, such as step3 and rank_0; group 1 is the number.

    `between` is what may stand between the two, an expression; `least` is how many digits there must be.
    """
    return re.compile(rf"{word}{between}([0-9]{{{least},{_DIGITS}}})")


_STEP, _RANK = numbered("step"), numbered("rank", least=0)
_TOO_LARGE = re.compile(rf"(?:step|rank)[0-9]{{{_DIGITS + 1},}}")
_NEGATIVE = re.compile(r"(?:step|rank)-[0-9]+")
_PROCESS = re.compile(r"proc(\d{1,18})")
PARTS = ("graph", "pynative")
"""The two halves of a mixed dump of MindSpore, each a folder with steps and ranks."""


def place_of(folder: Path) -> Place:
    """The place of `folder` by msprobe's layout: [graph|pynative/][stepN/][rankN|procN], each of them optional.

    Raises DumpError for a number that no step or rank has.
    """
    step, rank, part, process = 0, 0, "", None
    _check_number(folder)
    if match := _RANK.fullmatch(folder.name):
        rank, folder = int(match[1] or 0), folder.parent
    elif match := _PROCESS.fullmatch(folder.name):
        process, folder = int(match[1]), folder.parent
    _check_number(folder)
    if match := _STEP.fullmatch(folder.name):
        step, folder = int(match[1]), folder.parent
    if folder.name in PARTS:
        part, folder = folder.name, folder.parent
    return Place(folder, step, rank, part, process)


def _check_number(folder: Path) -> None:
    if _TOO_LARGE.fullmatch(folder.name):
        raise DumpError(f"{folder}: the number of a step or a rank has {_DIGITS} digits at most; rename the folder")


def is_named_plainly(name: str) -> bool:
    """Return whether a folder of this name cannot be meant as a step or a rank, as step-1 can."""
    return _NEGATIVE.fullmatch(name) is None


def is_placed(name: str) -> bool:
    """Return whether a folder of this name gives the step, rank or process of its dumps."""
    return any(pattern.fullmatch(name) for pattern in (_STEP, _RANK, _PROCESS))
