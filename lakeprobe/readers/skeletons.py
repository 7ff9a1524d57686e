"""Reads entries of dump.json in bulk that differ from an earlier one in their numbers only.

An entry without its statistics, digests and file names is its *skeleton*. A dump of 22 000 ops has some sixty of them,
layer after layer. So a block of entries is split at what varies, and the rest is looked up. Only a skeleton that is new
is decoded and walked, with placeholders for what varies, as any entry is (`leaves.py`): nothing here knows what an
entry means. Whatever does not look as usual is refused, and read entry by entry instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lakeprobe.bounds import MIB
from lakeprobe.errors import DumpError
from lakeprobe.readers import names
from lakeprobe.readers.leaves import EXACT_IN_DOUBLE, Alike, Varying
from lakeprobe.readers.members import sole_member
from lakeprobe.readers.tables import Common, Tables

SEPARATOR = b'\n  "'
"""The beginning of every entry of a dump.json that msprobe wrote."""

_MARKS = {"statistics": b"\0", "digest": b"\1", "data_name": b"\2"}
"""The marks in a skeleton for four statistics, a digest and a file name. JSON has no such characters."""

_GRADIENTS = b"\xff"
"""The beginning of skeletons of parameters' gradients, which are walked in another way than others of the same text.
Neither JSON nor a map of msgpack begins so."""
_GRADIENT_KIND = "parameters_grad"

_NUMBER = rb"([-+.eE0-9nulNaIfity]++)"
_STATISTICS = re.compile(rb'"Max": %b,\n *"Min": %b,\n *"Mean": %b,\n *"Norm": %b' % ((_NUMBER,) * 4))
_DIGEST = re.compile(rb'"md5": "([0-9A-Za-z]*+)"')
_FILE = re.compile(rb'"data_name": "([^"\\/\x00-\x1f\x7f-\xff]++)"')
_OP = re.compile(SEPARATOR + rb'(?:([^"\\\x00-\x1f]++)": )?+')

_LARGEST_BLOCK = MIB
"""Bytes of a block that is split; larger ones have very large entries, which are read one by one."""

_MOST_SKELETONS = 4096
_LARGEST_SKELETONS = 8 * MIB
_MOST_LEAVES = 200_000
"""The maximum number of skeletons, and of their bytes and leaves together. Entries beyond these are walked."""

_FREE = 64
"""The number of skeletons of a dump that are always learned."""

_MOST_NEW = 1 / 3
"""The maximum share of new entries in a block. Learning one costs twice as much as walking it."""

_LONGEST_PAUSE = 64
"""Blocks that pass by at most before another is tried, in a dump that has too many skeletons."""

_decode = msgspec.json.Decoder(list[Any]).decode


Skeleton = tuple[Alike, Common]
"""The fields that all entries of a skeleton share."""

Placeholders = Mapping[str, Mapping[Any, int]]
"""What stands in a skeleton for what varies: by the column, the value in the place of each and its number."""


class Known:
    """The skeletons that were learned so far, of whatever format their entries are."""

    def __init__(self, tables: Tables, entry_of: Callable[[bytes], tuple[Any, Placeholders] | None], free: int) -> None:
        """Learn for `tables` and those like them.

        `entry_of` gives the entry of a skeleton, with placeholders, and these; None if it is none. The first `free`
        skeletons are always learned. After these, only skeletons that pay off are.
        """
        self.learner = tables.learner()
        self._tables, self._entry_of, self._free = tables, entry_of, free
        self._known: dict[bytes, Skeleton] = {}
        self._unsound: set[bytes] = set()
        self._bytes = 0

    def find(self, bodies: Sequence[bytes], kinds: Sequence[str]) -> list[Skeleton] | None:
        """Return the skeleton of each entry. None if one cannot be learned, or too many are new."""
        if _GRADIENT_KIND in kinds:
            pairs = zip(bodies, kinds, strict=True)
            bodies = [_GRADIENTS + body if kind == _GRADIENT_KIND else body for body, kind in pairs]
        known = self._known
        new = {body: kind for body, kind in zip(bodies, kinds, strict=True) if body not in known}
        if not self._unsound.isdisjoint(new) or not self._has_room_for(new, len(bodies)):
            return None
        for body, kind in new.items():
            self._bytes += len(body)
            skeleton = self._learn(body.removeprefix(_GRADIENTS), kind)
            if skeleton is None:  # and those after it must not be walked before it
                self._unsound.add(body)
                return None
            known[body] = skeleton
        return [known[body] for body in bodies]

    def _has_room_for(self, new: Collection[bytes], entries: int) -> bool:
        """Return whether `new` skeletons among `entries` entries may be learned, and pay off."""
        skeletons = len(self._known) + len(self._unsound) + len(new)
        return not new or (
            skeletons <= _MOST_SKELETONS
            and self._bytes + sum(map(len, new)) <= _LARGEST_SKELETONS
            and len(self.learner) <= _MOST_LEAVES
            and (skeletons <= self._free or len(new) <= _MOST_NEW * entries)
        )

    def _learn(self, body: bytes, kind: str) -> Skeleton | None:
        """Walk the skeleton `body`. Returns None if it is not a valid entry, or a placeholder is misplaced."""
        try:
            found = self._entry_of(body)
            if found is None or found[0].__class__ is not dict:
                return None
            rows, common = self._tables.learn(self.learner, kind, found[0])
        except DumpError:  # whose message is found when the entry itself is walked
            return None
        alike = self._alike(rows, found[1])
        return None if alike is None else (alike, common)

    def _alike(self, rows: range, placeholders: Placeholders) -> Alike | None:
        """What the leaves `rows` of a skeleton with these placeholders have in common; None if one is not in place.

        Something else may look like a placeholder, and then there are too many of them.
        """
        learner = self.learner
        found: dict[str, list[list[int]]] = {column: [[] for _ in of] for column, of in placeholders.items()}
        statistics = placeholders["statistics"]
        for leaf, four in enumerate(learner.statistics(rows)):
            number = statistics.get(four)
            if number is not None:
                found["statistics"][number].append(leaf)
        sparse = []
        for row, column, value in learner.pop_sparse():
            leaf = row - rows.start
            number = placeholders.get(column, {}).get(value)
            if number is not None:
                found[column][number].append(leaf)
            elif leaf >= 0:  # others are of an entry that could not be walked
                if column == "data_name":  # an escaped name is no placeholder, and each file is looked at by itself
                    return None
                sparse.append((leaf, column, value))
        if any(len(leaves) != 1 for places in found.values() for leaves in places):
            return None
        places = {column: [leaf for (leaf,) in leaves] for column, leaves in found.items()}
        first = len(learner.varying)
        learner.varying.extend([*places["statistics"], *places.get("wide", ())])
        named = sorted((leaf, number) for number, leaf in enumerate(places.get("data_name", ())))
        return Alike(
            rows,
            range(first, first + len(statistics)),
            places.get("digest", ()),
            named,
            range(first + len(statistics), len(learner.varying)),
            places.get("value", ()),
            sparse,
        )


class Skeletons:
    """The skeletons of one dump, which take blocks of its entries."""

    def __init__(self, tables: Tables, path: Path) -> None:
        """Write rows of the dump file `path` to `tables`, whose `linked` ops are known."""
        self._tables, self._path = tables, path
        self._known = Known(tables, self._entry_of, _FREE)
        self._poor = self._pause = 0

    def take(self, text: bytes) -> bool:
        """Write the rows of the entries in `text`, with a comma behind each; False, and none, if it must be walked.

        `text` begins with the first entry's name, and SEPARATOR is between two. Raises DumpError.
        """
        if self._pause:
            self._pause -= 1
            return False
        if self._take(text):
            self._poor = 0
            return True
        self._poor += 1
        self._pause = min(1 << self._poor, _LONGEST_PAUSE)
        return False

    def _take(self, block: bytes) -> bool:
        if len(block) > _LARGEST_BLOCK or any(mark in block for mark in (*_MARKS.values(), _GRADIENTS)):
            return False
        text, *varying = _split(block)
        _, *named = _OP.split(SEPARATOR + text)
        if None in named:
            return False
        try:
            ops = b"\n".join(named[::2]).decode().split("\n")
            numbers, is_floats = _numbers(varying[0])
        except ValueError:  # of both, UnicodeDecodeError and what is not a number
            return False
        if not self._tables.are_new(ops):
            return False
        parsed = [*map(names.parse, ops)]
        alike = self._known.find(named[1::2], [name.kind for name in parsed])
        if alike is None:
            return False
        digests, files = (tuple(map(bytes.decode, texts)) for texts in varying[1:])
        found = Varying(numbers, is_floats, digests, files)
        self._tables.add_alike(ops, parsed, self._tables.linked.of(ops), self._known.learner, alike, found)
        return True

    def _entry_of(self, body: bytes) -> tuple[Any, Placeholders]:
        """The entry of the skeleton `body`. Raises DumpError if it is not valid."""
        fours, digests, files = (body.count(mark) for mark in _MARKS.values())
        entry = sole_member(self._path, b'op": ' + _with_placeholders(body))
        return entry, {
            "statistics": {_four(number): number for number in range(fours)},
            "digest": {_text(number): number for number in range(digests)},
            "data_name": {_text(number): number for number in range(files)},
        }


def _split(block: bytes) -> tuple[bytes, list[bytes], list[bytes], list[bytes]]:
    """The block with marks for what varies, and that: statistics, digests, file names."""
    parts = _STATISTICS.split(block)
    text = _MARKS["statistics"].join(parts[::5])
    del parts[::5]
    digests = _DIGEST.split(text) if b'"md5": "' in text else [text]
    text = _MARKS["digest"].join(digests[::2])
    files = _FILE.split(text) if b'"data_name": "' in text else [text]
    return _MARKS["data_name"].join(files[::2]), parts, digests[1::2], files[1::2]


def _numbers(texts: list[bytes]) -> tuple[list[Any], bool]:
    """The statistics in `texts`, and whether all are floats; decoded as in entries that are decoded as a whole.

    Raises ValueError if one is not a number, or a double cannot hold it.
    """
    joined = b",".join(texts)
    try:
        numbers = _decode(b"[%b]" % joined)
    except msgspec.DecodeError:
        numbers = json.loads(b"[%b]" % joined)  # NaN
    is_floats = joined.count(b".") == len(texts)
    if not is_floats and not are_exact(numbers):
        raise ValueError
    return numbers, is_floats


def are_exact(numbers: Sequence[Any]) -> bool:
    """Return whether a double can hold each of the numbers that is an integer."""
    return all(number in EXACT_IN_DOUBLE for number in numbers if number.__class__ is int)


def _with_placeholders(body: bytes) -> bytes:
    """The skeleton with something in place of each mark, from which `_alike` recognises it."""
    texts = (_in_text(b"md5"), _in_text(b"data_name"))
    for mark, placeholder in zip(_MARKS.values(), (_in_numbers, *texts), strict=True):
        first, *others = body.split(mark)
        body = first + b"".join(placeholder(number) + text for number, text in enumerate(others))
    return body


def _four(number: int) -> tuple[float, float, float, float]:
    """The statistics in place of the `number`-th ones."""
    return number + 0.5, number + 0.25, number + 0.125, number + 0.0625


def _in_numbers(number: int) -> bytes:
    return b'"Max": %r, "Min": %r, "Mean": %r, "Norm": %r' % _four(number)


def _text(number: int) -> str:
    """The digest or file name in place of the `number`-th one."""
    return f"lakeprobe-{number}"


def _in_text(key: bytes) -> Callable[[int], bytes]:
    return lambda number: b'"%b": "%b"' % (key, _text(number).encode())
