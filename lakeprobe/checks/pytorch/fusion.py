"""Fusion ops of Ascend NPUs in plain torch: the definition of each, as torch_npu's documentation gives it.

On a machine with torch_npu the device runs the real op, and these are its reference. Elsewhere they are both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from lakeprobe.checks.calls import CannotRunError


def find(api: str) -> Callable[..., Any]:
    """The reference function of an NPU op. Raises CannotRunError if there is none."""
    function = _FUNCTIONS.get(api)
    if function is None:
        raise CannotRunError(f"there is no reference in plain torch for NPU.{api}")
    return function


def _fast_gelu(x: Tensor) -> Tensor:
    """x·exp(0.851·(x − |x|)) / (1 + exp(−1.702·|x|))."""
    size = x.abs()
    return x * torch.exp(0.851 * (x - size)) / (1 + torch.exp(-1.702 * size))


def _rms_norm(x: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    """The normalised x·gamma, and 1 / rms over the axes of gamma."""
    axes = tuple(range(-gamma.dim(), 0))
    inverse = torch.rsqrt(x.square().mean(axes, keepdim=True) + epsilon)
    return x * inverse * gamma, inverse


def _rotary_mul(x: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half") -> Tensor:
    """x·r1 + rotated(x)·r2."""
    if rotary_mode == "half":
        first, second = x.chunk(2, dim=-1)
        turned = torch.cat((-second, first), dim=-1)
    else:
        turned = torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).reshape(x.shape)
    return x * r1 + turned * r2


def _swiglu(x: Tensor, dim: int = -1) -> Tensor:
    """silu of the first half times the second."""
    first, second = x.chunk(2, dim=dim)
    return functional.silu(first) * second


def _scaled_masked_softmax(x: Tensor, mask: Tensor, scale: float = 1.0, fixed_triu_mask: bool = False) -> Tensor:
    """Softmax over the last axis of x·scale, where masked elements count as -10000."""
    if fixed_triu_mask:
        mask = torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
    return functional.softmax((x * scale).masked_fill(mask, -10000.0), dim=-1)


def _confusion_transpose(x: Tensor, perm: list[int], shape: list[int], transpose_first: bool) -> Tensor:
    """permute and then reshape, or the other way round."""
    if transpose_first:
        return x.permute(*perm).contiguous().view(*shape)
    return x.view(*shape).permute(*perm)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x·weightᵀ + bias."""
    return functional.linear(x, weight, bias)


