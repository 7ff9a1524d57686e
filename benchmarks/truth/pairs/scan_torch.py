"""A language model with a selective scan in PyTorch, as Mamba's authors write its slow path: a state step by step."""

import torch
from torch import nn
from torch.nn import functional

FRAMEWORK = "torch"
DEFECTS = {
    "decay": r"layers\.0\.mixer|\.exp\.|__neg__|__mul__",
    "conv": r"layers\.1\.mixer\.conv1d|conv1d\.1\.",
    "skip": r"layers\.0\.mixer|__add__|__mul__",
    "eps": r"norm_f|rms_norm\.2\.",
    "weight": r"layers\.1\.mixer\.x_proj|linear\.5\.",
}


class Mixer(nn.Module):
    def __init__(self, hidden, state, rank, defect):
        super().__init__()
        inner, self.state, self.rank, self.defect = 2 * hidden, state, rank, defect
        self.in_proj = nn.Linear(hidden, 2 * inner, bias=False)
        self.conv1d = nn.Conv1d(inner, inner, 4, padding=2 if defect == "conv" else 3, groups=inner)
        self.x_proj = nn.Linear(inner, rank + 2 * state, bias=False)
        self.dt_proj = nn.Linear(rank, inner)
        self.A_log = nn.Parameter(torch.log(torch.arange(1, state + 1).float()).repeat(inner, 1))
        self.A_log.data += torch.randn(inner, state) * 0.1
        self.D = nn.Parameter(torch.rand(inner) + 0.5)
        self.out_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, hidden):
        length = hidden.shape[1]
        x, z = self.in_proj(hidden).transpose(1, 2).chunk(2, dim=1)
        x = self.conv1d(x)[..., :length]
        if x.shape[-1] < length:
            x = functional.pad(x, (0, length - x.shape[-1]))
        x = functional.silu(x)
        dt, b, c = self.x_proj(x.transpose(1, 2)).split([self.rank, self.state, self.state], dim=-1)
        dt = functional.softplus(self.dt_proj(dt)).transpose(1, 2)
        a = -torch.exp(self.A_log)
        if self.defect == "decay":
            a = a * 1.1
        decay = torch.exp(dt.unsqueeze(-1) * a[:, None, :])
        change = dt.unsqueeze(-1) * b[:, None] * x.unsqueeze(-1)
        state, found = torch.zeros_like(change[:, :, 0]), []
        for step in range(length):
            state = decay[:, :, step] * state + change[:, :, step]
            found.append(torch.matmul(state, c[:, step].unsqueeze(-1)).squeeze(-1))
        y = torch.stack(found, dim=-1)
        if self.defect != "skip":
            y = y + x * self.D[:, None]
        return self.out_proj((y * functional.silu(z)).transpose(1, 2))


class Layer(nn.Module):
    def __init__(self, hidden, defect):
        super().__init__()
        self.norm, self.mixer = nn.RMSNorm(hidden, eps=1e-5), Mixer(hidden, 4, 3, defect)

    def forward(self, x):
        return x + self.mixer(self.norm(x))


class Model(nn.Module):
    def __init__(self, defect):
        super().__init__()
        planted = {"conv": 1, "decay": 0, "skip": 0}
        self.embeddings = nn.Embedding(50, 16)
        self.layers = nn.ModuleList([Layer(16, defect if planted.get(defect) == layer else None) for layer in range(2)])
        self.norm_f = nn.RMSNorm(16, eps=1e-2 if defect == "eps" else 1e-5)
        self.lm_head = nn.Linear(16, 50, bias=False)

    def forward(self, tokens):
        x = self.embeddings(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm_f(x))


def build(defect):
    """The model, with `defect` or None."""
    return Model(defect)


def spoil(model, defect):
    """Change weights, if that is the defect."""
    if defect == "weight":
        model.layers[1].mixer.x_proj.weight.data[3:5].mul_(1.5)


def loss(model, batch):
    """Cross entropy of the next tokens."""
    return functional.cross_entropy(model(batch["x"]).view(-1, 50), batch["y"].view(-1))
