"""Computes what is recorded of a tensor: statistics in its own dtype, digests and contents.

Float32 tensors on the CPU are read once for all of their statistics (`lakeprobe.tensors.summary`). Their mean and norm
are accumulated in float64 and rounded once, so they depend on no release of torch, number of threads or processor. All
else is torch's own.

A tensor that is seen again is measured again. A version counter cannot tell that it is the same: collectives, fused
kernels, `.data` and memory corruption bypass it, and corruption above all must be found. Contents that are the same,
byte for byte, are kept once.
"""

import math
import re
import struct
from typing import Any

import numpy as np
import torch

from lakeprobe.collect.watching import values
from lakeprobe.collect.watching.values import NONE, Number, Statistics, Wide
from lakeprobe.tensors import summary

# The original functions, taken before any is replaced.
_aminmax = torch.aminmax
_count_nonzero = torch.count_nonzero
_mean = torch.mean
_norm = torch.linalg.vector_norm
_stack = torch.stack

_FLOAT32 = torch.float32
_INT64 = torch.int64
_SINGLES = struct.Struct("2f")
_REAL = frozenset({torch.float32, torch.float16, torch.bfloat16})
_COMPLEX = frozenset({torch.complex64, torch.complex128, torch.complex32})
_NARROW = frozenset(
    dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype) and "float8" in str(dtype)
)
_UNSIGNED = frozenset(getattr(torch, name) for name in ("uint16", "uint32", "uint64") if hasattr(torch, name))
"""Integers that torch has hardly a kernel for, but numpy has."""
_OPAQUE = frozenset(
    dtype
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype) and re.fullmatch(r"torch\.(u?int[1-7]|bits.*|float4.*)", str(dtype))
)
"""Dtypes whose elements are bits, or several numbers, that torch does not read as numbers."""
_KEPT = 64
"""The maximum number of arrays of contents that are held."""

_INF = math.inf
_HALF = frozenset({torch.float16, torch.bfloat16})
_SURE = 1e-12
"""The smallest reliable norm in float32. A norm up to this, or an infinite one, may lack squares outside float32's
range."""

_HEAD = 4096
"""The number of first bytes in which contents that differ mostly do so."""
_NORMAL = 2.0**-126
"""The smallest float32 number of full precision."""
_TOO_HIGH = 2.0**128 - 2.0**103
"""The lowest number that rounds to inf in float32."""


class Tensors:
    """Measures tensors, and holds the last contents."""

    def __init__(self, *, exact: bool = False, zeros: bool = True) -> None:
        """Prepare to measure. `exact` and `zeros` are passed to the function `wide`."""
        self._exact = exact
        self._zeros = zeros
        self._kept: dict[int, np.ndarray[Any, Any]] = {}

    def measure(self, tensor: torch.Tensor) -> tuple[Statistics, Wide | None]:
        """Return the results of the functions `statistics` and `wide`, for float32 tensors on the CPU in one pass."""
        if tensor.dtype is _FLOAT32 and tensor.is_cpu and tensor.dim():
            size = tensor.numel()
            address = tensor.data_ptr() if size else 0
            if address:  # not freed, and no zeros without memory
                if summary.is_native and (tensor.is_contiguous() or _is_dense(tensor)) and not tensor.is_neg():
                    return self._numbers_of(tensor, size, summary.at(address, size))
                return self._numbers_of(tensor, size, summary.of(_in_place(_detached(tensor).resolve_neg())))
        elif tensor.dtype is _INT64 and summary.knows_integers and tensor.is_cpu and tensor.is_contiguous():
            found = self._numbers_of_integers(tensor)
            if found is not None:
                return found
        plain = _detached(tensor)
        if plain.dtype is torch.complex32:
            plain = plain.to(torch.complex64)  # which has every number of it, and which numpy knows
        known = statistics(plain)
        return known, wide(plain, known, exact=self._exact, zeros=self._zeros)

    def _numbers_of(self, tensor: torch.Tensor, size: int, found: tuple[Any, ...]) -> tuple[Statistics, Wide]:
        """Return the numbers of a tensor of which a summary was `found`."""
        high, low, total, squares, zeros, minus, nans, above, below = found
        mean, norm = total / size, math.sqrt(squares)
        if nans or (above and below):
            mean, norm = math.nan, math.nan if nans else _INF  # of no sign
        if minus:  # which of 0.0 and -0.0 is the higher one is for torch to say
            low, high = (end.item() for end in _aminmax(_detached(tensor)))
        known = high, low, *_SINGLES.unpack(_SINGLES.pack(mean, _INF if norm >= _TOO_HIGH else norm))
        number = zeros if self._zeros or not norm < _INF or not low <= 0 <= high else None
        if self._exact or not (_NORMAL <= norm < _TOO_HIGH or not norm):
            return known, (mean, norm, nans, above, below, number)
        return known, (None, None, 0, 0, 0, number)

    def _numbers_of_integers(self, tensor: torch.Tensor) -> tuple[Statistics, Wide] | None:
        """Return the numbers of a tensor of int64, if float64 has every sum on the way to them.

        Mean and norm are then rounded once, in whatever order torch would add.
        """
        size = tensor.numel()
        address = tensor.data_ptr() if size and tensor.dim() else 0
        if not address:
            return None
        high, low, total, squares, zeros = summary.of_integers_at(address, size)
        if squares < 0:
            return None
        number = 0 if low > 0 or high < 0 else zeros if self._zeros else None
        return (high, low, None, None), (total / size, math.sqrt(squares), 0, 0, 0, number)

    def copy(self, tensor: torch.Tensor) -> "np.ndarray[Any, Any] | None":
        """Return the result of the function `copy`.

        If the bytes are the same as before, returns the same array as before.
        """
        made = copy(_detached(tensor))
        if made is None:
            return None
        known = self._kept.pop(tensor.data_ptr(), None)
        if known is None or (known.shape, known.dtype) != (made.shape, made.dtype) or not _have_same_bytes(made, known):
            known = made
        self._kept[tensor.data_ptr()] = known
        if len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]
        return known

    def forget_all(self) -> None:
        """Forget all contents."""
        self._kept.clear()


