"""The changes of `lakeprobe.changes` for tensors, where they are: nothing leaves the device but a few numbers."""

from __future__ import annotations

from collections.abc import Callable

import torch

from lakeprobe.changes import CPU_TOLERANCE, NOISE, Compared, floor_of, judged

_WORDS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def name_of(dtype: torch.dtype) -> str:
    """Return the name of a dtype: float32 for torch.float32."""
    return str(dtype).removeprefix("torch.")


def add_noise(tensor: torch.Tensor) -> torch.Tensor:
    """Each element x with |x| > sqrt(noise) becomes x + noise."""
    noise = NOISE[name_of(tensor.dtype)]
    if not tensor.numel() or not float(tensor.abs().max()) >= noise:
        return tensor
    return torch.where(tensor.abs() > noise**0.5, tensor + noise, tensor)


def bit_noise(tensor: torch.Tensor) -> torch.Tensor:
    """The lowest bit of each element that is not subnormal is flipped."""
    flipped = (tensor.contiguous().view(_WORDS[tensor.element_size()]) ^ 1).view(tensor.dtype)
    return torch.where(tensor.abs() > torch.finfo(tensor.dtype).tiny, flipped, tensor)


def change_value(tensor: torch.Tensor) -> torch.Tensor:
    """The first element and the last are exchanged."""
    if tensor.numel() < 2:
        return tensor
    flat = tensor.clone().reshape(-1)
    flat[0], flat[-1] = flat[-1].clone(), flat[0].clone()
    return flat.reshape(tensor.shape)


FIRST_ONLY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "add_noise": add_noise,
    "change_value": change_value,
    "bit_noise": bit_noise,
}
"""Changes of the first floating-point tensor of a call."""


def compared(
    mode: str, plain: torch.Tensor, changed: torch.Tensor, *, backward: bool, limit: float | None = None
) -> Compared:
    """Compare a result with that of changed inputs, as `lakeprobe.changes.compared` does. `limit` is as in `judged`."""
    dtype = name_of(plain.dtype)
    floor = floor_of(dtype, backward=backward)
    one, other = changed.double(), plain.double()
    flips_sign = (one * other < -(floor**2)).any()
    quotient = one.abs().clamp(min=floor) / other.abs().clamp(min=floor)
    quotient = torch.where(quotient.isnan(), 1.0, quotient)
    near = (one - other).abs() <= CPU_TOLERANCE[dtype] * other.abs().clamp(min=1.0)
    is_within = (near | (one == other) | (one.isnan() & other.isnan())).all()
    largest = max(float(quotient.max()), 1 / max(float(quotient.min()), 1e-300))
    return judged(mode, largest, bool(flips_sign), bool(is_within), dtype, limit)
