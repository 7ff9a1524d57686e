"""The Llama of llama_torch, fused: QKV and gate-up as one product each, rms_norm, fused attention."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

FRAMEWORK = "torch"
DEFECTS = {
    "eps": r"decoder\.1\.norm1|rms_norm\.2\.",
    "scale": r"decoder\.0\.|scaled_dot_product_attention\.0\.",
    "silu": r"decoder\.1\.|silu|gelu",
    "rotary": r"cos|sin|__mul__|pow|exp|outer",
    "weight": r"decoder\.0\.|linear\.2\.",
}


class Norm(nn.Module):
    def __init__(self, hidden, eps):
        super().__init__()
        self.scale, self.eps = nn.Parameter(torch.ones(hidden)), eps

    def forward(self, x):
        return functional.rms_norm(x, (x.shape[-1],), self.scale, self.eps)


def rotate(x, cos, sin):
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


class Block(nn.Module):
    def __init__(self, hidden, heads, defect):
        super().__init__()
        self.heads, self.defect = heads, defect
        self.norm1, self.norm2 = Norm(hidden, 1e-2 if defect == "eps" else 1e-6), Norm(hidden, 1e-6)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
        self.gate_up = nn.Linear(hidden, 6 * hidden, bias=False)
        self.down = nn.Linear(3 * hidden, hidden, bias=False)

    def forward(self, x, cos, sin):
        batch, length, hidden = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1)
        )
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        scale = 0.3 if self.defect == "scale" else None
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, hidden))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
        act = functional.gelu if self.defect == "silu" else functional.silu
        return x + self.down(act(gate) * up)


class Decoder(nn.Module):
    def __init__(self, defect):
        super().__init__()
        self.tokens = nn.Embedding(50, 24)
        planted = {"scale": 0, "weight": 0}
        self.decoder = nn.ModuleList(
            [Block(24, 3, defect if planted.get(defect, 1) == layer else None) for layer in range(2)]
        )
        self.final = Norm(24, 1e-6)
        self.head = nn.Linear(24, 50, bias=False)
        self.theta = 500.0 if defect == "rotary" else 10000.0

    def forward(self, tokens):
        x = self.tokens(tokens)
        rates = torch.exp(-np.log(self.theta) * torch.arange(0, 4) / 4)
        angles = torch.outer(torch.arange(tokens.shape[1]).float(), rates)
        for block in self.decoder:
            x = block(x, torch.cos(angles).to(x.dtype), torch.sin(angles).to(x.dtype))
        return self.head(self.final(x))


def build(defect):
    """The model, with `defect` or None."""
    return Decoder(defect)


def spoil(model, defect):
    """Change weights, if that is the defect."""
    if defect == "weight":
        model.decoder[0].gate_up.weight.data[:3].mul_(1.5)


def carry(weights):
    """llama_torch's weights under the names of this model, fused."""
    carried = {
        "tokens.weight": weights["embed_tokens.weight"],
        "final.scale": weights["norm.weight"],
        "head.weight": weights["lm_head.weight"],
    }
    for layer in range(2):
        old, new = f"layers.{layer}.", f"decoder.{layer}."
        carried[new + "norm1.scale"] = weights[old + "input_layernorm.weight"]
        carried[new + "norm2.scale"] = weights[old + "post_attention_layernorm.weight"]
        carried[new + "qkv.weight"] = np.concatenate([weights[f"{old}self_attn.{k}_proj.weight"] for k in "qkv"])
        carried[new + "out.weight"] = weights[old + "self_attn.o_proj.weight"]
        carried[new + "gate_up.weight"] = np.concatenate([weights[f"{old}mlp.{k}_proj.weight"] for k in ("gate", "up")])
        carried[new + "down.weight"] = weights[old + "mlp.down_proj.weight"]
    return carried


def loss(model, batch):
    """Cross entropy of the next tokens."""
    return functional.cross_entropy(model(batch["x"]).flatten(0, 1), batch["y"].flatten())
