"""A windowed transformer of images in PyTorch, as Swin writes it: rolled windows, a table of relative places."""

import torch
from torch import nn
from torch.nn import functional

FRAMEWORK = "torch"
DEFECTS = {
    "roll": r"stages\.1|\.roll\.",
    "bias": r"stages\.0\.attn|__getitem__|__add__|softmax",
    "eps": r"stages\.2\.norm1|layer_norm\.5\.",
    "merge": r"merge|\.cat\.",
    "weight": r"stages\.1\.mlp|linear\.6\.",
}


def windows_of(x, size):
    """Return (windows, size * size, channels)."""
    batch, height, width, channels = x.shape
    x = x.view(batch, height // size, size, width // size, size, channels)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, size * size, channels)


def whole_of(windows, size, side):
    """Return (batch, side, side, channels)."""
    count = side // size
    x = windows.view(-1, count, count, size, size, windows.shape[-1])
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, side, side, windows.shape[-1])


def relative_places(size):
    """Return which row of the table of biases each pair of places in a window takes."""
    place = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")).flatten(1)
    apart = (place[:, :, None] - place[:, None, :]).permute(1, 2, 0) + size - 1
    return apart[..., 0] * (2 * size - 1) + apart[..., 1]


def shifted_mask(side, size, shift):
    """Return -100 where two places of a rolled window were not next to each other: (windows, places, places)."""
    region = torch.zeros(1, side, side, 1)
    parts = (slice(0, -size), slice(-size, -shift), slice(-shift, None))
    for number, (down, across) in enumerate((down, across) for down in parts for across in parts):
        region[:, down, across] = number
    regions = windows_of(region, size).squeeze(-1)
    return (regions.unsqueeze(1) != regions.unsqueeze(2)).float() * -100.0


class WindowAttention(nn.Module):
    def __init__(self, hidden, heads, size, defect):
        super().__init__()
        self.heads, self.scale, self.defect = heads, (hidden // heads) ** -0.5, defect
        self.table = nn.Parameter(torch.randn((2 * size - 1) ** 2, heads) * 0.3)
        self.register_buffer("places", relative_places(size), persistent=False)
        self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)

    def forward(self, x, mask):
        windows, count, hidden = x.shape
        q, k, v = self.qkv(x).reshape(windows, count, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = (q * self.scale) @ k.transpose(-2, -1)
        if self.defect != "bias":
            scores = scores + self.table[self.places.view(-1)].view(count, count, -1).permute(2, 0, 1)
        if mask is not None:
            scores = scores.view(-1, len(mask), self.heads, count, count) + mask.unsqueeze(1)
            scores = scores.view(windows, self.heads, count, count)
        return self.proj((functional.softmax(scores, -1) @ v).transpose(1, 2).reshape(windows, count, hidden))


class Block(nn.Module):
    def __init__(self, hidden, heads, side, shift, defect):
        super().__init__()
        self.side, self.shift, self.size, self.defect = side, shift, 4, defect
        self.norm1 = nn.LayerNorm(hidden, 1e-2 if defect == "eps" else 1e-5)
        self.norm2 = nn.LayerNorm(hidden)
        self.attn = WindowAttention(hidden, heads, 4, defect)
        self.mlp = nn.Sequential(nn.Linear(hidden, 2 * hidden), nn.GELU(), nn.Linear(2 * hidden, hidden))
        mask = shifted_mask(side, 4, shift) if shift else None
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x):
        rest, x = x, self.norm1(x)
        if self.shift:
            x = torch.roll(x, (-self.shift + (self.defect == "roll"), -self.shift), (1, 2))
        x = whole_of(self.attn(windows_of(x, self.size), self.mask), self.size, self.side)
        if self.shift:
            x = torch.roll(x, (self.shift, self.shift), (1, 2))
        x = rest + x
        return x + self.mlp(self.norm2(x))


class Merge(nn.Module):
    def __init__(self, hidden, defect):
        super().__init__()
        self.norm, self.reduction, self.defect = (
            nn.LayerNorm(4 * hidden), nn.Linear(4 * hidden, 2 * hidden, bias=False), defect,
        )  # fmt: skip

    def forward(self, x):
        corners = [x[:, down::2, across::2] for across in (0, 1) for down in (0, 1)]
        if self.defect == "merge":
            corners[1], corners[2] = corners[2], corners[1]
        return self.reduction(self.norm(torch.cat(corners, -1)))


class Net(nn.Module):
    def __init__(self, defect):
        super().__init__()
        planted = {"roll": 1, "bias": 0, "eps": 2}
        at = [defect if planted.get(defect) == block else None for block in range(3)]
        self.embed = nn.Conv2d(3, 16, 2, 2)
        self.norm0 = nn.LayerNorm(16)
        self.merge = Merge(16, defect)
        self.stages = nn.ModuleList([Block(16, 2, 8, 0, at[0]), Block(16, 2, 8, 2, at[1]), Block(32, 4, 4, 0, at[2])])
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 10)

    def forward(self, images):
        x = self.norm0(self.embed(images).permute(0, 2, 3, 1))
        x = self.stages[1](self.stages[0](x))
        x = self.stages[2](self.merge(x))
        return self.head(self.norm(x).flatten(1, 2).mean(1))


def build(defect):
    """The model, with `defect` or None."""
    return Net(defect)


def spoil(model, defect):
    """Change weights, if that is the defect."""
    if defect == "weight":
        model.stages[1].mlp[0].weight.data[:4].mul_(1.5)


def loss(model, batch):
    """Cross entropy with smoothed labels."""
    return functional.cross_entropy(model(batch["x"]), batch["y"], label_smoothing=0.1)
