"""Owns stdout: the one stream that results leave through, as an aligned table, CSV or JSON lines."""

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
"""What we write where the encoding of a stream lacks a sign of ours."""


_UNSHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Characters that steer a terminal, turn the order of the signs around them, or are not seen at all."""


def shown(text: str) -> str:
    """`text` with characters that steer the terminal as JSON escapes them: what a dump says is shown, never obeyed."""
    return _UNSHOWN.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _plainly(error: UnicodeError) -> tuple[str, int]:
    """How a sign is written that the stream cannot hold: ours as _PLAIN has it, others as Python escapes."""
    assert isinstance(error, UnicodeEncodeError)
    signs = error.object[error.start : error.end]
    return "".join(_PLAIN.get(sign) or sign.encode("ascii", "backslashreplace").decode() for sign in signs), error.end


def write_any_encoding() -> None:
    """Let stdout and stderr take every text, whatever their encoding is (C and Latin locales, Windows consoles)."""
    codecs.register_error("lakeprobe", _plainly)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="lakeprobe")


def text(lines: str) -> None:
    """Write text that is itself the result, such as a summary."""
    with _reader_may_leave():
        sys.stdout.write(shown(lines if lines.endswith("\n") or not lines else lines + "\n"))


def rows(columns: Sequence[str], values: Iterable[Row], format: str) -> None:
    """Write a relation in `format`, one of those that `lakeprobe.forms` has for rows."""
    with _reader_may_leave():
        forms.writers(forms.ROWS)[format](columns, values)


@contextmanager
def _reader_may_leave() -> Iterator[None]:
    """Write into the void once the reader of our output is gone (`| head`): the work goes on, and so its exit code."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def ranges(numbers: Iterable[int], dash: str = "–", separator: str = ", ") -> str:
    """Numbers in short: 0, 2–5, 7."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return separator.join(dash.join(map(str, run)) for run in runs)


def aligned(columns: Sequence[str], values: Iterable[Row]) -> str:
    """The relation as lines of aligned columns, whole: nothing is cut."""
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
"""What a terminal shows in a line at the least."""


def folded(lines: str) -> str:
    """Text whose longer lines go on in the next one, further in; nothing is cut."""
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
    """A value as table and CSV show it; NULL is empty."""
    if value is None:
        return ""
    return shown(str(value).replace("\n", "\\n"))
