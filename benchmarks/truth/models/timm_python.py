"""`timm`, imported also where torchvision's compiled ops do not load."""

from __future__ import annotations

from benchmarks.truth.models import torchvision_python

import timm  # isort: skip

__all__ = ["timm", "torchvision_python"]
