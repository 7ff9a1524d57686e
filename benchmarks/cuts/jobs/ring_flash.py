"""Ring attention as one function with a backward of its own, against scaled_dot_product_attention."""

from __future__ import annotations

from typing import Any

from benchmarks.cuts.jobs import ring

DEFECTS = ring.DEFECTS


def train(watch: Any, defect: str) -> None:
    ring.train(watch, defect, flash=True)
