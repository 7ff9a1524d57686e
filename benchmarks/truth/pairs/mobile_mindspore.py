"""The MobileNet of mobile_torch in MindSpore: cells for all steps, gates by arithmetic, padding by name."""

from mindspore import nn, ops

FRAMEWORK = "mindspore"
DEFECTS = {
    "eps": r"stages\.0\.narrow_norm|BatchNorm\.3\.",
    "pad": r"stages\.1\.deep|Conv2D\.\d+\.",
    "gate": r"stages\.2\.|__mul__|Mul|clip|clamp|relu6|hsigmoid|__add__|__truediv__",
    "weight": r"stages\.1\.wide|Conv2D\.6\.",
    "pool": r"mean|sum|ReduceMean|max|__truediv__",
}


class Gate(nn.Cell):
    def __init__(self, width, shift):
        super().__init__()
        self.down = nn.Conv2d(width, width // 4, 1, has_bias=True, pad_mode="valid")
        self.up = nn.Conv2d(width // 4, width, 1, has_bias=True, pad_mode="valid")
        self.relu, self.shift = nn.ReLU(), shift

    def construct(self, x):
        seen = self.up(self.relu(self.down(x.mean((2, 3), keep_dims=True))))
        return x * (ops.relu6(seen + self.shift) / 6.0)


class Stage(nn.Cell):
    def __init__(self, taken, width, given, stride, defect):
        super().__init__()
        self.wide = nn.Conv2d(taken, width, 1)
        self.wide_norm = nn.BatchNorm2d(width, momentum=0.9)
        mode = {"pad_mode": "same"} if defect == "pad" else {"pad_mode": "pad", "padding": 1}
        self.deep = nn.Conv2d(width, width, 3, 1 if defect == "pad" else stride, group=width, **mode)
        self.deep_norm = nn.BatchNorm2d(width, momentum=0.9)
        self.gate = Gate(width, 2.5 if defect == "gate" else 3.0)
        self.narrow = nn.Conv2d(width, given, 1)
        self.narrow_norm = nn.BatchNorm2d(given, momentum=0.9, eps=1e-3 if defect == "eps" else 1e-5)
        self.swish = nn.HSwish()
        self.adds = taken == given and stride == 1
        self.flips = defect == "pad"

    def construct(self, x):
        y = self.swish(self.wide_norm(self.wide(x)))
        y = self.swish(self.deep_norm(self.deep(y[:, :, ::-1] if self.flips else y)))
        y = self.narrow_norm(self.narrow(self.gate(y)))
        return y + x if self.adds else y


class Mobile(nn.Cell):
    def __init__(self, defect):
        super().__init__()
        self.defect = defect
        self.first = nn.Conv2d(3, 8, 3, 2, pad_mode="pad", padding=1)
        self.first_norm = nn.BatchNorm2d(8, momentum=0.9)
        self.swish = nn.HSwish()
        forms = [(8, 16, 12, 2), (12, 24, 12, 1), (12, 32, 16, 2)]
        planted = {"eps": 0, "pad": 1, "gate": 2}
        self.stages = nn.CellList(
            [Stage(*form, defect if planted.get(defect) == n else None) for n, form in enumerate(forms)]
        )
        self.classes = nn.Dense(16, 10)

    def construct(self, x):
        x = self.swish(self.first_norm(self.first(x)))
        for stage in self.stages:
            x = stage(x)
        pooled = x.max((2, 3)) if self.defect == "pool" else x.sum((2, 3)) / (x.shape[2] * x.shape[3])
        return self.classes(pooled)


NAMES = (
    ("stem.0.", "first."), ("stem.1.", "first_norm."), ("blocks.", "stages."), ("expand.0.", "wide."),
    ("expand.1.", "wide_norm."), ("depth.0.", "deep."), ("depth.1.", "deep_norm."), ("project.0.", "narrow."),
    ("project.1.", "narrow_norm."), ("squeeze.", "gate.down."), ("excite.", "gate.up."), ("head.", "classes."),
    ("running_mean", "moving_mean"), ("running_var", "moving_variance"),
)  # fmt: skip


def build(defect):
    """The model, with `defect` or None."""
    return Mobile(defect)


def carry(weights, defect):
    """mobile_torch's weights under the names of this model, with `defect`."""
    carried = {}
    for name, value in weights.items():
        if name.endswith("num_batches_tracked"):
            continue
        for old, new in NAMES:
            name = name.replace(old, new)
        if "norm" in name:
            name = name.replace(".weight", ".gamma").replace(".bias", ".beta")
        carried[name] = value.copy()
    if defect == "weight":
        carried["stages.1.wide.weight"][:6] *= 1.4
    return carried


def loss(model, batch):
    """Cross entropy from its parts, with a penalty on the weights of the last cell."""
    guesses = ops.log_softmax(model(batch["x"]), -1)
    picked = ops.gather_elements(guesses, 1, batch["y"].reshape(-1, 1))
    return -picked.mean() + 1e-2 * (model.classes.weight * model.classes.weight).sum()
