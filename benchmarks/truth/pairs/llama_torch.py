"""A small Llama in PyTorch, as transformers writes it: separate projections, rotary halves, eager attention."""

import torch
from torch import nn
from torch.nn import functional

FRAMEWORK = "torch"
DEFECTS = {
    "eps": r"layers\.1\.input_layernorm|rsqrt\.2\.|__add__|mean",
    "scale": r"layers\.0\.|__mul__",
    "silu": r"layers\.1\.|silu|gelu",
    "rotary": r"rotary|cos|sin|__mul__|pow",
    "weight": r"layers\.0\.|linear\.4\.",
}


class RMSNorm(nn.Module):
    def __init__(self, hidden, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.rand(hidden) + 0.5), eps

    def forward(self, x):
        wide = x.to(torch.float32)
        variance = wide.pow(2).mean(-1, keepdim=True)
        return self.weight * (wide * torch.rsqrt(variance + self.eps)).to(x.dtype)


def rotate_half(x):
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-second, first), dim=-1)


class Attention(nn.Module):
    def __init__(self, hidden, heads, defect):
        super().__init__()
        self.heads, self.size, self.defect = heads, hidden // heads, defect
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(hidden, hidden, bias=False) for _ in range(4))

    def forward(self, x, cos, sin, mask):
        batch, length, hidden = x.shape
        q, k, v = (
            project(x).view(batch, length, self.heads, self.size).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = ((part * cos) + (rotate_half(part) * sin) for part in (q, k))
        weights = torch.matmul(q, k.transpose(2, 3)) * (0.3 if self.defect == "scale" else self.size**-0.5)
        weights = functional.softmax(weights + mask, dim=-1)
        out = torch.matmul(weights, v).transpose(1, 2).contiguous()
        return self.o_proj(out.reshape(batch, length, hidden))


class MLP(nn.Module):
    def __init__(self, hidden, defect):
        super().__init__()
        self.gate_proj, self.up_proj = (
            nn.Linear(hidden, 3 * hidden, bias=False),
            nn.Linear(hidden, 3 * hidden, bias=False),
        )
        self.down_proj = nn.Linear(3 * hidden, hidden, bias=False)
        self.act_fn = nn.GELU() if defect == "silu" else nn.SiLU()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, hidden, heads, defect):
        super().__init__()
        self.input_layernorm = RMSNorm(hidden, 1e-2 if defect == "eps" else 1e-6)
        self.self_attn = Attention(hidden, heads, defect)
        self.post_attention_layernorm = RMSNorm(hidden, 1e-6)
        self.mlp = MLP(hidden, defect)

    def forward(self, x, *positions):
        x = x + self.self_attn(self.input_layernorm(x), *positions)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    def __init__(self, defect):
        super().__init__()
        self.embed_tokens = nn.Embedding(50, 24)
        planted = {"scale": 0, "weight": 0}
        self.layers = nn.ModuleList(
            [Layer(24, 3, defect if planted.get(defect, 1) == layer else None) for layer in range(2)]
        )
        self.norm = RMSNorm(24, 1e-6)
        self.lm_head = nn.Linear(24, 50, bias=False)
        self.base = 500.0 if defect == "rotary" else 10000.0

    def forward(self, tokens):
        x = self.embed_tokens(tokens)
        length = tokens.shape[1]
        frequencies = 1.0 / (self.base ** (torch.arange(0, 8, 2).float() / 8))
        angles = torch.arange(length).float()[:, None] * frequencies
        angles = torch.cat((angles, angles), -1)
        mask = torch.full((length, length), torch.finfo(x.dtype).min, dtype=x.dtype).triu(1)
        for layer in self.layers:
            x = layer(x, angles.cos().to(x.dtype), angles.sin().to(x.dtype), mask)
        return self.lm_head(self.norm(x))


def build(defect):
    """The model, with `defect` or None."""
    return Llama(defect)


def spoil(model, defect):
    """Change weights, if that is the defect."""
    if defect == "weight":
        model.layers[0].mlp.gate_proj.weight.data[:3].mul_(1.5)


def loss(model, batch):
    """Cross entropy of the next tokens."""
    return functional.cross_entropy(model(batch["x"]).view(-1, 50), batch["y"].view(-1))
