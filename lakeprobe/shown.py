"""Makes hostile text harmless: what a dump contains goes to a terminal through `shown`, to csv through `csv_cell`."""

from __future__ import annotations

import json
import re
from typing import Any

_UNSHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Characters that control a terminal, change the direction of text, or are invisible."""


_CODE = ("code", "frames", "own_frames")
"""Fields of answers with lines of code."""

_FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?%?|[-+]?(inf|nan)", re.IGNORECASE)


def csv_cell(value: object) -> object:
    """Return what goes into csv: a text that a spreadsheet would run as a formula has an apostrophe before it.

    sql/macros/csv_cell does the same in DuckDB, which quotes a carriage return; Python does not, so it is `shown`.
    """
    if not isinstance(value, str):
        return value
    text = shown(value)
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def as_text(name: str) -> str:
    """Return a name of the file system as text: what is not UTF-8 in it as escapes, which no other text has there."""
    return name.encode("utf-8", "backslashreplace").decode()


def shown(text: str) -> str:
    """Return `text` with its control characters as JSON escapes, so that a terminal shows and does not obey them."""
    return _UNSHOWN.sub(lambda found: json.dumps(found[0])[1:-1], text)


def unbroken(value: Any) -> Any:
    """Return `value` with newlines and tabs of all its texts as escapes: a name from a dump is no line of an answer.

    Lines of code, whose blanks are folded where they are told, stay.
    """
    if isinstance(value, str):
        return value.replace("\n", "\\n").replace("\t", "\\t")
    if isinstance(value, list):
        return [unbroken(item) for item in value]
    if isinstance(value, dict):
        return {key: item if key in _CODE else unbroken(item) for key, item in value.items()}
    return value
