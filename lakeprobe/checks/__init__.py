"""Checks of one op: is the op itself wrong, or only its input?

An op of a run is called again on what it was given (`calls.py`, `worker.py`), measured against a reference in higher
precision (`measures.py`), and judged in SQL (`sql/checks`). Only `pytorch/` and `mindspore/` import a framework, and
only inside worker processes.
"""

from __future__ import annotations

from lakeprobe.errors import UsageError

SEED = 1234
"""Seeds random inputs, as msprobe does."""

LIMIT = 60.0
"""Seconds after which a call is given up."""

_MOST_SEED = 2**32 - 1
"""The largest seed that the random generators of numpy and of both frameworks take."""


def check_seed(seed: int) -> None:
    """Raise UsageError unless `seed` can seed random numbers."""
    if not 0 <= seed <= _MOST_SEED:
        raise UsageError(f"the seed is {seed}; give a number from 0 to {_MOST_SEED}")
