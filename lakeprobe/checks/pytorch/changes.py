"""The ways in which inputs are changed, and how far two results may then be apart.

The definitions and numbers are msprobe's (free_benchmark): docs/ops.md.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from lakeprobe.checks.pytorch.tensors import Array

Change = Callable[[torch.Tensor], torch.Tensor]

NOISE = {torch.bfloat16: 1e-4, torch.float16: 1e-6, torch.float32: 1e-8, torch.float64: 1e-16}
"""What is added to an element, and the least value that counts in a ratio, squared."""
LIMITS = {"float16": 1.002, "bfloat16": 1.004, "float32": 1.0002, "float64": 1.0002}
"""How large the ratio of two results may be."""
CPU_TOLERANCE = {"float32": 2.0**-14, "float16": 2.0**-11, "bfloat16": 2.0**-8, "float64": 2.0**-14}
BACKWARD_FLOOR = 1e-3
_WORDS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def add_noise(tensor: torch.Tensor) -> torch.Tensor:
    """Each element x with |x| > sqrt(noise) becomes x + noise."""
    noise = NOISE.get(tensor.dtype)
    if noise is None or not tensor.numel() or float(tensor.abs().max()) < noise:
        return tensor
    return torch.where(tensor.abs() > noise**0.5, tensor + noise, tensor)


def bit_noise(tensor: torch.Tensor) -> torch.Tensor:
    """The lowest bit of each element that is not subnormal is flipped."""
    words = _WORDS.get(tensor.element_size())
    if words is None or tensor.dtype not in NOISE:
        return tensor
    flipped = (tensor.contiguous().view(words) ^ 1).view(tensor.dtype)
    return torch.where(tensor.abs() > torch.finfo(tensor.dtype).tiny, flipped, tensor)


def change_value(tensor: torch.Tensor) -> torch.Tensor:
    """The first element and the last are exchanged."""
    if tensor.numel() < 2:
        return tensor
    flat = tensor.clone().reshape(-1)
    flat[0], flat[-1] = flat[-1].clone(), flat[0].clone()
    return flat.reshape(tensor.shape)


def improve_precision(tensor: torch.Tensor) -> torch.Tensor:
    """16 bits become float32."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


FIRST_ONLY: dict[str, Change] = {"add_noise": add_noise, "change_value": change_value, "bit_noise": bit_noise}
"""Changes of the first floating-point tensor of a call."""


def ratio(changed: Array, plain: Array, *, backward: bool) -> tuple[float, bool]:
    """How far two results are apart, as the largest quotient of two elements from 1 on, and whether a sign flipped.

    Elements are at least sqrt(noise) here, of gradients at least 1e-3. All elements count, not the last chunk alone.
    """
    dtype = getattr(torch, plain.dtype.name, torch.float32)
    floor = BACKWARD_FLOOR if backward else NOISE.get(dtype, NOISE[torch.float32]) ** 0.5
    one, other = (torch.from_numpy(array.astype("float64")) for array in (changed, plain))
    flips = bool((one * other < -(floor**2)).any())
    quotient = (one.abs().clamp(min=floor) / other.abs().clamp(min=floor)).nan_to_num(1.0)
    return max(float(quotient.max()), 1 / max(float(quotient.min()), 1e-300)), flips


def within_cpu_tolerance(changed: Array, plain: Array) -> bool:
    """Whether a result is that of the CPU: small elements by their difference, others by their relative one."""
    tolerance = CPU_TOLERANCE.get(plain.dtype.name, 2.0**-14)
    one, other = (torch.from_numpy(array.astype("float64")) for array in (changed, plain))
    return bool(torch.isclose(one, other, rtol=0, atol=tolerance, equal_nan=True).logical_or(
        (one - other).abs() <= tolerance * other.abs()
    ).all())  # fmt: skip
