"""The grammar of entry names in dump.json, and debug.json, for every release of msprobe.

    API               {ApiType}.{api}.{call}.{forward|backward}
    module or cell    {Module|Cell}.{path}.{Class}.{forward|backward}.{call}
    parameter grads   {Module|Cell}.{path}.{Class}.parameters_grad[.{call}]     (the call number came with 26.x)
    debug point       {the user's name}.{call}.debug

Paths may hold numbers and words such as forward or input, so a name is read from its right end.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

_DIRECTIONS = ("forward", "backward")
_MOST_DIGITS = 9
"""The maximum number of digits of a call number. A longer one does not fit its column."""


class OpName(NamedTuple):
    """An entry name in parts; see the columns of the same names in `schemas/ops.yaml`."""

    kind: str
    api_type: str
    api: str
    module_class: str | None
    direction: str | None
    call: int | None
    stem: str


def parse(name: str) -> OpName:
    """Split the entry name `name`. A name of no known form is of the kind `other`."""
    front, _, last = name.rpartition(".")
    if last in _DIRECTIONS:
        api, _, call = front.rpartition(".")
        if _is_call(call) and "." in api:
            kind, api_type, api, _, _, _, stem = _api(api, last)
            return OpName(kind, api_type, api, None, last, int(call), stem)
    parts = name.split(".")
    before = parts[-2] if len(parts) > 1 else ""
    if before in _DIRECTIONS and _is_call(last) and len(parts) > 3:
        return _module("module", parts[:-2], before, int(last))
    if last == "parameters_grad" and len(parts) > 2:
        return _module("parameters_grad", parts[:-1], last, None)
    if before == "parameters_grad" and _is_call(last) and len(parts) > 3:
        return _module("parameters_grad", parts[:-2], before, int(last))
    return OpName("other", parts[0], ".".join(parts[1:]), None, None, None, name)


def debug_point(name: str) -> OpName:
    """Split the name of a value that the user saved (debug.json). Every name is valid."""
    saved, _, call = name.removesuffix(".debug").rpartition(".")
    if saved and name.endswith(".debug") and _is_call(call):
        return OpName("debug", "debug", saved, None, None, int(call), f"{saved}.debug")
    return OpName("debug", "debug", name, None, None, None, name)


def parameter(name: str) -> OpName:
    """The name of a parameter of a checkpoint, which has no call."""
    return OpName("parameter", "Parameter", name, None, None, None, name)


def setting(section: str, name: str) -> OpName:
    """The name of a setting that a run begins with."""
    return OpName("setting", section, name, None, None, None, f"{section}.{name}")


def _is_call(part: str) -> bool:
    return part.isdecimal() and len(part) <= _MOST_DIGITS


@lru_cache(maxsize=1024)
def _api(name: str, direction: str) -> OpName:
    api_type, _, api = name.partition(".")
    return OpName("api", api_type, api, None, direction, None, f"{name}.{direction}")


def _module(kind: str, parts: list[str], direction: str, call: int | None) -> OpName:
    stem = ".".join([*parts, direction])
    return OpName(kind, parts[0], ".".join(parts[1:-1]), parts[-1], direction, call, stem)
