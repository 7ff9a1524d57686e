"""Lays out rows as a table that fits the terminal. Nothing is cut: cells are folded, or each row becomes a block."""

from __future__ import annotations

import os
import re
import sys
import textwrap
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TextIO

from lakeprobe.shown import shown, unbroken

UNBOUND = 100_000
"""The width of what goes to no terminal: its lines stay whole, as grep and awk want them."""

_DIGITS = 5
"""The significant digits of a number in a table; csv and json have all."""

_GAP = "  "
_NARROWEST = 12
"""The narrowest a column is folded to. A table that needs narrower columns is written as blocks."""

_SENTENCE = 22
"""The narrowest a sentence is folded to as long as names can stay whole instead."""

_JOINTS = re.compile(r"(?<=[./,=@_])")
"""Where a long word may be folded: behind the joints of names and paths."""


class Table(NamedTuple):
    """A table before it is laid out: the cells as texts, and which columns are of numbers."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[bool]


_apart: ContextVar[dict[str, Table] | None] = ContextVar("tables that are set apart", default=None)


@contextmanager
def set_apart() -> Iterator[dict[str, Table]]:
    """Let `aligned` return a line that no dump can contain for each table; yields the tables by that line."""
    found: dict[str, Table] = {}
    token = _apart.set(found)
    try:
        yield found
    finally:
        _apart.reset(token)


def terminal_width() -> int:
    """Return the width to write answers for: $COLUMNS, that of the terminal, or UNBOUND if stdout is none."""
    columns = os.environ.get("COLUMNS", "")
    return max(int(columns), 40) if columns.isdecimal() and int(columns) else stream_width(sys.stdout)


def stream_width(stream: TextIO) -> int:
    """Return the width of the terminal that `stream` is, or UNBOUND if it is none."""
    if not stream.isatty():
        return UNBOUND
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except OSError:  # it is a terminal for Python only
        columns = 0
    return max(columns or 80, 40)  # 0: the terminal does not know


def aligned(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], width: int | None = None, *, name_empty: bool = False
) -> str:
    """Return rows as lines of aligned columns that fit `width` (default: `terminal_width()`).

    Numbers have five significant digits and stand on the right. If the table is too wide, columns without any value
    are left out (`name_empty`: and named below it). Then cells are folded. If that is not enough, each row becomes a
    block with a line per column.
    """
    width = width or terminal_width()
    names, cells = [str(column) for column in columns], [list(row) for row in rows]
    numeric = [_is_numeric(row[place] for row in cells) for place in range(len(names))]
    table = [[_text(value) for value in row] for row in cells]
    tables = _apart.get()
    if tables is not None:
        import secrets

        mark = secrets.token_hex(16)
        tables[mark] = Table(names, table, numeric)
        return f"{mark}\n"
    if _total(_natural(names, table)) <= width:
        return _grid(names, table, _natural(names, table), numeric)
    kept = [place for place in range(len(names)) if any(row[place] for row in table)] or list(range(len(names)))
    empty = [name for place, name in enumerate(names) if place not in kept]
    names, numeric = [names[place] for place in kept], [numeric[place] for place in kept]
    table = [[row[place] for place in kept] for row in table]
    below = "\n".join(fold(f"without any value: {', '.join(empty)}", width)) + "\n" if empty and name_empty else ""
    widths = _narrowed(names, table, numeric, width)
    return (_grid(names, table, widths, numeric) if widths else _blocks(names, table, width)) + below


def aligned_below(columns: Sequence[str], rows: Sequence[Sequence[Any]], where: Collection[str]) -> str:
    """Return rows as `aligned` does; those columns of `where` that are the same in all rows are a line above."""
    same = {place for place, name in enumerate(columns) if name in where and _is_repeated([row[place] for row in rows])}
    above = ", ".join(f"{columns[place]} {_text(rows[0][place])}" for place in sorted(same))
    left = [place for place in range(len(columns)) if place not in same]
    table = aligned([columns[place] for place in left], [[row[place] for place in left] for row in rows])
    return f"{above}:\n{table}" if above else table


def _is_repeated(values: Sequence[Any]) -> bool:
    return len(values) > 1 and all(value == values[0] for value in values)


def columns_wide(text: str) -> int:
    """Return how many columns of a terminal `text` takes: two for a wide letter, none for a combining one."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text
    )


