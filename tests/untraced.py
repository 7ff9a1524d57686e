"""The environment of programs that `make coverage` does not trace: they cannot write what it would say of them."""

from __future__ import annotations

import os


def environment() -> dict[str, str]:
    """Return the environment without what starts a trace."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
