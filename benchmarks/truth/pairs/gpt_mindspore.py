"""The GPT of gpt_torch in MindSpore: separate Q, K and V, an additive mask of -1e9 made with triu, mint where it is."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

FRAMEWORK = "mindspore"
DEFECTS = {
    "eps": r"layers\.1\.norm1|LayerNorm\.2\.",
    "scale": r"layers\.0\.attention|__mul__\.0\.",
    "gelu": r"layers\.1\.|gelu",
    "mask": r"layers\.1\.attention|__add__|softmax|__mul__|__sub__",
    "weight": r"layers\.0\.feed_in|MatMul\.4\.",
}


class SelfAttention(nn.Cell):
    def __init__(self, hidden, heads, defect):
        super().__init__()
        self.heads, self.size, self.defect = heads, hidden // heads, defect
        self.query = nn.Dense(hidden, hidden)
        self.key = nn.Dense(hidden, hidden)
        self.value = nn.Dense(hidden, hidden)
        self.dense = nn.Dense(hidden, hidden)

    def split(self, x):
        return x.reshape(x.shape[0], x.shape[1], self.heads, self.size).transpose(0, 2, 1, 3)

    def construct(self, x, mask):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        factor = 0.4 if self.defect == "scale" else self.size**-0.5
        scores = ops.matmul(q, k.transpose(0, 1, 3, 2)) * factor
        if self.defect == "mask":
            open_ = np.zeros(mask.shape, "f4")
            open_[..., 0, 1] = 1e9
            mask = mask + Tensor(open_)
        probabilities = ops.softmax(scores + mask, -1)
        out = ops.matmul(probabilities, v).transpose(0, 2, 1, 3)
        return self.dense(out.reshape(x.shape))


class DecoderLayer(nn.Cell):
    def __init__(self, hidden, heads, defect):
        super().__init__()
        self.defect = defect
        self.norm1 = nn.LayerNorm((hidden,), epsilon=1e-3 if defect == "eps" else 1e-5)
        self.attention = SelfAttention(hidden, heads, defect)
        self.norm2 = nn.LayerNorm((hidden,), epsilon=1e-5)
        self.feed_in = nn.Dense(hidden, 4 * hidden)
        self.feed_out = nn.Dense(4 * hidden, hidden)

    def construct(self, x, mask):
        x = self.attention(self.norm1(x), mask) + x
        approximate = "none" if self.defect == "gelu" else "tanh"
        return self.feed_out(ops.gelu(self.feed_in(self.norm2(x)), approximate=approximate)) + x


class Model(nn.Cell):
    def __init__(self, defect):
        super().__init__()
        self.tokens = nn.Embedding(50, 24)
        self.positions = nn.Embedding(32, 24)
        planted = {"scale": 0, "weight": 0}
        self.layers = nn.CellList(
            [DecoderLayer(24, 3, defect if planted.get(defect, 1) == layer else None) for layer in range(3)]
        )
        self.norm = nn.LayerNorm((24,), epsilon=1e-5)
        self.head = nn.Dense(24, 50, has_bias=False)

    def construct(self, tokens):
        length = tokens.shape[1]
        mask = ops.triu(ops.ones((1, 1, length, length), ms.float32), 1) * -1e9
        x = self.tokens(tokens) + self.positions(ops.arange(length))
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.norm(x))


def build(defect):
    """The model, with `defect` or None."""
    return Model(defect)


def carry(weights, defect):
    """gpt_torch's weights under the names of this model, Q, K and V apart, matrices transposed, with `defect`."""
    carried = {}
    names = (
        ("wte.weight", "tokens.embedding_table"), ("wpe.weight", "positions.embedding_table"), ("h.", "layers."),
        ("ln_1", "norm1"), ("ln_2", "norm2"), ("attn.c_proj", "attention.dense"), ("mlp.c_fc", "feed_in"),
        ("mlp.c_proj", "feed_out"), ("ln_f", "norm"), ("lm_head", "head"),
    )  # fmt: skip
    for name, value in weights.items():
        is_conv = ".c_" in name
        for old, new in names:
            name = name.replace(old, new)
        if "norm" in name:
            name = name.replace("weight", "gamma").replace("bias", "beta")
        if is_conv:
            value = value.T
        if "c_attn" in name:
            for part, own in zip(np.split(value, 3), ("query", "key", "value"), strict=True):
                carried[name.replace("attn.c_attn", f"attention.{own}")] = np.ascontiguousarray(part)
        else:
            carried[name] = np.ascontiguousarray(value)
    if defect == "weight":
        carried["layers.0.feed_in.weight"][:3] *= 1.5
    return carried


def loss(model, batch):
    """Cross entropy of the next tokens."""
    logits = model(batch["x"])
    return ops.cross_entropy(logits.reshape(-1, 50), batch["y"].reshape(-1))
