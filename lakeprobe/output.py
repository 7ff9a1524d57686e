"""Owns stdout, and writes all results to it: as an aligned table, CSV or JSON lines."""

from __future__ import annotations

import codecs
import csv
import io
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, TextIO

from lakeprobe import colours, forms
from lakeprobe.errors import LakeprobeError, UsageError
from lakeprobe.shown import shown as shown
from lakeprobe.table_text import aligned as aligned
from lakeprobe.table_text import aligned_below as aligned_below
from lakeprobe.table_text import fold, terminal_width

Row = Sequence[Any]


_PLAIN = {"─": "-", "–": "-", "−": "-", "…": "...", "×": "x", "✓": "*"}
"""Replacements for our characters that the encoding of a stream lacks."""


def _replaced(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that the stream lacks: ours as in _PLAIN, others by Python escapes."""
    assert isinstance(error, UnicodeEncodeError)
    missing = error.object[error.start : error.end]
    written = [_PLAIN.get(letter) or letter.encode("ascii", "backslashreplace").decode() for letter in missing]
    return "".join(written), error.end


def prepare_streams() -> None:
    """Let stdout and stderr accept every text, whatever their encoding (C and Latin locales, Windows consoles).

    One that the caller closed (`>&-`) discards it, and a closed stdin (`<&-`) is empty. A stderr that cannot be written
    discards it too: the exit code stays that of what was done.
    """
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115 it stays open until the program ends
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    codecs.register_error("lakeprobe", _replaced)
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # whoever reads it says what is not UTF-8
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="lakeprobe")
    _never_fail(sys.stderr)


def _never_fail(stream: TextIO) -> None:
    """Let `stream` discard everything from the first text on that cannot be written, whoever writes: typer, Python."""
    for name in ("write", "flush"):
        method = getattr(stream, name)
        if not hasattr(method, "__wrapped__"):  # it is, where one process runs several commands
            setattr(stream, name, _or_discard(method, stream))


def _or_discard(method: Callable[..., object], stream: TextIO) -> Callable[..., object]:
    @wraps(method)
    def called(*given: object) -> object:
        try:
            return method(*given)
        except OSError:
            _discard(stream)
            return None

    return called


def _discard(stream: TextIO) -> None:
    """Let what `stream` still holds, and what follows, go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def text(lines: str) -> None:
    """Write text that is itself the result, such as a summary."""
    with _reader_may_leave():
        _write(shown(lines if lines.endswith("\n") or not lines else lines + "\n"))


def document(lines: str) -> None:
    """Write what another program reads, such as JSON, YAML or SQL: without colours, and as wide as it is."""
    with _reader_may_leave():
        sys.stdout.write(shown(lines if lines.endswith("\n") or not lines else lines + "\n"))


def _write(lines: str) -> None:
    sys.stdout.write(colours.coloured(lines) if colours.wanted(sys.stdout) else lines)


def rows(columns: Sequence[str], values: Iterable[Row], format: str) -> None:
    """Write a relation in `format`, one of the forms that `lakeprobe.forms` lists for rows."""
    with _reader_may_leave():
        forms.writers(forms.ROWS)[format](columns, values)


@contextmanager
def _reader_may_leave() -> Iterator[None]:
    """Discard output once its reader is gone (`| head`): the work and its exit code stay the same.

    Raises LakeprobeError if stdout cannot be written for another reason, such as a full disk.
    """
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        _discard(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            raise LakeprobeError(f"stdout cannot be written: {error.strerror}") from error


def ranges(numbers: Iterable[int], dash: str = "–", separator: str = ", ") -> str:
    """Write numbers in short: 0, 2–5, 7."""
    return separator.join(_ranges(numbers, dash))


_MOST_RANGES = 12


def few_ranges(numbers: Iterable[int]) -> str:
    """Write numbers in short, but no more than a dozen ranges: 0, 2, 4 and 97 more."""
    known = set(numbers)
    written = _ranges(known, "–")
    if len(written) <= _MOST_RANGES:
        return ", ".join(written)
    first = _ranges(sorted(known)[: _MOST_RANGES - 1], "–")
    return f"{', '.join(first)} and {len(known) - (_MOST_RANGES - 1)} more"


def _ranges(numbers: Iterable[int], dash: str) -> list[str]:
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return [dash.join(map(str, run)) for run in runs]


def counted(number: int, what: str) -> str:
    """Return a number of things in words: 1 unit, 2 units."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def folded(lines: str) -> str:
    """Fold the lines of `lines` that are wider than the terminal, with the continuation indented. Nothing is cut."""
    width = terminal_width()
    return "\n".join(part for line in lines.split("\n") for part in _folded_line(line, width))


def _folded_line(line: str, width: int) -> list[str]:
    blanks = len(line) - len(line.lstrip())
    return [" " * blanks + part for part in fold(line[blanks:], width - blanks)]


def write_table(columns: Sequence[str], values: Iterable[Row]) -> None:
    """Write rows as aligned columns."""
    _write(shown(aligned(columns, values, name_empty=True)))


def write_csv(columns: Sequence[str], values: Iterable[Row]) -> None:
    """Write rows as csv; line breaks in cells are written as \\n."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([shown(column) for column in columns])
    writer.writerows([_cell(value) for value in row] for row in values)


def write_json(columns: Sequence[str], values: Iterable[Row]) -> None:
    """Write rows as one JSON object per line. NaN and infinities are texts, since JSON has no such numbers.

    Raises UsageError if two columns have one name, of which an object would keep one.
    """
    if twice := next((name for name, count in Counter(columns).items() if count > 1), None):
        raise UsageError(f"{twice} is the name of more than one column, and JSON would keep one; rename it with AS")
    for row in values:
        line = json.dumps(in_json(dict(zip(columns, row, strict=True))), ensure_ascii=False, allow_nan=False)
        sys.stdout.write(shown(line) + "\n")


def in_json(value: Any) -> Any:
    """Return a value of DuckDB, lists and mappings in depth, with a text for each part that JSON lacks."""
    if isinstance(value, dict):
        return {_key_in_json(key): in_json(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [in_json(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def _key_in_json(key: Any) -> str:
    found = in_json(key)
    return found if isinstance(found, str) else json.dumps(found)


def _cell(value: Any) -> str:
    """Return a value as tables and CSV show it; NULL is empty."""
    if value is None:
        return ""
    return shown(str(value).replace("\n", "\\n"))
