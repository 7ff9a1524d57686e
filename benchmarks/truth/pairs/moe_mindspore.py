"""The mixture of experts of moe_torch in MindSpore: every expert sees every token, with a share of 0 where unchosen."""

import numpy as np
from mindspore import Parameter, Tensor, nn, ops

FRAMEWORK = "mindspore"
DEFECTS = {
    "norm": r"layers\.0\.norm|[rR]sqrt|__add__|mean|square",
    "softmax": r"gating|[sS]oftmax|__truediv__",
    "silu": r"experts\.1|silu|gelu",
    "weight": r"layers\.0\.experts\.0|MatMul\.1\.",
    "order": r"layers\.1",
}


class RmsNorm(nn.Cell):
    def __init__(self, hidden, eps):
        super().__init__()
        self.scale, self.eps = Parameter(Tensor(np.zeros(hidden, "f4"))), eps

    def construct(self, x):
        variance = ops.mean(ops.square(x), -1, True)
        return x * ops.rsqrt(variance + self.eps) * self.scale


class FeedForward(nn.Cell):
    def __init__(self, hidden, defect):
        super().__init__()
        self.w1 = nn.Dense(hidden, 2 * hidden, has_bias=False)
        self.w3 = nn.Dense(hidden, 2 * hidden, has_bias=False)
        self.w2 = nn.Dense(2 * hidden, hidden, has_bias=False)
        self.act = ops.gelu if defect == "silu" else ops.silu

    def construct(self, x):
        return self.w2(self.w3(x) * self.act(self.w1(x)))


class Layer(nn.Cell):
    def __init__(self, hidden, defect):
        super().__init__()
        self.defect = defect
        self.norm = RmsNorm(hidden, 1e-2 if defect == "norm" else 1e-6)
        self.gating = nn.Dense(hidden, 4, has_bias=False)
        self.experts = nn.CellList([FeedForward(hidden, defect if expert == 1 else None) for expert in range(4)])

    def construct(self, x):
        y = self.norm(x)
        logits = self.gating(y)
        probabilities = ops.softmax(logits / 2 if self.defect == "softmax" else logits, -1)
        best, which = ops.topk(probabilities, 2)
        best = best / best.sum(-1, keepdims=True)
        out = ops.zeros_like(y)
        for number, expert in enumerate(self.experts):
            share = ((which == number).astype(best.dtype) * best).sum(-1, keepdims=True)
            out = out + expert(y) * share
        return (y if self.defect == "order" else x) + out


class Model(nn.Cell):
    def __init__(self, defect):
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        planted = {"norm": 0, "weight": 0}
        self.layers = nn.CellList(
            [Layer(16, defect if planted.get(defect, 1) == layer else None) for layer in range(2)]
        )
        self.output = nn.Dense(16, 50, has_bias=False)

    def construct(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(x)


NAMES = (
    ("words.weight", "embedding.embedding_table"), ("blocks.", "layers."), ("norm.weight", "norm.scale"),
    ("router", "gating"), (".gate.", ".w1."), (".up.", ".w3."), (".down.", ".w2."), ("head.", "output."),
)  # fmt: skip


def build(defect):
    """The model, with `defect` or None."""
    return Model(defect)


def carry(weights, defect):
    """moe_torch's weights under the names of this model, with `defect`."""
    carried = {}
    for name, value in weights.items():
        for old, new in NAMES:
            name = name.replace(old, new)
        carried[name] = value.copy()
    if defect == "weight":
        carried["layers.0.experts.0.w1.weight"][:4] *= 1.5
    return carried


def loss(model, batch):
    """Cross entropy of the next tokens."""
    return ops.cross_entropy(model(batch["x"]).reshape(-1, 50), batch["y"].reshape(-1))
