"""Finds the real dumps, which are too large for the repository. Tests that need them are skipped without them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
DUMPS = Path(os.environ.get("LAKEPROBE_DUMPS") or CHECKOUT.parent / "shared" / "dumps")
NOT_THERE = "needs the real dumps (LAKEPROBE_DUMPS names their folder)"
needs_dumps = pytest.mark.skipif(not DUMPS.is_dir(), reason=NOT_THERE)
