"""The grammar of ptdbg_ascend's names, of every release, and what msprobe calls the same today.

    1.0         {call of any API}_{Type}_{api}[_{direction}]_{what}     1478_Tensor_permute_forward_input.0
    1.x to 5.x  {Type}_{api}_{call}_{direction}_{what}                  Tensor___add___0_forward_output
    6.0         {Type}.{api}.{call}.{direction}.{what}                  Torch.add.0.forward.input.0

`what` is input or output with indexes, or stack_info; a single tensor has no index. Names of APIs hold underscores
and digits, so a name is read from its right end. The accuracy checker's own names have stars for dots.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from lakeprobe.readers import names

STACK = "stack_info"

_NUMBER = "(?:0|[1-9][0-9]{0,8})"
_LINE = re.compile(rf"(.+)[_.](input|output|stack_info)(?:\.({_NUMBER}(?:\.{_NUMBER})*))?", re.DOTALL)
_TYPES = "Tensor|Torch|Functional|VF|NPU|Aten|Distributed"
_API = re.compile(rf"({_TYPES})[_.*](.+)[_.*]({_NUMBER})(?:[_.*](?:pre_)?(forward|backward))?", re.DOTALL)
_NUMBERED_API = re.compile(rf"({_NUMBER})_({_TYPES})_(.+?)(?:_(forward|backward))?", re.DOTALL)


class LineName(NamedTuple):
    """The name of a line: the op as msprobe names it, input, output or stack_info, and the indexes in it: 0, 1.0."""

    op: str
    what: str
    indexes: str


def split(name: str) -> LineName:
    """Split the name of a line. A name of no known form is an op of its own, with one output."""
    match = _LINE.fullmatch(name)
    if match is None:
        return LineName(name, "output", "0")
    return LineName(today(match[1]), match[2], match[3] or "0")


@lru_cache(maxsize=1 << 12)
def today(op: str, direction: str = "forward") -> str:
    """What msprobe calls the op `op`, {Type}.{api}.{call}.{direction}; `direction` is for a name that has none.

    A name that has no such form stays as it is.
    """
    if names.parse(op).kind != "other":
        return op
    if match := _API.fullmatch(op):
        return ".".join((match[1], match[2], match[3], match[4] or direction))
    if match := _NUMBERED_API.fullmatch(op):
        return ".".join((match[2], match[3], match[1], match[4] or direction))
    return op
