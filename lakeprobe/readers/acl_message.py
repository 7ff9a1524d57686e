"""Decodes the head of an Ascend kernel dump file: the protobuf message DumpData that says which tensors follow it.

Only what a reader of tensors needs is kept: names, times, and of each tensor its type, format, shape and size.
Memory is bounded: a head has at most `LARGEST_HEAD` bytes, `_MOST_PARTS` tensors, buffers and workspaces, and
`_MOST_DIMENSIONS` dimensions a shape. Nothing is nested deeper than a shape in a tensor in the head.

The message is toolkit.dumpdata.DumpData. These public files define it alike, with the same field and enum numbers;
newer ones only add fields and values:

- mindspore-ai/mindspore: mindspore/ccsrc/debug/debugger/dump_data.proto
- hicann/runtime: src/dfx/trace/inc/toolchain/dump_data.proto (CANN, which writes the files)
- Ascend/msprobe: resource/dump_data.proto
- xiaobingling93-pixel/Ascend-mstt: debug/accuracy_tools/msprobe/ccsrc/third_party/ACL/AclDumpMsg.proto

The wire format: https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from lakeprobe.errors import DumpError

LARGEST_HEAD = 1 << 22
"""The maximum length of a head in bytes. A real one has some hundred for each tensor."""

_MOST_PARTS = 1 << 14
_MOST_DIMENSIONS = 64
_VARINT, _BYTES = 0, 2
_FIXED = {1: 8, 5: 4}
"""The lengths in bytes of the wire types of fixed length. None of the fields read here has one."""

_LARGEST_TAG = (1 << 32) - 1

# Field numbers; those of DimRange, OriginalOp, addresses and of contents inside the message are passed over.
_DUMP = {"version": 1, "dump_time": 2, "output": 3, "input": 4, "buffer": 5, "op_name": 6, "space": 8}
_INPUT = {"data_type": 1, "format": 2, "shape": 3, "size": 5, "original_shape": 6}
_OUTPUT = {"data_type": 1, "format": 2, "shape": 3, "size": 6, "original_shape": 7}
_SIZE_OF_BUFFER = 3
_DIMENSIONS = 1

DTYPES = {
    1: "float32", 2: "float16", 3: "int8", 4: "uint8", 5: "int16", 6: "uint16", 7: "int32", 8: "int64", 9: "uint32",
    10: "uint64", 11: "bool", 12: "float64", 16: "complex64", 17: "complex128", 27: "bfloat16", 34: "float8_e5m2",
    35: "float8_e4m3fn",
}  # fmt: skip
"""OutputDataType: those that have one plain value for each element, by the names of numpy and ml_dtypes."""

_OTHER_DTYPES = {
    0: "undefined", 13: "string", 14: "dual_sub_int8", 15: "dual_sub_uint8", 18: "qint8", 19: "qint16", 20: "qint32",
    21: "quint8", 22: "quint16", 23: "resource", 24: "string_ref", 25: "dual", 26: "variant", 28: "int4", 29: "uint1",
    30: "int2", 31: "uint2", 32: "complex32", 33: "hifloat8", 36: "float8_e8m0", 37: "float6_e3m2", 38: "float6_e2m3",
    39: "float4_e2m1", 40: "float4_e1m2",
}  # fmt: skip

_FORMATS = (
    "NCHW", "NHWC", "ND", "NC1HWC0", "FRACTAL_Z", "NC1C0HWPAD", "NHWC1C0", "FSR_NCHW", "FRACTAL_DECONV", "C1HWNC0",
    "FRACTAL_DECONV_TRANSPOSE", "FRACTAL_DECONV_SP_STRIDE_TRANS", "NC1HWC0_C04", "FRACTAL_Z_C04", "CHWN",
    "FRACTAL_DECONV_SP_STRIDE8_TRANS", "HWCN", "NC1KHKWHWC0", "BN_WEIGHT", "FILTER_HWCK", "HASHTABLE_LOOKUP_LOOKUPS",
    "HASHTABLE_LOOKUP_KEYS", "HASHTABLE_LOOKUP_VALUE", "HASHTABLE_LOOKUP_OUTPUT", "HASHTABLE_LOOKUP_HITS",
    "C1HWNCoC0", "MD", "NDHWC", "FRACTAL_ZZ", "FRACTAL_NZ", "NCDHW", "DHWCN", "NDC1HWC0", "FRACTAL_Z_3D", "CN", "NC",
    "DHWNC", "FRACTAL_Z_3D_TRANSPOSE", "FRACTAL_ZN_LSTM", "FRACTAL_Z_G", "RESERVED", "ALL", "NULL", "ND_RNN_BIAS",
    "FRACTAL_ZN_RNN", "YUV", "YUV_A", "NCL", "FRACTAL_Z_WINO", "C1HWC0",
)  # fmt: skip
"""OutputFormat, from 0."""


class DumpedTensor(Struct):
    """An input or output of the kernel. `size` is in bytes; shapes are in elements, -1 where a size was not known."""

    data_type: int = 0
    format: int = 0
    shape: list[int] = field(default_factory=list)
    original_shape: list[int] = field(default_factory=list)
    size: int = 0


class DumpHead(Struct):
    """The content of a head. `buffers` and `workspaces` are the bytes of the blocks after the tensors."""

    version: str = ""
    dump_time: int = 0
    op_name: str = ""
    inputs: list[DumpedTensor] = field(default_factory=list)
    outputs: list[DumpedTensor] = field(default_factory=list)
    buffers: list[int] = field(default_factory=list)
    workspaces: list[int] = field(default_factory=list)


def dtype_name(data_type: int) -> str:
    """The name of an OutputDataType: numpy's where it has one, else as in the definition, in lower case."""
    return DTYPES.get(data_type) or _OTHER_DTYPES.get(data_type) or f"data_type {data_type}"