def _detached(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor detached from the graph, so that our computations stay out of it."""
    return tensor.detach() if tensor.requires_grad else tensor


def _is_dense(tensor: torch.Tensor) -> bool:
    """Return whether the elements fill a block of memory, in any order and each once."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def statistics(tensor: torch.Tensor) -> Statistics:
    """Return Max, Min, Mean and Norm (Euclidean) of a strided tensor in its own dtype by torch, bit-equal to msprobe's.

    Complex tensors are measured by absolute value, without Norm. Bool gives any and all as Max and Min. A 0-d tensor
    gives its value four times. Integers and float64 give Max and Min. Empty, float8 and meta tensors, and those that
    have no numbers for torch, give four times None.
    """
    if tensor.dtype not in _REAL or not tensor.dim():
        return _unusual(tensor)
    if not tensor.numel() or tensor.is_meta:
        return NONE
    if not tensor.is_cpu:
        low, high = _aminmax(tensor)
        on_device = _stack((high, low, _mean(tensor), _norm(tensor))).tolist()
        return on_device[0], on_device[1], on_device[2], on_device[3]
    low, high = _aminmax(tensor)
    return high.item(), low.item(), _mean(tensor).item(), _norm(tensor).item()


def _unusual(tensor: torch.Tensor) -> Statistics:
    dtype = tensor.dtype
    if not tensor.numel() or tensor.is_meta or dtype in _NARROW or dtype in _OPAQUE:
        return NONE
    if dtype in _COMPLEX:
        size = np.abs(_in_place(tensor.cpu().resolve_conj()))
        return np.max(size).item(), np.min(size).item(), np.mean(size).item(), None
    if dtype is torch.bool:
        return bool(tensor.any().item()), bool(tensor.all().item()), None, None
    if not tensor.dim():
        value = tensor.item()
        return value, value, value, value
    if dtype in _UNSIGNED:
        array = _in_place(tensor.cpu())
        return np.max(array).item(), np.min(array).item(), None, None
    low, high = _aminmax(tensor)
    return high.item(), low.item(), None, None


def wide(tensor: torch.Tensor, known: Statistics, *, exact: bool, zeros: bool = True) -> Wide | None:
    """Return wide statistics: those for which a tensor's own dtype may be too narrow. `known` are its plain statistics.

    Returns None if these are NONE, except for float8: it has no plain statistics, only wide ones.

    Mean and norm are accumulated in float64. Unless `exact`, float32 tensors, and float16 and bfloat16 ones on a
    device, use float32 if it can hold the squares. The norm of millions of equal float32 numbers is then off by 1e-3.
    NaN and inf are not skipped: the mean of numbers with NaN or inf is NaN, inf or -inf. In bool tensors False is 0 and
    True is 1. Complex numbers count by absolute value, which is NaN if either part is. Without `zeros`, zeros are
    counted only if that takes no pass through the tensor.
    """
    dtype = tensor.dtype
    if dtype in _NARROW and tensor.numel() and not tensor.is_meta:
        tensor = tensor.float()
        return wide(tensor, statistics(tensor), exact=True, zeros=zeros)
    high, low, mean, norm = known
    if high is None or low is None:
        return None
    if dtype in _COMPLEX:
        return values.wide(tensor.cpu().resolve_conj().resolve_neg().numpy())
    if dtype in _UNSIGNED and tensor.dim():
        return values.wide(_in_place(tensor.cpu()))
    if dtype is torch.bool:
        ones = int(_count_nonzero(tensor))
        return ones / tensor.numel(), ones**0.5, 0, 0, 0, tensor.numel() - ones
    if not tensor.dim():
        value = float(high)
        return value, abs(value), int(value != value), int(value == _INF), int(value == -_INF), int(not value)
    if dtype in _HALF:
        tensor, mean, norm = tensor.double() if tensor.is_cpu else tensor.float(), None, None
    if not -_INF < low <= high < _INF:
        return _not_finite(tensor)
    found = 0 if low > 0 or high < 0 else _count(tensor, 0) if zeros else None
    return (*_sums(tensor, mean, norm, exact=exact), 0, 0, 0, found)


def _sums(tensor: torch.Tensor, mean: Number, norm: Number, *, exact: bool) -> tuple[float | None, float | None]:
    """Return mean and norm of finite numbers.

    Both are None if the known `mean` and `norm` of a float32 tensor suffice.
    """
    if tensor.dtype is torch.float32 and not exact:
        known = mean is not None
        if mean is None or norm is None:
            mean, norm = _mean(tensor).item(), _norm(tensor).item()
        if _SURE < norm < _INF and -_INF < mean < _INF:
            return (None, None) if known else (mean, norm)
    numbers = tensor.double()
    return _mean(numbers).item(), _norm(numbers).item()


def _not_finite(tensor: torch.Tensor) -> Wide:
    """Return the wide statistics of real numbers with at least one NaN or inf, which determines mean and norm."""
    number = tensor.numel()
    not_numbers = number - _count(tensor, tensor)  # NaN alone is not equal to itself
    above, below = _count(tensor, _INF), _count(tensor, -_INF)
    mean = math.nan if not_numbers or (above and below) else _INF if above else -_INF
    return mean, math.nan if not_numbers else _INF, not_numbers, above, below, _count(tensor, 0)


def _count(tensor: torch.Tensor, value: "float | torch.Tensor") -> int:
    """Return how many elements equal a number, or the matching elements of a tensor on the same device."""
    if not tensor.is_cpu:
        return int(_count_nonzero(tensor == value))
    # numpy is three times as fast as torch here.
    array = _in_place(tensor.resolve_neg())
    return int(np.count_nonzero(array == (array if value is tensor else value)))


def crc32(tensor: torch.Tensor) -> str:
    """Return the CRC-32 of the tensor's bytes in C order. msprobe writes it as md5."""
    return values.crc32(_bytes(tensor))


def xor(tensor: torch.Tensor) -> str | Number:
    """Return the XOR of the tensor's bytes in C order.

    As in msprobe, float8 and empty tensors give None, and a 0-d tensor gives its value.
    """
    if not tensor.numel() or tensor.dtype in _NARROW or tensor.dtype in _OPAQUE:
        return None
    if not tensor.dim():
        value: Number = tensor.item()
        return value
    return values.xor(_bytes(tensor))


def copy(tensor: torch.Tensor) -> "np.ndarray[Any, Any] | None":
    """Return a read-only copy as a numpy array in C order. Returns None for dtypes without a numpy equivalent."""
    contents = tensor.detach().cpu().resolve_conj().resolve_neg()
    dtype = _numpy_dtype(contents.dtype)
    if dtype is None:
        return None
    array = np.empty(tuple(contents.shape), dtype)
    torch.from_numpy(_raw(array)).copy_(_flat(contents))
    array.flags.writeable = False
    return array


def _numpy_dtype(dtype: torch.dtype) -> "np.dtype[Any] | None":
    name = str(dtype).removeprefix("torch.")
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        kind = getattr(ml_dtypes, name, None)
        return None if kind is None else np.dtype(kind)


def _raw(array: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Return the bytes of an array in C order, without a copy."""
    return array.reshape(-1).view(np.uint8)


def _have_same_bytes(one: "np.ndarray[Any, Any]", other: "np.ndarray[Any, Any]") -> bool:
    one, other = _raw(one), _raw(other)
    return np.array_equal(one[:_HEAD], other[:_HEAD]) and np.array_equal(one, other)


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor on the CPU in C order."""
    flat = tensor.contiguous().reshape(-1)
    if flat.stride(0) != 1:  # one element that was expanded counts as contiguous whatever its stride
        flat = flat.clone(memory_format=torch.contiguous_format)
    return flat.view(torch.uint8)


def _bytes(tensor: torch.Tensor) -> "np.ndarray[Any, Any]":
    return _in_place(_flat(tensor.detach().cpu().resolve_conj().resolve_neg()))


class _Memory:
    """Exports the memory of a tensor on the CPU to numpy through DLPack.

    After Tensor.numpy the tensor could never be resized again, but FSDP frees the memory of gathered parameters that
    way.
    """

    __slots__ = ("_capsule",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self._capsule = torch._C._to_dlpack(tensor)

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # the CPU


def _in_place(tensor: torch.Tensor) -> "np.ndarray[Any, Any]":
    """Return the elements of a tensor on the CPU without a copy. Drop the array before training continues."""
    array: np.ndarray[Any, Any] = np.from_dlpack(_Memory(tensor))
    return array
