"""A hook of mkdocs: links that leave docs/ lead to the repository, and a fence names its language alone."""

from __future__ import annotations

import re
from typing import Any

REPOSITORY = "https://github.com/lakeprobe/lakeprobe/blob/main/"

_FENCE = re.compile(r"^(```\w+) .*$", re.MULTILINE)
"""A fence with a second word, which tells tests what the block is. GitHub ignores it; the site would show no block."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the page with the links to files beside docs/ as addresses, and fences that the site understands."""
    return _FENCE.sub(r"\1", re.sub(r"\]\(\.\./", f"]({REPOSITORY}", markdown))
