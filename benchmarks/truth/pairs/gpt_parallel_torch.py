"""The GPT of gpt_torch as Megatron writes it: (sequence, batch, hidden), QKV by head, a mask of -10000, baddbmm."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

FRAMEWORK = "torch"
DEFECTS = {
    "eps": r"layers\.1\.input_layernorm|layer_norm\.2\.",
    "scale": r"layers\.0\.|baddbmm\.0\.",
    "gelu": r"layers\.1\.|gelu",
    "mask": r"layers\.1\.|masked_fill|softmax",
    "weight": r"layers\.0\.|linear\.2\.",
}


class Attention(nn.Module):
    def __init__(self, hidden, heads, defect):
        super().__init__()
        self.heads, self.size, self.defect = heads, hidden // heads, defect
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.dense = nn.Linear(hidden, hidden)

    def forward(self, x, mask):
        length, batch, hidden = x.shape
        mixed = self.query_key_value(x).view(length, batch, self.heads, 3 * self.size)
        query, key, value = mixed.split(self.size, dim=-1)
        query = query.reshape(length, batch * self.heads, -1).transpose(0, 1)
        key = key.reshape(length, batch * self.heads, -1).permute(1, 2, 0)
        value = value.reshape(length, batch * self.heads, -1).transpose(0, 1)
        empty = torch.empty(batch * self.heads, length, length, dtype=x.dtype).zero_()
        alpha = 0.4 if self.defect == "scale" else self.size**-0.5
        scores = torch.baddbmm(empty, query, key, beta=0.0, alpha=alpha).view(batch, self.heads, length, length)
        if self.defect == "mask":
            mask = mask & ~((torch.arange(length) == 0)[:, None] & (torch.arange(length) == 1))
        probabilities = torch.nn.Softmax(-1)(scores.masked_fill(mask, -10000.0))
        context = torch.bmm(probabilities.view(batch * self.heads, length, length), value)
        context = context.view(batch, self.heads, length, self.size).permute(2, 0, 1, 3).reshape(length, batch, hidden)
        return self.dense(context)


class Layer(nn.Module):
    def __init__(self, hidden, heads, defect):
        super().__init__()
        self.defect = defect
        self.input_layernorm = nn.LayerNorm(hidden, eps=1e-3 if defect == "eps" else 1e-5)
        self.self_attention = Attention(hidden, heads, defect)
        self.post_attention_layernorm = nn.LayerNorm(hidden, eps=1e-5)
        self.dense_h_to_4h, self.dense_4h_to_h = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x, mask):
        x = self.self_attention(self.input_layernorm(x), mask) + x
        wide = self.dense_h_to_4h(self.post_attention_layernorm(x))
        return self.dense_4h_to_h(functional.gelu(wide, approximate="none" if self.defect == "gelu" else "tanh")) + x


class Model(nn.Module):
    def __init__(self, defect):
        super().__init__()
        self.word_embeddings, self.position_embeddings = nn.Embedding(50, 24), nn.Embedding(32, 24)
        planted = {"scale": 0, "weight": 0}
        self.layers = nn.ModuleList(
            [Layer(24, 3, defect if planted.get(defect, 1) == layer else None) for layer in range(3)]
        )
        self.final_layernorm = nn.LayerNorm(24, eps=1e-5)
        self.output_layer = nn.Linear(24, 50, bias=False)

    def forward(self, tokens):
        length = tokens.shape[1]
        places = torch.arange(length).unsqueeze(0)
        x = (self.word_embeddings(tokens) + self.position_embeddings(places)).transpose(0, 1).contiguous()
        mask = torch.tril(torch.ones(1, 1, length, length)) < 0.5
        for layer in self.layers:
            x = layer(x, mask)
        return self.output_layer(self.final_layernorm(x)).transpose(0, 1).contiguous()


def build(defect):
    """The model, with `defect` or None."""
    return Model(defect)


def spoil(model, defect):
    """Change weights, if that is the defect."""
    if defect == "weight":
        model.layers[0].dense_h_to_4h.weight.data[:3].mul_(1.5)


def carry(weights):
    """gpt_torch's weights under the names of this model; matrices transposed, QKV by head."""
    names = (
        ("wte", "word_embeddings"), ("wpe", "position_embeddings"), ("h.", "layers."), ("ln_1", "input_layernorm"),
        ("ln_2", "post_attention_layernorm"), ("attn.c_attn", "self_attention.query_key_value"),
        ("attn.c_proj", "self_attention.dense"), ("mlp.c_fc", "dense_h_to_4h"), ("mlp.c_proj", "dense_4h_to_h"),
        ("ln_f", "final_layernorm"), ("lm_head", "output_layer"),
    )  # fmt: skip
    carried = {}
    for name, value in weights.items():
        value = value.T if ".c_" in name else value
        if "c_attn" in name:
            value = np.concatenate([part.reshape(3, 8, *part.shape[1:]) for part in np.split(value, 3)], 1)
            value = value.reshape(72, *value.shape[2:])
        for old, new in names:
            name = name.replace(old, new) if old != "h." or name.startswith("h.") else name
        carried[name] = np.ascontiguousarray(value)
    return carried


def loss(model, batch):
    """Mean of the tokens' losses, as Megatron takes it: without reduction, then masked."""
    logits = model(batch["x"])
    each = functional.cross_entropy(logits.view(-1, 50), batch["y"].reshape(-1), reduction="none")
    return each.sum() / each.numel()
