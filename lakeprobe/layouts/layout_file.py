"""Reads a user's layout file: the axes of the mesh, and how tensors lie over them.

axes: {pp: 2, dp: 2, tp: 2}        # the slowest first; left out, they are inferred
tensors:                           # an expression, searched for in the row's name: how the tensor lies
  mlp\\.up\\.weight: {tp: shard 0}
  mixed\\.output: {tp: partial sum}
  hidden: b s[cp] h[tp]            # a dimension each, with the axis that cuts it
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lakeprobe import strict_yaml
from lakeprobe.errors import UsageError
from lakeprobe.layouts.placements import COPY, MEAN, SHARD, SUM, Rule, Way

_WAYS = {"copy": COPY, "partial sum": SUM, "partial mean": MEAN}
_SHARD = re.compile(r"shard (\d{1,2})")
_DIMENSION = re.compile(r"[\w*]+(?:\[(\w+)\])?")
_EXPECTED = "write copy, shard D, partial sum or partial mean"


@dataclass(frozen=True, slots=True)
class LayoutFile:
    """What a layout file says. `axes`: their sizes, the slowest first; empty if it leaves them to the run."""

    axes: Mapping[str, int] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()


def read(path: Path) -> LayoutFile:
    """What the file at `path` says. Raises UsageError, which names the line."""
    top = strict_yaml.read(path)
    if top is None:
        raise UsageError(f"{path} is no layout file: it is empty; write axes: and tensors:")
    if not isinstance(top, strict_yaml.Mapping):
        raise top.error("is no layout file", "write axes: and tensors:")
    axes: dict[str, int] = {}
    rules: list[Rule] = []
    for key, node in top.pairs:
        if key.value not in ("axes", "tensors") or not isinstance(node, strict_yaml.Mapping):
            raise key.error(f"{key.value} is not known here", "write axes: {tp: 2} or tensors: {PATTERN: LAYOUT}")
        for name, value in node.pairs:
            if key.value == "axes":
                axes[name.value] = _size(value)
            else:
                rules.append(_rule(name, value))
    return LayoutFile(axes, tuple(rules))


def _size(node: strict_yaml.Node) -> int:
    if isinstance(node, strict_yaml.Text) and re.fullmatch(r"[1-9]\d{0,5}", node.value):
        return int(node.value)
    raise node.error("is no size of an axis", "write a number such as 2")


def _rule(name: strict_yaml.Text, node: strict_yaml.Node) -> Rule:
    try:
        pattern = re.compile(name.value)
    except re.error as error:
        raise name.error(f"is no regular expression: {error}", r"write one such as mlp\.up\.weight") from None
    if isinstance(node, strict_yaml.Text):
        return Rule(pattern, _dimensions(node))
    if not isinstance(node, strict_yaml.Mapping):
        raise node.error("is no layout", "write {tp: shard 0}, or the dimensions as b s[cp] h[tp]")
    return Rule(pattern, {axis.value: _way(value) for axis, value in node.pairs})


def _dimensions(node: strict_yaml.Text) -> dict[str, Way]:
    """The dimensions in SGLang's notation: a name each, and in brackets the axis that cuts it."""
    words = node.value.split()
    found = [_DIMENSION.fullmatch(word) for word in words]
    if not words or None in found:
        raise node.error(f"{node.value!r} does not name dimensions", "write them as b s[cp] h[tp]")
    return {match[1]: Way(SHARD, number) for number, match in enumerate(found) if match is not None and match[1]}


def _way(node: strict_yaml.Node) -> Way:
    text = node.value if isinstance(node, strict_yaml.Text) else ""
    if match := _SHARD.fullmatch(text):
        return Way(SHARD, int(match[1]))
    if text not in _WAYS:
        raise node.error(f"{text!r} is no way to lie over an axis", _EXPECTED)
    return Way(_WAYS[text])
