"""A small vision transformer in PyTorch: fused QKV, eager attention, functional GELU."""

import torch
from torch import nn
from torch.nn import functional

FRAMEWORK = "torch"
DEFECTS = {
    "eps": r"blocks\.1\.ln2|layer_norm\.3\.",
    "scale": r"blocks\.0\.attn|__truediv__\.0\.",
    "gelu": r"gelu\.1\.",
    "weight": r"blocks\.1\.fc1|linear\.6\.",
    "residual": r"__add__\.\d+\.|blocks\.1",
}


class Attention(nn.Module):
    def __init__(self, hidden, heads, divisor):
        super().__init__()
        self.heads, self.divisor = heads, divisor
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)

    def forward(self, x):
        batch, length, hidden = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, hidden // self.heads).transpose(1, 2)
            for part in self.qkv(x).chunk(3, -1)
        )
        weights = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / self.divisor, -1)
        return self.out(torch.matmul(weights, v).transpose(1, 2).reshape(batch, length, hidden))


class Block(nn.Module):
    def __init__(self, hidden, heads, defect):
        super().__init__()
        self.defect = defect
        self.ln1 = nn.LayerNorm(hidden, eps=1e-5)
        self.attn = Attention(hidden, heads, 3.0 if defect == "scale" else (hidden // heads) ** 0.5)
        self.ln2 = nn.LayerNorm(hidden, eps=1e-2 if defect == "eps" else 1e-5)
        self.fc1 = nn.Linear(hidden, 4 * hidden)
        self.fc2 = nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        y = self.ln2(x)
        approximate = "tanh" if self.defect == "gelu" else "none"
        out = self.fc2(functional.gelu(self.fc1(y), approximate=approximate))
        return (y if self.defect == "residual" else x) + out


class Net(nn.Module):
    def __init__(self, defect):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 4, 4)
        self.bn = nn.BatchNorm2d(16)
        self.cls = nn.Parameter(torch.randn(1, 1, 16) * 0.1)
        self.pos = nn.Parameter(torch.randn(1, 17, 16) * 0.1)
        planted = {"scale": 0}
        self.blocks = nn.ModuleList(
            [Block(16, 4, defect if planted.get(defect, 1) == layer else None) for layer in range(3)]
        )
        self.norm = nn.LayerNorm(16, eps=1e-5)
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        x = torch.relu(self.bn(self.conv1(x))).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.pos
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


def build(defect):
    """The model, with `defect` or None."""
    return Net(defect)


def spoil(model, defect):
    """Change weights, if that is the defect."""
    if defect == "weight":
        model.blocks[1].fc1.weight.data[:2].mul_(1.5)


def loss(model, batch):
    """Cross entropy of the classes."""
    return functional.cross_entropy(model(batch["x"]), batch["y"])
