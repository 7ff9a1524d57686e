"""Streams the members of a JSON object that may be far larger than memory.

msprobe writes one object with up to a million keys and `indent=1`, so a member begins on a line of its own
with a known indentation. Splitting there and decoding each member by itself reads several hundred MB/s in
constant memory. A file that is laid out otherwise goes through the standard library's scanner instead, member
by member. Both accept the bare NaN and Infinity that these files are full of.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from lakeprobe.bounds import LARGEST_ENTRY, LARGEST_MEMBER, MIB
from lakeprobe.errors import DumpError
from lakeprobe.system.files import open_regular

_BLOCK = 1 << 16
"""Bytes that are decoded at a time: their objects fit into a core's cache."""

_LARGE_BLOCK = 1 << 17
"""Bytes that are read at a time while blocks are taken as a whole."""


class _RepeatedKeyError(ValueError):
    """An object has a key twice: a decoder would keep the last, and lose the other without a word."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _RepeatedKeyError(f"the key {repeated[:80]!r} occurs twice")
    return made


_decode = msgspec.json.Decoder(dict[str, Any]).decode
_scan = json.JSONDecoder(object_pairs_hook=_unique)
_BLANKS = " \t\r\n"
_MOST_DIGITS = sys.get_int_max_str_digits()
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""The escape of half a character, with or without its other half."""

Member = tuple[str | None, str, Any]
"""(container, name, value): container is None for a member of the top object, else the container's name."""

Take = Callable[[bytes], bool]
"""Takes the members in a block, if it can: the text from behind the first one's quote to behind the last one's comma.
True if it did, and then these members are not yielded."""


def read_members(path: Path, container: str | None = None, take: Take | None = None) -> Iterator[Member]:
    """Yield the members of the JSON object in `path`, in the file's order.

    With `container`, the members of the object under that top-level key are yielded one by one as
    (container, name, value), the other top-level members as (None, name, value). Blocks of a file that is written with
    indent=1 are offered to `take` first.

    Raises DumpError if the file is empty, not UTF-8, not a JSON object, or ends too early, if an object has a key
    twice, and for a member that is larger than `bounds` says. In a file that is written with indent=1, a key that is
    there twice is found among those of the top object, the container, and its members.
    """
    with _open(path) as file:
        depth = 1 if container is None else 2
        opening = b"{\n" if container is None else b'\n "' + container.encode() + b'": {\n'
        start = file.read(_BLOCK).removeprefix(codecs.BOM_UTF8)
        if not start.strip():
            raise DumpError(f"{path} is empty; dump again, or leave this file out")
        place = start.find(opening)
        indent = b"\n" + b" " * depth + b'"'
        first = place + len(opening) - 1
        is_top = container is not None or not start[: max(place, 0)].strip()
        if place >= 0 and is_top and start[first : first + len(indent)] == indent:
            yield from _split_lines(path, file, start, place, first, container, take)
        else:
            yield from _scan_text(path, file, start, container)


def _open(path: Path) -> BinaryIO:
    try:
        return open_regular(path, buffering=0)
    except FileNotFoundError:
        raise DumpError(f"{path} does not exist; give the path of a dump") from None
    except OSError as error:
        raise DumpError(f"{path} cannot be opened: {error.strerror}") from error


# ---- files written with indent=1 --------------------------------------------------------------------------


def _split_lines(
    path: Path, file: BinaryIO, start: bytes, opening: int, first: int, container: str | None, take: Take | None
) -> Iterator[Member]:
    depth, largest = (1, LARGEST_MEMBER) if container is None else (2, LARGEST_ENTRY)
    separator = b"\n" + b" " * depth + b'"'
    closing = b"\n" + b" " * (depth - 1) + b"}"
    inner = None if container is None else b"\n" + b" " * (depth + 1) + b'"'
    if container is not None:
        yield from _head(path, start[:opening], container)
    rest = start[first + len(separator) :]
    ended = False
    while not ended:
        cut = rest.rfind(separator)
        is_taken = take is not None and cut > 0 and take(rest[:cut])
        members = {} if is_taken else decoded(rest[: max(cut, 0)], separator, inner)
        end = rest.find(closing) if members is None else -1
        if end >= 0:  # the object ends here; keys after it may look like members, but are not
            cut = rest.rfind(separator, 0, end)
            members = decoded(rest[: max(cut, 0)], separator, inner)
        if cut >= 0:
            yield from _members(path, rest[:cut], members, container, separator)
            rest = rest[cut + len(separator) :]
        if end >= 0:
            rest += _rest_of(path, file, largest)
            break
        if len(rest) > largest:
            raise DumpError(f"{path}: the entry {_name(rest)} is larger than {largest // MIB} MiB; it is not a dump")
        size = max(_LARGE_BLOCK if is_taken else _BLOCK, len(rest))  # as much again of a member that is long
        block = file.read(min(size, max(_BLOCK, largest + 1 - len(rest))))
        ended = not block
        rest += block
    last, closed, tail = rest.partition(closing)
    if not closed:
        raise DumpError(
            f"{path} ends inside the entry {_name(last)}: the file is truncated; dump again, or leave it out"
        )
    yield from _member(path, last, container, b"")
    if container is not None:
        yield from _tail(path, tail, container)
    elif tail.strip():
        raise DumpError(f"{path} goes on after the end of its object; the file is damaged")


