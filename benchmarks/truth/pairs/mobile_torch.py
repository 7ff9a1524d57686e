"""A small MobileNet in PyTorch: depthwise convolutions, squeeze and excitation, hard swish, batch norm in functions."""

import torch
from torch import nn
from torch.nn import functional

FRAMEWORK = "torch"
DEFECTS = {
    "eps": r"blocks\.1\.project\.1|batch_norm\.6\.",
    "act": r"blocks\.0\.act|relu6\.|hardswish\.\d+\.|blocks\.0\.Inverted",
    "residual": r"__add__\.|blocks\.1",
    "weight": r"blocks\.2\.depth|conv2d\.8\.",
    "squeeze": r"blocks\.1\.(squeeze|excite)|hardsigmoid|sigmoid|__mul__|mul",
}


class Inverted(nn.Module):
    def __init__(self, taken, wide, given, stride, defect):
        super().__init__()
        self.defect = defect
        self.expand = nn.Sequential(nn.Conv2d(taken, wide, 1, bias=False), nn.BatchNorm2d(wide))
        self.depth = nn.Sequential(
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide)
        )  # fmt: skip
        self.squeeze, self.excite = nn.Conv2d(wide, wide // 4, 1), nn.Conv2d(wide // 4, wide, 1)
        self.project = nn.Sequential(
            nn.Conv2d(wide, given, 1, bias=False), nn.BatchNorm2d(given, eps=1e-3 if defect == "eps" else 1e-5)
        )  # fmt: skip
        self.act = nn.ReLU6() if defect == "act" else nn.Hardswish()
        self.passes = taken == given and stride == 1

    def forward(self, x):
        y = self.act(self.depth(self.act(self.expand(x))))
        seen = self.excite(functional.relu(self.squeeze(functional.adaptive_avg_pool2d(y, 1))))
        gate = torch.sigmoid(seen) if self.defect == "squeeze" else functional.hardsigmoid(seen)
        y = self.project(y * gate)
        return x + y * (0.9 if self.defect == "residual" else 1.0) if self.passes else y


class Mobile(nn.Module):
    def __init__(self, defect):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish())
        forms = [(8, 16, 12, 2), (12, 24, 12, 1), (12, 32, 16, 2)]
        planted = {"act": 0, "eps": 1, "residual": 1, "squeeze": 1}
        self.blocks = nn.Sequential(
            *[Inverted(*form, defect if planted.get(defect) == n else None) for n, form in enumerate(forms)]
        )
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def build(defect):
    """The model, with `defect` or None."""
    return Mobile(defect)


def spoil(model, defect):
    """Change weights, if that is the defect."""
    if defect == "weight":
        model.blocks[2].depth[0].weight.data[:8].mul_(1.4)


def loss(model, batch):
    """Cross entropy, with a penalty on the weights of the head."""
    return functional.cross_entropy(model(batch["x"]), batch["y"]) + 1e-2 * model.head.weight.square().sum()
