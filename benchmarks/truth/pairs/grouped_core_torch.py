"""The decoder of grouped_torch as Megatron writes it: sequence first, QKV by group and gate-up in one product.

The vocabulary is padded, and the loss is by hand.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

FRAMEWORK = "torch"
DEFECTS = {
    "eps": r"layers\.1\.pre_mlp_layernorm|rms_norm\.7\.",
    "order": r"layers\.0\.self_attention|expand|repeat|bmm|baddbmm|reshape",
    "scale": r"layers\.1\.self_attention|bmm|softmax",
    "weight": r"layers\.0\.self_attention\.linear_qkv|linear\.0\.",
    "padding": r"log|exp|sum|__sub__|max|output|mean\.0\.",
}


class Norm(nn.Module):
    def __init__(self, hidden, eps=1e-6):
        super().__init__()
        self.scale, self.eps = nn.Parameter(torch.ones(hidden)), eps

    def forward(self, x):
        return functional.rms_norm(x, (x.shape[-1],), self.scale, self.eps)


class SelfAttention(nn.Module):
    def __init__(self, hidden, heads, groups, defect):
        super().__init__()
        self.heads, self.groups, self.size, self.defect = heads, groups, hidden // heads, defect
        self.linear_qkv = nn.Linear(hidden, hidden + 2 * groups * self.size)
        self.linear_proj = nn.Linear(hidden, hidden, bias=False)
        self.q_layernorm, self.k_layernorm = Norm(self.size), Norm(self.size)

    def forward(self, x, mask):
        length, batch, _ = x.shape
        each = self.heads // self.groups
        mixed = self.linear_qkv(x).view(length, batch, self.groups, (each + 2) * self.size)
        query, key, value = torch.split(mixed, [each * self.size, self.size, self.size], -1)
        query = self.q_layernorm(query.reshape(length, batch, self.heads, self.size))
        key = self.k_layernorm(key)
        if each > 1:
            axis = 3 if self.defect != "order" else 2
            key = torch.stack([key] * each, axis).flatten(2, 3)
            value = torch.stack([value] * each, 3).flatten(2, 3)
        query, key, value = (
            part.reshape(length, batch * self.heads, -1).transpose(0, 1) for part in (query, key, value)
        )
        scores = torch.bmm(query / (2.0 if self.defect == "scale" else self.size**0.5), key.transpose(1, 2))
        scores = scores.view(batch, self.heads, length, length).masked_fill(mask, -10000.0)
        context = torch.bmm(scores.softmax(-1).view(-1, length, length), value)
        return self.linear_proj(context.transpose(0, 1).reshape(length, batch, -1))


class TransformerLayer(nn.Module):
    def __init__(self, hidden, heads, groups, defect):
        super().__init__()
        self.input_layernorm = Norm(hidden)
        self.pre_mlp_layernorm = Norm(hidden, 1e-2 if defect == "eps" else 1e-6)
        self.self_attention = SelfAttention(hidden, heads, groups, defect)
        self.linear_fc1, self.linear_fc2 = (
            nn.Linear(*sizes, bias=False) for sizes in ((hidden, 4 * hidden), (2 * hidden, hidden))
        )

    def forward(self, x, mask):
        x = x + self.self_attention(self.input_layernorm(x), mask)
        gate, up = torch.chunk(self.linear_fc1(self.pre_mlp_layernorm(x)), 2, -1)
        return x + self.linear_fc2(functional.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, defect):
        super().__init__()
        self.defect = defect
        self.word_embeddings = nn.Embedding(64, 32)
        planted = {"eps": 1, "scale": 1}
        self.layers = nn.ModuleList(
            [TransformerLayer(32, 4, 2, defect if planted.get(defect, 0) == layer else None) for layer in range(2)]
        )
        self.final_layernorm = Norm(32)

    def forward(self, tokens):
        x = self.word_embeddings(tokens).transpose(0, 1).contiguous()
        mask = torch.tril(torch.ones(tokens.shape[1], tokens.shape[1])) < 0.5
        for layer in self.layers:
            x = layer(x, mask)
        return torch.matmul(self.final_layernorm(x), self.word_embeddings.weight.t())


def build(defect):
    """The model, with `defect` or None."""
    return Model(defect)


def spoil(model, defect):
    """Change weights, if that is the defect."""
    if defect == "weight":
        model.layers[0].self_attention.linear_qkv.weight.data[:3].mul_(1.5)


def carry(weights):
    """grouped_torch's weights under the names of this model, fused by group, and the vocabulary padded with zeros."""
    table = weights["embed_tokens.weight"]
    carried = {"word_embeddings.weight": np.concatenate([table, np.zeros((14, 32), "f4")])}
    carried["final_layernorm.scale"] = weights["norm.weight"]
    for layer in range(2):
        old = new = f"layers.{layer}."
        carried[new + "input_layernorm.scale"] = weights[old + "input_layernorm.weight"]
        carried[new + "pre_mlp_layernorm.scale"] = weights[old + "post_attention_layernorm.weight"]
        for part in "qk":
            carried[f"{new}self_attention.{part}_layernorm.scale"] = weights[f"{old}self_attn.{part}_norm.weight"]
        for part in ("weight", "bias"):
            query, key, value = (weights[f"{old}self_attn.{name}_proj.{part}"] for name in "qkv")
            groups = [array.reshape(2, -1, *array.shape[1:]) for array in (query, key, value)]
            carried[f"{new}self_attention.linear_qkv.{part}"] = np.concatenate(groups, 1).reshape(64, *query.shape[1:])
        carried[new + "self_attention.linear_proj.weight"] = weights[old + "self_attn.o_proj.weight"]
        carried[new + "linear_fc1.weight"] = np.concatenate(
            [weights[f"{old}mlp.{k}_proj.weight"] for k in ("gate", "up")]
        )
        carried[new + "linear_fc2.weight"] = weights[old + "mlp.down_proj.weight"]
    return carried


def loss(model, batch):
    """Cross entropy by hand over the vocabulary without its padding, as each chip takes it of its share."""
    scores = model(batch["x"]).transpose(0, 1)[..., : 64 if model.defect == "padding" else 50]
    scores = scores - scores.max(-1, keepdim=True).values
    wanted = scores.gather(-1, batch["y"].unsqueeze(-1)).squeeze(-1)
    return (scores.exp().sum(-1).log() - wanted).mean()
