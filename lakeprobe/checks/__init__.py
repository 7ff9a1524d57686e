"""Checks of one op: is the op itself wrong, or only its input?

An op of a run is called again on what it was given (`calls.py`, `worker.py`), measured against a reference in higher
precision (`measures.py`), and judged in SQL (`sql/checks`). Only `pytorch/` and `mindspore/` import a framework, and
only inside worker processes.
"""

SEED = 1234
"""Seeds random inputs, as msprobe does."""

LIMIT = 60.0
"""Seconds after which a call is given up."""
