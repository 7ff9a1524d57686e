"""What another chip does: the same program, each kernel rounding in its own way, below what collects."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

_ATEN = torch.ops.aten
_PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "convolution", "convolution_backward"}
_OTHERS = {
    "native_layer_norm", "native_layer_norm_backward", "_softmax", "_softmax_backward_data", "_log_softmax",
    "_log_softmax_backward_data", "gelu", "gelu_backward", "silu", "silu_backward", "rsqrt", "tanh", "exp", "sum",
    "mean", "native_batch_norm", "native_batch_norm_backward", "sqrt", "sigmoid", "div",
}  # fmt: skip
_RELATIVE = {**dict.fromkeys(_PRODUCTS, 1e-6), **dict.fromkeys(_OTHERS, 2e-7)}

# taken before a collector wraps torch, so that what the noise computes is no op of the program
_RANDOM, _TO, _TIMES, _PLUS, _TIMES_EACH = (
    _ATEN.randn.generator, _ATEN._to_copy.default, _ATEN.mul.Scalar, _ATEN.add.Scalar, _ATEN.mul.Tensor
)  # fmt: skip


class ChipNoise(TorchDispatchMode):
    """Relative noise of 1e-6 on matrix products and of 2e-7 on reductions and transcendental functions."""

    def __init__(self, seed: int = 5) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The kernel's result, shaken if it is one that rounds otherwise on another chip."""
        result = func(*args, **(kwargs or {}))
        relative = _RELATIVE.get(func.overloadpacket.__name__)
        if relative is None or func._schema.is_mutable:
            return result
        return tree_map(lambda value: self._shaken(value, relative), result)

    def _shaken(self, value: Any, relative: float) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.numel() == 0:
            return value
        noise = _TO(_RANDOM(list(value.shape), generator=self.generator), dtype=torch.float64)
        wide = _TIMES_EACH(_TO(value, dtype=torch.float64), _PLUS(_TIMES(noise, relative), 1.0))
        return _TO(wide, dtype=value.dtype)
