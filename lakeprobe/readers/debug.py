"""Reads debug.json: values that a user saved with PrecisionDebugger.save, each an op that has outputs only."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from lakeprobe.readers import names
from lakeprobe.readers.dump import DUMP_FILE, found, take_head
from lakeprobe.readers.members import read_members
from lakeprobe.readers.source import ContentOf, Emit, Listing, Source, Summary
from lakeprobe.readers.tables import Tables

NAME = "msprobe debug points"
DEBUG_FILE = "debug.json"


def find(listing: Listing) -> list[Source]:
    """Return the saved points of a folder that has a debug.json. They are the part debug next to a dump.json."""
    sources = found(listing, NAME, (DEBUG_FILE,))
    if DUMP_FILE in listing.files:
        return [replace(source, part=f"{source.part} debug".strip()) for source in sources]
    return sources


def read(source: Source, content_of: ContentOf, emit: Emit) -> Summary:
    """Read debug.json. Raises DumpError."""
    path = source.folder / DEBUG_FILE
    tables = Tables(source, path, content_of, emit)
    head: dict[str, Any] = {}
    has_data = False
    for container, point, value in read_members(path, "data"):
        if container is None:
            head[point] = value
        else:
            has_data = True
            tables.add(point, names.debug_point(point), value)
    take_head(head, has_data, tables, path)
    return tables.close()
