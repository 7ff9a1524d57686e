"""Wrong ops for the workers of a test: they import this, and each function of torch below is wrong in its own way.

Only float32 is wrong, as in a kernel for one dtype, so that the reference in float64 is right.
"""

import torch
from torch.nn import functional

_right = {
    "gelu": functional.gelu, "layer_norm": functional.layer_norm, "relu": torch.relu, "tanh": torch.tanh,
    "softmax": functional.softmax, "sigmoid": torch.sigmoid,
}  # fmt: skip


def _is_planted(tensor):
    return tensor.dtype == torch.float32


def off_by_ulps(x, *args, **named):
    right = _right["gelu"](x, *args, **named)
    return right * (1 + 3 * torch.finfo(x.dtype).eps) if _is_planted(x) else right


def off_by_a_thousandth(x, *args, **named):
    right = _right["layer_norm"](x, *args, **named)
    return right * 1.001 if _is_planted(x) else right


def wrong_for_negative_zero(x):
    right = _right["relu"](x)
    return torch.where(torch.signbit(x) & (x == 0), torch.ones_like(right), right) if _is_planted(x) else right


class _WrongBackward(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        y = _right["tanh"](x)
        context.save_for_backward(y)
        return y

    @staticmethod
    def backward(context, gradient):
        (y,) = context.saved_tensors
        return gradient * (1 - y * y) * 1.001


def wrong_in_backward(x):
    return _WrongBackward.apply(x) if _is_planted(x) else _right["tanh"](x)


_calls = [0]


def not_the_same_twice(x, *args, **named):
    right = _right["softmax"](x, *args, **named)
    _calls[0] += 1
    return torch.nextafter(right, torch.full_like(right, 2.0)) if _is_planted(x) and _calls[0] % 2 else right


functional.gelu = off_by_ulps
functional.layer_norm = off_by_a_thousandth
torch.relu = wrong_for_negative_zero
torch.tanh = wrong_in_backward
functional.softmax = not_the_same_twice
