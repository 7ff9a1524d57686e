"""Reads a user's layout file: the mesh, and how tensors lie over it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakeprobe.layouts.placements import Rule


@dataclass(frozen=True, slots=True)
class LayoutFile:
    """What a layout file says. `axes`: their sizes, the slowest first; empty if it leaves them to the run."""

    axes: Mapping[str, int] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
