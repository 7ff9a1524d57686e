"""The formats that dumps come in."""

from __future__ import annotations

from lakeprobe.readers import acl, checkpoint, debug, dump, kernel, npy_folder, preflight, ptdbg, single_save
from lakeprobe.readers.source import Format

NAMED: tuple[Format, ...] = (dump, debug, ptdbg, kernel, single_save, acl, preflight, checkpoint)
"""Formats that a folder is known by."""

ANY_TENSORS: Format = npy_folder
"""The format of a folder with tensor files that no other format recognises."""

FORMATS: dict[str, Format] = {format.NAME: format for format in (*NAMED, ANY_TENSORS)}
