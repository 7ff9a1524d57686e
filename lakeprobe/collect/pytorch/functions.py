"""Finds the torch functions to record."""

from collections.abc import Iterator
from typing import Any

import torch

from lakeprobe.collect.pytorch import apis
from lakeprobe.collect.watching.places import Place, place_of


def places() -> list[Place]:
    """Return every listed function that this torch has, in its current state."""
    found: list[Place] = []
    for prefix, owner, names in _groups():
        for name in sorted(names):
            place = place_of(prefix, owner, name)
            if place is not None:
                found.append(place)
    return found


def _groups() -> Iterator[tuple[str, Any, frozenset[str]]]:
    yield "Functional", torch.nn.functional, apis.FUNCTIONAL
    yield "Tensor", torch.Tensor, apis.TENSOR
    yield "Torch", torch, apis.TORCH
    yield "VF", torch._VF, apis.VARIABLE_FUNCTIONS
    try:
        import torch_npu
    except ImportError:
        return
    yield "NPU", torch_npu, apis.NPU
