"""The vision transformer of vit_torch in MindSpore: nn cells, BatchMatMul, other names and nesting."""

import numpy as np
from mindspore import Parameter, Tensor, nn, ops

FRAMEWORK = "mindspore"
DEFECTS = {
    "eps": r"layers\.1\.post_norm|LayerNorm\.3\.",
    "scale": r"layers\.0\.attention|__truediv__\.0\.",
    "gelu": r"gelu\.1\.|layers\.1\.mlp\.act",
    "weight": r"layers\.1\.mlp\.up|MatMul\.6\.",
    "residual": r"__add__\.\d+\.|layers\.1",
}


class SelfAttention(nn.Cell):
    def __init__(self, hidden, heads, divisor):
        super().__init__()
        self.heads, self.divisor = heads, divisor
        self.proj_in = nn.Dense(hidden, 3 * hidden)
        self.proj_out = nn.Dense(hidden, hidden)
        self.softmax = nn.Softmax(-1)
        self.bmm = ops.BatchMatMul()

    def construct(self, x):
        batch, length, hidden = x.shape
        q, k, v = (
            part.reshape(batch, length, self.heads, hidden // self.heads).swapaxes(1, 2)
            for part in ops.chunk(self.proj_in(x), 3, -1)
        )
        weights = self.softmax(self.bmm(q, k.swapaxes(-1, -2)) / self.divisor)
        return self.proj_out(self.bmm(weights, v).swapaxes(1, 2).reshape(batch, length, hidden))


class Mlp(nn.Cell):
    def __init__(self, hidden, approximate):
        super().__init__()
        self.up = nn.Dense(hidden, 4 * hidden)
        self.act = nn.GELU(approximate=approximate)
        self.down = nn.Dense(4 * hidden, hidden)

    def construct(self, x):
        return self.down(self.act(self.up(x)))


class Layer(nn.Cell):
    def __init__(self, hidden, heads, defect):
        super().__init__()
        self.defect = defect
        self.input_norm = nn.LayerNorm((hidden,), epsilon=1e-5)
        self.attention = SelfAttention(hidden, heads, 3.0 if defect == "scale" else (hidden // heads) ** 0.5)
        self.post_norm = nn.LayerNorm((hidden,), epsilon=1e-2 if defect == "eps" else 1e-5)
        self.mlp = Mlp(hidden, defect == "gelu")

    def construct(self, x):
        x = x + self.attention(self.input_norm(x))
        y = self.post_norm(x)
        return (y if self.defect == "residual" else x) + self.mlp(y)


class ViT(nn.Cell):
    def __init__(self, defect):
        super().__init__()
        self.patch = nn.Conv2d(3, 16, 4, 4, pad_mode="valid", has_bias=True)
        self.bn = nn.BatchNorm2d(16, momentum=0.9)
        self.relu = nn.ReLU()
        self.class_token = Parameter(Tensor(np.zeros((1, 1, 16), "f4")))
        self.position = Parameter(Tensor(np.zeros((1, 17, 16), "f4")))
        planted = {"scale": 0}
        self.layers = nn.CellList(
            [Layer(16, 4, defect if planted.get(defect, 1) == layer else None) for layer in range(3)]
        )
        self.final_norm = nn.LayerNorm((16,), epsilon=1e-5)
        self.classifier = nn.Dense(16, 10)

    def construct(self, x):
        x = self.relu(self.bn(self.patch(x)))
        x = x.reshape(x.shape[0], 16, -1).swapaxes(1, 2)
        x = ops.concat((ops.broadcast_to(self.class_token, (x.shape[0], 1, 16)), x), 1) + self.position
        for layer in self.layers:
            x = layer(x)
        return self.classifier(self.final_norm(x)[:, 0])


NAMES = (
    ("conv1.", "patch."), ("blocks.", "layers."), ("ln1", "input_norm"), ("ln2", "post_norm"),
    ("attn.qkv", "attention.proj_in"), ("attn.out", "attention.proj_out"), ("fc1", "mlp.up"), ("fc2", "mlp.down"),
    ("head", "classifier"), ("cls", "class_token"), ("pos", "position"), ("running_mean", "moving_mean"),
    ("running_var", "moving_variance"),
)  # fmt: skip


def build(defect):
    """The model, with `defect` or None."""
    return ViT(defect)


def carry(weights, defect):
    """vit_torch's weights under the names of this model, with `defect`."""
    carried = {}
    for name, value in weights.items():
        if name.endswith("num_batches_tracked"):
            continue
        if name.startswith("norm."):
            name = "final_" + name
        for old, new in NAMES:
            if old == "pos" and name != "pos":
                continue
            name = name.replace(old, new)
        if "norm" in name or name.startswith("bn."):
            name = name.replace("weight", "gamma").replace("bias", "beta")
        carried[name] = value
    if defect == "weight":
        carried["layers.1.mlp.up.weight"] = carried["layers.1.mlp.up.weight"].copy()
        carried["layers.1.mlp.up.weight"][:2] *= 1.5
    return carried


def loss(model, batch):
    """Cross entropy of the classes."""
    return ops.cross_entropy(model(batch["x"]), batch["y"])
