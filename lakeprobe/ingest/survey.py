"""Lists what an ingest would read, and as what, without reading it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from lakeprobe.ingest.run import named, opened
from lakeprobe.readers import foreign_tables
from lakeprobe.readers.locate import locate
from lakeprobe.readers.source import Source
from lakeprobe.system.files import absolute


class Item(Struct, frozen=True):
    """One thing that would be read: a dump, which is a unit of a run or a part of one, or a result table.

    `name` is that of the run or table. `files` and `bytes` count the files that describe the dump, and the tensor
    files.
    """

    name: str
    step: int | None
    rank: int | None
    part: str
    format: str
    files: int
    bytes: int
    path: Path
    notes: tuple[str, ...]


def survey(path: Path, run: str | None = None, steps: Sequence[int] = (), ranks: Sequence[int] = ()) -> list[Item]:
    """Return what `ingest` would read with these arguments, in its order. Raises DumpError and UsageError."""
    with opened(absolute(path), "none") as top:
        found = locate(top, steps, ranks)
        items = [
            _dump(name, source)
            for name, located in named(top, found.runs, run).items() for source in located.sources
        ]  # fmt: skip
        for table in foreign_tables.gather(found.tables, None if found.runs else run):
            size = sum(file.path.stat().st_size for file in table.files)
            left_out = tuple(f"{sheet} has other headers and is left out" for sheet in table.left_out)
            files = len(table.files)
            items.append(Item(table.name, None, None, "", table.kind.kind, files, size, table.files[0].path, left_out))
        return items


def _dump(run: str, source: Source) -> Item:
    sizes = [file.stat().st_size for file in source.files]
    if source.tensors is not None and source.tensors.is_dir():
        sizes += [file.stat().st_size for file in source.tensors.iterdir() if file.is_file()]
    return Item(
        run, source.step, source.rank, source.part, source.format, len(sizes), sum(sizes), source.folder, source.notes
    )
