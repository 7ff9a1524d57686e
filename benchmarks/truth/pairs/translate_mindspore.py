"""The translator of translate_torch in MindSpore: three projections, eager attention, smoothing of labels by hand."""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

FRAMEWORK = "mindspore"
DEFECTS = {
    "eps": r"reader\.1\.feed_norm|LayerNorm\.3\.",
    "scale": r"writer\.0\.look|__truediv__\.\d+\.|BatchMatMul\.\d+\.",
    "residual": r"reader\.0|Add|add",
    "weight": r"writer\.1\.own\.v|MatMul\.\d+\.|Dense",
    "smoothing": r"mul|__r?mul__|__add__|__sub__|mean|sum|neg|one_?hot",
}


class Attention(nn.Cell):
    def __init__(self, scale):
        super().__init__()
        self.q, self.k = nn.Dense(24, 24), nn.Dense(24, 24)
        self.v, self.o = nn.Dense(24, 24), nn.Dense(24, 24)
        self.scale = scale

    def heads(self, x):
        return x.reshape(x.shape[0], x.shape[1], 4, 6).swapaxes(1, 2)

    def construct(self, x, memory, mask):
        q, k, v = self.heads(self.q(x)), self.heads(self.k(memory)), self.heads(self.v(memory))
        scores = ops.BatchMatMul(transpose_b=True)(q, k) / self.scale
        weights = ops.softmax(scores.masked_fill(mask, -1e9), axis=-1)
        y = ops.BatchMatMul()(weights, v).swapaxes(1, 2)
        return self.o(y.reshape(x.shape))


class Reader(nn.Cell):
    def __init__(self, eps, twice):
        super().__init__()
        self.own = Attention(6**0.5)
        self.own_norm = nn.LayerNorm((24,), epsilon=1e-5)
        self.up, self.down = nn.Dense(24, 48, activation="relu"), nn.Dense(48, 24)
        self.feed_norm = nn.LayerNorm((24,), epsilon=eps)
        self.twice = twice

    def construct(self, x, mask):
        x = self.own_norm(x + self.own(x, x, mask))
        y = self.down(self.up(x))
        return self.feed_norm(y + x + x if self.twice else y + x)


class Writer(nn.Cell):
    def __init__(self, scale):
        super().__init__()
        self.own, self.look = Attention(6**0.5), Attention(scale)
        self.own_norm, self.look_norm = nn.LayerNorm((24,), epsilon=1e-5), nn.LayerNorm((24,), epsilon=1e-5)
        self.up, self.down = nn.Dense(24, 48), nn.Dense(48, 24)
        self.feed_norm = nn.LayerNorm((24,), epsilon=1e-5)

    def construct(self, x, memory, later, hidden):
        x = self.own_norm(x + self.own(x, x, later))
        x = self.look_norm(x + self.look(x, memory, hidden))
        return self.feed_norm(x + self.down(ops.relu(self.up(x))))


class Translator(nn.Cell):
    def __init__(self, defect):
        super().__init__()
        self.table = Parameter(Tensor(np.zeros((50, 24), "f4")), name="table")
        angles = np.arange(12)[:, None] / 10000 ** (np.arange(0, 24, 2) / 24)
        self.places = Tensor(np.stack([np.sin(angles), np.cos(angles)], -1).reshape(12, 24).astype("f4"))
        self.later = Tensor(np.triu(np.ones((12, 12), bool), 1)[None, None])
        self.reader = nn.CellList(
            [Reader(1e-3 if defect == "eps" and n == 1 else 1e-5, defect == "residual" and n == 0) for n in range(2)]
        )
        self.reader_norm = nn.LayerNorm((24,), epsilon=1e-5)
        self.writer = nn.CellList([Writer(2.0 if defect == "scale" and n == 0 else 6**0.5) for n in range(2)])

    def embed(self, tokens):
        return ops.gather(self.table, tokens, 0) * 24**0.5 + self.places

    def construct(self, source, target, mask):
        hidden = (mask == 0).reshape(-1, 1, 1, 12)
        memory = self.embed(source)
        for layer in self.reader:
            memory = layer(memory, hidden)
        memory = self.reader_norm(memory)
        x = self.embed(target)
        for layer in self.writer:
            x = layer(x, memory, self.later, hidden)
        return ops.matmul(x, self.table.T)


NAMES = (
    ("encoder.norm.", "reader_norm."), ("encoder.layers.", "reader."), ("decoder.layers.", "writer."),
    (".self_attn.", ".own."), (".multihead_attn.", ".look."), ("out_proj.", "o."), (".linear1.", ".up."),
    (".linear2.", ".down."), (".norm1.", ".own_norm."),
)  # fmt: skip


def build(defect):
    """The model, with `defect` or None."""
    build.defect = defect
    return Translator(defect)


def carry(weights, defect):
    """translate_torch's weights under the names of this model, with `defect`."""
    carried = {}
    for name, value in weights.items():
        for old, new in NAMES:
            name = name.replace(old, new)
        name = name.replace(".norm2.", ".feed_norm." if name.startswith("reader") else ".look_norm.")
        name = name.replace(".norm3.", ".feed_norm.")
        if "norm" in name:
            name = name.replace("weight", "gamma").replace("bias", "beta")
        if "in_proj_" in name:
            for part, rows in zip("qkv", np.split(value, 3), strict=True):
                carried[name.replace("in_proj_", f"{part}.")] = rows.copy()
        else:
            carried[name.replace("words.weight", "table")] = value.copy()
    if defect == "weight":
        carried["writer.1.own.v.weight"][:6] *= 1.5
    return carried


def loss(model, batch):
    """Smoothed cross entropy of the next words, in single steps; words are read backwards on the way in."""
    logits = model(batch["x"][:, ::-1], batch["x"], batch["mask"][:, ::-1]).reshape(-1, 50)
    guesses = ops.log_softmax(logits, -1)
    smoothing = 0.2 if getattr(build, "defect", None) == "smoothing" else 0.1
    wanted = ops.one_hot(batch["y"].reshape(-1), 50, Tensor(1.0, ms.float32), Tensor(0.0, ms.float32))
    wanted = wanted * (1 - smoothing) + smoothing / 50
    return -(wanted * guesses).sum(-1).mean()
