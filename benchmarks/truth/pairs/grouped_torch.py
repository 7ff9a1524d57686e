"""A decoder in PyTorch as transformers writes it: grouped queries, norms by head, repeated keys, gate and up apart."""

import torch
from torch import nn
from torch.nn import functional

FRAMEWORK = "torch"
DEFECTS = {
    "eps": r"q_norm|k_norm|rms_norm\.[12]\.|layers\.0\.self_attn",
    "repeat": r"layers\.1\.self_attn|repeat_interleave|expand|matmul",
    "scale": r"layers\.0\.self_attn|matmul|__mul__",
    "weight": r"layers\.1\.mlp|linear\.12\.",
    "gate": r"layers\.0\.mlp|silu|__mul__",
}


class RMSNorm(nn.Module):
    def __init__(self, hidden, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.rand(hidden) + 0.5), eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


class Attention(nn.Module):
    def __init__(self, hidden, heads, groups, defect):
        super().__init__()
        self.heads, self.groups, self.size, self.defect = heads, groups, hidden // heads, defect
        self.q_proj = nn.Linear(hidden, hidden)
        self.k_proj, self.v_proj = (nn.Linear(hidden, groups * self.size) for _ in range(2))
        self.o_proj = nn.Linear(hidden, hidden, bias=False)
        self.q_norm = RMSNorm(self.size, 1e-2 if defect == "eps" else 1e-6)
        self.k_norm = RMSNorm(self.size)

    def forward(self, x, mask):
        batch, length, hidden = x.shape
        q = self.q_norm(self.q_proj(x).view(batch, length, self.heads, self.size)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(batch, length, self.groups, self.size)).transpose(1, 2)
        v = self.v_proj(x).view(batch, length, self.groups, self.size).transpose(1, 2)
        times = self.heads // self.groups
        k = k.repeat(1, times, 1, 1) if self.defect == "repeat" else k.repeat_interleave(times, 1)
        v = v.repeat_interleave(times, 1)
        scores = torch.matmul(q, k.transpose(2, 3)) * (0.5 if self.defect == "scale" else self.size**-0.5)
        shares = functional.softmax(scores.masked_fill(mask, float("-inf")), dim=-1, dtype=torch.float32)
        out = torch.matmul(shares.to(v.dtype), v).transpose(1, 2).contiguous()
        return self.o_proj(out.view(batch, length, hidden))


class MLP(nn.Module):
    def __init__(self, hidden, defect):
        super().__init__()
        self.defect = defect
        self.gate_proj, self.up_proj = (nn.Linear(hidden, 2 * hidden, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(2 * hidden, hidden, bias=False)

    def forward(self, x):
        gate, up = self.gate_proj(x), self.up_proj(x)
        if self.defect == "gate":
            gate, up = up, gate
        return self.down_proj(functional.silu(gate) * up)


class Layer(nn.Module):
    def __init__(self, hidden, heads, groups, defect):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(hidden), RMSNorm(hidden)
        self.self_attn, self.mlp = Attention(hidden, heads, groups, defect), MLP(hidden, defect)

    def forward(self, x, mask):
        x = x + self.self_attn(self.input_layernorm(x), mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self, defect):
        super().__init__()
        self.embed_tokens = nn.Embedding(50, 32)
        nn.init.normal_(self.embed_tokens.weight, std=0.2)
        planted = {"repeat": 1, "weight": 1}
        self.layers = nn.ModuleList(
            [Layer(32, 4, 2, defect if planted.get(defect, 0) == layer else None) for layer in range(2)]
        )
        self.norm = RMSNorm(32)

    def forward(self, tokens):
        x = self.embed_tokens(tokens)
        mask = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).triu(1)
        for layer in self.layers:
            x = layer(x, mask)
        return functional.linear(self.norm(x), self.embed_tokens.weight)


def build(defect):
    """The model, with `defect` or None."""
    return Decoder(defect)


def spoil(model, defect):
    """Change weights, if that is the defect."""
    if defect == "weight":
        model.layers[1].mlp.up_proj.weight.data[:3].mul_(1.5)


def loss(model, batch):
    """Cross entropy of the next tokens."""
    return functional.cross_entropy(model(batch["x"]).view(-1, 50), batch["y"].view(-1))
