"""How often tests repeat themselves with random inputs: all that they ask for only under `make fuzz`."""

import os

FUZZ = bool(os.environ.get("LAKEPROBE_FUZZ"))


def examples(most: int) -> int:
    """How many of at `most` so many examples are tried."""
    return most if FUZZ else max(5, most // 4)


def seeds(first: int, most: int) -> range:
    """A third of `most` seeds, for a test that repeats itself with other noise; all of them under `make fuzz`."""
    return range(first, first + (most if FUZZ else max(1, most // 3)))
