"""A mixture of experts in PyTorch: tokens are gathered for their two experts, and added back with index_add_."""

import torch
from torch import nn
from torch.nn import functional

FRAMEWORK = "torch"
DEFECTS = {
    "norm": r"blocks\.0\.norm|rsqrt|__add__|mean|pow",
    "softmax": r"router|softmax|__truediv__|gate|linear",
    "silu": r"experts\.1|silu|gelu",
    "weight": r"blocks\.0\.experts\.0|linear\.1\.",
    "order": r"blocks\.1",
}


class Norm(nn.Module):
    def __init__(self, hidden, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.rand(hidden) + 0.5), eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


class Expert(nn.Module):
    def __init__(self, hidden, defect):
        super().__init__()
        self.defect = defect
        self.gate = nn.Linear(hidden, 2 * hidden, bias=False)
        self.up = nn.Linear(hidden, 2 * hidden, bias=False)
        self.down = nn.Linear(2 * hidden, hidden, bias=False)

    def forward(self, x):
        act = functional.gelu if self.defect == "silu" else functional.silu
        return self.down(act(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, hidden, defect):
        super().__init__()
        self.defect = defect
        self.norm = Norm(hidden, 1e-2 if defect == "norm" else 1e-6)
        self.router = nn.Linear(hidden, 4, bias=False)
        self.experts = nn.ModuleList([Expert(hidden, defect if expert == 1 else None) for expert in range(4)])

    def forward(self, x):
        y = self.norm(x).view(-1, x.shape[-1])
        logits = self.router(y)
        scores = torch.softmax(logits / 2 if self.defect == "softmax" else logits, -1)
        top, chosen = torch.topk(scores, 2, -1)
        top = top / top.sum(-1, keepdim=True)
        out = torch.zeros_like(y)
        for number, expert in enumerate(self.experts):
            rows, place = torch.where(chosen == number)
            out = out.index_add(0, rows, expert(y[rows]) * top[rows, place, None])
        source = y.view(x.shape) if self.defect == "order" else x
        return source + out.view(x.shape)


class Moe(nn.Module):
    def __init__(self, defect):
        super().__init__()
        self.words = nn.Embedding(50, 16)
        planted = {"norm": 0, "weight": 0}
        self.blocks = nn.ModuleList(
            [Block(16, defect if planted.get(defect, 1) == layer else None) for layer in range(2)]
        )
        self.head = nn.Linear(16, 50, bias=False)

    def forward(self, tokens):
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def build(defect):
    """The model, with `defect` or None."""
    return Moe(defect)


def spoil(model, defect):
    """Change weights, if that is the defect."""
    if defect == "weight":
        model.blocks[0].experts[0].gate.weight.data[:4].mul_(1.5)


def loss(model, batch):
    """Cross entropy of the next tokens."""
    return functional.cross_entropy(model(batch["x"]).flatten(0, 1), batch["y"].flatten())
