"""A hook of mkdocs: links that leave docs/ lead to the repository."""

from __future__ import annotations

import re
from typing import Any

REPOSITORY = "https://github.com/lakeprobe/lakeprobe/blob/main/"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the page with the links to files beside docs/ as addresses."""
    return re.sub(r"\]\(\.\./", f"]({REPOSITORY}", markdown)
