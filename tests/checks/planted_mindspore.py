"""Wrong ops for the workers of a test: they import this, and each function of mindspore.ops below is wrong in its way.

Only float32 is wrong, as in a kernel for one dtype, so that the reference in float64 is right.
"""

import math

import mindspore
from mindspore import nn, ops

_right = {name: getattr(ops, name) for name in ("gelu", "sin", "relu", "erf", "softmax")}
_EPS = 2.0**-23


def _is_planted(tensor):
    return tensor.dtype == mindspore.float32


def off_by_ulps(x, *args, **named):
    right = _right["gelu"](x, *args, **named)
    return right * (1 + 3 * _EPS) if _is_planted(x) else right


def off_by_a_thousandth(x):
    right = _right["sin"](x)
    return right * 1.001 if _is_planted(x) else right


def wrong_for_negative_zero(x):
    right = _right["relu"](x)
    return (
        ops.where(ops.logical_and(x == 0, ops.reciprocal(x) < 0), ops.ones_like(right), right)
        if _is_planted(x)
        else right
    )


class _WrongBackward(nn.Cell):
    def construct(self, x):
        return _right["erf"](x)

    def bprop(self, x, y, gradient):
        return (gradient * ops.exp(-x * x) * (2 / math.sqrt(math.pi)) * 1.001,)


def wrong_in_backward(x):
    return _WrongBackward()(x) if _is_planted(x) else _right["erf"](x)


_calls = [0]


def not_the_same_twice(x, *args, **named):
    right = _right["softmax"](x, *args, **named)
    _calls[0] += 1
    return right * (1 + _EPS) if _is_planted(x) and _calls[0] // 2 % 2 else right  # a run calls it twice


ops.gelu = off_by_ulps
ops.sin = off_by_a_thousandth
ops.relu = wrong_for_negative_zero
ops.erf = wrong_in_backward
ops.softmax = not_the_same_twice
