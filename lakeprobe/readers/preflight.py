"""Reads preflight.json: what a run begins with, each setting an op of the kind setting with one value or tensor."""

from __future__ import annotations

import json
from typing import Any

from lakeprobe.bounds import LARGEST_CHECKPOINT_HEADER, MOST_PARAMETERS
from lakeprobe.errors import DumpError
from lakeprobe.readers.names import setting
from lakeprobe.readers.source import ContentOf, Emit, Listing, Source, Summary, place_of
from lakeprobe.readers.tables import Tables
from lakeprobe.system.files import open_regular

NAME = "preflight"
FILE = "preflight.json"
VERSION = 1

SECTIONS = (
    "environment", "packages", "python", "devices", "launch", "switches", "random", "settings", "data", "weights",
)  # fmt: skip
"""The sections of the file, in the order of the rows."""


def find(listing: Listing) -> list[Source]:
    """The preflight in a folder."""
    if FILE not in listing.files:
        return []
    place = place_of(listing.folder)
    path = listing.folder / FILE
    return [Source(NAME, place.root, listing.folder, place.step, place.rank, (path,), None, place.part)]


def read(source: Source, content_of: ContentOf, emit: Emit) -> Summary:
    """Read the file. Raises DumpError."""
    path = source.files[0]
    try:
        with open_regular(path) as file:
            data = file.read(LARGEST_CHECKPOINT_HEADER + 1)
        if len(data) > LARGEST_CHECKPOINT_HEADER:
            raise DumpError(f"{path} is larger than {LARGEST_CHECKPOINT_HEADER >> 20} MiB; it is not a preflight")
        found = json.loads(data)
    except OSError as error:
        raise DumpError(f"{path} cannot be read: {error.strerror}; copy it again") from error
    except (ValueError, RecursionError) as error:
        raise DumpError(f"{path} is not valid JSON ({error!s:.80}); pack it again") from error
    if not isinstance(found, dict) or found.get("preflight") != VERSION:
        raise DumpError(f"{path} is not a preflight of version {VERSION}; pack it again with this lakeprobe")
    tables = Tables(source, path, content_of, emit)
    for section in SECTIONS:
        values = found.get(section, {})
        if not isinstance(values, dict) or len(values) > MOST_PARAMETERS:
            raise DumpError(f"{path}: {section} is not an object of values; pack it again")
        for name, value in values.items():
            tables.add(f"{section}.{name}", setting(section, name), _leaf(value, f"{path}: {section}.{name!s:.80}"))
    tables.summary.framework = "mindspore" if found.get("framework") == "mindspore" else "pytorch"
    tables.summary.task = "statistics"
    tables.summary.head = json.dumps({"preflight": VERSION, "lakeprobe": str(found.get("lakeprobe"))})
    return tables.close()


def _leaf(value: Any, where: str) -> Any:
    """A value as a leaf. Raises DumpError for a list, or an object that is not a tensor's."""
    if isinstance(value, dict) and isinstance(value.get("type"), str) and isinstance(value.get("shape"), list):
        return value
    if isinstance(value, (dict, list)):
        raise DumpError(f"{where} is not a value; pack it again")
    return None if value is None else {"type": type(value).__name__, "value": value}