def _layer_norm_eval(
    x: Tensor, normalized_shape: list[int], weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Layer norm."""
    return functional.layer_norm(x, normalized_shape, weight, bias, eps)


def _mish(x: Tensor) -> Tensor:
    """x·tanh(softplus(x))."""
    return functional.mish(x)


def _group_norm_silu(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, group: int, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor]:
    """silu of the group norm, and mean and 1 / standard deviation of each group."""
    grouped = x.reshape(x.shape[0], group, -1)
    mean = grouped.mean(-1)
    deviation = torch.rsqrt(grouped.var(-1, unbiased=False) + eps)
    return functional.silu(functional.group_norm(x, group, weight, bias, eps)), mean, deviation


def _gating_top_k_softmax(x: Tensor, finished: Tensor | None = None, k: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """The k largest of the softmax, the experts that they are of, and the row numbers, column by column."""
    values, experts = functional.softmax(x, dim=-1).topk(k, dim=-1)
    rows = torch.arange(values.numel(), dtype=torch.int32, device=x.device).reshape(k, -1).t().contiguous()
    experts = experts.to(torch.int32)
    if finished is not None:
        experts = torch.where(finished.unsqueeze(-1), x.shape[-1], experts)
    return values, experts, rows


def _sort_v2(x: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    """The sorted values alone."""
    return torch.sort(x, dim=dim, descending=descending)[0]


def _apply_adam(
    beta1_power: float, beta2_power: float, lr: float, beta1: float, beta2: float, epsilon: float, grad: Tensor,
    use_locking: bool | None = None, use_nesterov: bool | None = None, out: list[Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """A step of Adam: variable and both moments after it. `out` has them before it."""
    if out is None:
        raise CannotRunError("npu_apply_adam has its variable and moments in out, which the dump lacks")
    variable, first, second = out
    rate = lr * (1 - beta2_power) ** 0.5 / (1 - beta1_power)
    first = beta1 * first + (1 - beta1) * grad
    second = beta2 * second + (1 - beta2) * grad.square()
    direction = beta1 * first + (1 - beta1) * grad if use_nesterov else first
    return variable - rate * direction / (second.sqrt() + epsilon), first, second


def _apply_adam_w(
    beta1_power: float, beta2_power: float, lr: float, weight_decay: float, beta1: float, beta2: float, epsilon: float,
    grad: Tensor, max_grad_norm: Tensor | None = None, amsgrad: bool | None = None, maximize: bool | None = None,
    out: list[Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """A step of AdamW: variable and both moments after it. `out` has them before it."""
    if out is None or amsgrad:
        raise CannotRunError("npu_apply_adam_w without out, or with amsgrad, has no reference here")
    variable, first, second = out
    grad = -grad if maximize else grad
    first = beta1 * first + (1 - beta1) * grad
    second = beta2 * second + (1 - beta2) * grad.square()
    beta1_power, beta2_power = beta1_power * beta1, beta2_power * beta2
    size = second.sqrt() / (1 - beta2_power) ** 0.5 + epsilon
    return variable * (1 - lr * weight_decay) - lr * first / (1 - beta1_power) / size, first, second


def _fusion_attention(
    query: Tensor, key: Tensor, value: Tensor, head_num: int, input_layout: str, pse: Tensor | None = None,
    padding_mask: Tensor | None = None, atten_mask: Tensor | None = None, scale: float = 1.0, keep_prob: float = 1.0,
    **others: Any,
) -> Tensor:  # fmt: skip
    """softmax(query·keyᵀ·scale + pse, masked)·value, in the layouts BSH, SBH, BSND and BNSD."""
    if keep_prob < 1:
        raise CannotRunError("npu_fusion_attention drew random numbers (keep_prob < 1)")
    if others.get("sparse_mode") not in (None, 0, 1) or input_layout not in _LAYOUTS:
        raise CannotRunError(f"npu_fusion_attention with layout {input_layout} or this sparse_mode has no reference")
    split, merge = _LAYOUTS[input_layout]
    heads = query.shape[1] if input_layout == "BNSD" else head_num
    q, k, v = (split(tensor, heads) if tensor is query else _split_like(split, tensor, query, heads, input_layout)
               for tensor in (query, key, value))  # fmt: skip
    if k.shape[1] != q.shape[1]:
        k, v = (tensor.repeat_interleave(q.shape[1] // tensor.shape[1], dim=1) for tensor in (k, v))
    scores = q @ k.transpose(-1, -2) * scale
    if pse is not None:
        scores = scores + pse
    if atten_mask is not None:
        scores = scores.masked_fill(atten_mask.bool(), torch.finfo(scores.dtype).min)
    merged: Tensor = merge(functional.softmax(scores, dim=-1) @ v)
    return merged


def _split_like(split: Any, tensor: Tensor, query: Tensor, heads: int, layout: str) -> Tensor:
    """Keys and values have heads of the query's size, and perhaps fewer of them."""
    if layout in ("BSH", "SBH"):
        heads = tensor.shape[-1] // (query.shape[-1] // heads)
    found: Tensor = split(tensor, heads)
    return found


_LAYOUTS: dict[str, tuple[Callable[[Tensor, int], Tensor], Callable[[Tensor], Tensor]]] = {
    "BSH": (lambda x, n: x.unflatten(-1, (n, -1)).transpose(1, 2), lambda x: x.transpose(1, 2).flatten(2)),
    "SBH": (lambda x, n: x.unflatten(-1, (n, -1)).permute(1, 2, 0, 3), lambda x: x.permute(2, 0, 1, 3).flatten(2)),
    "BSND": (lambda x, n: x.transpose(1, 2), lambda x: x.transpose(1, 2)),
    "BNSD": (lambda x, n: x, lambda x: x),
}

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "fast_gelu": _fast_gelu,
    "npu_fast_gelu": _fast_gelu,
    "npu_rms_norm": _rms_norm,
    "npu_rotary_mul": _rotary_mul,
    "npu_swiglu": _swiglu,
    "npu_scaled_masked_softmax": _scaled_masked_softmax,
    "npu_confusion_transpose": _confusion_transpose,
    "npu_linear": _linear,
    "npu_layer_norm_eval": _layer_norm_eval,
    "npu_mish": _mish,
    "npu_group_norm_silu": _group_norm_silu,
    "npu_moe_gating_top_k_softmax": _gating_top_k_softmax,
    "npu_sort_v2": _sort_v2,
    "npu_apply_adam": _apply_adam,
    "npu_apply_adam_w": _apply_adam_w,
    "npu_fusion_attention": _fusion_attention,
}