def _rest_of(path: Path, file: BinaryIO, largest: int) -> bytes:
    """Return the text after the container. Raises DumpError if it is longer than a member may be."""
    rest = b""
    # not all at once: reading takes the memory that it is asked for, however little there is to read
    while len(rest) <= largest and (block := file.read(min(max(_BLOCK, len(rest)), largest + 1 - len(rest)))):
        rest += block
    if len(rest) > largest:
        raise DumpError(f"{path} goes on for more than {largest // MIB} MiB behind its entries; it is not a dump")
    return rest


def _head(path: Path, text: bytes, container: str) -> Iterator[Member]:
    head = _load(path, text + b'"%b": {}}' % container.encode(), f"the keys before {container}")
    del head[container]
    yield from ((None, name, value) for name, value in head.items())


def _tail(path: Path, text: bytes, container: str) -> Iterator[Member]:
    if not text.rstrip().endswith(b"}"):
        raise DumpError(f"{path} does not end with a closing brace: the file is truncated")
    tail = _load(path, b'{"%b": {}' % container.encode() + text, f"the keys after {container}")
    if tail.pop(container):
        raise DumpError(f"{path}: the key {container!r} occurs twice; the file is damaged")
    yield from ((None, name, value) for name, value in tail.items())


def _members(
    path: Path, text: bytes, members: dict[str, Any] | None, container: str | None, separator: bytes
) -> Iterator[Member]:
    """Return the `members` of `text`. Decodes them one by one if some are damaged or have NaN."""
    if members is not None:
        yield from ((container, name, value) for name, value in members.items())
        return
    for piece in text.split(separator):
        yield from _member(path, piece, container, b",")


