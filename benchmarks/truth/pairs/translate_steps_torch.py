"""The translator of translate_torch with single projections, eager attention and a smoothed loss by hand."""

import math

import torch
from torch import nn

FRAMEWORK = "torch"
DEFECTS = {
    "eps": r"reader\.1\.after|layer_norm\.3\.",
    "scale": r"writer\.0\.look|__truediv__\.\d+\.|matmul\.\d+\.|softmax\.\d+\.",
    "residual": r"reader\.0|__add__|add",
    "weight": r"writer\.1\.own\.v|linear\.\d+\.",
    "memory": r"writer\.1\.look|linear\.\d+\.",
}


class Attention(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(24, 24) for _ in range(4))
        self.scale = scale

    def heads(self, x):
        return x.unflatten(-1, (4, 6)).transpose(1, 2)

    def forward(self, x, memory, hidden):
        q, k, v = self.heads(self.q(x)), self.heads(self.k(memory)), self.heads(self.v(memory))
        scores = torch.matmul(q, k.mT) / self.scale
        y = torch.softmax(scores.masked_fill(hidden, -1e4), -1) @ v
        return self.o(y.transpose(1, 2).reshape(x.shape))


class Layer(nn.Module):
    def __init__(self, looks, scale=6**0.5, eps=1e-5, defect=None):
        super().__init__()
        self.own, self.before = Attention(6**0.5), nn.LayerNorm(24)
        if looks:
            self.look, self.between = Attention(scale), nn.LayerNorm(24)
        self.up, self.down, self.after = nn.Linear(24, 48), nn.Linear(48, 24), nn.LayerNorm(24, eps=eps)
        self.looks, self.defect = looks, defect

    def forward(self, x, hidden, memory=None, unread=None):
        x = self.before(x + self.own(x, x, hidden))
        if self.looks:
            x = self.between(x + self.look(x, memory * 1.1 if self.defect == "memory" else memory, unread))
        y = self.down(torch.clamp(self.up(x), min=0))
        return self.after((y if self.defect == "residual" else x) + y)


class Translator(nn.Module):
    def __init__(self, defect):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(50, 24))
        angles = torch.arange(12)[:, None] / 10000 ** (torch.arange(0, 24, 2) / 24)
        self.register_buffer("places", torch.stack([angles.sin(), angles.cos()], -1).flatten(1), persistent=False)
        self.reader = nn.ModuleList([
            Layer(False, eps=1e-3 if defect == "eps" and n == 1 else 1e-5, defect=defect if n == 0 else None)
            for n in range(2)
        ])  # fmt: skip
        self.reader_norm = nn.LayerNorm(24)
        self.writer = nn.ModuleList([
            Layer(True, 2.0 if defect == "scale" and n == 0 else 6**0.5, defect=defect if n == 1 else None)
            for n in range(2)
        ])  # fmt: skip

    def forward(self, source, target, mask):
        hidden = mask.eq(0)[:, None, None]
        later = torch.ones(12, 12, dtype=torch.bool).triu(1)
        memory = self.table[source] * math.sqrt(24) + self.places
        for layer in self.reader:
            memory = layer(memory, hidden)
        memory = self.reader_norm(memory)
        x = self.table[target] * math.sqrt(24) + self.places
        for layer in self.writer:
            x = layer(x, later, memory, hidden)
        return x @ self.table.t()


NAMES = (
    ("encoder.norm.", "reader_norm."), ("encoder.layers.", "reader."), ("decoder.layers.", "writer."),
    (".self_attn.", ".own."), (".multihead_attn.", ".look."), ("out_proj.", "o."), (".linear1.", ".up."),
    (".linear2.", ".down."), (".norm1.", ".before."), (".norm3.", ".after."), ("words.weight", "table"),
)  # fmt: skip


def build(defect):
    """The model, with `defect` or None."""
    return Translator(defect)


def spoil(model, defect):
    """Change weights, if that is the defect."""
    if defect == "weight":
        model.writer[1].own.v.weight.data[:6].mul_(1.5)


def carry(weights):
    """translate_torch's weights under the names of this model."""
    carried = {}
    for name, value in weights.items():
        for old, new in NAMES:
            name = name.replace(old, new)
        name = name.replace(".norm2.", ".after." if name.startswith("reader") else ".between.")
        if "in_proj_" in name:
            for part, start in zip("qkv", (0, 24, 48), strict=True):
                carried[name.replace("in_proj_", f"{part}.")] = value[start : start + 24].copy()
        else:
            carried[name] = value.copy()
    return carried


def loss(model, batch):
    """Smoothed cross entropy of the next words, in single steps; words are read backwards on the way in."""
    logits = model(batch["x"].flip(1), batch["x"], batch["mask"].flip(1)).flatten(0, 1)
    guesses = logits - logits.logsumexp(-1, keepdim=True)
    picked = guesses.gather(1, batch["y"].reshape(-1, 1)).mean()
    return -(0.9 * picked + 0.1 * guesses.mean())
