"""Where the real dumps are: too many for the repository. Tests that want them are skipped where they are not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
DUMPS = Path(os.environ.get("LAKEPROBE_DUMPS", CHECKOUT.parent / "shared" / "dumps"))
NOT_THERE = "the real dumps are not there (LAKEPROBE_DUMPS names their folder)"
needs_dumps = pytest.mark.skipif(not DUMPS.is_dir(), reason=NOT_THERE)
