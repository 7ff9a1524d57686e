"""The model of mixer_torch in single steps: norms, activations, attention and loss from arithmetic, QKV as one op."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional

FRAMEWORK = "torch"
DEFECTS = {
    "slope": r"where|__rmul__",
    "batch_eps": r"Tensor\.__add__\.[01]\.|rsqrt",
    "silu": r"sigmoid|Tensor\.__r?mul__\.[14]\.",
    "layer_eps": r"Tensor\.__add__\.[45]\.|Torch\.sqrt\.0\.",
    "unbiased": r"Tensor\.var\.1\.|Tensor\.__add__\.8\.",
    "scale": r"matmul|softmax|__truediv__\.1\.",
    "gelu": r"tanh|Tensor\.__r?mul__\.\d+\.",
    "divisor": r"__truediv__\.3\.",
    "weight": r"linear\.4\.|narrow\.Linear",
}


def batch_norm(x, weight, bias, eps):
    """A batch norm of training."""
    mean = x.mean((0, 2, 3), keepdim=True)
    variance = ((x - mean) ** 2).mean((0, 2, 3), keepdim=True)
    return (x - mean) * torch.rsqrt(variance + eps) * weight.view(1, -1, 1, 1) + bias.view(1, -1, 1, 1)


def layer_norm(x, weight, bias, eps=1e-5, unbiased=False):
    """A layer norm over the last dimension."""
    variance = x.var(-1, keepdim=True, unbiased=unbiased)
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(variance + eps) * weight + bias


class Mixer(nn.Module):
    def __init__(self, defect):
        super().__init__()
        self.defect = defect
        self.stem_weight, self.stem_bias = nn.Parameter(torch.empty(16, 3, 3, 3)), nn.Parameter(torch.empty(16))
        self.norms = nn.ParameterList([torch.empty(size) for size in (16, 16, 32, 32, 32, 32, 32, 32)])
        self.point, self.qkv, self.out = nn.Linear(16, 32), nn.Linear(32, 96), nn.Linear(32, 32)
        self.wide, self.narrow, self.head = nn.Linear(32, 64), nn.Linear(64, 32), nn.Linear(32, 10)

    def forward(self, x):
        defect, norms = self.defect, self.norms
        x = functional.conv2d(x, self.stem_weight, self.stem_bias, padding=1)
        x = batch_norm(x, norms[0], norms[1], 1e-2 if defect == "batch_eps" else 1e-5)
        x = torch.where(x > 0, x, (0.12 if defect == "slope" else 0.1) * x)
        x = self.point(functional.avg_pool2d(x, 2).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        x = batch_norm(x, norms[2], norms[3], 1e-5)
        x = x * torch.sigmoid(1.1 * x if defect == "silu" else x)
        x = x.flatten(2).transpose(1, 2)
        normal = layer_norm(x, norms[4], norms[5], 1e-3 if defect == "layer_eps" else 1e-5)
        batch, length, width = normal.shape
        query, key, value = self.qkv(normal).view(batch, length, 3, 4, 8).permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-1, -2) / (2.0 if defect == "scale" else math.sqrt(8))
        x = x + self.out((torch.softmax(scores, -1) @ value).transpose(1, 2).reshape(batch, length, width))
        x = x + self.narrow(self._gelu(self.wide(layer_norm(x, norms[6], norms[7], unbiased=defect == "unbiased"))))
        return self.head(x.mean(1))

    def _gelu(self, x):
        cubic = 0.05 if self.defect == "gelu" else 0.044715
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + cubic * x**3)))


def build(defect):
    """The model, with `defect` or None."""
    return Mixer(defect)


def spoil(model, defect):
    """Change weights, if that is the defect."""
    if defect == "weight":
        model.narrow.weight.data[3, 5] += 0.05


def carry(weights):
    """mixer_torch's weights under the names of this model."""
    carried = {"stem_weight": weights["stem.weight"], "stem_bias": weights["stem.bias"]}
    for number in range(4):
        for place, part in enumerate(("weight", "bias")):
            carried[f"norms.{2 * number + place}"] = weights[f"norm{number + 1}.{part}"]
    for part in ("weight", "bias"):
        carried[f"qkv.{part}"] = np.concatenate([weights[f"{name}.{part}"] for name in ("query", "key", "value")])
        for name in ("out", "wide", "narrow", "head"):
            carried[f"{name}.{part}"] = weights[f"{name}.{part}"]
    carried["point.weight"], carried["point.bias"] = weights["point.weight"][:, :, 0, 0], weights["point.bias"]
    return carried


def loss(model, batch):
    """Cross entropy of the classes."""
    rows = torch.log_softmax(model(batch["x"]), -1).gather(1, batch["y"][:, None])
    return -rows.sum() / (len(rows) - 1 if model.defect == "divisor" else len(rows))
