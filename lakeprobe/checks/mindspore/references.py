"""Primitives that MindSpore does not have in float64 on the CPU, made of those that it has, for references.

This file is part of every script that `reproduce` writes for MindSpore, so it needs nothing but mindspore.
"""

from collections.abc import Callable
from typing import Any

import mindspore
from mindspore import ops


def install() -> None:
    """Let the primitives take float64 in this process; other dtypes go to MindSpore's own kernels as before."""
    for primitive, reference in ((ops.Conv2D, conv2d), (ops.BatchNorm, batch_norm)):
        primitive.__call__ = with_reference(primitive.__call__, reference)


def with_reference(own: Callable[..., Any], reference: Callable[..., Any]) -> Callable[..., Any]:
    """The call of a primitive that takes float64 too."""

    def call(primitive: Any, x: Any, *inputs: Any) -> Any:
        return (reference if x.dtype == mindspore.float64 else own)(primitive, x, *inputs)

    return call


def conv2d(primitive: Any, x: Any, weight: Any) -> Any:
    """The convolution of x [n, c, h, w] with weight [o, c / groups, kh, kw], as a product of matrices."""
    kernel, strides, dilations = primitive.kernel_size, primitive.stride[-2:], primitive.dilation[-2:]
    reach = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]
    if primitive.pad_mode == "same":
        missing = [
            max((-(-size // stride) - 1) * stride + own - size, 0)
            for size, stride, own in zip(x.shape[2:], strides, reach, strict=True)
        ]
        top, left = (count // 2 for count in missing)
        bottom, right = missing[0] - top, missing[1] - left
    else:
        top, bottom, left, right = primitive.pad
    x = ops.pad(x, (left, right, top, bottom)) if any((top, bottom, left, right)) else x
    height, width = (
        (size - own) // stride + 1 for size, own, stride in zip(x.shape[2:], reach, strides, strict=True)
    )  # fmt: skip
    columns = ops.unfold(x, kernel, dilations, 0, strides)
    groups = weight.shape[0] // primitive.group
    columns = columns.reshape(x.shape[0], primitive.group, -1, height * width)
    product = ops.matmul(weight.reshape(1, primitive.group, groups, -1), columns)
    return product.reshape(x.shape[0], weight.shape[0], height, width)


def batch_norm(primitive: Any, x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> tuple[Any, ...]:
    """The five results of BatchNorm on the CPU: the normalised x [n, c, ...], and at the end the moments of the batch.

    MindSpore's kernel does not write the others, nor moments where it does not train: they are None.
    """
    shape = (1, -1, *[1] * (x.ndim - 2))
    moments: tuple[Any, Any] = (None, None)
    if primitive.is_training:
        axes = tuple(axis for axis in range(x.ndim) if axis != 1)
        mean = x.mean(axes)
        variance = ops.square(x - mean.reshape(shape)).mean(axes)
        moments = (mean, variance)
    normal = (x - mean.reshape(shape)) / ops.sqrt(variance.reshape(shape) + primitive.epsilon)
    return (normal * scale.reshape(shape) + bias.reshape(shape), None, None, *moments)
