"""Reads a page as a browser does, with a reader of its own: the oracle for what lakeprobe packs."""

from __future__ import annotations

import base64
import gzip
import json
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass
class Packed:
    head: dict[str, Any]
    columns: dict[str, np.ndarray[Any, Any]]

    def texts(self, column: str) -> list[str | None]:
        texts = self.head["texts"]
        return [texts[number] if number >= 0 else None for number in self.columns[column].tolist()]

    def node(self, op: str) -> int:
        return self.texts("target_op").index(op)


def tables(page: Path) -> dict[str, Packed]:
    found = re.findall(r'<script type="text/plain" id="([a-z0-9-]+)">([A-Za-z0-9+/=]*)</script>', page.read_text())
    return {name: unpacked(text) for name, text in found}


def unpacked(text: str) -> Packed:
    whole = gzip.decompress(base64.b64decode(text))
    (length,) = struct.unpack("<I", whole[:4])
    head = json.loads(whole[4 : 4 + length])
    columns = {
        name: np.frombuffer(whole, np.dtype(kind).newbyteorder("<"), count, 4 + length + offset)
        for name, (kind, offset, count) in head.pop("columns").items()
    }
    return Packed(head, columns)
