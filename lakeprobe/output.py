"""Owns stdout, and writes all results to it: as an aligned table, CSV or JSON lines."""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lakeprobe import forms

Row = Sequence[Any]


_PLAIN = {"─": "-", "–": "-", "−": "-", "…": "...", "×": "x"}
"""Replacements for our characters that the encoding of a stream lacks."""


_UNSHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Characters that control a terminal, change the direction of text, or are invisible."""


def shown(text: str) -> str:
    """Return `text` with its control characters as JSON escapes, so that a terminal shows and does not obey them."""
    return _UNSHOWN.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _replaced(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that the stream lacks: ours as in _PLAIN, others by Python escapes."""
    assert isinstance(error, UnicodeEncodeError)
    missing = error.object[error.start : error.end]
    written = [_PLAIN.get(letter) or letter.encode("ascii", "backslashreplace").decode() for letter in missing]
    return "".join(written), error.end


def write_any_encoding() -> None:
    """Let stdout and stderr accept every text, whatever their encoding (C and Latin locales, Windows consoles)."""
    codecs.register_error("lakeprobe", _replaced)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="lakeprobe")


def text(lines: str) -> None:
    """Write text that is itself the result, such as a summary."""
    with _reader_may_leave():
        sys.stdout.write(shown(lines if lines.endswith("\n") or not lines else lines + "\n"))


def rows(columns: Sequence[str], values: Iterable[Row], format: str) -> None:
    """Write a relation in `format`, one of the forms that `lakeprobe.forms` lists for rows."""
    with _reader_may_leave():
        forms.writers(forms.ROWS)[format](columns, values)


@contextmanager
def _reader_may_leave() -> Iterator[None]:
    """Discard output once its reader is gone (`| head`): the work and its exit code stay the same."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def ranges(numbers: Iterable[int], dash: str = "–", separator: str = ", ") -> str:
    """Write numbers in short: 0, 2–5, 7."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return separator.join(dash.join(map(str, run)) for run in runs)


def aligned(columns: Sequence[str], values: Iterable[Row]) -> str:
    """Return the relation as lines of aligned columns. Nothing is cut."""
    table = [
        [str(column) for column in columns],
        *([_cell(value).replace("\t", "\\t") for value in row] for row in values),
    ]
    widths = [max(len(row[index]) for row in table) for index in range(len(columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join(lines) + "\n"


def _aligned_cell(value: Any) -> str:
    return _cell(value).replace("\t", "\\t")


_WIDTH = 80
"""The narrowest terminal to write for, in characters."""


def folded(lines: str) -> str:
    """Wrap long lines of `lines`, with the continuation indented. Nothing is cut."""
    return "\n".join(part for line in lines.split("\n") for part in _folded_line(line))


def _folded_line(line: str) -> list[str]:
    if len(line) <= _WIDTH:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.wrap(
        line, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    )


def write_table(columns: Sequence[str], values: Iterable[Row]) -> None:
    """Write rows as aligned columns."""
    sys.stdout.write(shown(aligned(columns, values)))


def write_csv(columns: Sequence[str], values: Iterable[Row]) -> None:
    """Write rows as csv; line breaks in cells are written as \\n."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([shown(column) for column in columns])
    writer.writerows([_cell(value) for value in row] for row in values)


def write_json(columns: Sequence[str], values: Iterable[Row]) -> None:
    """Write rows as one JSON object per line."""
    for row in values:
        line = json.dumps(dict(zip(columns, row, strict=True)), default=str, ensure_ascii=False)
        sys.stdout.write(shown(line) + "\n")


def _cell(value: Any) -> str:
    """Return a value as tables and CSV show it; NULL is empty."""
    if value is None:
        return ""
    return shown(str(value).replace("\n", "\\n"))
