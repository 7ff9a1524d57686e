"""`diffusers`, imported so that it asks nobody anything; also where torchvision's compiled ops do not load."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from benchmarks.truth.models import torchvision_python

import diffusers  # isort: skip

__all__ = ["diffusers", "torchvision_python"]
