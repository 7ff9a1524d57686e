"""How many examples Hypothesis tries: a quarter of what a test asks for, and all of it under `make fuzz`."""

import os

FUZZ = bool(os.environ.get("LAKEPROBE_FUZZ"))


def examples(most: int) -> int:
    """How many of at `most` so many examples are tried."""
    return most if FUZZ else max(5, most // 4)
