"""A U-Net in PyTorch: GroupNorm, SiLU, max pooling, transposed convolutions, skips; entropy and Dice of a mask."""

import torch
from torch import nn
from torch.nn import functional

FRAMEWORK = "torch"
DEFECTS = {
    "groups": r"down2\.norm|group_norm\.1\.",
    "silu": r"up1|silu|gelu",
    "skip": r"cat\.1\.|up1\.",
    "weight": r"up1\.up|conv_transpose2d\.1\.",
    "smooth": r"loss|__r?add__|__r?truediv__|sum|div",
}


class Block(nn.Module):
    def __init__(self, narrow, wide, groups=4):
        super().__init__()
        self.conv = nn.Conv2d(narrow, wide, 3, padding=1)
        self.norm = nn.GroupNorm(groups, wide)
        self.act = nn.SiLU()

    def forward(self, x):
        return self.act(self.norm(self.conv(x)))


class Up(nn.Module):
    def __init__(self, narrow, wide, defect):
        super().__init__()
        self.defect = defect
        self.up = nn.ConvTranspose2d(narrow, wide, 2, stride=2)
        self.block = Block(2 * wide, wide)
        if defect == "silu":
            self.block.act = nn.GELU()

    def forward(self, x, skip):
        parts = [self.up(x), skip]
        return self.block(torch.cat(parts[::-1] if self.defect == "skip" else parts, dim=1))


class UNet(nn.Module):
    def __init__(self, defect):
        super().__init__()
        self.smooth = 2.0 if defect == "smooth" else 1.0
        self.down1 = Block(3, 8)
        self.down2 = Block(8, 16, 2 if defect == "groups" else 4)
        self.middle = Block(16, 32)
        self.up2 = Up(32, 16, None)
        self.up1 = Up(16, 8, defect)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        first = self.down1(x)
        second = self.down2(functional.max_pool2d(first, 2))
        x = self.middle(functional.max_pool2d(second, 2))
        return self.out(self.up1(self.up2(x, second), first))


def build(defect):
    """The model, with `defect` or None."""
    return UNet(defect)


def spoil(model, defect):
    """Change weights, if that is the defect."""
    if defect == "weight":
        model.up1.up.weight.data[:4].mul_(1.3)


def loss(model, batch):
    """Cross entropy and Dice of where the first channel is positive."""
    logits = model(batch["x"])
    mask = (batch["x"][:, :1] > 0).float()
    chance = torch.sigmoid(logits).flatten(1)
    both = (chance * mask.flatten(1)).sum(1)
    dice = (2 * both + model.smooth) / (chance.sum(1) + mask.flatten(1).sum(1) + model.smooth)
    return functional.binary_cross_entropy_with_logits(logits, mask) + (1 - dice).mean()
