"""A small GPT in PyTorch, as GPT-2 is written: fused QKV by addmm on a transposed weight, masked with torch.where."""

import torch
from torch import nn
from torch.nn import functional

FRAMEWORK = "torch"
DEFECTS = {
    "eps": r"h\.1\.ln_1|layer_norm\.2\.",
    "scale": r"h\.0\.attn|__truediv__\.0\.|__mul__",
    "gelu": r"h\.1\.|gelu\.1\.|gelu",
    "mask": r"h\.1\.attn|where|masked|__add__|softmax",
    "weight": r"h\.0\.mlp|addmm\.3\.",
}


class Conv1D(nn.Module):
    def __init__(self, wide, narrow):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(narrow, wide) * 0.1)
        self.bias = nn.Parameter(torch.randn(wide) * 0.02)

    def forward(self, x):
        size = (*x.size()[:-1], self.bias.shape[0])
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(size)


class Attention(nn.Module):
    def __init__(self, hidden, heads, defect):
        super().__init__()
        self.heads, self.defect = heads, defect
        self.c_attn = Conv1D(3 * hidden, hidden)
        self.c_proj = Conv1D(hidden, hidden)
        self.register_buffer("bias", torch.tril(torch.ones(32, 32)).view(1, 1, 32, 32).bool(), persistent=False)

    def forward(self, x):
        batch, length, hidden = x.shape
        query, key, value = self.c_attn(x).split(hidden, dim=2)
        query, key, value = (
            part.view(batch, length, self.heads, hidden // self.heads).permute(0, 2, 1, 3)
            for part in (query, key, value)
        )
        divisor = 2.5 if self.defect == "scale" else (hidden // self.heads) ** 0.5
        weights = torch.matmul(query, key.transpose(-1, -2)) / divisor
        mask = self.bias[:, :, :length, :length]
        if self.defect == "mask":
            mask = mask | (torch.arange(length) == 0)[:, None] & (torch.arange(length) < 2)
        weights = torch.where(mask, weights, torch.full([], torch.finfo(weights.dtype).min))
        weights = functional.softmax(weights, dim=-1)
        out = torch.matmul(weights, value).permute(0, 2, 1, 3).contiguous()
        return self.c_proj(out.view(batch, length, hidden))


class MLP(nn.Module):
    def __init__(self, hidden, defect):
        super().__init__()
        self.defect = defect
        self.c_fc = Conv1D(4 * hidden, hidden)
        self.c_proj = Conv1D(hidden, 4 * hidden)

    def forward(self, x):
        approximate = "none" if self.defect == "gelu" else "tanh"
        return self.c_proj(functional.gelu(self.c_fc(x), approximate=approximate))


class Block(nn.Module):
    def __init__(self, hidden, heads, defect):
        super().__init__()
        self.ln_1 = nn.LayerNorm(hidden, eps=1e-3 if defect == "eps" else 1e-5)
        self.attn = Attention(hidden, heads, defect)
        self.ln_2 = nn.LayerNorm(hidden, eps=1e-5)
        self.mlp = MLP(hidden, defect)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, defect):
        super().__init__()
        self.wte = nn.Embedding(50, 24)
        self.wpe = nn.Embedding(32, 24)
        planted = {"scale": 0, "weight": 0}
        self.h = nn.ModuleList(
            [Block(24, 3, defect if planted.get(defect, 1) == layer else None) for layer in range(3)]
        )
        self.ln_f = nn.LayerNorm(24, eps=1e-5)
        self.lm_head = nn.Linear(24, 50, bias=False)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def build(defect):
    """The model, with `defect` or None."""
    return GPT(defect)


def spoil(model, defect):
    """Change weights, if that is the defect."""
    if defect == "weight":
        model.h[0].mlp.c_fc.weight.data[:, :3].mul_(1.5)


def loss(model, batch):
    """Cross entropy of the next tokens."""
    logits = model(batch["x"])
    return functional.cross_entropy(logits.view(-1, logits.size(-1)), batch["y"].view(-1))
