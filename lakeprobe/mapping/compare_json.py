"""Reads an old compare.json, in which msprobe up to 8.3 took the paths that are options today."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from msgspec import Struct

from lakeprobe.bounds import LARGEST_MAPPING
from lakeprobe.errors import UsageError
from lakeprobe.mapping.files import Api
from lakeprobe.system.files import open_regular

_SIDES = {"npu_path": "target_path", "bench_path": "golden_path"}
"""Paths that must be given: the old key and today's name."""


class OldCompare(Struct, frozen=True):
    """The content of compare.json. Paths are relative to the working directory, as in msprobe.

    ranks and steps: numbers to compare. Empty means all.
    common: the paths are folders of single tensors. These are recognised without it.
    map_dict: names of saved values in the target and in golden.
    notes: remarks on options that have no effect.
    """

    target: Path
    golden: Path
    stack_path: Path | None = None
    ranks: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    common: bool = False
    map_dict: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def apis(self) -> tuple[Api, ...]:
        """map_dict as lines of an API mapping. Each saved value is a debug point of its name."""
        return tuple((f"debug.{target}", f"debug.{golden}") for target, golden in self.map_dict)


def read(path: Path) -> OldCompare:
    """Return what the compare.json at `path` asks for.

    Raises UsageError if the file cannot be read or is not JSON, and for an unknown key, a value of the wrong type, and
    a missing or wrong path.
    """
    given = _object(path)
    for key, value in given.items():
        if key not in _KINDS:
            raise UsageError(f"{path}: the key {key!r} is unknown; {_closest_key(key)}")
        is_kind, kind = _KINDS[key]
        if not is_kind(value):
            raise UsageError(f"{path}: {key} is {_short(value)}; write {kind}")
    target, golden = (_side(path, given, *names) for names in _SIDES.items())
    stack_path = Path(given["stack_path"]) if given.get("stack_path") else None
    return OldCompare(
        target=target,
        golden=golden,
        stack_path=stack_path,
        ranks=_numbers(given.get("rank_id")),
        steps=_numbers(given.get("step_id")),
        common=bool(given.get("common")),
        map_dict=tuple((given.get("map_dict") or {}).items()),
        notes=_notes(path, target, stack_path),
    )


def _is_text(value: object) -> bool:
    return value is None or (isinstance(value, str) and _is_whole(value))


def _is_whole(text: str) -> bool:
    """Return whether the text has neither a NUL nor half a surrogate pair.

    JSON allows both, but paths and tables do not.
    """
    return "\0" not in text and text.encode("utf-8", "ignore").decode() == text


def _is_flag(value: object) -> bool:
    return value is None or isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def _are_numbers(value: object) -> bool:
    return value is None or _is_number(value) or (isinstance(value, list) and all(map(_is_number, value)))


def _are_names(value: object) -> bool:
    return value is None or (isinstance(value, dict) and all(map(_is_name, [*value, *value.values()])))


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value) and _is_whole(value)


_KINDS: dict[str, tuple[Callable[[object], bool], str]] = {
    "npu_path": (_is_text, "a path in quotes"),
    "bench_path": (_is_text, "a path in quotes"),
    "target_path": (_is_text, "a path in quotes"),
    "golden_path": (_is_text, "a path in quotes"),
    "stack_path": (_is_text, "a path in quotes"),
    "is_print_compare_log": (_is_flag, "true or false"),
    "rank_id": (_are_numbers, "a list of numbers from 0, such as [0, 1]"),
    "step_id": (_are_numbers, "a list of numbers from 0, such as [0, 1]"),
    "common": (_is_flag, "true or false"),
    "map_dict": (_are_names, 'names of both sides, such as {"input": "x"}'),
}
"""The keys of compare.json: a check of the value, and its description. null counts as not given."""


def _object(path: Path) -> dict[str, Any]:
    try:
        with open_regular(path) as file:
            data = file.read(LARGEST_MAPPING + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{path} cannot be read: {reason}") from error
    if len(data) > LARGEST_MAPPING:
        raise UsageError(f"{path} has more than {LARGEST_MAPPING // 1_000_000} MB; it is not a compare.json")
    example = 'write {"npu_path": "…", "bench_path": "…"}'
    try:
        given = json.loads(data.decode("utf-8-sig"), object_pairs_hook=lambda pairs: _without_twins(path, pairs))
    except json.JSONDecodeError as error:
        raise UsageError(f"{path} line {error.lineno}: it is not JSON ({error.msg}); {example}") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path} line {line}: it is not UTF-8; save the file as UTF-8") from None
    except (ValueError, RecursionError):  # a number with thousands of digits, or thousands of brackets
        raise UsageError(f"{path} is not a compare.json; {example}") from None
    if not isinstance(given, dict):
        raise UsageError(f"{path} is not a compare.json, it holds {_short(given)}; {example}")
    return given


def _without_twins(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique: dict[str, Any] = {}
    for key, value in pairs:
        if key in unique:
            raise UsageError(f"{path}: the key {key!r} occurs twice; write each key once")
        unique[key] = value
    return unique


def _side(path: Path, given: dict[str, Any], old: str, today: str) -> Path:
    if old in given and today in given:
        raise UsageError(f"{path}: {old} and {today} are the same; write one of them")
    key = today if today in given else old
    text = given.get(key)
    if not text:
        raise UsageError(f"{path}: {key} is missing or empty; write the path of a dump.json or of its folder")
    if not os.path.exists(text):
        raise UsageError(
            f"{path}: {key} {text!r} does not exist; write a path that does, relative to the working directory"
        )
    return Path(text)


def _numbers(value: int | list[int] | None) -> tuple[int, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, int) else tuple(dict.fromkeys(value))


def _notes(path: Path, target: Path, stack_path: Path | None) -> tuple[str, ...]:
    folder = target if target.is_dir() else target.parent
    if stack_path is None or os.path.realpath(stack_path) == os.path.realpath(folder / "stack.json"):
        return ()
    return (
        f"{path}: stack_path {str(stack_path)!r} is not used; call stacks are read from stack.json beside the dump",
    )


def _closest_key(key: str) -> str:
    close = get_close_matches(key, _KINDS, n=1)
    return f"write {f'{close[0]}, or ' if close else ''}one of {', '.join(_KINDS)}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