def decoded(
    text: bytes, separator: bytes, inner: bytes | None, decode: Callable[[bytes], dict[str, Any]] = _decode
) -> dict[str, Any] | None:
    """The members in `text`, with the comma behind the last; None if they are not just that, or one occurs twice.

    msgspec decodes them: `decode` says as what. Where their own keys are lines that begin with `inner`, also None if
    one of these occurs twice.
    """
    text = text.rstrip()
    if not text.endswith(b","):
        return None
    try:
        members = decode(b'{"' + text[:-1] + b"}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if len(members) != text.count(separator) + 1:
        return None
    if inner is not None and text.count(inner) != sum(len(body) for body in members.values() if body.__class__ is dict):
        return None
    return members


def _member(path: Path, piece: bytes, container: str | None, end: bytes) -> Iterator[Member]:
    piece = piece.rstrip()
    if not piece.endswith(end):
        raise DumpError(f"{path}: no comma follows the entry {_name(piece)}; the file is damaged")
    members = _load(path, b'{"' + piece.removesuffix(end) + b"}", f"the entry {_name(piece)}")
    for name, value in members.items():
        yield container, name, value


def sole_member(path: Path, text: bytes) -> Any:
    """The value of the one member in `text`, which a block may hold. Raises DumpError if there is another, or none."""
    members = decoded(text, b'\n  "', b'\n   "')
    found = [*members.items()] if members else [(name, value) for _, name, value in _member(path, text, None, b",")]
    if len(found) != 1:
        raise DumpError(f"{path}: the entry {_name(text)} is more than one; the file is damaged")
    return found[0][1]


def _name(piece: bytes) -> str:
    name = piece.lstrip(b'{\n "')[:200].split(b'"', 1)[0].decode("utf-8", "replace")
    return "".join(character if character.isprintable() else " " for character in name)


def _load(path: Path, text: bytes, what: str) -> dict[str, Any]:
    try:
        characters = text.decode()
        value = json.loads(characters, object_pairs_hook=_unique)
        _check_unicode(characters, value)
    except _RepeatedKeyError as error:
        raise DumpError(f"{path}: in {what} {error}; the file is damaged") from None
    except UnicodeEncodeError:
        raise _not_unicode(path) from None
    except UnicodeDecodeError:
        raise DumpError(f"{path}: {what} is not UTF-8 text; the file is damaged or not a dump") from None
    except RecursionError:
        raise DumpError(f"{path}: {what} is nested too deep to be read") from None
    except ValueError as error:
        raise DumpError(f"{path}: {what} is not valid JSON ({_short(error)}); the file is damaged") from None
    if not isinstance(value, dict):
        raise DumpError(f"{path}: {what} is not a JSON object")
    return value


def _check_unicode(text: str, value: Any) -> None:
    """Raise UnicodeEncodeError if a text in `value`, which `text` says, has half a character.

    msgspec refuses it. Some columns of the lake are JSON text, where DuckDB would meet it again in every query.
    """
    if _HALF.search(text):
        json.dumps(value, ensure_ascii=False).encode()


def _not_unicode(path: Path) -> DumpError:
    return DumpError(f"{path} holds text that is not valid Unicode; the file is damaged")


def _short(error: ValueError) -> str:
    """Return the error in plain words. Python's message about too many digits is for programmers."""
    return str(error) if isinstance(error, json.JSONDecodeError) else f"a number has more than {_MOST_DIGITS} digits"


# ---- files laid out otherwise -----------------------------------------------------------------------------


class _Text:
    """A window on a file's text that grows at its end and forgets its beginning."""

    def __init__(self, path: Path, file: BinaryIO, start: bytes, largest: int) -> None:
        self._path, self._file, self._largest = path, file, largest
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._ended = False
        self._step = _BLOCK
        self.text = ""
        self.place = 0
        self._append(start)

    def _append(self, block: bytes) -> None:
        try:
            self.text = self.text[self.place :] + self._decoder.decode(block, final=not block)
        except UnicodeDecodeError:
            raise DumpError(f"{self._path} is not UTF-8 text; the file is damaged or not a dump") from None
        self.place = 0
        self._ended = not block

    def grow(self) -> bool:
        """Read on. False at the end of the file."""
        if self._ended:
            return False
        held = len(self.text) - self.place
        if held > self._largest:
            raise DumpError(f"{self._path} holds an entry larger than {self._largest // MIB} MiB, or is damaged")
        self._append(self._file.read(min(self._step, max(_BLOCK, self._largest + 1 - held))))
        return True

    def peek(self) -> str:
        """Return the next character that is not blank. Empty at the end of the file."""
        while True:
            text, place = self.text, self.place
            while place < len(text) and text[place] in _BLANKS:
                place += 1
            self.place = place
            if place < len(text):
                return text[place]
            if not self.grow():
                return ""

    def expect(self, character: str) -> None:
        """Step over `character`."""
        found = self.peek()
        if found != character:
            seen = f"has {found!r} where" if found else "ends where"
            raise DumpError(f"{self._path} {seen} {character!r} is expected; the file is truncated or damaged")
        self.place += 1

    def value(self) -> Any:
        """Decode the next JSON value and step over it."""
        self.peek()
        while True:
            try:
                value, end = _scan.raw_decode(self.text, self.place)
                _check_unicode(self.text[self.place : end], value)
            except RecursionError:
                raise DumpError(f"{self._path} is nested too deep to be read") from None
            except UnicodeEncodeError:
                raise _not_unicode(self._path) from None
            except _RepeatedKeyError as error:
                raise DumpError(f"{self._path}: {error}; the file is damaged") from None
            except ValueError as error:
                if isinstance(error, json.JSONDecodeError) and self.grow():
                    self._step *= 2
                    continue
                reason = error.msg if isinstance(error, json.JSONDecodeError) else _short(error)
                raise DumpError(f"{self._path} is not valid JSON ({reason}); truncated or damaged") from None
            if end + 2 >= len(self.text) and self.grow():  # a number may go on, past a dot or e-
                continue
            self.place, self._step = end, _BLOCK
            return value


def _scan_text(path: Path, file: BinaryIO, start: bytes, container: str | None) -> Iterator[Member]:
    window = _Text(path, file, start, LARGEST_MEMBER if container is None else LARGEST_ENTRY)
    if window.peek() != "{":
        raise DumpError(f"{path} is not a JSON object; it is not a dump's file")
    seen: set[str] = set()
    for name in _names(window):
        if name in seen:
            raise DumpError(f"{path}: the key {name[:80]!r} occurs twice; the file is damaged")
        seen.add(name)
        if name == container and window.peek() == "{":
            inner = None
            for inner in _names(window):
                yield container, inner, window.value()
            if inner is None:
                yield None, name, {}
        else:
            yield None, name, window.value()
    if window.peek():
        raise DumpError(f"{path} goes on after the end of its object; the file is damaged")


def _names(window: _Text) -> Iterator[str]:
    """Walk one object: yield each name with the window on its value, which the caller steps over."""
    window.expect("{")
    if window.peek() == "}":
        window.expect("}")
        return
    while True:
        if window.peek() != '"':
            window.expect('"')
        name = window.value()
        window.expect(":")
        yield str(name)
        if window.peek() == "}":
            window.expect("}")
            return
        window.expect(",")
