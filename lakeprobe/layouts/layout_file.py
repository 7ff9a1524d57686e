"""Reads a user's layout file: the axes of the mesh, and how tensors lie over them.

axes: {pp: 2, dp: 2, tp: 2}        # the slowest first; left out, they are inferred
tensors:                           # an expression, searched for in OP.SLOT: how the tensor lies; the first that fits
  mlp\\.up\\.weight: {tp: shard 0}
  mixed\\.output: {tp: partial sum}
  hidden: b s[cp] h[tp]            # a name per dimension, with the axis that cuts it; for tensors with as many
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path

from msgspec import Struct, field

from lakeprobe import strict_yaml
from lakeprobe.errors import LakeError, UsageError
from lakeprobe.layouts.mesh import STAGES
from lakeprobe.layouts.placements import COPY, MEAN, SHARD, SUM, Rule, Way

_WAYS = {"copy": COPY, "partial sum": SUM, "partial mean": MEAN}
_SHARD = re.compile(r"shard (\d{1,2})")
_DIMENSION = re.compile(r"[\w*]+(?:\[(\w+)\])?")
_EXPECTED = "write copy, shard D, partial sum or partial mean"


class LayoutFile(Struct, frozen=True):
    """What a layout file says. `axes`: their sizes, the slowest first; empty if it leaves them to the run."""

    axes: Mapping[str, int] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()


def read(path: Path) -> LayoutFile:
    """What the file at `path` says. Raises UsageError, which names the line."""
    top = strict_yaml.read(path)
    if top is None:
        raise UsageError(f"{path} is not a layout file: it is empty; write axes: and tensors:")
    if not isinstance(top, strict_yaml.Mapping):
        raise top.error("is not a layout file", "write axes: and tensors:")
    axes: dict[str, int] = {}
    rules: list[Rule] = []
    for key, node in top.pairs:
        if key.value not in ("axes", "tensors") or not isinstance(node, strict_yaml.Mapping):
            raise key.error(f"{key.value} is unknown", "write axes: {tp: 2} or tensors: {PATTERN: LAYOUT}")
        for name, value in node.pairs:
            if key.value == "axes":
                axes[name.value] = _size(value)
            else:
                rules.append(_rule(name, value))
    return LayoutFile(axes, tuple(rules))


def check_axes(file: LayoutFile, axes: Collection[str]) -> None:
    """Raise LakeError if a line is about an axis that the job does not have, or about stages, which cut no tensor."""
    known = {*axes, *file.axes} - {STAGES}
    for rule in file.rules:
        for name in rule.ways:
            if name not in known:
                raise LakeError(
                    f"the layout file says how {rule.pattern.pattern} lies over {name}, "
                    f"along which no tensors of the run are cut; write one of {', '.join(sorted(known))}"
                )


def _size(node: strict_yaml.Node) -> int:
    if isinstance(node, strict_yaml.Text) and re.fullmatch(r"[1-9]\d{0,5}", node.value):
        return int(node.value)
    raise node.error("is not a size of an axis", "write a number such as 2")


def _rule(name: strict_yaml.Text, node: strict_yaml.Node) -> Rule:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # of what will mean something else one day, such as [[a]
            pattern = re.compile(name.value)
    except (re.error, FutureWarning) as error:
        raise name.error(f"is not a regular expression: {error}", r"write one such as mlp\.up\.weight") from None
    if isinstance(node, strict_yaml.Text):
        return Rule(pattern, _dimensions(node), len(node.value.split()))
    if not isinstance(node, strict_yaml.Mapping):
        raise node.error("is not a layout", "write {tp: shard 0}, or the dimensions as b s[cp] h[tp]")
    return Rule(pattern, {axis.value: _way(value) for axis, value in node.pairs})


def _dimensions(node: strict_yaml.Text) -> dict[str, Way]:
    """The dimensions, alike SGLang's notation: a name each, and in brackets the axis that cuts it."""
    ways: dict[str, Way] = {}
    for number, word in enumerate(node.value.split()):
        match = _DIMENSION.fullmatch(word)
        if match is None:
            raise node.error(f"{node.value!r} does not name dimensions", "write them as b s[cp] h[tp]")
        if match[1] in ways:
            raise node.error(f"{match[1]} cuts two dimensions of {node.value!r}", "let each axis cut one")
        if match[1]:
            ways[match[1]] = Way(SHARD, number)
    if not ways:
        raise node.error(f"{node.value!r} says of no dimension which axis cuts it", "write b s[cp] h[tp]")
    return ways


def _way(node: strict_yaml.Node) -> Way:
    text = node.value if isinstance(node, strict_yaml.Text) else ""
    if match := _SHARD.fullmatch(text):
        return Way(SHARD, int(match[1]))
    if text not in _WAYS:
        raise node.error(f"{text!r} is not a layout along an axis", _EXPECTED)
    return Way(_WAYS[text])
