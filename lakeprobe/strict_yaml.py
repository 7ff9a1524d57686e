"""YAML as a mapping file needs it: texts, lists and mappings, each with its line, and nothing that can do harm.

It is built on PyYAML's events, so no tag is ever resolved, no alias is ever expanded, and a scalar is the text that
the user wrote: `0`, `0x1`, `yes` and `"yes"` are names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from lakeprobe.bounds import DEEPEST_MAPPING, LARGEST_MAPPING, LARGEST_RECORD, MOST_NAMES
from lakeprobe.errors import UsageError
from lakeprobe.system.files import open_regular, read_bounded

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NOT_PRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Node(Struct, frozen=True):
    """Anything in the file `path`, and the line where it begins (from 1)."""

    path: Path
    line: int

    def error(self, problem: str, instead: str) -> UsageError:
        """What is wrong here, and what to write instead."""
        return _error(self.path, self.line, problem, instead)


class Text(Node, frozen=True):
    """A scalar, as it was written. `key:` with nothing after it has an empty text that is not quoted."""

    value: str
    is_quoted: bool

    @property
    def is_missing(self) -> bool:
        """Nothing was written, not even a pair of quotes."""
        return not self.value and not self.is_quoted


class List(Node, frozen=True):
    """A list: `[a, b]`, or lines that begin with a dash."""

    items: tuple[Node, ...]


class Mapping(Node, frozen=True):
    """Keys and their values, in the order of the file. No key occurs twice."""

    pairs: tuple[tuple[Text, Node], ...]


def read(path: Path) -> Node | None:
    """The one document in the file `path`; None where the file holds nothing but blanks and comments.

    Raises UsageError for a file that cannot be read, is too large, is not UTF-8 or no YAML, and for what a mapping
    file has no need of: tags, anchors, aliases, merge keys, duplicate keys, a second document, deep nesting.
    """
    text = _text(path)
    events = _counted(path, yaml.parse(text, Loader=_LOADER))
    try:
        return _document(path, events)
    except yaml.YAMLError as error:
        raise _not_yaml(path, text, error) from None


def read_record(path: Path) -> Any:
    """Return what a YAML file holds that lakeprobe wrote into a lake, which may have come from elsewhere since.

    It has at most LARGEST_RECORD bytes, and merges no mappings, which could double with each line. Raises OSError and
    ValueError.
    """
    try:
        return yaml.load(read_bounded(path, LARGEST_RECORD), Loader=_RecordLoader)  # noqa: S506 it is a safe one
    except (yaml.YAMLError, AttributeError, LookupError, RecursionError) as error:  # PyYAML raises them for bad scalars
        raise ValueError("it is not YAML as lakeprobe writes it") from error


class _RecordLoader(_LOADER):  # type: ignore[valid-type,misc]
    """A safe loader without merge keys."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        if any(key.tag == "tag:yaml.org,2002:merge" for key, _ in node.value):
            raise yaml.YAMLError("a merge key")


def _text(path: Path) -> str:
    try:
        with open_regular(path) as file:
            data = file.read(LARGEST_MAPPING + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{path} cannot be read: {reason}") from error
    if len(data) > LARGEST_MAPPING:
        raise UsageError(
            f"{path} has more than {LARGEST_MAPPING // 1_000_000} MB, too much for a mapping; "
            "name modules instead of rows"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _error(path, line, f"the byte 0x{data[error.start]:02x} is not UTF-8", "save the file as UTF-8") from None
    if found := _NOT_PRINTABLE.search(text):
        raise _not_printable(path, text.count("\n", 0, found.start()) + 1, found)
    return text


def _counted(path: Path, events: Iterator[yaml.Event]) -> Iterator[yaml.Event]:
    for count, event in enumerate(events):
        if count > MOST_NAMES:
            raise _error(path, _line(event), f"{MOST_NAMES:,} names stand before it", "name modules instead of rows")
        yield event


def _document(path: Path, events: Iterator[yaml.Event]) -> Node | None:
    next(events)  # the stream begins
    if isinstance(next(events), yaml.StreamEndEvent):
        return None
    node = _node(path, next(events), events, 1)
    next(events)  # the document ends
    another = next(events)
    if not isinstance(another, yaml.StreamEndEvent):
        raise _error(path, _line(another), "a second document begins here", "write one document to a file")
    return None if isinstance(node, Text) and node.is_missing else node


def _node(path: Path, event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> Node:
    line = _line(event)
    if depth > DEEPEST_MAPPING:
        raise _error(path, line, f"it is nested deeper than {DEEPEST_MAPPING} levels", "write a mapping of names")
    if isinstance(event, yaml.AliasEvent):
        raise _error(path, line, f"the alias *{event.anchor}", "write the value itself")
    assert isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent))
    if event.anchor:
        raise _error(path, line, f"the anchor &{event.anchor}", "write the value without it")
    if event.tag:
        raise _error(path, line, f"the tag {event.tag!r}", "write the value without it")
    if isinstance(event, yaml.ScalarEvent):
        if found := _NOT_PRINTABLE.search(event.value):  # written as an escape: "\\0"
            raise _not_printable(path, line, found)
        return Text(path, line, event.value, event.style not in (None, ""))
    if isinstance(event, yaml.SequenceStartEvent):
        return List(path, line, tuple(_nodes(path, events, yaml.SequenceEndEvent, depth)))
    return Mapping(path, line, tuple(_pairs(path, events, depth)))


def _nodes(path: Path, events: Iterator[yaml.Event], end: type[yaml.Event], depth: int) -> Iterator[Node]:
    while not isinstance(event := next(events), end):
        yield _node(path, event, events, depth + 1)


def _pairs(path: Path, events: Iterator[yaml.Event], depth: int) -> Iterator[tuple[Text, Node]]:
    lines: dict[str, int] = {}
    nodes = _nodes(path, events, yaml.MappingEndEvent, depth)
    for key in nodes:
        if not isinstance(key, Text):
            raise key.error("a list or mapping is not a key", "write a name before the colon")
        if key.value == "<<" and not key.is_quoted:
            raise key.error("the merge key <<", "write the keys themselves")
        if key.value in lines:
            raise key.error(
                f"the key {key.value!r} is on line {lines[key.value]} already", "write each key once, with one value"
            )
        lines[key.value] = key.line
        yield key, next(nodes)


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _not_yaml(path: Path, text: str, error: yaml.YAMLError) -> UsageError:
    mark = getattr(error, "problem_mark", None)
    last = max(len(text.splitlines()), 1)  # a file that ends too early has its mark on the line after
    line = min(mark.line + 1, last) if mark else last
    reason = getattr(error, "problem", None) or str(error).splitlines()[0]
    return _error(path, line, f"it is not YAML ({reason})", "write one 'key: value' to a line")


def _not_printable(path: Path, line: int, found: re.Match[str]) -> UsageError:
    return _error(path, line, f"the character {found.group()!r}", "write the name without it")


def _error(path: Path, line: int, problem: str, instead: str) -> UsageError:
    return UsageError(f"{path} line {line}: {problem}; {instead}")
