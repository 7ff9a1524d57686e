"""A small BERT in PyTorch: nn.TransformerEncoder's parts by hand with scaled_dot_product_attention, norm behind."""

import torch
from torch import nn
from torch.nn import functional

FRAMEWORK = "torch"
DEFECTS = {
    "eps": r"encoder\.1\.norm_attention|layer_norm\.3\.",
    "scale": r"encoder\.0\.|scaled_dot_product_attention\.0\.",
    "gelu": r"gelu\.1\.|encoder\.1",
    "weight": r"encoder\.0\.value|linear\.2\.",
    "types": r"embedding|types",
}


class Layer(nn.Module):
    def __init__(self, hidden, heads, defect):
        super().__init__()
        self.heads, self.defect = heads, defect
        self.query, self.key = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.value, self.out = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.norm_attention = nn.LayerNorm(hidden, eps=1e-3 if defect == "eps" else 1e-12)
        self.wide, self.narrow = nn.Linear(hidden, 3 * hidden), nn.Linear(3 * hidden, hidden)
        self.norm_out = nn.LayerNorm(hidden, eps=1e-12)

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x, mask):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scale = 0.5 if self.defect == "scale" else None
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
        x = self.norm_attention(x + self.out(y.transpose(1, 2).flatten(2)))
        wide = functional.gelu(self.wide(x), approximate="tanh" if self.defect == "gelu" else "none")
        return self.norm_out(x + self.narrow(wide))


class Bert(nn.Module):
    def __init__(self, defect):
        super().__init__()
        self.defect = defect
        self.words, self.places = nn.Embedding(50, 20), nn.Embedding(16, 20)
        self.types = nn.Embedding(2, 20)
        self.norm = nn.LayerNorm(20, eps=1e-12)
        planted = {"scale": 0, "weight": 0}
        self.encoder = nn.ModuleList(
            [Layer(20, 4, defect if planted.get(defect, 1) == layer else None) for layer in range(2)]
        )
        self.dense = nn.Linear(20, 20)
        self.decoder = nn.Linear(20, 50)

    def forward(self, tokens, mask):
        length = tokens.shape[1]
        types = torch.zeros_like(tokens)
        if self.defect == "types":
            types = types + 1
        x = self.norm(self.words(tokens) + self.types(types) + self.places(torch.arange(length)))
        bias = torch.zeros(mask.shape, dtype=x.dtype).masked_fill(mask == 0, float("-inf"))[:, None, None, :]
        for layer in self.encoder:
            x = layer(x, bias.expand(-1, 1, length, length))
        return self.decoder(torch.tanh(self.dense(x)))


def build(defect):
    """The model, with `defect` or None."""
    return Bert(defect)


def spoil(model, defect):
    """Change weights, if that is the defect."""
    if defect == "weight":
        model.encoder[0].value.weight.data[:4].mul_(1.5)


def loss(model, batch):
    """Cross entropy of the hidden words."""
    return functional.cross_entropy(model(batch["x"], batch["mask"]).flatten(0, 1), batch["y"].flatten())