def format_name(number: int) -> str:
    """The name of an OutputFormat, without its prefix FORMAT_."""
    return _FORMATS[number] if number < len(_FORMATS) else f"format {number}"


def decode(head: bytes) -> DumpHead:
    """Decode the serialised message `head`. Raises DumpError, which does not name the file, for what is none."""
    found = DumpHead()
    for number, value in _fields(memoryview(head)):
        if number == _DUMP["version"]:
            found.version = _text(value)
        elif number == _DUMP["op_name"]:
            found.op_name = _text(value)
        elif number == _DUMP["dump_time"]:
            found.dump_time = _integer(value)
        elif number == _DUMP["input"]:
            found.inputs.append(_tensor(value, _INPUT))
        elif number == _DUMP["output"]:
            found.outputs.append(_tensor(value, _OUTPUT))
        elif number == _DUMP["buffer"]:
            found.buffers.append(_buffer_size(value))
        elif number == _DUMP["space"]:
            found.workspaces.append(_buffer_size(value))
        if len(found.inputs) + len(found.outputs) + len(found.buffers) + len(found.workspaces) > _MOST_PARTS:
            raise DumpError(f"the head names more than {_MOST_PARTS} tensors")
    return found


def _tensor(value: int | memoryview, numbers: dict[str, int]) -> DumpedTensor:
    tensor = DumpedTensor()
    for number, inner in _fields(_message(value)):
        if number == numbers["data_type"]:
            tensor.data_type = _integer(inner)
        elif number == numbers["format"]:
            tensor.format = _integer(inner)
        elif number == numbers["size"]:
            tensor.size = _integer(inner)
        elif number == numbers["shape"]:
            _add_dimensions(tensor.shape, inner)
        elif number == numbers["original_shape"]:
            _add_dimensions(tensor.original_shape, inner)
    return tensor


def _buffer_size(value: int | memoryview) -> int:
    size = 0
    for number, inner in _fields(_message(value)):
        if number == _SIZE_OF_BUFFER:
            size = _integer(inner)
    return size


def _add_dimensions(shape: list[int], value: int | memoryview) -> None:
    """Append the dimensions of a message Shape, packed into one field (as proto3 writes them) or one a field."""
    for number, inner in _fields(_message(value)):
        if number != _DIMENSIONS:
            continue
        for extent in _varints(inner) if isinstance(inner, memoryview) else (inner,):
            shape.append(extent - (1 << 64) if extent >> 63 else extent)
            if len(shape) > _MOST_DIMENSIONS:
                raise DumpError(f"the head has a shape of more than {_MOST_DIMENSIONS} dimensions")


# ---- wire format ------------------------------------------------------------------------------------------


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a message in their order: the number, and an integer (varint) or a span of bytes."""
    position, end = 0, len(message)
    while position < end:
        tag, position = _varint(message, position)
        number, wire_type = tag >> 3, tag & 7
        if number == 0 or tag > _LARGEST_TAG:
            raise DumpError("the head is not a protobuf message")
        if wire_type == _VARINT:
            integer, position = _varint(message, position)
            yield number, integer
            continue
        if wire_type == _BYTES:
            length, position = _varint(message, position)
        elif wire_type in _FIXED:
            length = _FIXED[wire_type]
        else:
            raise DumpError("the head is not a protobuf message")
        if length > end - position:
            raise DumpError("the head is cut off or damaged")
        if wire_type == _BYTES:
            yield number, message[position : position + length]
        position += length


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    """The integer at `position`, modulo 2⁶⁴, and the position behind it."""
    value = 0
    for index in range(10):
        if position + index >= len(message):
            raise DumpError("the head is cut off or damaged")
        byte = message[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & ((1 << 64) - 1), position + index + 1
    raise DumpError("the head is not a protobuf message")


def _varints(packed: memoryview) -> Iterator[int]:
    position = 0
    while position < len(packed):
        value, position = _varint(packed, position)
        yield value


def _integer(value: int | memoryview) -> int:
    if isinstance(value, memoryview):
        raise DumpError("the head has bytes where a number belongs")
    return value


def _message(value: int | memoryview) -> memoryview:
    if not isinstance(value, memoryview):
        raise DumpError("the head has a number where a message belongs")
    return value


def _text(value: int | memoryview) -> str:
    try:
        return str(_message(value), "utf-8")
    except UnicodeDecodeError:
        raise DumpError("the head has text that is not UTF-8") from None