def fold(text: str, width: int, indent: str = "    ") -> list[str]:
    """Return `text` as lines of at most `width`, folded at blanks; words that are longer stay whole."""
    if columns_wide(text) <= width:
        return [text]
    return textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]


def number(value: float) -> str:
    """Return a number with as many digits as tables show."""
    return f"{value:.{_DIGITS}g}"


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return number(value)
    if isinstance(value, list):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    return shown(unbroken(str(value)))


def _is_numeric(values: Iterable[Any]) -> bool:
    found = [value for value in values if value is not None]
    return bool(found) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in found)


def _natural(names: Sequence[str], table: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(columns_wide, column)) for column in zip(names, *table, strict=True)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _narrowed(
    names: Sequence[str], table: Sequence[Sequence[str]], numeric: Sequence[bool], width: int
) -> list[int] | None:
    """Return widths that fit, the widest columns narrowed first; None if there are none."""
    widths, least, prose = _natural(names, table), [], []
    for name, is_number, *cells in zip(names, numeric, *table, strict=True):
        longest = max(map(columns_wide, cells), default=0)
        body = longest if is_number else min(longest, max([_NARROWEST, *map(_longest_piece, cells)]))
        least.append(max(body, _longest_piece(name)))
        prose.append(any(" " in cell for cell in cells))
    if _total(least) > width:
        return None
    while _total(widths) > width:
        wider = [place for place in range(len(widths)) if widths[place] > least[place]]
        sentences = [place for place in wider if prose[place] and widths[place] > _SENTENCE]  # names stay whole
        widths[max(sentences or wider, key=widths.__getitem__)] -= 1
    return widths


def _longest_piece(text: str) -> int:
    return max((columns_wide(piece.rstrip()) for piece in _pieces(text)), default=0)


def _pieces(text: str) -> list[str]:
    """Return the parts between which a cell may be folded: words, and of a long word what its joints divide."""
    words = re.split(r"(?<= )", text)
    return [piece for word in words for piece in (_JOINTS.split(word) if len(word) >= _NARROWEST else [word])]


def _grid(names: Sequence[str], table: Sequence[Sequence[str]], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    lines = [*_row(names, widths, numeric), _GAP.join("─" * width for width in widths)]
    for row in table:
        lines += _row(row, widths, numeric)
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> list[str]:
    folded = [_folded(cell, width) for cell, width in zip(cells, widths, strict=True)]
    lines = []
    for number in range(max(map(len, folded), default=0)):
        parts = [part[number] if number < len(part) else "" for part in folded]
        lines.append(_GAP.join(map(_padded, parts, widths, numeric)).rstrip())
    return lines


def _padded(text: str, width: int, on_the_right: bool) -> str:
    blanks = " " * (width - columns_wide(text))
    return blanks + text if on_the_right else text + blanks


def _folded(text: str, width: int) -> list[str]:
    """Return a cell as lines of at most `width`, folded at blanks and behind joints."""
    if columns_wide(text) <= width:
        return [text]
    lines = [""]
    for piece in _pieces(text):
        if lines[-1] and columns_wide((lines[-1] + piece).rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def _blocks(names: Sequence[str], table: Sequence[Sequence[str]], width: int) -> str:
    """Return each row as a block with a line for each column that has a value."""
    room = max(map(columns_wide, names), default=0) + len(_GAP)
    lines = []
    for place, row in enumerate(table, 1):
        lines.append(f"── {place} ──")
        for name, text in zip(names, row, strict=True):
            if text:
                first, *rest = _folded(text, max(width - room, _NARROWEST))
                lines += [_padded(name, room, False) + first, *(" " * room + part for part in rest)]
    return "\n".join(lines) + "\n"
