"""The residual network of resnet_torch in MindSpore: nested cells of conv and norm, ReLU as a cell, ReduceMean."""

from mindspore import nn, ops

FRAMEWORK = "mindspore"
DEFECTS = {
    "eps": r"stage\.1\.first\.norm|BatchNorm\.3\.",
    "stride": r"stage\.0\.second\.conv|Conv2D\.2\.",
    "relu": r"stage\.1|[rR]e[lL][uU]|leaky",
    "weight": r"stage\.0\.first\.conv|Conv2D\.1\.",
    "pool": r"[pP]ool",
}


class ConvNorm(nn.Cell):
    def __init__(self, narrow, wide, eps=1e-5, dilation=1):
        super().__init__()
        self.conv = nn.Conv2d(narrow, wide, 3, pad_mode="pad", padding=dilation, dilation=dilation)
        self.norm = nn.BatchNorm2d(wide, eps=eps, momentum=0.9)

    def construct(self, x):
        return self.norm(self.conv(x))


class Residual(nn.Cell):
    def __init__(self, channels, defect):
        super().__init__()
        self.first = ConvNorm(channels, channels, 1e-2 if defect == "eps" else 1e-5)
        self.second = ConvNorm(channels, channels, dilation=2 if defect == "stride" else 1)
        self.inner = nn.LeakyReLU(0.1) if defect == "relu" else nn.ReLU()
        self.add, self.relu = ops.Add(), nn.ReLU()

    def construct(self, x):
        return self.relu(self.add(x, self.second(self.inner(self.first(x)))))


class Network(nn.Cell):
    def __init__(self, defect):
        super().__init__()
        self.stem = ConvNorm(3, 8)
        self.relu = nn.ReLU()
        kind = nn.AvgPool2d if defect == "pool" else nn.MaxPool2d
        self.pool = kind(3, 2, pad_mode="pad", padding=1)
        planted = {"stride": 0, "weight": 0}
        self.stage = nn.SequentialCell(
            [Residual(8, defect if planted.get(defect, 1) == layer else None) for layer in range(3)]
        )
        self.mean = ops.ReduceMean()
        self.classes = nn.Dense(8, 10)

    def construct(self, x):
        x = self.stage(self.pool(self.relu(self.stem(x))))
        return self.classes(self.mean(x, (2, 3)))


NAMES = (
    ("layers.", "stage."), ("conv1", "first.conv"), ("conv2", "second.conv"), ("bn1", "first.norm"),
    ("bn2", "second.norm"), ("fc.", "classes."), ("running_mean", "moving_mean"), ("running_var", "moving_variance"),
)  # fmt: skip


def build(defect):
    """The model, with `defect` or None."""
    return Network(defect)


def carry(weights, defect):
    """resnet_torch's weights under the names of this model, with `defect`."""
    carried = {}
    for name, value in weights.items():
        if name.endswith("num_batches_tracked"):
            continue
        if name.startswith("bn."):
            name = name.replace("bn.", "stem.norm.")
        if name.startswith("conv."):
            name = "stem." + name
        for old, new in NAMES:
            name = name.replace(old, new)
        if "norm" in name:
            name = name.replace("weight", "gamma").replace("bias", "beta")
        carried[name] = value.copy()
    if defect == "weight":
        carried["stage.0.first.conv.weight"][:2] *= 1.5
    return carried


def loss(model, batch):
    """Cross entropy of the classes."""
    return ops.cross_entropy(model(batch["x"]), batch["y"])
