"""The U-Net of unet_torch in MindSpore: one class of stages, x·sigmoid(x), Conv2dTranspose, sums by ReduceSum."""

from mindspore import nn, ops

FRAMEWORK = "mindspore"
DEFECTS = {
    "groups": r"encoder\.1|group_?norm|GroupNorm",
    "silu": r"decoder\.1|[sS]i[lL]U|[mM]ul|[sS]igmoid|[gG]e[lL][uU]",
    "skip": r"[cC]on?cat|decoder\.1",
    "weight": r"decoder\.1\.grow|Conv2DTranspose\.1|Conv2DBackpropInput|[tT]ranspose",
    "smooth": r"loss|[aA]dd|[dD]iv",
}


class Stage(nn.Cell):
    def __init__(self, narrow, wide, groups=4, is_gelu=False):
        super().__init__()
        self.kernel = nn.Conv2d(narrow, wide, 3, pad_mode="pad", padding=1, has_bias=True)
        self.scale = nn.GroupNorm(groups, wide)
        self.is_gelu = is_gelu
        self.sigmoid = nn.Sigmoid()

    def construct(self, x):
        x = self.scale(self.kernel(x))
        return ops.gelu(x, approximate="none") if self.is_gelu else x * self.sigmoid(x)


class Grow(nn.Cell):
    def __init__(self, narrow, wide, defect):
        super().__init__()
        self.grow = nn.Conv2dTranspose(narrow, wide, 2, stride=2, pad_mode="valid", has_bias=True)
        self.stage = Stage(2 * wide, wide, is_gelu=defect == "silu")
        self.concat = ops.Concat(1)
        self.is_exchanged = defect == "skip"

    def construct(self, x, kept):
        grown = self.grow(x)
        return self.stage(self.concat((kept, grown) if self.is_exchanged else (grown, kept)))


class Segmenter(nn.Cell):
    def __init__(self, defect):
        super().__init__()
        self.smooth = 2.0 if defect == "smooth" else 1.0
        self.encoder = nn.CellList([Stage(3, 8), Stage(8, 16, 2 if defect == "groups" else 4), Stage(16, 32)])
        self.pool = nn.MaxPool2d(2, 2)
        self.decoder = nn.CellList([Grow(32, 16, None), Grow(16, 8, defect)])
        self.last = nn.Conv2d(8, 1, 1, has_bias=True)
        self.sum = ops.ReduceSum()

    def construct(self, x):
        kept = []
        for stage in self.encoder:
            x = stage(self.pool(x) if kept else x)
            kept.append(x)
        for number, grow in enumerate(self.decoder):
            x = grow(x, kept[1 - number])
        return self.last(x)


NAMES = (
    ("down1.", "encoder.0."), ("down2.", "encoder.1."), ("middle.", "encoder.2."), ("up2.up.", "decoder.0.grow."),
    ("up1.up.", "decoder.1.grow."), ("up2.block.", "decoder.0.stage."), ("up1.block.", "decoder.1.stage."),
    ("conv.", "kernel."), ("norm.weight", "scale.gamma"), ("norm.bias", "scale.beta"), ("out.", "last."),
)  # fmt: skip


def build(defect):
    """The model, with `defect` or None."""
    return Segmenter(defect)


def carry(weights, defect):
    """unet_torch's weights under the names of this model, with `defect`."""
    carried = {}
    for name, value in weights.items():
        for old, new in NAMES:
            name = name.replace(old, new)
        carried[name] = value.copy()
    if defect == "weight":
        carried["decoder.1.grow.weight"][:4] *= 1.3
    return carried


def loss(model, batch):
    """Cross entropy and Dice of where the first channel is positive."""
    logits = model(batch["x"])
    mask = (batch["x"][:, :1] > 0).astype(logits.dtype)
    chance = ops.sigmoid(logits)
    both = model.sum(chance * mask, (1, 2, 3))
    dice = (2 * both + model.smooth) / (model.sum(chance, (1, 2, 3)) + model.sum(mask, (1, 2, 3)) + model.smooth)
    entropy = ops.binary_cross_entropy_with_logits(logits, mask, ops.ones_like(logits), ops.ones_like(logits))
    return entropy + ops.mean(1 - dice)
