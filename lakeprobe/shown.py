"""Makes hostile text harmless on a terminal: everything that a dump contains goes through `shown`."""

from __future__ import annotations

import json
import re

_UNSHOWN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Characters that control a terminal, change the direction of text, or are invisible."""


def shown(text: str) -> str:
    """Return `text` with its control characters as JSON escapes, so that a terminal shows and does not obey them."""
    return _UNSHOWN.sub(lambda found: json.dumps(found[0])[1:-1], text)
