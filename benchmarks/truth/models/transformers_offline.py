"""`transformers`, imported so that it asks nobody anything; also where torchvision's compiled ops do not load."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

from benchmarks.truth.models import torchvision_python

import transformers  # isort: skip

__all__ = ["torchvision_python", "transformers"]
