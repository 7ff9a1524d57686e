"""Shows answers in a notebook: the text of the command line with its colours, and HTML tables."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
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
from lakeprobe.table_text import Table, set_apart

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


def page(text: Callable[[], str]) -> str:
    """Return what `text` says on the command line as HTML for a light and a dark page. What a dump contains is escaped.

    A host of code shows it too: it needs no script and no style sheet.
    """
    with set_apart() as tables:
        written = shown(text())
    pieces = re.split(f"({'|'.join(tables)})\n" if tables else "(?!)", written)
    return "".join(_table(tables[piece]) if piece in tables else _prose(piece) for piece in pieces if piece.strip())


def _prose(text: str) -> str:
    """Return lines of text, which wrap where the page ends."""
    style = "line-height:1.4;white-space:pre-wrap;word-break:normal;background:none;color:inherit;margin:4px 0"
    return f'<pre style="{style}">{colours.html(escape(text.strip(chr(10))))}</pre>'


def _table(table: Table) -> str:
    styles = [f"padding:2px 8px;vertical-align:top;text-align:{'right' if it else 'left'}" for it in table.numeric]
    head = _cells("th", [escape(shown(name)) for name in table.columns], styles)
    rows = ([colours.html_cell(escape(shown(text))) for text in row] for row in table.rows)
    body = "".join(f"<tr>{_cells('td', row, styles)}</tr>" for row in rows)
    table_style = "margin:4px 0;border-collapse:collapse"
    return f'<table style="{table_style}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _cells(tag: str, contents: Sequence[str], styles: Sequence[str]) -> str:
    return "".join(f'<{tag} style="{style}">{content}</{tag}>' for content, style in zip(contents, styles, strict=True))


def _html(answer: Any) -> str:
    return page(lambda: TEXTS[type(answer)](answer))


def _print(answer: Any, printer: Any, cycle: bool) -> None:
    printer.text(shown(TEXTS[type(answer)](answer)))
