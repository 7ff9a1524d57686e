"""A small residual network in PyTorch: nn.Conv2d without bias, nn.BatchNorm2d, ReLU in place, adaptive pooling."""

import torch
from torch import nn
from torch.nn import functional

FRAMEWORK = "torch"
DEFECTS = {
    "eps": r"layers\.1\.bn1|batch_norm\.3\.",
    "stride": r"layers\.0\.conv2|conv2d\.2\.",
    "relu": r"layers\.1|relu|leaky",
    "weight": r"layers\.0\.conv1|conv2d\.1\.",
    "pool": r"pool",
}


class Block(nn.Module):
    def __init__(self, channels, defect):
        super().__init__()
        self.defect = defect
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels, eps=1e-2 if defect == "eps" else 1e-5)
        dilation = 2 if defect == "stride" else 1
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=dilation, dilation=dilation, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        y = self.bn1(self.conv1(x))
        y = functional.leaky_relu(y, 0.1) if self.defect == "relu" else functional.relu(y, inplace=True)
        y = self.bn2(self.conv2(y))
        y += x
        return functional.relu(y, inplace=True)


class ResNet(nn.Module):
    def __init__(self, defect):
        super().__init__()
        self.defect = defect
        self.conv = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(8)
        self.pool = nn.AvgPool2d(3, 2, 1) if defect == "pool" else nn.MaxPool2d(3, 2, 1)
        planted = {"stride": 0, "weight": 0}
        self.layers = nn.Sequential(
            *[Block(8, defect if planted.get(defect, 1) == layer else None) for layer in range(3)]
        )
        self.fc = nn.Linear(8, 10)

    def forward(self, x):
        x = self.pool(torch.relu_(self.bn(self.conv(x))))
        return self.fc(functional.adaptive_avg_pool2d(self.layers(x), 1).flatten(1))


def build(defect):
    """The model, with `defect` or None."""
    return ResNet(defect)


def spoil(model, defect):
    """Change weights, if that is the defect."""
    if defect == "weight":
        model.layers[0].conv1.weight.data[:2].mul_(1.5)


def loss(model, batch):
    """Cross entropy of the classes."""
    return functional.cross_entropy(model(batch["x"]), batch["y"])
