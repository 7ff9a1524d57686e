"""Colours what goes to a terminal. The texts of answers are plain; this is the only place that knows colours."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TextIO

_RED, _YELLOW, _GREEN, _CYAN, _BOLD, _DIM = "31", "33", "32", "36", "1", "2"

_CELLS = (
    ("error|critical|different|breaks|damaged|unreadable", _RED),
    ("warning|high|unmatched|only in target|only in golden|partly compared|incomplete", _YELLOW),
    ("pass|equal|holds|equal within noise", _GREEN),
)
"""What is coloured if it is a whole cell of a table."""

_STYLES = (
    (r"(?<=^Verdict: )(?:equal|equal within noise)$", f"{_BOLD};{_GREEN}"),
    (r"(?<=^Verdict: )(?:different|nothing compared|unreadable)$", f"{_BOLD};{_RED}"),
    (r"(?<=^Verdict: )[a-z ]+$", f"{_BOLD};{_YELLOW}"),
    (r"^(?:The first op that differs|First difference)[^:]*: .*$", _BOLD),
    *((rf"(?<=  )(?:{words})(?=  |$)", style) for words, style in _CELLS),
    (r"(?<=: )lakeprobe [a-z-]+ .*$|^  lakeprobe [a-z-]+.*$", _CYAN),
    (r"^[─ ]*─[─ ]*$", _DIM),
)
"""What is coloured in a line, in this order; the first that matches a place wins."""

_PATTERN = re.compile("|".join(f"(?P<s{place}>{pattern})" for place, (pattern, _) in enumerate(_STYLES)))


def wanted(stream: TextIO) -> bool:
    """Return whether `stream` shows colours: a terminal that is not dumb, unless NO_COLOR or FORCE_COLOR decides."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def coloured(text: str) -> str:
    """Return `text`, which must have no control characters, with the escapes of a terminal around its verdicts."""
    return _marked(text, lambda style, words: f"\x1b[{style}m{words}\x1b[0m")


def html(text: str) -> str:
    """Return `text`, which is escaped already, with spans around its verdicts: colours for light and dark pages."""
    return _marked(text, lambda style, words: f'<span style="{_css(style)}">{words}</span>')


def html_cell(text: str) -> str:
    """Return the text of a cell, which is escaped already, with a span around it if it is a verdict."""
    style = next((style for words, style in _CELLS if re.fullmatch(words, text)), None)
    return f'<span style="{_css(style)}">{text}</span>' if style else text


_CSS = {
    _RED: "color:#d1242f", _YELLOW: "color:#b07800", _GREEN: "color:#1a8a3c", _CYAN: "color:#0f86a8",
    _BOLD: "font-weight:bold", _DIM: "opacity:0.5",
}  # fmt: skip


def _css(style: str) -> str:
    return ";".join(_CSS[part] for part in style.split(";"))


def _marked(text: str, mark: Callable[[str, str], str]) -> str:
    lines = text.split("\n")
    below = [*lines[1:], ""]
    return "\n".join(
        line if next_line.startswith("──") else _PATTERN.sub(lambda found: mark(_style(found), found[0]), line)
        for line, next_line in zip(lines, below, strict=True)  # the head of a table has no verdicts
    )


def _style(found: re.Match[str]) -> str:
    assert found.lastgroup is not None
    return _STYLES[int(found.lastgroup[1:])][1]
