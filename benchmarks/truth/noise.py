"""What the kernels of another device do to a training: the same program, each kernel rounding in its own way.

The noise is made below the tools, at the level of ATen, forward and backward, so that no tool sees an op more. Random
numbers are its own; those of the training stay as they are.

| noise | what it does |
|---|---|
| `clean` | nothing |
| `ulp` | rounds once more: 2e-7 after a matrix product, 6e-8 after other reductions and transcendental functions |
| `npu` | as between two chips: 1e-6 and 2e-7 |
| `threads` | matrix products add up in another order; what else rounds does so as in `ulp` |
| `f64` | matrix products are made in float64 |
| `tf32` | matrix products see 10 bits of their inputs, and add up in another order |
| `bf16` | the model is in bfloat16 on both sides, and kernels differ by about half a unit in the last place |
| `weights` | parameters are off by 1e-7, nothing else |

Figures are relative, the standard deviation of a normal distribution for each element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

ATEN = torch.ops.aten

_ROUNDING = {"ulp": (2e-7, 6e-8), "threads": (2e-7, 6e-8), "npu": (1e-6, 2e-7), "bf16": (2**-9, 2**-10)}
"""Relative rounding after a matrix product, and after another reduction or a transcendental function."""

NOISES = ("clean", "ulp", "npu", "threads", "f64", "tf32", "bf16", "weights")

WEIGHTS = 1e-7
"""By how much `weights` moves each element of a parameter, relatively."""

_PRODUCTS = {ATEN.mm, ATEN.addmm, ATEN.bmm, ATEN.baddbmm}
_CONVOLUTIONS = {ATEN.convolution, ATEN.convolution_backward}
_FUSED = {
    ATEN._scaled_dot_product_flash_attention_for_cpu,
    ATEN._scaled_dot_product_flash_attention_for_cpu_backward,
    ATEN.mkldnn_rnn_layer,
    ATEN.mkldnn_rnn_layer_backward,
}
_MATRIX = _PRODUCTS | _CONVOLUTIONS | _FUSED
_OTHER = {
    ATEN.native_layer_norm, ATEN.native_layer_norm_backward, ATEN.native_group_norm, ATEN.native_group_norm_backward,
    ATEN.native_batch_norm, ATEN.native_batch_norm_backward, ATEN._native_batch_norm_legit, ATEN._softmax,
    ATEN._softmax_backward_data, ATEN._log_softmax, ATEN._log_softmax_backward_data, ATEN.gelu, ATEN.gelu_backward,
    ATEN.silu, ATEN.silu_backward, ATEN.sigmoid, ATEN.sigmoid_backward, ATEN.tanh, ATEN.tanh_backward, ATEN.exp,
    ATEN.log, ATEN.sin, ATEN.cos, ATEN.sqrt, ATEN.rsqrt, ATEN.pow, ATEN.div, ATEN.sum, ATEN.mean, ATEN.var,
    ATEN.linalg_vector_norm, ATEN.mse_loss, ATEN.mse_loss_backward, ATEN.nll_loss_forward, ATEN.softplus,
    ATEN.binary_cross_entropy_with_logits, ATEN._thnn_fused_lstm_cell, ATEN._thnn_fused_gru_cell,
}  # fmt: skip

# The functions are taken before a tool wraps them, so that what the noise computes is no op of the program.
_TO = ATEN._to_copy.default
_NORMAL = ATEN.randn.generator
_PERMUTATION = ATEN.randperm.generator
_TIMES = ATEN.mul.Tensor
_SCALED = ATEN.mul.Scalar
_SHIFTED = ATEN.add.Scalar
_BITS = ATEN.view.dtype
_MASKED = ATEN.bitwise_and.Scalar
_COPY = ATEN.clone.default
_SELECT = ATEN.index_select.default

_TF32_BITS = ~0x1FFF
"""The sign, the exponent and 10 bits of the mantissa of a float32."""


class Noise(TorchDispatchMode):
    """Lets every kernel round as on another device. The same seed gives the same noise."""

    def __init__(self, kind: str, seed: int) -> None:
        super().__init__()
        self.kind = kind
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the kernel `func` as the other device would."""
        kernel, kwargs = func.overloadpacket, kwargs or {}
        if self.kind == "f64" and kernel in _PRODUCTS | _CONVOLUTIONS:
            wide = func(*tree_map(_widened, args), **tree_map(_widened, kwargs))
            return tree_map(_narrowed, wide)
        if self.kind == "tf32" and kernel in _MATRIX:
            args = tree_map(_cut, args)
        is_reordered = self.kind in ("tf32", "threads") and kernel in _PRODUCTS and all(map(_is_dense, args))
        if is_reordered:
            args = self._reordered(args)
        result = func(*args, **kwargs)
        rounding = 0.0 if is_reordered else self._rounding(kernel)
        if rounding == 0 or func._schema.is_mutable:
            return result
        return tree_map(lambda value: self.shaken(value, rounding), result)

    def _rounding(self, kernel: Any) -> float:
        matrix, other = _ROUNDING.get(self.kind, (0.0, 0.0))
        if kernel in _MATRIX:
            return matrix
        return other if kernel in _OTHER else 0.0

    def shaken(self, value: Any, relative: float) -> Any:
        """`value`, each element off by `relative`; what is no float tensor as it is."""
        if not _is_float(value) or value.numel() == 0:
            return value
        normal = _TO(_NORMAL(list(value.shape), generator=self.generator, dtype=torch.float32), dtype=torch.float64)
        shaken = _TIMES(_TO(value, dtype=torch.float64), _SHIFTED(_SCALED(normal, relative), 1.0))
        return _TO(shaken, dtype=value.dtype)

    def _reordered(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of a matrix product; its two factors, the last ones, add up in another order."""
        *before, left, right = args
        order = _PERMUTATION(left.shape[-1], generator=self.generator)
        return (*before, _SELECT(left, -1, order), _SELECT(right, -2, order))


class FaultyKernel(TorchDispatchMode):
    """A kernel that gives a wrong result at the `nth` call of each step: what it gives goes through `change`.

    Calls are counted from 0; `step` begins to count anew.
    """

    def __init__(self, kernel: Any, nth: int, change: Callable[[torch.Tensor], torch.Tensor], output: int = 0) -> None:
        super().__init__()
        self.kernel = kernel
        self.nth = nth
        self.change = change
        self.output = output
        self.calls = 0

    def step(self) -> None:
        """Begin a training step."""
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the kernel `func`, and change its result if its turn has come."""
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket is not self.kernel:
            return result
        self.calls += 1
        if self.calls != self.nth + 1:
            return result
        if isinstance(result, torch.Tensor):
            return self.change(result)
        return tuple(self.change(value) if n == self.output else value for n, value in enumerate(result))


def scaled(factor: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """All elements off by a factor above 1; by two spacings of their dtype at least, as less would round back."""

    def change(value: torch.Tensor) -> torch.Tensor:
        by = max(factor, 1 + 2 * torch.finfo(value.dtype).eps)
        return _TO(_SCALED(_TO(value, dtype=torch.float64), by), dtype=value.dtype)

    return change


def one_element_wrong(value: torch.Tensor) -> torch.Tensor:
    """The element in the middle is lost: 0 instead of what it should be, or 1 instead of a 0."""
    changed = _COPY(value, memory_format=torch.contiguous_format)
    flat = ATEN.view.default(changed, [-1])
    middle = ATEN.select.int(flat, 0, flat.shape[0] // 2)
    ATEN.fill_.Scalar(middle, 0.0 if float(middle) else 1.0)
    return changed


def shake_parameters(network: torch.nn.Module, seed: int, relative: float = WEIGHTS) -> None:
    """Move every element of every parameter by a rounding."""
    noise = Noise("weights", seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(noise.shaken(parameter.detach(), relative))


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and _is_dense(value)


def _is_dense(value: Any) -> bool:
    return not isinstance(value, torch.Tensor) or value.layout == torch.strided


def _widened(value: Any) -> Any:
    return _TO(value, dtype=torch.float64) if _is_float(value) and value.dtype == torch.float32 else value


def _narrowed(value: Any) -> Any:
    return _TO(value, dtype=torch.float32) if _is_float(value) and value.dtype == torch.float64 else value


def _cut(value: Any) -> Any:
    if not _is_float(value) or value.dtype != torch.float32:
        return value
    bits = _BITS(_COPY(value, memory_format=torch.contiguous_format), torch.int32)
    return _BITS(_MASKED(bits, _TF32_BITS), torch.float32)
