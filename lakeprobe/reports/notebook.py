"""Shows answers in a notebook: the text of the command line, with its colours, and fit for a light and a dark page."""

from __future__ import annotations

import sys
from collections.abc import Callable
from html import escape
from typing import Any

from lakeprobe import colours
from lakeprobe.analysis.blame import Blame
from lakeprobe.analysis.communication import Communication
from lakeprobe.analysis.first_difference import FirstDifference
from lakeprobe.analysis.overflow import Overflow
from lakeprobe.reports.blame_text import blame_text
from lakeprobe.reports.communication_text import communication_text
from lakeprobe.reports.first_difference_text import first_difference_text
from lakeprobe.reports.overflow_text import overflow_text
from lakeprobe.shown import shown

TEXTS: dict[type, Callable[[Any], str]] = {
    Blame: blame_text,
    Communication: communication_text,
    FirstDifference: first_difference_text,
    Overflow: overflow_text,
}
"""The text of each kind of answer."""


def register() -> None:
    """Let the IPython shell of this process, if there is one, show answers with their texts."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        return
    formatters = shell.display_formatter.formatters
    for kind in TEXTS:
        formatters["text/plain"].for_type(kind, _print)
        formatters["text/html"].for_type(kind, _html)


def page(text: str) -> str:
    """Return a text of the command line as HTML. What a dump contains is escaped."""
    return (
        '<pre style="line-height:1.3;overflow-x:auto;white-space:pre;background:none;color:inherit">'
        f"{colours.html(escape(shown(text)))}</pre>"
    )


def _html(answer: Any) -> str:
    return page(TEXTS[type(answer)](answer))


def _print(answer: Any, printer: Any, cycle: bool) -> None:
    printer.text(shown(TEXTS[type(answer)](answer)))
