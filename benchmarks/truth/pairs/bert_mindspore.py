"""The BERT of bert_torch in MindSpore: eager attention, a mask of -10000, log_softmax and nll_loss."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

FRAMEWORK = "mindspore"
DEFECTS = {
    "eps": r"blocks\.1\.attention_norm|LayerNorm\.3\.",
    "scale": r"blocks\.0\.|__truediv__\.0\.",
    "gelu": r"gelu\.1\.|blocks\.1",
    "weight": r"blocks\.0\.v\.|MatMul\.2\.",
    "types": r"[eE]mbedding|token_type|Gather",
}


class Encoder(nn.Cell):
    def __init__(self, hidden, heads, defect):
        super().__init__()
        self.heads, self.defect = heads, defect
        self.q, self.k = nn.Dense(hidden, hidden), nn.Dense(hidden, hidden)
        self.v, self.o = nn.Dense(hidden, hidden), nn.Dense(hidden, hidden)
        self.attention_norm = nn.LayerNorm((hidden,), epsilon=1e-3 if defect == "eps" else 1e-12)
        self.intermediate, self.output = nn.Dense(hidden, 3 * hidden), nn.Dense(3 * hidden, hidden)
        self.output_norm = nn.LayerNorm((hidden,), epsilon=1e-12)
        self.softmax = ops.Softmax(-1)

    def construct(self, x, mask):
        batch, length, hidden = x.shape
        size = hidden // self.heads
        q = self.q(x).view(batch, length, self.heads, size).permute(0, 2, 1, 3)
        k = self.k(x).view(batch, length, self.heads, size).permute(0, 2, 3, 1)
        v = self.v(x).view(batch, length, self.heads, size).permute(0, 2, 1, 3)
        scores = ops.matmul(q, k) / (2.0 if self.defect == "scale" else size**0.5)
        y = ops.matmul(self.softmax(scores + mask), v).permute(0, 2, 1, 3).reshape(batch, length, hidden)
        x = self.attention_norm(self.o(y) + x)
        wide = ops.gelu(self.intermediate(x), approximate="tanh" if self.defect == "gelu" else "none")
        return self.output_norm(self.output(wide) + x)


class Bert(nn.Cell):
    def __init__(self, defect):
        super().__init__()
        self.defect = defect
        self.word = nn.Embedding(50, 20)
        self.position = nn.Embedding(16, 20)
        self.token_type = nn.Embedding(2, 20)
        self.embedding_norm = nn.LayerNorm((20,), epsilon=1e-12)
        planted = {"scale": 0, "weight": 0}
        self.blocks = nn.CellList(
            [Encoder(20, 4, defect if planted.get(defect, 1) == layer else None) for layer in range(2)]
        )
        self.transform = nn.Dense(20, 20)
        self.tanh = nn.Tanh()
        self.vocabulary = nn.Dense(20, 50)

    def construct(self, tokens, mask):
        length = tokens.shape[1]
        types = ops.zeros_like(tokens)
        if self.defect == "types":
            types = types + 1
        positions = self.position(Tensor(np.arange(length), ms.int32))
        x = self.embedding_norm(self.word(tokens) + positions + self.token_type(types))
        bias = (1.0 - mask.astype(x.dtype)).reshape(-1, 1, 1, length) * -10000.0
        for block in self.blocks:
            x = block(x, bias)
        return self.vocabulary(self.tanh(self.transform(x)))


NAMES = (
    ("words.weight", "word.embedding_table"), ("places.weight", "position.embedding_table"),
    ("types.weight", "token_type.embedding_table"), ("encoder.", "blocks."), (".query.", ".q."), (".key.", ".k."),
    (".value.", ".v."), (".out.", ".o."), ("norm_attention", "attention_norm"), ("norm_out", "output_norm"),
    (".wide.", ".intermediate."), (".narrow.", ".output."), ("dense.", "transform."), ("decoder.", "vocabulary."),
)  # fmt: skip


def build(defect):
    """The model, with `defect` or None."""
    return Bert(defect)


def carry(weights, defect):
    """bert_torch's weights under the names of this model, with `defect`."""
    carried = {}
    for name, value in weights.items():
        if name.startswith("norm."):
            name = "embedding_" + name
        for old, new in NAMES:
            name = name.replace(old, new)
        if "norm" in name:
            name = name.replace("weight", "gamma").replace("bias", "beta")
        carried[name] = value.copy()
    if defect == "weight":
        carried["blocks.0.v.weight"][:4] *= 1.5
    return carried


def loss(model, batch):
    """Cross entropy of the hidden words."""
    logits = model(batch["x"], batch["mask"]).reshape(-1, 50)
    return ops.nll_loss(ops.log_softmax(logits, -1), batch["y"].reshape(-1))
