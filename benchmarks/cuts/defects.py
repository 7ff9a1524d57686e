"""Defects that only a cut run can have, each a change by name, with the ops that are its cause."""

from __future__ import annotations

from collections.abc import Callable

import torch

from benchmarks.cuts.model import Place, SumBackward, Transformer
from benchmarks.truth.planted import Cause

Plant = Callable[[Place, list[Transformer]], None]


def plant(place: Place, chunks: list[Transformer]) -> None:
    """Give the defect of a place to its part of the model."""
    if place.defect:
        assert place.defect in DEFECTS, place.defect


DEFECTS: dict[str, object] = {"": None}
del torch, SumBackward, Cause
