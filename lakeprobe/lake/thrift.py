"""Writes structures in Thrift's compact protocol, in which the headers and the footer of a Parquet file are written.

A value is its type in the protocol and its bytes. Numbers are not negative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Value = tuple[int, bytes]

_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
_LONG_LIST = 15


def _varint(number: int) -> bytes:
    """Return the number in groups of seven bits, the lowest first; a group before another has the eighth bit."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def i32(number: int) -> Value:
    """Return a number of 32 bits."""
    return _I32, _varint(number << 1)  # the lowest bit is the sign


def i64(number: int) -> Value:
    """Return a number of 64 bits."""
    return _I64, _varint(number << 1)


def text(value: str) -> Value:
    """Return a text."""
    encoded = value.encode()
    return _BINARY, _varint(len(encoded)) + encoded


def array(values: Sequence[Value]) -> Value:
    """Return a list of values of one type; of structures, if there are none."""
    type = values[0][0] if values else _STRUCT
    size = len(values)
    head = bytes([size << 4 | type]) if size < _LONG_LIST else bytes([_LONG_LIST << 4 | type]) + _varint(size)
    return _LIST, head + b"".join(encoded for _, encoded in values)


def struct(fields: Mapping[int, Value]) -> Value:
    """Return a structure of fields by number, in ascending order, each at most 15 above the one before."""
    parts, last = [], 0
    for number, (type, encoded) in fields.items():
        parts.append(bytes([(number - last) << 4 | type]) + encoded)
        last = number
    return _STRUCT, b"".join(parts) + b"\0"
